//! The claims of `page-frag`, judged by its rows.

use super::contention::{self, APART, GAIN};
use super::forward::Shape;
use super::profile::{FUNCTIONS, Function, SAMPLES, WAITING};
use super::router;
use super::subjects::{BUDDY, ENGINE, MODEL, ONE, PCP, PROFILE, SHARE, TWO};
use super::work::Level;
use crate::experiment::DISTURBED;
use crate::experiment::Rows;
use crate::experiment::claim::{Claim, ClaimOutcome};
use crate::experiment::figure::{Asked, Figure};
use crate::harness::team::cpus;
use crate::router::claims::CLAIMS;

/// Why there is no row of two CPUs.
fn no_rows() -> &'static str {
    if cpus().len() < 2 { "needs two CPUs" } else { "no sample was undisturbed" }
}

pub(super) fn claims(rows: &Rows) -> Vec<Claim> {
    let mut claims = vec![more(rows).at(PATCH), waits(rows).at(PROFILED)];
    claims.push(elsewhere(rows).at(PATCH));
    claims.extend(FUNCTIONS.iter().filter_map(|f| function(rows, f)).map(|c| c.at(PROFILED)));
    claims.push(gone(rows).at(PATCH));
    claims.extend(thread(rows));
    claims.push(engine(rows));
    claims.extend([Shape::Both, Shape::Split].map(|shape| three_times(rows, shape)));
    claims
}

/// Two full runs of the same code differed by this factor in the time that both CPUs wait before the patch: 7.9 and
/// 24 %.
const RUNS: f64 = 3.0;

const PATCH: &str = "003, A. Lu's patch";
const PROFILED: &str = "003, P. Staszewski's profile";

/// The thread's claims about its router, each by its own setting of the model.
fn thread(rows: &Rows) -> impl Iterator<Item = Claim> + '_ {
    CLAIMS.iter().map(|c| {
        let (share, own) = (router::share(c.name), router::own(c.name));
        let claim = Claim::document(c.name)
            .at("003, the router's thread")
            .asked(c.asked)
            .on(rows, &[&share, &own, &router::idle(c.name)], &[MODEL])
            .quick_is_too_small("it judges the claim's own setting only");
        let held = rows.get(&share, MODEL);
        let measured = held.map_or("its subject never came up".to_owned(), |pct| {
            let of = rows.row(&share, MODEL).map_or("", |r| r.setting.as_str());
            format!("it holds in {pct:.0} % of {of}")
        });
        match rows.get(&own, MODEL) {
            Some(holds) if holds > 0.0 && held.is_some_and(|pct| pct < 100.0) => {
                let why = "it holds in its own setting, and hangs on the parameters".to_owned();
                claim.measured(ClaimOutcome::NotCarried(why), measured)
            }
            Some(holds) => claim.measured(ClaimOutcome::of(holds > 0.0), measured),
            None if held.is_none() && rows.get(&router::idle(c.name), MODEL).is_none() => claim,
            None => {
                let why = "in its own setting its subject never comes up".to_owned();
                claim.measured(ClaimOutcome::NotCarried(why), measured)
            }
        }
    })
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
    let Some(gained) = rows.get(GAIN, PCP) else { return claim.unmeasured(no_rows()) };
    let alone = rows
        .gain(ONE, BUDDY, PCP)
        .map_or(String::new(), |less| format!("; on one CPU, where nothing waits, {:+.1} %", -less));
    let pair = rows.get(APART, BUDDY).unwrap_or(0.0);
    claim.measured(
        ClaimOutcome::at_least(gained, 7.0, pair.abs().max(DISTURBED)),
        format!("{gained:+.1} %{alone}"),
    )
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
        return claim.unmeasured(no_rows());
    };
    let outcome = match (after <= 1.0, before >= 10.0 / RUNS, before >= 10.0 * RUNS) {
        (false, ..) => ClaimOutcome::at_most(after, 1.0, DISTURBED / 100.0),
        (true, false, _) => ClaimOutcome::Missed,
        (true, true, true) => ClaimOutcome::Reproduced,
        (true, true, false) => {
            ClaimOutcome::NotCarried(format!("where waits begin differs {RUNS:.0} times from run to run"))
        }
    };
    let half = match (before >= 10.0, after <= 1.0) {
        (false, true) => "; it ends low enough, but does not begin as high as it should",
        (true, false) => "; it begins high enough, but does not fall as far as it should",
        _ => "",
    };
    claim.measured(outcome, format!("from {before:.1} % to {after:.2} %{half}"))
}

/// The loads beside the first table's: other work for a packet, another division of labour.
fn others() -> impl Iterator<Item = (Shape, Level)> {
    [Shape::Both, Shape::Split]
        .into_iter()
        .flat_map(|shape| Level::ALL.map(|level| (shape, level)))
        .filter(|load| *load != (Shape::Both, Level::Scaled))
}

/// The gain with every other load: one that does not reach what is asked is a miss, one that is too close to it leaves
/// the whole open.
fn elsewhere(rows: &Rows) -> Claim {
    let mut claim =
        Claim::document("So they do whatever other work there is, and however the CPUs divide it")
            .asked("at least 7 % more with each load");
    let mut figure =
        Figure::own("packets a second, in multiples of what frees to the zone allow").asked(1.07);
    let (mut measured, mut missed, mut open) = (Vec::new(), false, 0);
    for (shape, level) in others() {
        let [rate, share, gain] = contention::metrics(shape, level);
        let pair = contention::pair(shape, level);
        let (Some(gained), Some(apart)) = (rows.get(&gain, PCP), rows.get(&pair, BUDDY)) else {
            open += 1;
            continue;
        };
        claim =
            claim.on(rows, &[&gain], &[PCP]).on(rows, &[&pair], &[BUDDY]).on(rows, &[&share], &[BUDDY, PCP]);
        let load = format!("{}, {}", level.name(), says(shape));
        figure = figure.group(rows, load.clone(), &three(&rate)[..2]);
        match ClaimOutcome::at_least(gained, 7.0, apart.abs().max(DISTURBED)) {
            ClaimOutcome::Missed => missed = true,
            ClaimOutcome::NotCarried(_) => open += 1,
            _ => {}
        }
        measured.push(format!("{gained:+.1} % with {load}"));
    }
    let outcome = match (missed, open) {
        _ if measured.is_empty() => return claim.unmeasured(no_rows()),
        (true, _) => ClaimOutcome::Missed,
        (false, 0) => ClaimOutcome::Reproduced,
        _ => ClaimOutcome::NotCarried(format!(
            "with {open} of {} loads two runs may differ by more",
            others().count()
        )),
    };
    claim.figure(figure).measured(outcome, measured.join("; "))
}

/// The division of labour, within a sentence.
fn says(shape: Shape) -> &'static str {
    match shape {
        Shape::One => "one CPU does both ends",
        Shape::Split => "one CPU receives and the other completes",
        Shape::Both => "each CPU does both ends",
    }
}

/// A function's share of the completion's time before the patch: `None` for those that were not published. Shares of
/// all time differ twofold from run to run, as a packet's other work does; this one hardly does.
fn function(rows: &Rows, f: &Function) -> Option<Claim> {
    let whole = FUNCTIONS[0].metric;
    let (published, of) = (rows.get(f.metric, PROFILE)?, rows.get(whole, PROFILE)?);
    let is_whole = f.metric == whole;
    let claim = Claim::document(match is_whole {
        true => format!("Before the patch, {whole} takes this share of the CPUs' time"),
        false => format!("Before the patch, {} takes this share of the completion's time", f.metric),
    })
    .asked("from half to twice the published share")
    .published(Some(match is_whole {
        true => format!("{published:.2} % of samples"),
        false => format!("{:.0} %, {published:.2} % of samples", 100.0 * published / of),
    }))
    .on(rows, &[SAMPLES], &[BUDDY])
    .figure(
        Figure::shared("share of samples, %")
            .group(rows, "published", &[("to the zone", f.metric, PROFILE)])
            .group(rows, "here, two CPUs", &three(f.metric)),
    )
    .quick_is_too_small("it takes a tenth of the samples, whose error is as large as some of these shares");
    let seen = (rows.get(f.metric, BUDDY), rows.get(whole, BUDDY), rows.get(SAMPLES, BUDDY));
    let (Some(here), Some(all), Some(samples)) = seen else {
        return Some(claim.unmeasured("time by function was not sampled"));
    };
    let error = error_of(here, samples);
    if is_whole {
        let outcome = match (published / RUNS..=published * RUNS).contains(&here) {
            true => ClaimOutcome::NotCarried("it differs twofold from run to run".into()),
            false => ClaimOutcome::Missed,
        };
        return Some(
            claim.measured(outcome, format!("{here:.2} % of samples, with a standard error of {error:.2}")),
        );
    }
    let (share, error) = (100.0 * here / all, 100.0 * error / all);
    let bounds = [50.0 * published / of, 200.0 * published / of];
    let near = bounds.iter().any(|bound| (share - bound).abs() <= 2.0 * error);
    let outcome = match near {
        true => ClaimOutcome::NotCarried("it is within two standard errors of a bound".into()),
        false => ClaimOutcome::of((bounds[0]..=bounds[1]).contains(&share)),
    };
    Some(claim.measured(
        outcome,
        format!("{share:.1} %, with a standard error of {error:.1}; {here:.2} % of samples"),
    ))
}

/// Returns the standard error of a share of this many samples, in percent: with two samples more of each kind (Agresti
/// and Coull, 1998), so that none seen is not taken for certainty.
fn error_of(share: f64, samples: f64) -> f64 {
    let all = samples + 4.0;
    let share = (share * samples + 200.0) / all;
    (share * (100.0 - share) / all).sqrt()
}

/// Judges the document's claim about the profile after the patch.
fn gone(rows: &Rows) -> Claim {
    let claim = Claim::document("After the patch, waiting for the zone lock is gone from the profile")
        .asked("1 % of samples or less")
        .published(Some("lock contention is gone".into()))
        .on(rows, &[SAMPLES], &[PCP])
        .figure(Figure::shared("queued_spin_lock_slowpath, % of samples").group(
            rows,
            "here, two CPUs",
            &three(WAITING)[..2],
        ))
        .quick_is_too_small("it takes a tenth of the samples, whose error is as large as this share");
    let Some((after, samples)) = rows.get(WAITING, PCP).zip(rows.get(SAMPLES, PCP)) else {
        return claim.unmeasured("time by function was not sampled");
    };
    let error = error_of(after, samples);
    claim.measured(
        ClaimOutcome::of(after + 2.0 * error <= 1.0),
        format!("{after:.2} % of samples, with a standard error of {error:.2}"),
    )
}

/// The target for packets that are nothing but their pages.
fn three_times(rows: &Rows, shape: Shape) -> Claim {
    let [rate, ..] = contention::metrics(shape, Level::Bare);
    let pair = contention::pair(shape, Level::Bare);
    let what = format!(
        "Without other work, where {}, the engine forwards three times what the better reference does",
        says(shape)
    );
    let claim = Claim::target(what)
        .asked("at least 3 times")
        .on(rows, &[&pair], &[BUDDY])
        .figure(Figure::shared("packets a second").group(rows, "two CPUs", &three(&rate)));
    let reference = [BUDDY, PCP].iter().filter_map(|column| rows.get(&rate, column)).reduce(f64::max);
    let (Some(best), Some(engine)) = (reference, rows.get(&rate, ENGINE)) else {
        return claim.unmeasured(no_rows());
    };
    let times = engine / best;
    let beyond = (times / 3.0 - 1.0) * 100.0;
    let outcome =
        ClaimOutcome::at_least(beyond, 0.0, rows.get(&pair, BUDDY).unwrap_or(0.0).abs().max(DISTURBED));
    claim.measured(outcome, format!("{times:.2} times"))
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
            claim.measured(ClaimOutcome::of_effect(least >= 0.0, least, pair), seen)
        }
        _ => claim.unmeasured(no_rows()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows of a run: packets a second and waits, before and after, and how far the same variant is from itself.
    fn rows_of(gained: f64, waits: [f64; 2], pair: f64) -> Rows {
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
        rows
    }

    /// The three claims of the first table.
    fn claims_of(gained: f64, waits: [f64; 2], pair: f64) -> Vec<Claim> {
        let rows = rows_of(gained, waits, pair);
        vec![more(&rows), super::waits(&rows), engine(&rows)]
    }

    /// Rows of a profile: a function's published share, its own before and after the patch, and how many samples there
    /// are.
    fn profile(metric: &str, published: f64, own: [f64; 2], samples: f64) -> Rows {
        let mut rows = Rows::default();
        rows.section("Time by function");
        rows.add(metric, PROFILE, published, "% of samples");
        for (column, own) in [BUDDY, PCP].into_iter().zip(own) {
            rows.add(metric, column, own, "% of samples");
            rows.add(SAMPLES, column, samples, "");
        }
        rows
    }

    fn names(claims: &[Claim]) -> Vec<&str> {
        claims.iter().map(|c| c.outcome.name()).collect()
    }

    #[test]
    fn claims_are_reproduced_and_missed_by_their_rows() {
        assert_eq!(names(&claims_of(47.0, [32.0, 0.1], 2.0)), ["reproduced"; 3]);
        let missed = claims_of(1.0, [2.6, 0.005], 2.0);
        assert_eq!(names(&missed), ["missed", "missed", "reproduced"]);
        assert!(missed[1].measured.contains("does not begin as high"), "{}", missed[1].measured);
        assert_eq!(missed[0].published, "7 % more, in a microbenchmark");
    }

    #[test]
    fn a_gain_within_what_a_variant_differs_from_itself_is_no_verdict() {
        let claims = claims_of(9.0, [32.0, 0.1], 16.8);
        assert_eq!(names(&claims)[..2], ["not_carried", "reproduced"]);
        assert!(claims[0].line().contains("16.80"), "{}", claims[0].line());
    }

    #[test]
    fn one_cpu_measures_nothing_and_a_quick_run_judges_no_share() {
        let none = claims(&Rows::default());
        assert_eq!(names(&none), vec!["unmeasured"; none.len()]);
        let quick: Vec<Claim> =
            claims_of(47.0, [8.6, 0.1], 2.0).into_iter().map(Claim::of_a_quick_run).collect();
        assert_eq!(names(&quick), ["reproduced", "not_carried", "reproduced"]);
        assert!(quick[1].measured.contains("8.6 %"), "its figures stay");
    }

    #[test]
    fn one_load_without_the_gain_is_a_miss_and_one_that_is_too_close_leaves_the_claim_open() {
        let judged = |gains: &[f64]| {
            let mut rows = Rows::default();
            rows.section("By work for a packet, 2 CPUs");
            for ((shape, level), gained) in others().zip(gains) {
                let [_, _, gain] = contention::metrics(shape, level);
                rows.add(&gain, PCP, *gained, "%");
                rows.add(contention::pair(shape, level), BUDDY, 5.0, "% apart");
            }
            elsewhere(&rows)
        };
        let seen = [
            judged(&[30.0, 12.5, 30.0, 30.0, 30.0]),
            judged(&[30.0, 8.0, 30.0, 30.0, 30.0]),
            judged(&[8.0, -4.0]),
            judged(&[30.0, 30.0]),
        ];
        assert_eq!(names(&seen), ["reproduced", "not_carried", "missed", "not_carried"]);
        assert!(seen[1].line().contains("with 1 of 5 loads"), "{}", seen[1].line());
        assert!(seen[3].line().contains("with 3 of 5 loads"), "a load without rows leaves it open");
        assert_eq!(
            seen[2].measured,
            "+8.0 % with no other work, each CPU does both ends; -4.0 % with 1.1 us of work, each CPU does both ends"
        );
    }

    #[test]
    fn a_share_of_samples_is_judged_by_half_and_twice_unless_its_error_is_too_large() {
        let rows = |own, samples| {
            let mut rows = profile("free_one_page", 10.0, [own, 0.0], samples);
            rows.add(FUNCTIONS[0].metric, PROFILE, 20.0, "% of samples");
            rows.add(FUNCTIONS[0].metric, BUDDY, 40.0, "% of samples");
            rows
        };
        let judged = |own, samples| function(&rows(own, samples), &FUNCTIONS[2]).unwrap();
        let of = |own| judged(own, 10_000.0);
        assert_eq!(
            names(&[of(22.0), of(38.0), of(4.0), of(9.0)]),
            ["reproduced", "reproduced", "missed", "missed"]
        );
        assert_eq!(names(&[of(10.2), judged(38.0, 200.0)]), ["not_carried"; 2]);
        assert!(
            of(22.0).measured.starts_with("55.0 %, with a standard error of 1.0;"),
            "{}",
            of(22.0).line()
        );
        let completion = function(&rows(22.0, 10_000.0), &FUNCTIONS[0]).unwrap();
        assert_eq!(completion.outcome.name(), "not_carried");
        let unpublished = profile("free_unref_page", 10.0, [1.0, 1.0], 100.0);
        assert!(function(&unpublished, &FUNCTIONS[2]).is_none());
        let after = |own| gone(&profile(WAITING, 10.1, [12.0, own], 10_000.0));
        assert_eq!(names(&[after(0.02), after(0.95), after(3.0)]), ["reproduced", "missed", "missed"]);
    }

    #[test]
    fn the_engine_is_set_against_the_better_reference() {
        let judged = |[buddy, pcp, engine]: [f64; 3]| {
            let [rate, ..] = contention::metrics(Shape::Both, Level::Bare);
            let mut rows = Rows::default();
            rows.section("By work for a packet, 2 CPUs");
            for (column, packets) in [(BUDDY, buddy), (PCP, pcp), (ENGINE, engine)] {
                rows.add(&rate, column, packets, "1/s");
            }
            rows.add(contention::pair(Shape::Both, Level::Bare), BUDDY, 2.0, "% apart");
            three_times(&rows, Shape::Both)
        };
        let seen = [judged([7.0, 24.0, 110.0]), judged([24.0, 7.0, 60.0]), judged([7.0, 24.0, 72.5])];
        assert_eq!(names(&seen), ["reproduced", "missed", "not_carried"]);
        assert_eq!(seen[1].measured, "2.50 times");
    }
}
