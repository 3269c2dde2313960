//! The document's thirteen primitives, as `bench primitives` has them, and its prediction from them: the cost removed,
//! minus the cost added. The loop's own cost is in both.

use super::subjects::{AFTER, BEFORE, MASK, REGISTER};
use crate::experiment::{Published, Rows, Run};
use crate::harness::sampler::Sample;
use crate::primitives::{PREEMPT, SAVE, SAVE_MASK, SAVE_REGISTER, document_000};

const SECTION: &str = "Primitives";
pub(super) const KEPT: [&str; 4] = [SAVE, SAVE_REGISTER, SAVE_MASK, PREEMPT];
const PREDICTION: &str = "Prediction";
pub(super) const FROM_REGISTER: &str = "reference:preempt_only, from the flags register";
pub(super) const FROM_MASK: &str = "reference:preempt_only, from a signal mask";
pub(super) const PUBLISHED: &str = "published:time_bench";

pub(super) fn measure(run: &mut Run<'_>, rows: &mut Rows) {
    run.at("primitives", 0, 1);
    let mut all = document_000();
    let series = run.sampler().run(&mut all, |p| Sample::Counts([p.sample()]));
    rows.section(SECTION);
    for (primitive, [samples]) in all.iter().zip(&series) {
        rows.add(primitive.name, "reference", samples.median(), "ns");
    }
    rows.section(PREDICTION);
    let cost = |rows: &Rows, name: &str| rows.get(name, "reference").unwrap_or(f64::NAN);
    let added = cost(rows, PREEMPT);
    for (before, removed, column) in [
        (BEFORE, cost(rows, SAVE), AFTER),
        (REGISTER, cost(rows, SAVE_REGISTER), FROM_REGISTER),
        (MASK, cost(rows, SAVE_MASK), FROM_MASK),
    ] {
        rows.add("expected saving for one section", column, removed - added, "ns");
        rows.add("expected saving for a frame, two sections", column, 2.0 * (removed - added), "ns");
        for batch in [1, 64] {
            let metric = format!("Median total-odr0-{batch}");
            if let (Some(a), Some(b)) = (rows.get(&metric, before), rows.get(&metric, AFTER)) {
                rows.add(format!("measured saving for a frame, batch {batch}"), column, a - b, "ns");
            }
        }
    }
}

pub(super) fn published(tables: &Published, rows: &mut Rows) {
    rows.section(SECTION);
    let lines = tables.lines("time_bench");
    for line in lines.iter().filter(|l| !l.text("primitive").starts_with("page_bench")) {
        rows.add(line.text("primitive"), PUBLISHED, line.number("ns"), "ns");
    }
    let ns =
        |name: &str| lines.iter().find(|l| l.text("primitive") == name).map_or(f64::NAN, |l| l.number("ns"));
    rows.section(PREDICTION);
    let saving = ns("local_irq_save_restore") - ns("preempt_disable_enable");
    rows.add("expected saving for one section", PUBLISHED, saving, "ns");
    let measured = ns("page_bench02_baseline") - ns("page_bench02_irqsafe");
    rows.add("measured saving for a frame, batch 1", PUBLISHED, measured, "ns");
}
