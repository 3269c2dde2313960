//! The verdict on `irq-safe`, from its rows.

use super::primitives::{FROM_MASK, FROM_REGISTER};
use super::{AFTER, BEFORE, ENGINE, IRQSAFE, MASK, PROTECTIONS, SOFT_IRQ, TRYLOCK};
use crate::experiment::Rows;
use crate::experiment::subject::batches;

/// A gain below this, in percent, is no gain: the A/A pair differs by as much.
const NOTHING: f64 = 1.0;

pub(super) fn verdict(rows: &Rows) -> String {
    let mut lines = vec![sweep(rows), prediction(rows)];
    lines.extend(["net-order0", "net", "build", "fork"].iter().filter_map(|t| trace(rows, t)));
    lines.push(bulk(rows));
    lines.push(storm(rows));
    lines.push(
        "aim9's before and after need two kernels: its rows are this kernel's alone, and the published ones stand as printed."
            .into(),
    );
    lines.retain(|l| !l.is_empty());
    lines.join("\n")
}

/// Returns least, median and greatest of a gain over the batches.
fn spread(rows: &Rows, metric: &str, column: &str) -> Option<(f64, f64, f64)> {
    let gain = |n: usize| rows.get(&format!("{metric}-odr0-{n}"), column);
    let mut all: Vec<f64> = batches(false).into_iter().filter_map(gain).collect();
    all.sort_unstable_by(f64::total_cmp);
    Some((*all.first()?, all[all.len() / 2], *all.last()?))
}

fn sweep(rows: &Rows) -> String {
    let of = |from: &str| spread(rows, &format!("gain{from} total"), AFTER);
    let (Some((low, middle, high)), Some((rlow, rmiddle, rhigh)), Some((_, mask, _))) =
        (of(""), of(" over the flags register,"), of(" over a signal mask,"))
    else {
        return String::new();
    };
    let sign = match rmiddle {
        g if g > NOTHING && rlow > 0.0 => "reproduced in sign at every batch",
        g if g > NOTHING => "reproduced in sign at most batches",
        _ => "not reproduced",
    };
    let published = spread(rows, "gain total", IRQSAFE)
        .map_or(String::new(), |(l, m, h)| format!(" (published: {l:.0} to {h:.0} %, median {m:.0} %)"));
    format!(
        "Sweep: {sign}: preempt_only costs {rlow:.1} to {rhigh:.1} % less than irqsave with the flags register, {rmiddle:.1} % \
         at the median batch{published}. Against a flag alone it is {low:.1} to {high:.1} %, median {middle:.1} %; against a \
         real signal mask {mask:.0} %."
    )
}

fn prediction(rows: &Rows) -> String {
    let both = |column: &str| {
        let expected = rows.get("expected saving for a frame, two sections", column)?;
        Some((expected, rows.get("measured saving for a frame, batch 64", column)?))
    };
    match (both(AFTER), both(FROM_REGISTER), both(FROM_MASK)) {
        (Some((a, b)), Some((c, d)), Some((e, f))) => format!(
            "Prediction for a frame, expected and measured at batch 64: from a flag {a:.1} and {b:.1} ns, from the flags \
             register {c:.1} and {d:.1} ns, from a signal mask {e:.0} and {f:.0} ns."
        ),
        _ => String::new(),
    }
}

fn trace(rows: &Rows, trace: &str) -> Option<String> {
    let share = rows.get(&format!("{trace}: frees in interrupts"), "trace")?;
    let gain = |before: &str, threads: &str, column: &str| {
        rows.get(&format!("gain over {before}, {trace}, {threads}"), column)
    };
    let one = gain("the flags register", "1 thread", AFTER)?;
    let two = gain("the flags register", "2 threads", AFTER);
    let flag = gain("a flag", "1 thread", AFTER)?;
    let costs = two.map_or(one, |t| t.min(one));
    let says = if one < -NOTHING {
        "the assumption fails here"
    } else if costs < -NOTHING {
        "the patch pays on one CPU, and loses that and more where two contend"
    } else if one > NOTHING && two.is_none_or(|t| t > NOTHING) {
        "the patch pays here"
    } else {
        "the patch makes no difference here"
    };
    let soft = gain("the flags register", "2 threads", SOFT_IRQ).or(gain(
        "the flags register",
        "1 thread",
        SOFT_IRQ,
    ));
    let soft = soft.map_or(String::new(), |g| format!("; soft_irq_allowed gains {g:+.1} %"));
    let two = two.map_or(String::new(), |t| format!(" and {t:+.1} % on two"));
    Some(format!(
        "{trace}, {share:.0} % of order-0 frees in interrupts: over the flags register preempt_only gains {one:+.1} % on one \
         thread{two} (over a flag {flag:+.1} %): {says}{soft}."
    ))
}

fn bulk(rows: &Rows) -> String {
    match (
        rows.get("gain bulk-64", TRYLOCK),
        rows.get("gain bulk-64", BEFORE),
        rows.get("gain bulk-64", ENGINE),
    ) {
        (Some(t), Some(b), Some(e)) => format!(
            "Bulk of 64 saves {b:.0} % on the reference with irqsave, {t:.0} % with trylock and {e:.0} % on the engine (the \
             thread reports 34 to 46 %)."
        ),
        _ => String::new(),
    }
}

fn storm(rows: &Rows) -> String {
    let columns = || PROTECTIONS.iter().map(|p| p.column).chain([ENGINE]);
    let sum = |metric: &str| columns().filter_map(|c| rows.get(metric, c)).sum::<f64>();
    let wrong = sum("frames with two owners, or lost");
    let all = sum("allocations by handlers");
    let deferred = [BEFORE, MASK].map(|c| rows.get("of those, deferred", c).unwrap_or(0.0));
    format!(
        "Async safety: {all:.0} allocations by signal handlers, {wrong:.0} frames with two owners or lost; the flag deferred \
         {:.0} handlers, the mask {:.0}.",
        deferred[0], deferred[1]
    )
}
