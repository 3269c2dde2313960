//! Batches of single frames under both forms of the iterator: as the document has it, and with masks and nodes.

use super::{CALLED, ENGINE, INLINED, NODES, ONE_ZONE, machine};
use crate::error::BenchError;
use crate::experiment::machines::{Batches, MEMORY, Reference, batches, engine_subject, regions, sound};
use crate::experiment::{Rows, Run, Samples, gain};
use crate::harness::engines::one_zone;
use crate::harness::sampler::Sample;
use crate::harness::subject::Subject;
use crate::harness::team::{Team, cpus};
use pageyard::NodeMask;
use pageyard_linux::config::ZonelistIterator::{self, Called, Inlined};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

pub(super) const SECTION: &str = "One node, no mask";
pub(super) const GAINS: &str = "Less than called";

/// Measures what taking a frame costs on one machine, with each of these forms of the walk in turn: on one machine, because
/// two of them differ by where their memory lies, by more than a few percent.
fn forms(
    machine: &Reference,
    forms: &[ZonelistIterator],
    batch: usize,
    (team, run): (&Team, &Run<'_>),
) -> Vec<Samples> {
    let load = Batches::one_by_one(batch, run.quick);
    let series = run.sampler().run(&mut forms.to_vec(), |form| {
        machine.allocator().0.set_zonelist_iterator(*form);
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
        let series = forms(&machine, &[Called, Inlined, Called], *batch, (&team, run));
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

/// Masks and nodes: none installed, one that allows all but the last node, and one that another thread changes all the time.
pub(super) fn masks(run: &mut Run<'_>, rows: &mut Rows) -> Result<(), BenchError> {
    let sizes: &[usize] = if run.quick { &[64] } else { &[1, 64, 1024] };
    let several = cpus().len() > 1;
    let team = Team::new(&[]);
    let mut done = 0;
    for nodes in NODES {
        for mask in ["no mask", "mask installed", "mask changed during walks"] {
            run.at("masks and nodes", done, NODES.len() * 3);
            done += 1;
            if mask == "mask changed during walks" && !several {
                continue;
            }
            let machine = machine("called", nodes, &run.settings)?;
            let allocator = &machine.allocator().0;
            let all = if nodes == 64 { u64::MAX } else { (1 << nodes) - 1 };
            // Node 0 stays allowed, so that the same frames are taken under each mask.
            let some = NodeMask((all >> 1).max(1));
            if mask == "mask installed" {
                allocator.set_allowed_nodes(Some(some));
            }
            let (stop, changes) = (AtomicBool::new(false), AtomicU64::new(0));
            std::thread::scope(|scope| {
                if mask == "mask changed during walks" {
                    scope.spawn(|| {
                        let mut turn = false;
                        // ORDER: Relaxed: the end may be seen late.
                        while !stop.load(Ordering::Relaxed) {
                            turn = !turn;
                            let mask = if turn { some } else { NodeMask(all) };
                            allocator.set_allowed_nodes(Some(mask));
                            changes.fetch_add(1, Ordering::Relaxed);
                            (0..200).for_each(|_| std::hint::spin_loop());
                        }
                    });
                }
                let before = changes.load(Ordering::Relaxed);
                for size in sizes {
                    let series = forms(&machine, &[Called, Inlined], *size, (&team, run));
                    let metric = format!("Min alloc-odr0-{size}, {}, {mask}", nodes_text(nodes));
                    rows.section("Nodes and masks");
                    rows.add(&metric, CALLED, series[0].min(), "ns");
                    rows.add(&metric, INLINED, series[1].min(), "ns");
                    let saved = series[0].paired_gain(&series[1]);
                    rows.add(format!("gain turn by turn, {}", &metric[4..]), INLINED, saved, "%");
                }
                // A second thread that got no CPU has changed nothing, and the rows above are then those of an
                // unchanged mask.
                let seen = changes.load(Ordering::Relaxed) - before;
                if mask == "mask changed during walks" {
                    rows.add(
                        format!("changes of the mask meanwhile, {}", nodes_text(nodes)),
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
        run.note("masks that change during walks were not measured: this process may use one CPU");
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
