//! The document's microbenchmark: batches of single frames, taken and given back in the same order.

use super::subjects::{
    AFTER, BEFORE, IRQSAFE, MASK, Machines, PROTECTIONS, REGISTER, SOFT_IRQ, SOFT_OFF, VANILLA,
};
use crate::experiment::machines::{Batches, batches};
use crate::experiment::{Published, Rows, Run};
use crate::harness::sampler::Sample;

const SECTION: &str = "Sweep";
const GAINS: &str = "Less than irqsave";
const KINDS: [&str; 3] = ["alloc", "free", "total"];

pub(super) fn measure(machines: &Machines, run: &mut Run<'_>, rows: &mut Rows) {
    let mut subjects = machines.subjects();
    let batches = batches(run.quick);
    let (mut worst, mut gains): (f64, _) = (0.0, Rows::default());
    for (done, batch) in batches.iter().enumerate() {
        run.at("sweep", done, batches.len());
        let load = Batches::one_by_one(*batch, run.quick);
        let series = run.sampler().run(&mut subjects, |s| load.sample(*s, &machines.team));
        rows.section(SECTION);
        for (subject, series) in subjects.iter().zip(&series).filter(|(s, _)| s.name() != "again") {
            for (kind, samples) in KINDS.iter().zip(series) {
                rows.add_samples(&format!("{kind}-odr0-{batch}"), subject.name(), samples, "ns");
            }
        }
        let at = |column: &str| subjects.iter().position(|s| s.name() == column).unwrap_or(0);
        gains.section(GAINS);
        for (i, kind) in KINDS.iter().enumerate() {
            let of = |before: &str, after: &str| series[at(before)][i].paired_gain(&series[at(after)][i]);
            for p in PROTECTIONS.iter().filter(|p| ![BEFORE, MASK, REGISTER].contains(&p.column)) {
                gains.add(format!("gain {kind}-odr0-{batch}"), p.column, of(BEFORE, p.column), "%");
            }
            for (before, name) in [(REGISTER, "the flags register"), (MASK, "a signal mask")] {
                gains.add(format!("gain over {name}, {kind}-odr0-{batch}"), AFTER, of(before, AFTER), "%");
            }
        }
        let pair = series[0][2].paired_gain(&series[subjects.len() - 1][2]);
        rows.add(format!("A/A total-odr0-{batch}"), BEFORE, pair, "% apart");
        worst = if pair.abs() > worst.abs() { pair } else { worst };
    }
    run.check_pair("the sweep", worst);
    rows.append(gains);
}

/// Pairs of a sample of `page_bench02`.
const PAIRS: u32 = 1 << 15;

/// `page_bench02`: one frame taken and given back in a loop that does nothing else.
pub(super) fn page_bench02(machines: &Machines, run: &mut Run<'_>, rows: &mut Rows) {
    run.at("page_bench02", 0, 1);
    let mut subjects = machines.subjects();
    let series = run.sampler().run(&mut subjects, |s| match s.pairs(PAIRS) {
        Some(ns) => Sample::Counts([ns as f64 / f64::from(PAIRS)]),
        None => Sample::Disturbed,
    });
    rows.section("page_bench02");
    for (subject, [samples]) in subjects.iter().zip(&series).filter(|(s, _)| s.name() != "again") {
        rows.add("page_bench02", subject.name(), samples.median(), "ns");
    }
    let of = |column: &str| {
        subjects.iter().position(|s| s.name() == column).map_or(&series[0][0], |i| &series[i][0])
    };
    for (before, name) in [(BEFORE, "a flag"), (REGISTER, "the flags register"), (MASK, "a signal mask")] {
        for after in [AFTER, SOFT_OFF, SOFT_IRQ] {
            rows.add(
                format!("page_bench02, gain over {name}"),
                after,
                of(before).paired_gain(of(after)),
                "%",
            );
        }
    }
    rows.add("A/A page_bench02", BEFORE, of(BEFORE).paired_gain(&series[subjects.len() - 1][0]), "% apart");
}

pub(super) fn published(tables: &Published, rows: &mut Rows) {
    for line in tables.lines("irq_safe_pcp") {
        for kind in KINDS {
            let batch = line.text("batch");
            rows.section(SECTION);
            rows.add(
                format!("{kind}-odr0-{batch}"),
                VANILLA,
                line.number(&format!("{kind}_vanilla")),
                "cycles",
            );
            rows.add(
                format!("{kind}-odr0-{batch}"),
                IRQSAFE,
                line.number(&format!("{kind}_irqsafe")),
                "cycles",
            );
            rows.section(GAINS);
            rows.add(
                format!("gain {kind}-odr0-{batch}"),
                IRQSAFE,
                line.number(&format!("{kind}_gain_pct")),
                "%",
            );
        }
    }
    rows.section("page_bench02");
    for line in tables.lines("time_bench") {
        let column = match line.text("primitive") {
            "page_bench02_baseline" => VANILLA,
            "page_bench02_irqsafe" => IRQSAFE,
            _ => continue,
        };
        rows.add("page_bench02", column, line.number("ns"), "ns");
    }
}
