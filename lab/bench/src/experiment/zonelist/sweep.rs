//! Batches of single frames under both forms of the iterator: as the document has it, and with cpusets and nodes.

use super::subjects::{CALLED, ENGINE, INLINED, NODES, ONE_ZONE, POINT, PRESET, machine};
use super::tasks::{Confined, Confinement, all_but_one, every};
use crate::error::BenchError;
use crate::experiment::machines::{Batches, MEMORY, batches, engine_subject, reference, regions, sound};
use crate::experiment::{Rows, Run, Samples, gain};
use crate::harness::engines::one_zone;
use crate::harness::sampler::Sample;
use crate::harness::subject::{Shared, Subject};
use crate::harness::team::{Team, cpus};
use pageyard_linux::LinuxAllocator;
use pageyard_linux::config::ZonelistIterator::{self, Called, Inlined};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

pub(super) const SECTION: &str = "One node, no mask";
pub(super) const GAINS: &str = "Less than called";

/// Measures what taking a frame costs on one machine, with each of these forms of the walk in turn: on one machine,
/// because two of them differ by where their memory lies, by more than a few percent.
fn forms(
    (machine, reference): (&dyn Subject, &LinuxAllocator),
    forms: &[ZonelistIterator],
    batch: usize,
    (team, run): (&Team, &Run<'_>),
) -> Vec<Samples> {
    let load = Batches::one_by_one(batch, run.quick);
    let series = run.sampler().run(&mut forms.to_vec(), |form| {
        reference.set_zonelist_iterator(*form);
        match load.sample(machine, team) {
            Sample::Counts([alloc, ..]) => Sample::Counts([alloc]),
            _ => Sample::Disturbed,
        }
    });
    series.into_iter().map(|[s]| s).collect()
}

/// The document's table.
pub(super) fn document(run: &mut Run<'_>, rows: &mut Rows) -> Result<(), BenchError> {
    let (machine, team) = (machine("called", 1, &run.settings)?, Team::new(&[]));
    let batches = batches(run.quick);
    let mut worst: f64 = 0.0;
    for (done, batch) in batches.iter().enumerate() {
        run.at("called and inlined", done, batches.len());
        let series =
            forms((&machine, machine.allocator().inner()), &[Called, Inlined, Called], *batch, (&team, run));
        let name = format!("alloc-odr0-{batch}");
        rows.section(SECTION);
        for (column, s) in [CALLED, INLINED].into_iter().zip(&series) {
            rows.add(format!("Min {name}"), column, s.min(), "ns");
            rows.add(format!("Median {name}"), column, s.median(), "ns");
        }
        let pair = series[0].paired_gain(&series[2]);
        rows.add(format!("A/A {name}"), CALLED, pair, "% apart");
        worst = if pair.abs() > worst.abs() { pair } else { worst };
        rows.section(GAINS);
        rows.add(format!("gain Min {name}"), INLINED, gain(series[0].min(), series[1].min()), "%");
        rows.add(format!("gain turn by turn {name}"), INLINED, series[0].paired_gain(&series[1]), "%");
    }
    run.check_pair("called and inlined", worst);
    sound(machine.engine())
}

/// Cpusets and nodes.
pub(super) fn cpusets(run: &mut Run<'_>, rows: &mut Rows) -> Result<(), BenchError> {
    let sizes: &[usize] = if run.quick { &[64] } else { &[1, 64, 1024] };
    let several = cpus().len() > 1;
    let team = Team::new(&[]);
    let mut done = 0;
    for nodes in NODES {
        for how in Confinement::ALL {
            run.at("cpusets and nodes", done, NODES.len() * Confinement::ALL.len());
            done += 1;
            if how == Confinement::Changing && !several {
                continue;
            }
            let config = run.settings.linux(PRESET, &[(POINT, "called")])?;
            let confined = Confined::new(reference(&regions(nodes), &config)?, nodes, how)?;
            let machine = Shared::new(CALLED, confined, false);
            let Confined { reference, cpuset } = machine.allocator();
            let (stop, changes) = (AtomicBool::new(false), AtomicU64::new(0));
            std::thread::scope(|scope| {
                if how == Confinement::Changing {
                    scope.spawn(|| {
                        let mut turn = false;
                        // ORDER: Relaxed: the end may be seen late.
                        while !stop.load(Ordering::Relaxed) {
                            turn = !turn;
                            let mems = if turn { all_but_one(nodes) } else { every(nodes) };
                            let changed = reference.cpusets().set_mems(*cpuset, mems).is_ok();
                            changes.fetch_add(u64::from(changed), Ordering::Relaxed);
                            (0..200).for_each(|_| std::hint::spin_loop());
                        }
                    });
                }
                let before = changes.load(Ordering::Relaxed);
                for size in sizes {
                    let series =
                        forms((&machine, reference), &[Called, Inlined, Called], *size, (&team, run));
                    let metric = format!("Min alloc-odr0-{size}, {}, {}", nodes_text(nodes), how.name());
                    rows.section("Nodes and cpusets");
                    rows.add(&metric, CALLED, series[0].min(), "ns");
                    rows.add(&metric, INLINED, series[1].min(), "ns");
                    let saved = series[0].paired_gain(&series[1]);
                    rows.add(format!("gain turn by turn, {}", &metric[4..]), INLINED, saved, "%");
                    let pair = series[0].paired_gain(&series[2]);
                    rows.add(format!("A/A {}", &metric[4..]), CALLED, pair, "% apart");
                }
                // A second thread that got no CPU has changed nothing, and the rows above are then those of an
                // unchanged cpuset.
                let seen = changes.load(Ordering::Relaxed) - before;
                if how == Confinement::Changing {
                    rows.add(
                        format!("changes of the cpuset meanwhile, {}", nodes_text(nodes)),
                        CALLED,
                        seen as f64,
                        "",
                    );
                }
                stop.store(true, Ordering::Relaxed);
            });
            sound(machine.engine())?;
        }
    }
    if !several {
        run.note("cpusets that change during walks were not measured: this process may use one CPU");
    }
    Ok(())
}

fn nodes_text(nodes: u8) -> String {
    if nodes == 1 { "1 node".into() } else { format!("{nodes} nodes") }
}

/// The engine on machines of all sizes, against one zone, which needs no walk.
pub(super) fn engine(run: &mut Run<'_>, rows: &mut Rows) -> Result<(), BenchError> {
    let on = |regions: &[pageyard::Region]| engine_subject(ENGINE, regions, &run.settings);
    let direct = on(&one_zone(MEMORY))?;
    let walked = NODES.iter().map(|n| on(&regions(*n))).collect::<Result<Vec<_>, _>>()?;
    let team = Team::new(&[]);
    let mut subjects: Vec<&dyn Subject> = vec![&*direct];
    subjects.extend(walked.iter().map(|s| &**s));
    let sizes: &[usize] = if run.quick { &[1, 64] } else { &[1, 64, 1024] };
    rows.section("The engine");
    for (done, size) in sizes.iter().enumerate() {
        run.at("the engine", done, sizes.len());
        let load = Batches::one_by_one(*size, run.quick);
        let series = run.sampler().run(&mut subjects, |s| match load.sample(*s, &team) {
            Sample::Counts([alloc, _, total]) => Sample::Counts([alloc, total]),
            _ => Sample::Disturbed,
        });
        for (nodes, s) in NODES.iter().zip(&series[1..]) {
            for (i, what) in ["alloc", "total"].iter().enumerate() {
                let name = format!("{what}-odr0-{size}, {}", nodes_text(*nodes));
                rows.add(format!("Min {name}"), ONE_ZONE, series[0][i].min(), "ns");
                rows.add(format!("Min {name}"), ENGINE, s[i].min(), "ns");
                let more = -series[0][i].paired_gain(&s[i]);
                rows.add(format!("more than one zone, turn by turn, {name}"), ENGINE, more, "%");
            }
        }
    }
    sound(subjects.into_iter().filter_map(|s| s.engine()))
}
