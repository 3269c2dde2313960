//! The claims of `direct-compaction`: the document's, judged by its own table. Those of the engine are in `targets`.

use super::super::{Rows, gain};
use super::objections;
use super::table::{ENGINE, FREE, MIGRATE, P, PUBLISHED, SUM};
use super::targets;
use super::{changes, sensitivity};
use crate::experiment::claim::{Claim, ClaimOutcome};
use crate::experiment::figure::{Asked, Figure};

const COVER: &str = "002, cover letter";

/// Why a quick run says nothing of any claim here.
const ANOTHER: &str = "a quick run is of another machine and load";

/// Judges every claim by the rows of a full run.
pub fn claims(rows: &Rows) -> Vec<Claim> {
    let mut claims = vec![
        fewer_migrate_scans(rows).at(COVER),
        fewer_free_scans(rows).at(COVER),
        success(rows).at(COVER),
        falls(
            rows,
            "Taking free frames directly (patch 4) also scans fewer frames for migration",
            MIGRATE,
            "fewer",
        )
        .at(COVER),
        falls(rows, "With it, direct reclaim has to free less", "Direct pages reclaimed", "less").at(COVER),
        sensitive(rows),
    ];
    claims.extend(changes::claims(rows).map(|c| c.at("002, table")));
    claims.extend(objections::claims(rows));
    claims.extend(targets::claims(rows));
    claims.into_iter().map(|c| c.quick_is_elsewhere(ANOTHER)).collect()
}

/// Returns how much less the second column has, in percent.
fn less(rows: &Rows, metric: &str, columns: [&str; 2]) -> Option<f64> {
    Some(gain(rows.get(metric, columns[0])?, rows.get(metric, columns[1])?))
}

/// Returns by how many percent a metric of the table falls in a step, and the interval that the seeds leave that.
fn fall(rows: &Rows, metric: &str, step: &str) -> Option<(f64, [f64; 2])> {
    let [change, low, high] = changes::interval(rows, &format!("{metric}: {step}"))?;
    Some((-change, [-high, -low]))
}

/// Says how much less, or more, something is; `word` is the word for "less".
fn change(less: f64, word: &str) -> String {
    let word = if less < 0.0 { "more" } else { word };
    format!("{:.1} % {word}", less.abs())
}

/// The same with the interval that the seeds leave.
fn change_between(less: f64, [low, high]: [f64; 2], word: &str) -> String {
    let [low, high] = if less < 0.0 { [-high, -low] } else { [low, high] };
    format!("{} ({low:.1} to {high:.1})", change(less, word))
}

/// Returns how a metric changes from one column to the other, in words.
fn by(rows: &Rows, metric: &str, columns: [&str; 2], word: &str) -> Option<String> {
    Some(change(less(rows, metric, columns)?, word))
}

/// Draws a metric before and after a patch, the published beside the measured, and the engine's where it is asked for.
fn before_and_after(rows: &Rows, caption: &str, metric: &str, patches: [usize; 2], engine: bool) -> Figure {
    let [a, b] = patches.map(|n| n - 2);
    let names = ["patch 2", "patch 3", "patch 4"];
    let published: [Asked<'_>; 2] = [(names[a], metric, PUBLISHED[a]), (names[b], metric, PUBLISHED[b])];
    let mut here: Vec<Asked<'_>> = vec![(names[a], metric, P[a]), (names[b], metric, P[b])];
    if engine {
        here.push(("pageyard", metric, ENGINE));
    }
    let caption = format!("{caption}; in multiples of each source's own patch {}", patches[0]);
    Figure::own(caption).group(rows, "published", &published).group(rows, "here", &here)
}

fn fewer_migrate_scans(rows: &Rows) -> Claim {
    let claim = Claim::document(
        "Giving a block up once a frame cannot be isolated (patch 3) scans fewer frames for migration",
    )
    .asked("at least 20 % fewer than patch 2")
    .published(by(rows, MIGRATE, [PUBLISHED[0], PUBLISHED[1]], "fewer"))
    .figure(before_and_after(rows, "frames scanned for migration", MIGRATE, [2, 3], true).asked(0.8));
    match fall(rows, MIGRATE, "patch 2 to 3") {
        Some((fewer, seeds)) => {
            claim.measured(ClaimOutcome::of_interval(seeds, 20.0), change_between(fewer, seeds, "fewer"))
        }
        None => claim,
    }
}

fn fewer_free_scans(rows: &Rows) -> Claim {
    let claim =
        Claim::document("Taking free frames straight from the free lists (patch 4) scans fewer free frames")
            .asked("at least 60 % fewer than patch 3")
            .published(by(rows, FREE, [PUBLISHED[1], PUBLISHED[2]], "fewer"))
            .on(rows, &[SUM], &[P[1], P[2]])
            .figure(before_and_after(rows, "free frames scanned", FREE, [3, 4], true).asked(0.4));
    match (fall(rows, FREE, "patch 3 to 4"), by(rows, SUM, [P[1], P[2]], "fewer")) {
        (Some((fewer, seeds)), Some(sum)) => claim.measured(
            ClaimOutcome::of_interval(seeds, 60.0),
            format!("{}; {sum} with those taken directly added", change_between(fewer, seeds, "fewer")),
        ),
        _ => claim,
    }
}

fn success(rows: &Rows) -> Claim {
    const SUCCESS: &str = "Success 1 Mean";
    let ratio = |c: [&str; 3]| Some(rows.get(SUCCESS, c[2])? / rows.get(SUCCESS, c[1])?);
    let bars = |c: [&'static str; 3]| -> Vec<Asked<'static>> {
        vec![("patch 2", SUCCESS, c[0]), ("patch 3", SUCCESS, c[1]), ("patch 4", SUCCESS, c[2])]
    };
    let mut here = bars(P);
    here.push(("pageyard", SUCCESS, ENGINE));
    let claim = Claim::document("Requests under load succeed more often with patch 4 than with patch 3")
        .asked("at least 1.3 times as often in phase 1")
        .published(ratio(PUBLISHED).map(|times| format!("{times:.1} times as often")))
        .figure(
            Figure::shared("requests of order 4 that succeed in phase 1, %")
                .group(rows, "published", &bars(PUBLISHED))
                .group(rows, "here", &here),
        );
    match changes::interval(rows, &format!("{SUCCESS}: patch 3 to 4")).map(|i| i.map(|pct| 1.0 + pct / 100.0))
    {
        Some([times, low, high]) => claim.measured(
            ClaimOutcome::of_interval([low, high], 1.3),
            format!("{times:.2} times as often ({low:.2} to {high:.2})"),
        ),
        None => claim,
    }
}

/// Claims that a figure falls from patch 3 to patch 4, by however much.
fn falls(rows: &Rows, what: &str, metric: &str, word: &str) -> Claim {
    let claim = Claim::document(what)
        .published(by(rows, metric, [PUBLISHED[1], PUBLISHED[2]], word))
        .figure(before_and_after(rows, &metric.to_lowercase(), metric, [3, 4], true));
    match fall(rows, metric, "patch 3 to 4") {
        Some((fell, seeds)) => {
            claim.measured(ClaimOutcome::of_interval(seeds, 0.0), change_between(fell, seeds, word))
        }
        None => claim,
    }
}

fn sensitive(rows: &Rows) -> Claim {
    let claim = Claim::target("Each of the first three holds whatever parameter of the workload is changed");
    if rows.columns(sensitivity::SECTION).is_empty() {
        return claim;
    }
    let of_section =
        |m: &&str| [MIGRATE, FREE, "Success 1"].iter().any(|end| m.ends_with(&format!(": {end}")));
    let metrics: Vec<&str> = rows.metrics(sensitivity::SECTION).into_iter().filter(of_section).collect();
    let (migrate, all) = sensitivity::holds(rows, MIGRATE, |p2, p3, _| gain(p2, p3) >= 20.0);
    let (free, _) = sensitivity::holds(rows, FREE, |_, p3, p4| gain(p3, p4) >= 60.0);
    let (success, _) = sensitivity::holds(rows, "Success 1", |_, p3, p4| p4 >= 1.3 * p3);
    let (any, _) = sensitivity::holds(rows, "Success 1", |_, p3, p4| p4 >= p3 - 0.5);
    claim.on(rows, &metrics, &P).measured(
        ClaimOutcome::of([migrate, free, success].iter().all(|n| *n == all)),
        format!(
            "the first in {migrate}, the second in {free}, the third in {success} of {all} settings; each was changed alone, on a \
             smaller machine, and patch 4 succeeds no less often than patch 3 in {any}"
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows of the table in which patches 2 to 4 come to these figures, for every metric that is asked for.
    fn rows(figures: [f64; 3]) -> Rows {
        let mut rows = Rows::default();
        rows.section("table");
        for metric in [MIGRATE, FREE, SUM, "Direct pages reclaimed"] {
            for (column, n) in P.iter().zip(figures) {
                rows.add(metric, *column, n, "");
            }
            for (column, n) in PUBLISHED.iter().zip([100.0, 75.0, 25.0]) {
                rows.add(metric, *column, n, "");
            }
        }
        let success = [50.0, 50.0, 5000.0 / figures[2]];
        for (column, n) in P.iter().zip(success) {
            rows.add("Success 1 Mean", *column, n, "%");
        }
        rows.section(changes::SECTION);
        for (metric, figures) in [MIGRATE, FREE, "Direct pages reclaimed"]
            .map(|metric| (metric, figures))
            .into_iter()
            .chain([("Success 1 Mean", success)])
        {
            for (n, (step, _)) in changes::STEPS.iter().enumerate() {
                let change = (figures[n + 1] / figures[n] - 1.0) * 100.0;
                for (column, by) in [("change", 0.0), ("low", -5.0), ("high", 5.0)] {
                    rows.add(format!("{metric}: {step}"), format!("reference:{column}"), change + by, "%");
                }
            }
        }
        rows
    }

    fn names(claims: &[Claim]) -> Vec<&str> {
        claims[..6].iter().map(|c| c.outcome.name()).collect()
    }

    #[test]
    fn claims_are_reproduced_and_missed_by_their_rows() {
        let held = claims(&rows([100.0, 60.0, 20.0]));
        assert_eq!(names(&held), ["reproduced"; 5].into_iter().chain(["unmeasured"]).collect::<Vec<_>>());
        let missed = claims(&rows([100.0, 122.0, 150.0]));
        assert_eq!(names(&missed), ["missed"; 5].into_iter().chain(["unmeasured"]).collect::<Vec<_>>());
    }

    #[test]
    fn seeds_that_leave_what_is_asked_open_carry_no_verdict() {
        assert_eq!(names(&claims(&rows([100.0, 78.0, 30.0])))[..2], ["not_carried"; 2]);
    }

    #[test]
    fn what_grew_is_said_to_be_more() {
        let claims = claims(&rows([100.0, 122.0, 61.0]));
        let first = &claims[0];
        assert_eq!(first.measured, "22.0 % more (17.0 to 27.0)");
        assert_eq!(first.published, "25.0 % fewer");
        assert_eq!(claims[3].measured, "50.0 % fewer (45.0 to 55.0)");
    }

    #[test]
    fn a_quick_run_says_nothing_of_the_study() {
        let quick: Vec<Claim> =
            claims(&rows([100.0, 158.8, 20.0])).into_iter().map(Claim::of_a_quick_run).collect();
        for claim in &quick {
            assert_eq!(claim.outcome.name(), "not_carried", "{claim:?}");
            assert!(claim.measured.is_empty() && claim.line().contains("another machine"));
            assert!(claim.rows.iter().all(|g| g.columns.iter().all(|c| c.starts_with("published"))));
            assert!(claim.figure.iter().all(|f| f.rows().all(|r| r.column.starts_with("published"))));
        }
        assert!(quick[0].figure.is_some(), "what was published is still shown");
    }

    #[test]
    fn no_rows_give_no_verdict() {
        assert!(claims(&Rows::default()).iter().all(|c| c.outcome.name() == "unmeasured"));
    }
}
