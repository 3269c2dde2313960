//! What came of `irq-safe`, from its rows.

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
    let Some((low, middle, high)) = spread(rows, "gain total", AFTER) else { return String::new() };
    let Some((_, mask, _)) = spread(rows, "gain over a signal mask, total", AFTER) else {
        return String::new();
    };
    let sign = match middle {
        g if g > NOTHING && low > 0.0 => "reproduced in sign at every batch",
        g if g > NOTHING => "reproduced in sign at most batches",
        _ => "not reproduced",
    };
    let published = spread(rows, "gain total", IRQSAFE)
        .map_or(String::new(), |(l, _, h)| format!(" (published: {l:.0} to {h:.0} %)"));
    format!(
        "Sweep: {sign}: preempt_only costs {low:.1} to {high:.1} % less than irqsave by a flag, {middle:.1} % at the \
         median batch{published}; against a real signal mask it is {mask:.0} % less. A kernel's saving and restoring of \
         interrupts lies between the two: dearer than a flag, far cheaper than two system calls."
    )
}

fn prediction(rows: &Rows) -> String {
    let column = "reference:preempt_only, from a signal mask";
    let get = |metric: &str, column: &str| rows.get(metric, column);
    let two = "expected saving for a frame, two sections";
    let measured = "measured saving for a frame, batch 64";
    match (get(two, AFTER), get(measured, AFTER), get(two, column), get(measured, column)) {
        (Some(a), Some(b), Some(c), Some(d)) => format!(
            "Prediction: primitives say {a:.1} ns a frame against a flag, measured {b:.1}; against a signal mask {c:.0} ns, \
             measured {d:.0}."
        ),
        _ => String::new(),
    }
}

fn trace(rows: &Rows, trace: &str) -> Option<String> {
    let share = rows.get(&format!("{trace}: frees in interrupts"), "trace")?;
    let gain = |threads: &str, column: &str| rows.get(&format!("gain {trace}, {threads}"), column);
    let one = gain("1 thread", AFTER)?;
    let two = gain("2 threads", AFTER);
    let costs = two.map_or(one, |t| t.min(one));
    let says = if costs < -NOTHING {
        "the assumption fails here"
    } else if one > NOTHING && two.is_none_or(|t| t > NOTHING) {
        "the patch pays here"
    } else {
        "the patch makes no difference here"
    };
    let soft = gain("2 threads", SOFT_IRQ).or(gain("1 thread", SOFT_IRQ)).unwrap_or(0.0);
    let two = two.map_or(String::new(), |t| format!(" and {t:+.1} % on two"));
    Some(format!(
        "{trace}, {share:.0} % of order-0 frees in interrupts: preempt_only gains {one:+.1} % on one thread{two}: {says} \
         (soft_irq_allowed: {soft:+.1} %)."
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
