//! The engine's targets in `direct-compaction`, judged by the rows.

use super::super::Rows;
use super::background::{CONFLICTS, WITHOUT_LEASES};
use super::table::{AGAIN, ENGINE, EXAMINED, P};
use super::{background, longterm};
use crate::experiment::claim::{Claim, ClaimOutcome};
use crate::experiment::figure::{Asked, Figure};
use crate::experiment::lines::whole;

/// Returns the engine's claims.
pub fn claims(rows: &Rows) -> Vec<Claim> {
    let mut claims = vec![success(rows, 1), success(rows, 2), examined(rows), long_term(rows)];
    claims.extend(states(rows));
    claims.extend([latency(rows), leases(rows)]);
    claims
}

/// Draws a metric of every column that has it.
fn columns(rows: &Rows, caption: impl Into<String>, metric: &str) -> Figure {
    let bars: Vec<Asked<'_>> =
        [("patch 2", P[0]), ("patch 3", P[1]), ("patch 4", P[2]), ("pageyard", ENGINE)]
            .map(|(label, column)| (label, metric, column))
            .to_vec();
    Figure::shared(caption).group(rows, "here", &bars)
}

fn success(rows: &Rows, phase: u32) -> Claim {
    let metric = format!("Success {phase} Mean");
    let claim = Claim::target(format!(
        "The engine succeeds as often under load, in phase {phase}, as the best reference"
    ))
    .figure(columns(rows, format!("requests of order 4 that succeed in phase {phase}, %"), &metric));
    let best = P.iter().filter_map(|c| rows.get(&metric, c)).fold(f64::NAN, f64::max);
    match rows.get(&metric, ENGINE) {
        Some(own) => {
            let noise = rows.get(&metric, AGAIN).zip(rows.get(&metric, P[0])).map_or(0.0, |(a, b)| a - b);
            claim.measured(
                ClaimOutcome::at_least(own, best, noise),
                format!("{own:.1} %, the best reference {best:.1} %"),
            )
        }
        None => claim,
    }
}

fn examined(rows: &Rows) -> Claim {
    let claim = Claim::target("It examines far fewer frames for each success")
        .asked("at most half of what the reference that succeeds most often examines")
        .figure(columns(rows, "frames examined for each success under load", EXAMINED));
    let success = |c: &str| rows.get("Success 1 Mean", c).unwrap_or(0.0);
    let best = P.iter().max_by(|a, b| success(a).total_cmp(&success(b)));
    match best.and_then(|best| Some((best, rows.get(EXAMINED, best)?, rows.get(EXAMINED, ENGINE)?))) {
        Some((best, its, own)) => claim.measured(
            ClaimOutcome::of(own <= its / 2.0),
            format!("{} frames, {best} {}", whole(own), whole(its)),
        ),
        None => claim,
    }
}

fn long_term(rows: &Rows) -> Claim {
    let claim = Claim::target("After many phases its memory is no more fragmented than the best reference's");
    let last = (1..).take_while(|n| rows.get(&format!("Success {n}"), ENGINE).is_some()).last();
    let Some(n) = last.filter(|_| !rows.columns(longterm::SECTION).is_empty()) else { return claim };
    let metric = format!("unusable_index of order 9, phase {n}");
    let best = P.iter().filter_map(|c| rows.get(&metric, c)).fold(f64::NAN, f64::min);
    let claim = claim.figure(columns(rows, format!("unusable_index of order 9 after {n} phases"), &metric));
    match rows.get(&metric, ENGINE) {
        Some(own) => claim.measured(
            ClaimOutcome::of(own <= best),
            format!("{own:.3}, the best reference {best:.3}; the unusable_index of order 9 after {n} phases"),
        ),
        None => claim,
    }
}

/// Returns the claims on memory in a named state, two for each.
fn states(rows: &Rows) -> Vec<Claim> {
    let metrics = rows.metrics(background::SECTION).into_iter().filter(|m| m.ends_with("made of allowed"));
    let mut claims = Vec::new();
    for metric in metrics {
        let name = metric.trim_end_matches(": made of allowed");
        let moved = format!("{name}: moved by must");
        let (Some(made), Some(by)) = (rows.get(metric, ENGINE), rows.get(&moved, ENGINE)) else { continue };
        claims.push(
            Claim::target(format!(
                "From {name}, the engine's compaction makes the huge frames that the pins allow"
            ))
            .asked("at least 90 % of them")
            .figure(columns(rows, "huge frames made, % of those that pins allow", metric).asked(90.0))
            .measured(ClaimOutcome::of(made >= 90.0), format!("{made:.1} %")),
        );
        claims.push(
            Claim::target(format!("From {name}, it moves hardly more frames than must move"))
                .asked("at most 1.5 times as many")
                .figure(
                    columns(rows, "frames moved, in multiples of those that must move", &moved).asked(1.5),
                )
                .measured(ClaimOutcome::of(by <= 1.5), format!("{by:.2} times as many")),
        );
    }
    claims
}

fn latency(rows: &Rows) -> Claim {
    let metric = "order 9, one direct compaction: p99";
    let claim = Claim::target("One direct compaction of the engine for order 9 is short, without copies")
        .asked("at most 300 µs at the 99th percentile")
        .figure(
            columns(
                rows,
                "one direct compaction for order 9, without copies, µs at the 99th percentile",
                metric,
            )
            .asked(300.0),
        );
    match rows.get(metric, ENGINE) {
        Some(p99) => claim.measured(ClaimOutcome::of(p99 <= 300.0), format!("{p99:.0} µs")),
        None => claim,
    }
}

fn leases(rows: &Rows) -> Claim {
    let (without, with) = (WITHOUT_LEASES, "reference:patch4 leases=true");
    let claim = Claim::target("Leases keep two compactors out of one pageblock")
        .asked("no pageblock in use for opposite ends")
        .figure(Figure::shared("pageblocks in use for opposite ends, two compactors at once").group(
            rows,
            "here",
            &[("without leases", CONFLICTS, without), ("with leases", CONFLICTS, with)],
        ));
    match (rows.get(CONFLICTS, without), rows.get(CONFLICTS, with)) {
        (Some(0.0), Some(0.0)) => {
            let none = ClaimOutcome::NotCarried("without leases there were none either".into());
            claim.measured(none, "none without leases, none with them")
        }
        (Some(a), Some(b)) => claim.measured(
            ClaimOutcome::of(b == 0.0),
            format!("{a:.0} times without leases, {b:.0} times with them"),
        ),
        _ => claim,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leases_are_judged_where_compactors_meet_without_them() {
        let outcome = |without: f64, with: f64| {
            let mut rows = Rows::default();
            for (column, n) in [("false", without), ("true", with)] {
                let column = format!("reference:patch4 leases={column}");
                rows.add("pageblocks in use for opposite ends", column, n, "");
            }
            leases(&rows).outcome.name()
        };
        assert_eq!(
            [outcome(13.0, 0.0), outcome(13.0, 1.0), outcome(0.0, 0.0)],
            ["reproduced", "missed", "not_carried"]
        );
    }

    fn outcomes(own: f64) -> Vec<&'static str> {
        let mut rows = Rows::default();
        rows.section("table");
        for phase in [1, 2] {
            for (column, n) in P.iter().zip([51.0, 56.0, 85.0]) {
                rows.add(format!("Success {phase} Mean"), *column, n, "%");
            }
            rows.add(format!("Success {phase} Mean"), ENGINE, 100.0 * own, "%");
        }
        for (column, n) in P.iter().zip([32_747.0, 19_188.0, 256.0]) {
            rows.add(EXAMINED, *column, n, "");
        }
        rows.add(EXAMINED, ENGINE, 120.0 / own, "");
        rows.section(background::SECTION);
        rows.add("a state: made of allowed", ENGINE, 100.0 * own, "%");
        rows.add("a state: moved by must", ENGINE, 1.0 / own, "");
        rows.add("order 9, one direct compaction: p99", ENGINE, 200.0 / own, "µs");
        claims(&rows).iter().map(|c| c.outcome.name()).collect()
    }

    #[test]
    fn targets_are_reached_and_missed_by_their_rows() {
        let (held, missed) = (outcomes(1.0), outcomes(0.5));
        assert_eq!(held[..3], ["reproduced"; 3]);
        assert_eq!(held[3..], ["unmeasured", "reproduced", "reproduced", "reproduced", "unmeasured"]);
        assert_eq!(missed[..3], ["missed"; 3]);
        assert_eq!(missed[3..], ["unmeasured", "missed", "missed", "missed", "unmeasured"]);
    }
}
