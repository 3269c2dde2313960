//! What was reproduced, in sign and in size, and what was not.

use super::super::{Rows, gain};
use super::background;
use super::longterm;
use super::sensitivity;
use super::table::{EXAMINED, FREE, MIGRATE, SUM};
use std::fmt::Write;

const P: [&str; 3] = ["reference:patch2", "reference:patch3", "reference:patch4"];
const PUBLISHED: [&str; 3] = ["published:patch2", "published:patch3", "published:patch4"];
const ENGINE: &str = "pageyard";

/// Says whether a figure reaches what it should.
fn mark(reached: bool) -> &'static str {
    if reached { "reached" } else { "missed" }
}

/// Returns how much less the second column has, in percent.
fn less(rows: &Rows, metric: &str, columns: [&str; 2]) -> Option<f64> {
    Some(gain(rows.get(metric, columns[0])?, rows.get(metric, columns[1])?))
}

fn beside(published: Option<f64>, unit: &str) -> String {
    published.map_or(String::new(), |p| format!(", published {p:.1}{unit}"))
}

/// Writes the verdict.
pub fn verdict(rows: &Rows) -> String {
    let mut text = String::new();
    reference(rows, &mut text);
    engine(rows, &mut text);
    states(rows, &mut text);
    sensitive(rows, &mut text);
    text.trim_end().to_owned()
}

fn reference(rows: &Rows, text: &mut String) {
    if let Some(less_now) = less(rows, MIGRATE, [P[0], P[1]]) {
        let was = beside(less(rows, MIGRATE, [PUBLISHED[0], PUBLISHED[1]]), " %");
        let _ = write!(
            text,
            "Patch 3 scans {less_now:.1} % fewer frames for migration than patch 2 (at least 20 %: {}{was}). ",
            mark(less_now >= 20.0)
        );
    }
    if let (Some(free), Some(sum)) = (less(rows, FREE, [P[1], P[2]]), less(rows, SUM, [P[1], P[2]])) {
        let was = beside(less(rows, FREE, [PUBLISHED[1], PUBLISHED[2]]), " %");
        let _ = write!(
            text,
            "Patch 4 scans {free:.1} % fewer free frames than patch 3, {sum:.1} % with direct allocations added (at least 60 %: \
             {}{was}). ",
            mark(free >= 60.0)
        );
    }
    let ratio = |c: [&str; 3]| Some(rows.get("Success 1 Mean", c[2])? / rows.get("Success 1 Mean", c[1])?);
    if let Some(times) = ratio(P) {
        let was = beside(ratio(PUBLISHED), " times");
        let _ = write!(
            text,
            "It succeeds {times:.2} times as often in phase 1 (at least 1.3: {}{was}). ",
            mark(times >= 1.3)
        );
    }
    if let Some(less_now) = less(rows, MIGRATE, [P[1], P[2]]) {
        let was = beside(less(rows, MIGRATE, [PUBLISHED[1], PUBLISHED[2]]), " %");
        let _ = write!(text, "It also scans {less_now:.1} % fewer frames for migration{was}. ");
    }
    let reclaimed = "Direct pages reclaimed";
    if let Some(less_now) = less(rows, reclaimed, [P[1], P[2]]) {
        let was = beside(less(rows, reclaimed, [PUBLISHED[1], PUBLISHED[2]]), " %");
        let _ = write!(text, "Direct reclaim frees {less_now:.1} % less{was}. ");
    }
}

fn engine(rows: &Rows, text: &mut String) {
    for phase in [1, 2] {
        let metric = format!("Success {phase} Mean");
        let best = P.iter().filter_map(|c| rows.get(&metric, c)).fold(f64::NAN, f64::max);
        if let Some(own) = rows.get(&metric, ENGINE) {
            let _ = write!(
                text,
                "The engine's success in phase {phase} is {own:.1} %, the best reference's {best:.1} % ({}). ",
                mark(own >= best)
            );
        }
    }
    let best = P.iter().max_by(|a, b| {
        let success = |c: &str| rows.get("Success 1 Mean", c).unwrap_or(0.0);
        success(a).total_cmp(&success(b))
    });
    if let (Some(best), Some(own)) = (best, rows.get(EXAMINED, ENGINE))
        && let Some(its) = rows.get(EXAMINED, best)
    {
        let _ = write!(
            text,
            "It examines {own:.0} frames for each success, {best} {its:.0} (at most half: {}). ",
            mark(own <= its / 2.0)
        );
    }
    let last = (1..).take_while(|n| rows.get(&format!("Success {n}"), ENGINE).is_some()).last();
    if let Some(n) = last.filter(|_| !rows.columns(longterm::SECTION).is_empty()) {
        let metric = format!("unusable_index of order 9, phase {n}");
        let best = P.iter().filter_map(|c| rows.get(&metric, c)).fold(f64::NAN, f64::min);
        if let Some(own) = rows.get(&metric, ENGINE) {
            let _ = write!(
                text,
                "After {n} phases its unusable_index of order 9 is {own:.3}, the best reference's {best:.3} ({}). ",
                mark(own <= best)
            );
        }
    }
}

fn states(rows: &Rows, text: &mut String) {
    for metric in rows.metrics(background::SECTION).into_iter().filter(|m| m.ends_with("made of allowed")) {
        let name = metric.trim_end_matches(": made of allowed");
        if let (Some(made), Some(by)) =
            (rows.get(metric, ENGINE), rows.get(&format!("{name}: moved by must"), ENGINE))
        {
            let _ = write!(
                text,
                "From {name}, the engine's compaction makes {made:.1} % of the huge frames that the pins allow (at least 90 %: {}) \
                 and moves {by:.2} times the frames that must move (at most 1.5: {}). ",
                mark(made >= 90.0),
                mark(by <= 1.5)
            );
        }
    }
    if let Some(p99) = rows.get("order 9, one direct compaction: p99", ENGINE) {
        let _ = write!(
            text,
            "One direct compaction for order 9 takes the engine {p99:.0} µs at the 99th percentile, without copies (at most \
             300: {}). ",
            mark(p99 <= 300.0)
        );
    }
    let conflicts = |leases: &str| {
        rows.get("pageblocks in use for opposite ends", &format!("reference:patch4 leases={leases}"))
    };
    if let (Some(without), Some(with)) = (conflicts("false"), conflicts("true")) {
        let _ = write!(
            text,
            "Two compactors at once were in one pageblock for opposite ends {without:.0} times without leases and {with:.0} \
             times with them. "
        );
    }
}

fn sensitive(rows: &Rows, text: &mut String) {
    if rows.columns(sensitivity::SECTION).is_empty() {
        return;
    }
    let (migrate, all) = sensitivity::holds(rows, MIGRATE, |p2, p3, _| gain(p2, p3) >= 20.0);
    let (free, _) = sensitivity::holds(rows, FREE, |_, p3, p4| gain(p3, p4) >= 60.0);
    let (success, _) = sensitivity::holds(rows, "Success 1", |_, p3, p4| p4 >= 1.3 * p3);
    let (any, _) = sensitivity::holds(rows, "Success 1", |_, p3, p4| p4 >= p3 - 0.5);
    let _ = write!(
        text,
        "Of {all} settings of the workload, each changed alone on a smaller machine, the first holds in {migrate}, the second in \
         {free}, the third in {success}; patch 4 succeeds no less often than patch 3 in {any}. "
    );
}
