//! The verdict: what was predicted beside what was measured, the trivial rules and "no change", figure by figure.

use super::cell::{GUEST, HOST};
use super::setting::SETTINGS;
use super::sign::{Accuracy, Confusion, Measured, Pairs, accuracy, advantage};
use crate::experiment::claim::ClaimOutcome;
use crate::experiment::{Claim, Rows};
use pageyard_replay::what_if::{Figure, Reclaim, Sign};
use std::collections::{BTreeMap, BTreeSet};

/// The least cells that the target asks for.
const CELLS: usize = 24;

/// Draws the same intervals from the same rows.
const SEED: u64 = 20_261_123;

const QUICK: &str = "a quick run has too few cells and runs";

/// The predictions and the measurements, cell by cell; the same cells and figures in each.
#[derive(Clone, Debug, Default)]
struct Scored {
    /// By the replays.
    replays: Vec<Pairs>,
    /// By the trivial rules.
    rules: Vec<Pairs>,
    /// Cells that were refused.
    refused: usize,
}

impl Scored {
    fn no_change(&self) -> Vec<Pairs> {
        self.replays.iter().map(|cell| cell.iter().map(|(_, m)| (Sign::None, *m)).collect()).collect()
    }
}

/// Scores the rows of the tables, those of settings that `of` takes.
fn scored(rows: &Rows, tables: &[&str], of: impl Fn(&str) -> bool) -> Scored {
    type Columns<'a> = BTreeMap<&'a str, f64>;
    let mut by_metric: BTreeMap<(&str, &str), Columns<'_>> = BTreeMap::new();
    for row in rows.iter().filter(|r| tables.contains(&r.section)) {
        by_metric.entry((row.section, &row.metric)).or_default().insert(&row.column, row.value);
    }
    let mut cells: BTreeMap<(&str, &str), (Pairs, Pairs)> = BTreeMap::new();
    let mut refused: BTreeSet<(&str, &str)> = BTreeSet::new();
    let mut scored = Scored::default();
    for ((section, metric), columns) in &by_metric {
        let Some((cell, figure)) = metric.rsplit_once('/') else { continue };
        let Some(figure) = Figure::ALL.into_iter().find(|f| f.name() == figure) else { continue };
        if !of(cell.rsplit('/').next().unwrap_or(cell)) {
            continue;
        }
        let get = |column: &str| columns.get(column).copied();
        let measured = || {
            let measured = Measured {
                baseline: get("baseline")?,
                change: get("measured")?,
                low: get("low")?,
                high: get("high")?,
                spread: get("spread")?,
            };
            Some(measured.sign(figure.floor()))
        };
        if get("refused").is_some() {
            refused.insert((section, cell));
            continue;
        }
        // The sign as it was written down: most openings have it.
        let (Some(predicted), Some(rule), Some(measured)) = (get("predicted sign"), get("rule"), measured())
        else {
            continue;
        };
        let (replays, rules) = cells.entry((section, cell)).or_default();
        replays.push((Sign::of(predicted, 0.0, 0.5), measured));
        rules.push((Sign::of(rule, 0.0, 0.5), measured));
    }
    scored.refused = refused.len();
    (scored.replays, scored.rules) = cells.into_values().unzip();
    scored
}

/// Judges the rows.
pub(super) fn claims(rows: &Rows) -> Vec<Claim> {
    let all = scored(rows, &[HOST, GUEST], |_| true);
    let mut claims = vec![cells(&all)];
    let (replays, rules, same) =
        (accuracy(&all.replays, SEED), accuracy(&all.rules, SEED), accuracy(&all.no_change(), SEED));
    for (name, over, other) in
        [("the trivial rules", &all.rules, rules), ("\"no change\"", &all.no_change(), same)]
    {
        let claim = Claim::target(format!("replays say the sign of a change better than {name}"))
            .asked("a higher balanced accuracy with 95 % confidence")
            .quick_is_too_small(QUICK);
        claims.push(match all.replays.is_empty() {
            true => claim.unmeasured("no cell was both predicted and measured"),
            false => {
                let better = advantage(&all.replays, over, SEED);
                let said = format!("{} against {}, better by {}", text(replays), text(other), text(better));
                claim.measured(ClaimOutcome::of(better.low > 0.0), said)
            }
        });
    }
    for (name, table) in [("on the host alone", HOST), ("in the guest alone", GUEST)] {
        let part = scored(rows, &[table], |_| true);
        if !part.replays.is_empty() {
            claims.push(hits(name, &part));
        }
    }
    for (name, decided) in
        [("where requests decide", Reclaim::Recorded), ("where reclaim decides", Reclaim::Imitated)]
    {
        let of = |name: &str| SETTINGS.iter().any(|s| s.name() == name && s.decided == decided);
        let part = scored(rows, &[HOST, GUEST], of);
        if !part.replays.is_empty() {
            claims.push(hits(name, &part));
        }
    }
    claims
}

fn cells(all: &Scored) -> Claim {
    let claim = Claim::target("loads under settings, each predicted and measured")
        .asked(format!("at least {CELLS} cells"))
        .quick_is_too_small(QUICK);
    let said = format!("{} cells, and {} refused", all.replays.len(), all.refused);
    claim.measured(ClaimOutcome::of(all.replays.len() >= CELLS), said)
}

/// Says how often each sign was predicted and measured, at one place.
fn hits(name: &str, part: &Scored) -> Claim {
    let confusion = |of: &[Pairs]| Confusion::of(of.iter().flatten());
    let counts = |c: &Confusion| {
        let right: u32 = Sign::ALL.iter().map(|s| c.count(*s, *s)).sum();
        let missed: u32 = [Sign::Down, Sign::Up].iter().map(|m| c.count(Sign::None, *m)).sum();
        let alarms: u32 = [Sign::Down, Sign::Up].iter().map(|s| c.count(*s, Sign::None)).sum();
        let wrong = c.count(Sign::Up, Sign::Down) + c.count(Sign::Down, Sign::Up);
        format!(
            "{right} right ({} of them changes), {missed} missed, {alarms} false alarms, {wrong} the wrong way",
            right - c.count(Sign::None, Sign::None)
        )
    };
    let (replays, rules) = (confusion(&part.replays), confusion(&part.rules));
    let better = advantage(&part.replays, &part.rules, SEED);
    let said = format!(
        "replays {}: {}; rules {}: {}; {} cells, {} refused; better by {}",
        text(accuracy(&part.replays, SEED)),
        counts(&replays),
        text(accuracy(&part.rules, SEED)),
        counts(&rules),
        part.replays.len(),
        part.refused,
        text(better)
    );
    Claim::target(format!("replays say the sign better than the trivial rules {name}"))
        .asked("better than the trivial rules with 95 % confidence")
        .quick_is_too_small(QUICK)
        .measured(ClaimOutcome::of(better.low > 0.0), said)
}

fn text(of: Accuracy) -> String {
    format!("{:.2} ({:.2} to {:.2})", of.value, of.low, of.high)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(rows: &mut Rows, metric: &str, values: &[(&str, f64)]) {
        values.iter().for_each(|(column, value)| rows.add(metric, *column, *value, "blocks"));
    }

    #[test]
    fn rows_are_scored_by_cell_and_refused_ones_apart() {
        let mut rows = Rows::default();
        rows.section(HOST);
        let measured =
            [("measured", 900.0), ("low", 800.0), ("high", 950.0), ("baseline", 1000.0), ("spread", 9.0)];
        row(&mut rows, "fork/a/drained", &measured);
        row(&mut rows, "fork/a/drained", &[("predicted", 700.0), ("predicted sign", 1.0), ("rule", -1.0)]);
        row(&mut rows, "fork/b/drained", &measured);
        row(&mut rows, "fork/b/drained", &[("refused", 1.0), ("rule", 0.0)]);
        row(&mut rows, "fork/c/drained", &[("predicted", 700.0), ("predicted sign", 1.0), ("rule", -1.0)]);
        let all = scored(&rows, &[HOST, GUEST], |_| true);
        assert_eq!(all.replays, [vec![(Sign::Up, Sign::Up)]]);
        assert_eq!(all.rules, [vec![(Sign::Down, Sign::Up)]]);
        assert_eq!(all.refused, 1);
        let claims = claims(&rows);
        assert_eq!(claims[0].outcome, ClaimOutcome::Missed);
        assert!(claims[0].measured.starts_with("1 cells, and 1 refused"), "{}", claims[0].measured);
        assert_eq!(claims[1].outcome, ClaimOutcome::Reproduced, "{}", claims[1].measured);
        assert!(
            claims.iter().all(|c| matches!(c.clone().of_a_quick_run().outcome, ClaimOutcome::NotCarried(_)))
        );
    }

    #[test]
    fn a_change_that_openings_do_not_agree_on_is_none() {
        let mut rows = Rows::default();
        rows.section(GUEST);
        let measured =
            [("measured", 900.0), ("low", 800.0), ("high", 950.0), ("baseline", 1000.0), ("spread", 9.0)];
        row(&mut rows, "fork/a/drained", &measured);
        row(&mut rows, "fork/a/drained", &[("predicted", 700.0), ("predicted sign", 0.0), ("rule", 1.0)]);
        let all = scored(&rows, &[GUEST], |_| true);
        assert_eq!(
            (all.replays, all.rules),
            (vec![vec![(Sign::None, Sign::Up)]], vec![vec![(Sign::Up, Sign::Up)]])
        );
        assert!(scored(&rows, &[GUEST], |setting| setting == "b").replays.is_empty());
    }

    #[test]
    fn without_rows_nothing_is_judged() {
        let claims = claims(&Rows::default());
        assert!(claims[1..].iter().all(|c| matches!(c.outcome, ClaimOutcome::Unmeasured(_))));
    }
}
