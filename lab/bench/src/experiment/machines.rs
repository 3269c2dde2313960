//! The machines that experiments simulate: their memory, the engines on it, and the document's microbenchmark.

use super::Settings;
use crate::error::BenchError;
use crate::harness::clock::clock_cost;
use crate::harness::engines::{self, NotUsed, leaves_half, linux_by_cpu};
use crate::harness::load::Load;
use crate::harness::paged::{AsSubject, Paged};
use crate::harness::sampler::Sample;
use crate::harness::subject::{Shared, Subject};
use crate::harness::team::Team;
use pageyard::{
    Frames, MemoryMap, Migratetype, NodeId, Order, PageAllocator, Pfn, Region, Request, ZoneKind,
};
use pageyard_linux::LinuxAllocator;
use pageyard_replay::ReplayError;
use pageyard_replay::engine::{AnyEngine, Engine, NotBuilt, Variant, Visit};

/// A packet's cost in the router of document 003, in nanoseconds: 70 Gbit/s on 28 cores, half busy, for packets of 700
/// bytes (the size is assumed: the document gives none).
pub(super) const ROUTER_PACKET_NS: f64 = 1100.0;

/// The batches of the documents' microbenchmark.
pub(super) fn batches(quick: bool) -> Vec<usize> {
    if quick { vec![1, 64, 1024, 16_384] } else { (0..15).map(|i| 1 << i).collect() }
}

/// Batches of single frames, taken and given back in the same order, and what reading the clock costs.
pub(super) struct Batches {
    load: Load,
    clock: f64,
}

impl Batches {
    /// Batches of this many frames, with one call each.
    pub fn one_by_one(frames: usize, quick: bool) -> Batches {
        Batches::of(frames, false, quick)
    }

    /// The same with one call for all of them.
    pub fn bulk(frames: usize, quick: bool) -> Batches {
        Batches::of(frames, true, quick)
    }

    fn of(frames: usize, bulk: bool, quick: bool) -> Batches {
        let sample = if quick { 1 << 14 } else { 1 << 15 };
        let load = Load::of_rounds((0..frames as u32).collect(), bulk, (sample / frames).max(1));
        Batches { load, clock: clock_cost() }
    }

    /// Takes a sample on this thread: nanoseconds a frame for taking, giving back and both.
    pub fn sample(&self, subject: &dyn Subject, team: &Team) -> Sample<3> {
        let taken = subject.sample(team, 1, &self.load);
        Sample::from(taken.and_then(|taken| taken.first()?.each(&self.load, self.clock)))
    }
}

/// The memory of an experiment on one node: 8 GiB, of which no sample holds a quarter.
pub(super) const MEMORY: u64 = 1 << 21;

/// Makes the regions of `nodes` nodes of three zones, together as large as [`MEMORY`].
pub(super) fn regions(nodes: u8) -> Vec<Region> {
    regions_of(MEMORY, nodes)
}

/// Makes the regions of `nodes` nodes of three zones, together this large. A node has more than 64 MiB.
pub(super) fn regions_of(memory: u64, nodes: u8) -> Vec<Region> {
    let node = memory / u64::from(nodes);
    let parts = [
        (ZoneKind::Dma, 0, 1 << 12),
        (ZoneKind::Dma32, 1 << 12, node / 4),
        (ZoneKind::Normal, node / 4, node),
    ];
    let of = |n: u8| {
        parts.map(|(kind, from, to)| {
            let at = u64::from(n) * node;
            Region::managed(Pfn(at + from), Frames(to - from), NodeId(n), kind)
        })
    };
    (0..nodes).flat_map(of).collect()
}

/// The reference as a subject: frames by the call, one by one or many.
pub(super) type Reference = Shared<Paged<LinuxAllocator, true>>;

/// Makes the subject of a reference.
pub(super) fn reference_subject(column: &'static str, engine: LinuxAllocator) -> Reference {
    Shared::new(column, Paged::single(engine), true)
}

fn map(regions: &[Region]) -> Result<MemoryMap<'_>, BenchError> {
    MemoryMap::new(regions).map_err(|why| not_used(why.into()))
}

fn not_used(why: NotUsed) -> BenchError {
    match why {
        NotUsed::NotBuilt(NotBuilt::Map(why)) => {
            BenchError::Replay(ReplayError::Map { trace: "this experiment's machine".into(), why })
        }
        NotUsed::Kept { .. } => BenchError::Settings { why: why.to_string() },
        NotUsed::NotBuilt(NotBuilt::Unavailable(_)) => BenchError::Experiment { why: why.to_string() },
    }
}

/// Makes a reference whose lists have only the protection that its configuration says.
pub(super) fn reference(
    regions: &[Region],
    config: &pageyard_linux::Config,
) -> Result<LinuxAllocator, BenchError> {
    linux_by_cpu(&map(regions)?, config).map_err(not_used)
}

/// Makes the engine as a subject, under the name of its column.
pub(super) fn engine_subject(
    column: &'static str,
    regions: &[Region],
    settings: &Settings,
) -> Result<Box<dyn Subject>, BenchError> {
    engine(regions, settings, AsSubject::<true> { name: column, order: Order::ZERO, one_thread: false })
}

/// Hands an engine over if its watermarks leave half of the memory.
struct Checked<V>(V);

impl<V: Visit> Visit for Checked<V> {
    type Output = Result<V::Output, NotUsed>;

    fn visit<E: AnyEngine>(self, engine: E) -> Self::Output {
        leaves_half(&engine)?;
        Ok(self.0.visit(engine))
    }
}

/// Makes the engine for any thread, and hands it over.
pub(super) fn engine<V: Visit>(
    regions: &[Region],
    settings: &Settings,
    visit: V,
) -> Result<V::Output, BenchError> {
    on(&Engine::on_this_host(settings.yard()), regions, Checked(visit))?.map_err(not_used)
}

/// Makes any engine, and hands it over.
pub(super) fn on<V: Visit>(engine: &Engine, regions: &[Region], visit: V) -> Result<V::Output, BenchError> {
    engines::on(engine, &map(regions)?, visit).map_err(|why| not_used(why.into()))
}

/// The engine in a box, one call through a table each.
pub(super) struct Boxed;

impl Visit for Boxed {
    type Output = Box<dyn PageAllocator + Send>;

    fn visit<E: AnyEngine>(self, engine: E) -> Box<dyn PageAllocator + Send> {
        Box::new(engine)
    }
}

/// Says what keeps the engine's lists to one user.
pub(super) fn protection(settings: &Settings) -> &'static str {
    match Engine::on_this_host(settings.yard()) {
        Engine::Yard(Variant::Restartable, _) => "the engine's lists are used by restartable sequences",
        _ => "the engine's lists stand behind a lock that is tried once: no restartable sequences here",
    }
}

/// A plain request for a movable frame.
pub(super) fn single() -> Request {
    Request::new(Order::ZERO, Migratetype::Movable)
}

/// Checks that nothing was lost; an experiment that lost a frame measured something else.
pub(super) fn sound<'a>(engines: impl IntoIterator<Item = &'a dyn PageAllocator>) -> Result<(), BenchError> {
    for engine in engines {
        let census =
            engine.audit().map_err(|e| BenchError::Experiment { why: format!("an audit failed: {e}") })?;
        if census.allocated.0 > 0 || !census.is_conserved() {
            return Err(BenchError::Experiment { why: format!("frames were lost: {census:?}") });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::find;
    use super::*;
    use crate::harness::engines::one_zone;

    /// Refills and spills of batches larger than a list, which the lists' settings decide.
    fn moves(subject: &dyn Subject) -> (u64, u64) {
        let sampled = Batches::one_by_one(1024, true).sample(subject, &Team::new(&[]));
        assert!(matches!(sampled, Sample::Counts(_)));
        subject.moves().unwrap()
    }

    #[test]
    fn a_knob_that_is_set_changes_what_the_engines_of_an_experiment_do() {
        let regions = one_zone(1 << 16);
        let with = |set: &[(&str, &str)]| {
            let knobs: Vec<_> = set.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
            Settings::read(find("page-frag").unwrap(), &knobs).unwrap()
        };
        let of_linux = |set: &[(&str, &str)]| {
            let config = with(set).linux("linux-4.10", &[]).unwrap();
            moves(&reference_subject("reference", reference(&regions, &config).unwrap()))
        };
        let of_engine = |set: &[(&str, &str)]| {
            let subject = engine_subject("pageyard", &regions, &with(set)).unwrap();
            sound(subject.engine()).unwrap();
            moves(&*subject)
        };
        let (plain, longer) = (of_linux(&[]), of_linux(&[("percpu_pagelist_high_fraction", "8")]));
        assert!(longer.1 < plain.1 / 2, "longer lists spill less often: {longer:?}, {plain:?}");
        assert_eq!(of_linux(&[("pageyard:pcp", "false")]), plain);
        assert!(of_engine(&[]).0 > 0);
        assert_eq!(of_engine(&[("pageyard:pcp", "false")]), (0, 0), "without lists nothing moves");
    }
}
