//! The document's table row by row: how each figure changes from patch to patch, there and here, and whether the seeds
//! carry it.

use super::super::{Published, Rows};
use super::table::figures;
use crate::experiment::claim::{Claim, ClaimOutcome};
use fastrand::Rng;
use pageyard_replay::workload::stress::Report;
use std::cmp::Ordering;

/// The section of the table.
pub const SECTION: &str = "How each row of the document's table changes";

/// The steps from patch to patch.
pub const STEPS: [(&str, [&str; 2]); 2] =
    [("patch 2 to 3", ["patch2", "patch3"]), ("patch 3 to 4", ["patch3", "patch4"])];

/// The same variant measured twice.
pub const AGAIN: &str = "patch 2 to itself";

const PUBLISHED: &str = "published:change";
const CHANGE: &str = "reference:change";
const LOW: &str = "reference:low";
const HIGH: &str = "reference:high";

/// How often the seeds are drawn anew.
const DRAWS: usize = 2000;

/// Returns by how many percent a figure grows; none from 0.
fn grows(before: f64, after: f64) -> Option<f64> {
    (before != 0.0).then(|| (after / before - 1.0) * 100.0)
}

/// Adds how every figure changes between two columns whose runs have the same seeds in the same order: the change, and
/// the interval that holds it in 95 of 100 draws of the seeds, with both columns' runs of a seed drawn together.
pub fn add(rows: &mut Rows, step: &str, before: &[&Report], after: &[&Report]) {
    let changes = |which: &[usize]| -> Vec<(String, Option<f64>)> {
        let of = |runs: &[&Report]| figures(&which.iter().map(|i| runs[*i]).collect::<Vec<_>>());
        let pairs = of(before).into_iter().zip(of(after));
        pairs.map(|((label, _, a), (_, _, b))| (label, grows(a, b))).collect()
    };
    let n = before.len().min(after.len());
    let mut rng = Rng::with_seed(n as u64);
    let draws: Vec<_> =
        (0..DRAWS).map(|_| changes(&(0..n).map(|_| rng.usize(0..n)).collect::<Vec<_>>())).collect();
    for (row, (label, change)) in changes(&(0..n).collect::<Vec<_>>()).into_iter().enumerate() {
        let Some(change) = change else { continue };
        let mut drawn: Vec<f64> = draws.iter().filter_map(|d| d[row].1).collect();
        drawn.sort_by(f64::total_cmp);
        let at = |share: f64| drawn.get((share * (drawn.len() - 1) as f64).round() as usize).copied();
        let metric = format!("{label}: {step}");
        rows.add(metric.as_str(), CHANGE, change, "%");
        rows.add(metric.as_str(), LOW, at(0.025).unwrap_or(f64::NAN), "%");
        rows.add(metric, HIGH, at(0.975).unwrap_or(f64::NAN), "%");
    }
}

/// Reads how the document's figures change.
pub fn published(tables: &Published) -> Rows {
    let mut rows = Rows::default();
    rows.setting("as published");
    rows.section(SECTION);
    let whole = super::table::published(tables);
    for (step, columns) in STEPS {
        for label in whole.metrics(super::table::SECTION) {
            let [before, after] = columns.map(|c| whole.get(label, &format!("published:{c}")));
            let change = before.zip(after).and_then(|(a, b)| grows(a, b));
            rows.add(format!("{label}: {step}"), PUBLISHED, change.unwrap_or(f64::NAN), "%");
        }
    }
    rows
}

/// The change of one row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Sign {
    Same,
    Other,
    /// The interval holds 0.
    Open,
}

/// Compares the sign of a published change with a measured one and its interval.
fn sign(published: f64, change: f64, low: f64, high: f64) -> Sign {
    match (low <= 0.0 && high >= 0.0, published.total_cmp(&0.0) == change.total_cmp(&0.0)) {
        (true, _) => Sign::Open,
        (false, true) => Sign::Same,
        (false, false) => Sign::Other,
    }
}

/// Returns how a row changes, and the ends of its interval.
pub fn interval(rows: &Rows, metric: &str) -> Option<[f64; 3]> {
    Some([rows.get(metric, CHANGE)?, rows.get(metric, LOW)?, rows.get(metric, HIGH)?])
}

/// Returns how a row changes in the document, as text.
pub fn printed(rows: &Rows, metric: &str) -> Option<String> {
    rows.get(metric, PUBLISHED).map(|change| format!("{change:+.1} %"))
}

/// Claims, for each step, that every row changes as in the document.
pub fn claims(rows: &Rows) -> impl Iterator<Item = Claim> {
    STEPS.map(|(step, _)| claim(rows, step)).into_iter()
}

fn claim(rows: &Rows, step: &str) -> Claim {
    let claim = Claim::document(format!("Every row of the table changes as in the document, {step}"));
    let (mut same, mut other, mut open, mut near) = (0, Vec::new(), Vec::new(), 0);
    let (mut seen, mut published_rows) = (Vec::new(), 0);
    for metric in rows.metrics(SECTION).into_iter().filter(|m| m.ends_with(step)) {
        let Some(published) =
            rows.get(metric, PUBLISHED).filter(|p| p.partial_cmp(&0.0) != Some(Ordering::Equal))
        else {
            continue;
        };
        published_rows += 1;
        let [change, low, high] = [CHANGE, LOW, HIGH].map(|c| rows.get(metric, c));
        let (Some(change), Some(low), Some(high)) = (change, low, high) else { continue };
        seen.push(metric);
        let label = metric.split(": ").next().unwrap_or(metric);
        match sign(published, change, low, high) {
            Sign::Same => {
                same += 1;
                near += usize::from((0.5..=2.0).contains(&(change / published)));
            }
            Sign::Other => other.push(format!("{label} {change:+.1} (published {published:+.1})")),
            Sign::Open => open.push(label),
        }
    }
    let claim = claim.published((published_rows > 0).then(|| format!("{published_rows} rows that change")));
    if seen.is_empty() {
        return claim;
    }
    let mut measured =
        format!("{same} of {} have its sign, {near} of them within a factor of two", seen.len());
    if !other.is_empty() {
        measured += &format!("; the other sign: {}", other.join(", "));
    }
    if !open.is_empty() {
        measured += &format!("; not carried by the seeds: {}", open.join(", "));
    }
    let outcome = match (other.is_empty(), open.is_empty()) {
        (false, _) => ClaimOutcome::Missed,
        (true, false) => ClaimOutcome::NotCarried(format!("the intervals of {} rows hold 0", open.len())),
        (true, true) => ClaimOutcome::Reproduced,
    };
    claim.on(rows, &seen, &[CHANGE, LOW, HIGH]).measured(outcome, measured)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(changes: &[(&str, f64, [f64; 3])]) -> Rows {
        let mut rows = Rows::default();
        rows.section(SECTION);
        for (label, published, here) in changes {
            let metric = format!("{label}: patch 2 to 3");
            rows.add(metric.as_str(), PUBLISHED, *published, "%");
            for (column, value) in [CHANGE, LOW, HIGH].iter().zip(here) {
                rows.add(metric.as_str(), *column, *value, "%");
            }
        }
        rows
    }

    #[test]
    fn one_row_with_the_other_sign_is_a_miss_and_one_whose_interval_holds_zero_is_not_carried() {
        let good = ("Stalls", 20.0, [30.0, 10.0, 50.0]);
        let open = ("System", -2.0, [-3.0, -9.0, 4.0]);
        let bad = ("Isolated", -12.0, [5.0, 1.0, 9.0]);
        let outcome = |changes: &[_]| {
            let claim = claim(&rows(changes), "patch 2 to 3");
            (claim.outcome.name(), claim.measured)
        };
        assert_eq!(outcome(&[good]).0, "reproduced");
        assert_eq!(outcome(&[good, open]).0, "not_carried");
        let (name, measured) = outcome(&[good, open, bad]);
        assert_eq!(name, "missed");
        assert!(measured.starts_with("1 of 3 have its sign, 1 of them within"), "{measured}");
        assert!(
            measured.contains("Isolated +5.0 (published -12.0)") && measured.contains("System"),
            "{measured}"
        );
        assert_eq!(outcome(&[]).0, "unmeasured");
    }

    #[test]
    fn a_row_that_the_document_leaves_at_zero_is_not_asked_for() {
        let still = ("Direct", 0.0, [5.0, 1.0, 9.0]);
        assert_eq!(claim(&rows(&[still]), "patch 2 to 3").outcome.name(), "unmeasured");
    }
}
