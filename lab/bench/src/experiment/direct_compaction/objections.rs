//! What the thread says beside its table: remarks, objections and requests, each judged by a row.

use super::super::Rows;
use super::background::{CONFLICTS, STALLS, WITHOUT_LEASES};
use super::candidate::{Candidate, Knob};
use super::contention::{self, CASES, ending, going_on};
use super::questions::{INDEX, above, by};
use super::table::{DIRECT, MIGRATE, MISS, P, PUBLISHED};
use super::{changes, fragmented, longterm};
use crate::experiment::claim::{Claim, ClaimOutcome};
use crate::experiment::lines::whole;
use pageyard_replay::workload::End;

const COVER: &str = "002, cover letter";
const GORMAN: &str = "002, M. Gorman, 4 April";
const BABKA: &str = "002, V. Babka, 4 April";
const KIM: &str = "002, J. Kim, 11 April";
const ANSWER: &str = "002, V. Babka, 11 April";
const LAST: &str = "002, J. Kim, 12 April";

/// Returns every claim of the thread that is no row of its table.
pub fn claims(rows: &Rows) -> Vec<Claim> {
    let mut claims = vec![
        no_effect(rows),
        from_a_fragmented_state(rows),
        misses(rows),
        stalls(rows),
        reclaim(rows),
        behind(rows),
        opposite(rows),
        backs_off(rows),
        at_random(rows),
        not_good_enough(rows),
    ];
    claims.extend(VARIANTS.iter().map(|v| variant(rows, v)));
    claims.extend([random_skipping(rows), long_term(rows)]);
    claims
}

/// A change that the thread names, and what is to come of it.
struct Variant {
    at: &'static str,
    what: &'static str,
    patch: usize,
    knobs: &'static [Knob],
    /// The figure, and whether it is to grow.
    figure: (&'static str, bool),
}

const VARIANTS: [Variant; 11] = [
    Variant {
        at: KIM,
        what: "Free frames left after a failed migration hinder further compaction: released at once, more succeeds",
        patch: 4,
        knobs: &[("release_leftovers", "true")],
        figure: ("Success 1", true),
    },
    Variant {
        at: KIM,
        what: "Sharing the deferral makes no sense: kept for each mode, more succeeds",
        patch: 3,
        knobs: &[("deferral", "by_mode")],
        figure: ("Success 1", true),
    },
    Variant {
        at: KIM,
        what: "The same is achieved by a pivot: patch 2 with it scans less for migration",
        patch: 2,
        knobs: &[("pivot", "restarting")],
        figure: (MIGRATE, false),
    },
    Variant {
        at: KIM,
        what: "A pivot also lets more succeed",
        patch: 2,
        knobs: &[("pivot", "restarting")],
        figure: ("Success 1", true),
    },
    Variant {
        at: KIM,
        what: "The same is achieved by the reviewer's own algorithm: with it more succeeds",
        patch: 2,
        knobs: &[("whole_zone", "true")],
        figure: ("Success 1", true),
    },
    Variant {
        at: KIM,
        what: "Direct free pages serve synchronous direct compaction, too: more succeeds",
        patch: 4,
        knobs: &[("direct_free", "direct")],
        figure: ("Success 1", true),
    },
    Variant {
        at: LAST,
        what: "Skipping on failure serves synchronous direct compaction, too: more succeeds",
        patch: 4,
        knobs: &[("skip_on_failure", "direct")],
        figure: ("Success 1", true),
    },
    Variant {
        at: LAST,
        what: "In the background it helps against fragmentation, up to order 3",
        patch: 4,
        knobs: &[("skip_on_failure", "all"), ("skip_on_failure_order", "3")],
        figure: (INDEX, false),
    },
    Variant {
        at: LAST,
        what: "An asynchronous compaction is complete when it has seen movable pageblocks only: with all, more succeeds",
        patch: 4,
        knobs: &[("async_movable_only", "false")],
        figure: ("Success 1", true),
    },
    Variant {
        at: ANSWER,
        what: "The migrate scanner should ignore where the free scanner stands: more succeeds",
        patch: 4,
        knobs: &[("migrate_ignores_free_scanner", "true")],
        figure: ("Success 1", true),
    },
    Variant {
        at: ANSWER,
        what: "Skip hints stand in the way where everything is to be tried: without them in synchronous compaction, more succeeds",
        patch: 3,
        knobs: &[("thorough", "true")],
        figure: ("Success 1", true),
    },
];

fn variant(rows: &Rows, v: &Variant) -> Claim {
    let (figure, grows) = v.figure;
    let column = Candidate::patch(v.patch).variant(v.knobs).column;
    let claim = Claim::document(v.what).at(v.at).asked("with every seed").on(
        rows,
        &[above(figure), by(figure)],
        &[&column],
    );
    let (Some(share), Some(more)) = (rows.get(&above(figure), &column), rows.get(&by(figure), &column))
    else {
        return claim;
    };
    let said = match figure {
        "Success 1" => format!("{more:+.1} points of phase 1"),
        INDEX => format!("{more:+.2} on the index"),
        _ => format!("{more:+.0} %"),
    };
    claim.measured(ClaimOutcome::of_seeds(if grows { share } else { 100.0 - share }), said)
}

/// Returns how a row changes between patches, with its interval.
fn change(rows: &Rows, label: &str, step: &str) -> Option<[f64; 3]> {
    changes::interval(rows, &format!("{label}: {step}"))
}

fn no_effect(rows: &Rows) -> Claim {
    let claim = Claim::document("Skipping on failure (patch 3) leaves success as it was")
        .at(COVER)
        .asked("at most 10 % more or less in phase 1")
        .published(changes::printed(rows, "Success 1 Mean: patch 2 to 3"));
    let Some([is, low, high]) = change(rows, "Success 1 Mean", "patch 2 to 3") else { return claim };
    let outcome = match (low.abs().max(high.abs()) <= 10.0, low > 10.0 || high < -10.0) {
        (true, _) => ClaimOutcome::Reproduced,
        (_, true) => ClaimOutcome::Missed,
        _ => ClaimOutcome::NotCarried("the interval of the seeds holds 10 %".into()),
    };
    claim.measured(outcome, format!("{is:+.1} % ({low:+.1} to {high:+.1})"))
}

fn from_a_fragmented_state(rows: &Rows) -> Claim {
    let metric = fragmented::metric(1);
    let claim = Claim::document(
        "From a state in which patch 2 succeeds as seldom as in the document, patch 4 succeeds more often than patch 3",
    )
    .at(COVER)
    .asked("at least 1.3 times as often in phase 1")
    .published(rows.get("Success 1 Mean", PUBLISHED[0]).map(|two| format!("patch 2 in {two:.0} %")))
    .on(rows, &[&metric], &P);
    let [Some(two), Some(three), Some(four)] = P.map(|c| rows.get(&metric, c)) else { return claim };
    claim.measured(
        ClaimOutcome::at_least(four / three, 1.3, 0.05),
        format!("{:.2} times, {two:.0}, {three:.0} and {four:.0} %", four / three),
    )
}

fn misses(rows: &Rows) -> Claim {
    let share = |c: &str| Some(rows.get(MISS, c)? / rows.get(DIRECT, c)? * 100.0);
    let claim = Claim::document("Few of the frames taken directly lie in the block that is being emptied")
        .at(COVER)
        .asked("less than 1 %")
        .published(share(PUBLISHED[2]).map(|pct| format!("{pct:.2} %")))
        .on(rows, &[DIRECT, MISS], &[P[2]]);
    let Some(share) = share(P[2]) else { return claim };
    claim.measured(ClaimOutcome::of(share < 1.0), format!("{share:.2} %"))
}

fn stalls(rows: &Rows) -> Claim {
    let claim = Claim::document("Compaction is deferred less often, so more requests compact (patch 4)")
        .at(COVER)
        .published(changes::printed(rows, "Compaction stalls: patch 3 to 4"));
    let Some([is, low, high]) = change(rows, "Compaction stalls", "patch 3 to 4") else { return claim };
    let outcome = match (low > 0.0, high < 0.0) {
        (true, _) => ClaimOutcome::Reproduced,
        (_, true) => ClaimOutcome::Missed,
        _ => ClaimOutcome::NotCarried("the interval of the seeds holds 0".into()),
    };
    claim.measured(outcome, format!("{is:+.1} % ({low:+.1} to {high:+.1})"))
}

fn reclaim(rows: &Rows) -> Claim {
    let metrics = ["Compaction success", "Compaction stalls", "Direct pages reclaimed"];
    let claim = Claim::document(
        "Less is reclaimed directly because the first attempt succeeds more often (patch 4): both move together",
    )
    .at(COVER)
    .on(rows, &metrics, &P);
    let of = |c: &str| {
        let [success, stalls, reclaimed] = metrics.map(|m| rows.get(m, c));
        Some((success? / stalls? * 100.0, reclaimed?))
    };
    let (Some((a, before)), Some((b, after))) = (of(P[1]), of(P[2])) else { return claim };
    claim.measured(
        ClaimOutcome::of(b > a && after < before),
        format!(
            "{a:.0} and {b:.0} % of the requests that compact succeed by it; {:.0} % less is reclaimed",
            (1.0 - after / before) * 100.0
        ),
    )
}

fn behind(rows: &Rows) -> Claim {
    const BEHIND: &str = "Taken directly behind the migrate scanner";
    let claim = Claim::document("Nothing prevents free frames from coming from behind the migrate scanner")
        .at(GORMAN)
        .on(rows, &[BEHIND], &[P[2]]);
    match rows.get(BEHIND, P[2]) {
        Some(share) => claim.measured(ClaimOutcome::of(share > 0.0), format!("{share:.0} % of them do")),
        None => claim,
    }
}

fn opposite(rows: &Rows) -> Claim {
    let claim = Claim::document("Two compactors use one pageblock for opposite ends").at(GORMAN).on(
        rows,
        &[CONFLICTS, STALLS],
        &[WITHOUT_LEASES],
    );
    match (rows.get(CONFLICTS, WITHOUT_LEASES), rows.get(STALLS, WITHOUT_LEASES)) {
        (Some(0.0), _) => claim.measured(ClaimOutcome::Missed, "never"),
        (Some(met), Some(stalls)) => claim.measured(
            ClaimOutcome::Reproduced,
            format!("{} times in {} requests that compacted, on 128 MiB", whole(met), whole(stalls)),
        ),
        _ => claim,
    }
}

/// Returns the share of requests, in percent, whose asynchronous compaction gave way to a lock or to another task.
fn gave_way(rows: &Rows, case: &str, column: &str) -> Option<[f64; 2]> {
    Some([rows.get(&ending(case, End::Lock), column)?, rows.get(&ending(case, End::Cpu), column)?])
}

fn backs_off(rows: &Rows) -> Claim {
    let case = CASES[3].0;
    let claim = Claim::document("Parallel asynchronous compactions detect contention and back off")
        .at(BABKA)
        .on(rows, &[ending(case, End::Lock), ending(case, End::Cpu)], &P);
    let Some([lock, _]) = gave_way(rows, case, P[2]) else { return claim };
    claim.measured(
        ClaimOutcome::of(lock > 0.0),
        format!("{lock:.1} % of patch 4's requests find a lock held beside another compactor"),
    )
}

fn at_random(rows: &Rows) -> Claim {
    let case = CASES[1].0;
    let served = |end: End| format!("{}, served", ending(case, end));
    let claim = Claim::document("Asynchronous compaction stops on contention, whatever it has reached")
        .at(LAST)
        .asked("at least 5 % of patch 2's requests that compact")
        .on(
            rows,
            &[ending(case, End::Lock), ending(case, End::Cpu), served(End::Lock), served(End::Cpu)],
            &P,
        );
    let Some([lock, cpu]) = gave_way(rows, case, P[0]) else { return claim };
    let of = |end: End| rows.get(&served(end), P[0]).unwrap_or(f64::NAN);
    claim.measured(
        ClaimOutcome::at_least(lock + cpu, 5.0, 1.0),
        format!(
            "{lock:.1} % at a lock, {cpu:.1} % because the CPU is wanted; {:.0} and {:.0} % of these are served in the end",
            of(End::Lock),
            of(End::Cpu)
        ),
    )
}

fn not_good_enough(rows: &Rows) -> Claim {
    let case = CASES[3].0;
    let success = contention::success(case, 1);
    let (least, most) = (format!("{success}, least of the seeds"), format!("{success}, most of the seeds"));
    let goes_on = going_on(4);
    let claim =
        Claim::document("In this form it is not good enough: where it goes on instead, more succeeds")
            .at(LAST)
            .asked("patch 4 beside another compactor, with every seed")
            .on(rows, &[&success, &least, &most], &[P[2], &goes_on]);
    let of = |metric: &str, column: &str| rows.get(metric, column);
    let (Some(is), Some(would)) = (of(&success, P[2]), of(&success, &goes_on)) else { return claim };
    let (Some(top), Some(bottom)) = (of(&most, P[2]), of(&least, &goes_on)) else { return claim };
    let outcome = match (bottom > top, would > is) {
        (true, _) => ClaimOutcome::Reproduced,
        (false, false) => ClaimOutcome::Missed,
        (false, true) => ClaimOutcome::NotCarried("the seeds' ranges meet".into()),
    };
    claim.measured(outcome, format!("{is:.1} % as it is, {would:.1} % where it goes on"))
}

fn random_skipping(rows: &Rows) -> Claim {
    let column = Candidate::patch(3).variant(&[("skip", "random:500")]).column;
    let claim = Claim::document("Skip hints are hardly better than skipping at random")
        .at(ANSWER)
        .asked("half skipped at random, at most 10 % more scanned for migration")
        .on(rows, &[by(MIGRATE), above(MIGRATE)], &[&column]);
    let (Some(percent), Some(share)) = (rows.get(&by(MIGRATE), &column), rows.get(&above(MIGRATE), &column))
    else {
        return claim;
    };
    let outcome = match (percent <= 10.0, share) {
        (true, _) => ClaimOutcome::Reproduced,
        (false, 100.0..) => ClaimOutcome::Missed,
        _ => ClaimOutcome::NotCarried("the seeds differ in sign".into()),
    };
    claim.measured(outcome, format!("{percent:+.0} %"))
}

fn long_term(rows: &Rows) -> Claim {
    let column = Candidate::patch(3).variant(&[("skip_on_failure", "direct")]).column;
    let metric = longterm::index(20);
    let claim = Claim::document(
        "Skipping in synchronous direct compaction, too, may fragment memory in the long term",
    )
    .at(LAST)
    .asked("a higher index after 20 phases than patch 3's")
    .on(rows, &[&metric], &[P[1], &column]);
    match (rows.get(&metric, P[1]), rows.get(&metric, &column)) {
        (Some(three), Some(direct)) => {
            claim.measured(ClaimOutcome::of(direct > three), format!("{direct:.2}, patch 3 {three:.2}"))
        }
        _ => claim,
    }
}

#[cfg(test)]
mod tests {
    use super::super::questions::QUESTIONS;
    use super::*;

    #[test]
    fn every_change_that_is_judged_is_one_that_is_measured() {
        let measured: Vec<String> = QUESTIONS
            .iter()
            .flat_map(|(_, variants)| variants.iter())
            .map(|(patch, knobs)| Candidate::patch(*patch).variant(knobs).column)
            .collect();
        for v in &VARIANTS {
            assert!(measured.contains(&Candidate::patch(v.patch).variant(v.knobs).column), "{}", v.what);
        }
    }

    #[test]
    fn a_change_is_judged_by_every_seed_and_in_its_own_direction() {
        let judged = |n: usize, share: f64| {
            let v = &VARIANTS[n];
            let column = Candidate::patch(v.patch).variant(v.knobs).column;
            let mut rows = Rows::default();
            rows.add(above(v.figure.0), &*column, share, "% of the seeds");
            rows.add(by(v.figure.0), &*column, 3.0, "");
            variant(&rows, v).outcome.name()
        };
        assert_eq!([100.0, 0.0, 50.0].map(|share| judged(0, share)), ["reproduced", "missed", "not_carried"]);
        assert_eq!(
            [100.0, 0.0].map(|share| judged(2, share)),
            ["missed", "reproduced"],
            "less is to be scanned"
        );
    }

    #[test]
    fn going_on_helps_only_where_the_ranges_of_the_seeds_are_apart() {
        let judged = |[is, top]: [f64; 2], [would, bottom]: [f64; 2]| {
            let success = contention::success(CASES[3].0, 1);
            let mut rows = Rows::default();
            rows.add(&*success, P[2], is, "%");
            rows.add(format!("{success}, most of the seeds"), P[2], top, "%");
            rows.add(&*success, going_on(4), would, "%");
            rows.add(format!("{success}, least of the seeds"), going_on(4), bottom, "%");
            not_good_enough(&rows).outcome.name()
        };
        assert_eq!(judged([71.0, 75.0], [88.0, 84.0]), "reproduced");
        assert_eq!(judged([71.0, 85.0], [88.0, 84.0]), "not_carried");
        assert_eq!(judged([71.0, 75.0], [70.0, 66.0]), "missed");
    }
}
