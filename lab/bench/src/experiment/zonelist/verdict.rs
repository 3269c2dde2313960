//! The claims of `zonelist`, judged by its rows.

use super::subjects::{CALLED, ENGINE, INLINED, NODES, ONE_ZONE, OPTITER, STATINLINE};
use crate::experiment::claim::{Claim, ClaimOutcome, worst_pair};
use crate::experiment::figure::Figure;
use crate::experiment::machines::batches;
use crate::experiment::{DISTURBED, Rows};

pub(super) fn claims(rows: &Rows) -> Vec<Claim> {
    vec![
        sweep(rows).at("004, table of batches"),
        instructions(rows).at("004, the commit's text"),
        nodes(rows).at("004, the commit's text"),
        engine(rows),
        slow_path(rows).at("004, the commit's text"),
        size(rows).at("004, table of batches"),
    ]
}

fn gains(rows: &Rows, kind: &str, column: &str) -> Vec<f64> {
    let gain = |n: usize| rows.get(&format!("gain {kind} alloc-odr0-{n}"), column);
    let mut all: Vec<f64> = batches(false).into_iter().filter_map(gain).collect();
    all.sort_unstable_by(f64::total_cmp);
    all
}

fn sweep(rows: &Rows) -> Claim {
    let published = gains(rows, "Min", OPTITER);
    let printed = published.first().zip(published.last()).map(|(l, h)| format!("{l:.1} to {h:.1} % less"));
    let metrics = |kind: &str| -> Vec<String> {
        batches(false).iter().map(|n| format!("gain {kind} alloc-odr0-{n}")).collect()
    };
    let one = "Min alloc-odr0-64";
    let claim = Claim::document("Inlining the iterator's fast path makes taking a frame cheaper at every batch size")
        .published(printed)
        .on(rows, &metrics("Min"), &[OPTITER])
        .on(rows, &metrics("turn by turn"), &[INLINED])
        .figure(
            Figure::own("one frame taken in batches of 64, least; in multiples of each machine's own time before the patch")
                .group(rows, "published", &[("called", one, STATINLINE), ("inlined", one, OPTITER)])
                .group(
                    rows,
                    "here",
                    &[
                        ("called", one, CALLED),
                        ("inlined", one, INLINED),
                        ("pageyard", "Min alloc-odr0-64, 1 node", ENGINE),
                    ],
                ),
        )
        .quick_is_too_small("it measures 4 of the 15 batch sizes");
    let all = gains(rows, "turn by turn", INLINED);
    let (Some(low), Some(high)) = (all.first(), all.last()) else { return claim };
    let middle = all[all.len() / 2];
    let saved = all.iter().filter(|g| **g > 0.0).count();
    // Pairs without a cpuset: those that another thread disturbs on purpose say nothing of these rows.
    let pair = worst_pair(rows.iter().filter(|r| r.column == CALLED && !r.metric.contains(',')));
    claim.measured(
        ClaimOutcome::of_effect(saved == all.len(), middle, pair),
        format!(
            "{}, {middle:.1} % at the median batch; less at {saved} of {} batch sizes, turn by turn",
            range(*low, *high),
            all.len()
        ),
    )
}

/// Says how much less something costs, from a range of savings in percent.
fn range(low: f64, high: f64) -> String {
    format!("{low:.1} to {high:.1} % less")
}

fn instructions(rows: &Rows) -> Claim {
    let metric = |mask: &str| format!("instructions of alloc and free, {mask}");
    let (none, mask) = (metric("no cpuset"), metric("cpuset of some nodes"));
    let claim = Claim::document("Without cpusets the inlined form runs fewer instructions").figure(
        Figure::shared("instructions of a frame taken and given back")
            .group(rows, "here, without cpusets", &[("called", &none, CALLED), ("inlined", &none, INLINED)])
            .group(rows, "here, in a cpuset", &[("called", &mask, CALLED), ("inlined", &mask, INLINED)]),
    );
    let count = |metric: &str, column: &str| rows.get(metric, column);
    let (Some(called), Some(inlined)) = (count(&none, CALLED), count(&none, INLINED)) else {
        return claim.unmeasured("valgrind did not run");
    };
    let masked = match (count(&mask, CALLED), count(&mask, INLINED)) {
        (Some(c), Some(i)) => format!("; in a cpuset, where both forms call, {c:.0} and {i:.0}"),
        _ => String::new(),
    };
    let fewer = (called - inlined) / called * 100.0;
    claim.measured(
        ClaimOutcome::of(inlined < called),
        format!("{fewer:.1} % fewer, {called:.0} called and {inlined:.0} inlined{masked}"),
    )
}

/// Four full runs of the same code had 3.9 to 6.0 % at the median batch.
const RUNS: f64 = 2.1;

/// The size of the saving.
fn size(rows: &Rows) -> Claim {
    let (published, here) = (gains(rows, "Min", OPTITER), gains(rows, "turn by turn", INLINED));
    let claim =
        Claim::document("The saving is 4.4 to 7.3 %")
            .asked("the median batch within that range")
            .published((!published.is_empty()).then(|| {
                format!("{:.1} % in the mean", published.iter().sum::<f64>() / published.len() as f64)
            }))
            .on(rows, &["gain turn by turn alloc-odr0-64"], &[INLINED])
            .quick_is_too_small("it measures 4 of the 15 batch sizes");
    let (Some(low), Some(high), false) = (published.first(), published.last(), here.is_empty()) else {
        return claim;
    };
    let middle = here[here.len() / 2];
    let pair = worst_pair(rows.iter().filter(|r| r.column == CALLED && !r.metric.contains(',')));
    // Whichever bound is closer.
    let noise = pair.max(RUNS);
    let outcome = match middle - low < high - middle {
        true => ClaimOutcome::at_least(middle, *low, noise),
        false => ClaimOutcome::at_most(middle, *high, noise),
    };
    claim.measured(
        outcome,
        range(here[0], here[here.len() - 1]) + &format!(", {middle:.1} % at the median batch"),
    )
}

/// The slow path, whose "junk" the text says is removed.
fn slow_path(rows: &Rows) -> Claim {
    let metric = "instructions of alloc and free, on the slow path, no cpuset";
    let claim = Claim::document("The slow path becomes shorter, too").on(rows, &[metric], &[CALLED, INLINED]);
    match (rows.get(metric, CALLED), rows.get(metric, INLINED)) {
        (Some(called), Some(inlined)) => claim.measured(
            ClaimOutcome::of(inlined < called),
            format!("{called:.0} instructions called, {inlined:.0} inlined"),
        ),
        _ => claim.unmeasured("valgrind did not run"),
    }
}

fn nodes_text(nodes: u8) -> String {
    if nodes == 1 { "1 node".into() } else { format!("{nodes} nodes") }
}

/// Joins percentages, with their signs.
fn signed(all: &[f64]) -> String {
    all.iter().map(|g| format!("{g:+.1}")).collect::<Vec<_>>().join(", ")
}

fn nodes(rows: &Rows) -> Claim {
    let metric = |n: &u8, mask: &str| format!("gain turn by turn, alloc-odr0-64, {}, {mask}", nodes_text(*n));
    let saved = |mask: &str| -> Vec<f64> {
        NODES.iter().filter_map(|n| rows.get(&metric(n, mask), INLINED)).collect()
    };
    let mut figure = Figure::own(
        "one frame taken in batches of 64 without cpusets, least; in multiples of the called form's time",
    );
    for n in NODES {
        let metric = format!("Min alloc-odr0-64, {}, no cpuset", nodes_text(n));
        figure =
            figure.group(rows, nodes_text(n), &[("called", &metric, CALLED), ("inlined", &metric, INLINED)]);
    }
    let all = saved("no cpuset");
    let claim =
        Claim::document("The saving does not depend on the number of nodes, as long as there is no cpuset")
            .asked("less on each machine")
            .on(rows, &NODES.map(|n| metric(&n, "no cpuset")), &[INLINED])
            .figure(figure);
    if all.len() < NODES.len() {
        return claim;
    }
    let masks: Vec<String> = ["cpuset of all nodes", "cpuset of some nodes", "cpuset changed during walks"]
        .into_iter()
        .filter(|mask| !saved(mask).is_empty())
        .map(|mask| format!("{} % in a {mask}", signed(&saved(mask))))
        .collect();
    let masks = if masks.is_empty() { String::new() } else { format!("; {}", masks.join(", ")) };
    let least = all.iter().copied().fold(f64::INFINITY, f64::min);
    let unconfined = |metric: &str| metric.contains("alloc-odr0-64,") && metric.ends_with("no cpuset");
    let pair = worst_pair(rows.iter().filter(|r| unconfined(&r.metric) && r.column == CALLED));
    claim.measured(
        ClaimOutcome::of_effect(least > 0.0, least, pair),
        format!("{} % saved on 1, 2, 4 and 8 nodes{masks}", signed(&all)),
    )
}

fn engine(rows: &Rows) -> Claim {
    let more = |what: &str| -> Vec<f64> {
        let metric = |n: &u8| format!("more than one zone, turn by turn, {what}-odr0-64, {}", nodes_text(*n));
        NODES.iter().filter_map(|n| rows.get(&metric(n), ENGINE)).collect()
    };
    let metrics: Vec<String> = ["alloc", "total"]
        .iter()
        .flat_map(|what| {
            NODES.map(|n| format!("more than one zone, turn by turn, {what}-odr0-64, {}", nodes_text(n)))
        })
        .collect();
    let mut figure = Figure::own(
        "one frame taken and given back in batches of 64, least; in multiples of one zone's time",
    );
    for n in NODES {
        let metric = format!("Min total-odr0-64, {}", nodes_text(n));
        figure = figure.group(
            rows,
            nodes_text(n),
            &[("one zone", &metric, ONE_ZONE), ("three a node", &metric, ENGINE)],
        );
    }
    let claim = Claim::target(
        "A walk of the engine over the zones of several nodes costs nothing measurable over one zone",
    )
    .asked(format!("at most {DISTURBED:.0} % more, which is what a pair of the same code may differ by"))
    .on(rows, &metrics, &[ENGINE])
    .figure(figure);
    let (alloc, total) = (more("alloc"), more("total"));
    if total.len() < NODES.len() || alloc.len() < NODES.len() {
        return claim;
    }
    claim.measured(
        ClaimOutcome::at_most(
            alloc.iter().chain(&total).copied().fold(f64::NEG_INFINITY, f64::max),
            DISTURBED,
            1.0,
        ),
        format!(
            "{} % more to take a frame; {} % more to take it and give it back, both on 1, 2, 4 and 8 nodes",
            signed(&alloc),
            signed(&total)
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows of a run in which inlining saves this much, a pair differs by so much, and the engine's walk costs so much
    /// more.
    fn rows(saved: f64, pair: f64, walk: f64) -> Rows {
        let mut rows = Rows::default();
        for n in batches(false) {
            rows.section("One node, no mask");
            rows.add(format!("A/A alloc-odr0-{n}"), CALLED, pair, "% apart");
            rows.section("Less than called");
            rows.add(format!("gain turn by turn alloc-odr0-{n}"), INLINED, saved, "%");
            rows.add(format!("gain Min alloc-odr0-{n}"), OPTITER, 5.0, "%");
        }
        for n in NODES.map(nodes_text) {
            rows.section("Nodes and cpusets");
            rows.add(format!("A/A alloc-odr0-64, {n}, no cpuset"), CALLED, pair, "% apart");
            rows.add(format!("A/A alloc-odr0-64, {n}, cpuset changed during walks"), CALLED, 30.0, "% apart");
            rows.add(format!("gain turn by turn, alloc-odr0-64, {n}, no cpuset"), INLINED, saved, "%");
            rows.section("The engine");
            rows.add(format!("more than one zone, turn by turn, alloc-odr0-64, {n}"), ENGINE, walk, "%");
            rows.add(format!("more than one zone, turn by turn, total-odr0-64, {n}"), ENGINE, walk, "%");
        }
        rows
    }

    fn names(claims: &[Claim]) -> Vec<&str> {
        claims.iter().map(|c| c.outcome.name()).collect()
    }

    #[test]
    fn claims_are_reproduced_missed_and_unmeasured_by_their_rows() {
        assert_eq!(
            names(&claims(&rows(8.0, 1.0, 2.0))),
            ["reproduced", "unmeasured", "reproduced", "reproduced", "unmeasured", "missed"]
        );
        assert_eq!(
            names(&claims(&rows(-7.0, 1.0, 20.0))),
            ["missed", "unmeasured", "missed", "missed", "unmeasured", "missed"]
        );
        assert_eq!(names(&claims(&Rows::default())), ["unmeasured"; 6]);
        assert!(claims(&Rows::default())[1].line().contains("valgrind"));
    }

    #[test]
    fn noise_and_a_quick_run_carry_no_verdict() {
        assert_eq!(names(&claims(&rows(3.0, 4.0, 2.0)))[..1], ["not_carried"]);
        let quick: Vec<Claim> = claims(&rows(7.0, 1.0, 2.0)).into_iter().map(Claim::of_a_quick_run).collect();
        assert_eq!(
            names(&quick),
            ["not_carried", "unmeasured", "reproduced", "reproduced", "unmeasured", "not_carried"]
        );
    }

    #[test]
    fn one_batch_that_disagrees_is_a_claim_missed() {
        let mut all = rows(7.0, 1.0, 2.0);
        let mut odd = Rows::default();
        odd.section("Less than called");
        odd.add("gain turn by turn alloc-odr0-16384", INLINED, -2.0, "%");
        // The first row of a metric counts.
        odd.append(std::mem::take(&mut all));
        let claims = claims(&odd);
        assert_eq!(claims[0].outcome, ClaimOutcome::Missed);
        assert!(claims[0].measured.contains("14 of 15"), "{}", claims[0].measured);
    }
}
