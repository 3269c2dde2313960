//! The claims of `page-frag`, judged by its rows.

use super::contention::{APART, GAIN};
use super::{BUDDY, ENGINE, ONE, PCP, PROFILE, SHARE, TWO};
use crate::experiment::Rows;
use crate::experiment::claim::{Claim, Outcome};
use crate::experiment::figure::{Asked, Figure};

const TWO_CPUS: &str = "two CPUs are needed to say anything about contention, and this process may use one";

pub(super) fn claims(rows: &Rows) -> Vec<Claim> {
    vec![more(rows), waits(rows), engine(rows)]
}

fn more(rows: &Rows) -> Claim {
    let published = rows.get(GAIN, PROFILE).map(|g| format!("{g:.0} % more, in a microbenchmark"));
    let claim =
        Claim::document("Two CPUs forward more packets when fragments are freed to the per-CPU lists")
            .asked("at least 7 % more")
            .published(published)
            .on(rows, &[GAIN], &[PROFILE, PCP])
            .on(rows, &[APART], &[BUDDY])
            .figure(
                Figure::own("packets a second, in multiples of what frees to the zone allow")
                    .grown(rows, "published", ["to the zone", "to the lists"], GAIN, PROFILE)
                    .group(rows, "here, two CPUs", &three(TWO)[..2])
                    .group(rows, "here, one CPU, where nothing waits", &three(ONE)[..2])
                    .asked(1.07),
            );
    let Some(gained) = rows.get(GAIN, PCP) else { return claim.unmeasured(TWO_CPUS) };
    let alone = rows
        .gain(ONE, BUDDY, PCP)
        .map_or(String::new(), |less| format!("; on one CPU, where nothing waits, {:+.1} %", -less));
    let pair = rows.get(APART, BUDDY).unwrap_or(0.0);
    claim.measured(Outcome::of_effect(gained >= 7.0, gained, pair), format!("{gained:+.1} %{alone}"))
}

fn waits(rows: &Rows) -> Claim {
    let published =
        rows.get(SHARE, PROFILE).map(|v| format!("{v:.1} % of the profile's samples before the patch"));
    let claim = Claim::document("Waiting for the zone lock all but ends")
        .asked("from 10 % or more of both CPUs' time to 1 % or less")
        .published(published)
        .figure(
            Figure::shared("share of the CPUs' time spent waiting for the zone lock, %")
                .group(rows, "published", &[("to the zone", SHARE, PROFILE)])
                .group(rows, "here, two CPUs", &three(SHARE)),
        )
        .quick_is_too_small(
            "its samples are an eighth as long, which moves a share that is compared with 10 %",
        );
    let (Some(before), Some(after)) = (rows.get(SHARE, BUDDY), rows.get(SHARE, PCP)) else {
        return claim.unmeasured(TWO_CPUS);
    };
    let outcome = Outcome::of(before >= 10.0 && after <= 1.0);
    let half = match (before >= 10.0, after <= 1.0) {
        (false, true) => "; it ends low enough, but does not begin as high as it should",
        (true, false) => "; it begins high enough, but does not fall as far as it should",
        _ => "",
    };
    claim.measured(outcome, format!("from {before:.1} % to {after:.2} %{half}"))
}

/// The three bars of a metric.
fn three(metric: &str) -> [Asked<'_>; 3] {
    [("to the zone", metric, BUDDY), ("to the lists", metric, PCP), ("pageyard", metric, ENGINE)]
}

fn engine(rows: &Rows) -> Claim {
    let claim = Claim::target(
        "The engine, which has no zone lock, forwards at least as many packets as the lists do",
    )
    .figure(Figure::shared("packets a second").group(rows, "two CPUs", &three(TWO)).group(
        rows,
        "one CPU",
        &three(ONE),
    ));
    let times = |metric| Some(rows.get(metric, ENGINE)? / rows.get(metric, PCP)?);
    match (times(ONE), times(TWO)) {
        (Some(one), Some(two)) => {
            let least = (one.min(two) - 1.0) * 100.0;
            let pair = rows.get(APART, BUDDY).unwrap_or(0.0);
            let seen = format!("{two:.2} times as many on two CPUs, {one:.2} times on one");
            claim.measured(Outcome::of_effect(least >= 0.0, least, pair), seen)
        }
        _ => claim.unmeasured(TWO_CPUS),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows of a run: packets a second and waits, before and after, and how far the same variant is from itself.
    fn claims_of(gained: f64, waits: [f64; 2], pair: f64) -> Vec<Claim> {
        let mut rows = Rows::default();
        rows.section("Contention");
        for (column, one, two) in [(BUDDY, 2.0e6, 3.0e6), (PCP, 2.1e6, 3.0e6), (ENGINE, 3.0e6, 6.0e6)] {
            rows.add(ONE, column, one, "1/s");
            rows.add(TWO, column, two, "1/s");
        }
        rows.add(GAIN, PCP, gained, "%");
        rows.add(SHARE, BUDDY, waits[0], "%");
        rows.add(SHARE, PCP, waits[1], "%");
        rows.add(APART, BUDDY, pair, "% apart");
        rows.add(GAIN, PROFILE, 7.0, "%");
        claims(&rows)
    }

    fn names(claims: &[Claim]) -> Vec<&str> {
        claims.iter().map(|c| c.outcome.name()).collect()
    }

    #[test]
    fn claims_are_reproduced_and_missed_by_their_rows() {
        assert_eq!(names(&claims_of(47.0, [12.0, 0.1], 2.0)), ["reproduced"; 3]);
        let missed = claims_of(3.0, [8.6, 0.005], 2.0);
        assert_eq!(names(&missed), ["missed", "missed", "reproduced"]);
        assert!(missed[1].measured.contains("does not begin as high"), "{}", missed[1].measured);
        assert_eq!(missed[0].published, "7 % more, in a microbenchmark");
    }

    #[test]
    fn a_gain_within_what_a_variant_differs_from_itself_is_no_verdict() {
        let claims = claims_of(9.0, [12.0, 0.1], 16.8);
        assert_eq!(names(&claims)[..2], ["not_carried", "reproduced"]);
        assert!(claims[0].line().contains("16.8 %"), "{}", claims[0].line());
    }

    #[test]
    fn one_cpu_measures_nothing_and_a_quick_run_judges_no_share() {
        assert_eq!(names(&claims(&Rows::default())), ["unmeasured"; 3]);
        let quick: Vec<Claim> =
            claims_of(47.0, [8.6, 0.1], 2.0).into_iter().map(Claim::of_a_quick_run).collect();
        assert_eq!(names(&quick), ["reproduced", "not_carried", "reproduced"]);
        assert!(quick[1].measured.contains("8.6 %"), "its figures stay");
    }
}
