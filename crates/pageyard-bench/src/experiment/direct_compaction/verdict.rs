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

/// Says how much less, or more, something is; `word` is the word for "less".
fn change(less: f64, word: &str) -> String {
    let word = if less < 0.0 { "more" } else { word };
    format!("{:.1} % {word}", less.abs())
}

fn beside(published: Option<String>) -> String {
    published.map_or(String::new(), |p| format!(", published {p}"))
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
    let by = |metric, columns, word| Some(change(less(rows, metric, columns)?, word));
    if let Some(less_now) = less(rows, MIGRATE, [P[0], P[1]]) {
        let was = beside(by(MIGRATE, [PUBLISHED[0], PUBLISHED[1]], "fewer"));
        let _ = write!(
            text,
            "Patch 3 scans {} frames for migration than patch 2 (at least 20 % fewer: {}{was}). ",
            change(less_now, "fewer"),
            mark(less_now >= 20.0)
        );
    }
    if let (Some(free), Some(sum)) = (less(rows, FREE, [P[1], P[2]]), by(SUM, [P[1], P[2]], "fewer")) {
        let was = beside(by(FREE, [PUBLISHED[1], PUBLISHED[2]], "fewer"));
        let _ = write!(
            text,
            "Patch 4 scans {} free frames than patch 3, {sum} with direct allocations added (at least 60 % fewer: {}{was}). ",
            change(free, "fewer"),
            mark(free >= 60.0)
        );
    }
    let ratio = |c: [&str; 3]| Some(rows.get("Success 1 Mean", c[2])? / rows.get("Success 1 Mean", c[1])?);
    if let Some(times) = ratio(P) {
        let was = beside(ratio(PUBLISHED).map(|times| format!("{times:.1} times")));
        let _ = write!(
            text,
            "It succeeds {times:.2} times as often in phase 1 (at least 1.3: {}{was}). ",
            mark(times >= 1.3)
        );
    }
    if let Some(now) = by(MIGRATE, [P[1], P[2]], "fewer") {
        let was = beside(by(MIGRATE, [PUBLISHED[1], PUBLISHED[2]], "fewer"));
        let _ = write!(text, "It also scans {now} frames for migration{was}. ");
    }
    let reclaimed = "Direct pages reclaimed";
    if let Some(now) = by(reclaimed, [P[1], P[2]], "less") {
        let was = beside(by(reclaimed, [PUBLISHED[1], PUBLISHED[2]], "less"));
        let _ = write!(text, "Direct reclaim frees {now}{was}. ");
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_grew_is_said_to_be_more() {
        let mut rows = Rows::default();
        rows.section("table");
        for (column, n) in P.iter().zip([100.0, 122.0, 61.0]) {
            rows.add(MIGRATE, *column, n, "");
        }
        for (column, n) in PUBLISHED.iter().zip([100.0, 75.0, 50.0]) {
            rows.add(MIGRATE, *column, n, "");
        }
        let text = verdict(&rows);
        assert!(text.contains("Patch 3 scans 22.0 % more frames for migration than patch 2"), "{text}");
        assert!(text.contains("missed, published 25.0 % fewer"), "{text}");
        assert!(text.contains("also scans 50.0 % fewer frames") && !text.contains('-'), "{text}");
    }
}
