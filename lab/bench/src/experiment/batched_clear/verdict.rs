//! The claims of `batched-clear`, judged by its rows.

use super::extent::{BATCHED, CONTIGUOUS, DOCUMENTS, column};
use super::survival::Cache;
use super::{faults, latency, survival, units};
use crate::clear::{CHOICE, Mode, PAGE, Way};
use crate::experiment::claim::{Claim, ClaimOutcome};
use crate::experiment::figure::Figure;
use crate::experiment::{DISTURBED, Rows};
use crate::fault::Path;
use pageyard_arena::clear::Primitive;

/// The extents that stand for a page of 1 GiB, and for one of 2 MiB.
const GIB: usize = 1 << 30;
const HUGE: usize = 2 << 20;

/// Why a quick run says nothing of claims about 1 GiB.
const SMALLER: &str = "a quick run's extents end at 64 MiB";

pub(super) fn claims(rows: &Rows) -> Vec<Claim> {
    vec![
        batch(rows).at(RESULTS),
        whole(rows).at(RESULTS),
        huge(rows).at(RESULTS),
        begins(rows).at(ANALYSIS),
        arithmetic(rows).at(ANALYSIS),
        bound(rows).at(ANALYSIS),
        stretch(rows).at(TEXT),
        best(rows),
        memset(rows),
        scattered(rows),
        hot(rows),
        asked(rows),
        recycled(rows, "anonymous-thp", HUGE, "2 MiB"),
        recycled(rows, "hugetlb-1g", GIB, "1 GiB"),
        survives(rows),
        elided(rows, Cache::Own, Mode::Batch, "Batches of 32 MiB leave").at(TEXT),
        elided(rows, Cache::Own, Mode::Extent, "One call leaves").at(ANALYSIS),
        elided(rows, Cache::Last, Mode::Batch, "Batches of 32 MiB leave").at(TEXT),
        elided(rows, Cache::Last, Mode::Extent, "One call leaves").at(ANALYSIS),
        counters().at(ANALYSIS),
        others().at("001, other platforms"),
    ]
}

const RESULTS: &str = "001, table of bandwidth";
const ANALYSIS: &str = "001, analysis";
const TEXT: &str = "001, the commit's text";

/// The document counts lines that are allocated.
fn counters() -> Claim {
    Claim::document("In batches a third of the cache lines are allocated, with one call hardly any")
        .published(Some("6.9, 2.3 and 0.06 billion loads of lines".into()))
        .unmeasured("this machine has no counters")
}

fn others() -> Claim {
    Claim::document("On Intel's Ice Lake and ARM's Neoverse N1 2 MiB and 1 GiB gain about 35 %")
        .published(Some("8 to 11 and 32 to 44 GB/s".into()))
        .unmeasured("needs machines not at hand")
}

/// Another full run may differ by as much, in percent, in a figure that is compared with a target.
fn noise(rows: &Rows, metric: &str) -> f64 {
    pair(rows, metric).abs().max(DISTURBED)
}

/// Five full runs had 86.6 to 98.6 % of the best single primitive, and 2.28 to 2.75 times `memset`.
const RATES: f64 = 10.0;

/// Five full runs had 0.58 to 3.85 ms at the 99th percentile of a stretch.
const STRETCH_MS: f64 = 3.0;

/// In five full runs a page at a time left 16 to 47 % of a working set in the last-level cache, and one call 42 to 94
/// %: other guests share it.
const SHARED_CACHE: f64 = 78.0;

fn by(primitive: Primitive, mode: Mode) -> String {
    column(Way { primitive: Some(primitive), mode })
}

fn documents(mode: Mode) -> String {
    by(DOCUMENTS, mode)
}

fn ours(mode: Mode) -> String {
    column(Way { primitive: None, mode })
}

/// By how much the same variant, measured twice at a setting, differed.
fn pair(rows: &Rows, metric: &str) -> f64 {
    rows.get(&format!("A/A {metric}"), &documents(Mode::Page)).unwrap_or(0.0)
}

/// The published gains of a page size under a kind of preemption, by clock, as text.
fn published(rows: &Rows, page: &str, preempt: &str) -> Option<String> {
    let gains: Vec<String> = ["2.56GHz", "3.66GHz"]
        .iter()
        .filter_map(|clock| rows.get(&format!("gain {page}, preempt={preempt}, {clock}"), BATCHED))
        .map(|gain| format!("{gain:+.1} %"))
        .collect();
    (!gains.is_empty()).then(|| gains.join(" and "))
}

/// A page at a time against one way of the document's primitive, at 1 GiB.
fn gains(rows: &Rows, what: &str, preempt: &str, mode: Mode) -> Claim {
    let (cold, page, other) = (units::cold(GIB, 1), documents(Mode::Page), documents(mode));
    let metric = format!("1GB, preempt={preempt}, 2.56GHz");
    let name = if mode == Mode::Batch { "batches" } else { "whole" };
    let claim = Claim::document(what)
        .published(published(rows, "1GB", preempt))
        .on(rows, &[units::gain_of(GIB, 1), units::gain_of(GIB, 2)], &[&other])
        .figure(
            Figure::own("bytes a second, in multiples of a page at a time")
                .group(rows, "published", &[("pages", &metric, CONTIGUOUS), (name, &metric, BATCHED)])
                .group(rows, "here", &[("pages", &cold, &page), (name, &cold, &other)])
                .group(
                    rows,
                    "here, two threads",
                    &[("pages", &units::cold(GIB, 2), &page), (name, &units::cold(GIB, 2), &other)],
                ),
        )
        .quick_is_elsewhere(SMALLER);
    let Some(gain) = rows.get(&units::gain_of(GIB, 1), &other) else { return claim };
    let two = rows.get(&units::gain_of(GIB, 2), &other);
    let two = two.map_or(String::new(), |gain| format!("; {gain:+.1} % on two threads"));
    claim.measured(ClaimOutcome::of_effect(gain > 0.0, gain, pair(rows, &cold)), format!("{gain:+.1} %{two}"))
}

fn batch(rows: &Rows) -> Claim {
    gains(
        rows,
        "1 GiB is cleared faster in batches of 32 MiB than a page at a time",
        "none|voluntary",
        Mode::Batch,
    )
}

fn whole(rows: &Rows) -> Claim {
    let claim = gains(rows, "1 GiB is cleared faster yet with one call", "full|lazy", Mode::Extent);
    let gain = |mode| rows.get(&units::gain_of(GIB, 1), &documents(mode));
    let (Some(whole), Some(batch)) = (gain(Mode::Extent), gain(Mode::Batch)) else { return claim };
    let measured = format!("{}, where batches gain {batch:+.1} %", claim.measured);
    let outcome =
        match ClaimOutcome::of_effect(whole > batch, whole - batch, pair(rows, &units::cold(GIB, 1))) {
            ClaimOutcome::Reproduced => claim.outcome.clone(),
            other => other,
        };
    claim.measured(outcome, measured)
}

/// The gain that counts as little, in percent: the document's largest gain at 2 MiB is 7.5.
const LITTLE: f64 = 10.0;

fn huge(rows: &Rows) -> Claim {
    let (metric, whole) = (units::cold(HUGE, 1), documents(Mode::Extent));
    let claim = Claim::document("2 MiB gains little from one call")
        .asked(format!("at most {LITTLE:.0} % more or less"))
        .published(published(rows, "2MB", "any"))
        .on(rows, &[units::gain_of(HUGE, 1), units::gain_of(HUGE, 2)], &[&whole])
        .on(rows, &[metric], &[&documents(Mode::Page), &whole]);
    let Some(gain) = rows.get(&units::gain_of(HUGE, 1), &whole) else { return claim };
    claim.measured(
        ClaimOutcome::at_most(gain.abs(), LITTLE, pair(rows, &units::cold(HUGE, 1))),
        format!("{gain:+.1} %"),
    )
}

/// Sizes from which one call pays, and on: each gains more than a pair of the same code may differ by.
fn begins(rows: &Rows) -> Claim {
    let whole = documents(Mode::Extent);
    let gain = |log: u32| Some((1_usize << log, rows.get(&units::gain_of(1 << log, 1), &whole)?));
    let all: Vec<(usize, f64)> = (13..=30).filter_map(gain).collect();
    let metrics: Vec<String> = all.iter().map(|(size, _)| units::gain_of(*size, 1)).collect();
    let claim = Claim::document(
        "One call begins to pay at about the size of the last-level cache, and pays more from there on",
    )
    .asked("from between half of it and twice its size")
    .published(Some("from 32 MiB on".into()))
    .on(rows, &metrics, &[&whole])
    .quick_is_elsewhere("a quick run has three sizes");
    // That of the machine of the run, which may be another one than this.
    let (Some(cache), 10..) = (survival::last_level_cache(rows), all.len()) else {
        return claim;
    };
    let pays = all.iter().rposition(|(_, gain)| *gain <= DISTURBED).map_or(0, |last| last + 1);
    let Some((first, gain)) = all.get(pays) else {
        return claim.measured(ClaimOutcome::Missed, "it pays at no size".to_owned());
    };
    // Rates, not gains: a disturbed rate moves a gain of 160 % by more than twice as much.
    let rises = all[pays..].windows(2).all(|w| (100.0 + w[1].1) / (100.0 + w[0].1) > 1.0 - DISTURBED / 100.0);
    claim.measured(
        ClaimOutcome::of((cache / 2..=cache * 2).contains(first) && rises),
        format!(
            "from {} on, where it gains {gain:+.1} %; the last-level cache is {}; {}",
            super::extent::size(*first),
            super::extent::size(cache),
            if rises { "no larger size gains less" } else { "some larger size gains less" }
        ),
    )
}

fn arithmetic(rows: &Rows) -> Claim {
    let at = |clock: &str, page: &str, preempt: &str, column: &str| {
        rows.get(&format!("{page}, preempt={preempt}, {clock}"), column)
    };
    let faster = |page: &str, preempt: &str, column: &str| {
        let (slow, fast) = (at("2.56GHz", page, preempt, column)?, at("3.66GHz", page, preempt, column)?);
        Some(100.0 * (fast - slow) / slow)
    };
    let settings = [("2MB", "any"), ("1GB", "none|voluntary"), ("1GB", "full|lazy")];
    let metrics: Vec<String> = settings
        .iter()
        .flat_map(|(page, preempt)| {
            ["2.56GHz", "3.66GHz"].map(|clock| format!("{page}, preempt={preempt}, {clock}"))
        })
        .collect();
    let claim = Claim::document(
        "With a clock 42 % higher, batches gain 24.5 %, one call 42.5 %, and all else at most 10 %",
    )
    .on(rows, &metrics, &[CONTIGUOUS, BATCHED]);
    let batch = faster("1GB", "none|voluntary", BATCHED);
    let whole = faster("1GB", "full|lazy", BATCHED);
    let rest: Vec<f64> = settings
        .iter()
        .filter_map(|(page, preempt)| faster(page, preempt, CONTIGUOUS))
        .chain(faster("2MB", "any", BATCHED))
        .collect();
    let (Some(batch), Some(whole)) = (batch, whole) else { return claim };
    let rest = rest.iter().map(|gain| format!("{gain:+.1}")).collect::<Vec<_>>().join(", ");
    claim
        .published(Some(format!("by its own tables {batch:+.1} %, {whole:+.1} % and {rest} %")))
        .unmeasured("this clock cannot be set")
}

/// Returns the rate over cold memory as a percentage of the rate over hot memory.
fn left(rows: &Rows, cold: &str, mode: Mode) -> Option<f64> {
    let column = documents(mode);
    Some(100.0 * rows.get(cold, &column)? / rows.get(&units::hot(HUGE), &column)?)
}

fn bound(rows: &Rows) -> Claim {
    let (cold, hot) = (units::cold(GIB, 1), units::hot(HUGE));
    let claim = Claim::document("A page at a time waits for memory; one call for a large extent waits less")
        .asked("more of the rate over hot memory is left over cold memory")
        .on(rows, &[&cold, &hot], &[&documents(Mode::Page), &documents(Mode::Extent)])
        .quick_is_elsewhere(SMALLER);
    let (Some(page), Some(whole)) = (left(rows, &cold, Mode::Page), left(rows, &cold, Mode::Extent)) else {
        return claim;
    };
    let two = |mode: Mode| {
        let column = documents(mode);
        Some(rows.get(&units::cold(GIB, 2), &column)? / rows.get(&cold, &column)?)
    };
    let two = match (two(Mode::Page), two(Mode::Extent)) {
        (Some(page), Some(whole)) => {
            format!("; two threads clear {page:.2} and {whole:.2} times as much as one")
        }
        _ => String::new(),
    };
    claim.measured(
        ClaimOutcome::at_least(whole - page, 0.0, noise(rows, &cold)),
        format!("{page:.0} % is left a page at a time, {whole:.0} % with one call{two}"),
    )
}

fn stretch(rows: &Rows) -> Claim {
    let (p99, most) = (latency::p99(GIB), latency::most(GIB));
    let columns = [documents(Mode::Batch), ours(Mode::Batch)];
    let claim = Claim::document("A batch of 32 MiB is far from what the kernel warns of, 100 ms")
        .asked("p99 of a stretch is at most a tenth of that")
        .published(Some("3 ms at 10 GB/s".into()))
        .on(rows, &[&p99, &most], &columns.each_ref().map(String::as_str))
        .quick_is_elsewhere(SMALLER);
    let Some(longest) = rows.get(&most, &columns[0]) else { return claim };
    let p99 = rows.get(&p99, &columns[0]).unwrap_or(longest);
    claim.measured(ClaimOutcome::at_most(p99, 10.0, 0.5), format!("{p99:.2} ms, the longest {longest:.2} ms"))
}

/// The best single primitive, in any mode.
fn best_single(rows: &Rows, metric: &str) -> Option<(String, f64)> {
    let single = rows.iter().filter(|r| r.metric == metric && !r.column.starts_with(CHOICE));
    single.max_by(|a, b| a.value.total_cmp(&b.value)).map(|r| (r.column.clone(), r.value))
}

fn best(rows: &Rows) -> Claim {
    let (metric, mine) = (units::cold(GIB, 1), ours(Mode::Extent));
    let claim = Claim::target("The arena's choice clears 1 GiB as fast as the best single primitive")
        .asked("at least 95 %")
        .quick_is_elsewhere(SMALLER);
    let (Some(our), Some((name, best))) = (rows.get(&metric, &mine), best_single(rows, &metric)) else {
        return claim;
    };
    claim
        .on(rows, &[&metric], &[&mine, &name])
        .figure(Figure::shared("GB/s").group(
            rows,
            "1 GiB, one thread",
            &[("pageyard", &metric, &mine), (&name, &metric, &name)],
        ))
        .measured(
            ClaimOutcome::at_least(100.0 * our / best, 95.0, noise(rows, &metric).max(RATES)),
            format!("{:.1} % of {name}, {our:.1} against {best:.1} GB/s", 100.0 * our / best),
        )
}

/// A target in multiples of the C library's `memset`, a page at a time.
fn times(rows: &Rows, what: &str, metric: &str, mine: &str, least: f64) -> Claim {
    let theirs = by(Primitive::Memset, Mode::Page);
    let claim =
        Claim::target(what).asked(format!("at least {least} times")).on(rows, &[metric], &[mine, &theirs]);
    let (Some(our), Some(memset)) = (rows.get(metric, mine), rows.get(metric, &theirs)) else { return claim };
    claim.measured(
        ClaimOutcome::at_least(our / memset, least, least * noise(rows, metric).max(RATES) / 100.0),
        format!("{:.2} times, {our:.1} against {memset:.1} GB/s", our / memset),
    )
}

fn memset(rows: &Rows) -> Claim {
    let what = "1 GiB is cleared faster than with memset a page at a time";
    times(rows, what, &units::cold(GIB, 1), &ours(Mode::Extent), 2.5).quick_is_elsewhere(SMALLER)
}

fn scattered(rows: &Rows) -> Claim {
    let what = "64 cold frames that lie apart are cleared faster than with memset of each";
    times(rows, what, &units::cold(PAGE, 1), &ours(Mode::Batch), 3.3)
}

fn hot(rows: &Rows) -> Claim {
    times(rows, "A hot frame is cleared as fast as with memset", &units::hot(PAGE), &ours(Mode::Page), 0.9)
}

fn asked(rows: &Rows) -> Claim {
    let (p99, rate, mine) = (latency::p99(GIB), latency::rate(GIB), ours(Mode::Batch));
    let claim =
        Claim::target("Asking every 32 MiB whether to stop costs little, and the answer is never far")
            .asked("p99 of a stretch at most 1 ms, at most 5 % below the whole extent")
            .on(rows, &[&p99, &rate], &[&mine, &ours(Mode::Extent)])
            .quick_is_elsewhere(SMALLER);
    let whole = rows.get(&rate, &ours(Mode::Extent));
    let (Some(ms), Some(batch), Some(whole)) = (rows.get(&p99, &mine), rows.get(&rate, &mine), whole) else {
        return claim;
    };
    let below = 100.0 * (whole - batch) / whole;
    let outcome = match ClaimOutcome::at_most(ms, 1.0, STRETCH_MS) {
        ClaimOutcome::Reproduced => ClaimOutcome::at_most(below, 5.0, pair(rows, &units::cold(GIB, 1))),
        other => other,
    };
    claim.measured(outcome, format!("{ms:.2} ms, {below:.1} % below"))
}

fn recycled(rows: &Rows, backing: &str, page: usize, size: &str) -> Claim {
    let metric = format!("{backing}, {}", faults::metric(page as u64, 1));
    let (arena, kernel) = (Path::ArenaRecycled.name(), Path::Kernel.name());
    let claim = Claim::target(format!(
        "Zeroed blocks of {size} that were used before arrive faster than by the kernel's faults"
    ))
    .asked("at least 1.5 times as many bytes a second")
    .on(rows, &[&metric], &Path::ALL.map(Path::name))
    .figure(Figure::shared("GB/s until a byte of each page is written").group(
        rows,
        format!("pages of {size}"),
        &[
            ("kernel", &metric, kernel),
            ("populate", &metric, Path::Populate.name()),
            ("arena, recycled", &metric, arena),
            ("arena, first use", &metric, Path::ArenaFirst.name()),
        ],
    ))
    .quick_is_too_small("128 MiB is little more than the caches hold");
    let (Some(ours), Some(theirs)) = (rows.get(&metric, arena), rows.get(&metric, kernel)) else {
        return claim.unmeasured(format!("the host has no pages of {size} to give"));
    };
    claim.measured(
        ClaimOutcome::at_least(ours / theirs, 1.5, 1.5 * DISTURBED / 100.0),
        format!("{:.2} times, {ours:.1} against {theirs:.1} GB/s", ours / theirs),
    )
}

fn survives(rows: &Rows) -> Claim {
    let (through, mine) = (documents(Mode::Extent), ours(Mode::Extent));
    let metric = survival::survives(Cache::Own);
    let last = survival::survives(Cache::Last);
    let claim =
        Claim::target("The arena's choice for large extents leaves another working set in the caches")
            .asked("at least half of it, and more than rep stosb")
            .on(rows, &[&metric, &last], &[&mine, &through])
            .figure(Figure::shared("% of a working set still in the second-level cache").group(
                rows,
                "after clearing 256 MiB",
                &[
                    ("memset", &metric, &by(Primitive::Memset, Mode::Extent)),
                    ("rep stosb", &metric, &through),
                    ("pageyard", &metric, &mine),
                ],
            ));
    let get = |metric: &str, column: &str| rows.get(metric, column);
    let (Some(ours), Some(theirs)) = (get(&metric, &mine), get(&metric, &through)) else {
        return claim.unmeasured("no working set stayed in a cache while nothing was cleared");
    };
    let last = match (get(&last, &mine), get(&last, &through)) {
        (Some(ours), Some(theirs)) => format!("; in the last-level cache {ours:.0} and {theirs:.0} %"),
        _ => String::new(),
    };
    let apart = rows.get(&survival::pair(Cache::Own), &documents(Mode::Page)).unwrap_or(0.0);
    let outcome = match ClaimOutcome::at_least(ours, 50.0, apart) {
        ClaimOutcome::Reproduced => ClaimOutcome::of_effect(ours > theirs, ours - theirs, apart),
        other => other,
    };
    claim.measured(outcome, format!("{ours:.0} % is left, {theirs:.0} % by rep stosb{last}"))
}

/// The document's own effect: from a large extent on the processor does not allocate lines for what it clears, so those
/// of others stay.
fn elided(rows: &Rows, cache: Cache, mode: Mode, what: &str) -> Claim {
    let (page, longer) = (documents(Mode::Page), documents(mode));
    let (metric, pair) = (survival::survives(cache), survival::pair(cache));
    let claim = Claim::document(format!(
        "{what} more of another working set in the {} than a page at a time",
        cache.name()
    ))
    .asked("more points than the same way differs by, measured twice")
    .published(Some("a third of the lines are allocated in batches, 1 % with one call".into()))
    .on(rows, &[&metric], &[&page, &longer])
    .on(rows, &[&pair], &[&page]);
    let (Some(before), Some(after)) = (rows.get(&metric, &page), rows.get(&metric, &longer)) else {
        return claim.unmeasured("no working set stayed in that cache while nothing was cleared");
    };
    let runs = if cache == Cache::Last { SHARED_CACHE } else { 0.0 };
    let apart = rows.get(&pair, &page).unwrap_or(0.0).max(runs);
    let outcome = match (after - before).abs() <= apart {
        true if runs > 0.0 => ClaimOutcome::NotCarried(format!(
            "other guests share this cache, and from run to run that moves it by {apart:.0} points"
        )),
        true => {
            ClaimOutcome::NotCarried(format!("a page at a time, measured twice, is {apart:.1} points apart"))
        }
        false => ClaimOutcome::of(after > before),
    };
    claim.measured(outcome, format!("{after:.0} % is left, {before:.0} % a page at a time"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::{Experiment, Published};

    /// Rows of a run in which one call gains so much at 1 GiB, and half of that in batches.
    fn rows(gain: f64, pair: f64) -> Rows {
        let mut rows = Rows::default();
        rows.section("Cold extents");
        for log in 12..=30_u32 {
            let (size, gain) =
                (1_usize << log, if log < 25 { 0.5 } else { gain * f64::from(log - 24) / 6.0 });
            rows.add(units::cold(size, 1), documents(Mode::Page), 25.0, "GB/s");
            rows.add(units::cold(size, 1), by(Primitive::Memset, Mode::Page), 25.0, "GB/s");
            rows.add(units::cold(size, 1), ours(Mode::Extent), 25.0 * (1.0 + gain / 100.0), "GB/s");
            rows.add(units::gain_of(size, 1), documents(Mode::Extent), gain, "%");
            rows.add(units::gain_of(size, 1), documents(Mode::Batch), gain / 2.0, "%");
            rows.add(format!("A/A {}", units::cold(size, 1)), documents(Mode::Page), pair, "% apart");
        }
        rows.append(super::super::BatchedClear.published(&Published::carried()));
        rows
    }

    fn outcomes(rows: &Rows) -> Vec<&'static str> {
        claims(rows).iter().map(|c| c.outcome.name()).collect()
    }

    #[test]
    fn claims_follow_their_rows() {
        let good = rows(200.0, 1.0);
        assert_eq!(outcomes(&good)[..3], ["reproduced", "reproduced", "reproduced"]);
        assert_eq!(outcomes(&rows(-160.0, 1.0))[..2], ["missed", "missed"]);
        assert_eq!(outcomes(&rows(8.0, 20.0))[..2], ["not_carried", "not_carried"]);
        assert_eq!(
            claims(&rows(160.0, 1.0))[8].outcome.name(),
            "not_carried",
            "2.6 may be 2.5 in another run"
        );
        assert!(outcomes(&Rows::default()).iter().all(|outcome| *outcome == "unmeasured"));
        let memset = &claims(&good)[8];
        assert_eq!(
            (memset.outcome.name(), memset.measured.as_str()),
            ("reproduced", "3.00 times, 75.0 against 25.0 GB/s")
        );
    }

    #[test]
    fn the_documents_arithmetic_is_repeated_from_its_own_tables() {
        let claim = &claims(&rows(160.0, 1.0))[4];
        assert_eq!(claim.published, "by its own tables +24.6 %, +42.6 % and +10.6, +7.6, +7.7, +3.1 %");
        assert_eq!(claim.outcome.name(), "unmeasured");
    }

    #[test]
    fn a_quick_run_judges_nothing_of_a_gigabyte() {
        let quick: Vec<Claim> = claims(&rows(160.0, 1.0)).into_iter().map(Claim::of_a_quick_run).collect();
        assert_eq!(quick[0].outcome.name(), "not_carried");
        assert!(quick[0].measured.is_empty());
    }
}
