//! The claims of `irq-safe`, judged by its rows.

use super::aim9::{KERNEL, VARIES, VARIES_AGAIN};
use super::assumption::{ITS_CPUS, ONE_CPU, QUICK_CALLS};
use super::primitives::{FROM_MASK, FROM_REGISTER, KEPT, PUBLISHED};
use super::subjects::{
    AFTER, BEFORE, ENGINE, IRQSAFE, MASK, PROTECTIONS, REGISTER, SOFT_IRQ, TRYLOCK, VANILLA,
};
use crate::experiment::claim::{Claim, ClaimOutcome, worst_pair};
use crate::experiment::figure::Figure;
use crate::experiment::lines::whole;
use crate::experiment::machines::{ROUTER_PACKET_NS, batches};
use crate::experiment::{DISTURBED, Rows};

/// A gain below this, in percent, is no gain: the A/A pair differs by as much.
const NOTHING: f64 = 1.0;

const TABLE: &str = "000, table of batches";
const TEXT: &str = "000, the commit's text";
const AIM9: &str = "000, aim9 and below";
const BROUER: &str = "000, J. D. Brouer's test";
const MAIL: &str = "000, the mail's beginning";

pub(super) fn claims(rows: &Rows) -> Vec<Claim> {
    let mut claims = vec![sweep(rows).at(TABLE), prediction(rows).at(BROUER)];
    claims.extend(RECORDINGS.map(|t| trace(rows, t).at(TEXT)));
    claims.extend([bulk(rows).at(MAIL), storm(rows), aim9(rows).at(AIM9), loops(rows).at(AIM9)]);
    claims.extend([part(rows, "alloc", (14.0, 20.0)).at(TEXT), part(rows, "free", (26.0, 46.0)).at(TEXT)]);
    claims.extend([
        dearer(rows).at(BROUER),
        one_frame(rows).at(BROUER),
        in_interrupts(rows).at(TEXT),
        soft_interrupts(rows).at(TEXT),
        bulk_alone(rows).at(TEXT),
        network(rows).at(AIM9),
    ]);
    claims.extend(["page_test", "brk_test"].map(|test| little(rows, test).at(AIM9)));
    claims
}

/// Returns least, median and greatest of a gain over the batches.
fn spread(rows: &Rows, metric: &str, column: &str) -> Option<(f64, f64, f64)> {
    let gain = |n: usize| rows.get(&format!("{metric}-odr0-{n}"), column);
    let mut all: Vec<f64> = batches(false).into_iter().filter_map(gain).collect();
    all.sort_unstable_by(f64::total_cmp);
    Some((*all.first()?, all[all.len() / 2], *all.last()?))
}

fn sweep(rows: &Rows) -> Claim {
    let metrics = |gain: &str| -> Vec<String> {
        batches(false).iter().map(|n| format!("{gain} total-odr0-{n}")).collect()
    };
    let published = spread(rows, "gain total", IRQSAFE);
    let median = "Median total-odr0-64";
    let claim = Claim::document(
        "Turning off preemption instead of interrupts makes a frame cheaper to take and give back, at every batch size",
    )
    .published(published.map(|(l, m, h)| format!("{l:.0} to {h:.0} % less, {m:.0} % at the median batch")))
    .on(rows, &metrics("gain"), &[IRQSAFE])
    .on(rows, &metrics("gain over the flags register,"), &[AFTER])
    .figure(
        Figure::own("a frame taken and given back in batches of 64; in multiples of each machine's own time before the patch")
            .group(
                rows,
                "published",
                &[("before", "total-odr0-64", VANILLA), ("after", "total-odr0-64", IRQSAFE)],
            )
            .group(
                rows,
                "here",
                &[("before", median, REGISTER), ("after", median, AFTER), ("pageyard", median, ENGINE)],
            ),
    )
    .quick_is_too_small("it measures 4 of the 15 batch sizes");
    let of = |from: &str| spread(rows, &format!("gain{from} total"), AFTER);
    let (Some((low, middle, high)), Some(flag), Some(mask)) =
        (of(" over the flags register,"), of(""), of(" over a signal mask,"))
    else {
        return claim;
    };
    let pair = sweep_pair(rows);
    claim.measured(
        ClaimOutcome::of_effect(low > 0.0 && middle > NOTHING, middle, pair),
        format!(
            "{low:.1} to {high:.1} % less, {middle:.1} % at the median batch; that is over the flags register, and {:.1} % over a \
             flag alone, {:.0} % over a signal mask",
            flag.1, mask.1
        ),
    )
}

fn prediction(rows: &Rows) -> Claim {
    let (expected, measured) =
        ("expected saving for a frame, two sections", "measured saving for a frame, batch 64");
    let (one, first) = ("expected saving for one section", "measured saving for a frame, batch 1");
    let published = rows.get(one, PUBLISHED).zip(rows.get(first, PUBLISHED));
    let claim = Claim::document("What the patch removes, less what it adds, predicts what a frame saves")
        .asked("within a quarter of the expected saving")
        .published(published.map(|(e, m)| format!("{e:.1} ns expected for one section, {m:.1} ns measured")))
        .on(rows, &[expected, measured], &[FROM_REGISTER, AFTER, FROM_MASK])
        .figure(
            Figure::shared("nanoseconds saved for a frame")
                .group(rows, "published", &[("expected", one, PUBLISHED), ("measured", first, PUBLISHED)])
                .group(
                    rows,
                    "here, from the flags register",
                    &[("expected", expected, FROM_REGISTER), ("measured", measured, FROM_REGISTER)],
                ),
        );
    let both = |column: &str| Some((rows.get(expected, column)?, rows.get(measured, column)?));
    let (Some((a, b)), Some((c, d)), Some((e, f))) = (both(AFTER), both(FROM_REGISTER), both(FROM_MASK))
    else {
        return claim;
    };
    // A saving that is no more than what the same variant differs from itself is not known.
    let noise = sweep_pair(rows) / 100.0 * rows.get("Median total-odr0-64", REGISTER).unwrap_or(0.0);
    let outcome = match c.min(d) <= noise && noise > 0.0 {
        true => ClaimOutcome::NotCarried(format!(
            "in the sweep the same variant measured twice differs by {noise:.1} ns"
        )),
        false => ClaimOutcome::at_most((d / c - 1.0).abs(), 0.25, noise / c),
    };
    claim.measured(
        outcome,
        format!(
            "{c:.1} ns expected, {d:.1} ns measured; that is from the flags register, from a flag {a:.1} and {b:.1} ns, from a \
             signal mask {e:.0} and {f:.0} ns"
        ),
    )
}

/// Returns by how many percent the same variant differs from itself at the median batch of the sweep: about two
/// standard errors of a median over the batches.
fn sweep_pair(rows: &Rows) -> f64 {
    let pair = |n: usize| rows.get(&format!("A/A total-odr0-{n}"), BEFORE);
    let mut all: Vec<f64> = batches(false).into_iter().filter_map(pair).map(f64::abs).collect();
    all.sort_unstable_by(f64::total_cmp);
    all.get(all.len() / 2).copied().unwrap_or(0.0)
}

fn trace(rows: &Rows, trace: &str) -> Claim {
    let share = rows.get(&format!("{trace}: frees in interrupts"), "trace");
    let told =
        share.map_or(String::new(), |s| format!(", where {s:.0} % of order-0 frees are in interrupts"));
    let cost = |threads: &str| format!("{trace}, {threads}");
    let (one_thread, two_threads) = (cost(ONE_CPU), cost(ITS_CPUS));
    let mut claim = Claim::document(format!("The patch pays on the recording {trace}{told}"))
        .published(Some("assumed: interrupts seldom allocate much".into()))
        .figure(Figure::shared("nanoseconds for a call").group(rows, "one CPU", &bars(&one_thread)).group(
            rows,
            "its CPUs, each call where it was recorded",
            &bars(&two_threads),
        ));
    if rows.get(&format!("{trace}: calls"), "trace").is_none_or(|n| n >= QUICK_CALLS as f64) {
        claim = claim.quick_is_too_small("it makes the first 60,000 calls of the recording only");
    }
    let gain = |before: &str, threads: &str, column: &str| {
        rows.get(&format!("gain over {before}, {trace}, {threads}"), column)
    };
    let (Some(one), Some(flag)) =
        (gain("the flags register", ONE_CPU, AFTER), gain("a flag", ONE_CPU, AFTER))
    else {
        return claim.unmeasured("the recording is not below this folder");
    };
    let two = gain("the flags register", ITS_CPUS, AFTER);
    let soft =
        gain("the flags register", ITS_CPUS, SOFT_IRQ).or(gain("the flags register", ONE_CPU, SOFT_IRQ));
    let soft = soft.map_or(String::new(), |g| format!(", {g:+.1} % with soft interrupts off"));
    let on_two = two
        .map_or(String::new(), |t| format!(", {t:+.1} % with each call on the CPU that the recording names"));
    let pair = trace_pair(rows, trace);
    claim
        .on(
            rows,
            &[&one_thread, &two_threads].map(|m| format!("gain over the flags register, {m}")),
            &[AFTER, SOFT_IRQ],
        )
        .measured(
            pays(&[Some(one), two], pair),
            format!("{one:+.1} % on one CPU{on_two}; saved over the flags register, {flag:+.1} % over a flag alone{soft}"),
        )
}

fn bars(metric: &str) -> [(&str, &str, &str); 4] {
    [
        ("before", metric, REGISTER),
        ("after", metric, AFTER),
        ("softirqs off", metric, SOFT_IRQ),
        ("pageyard", metric, ENGINE),
    ]
}

/// Judges whether a change pays wherever it was measured.
fn pays(gains: &[Option<f64>], pair: f64) -> ClaimOutcome {
    let noise = pair.max(NOTHING);
    let gains: Vec<f64> = gains.iter().flatten().copied().collect();
    if gains.iter().any(|g| *g < -noise) {
        return ClaimOutcome::Missed;
    }
    match gains.iter().copied().find(|g| *g <= noise) {
        Some(least) if pair > NOTHING => ClaimOutcome::of_effect(false, least, pair),
        Some(_) => ClaimOutcome::Missed,
        None => ClaimOutcome::Reproduced,
    }
}

fn bulk(rows: &Rows) -> Claim {
    let (single, bulk) = ("one by one-64", "bulk-64");
    let mut figure = Figure::own("a frame of 64; in multiples of the same frames one by one");
    for (name, column) in [("Linux, irqsave", BEFORE), ("Linux, trylock", TRYLOCK), ("pageyard", ENGINE)] {
        figure = figure.group(rows, name, &[("one by one", single, column), ("64 a call", bulk, column)]);
    }
    let gain = |column: &str| rows.get("gain bulk-64", column);
    let claim = Claim::document("Taking 64 frames with one call is cheaper than one by one")
        .asked("at least 34 % less, in each of them")
        .published(Some("34 to 46 % less".into()))
        .on(rows, &["gain bulk-64"], &[BEFORE, TRYLOCK, ENGINE])
        .figure(figure.asked(0.66));
    let (Some(b), Some(t), Some(e)) = (gain(BEFORE), gain(TRYLOCK), gain(ENGINE)) else { return claim };
    claim.measured(
        ClaimOutcome::of([b, t, e].iter().all(|g| *g >= 34.0)),
        format!("{b:.0} % less on Linux with irqsave, {t:.0} % with trylock, {e:.0} % on the engine"),
    )
}

fn storm(rows: &Rows) -> Claim {
    const WRONG: &str = "frames with two owners, or lost";
    const TAKEN: &str = "allocations by handlers";
    const DEFERRED: &str = "of those, deferred";
    let columns: Vec<&str> = PROTECTIONS.iter().map(|p| p.column).chain([ENGINE]).collect();
    let claim = Claim::target(
        "Signal handlers allocate while the threads that they interrupt do, and no frame gets two owners",
    )
    .asked("none with two owners, none lost, under each protection")
    .on(rows, &[WRONG, TAKEN, DEFERRED], &columns);
    let all = |metric: &str| columns.iter().filter_map(|c| rows.get(metric, c)).collect::<Vec<f64>>();
    let (wrong, taken) = (all(WRONG), all(TAKEN));
    if wrong.len() < columns.len() || taken.len() < columns.len() {
        return claim;
    }
    let deferred = [BEFORE, MASK].map(|c| rows.get(DEFERRED, c).unwrap_or(0.0));
    claim.measured(
        ClaimOutcome::of(wrong.iter().sum::<f64>() == 0.0 && taken.iter().all(|n| *n > 0.0)),
        format!(
            "{} with two owners or lost; {} allocations by handlers, and of the handlers the flag made {} wait, the mask {}",
            whole(wrong.iter().sum()),
            whole(taken.iter().sum()),
            whole(deferred[0]),
            whole(deferred[1])
        ),
    )
}

fn aim9(rows: &Rows) -> Claim {
    let published = rows.get(VARIES, VANILLA).zip(rows.get(VARIES, IRQSAFE));
    Claim::document("The time of aim9's page_test varies less")
        .published(
            published.map(|(before, after)| {
                format!("a coefficient of variation of {before:.2} %, then {after:.2} %")
            }),
        )
        .figure(
            Figure::shared("coefficient of variation, %")
                .group(rows, "published", &[("before", VARIES, VANILLA), ("after", VARIES, IRQSAFE)])
                .group(rows, "here, as it is", &[("this kernel", VARIES, KERNEL), ("arena", VARIES, ENGINE)]),
        )
        .unmeasured("needs two kernels built apart")
}

/// One path's gain, as the text says it.
fn part(rows: &Rows, kind: &str, (low, high): (f64, f64)) -> Claim {
    let what = if kind == "alloc" { "Taking" } else { "Giving back" };
    let published = spread(rows, &format!("gain {kind}"), IRQSAFE);
    let metrics: Vec<String> =
        batches(false).iter().map(|n| format!("gain over the flags register, {kind}-odr0-{n}")).collect();
    let claim = Claim::document(format!("{what} a frame gains {low:.0} to {high:.0} %"))
        .asked("the median batch within that range")
        .published(published.map(|(least, _, most)| format!("{least:.0} to {most:.0} % in the table")))
        .on(rows, &metrics, &[AFTER])
        .quick_is_too_small("it measures 4 of the 15 batch sizes");
    let Some((least, middle, most)) = spread(rows, &format!("gain over the flags register, {kind}"), AFTER)
    else {
        return claim;
    };
    let pair = sweep_pair(rows);
    let outcome = match (middle < low, middle > high) {
        (true, _) => ClaimOutcome::at_least(middle, low, pair),
        (_, true) => ClaimOutcome::at_most(middle, high, pair),
        _ => ClaimOutcome::Reproduced,
    };
    claim.measured(
        outcome,
        format!("{least:.1} to {most:.1} %, {middle:.1} % at the median batch, over the flags register"),
    )
}

/// The two primitives that the patch exchanges.
fn dearer(rows: &Rows) -> Claim {
    let [flag, register, mask, preempt] = KEPT;
    let printed = rows.get(flag, PUBLISHED).zip(rows.get(preempt, PUBLISHED));
    let claim = Claim::document("Saving and restoring interrupts costs more than turning preemption off")
        .published(printed.map(|(removed, added)| format!("{removed:.1} and {added:.1} ns")))
        .on(rows, &KEPT, &["reference"])
        .on(rows, &[flag, preempt], &[PUBLISHED]);
    let of = |name: &str| rows.get(name, "reference");
    let (Some(register), Some(preempt), Some(flag), Some(mask)) =
        (of(register), of(preempt), of(flag), of(mask))
    else {
        return claim;
    };
    claim.measured(
        ClaimOutcome::at_least(register / preempt, 1.0, 0.1),
        format!("{register:.1} and {preempt:.1} ns with the flags register; {flag:.1} ns with a flag, {mask:.0} ns with a signal mask"),
    )
}

fn one_frame(rows: &Rows) -> Claim {
    let gain = "page_bench02, gain over the flags register";
    let claim = Claim::document("page_bench02, one frame in a loop, becomes cheaper")
        .published(rows.gain("page_bench02", VANILLA, IRQSAFE).map(|g| format!("{g:.1} %")))
        .on(rows, &[gain], &[AFTER])
        .on(rows, &["A/A page_bench02"], &[BEFORE]);
    let (Some(is), Some(pair)) = (rows.get(gain, AFTER), rows.get("A/A page_bench02", BEFORE)) else {
        return claim;
    };
    claim.measured(ClaimOutcome::of_effect(is > 0.0, is, pair), format!("{is:.1} % over the flags register"))
}

/// The gain over the flags register on a recording, each call on the CPU that it was recorded on.
fn traced(rows: &Rows, trace: &str, column: &str) -> Option<f64> {
    rows.get(&format!("gain over the flags register, {trace}, {ITS_CPUS}"), column)
}

const RECORDINGS: [&str; 4] = ["net-order0", "net", "build", "fork"];

fn in_interrupts(rows: &Rows) -> Claim {
    let metric = format!("gain over the flags register, net-order0, {ITS_CPUS}");
    let claim = Claim::document("Allocations from interrupts become slightly slower")
        .asked("at most 10 % where three in four frees come from interrupts, on their CPUs")
        .on(rows, &[metric], &[AFTER])
        .quick_is_too_small("it makes the first 60,000 calls of the recording only");
    let Some(gain) = traced(rows, "net-order0", AFTER) else { return claim };
    claim.measured(
        ClaimOutcome::at_most(-gain, 10.0, trace_pair(rows, "net-order0")),
        format!("{:.0} % slower", -gain),
    )
}

/// By how much a gain on a recording may differ: its pair, and two full runs were up to 6 % apart.
fn trace_pair(rows: &Rows, trace: &str) -> f64 {
    DISTURBED.max(worst_pair(rows.iter().filter(|r| r.metric.starts_with(&format!("A/A {trace}, ")))))
}

fn soft_interrupts(rows: &Rows) -> Claim {
    let metrics = RECORDINGS.map(|t| format!("gain over the flags register, {t}, {ITS_CPUS}"));
    let claim = Claim::document("Letting soft interrupts use the lists is worth its cost")
        .asked("it pays on every recording, on their CPUs")
        .published(Some("not clear".into()))
        .on(rows, &metrics, &[SOFT_IRQ])
        .quick_is_too_small("it makes the first 60,000 calls of each recording only");
    let gains = RECORDINGS.map(|t| traced(rows, t, SOFT_IRQ));
    if gains.iter().any(Option::is_none) {
        return claim;
    }
    let pair = RECORDINGS.iter().map(|t| trace_pair(rows, t)).fold(0.0, f64::max);
    let said: Vec<String> = gains.iter().flatten().map(|g| format!("{g:+.0}")).collect();
    claim.measured(pays(&gains, pair), format!("{} % on {}", said.join(", "), RECORDINGS.join(", ")))
}

fn bulk_alone(rows: &Rows) -> Claim {
    let claim = Claim::document("A bulk allocator does not need the patch")
        .asked("64 a call gain at least 34 % without it")
        .on(rows, &["gain bulk-64"], &[BEFORE, AFTER]);
    let (Some(before), Some(after)) = (rows.get("gain bulk-64", BEFORE), rows.get("gain bulk-64", AFTER))
    else {
        return claim;
    };
    claim.measured(
        ClaimOutcome::at_least(before, 34.0, sweep_pair(rows)),
        format!("{before:.0} % without the patch, {after:.0} % with it"),
    )
}

fn network(rows: &Rows) -> Claim {
    let saved = "measured saving for a frame, batch 64";
    let claim = Claim::document("Network benchmarks gain little, since other costs dominate")
        .asked("at most 5 % of a packet's cost, 1.1 µs in the router of document 003")
        .on(rows, &[saved], &[FROM_REGISTER]);
    let Some(ns) = rows.get(saved, FROM_REGISTER) else { return claim };
    let share = ns / ROUTER_PACKET_NS * 100.0;
    claim.measured(ClaimOutcome::at_most(share, 5.0, 1.0), format!("{share:.1} %, {ns:.1} ns a frame"))
}

/// A test of aim9: what the patch saves over the reference, of the time that this machine's kernel takes for the whole.
fn little(rows: &Rows, test: &str) -> Claim {
    let metric = format!("Hmean {test}");
    let claim = Claim::document(format!("aim9's {test} gains little"))
        .asked("at most 10 % of this kernel's time, by what is saved over the reference")
        .published(rows.gain(&metric, VANILLA, IRQSAFE).map(|less| format!("{:+.2} %", -less)))
        .on(rows, &[&metric], &[KERNEL, REGISTER, AFTER]);
    let ns = |column: &str| Some(1e9 / rows.get(&metric, column)?);
    let (Some(kernel), Some(before), Some(after)) = (ns(KERNEL), ns(REGISTER), ns(AFTER)) else {
        return claim;
    };
    let saved = before - after;
    let share = saved / kernel * 100.0;
    claim.measured(
        ClaimOutcome::at_most(share.abs(), 10.0, 1.0),
        format!("{share:+.1} %, {saved:.0} of {} ns", whole(kernel)),
    )
}

/// The same loop without a kernel: what the lists' protection alone does to how much a page fault's time varies.
fn loops(rows: &Rows) -> Claim {
    let claim =
        Claim::document("Of the same loop over the reference (take, clear, note), too, the time varies less")
            .on(rows, &[VARIES_AGAIN], &[BEFORE])
            .figure(Figure::shared("coefficient of variation, %").group(
                rows,
                "the reference, here",
                &[("before", VARIES, BEFORE), ("after", VARIES, AFTER), ("try-lock", VARIES, TRYLOCK)],
            ));
    let of = |metric: &str, column: &str| rows.get(metric, column);
    let (Some(before), Some(after), Some(again)) =
        (of(VARIES, BEFORE), of(VARIES, AFTER), of(VARIES_AGAIN, BEFORE))
    else {
        return claim;
    };
    claim.measured(
        ClaimOutcome::of_effect(after < before, before - after, before - again),
        format!("{before:.2} %, then {after:.2} %; before, measured again, {again:.2} %"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gains(rows: &mut Rows, all: &[(&str, f64)], column: &str) {
        all.iter().for_each(|(metric, value)| rows.add(*metric, column, *value, "%"));
    }

    /// Rows of a run in which the patch gains this much in the sweep, and this much on a recording of so many calls.
    fn rows(swept: f64, pair: f64, traced: [f64; 2], calls: f64) -> Rows {
        let mut rows = Rows::default();
        for n in batches(false) {
            rows.section("Sweep");
            rows.add(format!("A/A total-odr0-{n}"), BEFORE, pair, "% apart");
            rows.section("Less than irqsave");
            for gain in ["gain", "gain over the flags register,", "gain over a signal mask,"] {
                rows.add(format!("{gain} total-odr0-{n}"), AFTER, swept, "%");
            }
        }
        rows.section("Prediction");
        for column in [AFTER, FROM_REGISTER, FROM_MASK] {
            rows.add("expected saving for a frame, two sections", column, 12.0, "ns");
            rows.add("measured saving for a frame, batch 64", column, 12.0 * swept / 18.0, "ns");
        }
        rows.section("The traces, order 0");
        rows.add("net-order0: calls", "trace", calls, "");
        rows.add("net-order0: frees in interrupts", "trace", 77.0, "%");
        rows.section("Less than irqsave, on the traces");
        let [one, two] = traced;
        gains(
            &mut rows,
            &[
                ("gain over the flags register, net-order0, one CPU", one),
                ("gain over the flags register, net-order0, its CPUs", two),
                ("gain over a flag, net-order0, one CPU", one - 10.0),
            ],
            AFTER,
        );
        rows.add("A/A net-order0, its CPUs", BEFORE, pair, "% apart");
        rows.section("Bulk");
        for column in [BEFORE, TRYLOCK, ENGINE] {
            rows.add("gain bulk-64", column, 2.0 * swept, "%");
        }
        rows.section("Async safety");
        for column in PROTECTIONS.iter().map(|p| p.column).chain([ENGINE]) {
            rows.add("allocations by handlers", column, 1000.0, "");
            rows.add("frames with two owners, or lost", column, if swept > 0.0 { 0.0 } else { 1.0 }, "");
        }
        rows
    }

    /// The outcomes of sweep, prediction, the first recording, bulk, storm and aim9.
    fn names(claims: &[Claim]) -> Vec<&str> {
        [0, 1, 2, 6, 7, 8].iter().map(|i| claims[*i].outcome.name()).collect()
    }

    #[test]
    fn claims_are_reproduced_and_missed_by_their_rows() {
        let held = claims(&rows(18.0, 1.5, [13.0, 8.0], 2e6));
        assert_eq!(
            names(&held),
            ["reproduced", "reproduced", "reproduced", "reproduced", "reproduced", "unmeasured"]
        );
        let failed = claims(&rows(-18.0, 1.5, [0.2, -146.0], 2e6));
        assert_eq!(names(&failed), ["missed", "missed", "missed", "missed", "missed", "unmeasured"]);
        assert!(failed[2].line().starts_with("not reproduced: ") && failed[7].line().starts_with("missed: "));
        assert!(failed[2].what.contains("77 %"), "{}", failed[2].what);
    }

    #[test]
    fn a_loop_varies_less_only_if_it_does_by_more_than_it_differs_from_itself() {
        let judged = |before, after, again| {
            let mut rows = Rows::default();
            rows.add(VARIES, BEFORE, before, "%");
            rows.add(VARIES, AFTER, after, "%");
            rows.add(VARIES_AGAIN, BEFORE, again, "%");
            loops(&rows).outcome.name()
        };
        assert_eq!(judged(3.0, 1.0, 2.5), "reproduced");
        assert_eq!(judged(1.0, 3.0, 1.5), "missed");
        assert_eq!(judged(3.0, 2.5, 2.0), "not_carried");
        assert_eq!(loops(&Rows::default()).outcome.name(), "unmeasured");
    }

    #[test]
    fn a_gain_within_the_noise_is_no_verdict() {
        let claims = claims(&rows(3.0, 5.9, [13.0, -2.5], 2e6));
        assert_eq!(names(&claims)[0], "not_carried");
        assert_eq!(names(&claims)[2], "not_carried");
        assert_eq!(pays(&[Some(13.0), Some(0.3)], 0.5), ClaimOutcome::Missed, "no gain, measured well");
        assert_eq!(pays(&[Some(13.0), None], 0.5), ClaimOutcome::Reproduced);
    }

    #[test]
    fn a_quick_run_judges_neither_the_sweep_nor_a_long_recording() {
        let quick = |calls| -> Vec<Claim> {
            claims(&rows(18.0, 1.5, [13.0, 8.0], calls)).into_iter().map(Claim::of_a_quick_run).collect()
        };
        assert_eq!(names(&quick(60_000.0))[..3], ["not_carried", "reproduced", "not_carried"]);
        assert_eq!(names(&quick(4_086.0))[2], "reproduced", "all of its calls were made");
    }

    #[test]
    fn what_was_not_measured_has_no_verdict() {
        assert!(claims(&Rows::default()).iter().all(|c| c.outcome.name() == "unmeasured"));
    }
}
