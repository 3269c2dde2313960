//! The cost of each protection alone, and the document's prediction from it: the cost removed, minus the cost added.

use super::subjects::{AFTER, BEFORE, MASK, REGISTER};
use crate::experiment::{Published, Rows, Run};
use crate::harness::clock::now_ns;
use crate::harness::sampler::Sample;
use crate::harness::samples::Samples;
use pageyard_linux::config::PcpProtection;
use pageyard_linux::irq::Interrupts;
use std::hint::black_box;

const SECTION: &str = "Primitives";
const PREDICTION: &str = "Prediction";
pub(super) const FROM_REGISTER: &str = "reference:preempt_only, from the flags register";
pub(super) const FROM_MASK: &str = "reference:preempt_only, from a signal mask";
pub(super) const PUBLISHED: &str = "published:time_bench";

/// A primitive: its row, and what times it, in nanoseconds.
type Primitive = (&'static str, fn() -> f64);

const SAVE: &str = "local_irq_save_restore";
const SAVE_REGISTER: &str = "local_irq_save_restore, flags register";
const SAVE_MASK: &str = "local_irq_save_restore, signal mask";
const PREEMPT: &str = "preempt_disable_enable";

const PRIMITIVES: [Primitive; 6] = [
    (SAVE, || time(1_000_000, || drop(Interrupts::SoftFlag.off()))),
    (SAVE_REGISTER, || time(300_000, || drop(Interrupts::FlagsRegister.off()))),
    (SAVE_MASK, || time(3_000, || drop(Interrupts::SignalMask.off()))),
    (PREEMPT, || time(1_000_000, || drop(Interrupts::SoftFlag.protect(PcpProtection::PreemptOnly)))),
    ("local_BH_disable_enable", || {
        time(1_000_000, || drop(Interrupts::SoftFlag.protect(PcpProtection::SoftIrqAllowed)))
    }),
    ("for_loop", || time(1_000_000, || {})),
];

#[inline(always)]
fn time(times: u32, run: impl Fn()) -> f64 {
    let start = now_ns();
    for i in 0..times {
        run();
        black_box(i);
    }
    (now_ns() - start) as f64 / f64::from(times)
}

pub(super) fn measure(run: &mut Run<'_>, rows: &mut Rows) {
    run.at("primitives", 0, 1);
    let mut all = PRIMITIVES;
    let series = run.sampler().run(&mut all, |(_, time)| Sample::Counts([time()]));
    let samples = |i: usize| -> &Samples { &series[i][0] };
    let empty = samples(PRIMITIVES.len() - 1).median();
    rows.section(SECTION);
    for (i, (name, _)) in PRIMITIVES.iter().enumerate() {
        let own = if *name == "for_loop" { samples(i).median() } else { samples(i).median() - empty };
        rows.add(*name, "reference", own, "ns");
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
    for line in lines.iter().filter(|l| !l.text("primitive").starts_with("page_")) {
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
