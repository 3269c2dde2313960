//! `irq-safe`: what protects the per-CPU lists against interrupts, and what that costs.
//!
//! * `sweep`: the document's microbenchmark; `primitives`: what a protection costs by itself, and the prediction from
//!   it;
//! * `mix`, `assumption`: recorded traces against the patch's assumption; `bulk`: frames by the array;
//! * `storm`: handlers that allocate; `aim9`: what a program sees, by the kernel and by an arena; `verdict`: the
//!   result.

mod aim9;
mod assumption;
mod bulk;
mod mix;
mod primitives;
mod storm;
mod subjects;
mod sweep;
mod verdict;

use super::machines::{Boxed, engine};
use super::{Claim, Experiment, Plot, Published, Rows, Run, Series};
use crate::error::BenchError;
use crate::harness::team::{Team, cpus};
use pageyard::{Frames, NodeId, Pfn, Region, ZoneKind};
use std::time::Duration;
use subjects::{
    AFTER, BEFORE, ENGINE, IRQSAFE, MASK, Machines, PRESET, PROTECTIONS, REGISTER, SOFT_IRQ, SOFT_OFF,
    TRYLOCK, VANILLA,
};

/// The experiment.
pub struct IrqSafe;

impl Experiment for IrqSafe {
    fn name(&self) -> &'static str {
        "irq-safe"
    }

    fn about(&self) -> &'static str {
        "per-CPU lists without turning interrupts off (M. Gorman, 2017)"
    }

    fn quick_cannot_show(&self) -> &'static str {
        "4 of its 15 batch sizes, and the first 60,000 calls of each recording: it does not judge the sweep, which is of every \
         batch, nor recordings that are longer"
    }

    fn columns(&self) -> &'static [(&'static str, &'static str)] {
        &[
            (VANILLA, "the document's kernel before the patch, in cycles of its machine"),
            (IRQSAFE, "the document's kernel with the patch"),
            (BEFORE, "Linux 4.10 before the patch, interrupts off by a flag that makes handlers wait"),
            (
                REGISTER,
                "the same, and the processor's flags register is saved and restored, as a kernel does: the closest to one",
            ),
            (MASK, "the same by blocking signals: two system calls"),
            (AFTER, "the patch: preemption off; requests from interrupts go past the lists to the zone"),
            (
                SOFT_OFF,
                "the variant that the document mentions and leaves: soft interrupts are held off, and go to the zone",
            ),
            (SOFT_IRQ, "the same, and soft interrupts use the lists, as they then could"),
            (TRYLOCK, "a lock that gives way, as Linux has had since 6.0"),
            (
                ENGINE,
                "the lock-free engine with restartable sequences, or what this machine has in their place",
            ),
        ]
    }

    fn engines(&self) -> &'static [&'static str] {
        &[PRESET, ENGINE]
    }

    fn varies(&self, knob: &str) -> bool {
        PROTECTIONS[0].knobs().iter().any(|(own, _)| *own == knob)
    }

    fn measure(&self, run: &mut Run<'_>) -> Result<Rows, BenchError> {
        let mut rows = Rows::default();
        let machines = Machines::new(&run.settings)?;
        sweep::measure(&machines, run, &mut rows);
        sweep::page_bench02(&machines, run, &mut rows);
        primitives::measure(run, &mut rows);
        assumption::measure(&machines, run, &mut rows)?;
        bulk::measure(&machines, run, &mut rows);
        machines.sound()?;
        storms(run, &mut rows)?;
        aim9::measure(run, &mut rows)?;
        run.note(
            "the reference is linux-4.10 with each protection in turn; nothing in user space can turn interrupts off: irqsave \
             sets a flag that makes handlers wait, irqsave-flags-register also saves and restores the processor's flags \
             register as a kernel does, irqsave-signal-mask blocks signals by two system calls",
        );
        Ok(rows)
    }

    fn published(&self, tables: &Published) -> Rows {
        let mut rows = Rows::default();
        sweep::published(tables, &mut rows);
        primitives::published(tables, &mut rows);
        aim9::published(tables, &mut rows);
        rows
    }

    fn claims(&self, rows: &Rows) -> Vec<Claim> {
        verdict::claims(rows)
    }

    fn plots(&self, rows: &Rows) -> Vec<Plot> {
        let line = |what: &str, column: &str, name: &str| Series {
            name: name.to_owned(),
            points: super::machines::batches(false)
                .into_iter()
                .filter_map(|n| Some((n as f64, rows.get(&format!("{what}-odr0-{n}"), column)?)))
                .collect(),
        };
        let columns = PROTECTIONS.iter().map(|p| p.column).chain([ENGINE]);
        let mut plots = vec![Plot {
            title: "One frame taken and given back, by protection".into(),
            x: "frames in a batch",
            y: "ns, median",
            series: columns.clone().filter(|c| *c != MASK).map(|c| line("Median total", c, c)).collect(),
        }];
        let gain = |column: &str, name: &str| line("gain total", column, name);
        let over_register = line("gain over the flags register, total", AFTER, "over the flags register");
        plots.push(Plot {
            title: "What the patch saves of a frame taken and given back".into(),
            x: "frames in a batch",
            y: "% less",
            series: vec![gain(IRQSAFE, "published"), over_register, gain(AFTER, "over a flag")],
        });
        plots.iter_mut().for_each(|p| p.series.retain(|s| !s.points.is_empty()));
        plots
    }
}

/// Storms of signals on each protection, and on the engine.
fn storms(run: &mut Run<'_>, rows: &mut Rows) -> Result<(), BenchError> {
    const FRAMES: u64 = 1 << 15;
    let regions = [Region::managed(Pfn(1), Frames(FRAMES - 1), NodeId(0), ZoneKind::Normal)];
    let time = Duration::from_millis(if run.quick { 300 } else { 1500 });
    let cpus = cpus();
    let team = Team::new(&cpus[..cpus.len().min(2)]);
    rows.section("Async safety");
    for (done, protection) in PROTECTIONS.iter().map(Some).chain([None]).enumerate() {
        run.at("storm", done, PROTECTIONS.len() + 1);
        let (column, allocator): (_, Box<dyn pageyard::PageAllocator + Send>) = match protection {
            Some(p) => (p.column, Box::new(p.reference(&regions, &run.settings)?)),
            None => (ENGINE, engine(&regions, &run.settings, Boxed)?),
        };
        let fail = |why| BenchError::Experiment { why };
        let seen = storm::storm(allocator, FRAMES, &team, time).map_err(fail)?;
        let rate = seen.handlers as f64 / time.as_secs_f64();
        rows.add("handlers that ran, a second, all CPUs", column, rate, "1/s");
        rows.add("of those, deferred", column, seen.deferred as f64, "");
        rows.add("allocations by handlers", column, seen.allocations as f64, "");
        rows.add("allocations by the threads they interrupted", column, seen.by_threads as f64, "");
        rows.add("frames with two owners, or lost", column, seen.wrong as f64, "");
    }
    Ok(())
}
