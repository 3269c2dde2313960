//! aim9's `page_test` and `brk_test`: what a program sees of the allocator, through this machine's kernel.

use crate::experiment::unsafely::{grow_break, touch_pages};
use crate::experiment::{Published, Rows, Run, Samples};
use crate::harness::clock::now_ns;
use crate::harness::sampler::{FEWEST, Sample};

const SECTION: &str = "aim9";

/// Pages that one turn of `page_test` touches.
const PAGES: usize = 256;

pub(super) fn measure(run: &mut Run<'_>, rows: &mut Rows) {
    let turns = if run.quick { 20 } else { 200 };
    run.at("aim9", 0, 2);
    let pages = rates(run, PAGES * turns, || touch_pages(PAGES * 4096, turns));
    run.at("aim9", 1, 2);
    let breaks = rates(run, 100 * turns, || grow_break(1 << 17, 100 * turns));
    rows.section(SECTION);
    for (name, samples) in [("page_test", pages), ("brk_test", breaks)] {
        let Some(samples) = samples else {
            run.note(format!("{name} was not measured: the kernel refused memory"));
            continue;
        };
        rows.add(format!("Hmean {name}"), "kernel", samples.harmonic_mean(), "1/s");
        rows.add(format!("Stddev {name}"), "kernel", samples.deviation(), "1/s");
        rows.add(format!("CoeffVar {name}"), "kernel", samples.deviation() / samples.mean() * 100.0, "%");
        rows.add(format!("Max {name}"), "kernel", samples.max(), "1/s");
    }
    run.note(
        "aim9's rows are this machine's own kernel, which was not built with and without the patch; page_test maps and \
         touches 1 MiB a turn, brk_test moves the break up and down by 128 KiB",
    );
}

/// Returns operations a second, sample by sample, after a pass that is not kept.
fn rates(run: &Run<'_>, operations: usize, mut work: impl FnMut() -> bool) -> Option<Samples> {
    let mut series = run.sampler().run(&mut [()], |()| {
        let start = now_ns();
        match work() {
            true => Sample::Counts([operations as f64 * 1e9 / (now_ns() - start) as f64]),
            false => Sample::Impossible,
        }
    });
    series.pop().map(|[rates]| rates).filter(|rates| rates.len() >= FEWEST)
}

pub(super) fn published(tables: &Published, rows: &mut Rows) {
    rows.section(SECTION);
    for line in tables.lines("aim9") {
        let metric = line.text("metric");
        let unit = if metric.starts_with("CoeffVar") { "%" } else { "1/s" };
        rows.add(metric, super::VANILLA, line.number("vanilla"), unit);
        rows.add(metric, super::IRQSAFE, line.number("irqsafe"), unit);
    }
}
