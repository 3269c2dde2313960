//! The part of another working set that clearing leaves in the caches.

use super::extent::{DOCUMENTS, Extent, column, size};
use crate::clear::{Mode, PAGE, Region, Way};
use crate::error::BenchError;
use crate::experiment::{Rows, Run};
use crate::harness::clock::now_ns;
use crate::harness::machine::caches;
use crate::harness::sampler::Sample;
use crate::harness::samples::Samples;
use pageyard::{AllocError, Order, TryLock};
use pageyard_arena::backing::Prefault;
use pageyard_arena::clear::{Extent as Memory, Primitive, clear_in};
use pageyard_arena::{Arena, Block};

const SECTION: &str = "Another working set";

/// The metric: how much of what a cache held is still there.
pub(super) fn survives(cache: Cache) -> String {
    format!("share of a working set in the {} that clearing leaves there", cache.name())
}

/// How far the same way, measured twice, is from itself.
pub(super) fn pair(cache: Cache) -> String {
    format!("A/A {}", survives(cache))
}

/// The cache that a working set fits in.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Cache {
    /// The largest that a core has to itself: half of it.
    Own,
    /// The last: a quarter of it, since others use it too.
    Last,
}

impl Cache {
    pub(super) fn name(self) -> &'static str {
        match self {
            Cache::Own => "second-level cache",
            Cache::Last => "last-level cache",
        }
    }

    /// Returns bytes of a working set, a power of two as blocks are; none where the kernel says nothing of such a
    /// cache.
    fn working_set(self) -> Option<u64> {
        let caches = caches();
        let bytes = match self {
            Cache::Own => caches.iter().rev().nth(1)? / 2,
            Cache::Last => caches.last()? / 4,
        };
        Some(1 << bytes.max(2 * PAGE as u64).ilog2())
    }
}

/// The metric: what reading a line of a working set takes while all of it is in a cache.
fn read_in(cache: Cache, bytes: usize) -> String {
    format!("a line of {} read, all of it in the {}", size(bytes), cache.name())
}

/// Returns the size of the last-level cache of the machine of a run, in bytes, at most halved: four times the working
/// set that was to fit in it.
pub(super) fn last_level_cache(rows: &Rows) -> Option<usize> {
    let sets = (12..=30).map(|log| 1_usize << log);
    let mut sets = sets.filter(|set| rows.get(&read_in(Cache::Last, *set), "machine").is_some());
    sets.next().map(|set| 4 * set)
}

/// A working set is in a cache where reading a line of it takes less than this share of what it takes from memory.
const CACHED: f64 = 0.5;

/// Bytes that are cleared beside it: more than any cache holds.
const CLEARED: usize = 256 << 20;

/// Bytes of a cache line.
const LINE: usize = 64;

/// A working set in huge pages: lines that name each other in a random order, so that no prefetcher knows the next.
struct WorkingSet<'a>(Block<&'a Arena<TryLock>>);

impl WorkingSet<'_> {
    /// Makes one of all of an arena.
    fn new(arena: &Arena<TryLock>) -> Result<WorkingSet<'_>, AllocError> {
        let frames = arena.mapping().frames().0;
        let mut block = arena.alloc(Order::new(frames.ilog2() as u8).unwrap_or(Order::MAX))?;
        let lines = (block.len() / LINE) as u32;
        let mut order: Vec<u32> = (0..lines).collect();
        fastrand::Rng::with_seed(1).shuffle(&mut order);
        for (i, line) in order.iter().enumerate() {
            let next = order[(i + 1) % order.len()];
            block[*line as usize * LINE..][..4].copy_from_slice(&next.to_ne_bytes());
        }
        Ok(WorkingSet(block))
    }

    /// Reads every line once; returns nanoseconds a line.
    fn read(&self) -> f64 {
        let (bytes, lines) = (&*self.0, self.0.len() / LINE);
        let start = now_ns();
        let mut at = 0;
        for _ in 0..lines {
            let line = bytes[at * LINE..].first_chunk().expect("a line has more than four bytes");
            at = u32::from_ne_bytes(*line) as usize;
        }
        std::hint::black_box(at);
        (now_ns() - start) as f64 / lines as f64
    }
}

/// The work between two readings.
#[derive(Clone, Copy)]
enum Between {
    /// Nothing: all of it stays.
    Nothing,
    /// So much is read that nothing of it stays.
    Everything,
    Clearing(Way),
}

pub(super) fn measure(extent: &Extent, run: &mut Run<'_>, rows: &mut Rows) -> Result<(), BenchError> {
    rows.section(SECTION);
    for cache in [Cache::Own, Cache::Last] {
        match cache.working_set() {
            Some(bytes) => one(cache, bytes, extent, run, rows)?,
            None => run.note(format!(
                "what clearing leaves in the {} was not measured: the kernel does not say how large it is",
                cache.name()
            )),
        }
    }
    Ok(())
}

fn one(
    cache: Cache,
    bytes: u64,
    extent: &Extent,
    run: &mut Run<'_>,
    rows: &mut Rows,
) -> Result<(), BenchError> {
    fn refused(why: impl std::fmt::Display) -> BenchError {
        BenchError::Experiment { why: format!("there is no memory for working sets: {why}") }
    }
    let memory = |bytes: u64| {
        let prefault = Prefault { threads: 1, progress: &|_, _| () };
        Arena::builder().size(bytes as usize).prefault(prefault).build_locked().map_err(refused)
    };
    let cleared = CLEARED.min(extent.memory);
    let (small, large) = (memory(bytes)?, memory(cleared as u64)?);
    let (set, other) = (WorkingSet::new(&small).map_err(refused)?, WorkingSet::new(&large).map_err(refused)?);
    let mut region = Region::new(cleared).map_err(refused)?;
    let mut between = vec![Between::Nothing, Between::Everything];
    let way = |primitive, mode| Between::Clearing(Way { primitive, mode });
    between.extend(Primitive::available().map(Some).chain([None]).map(|p| way(p, Mode::Extent)));
    // The document's effect, and the first of these once more: what two equal ways differ by.
    between.extend([Mode::Page, Mode::Batch, Mode::Page].map(|mode| way(Some(DOCUMENTS), mode)));
    run.at(cache.name(), 0, 1);
    let series = run.sampler().run(&mut between, |between| {
        // Twice: the first reading brings it in, the second what the first drove out.
        set.read();
        set.read();
        match between {
            Between::Nothing => {}
            Between::Everything => drop(std::hint::black_box(other.read())),
            Between::Clearing(way) => {
                let memory = Memory::new(&mut region.bytes()[..cleared]).expect("frames of a mapping");
                clear_in(way.primitive_for(cleared, true), memory, way.mode.unit(), &mut || ());
            }
        }
        Sample::Counts([set.read()])
    });
    let (all, none) = (series[0][0].median(), series[1][0].median());
    let (name, set) = (cache.name(), size(bytes as usize));
    rows.add(read_in(cache, bytes as usize), "machine", all, "ns");
    rows.add(format!("a line of {set} read, none of it in the {name}"), "machine", none, "ns");
    if all > CACHED * none {
        run.note(format!(
            "what clearing leaves in the {name} was not measured: a working set of {set} does not stay there ({all:.0} ns a line, \
             {none:.0} from memory)"
        ));
        return Ok(());
    }
    let left = |samples: &Samples| 100.0 * ((none - samples.median()) / (none - all)).clamp(0.0, 1.0);
    let (twice, once) = (series.len() - 1, series.len() - 3);
    for (between, [ns]) in between.iter().zip(&series).take(twice) {
        let Between::Clearing(way) = between else { continue };
        rows.add(survives(cache), column(*way), left(ns), "%");
    }
    let apart = (left(&series[once][0]) - left(&series[twice][0])).abs();
    rows.add(pair(cache), column(Way { primitive: Some(DOCUMENTS), mode: Mode::Page }), apart, "points");
    run.note(format!("the working set in the {name} is {set}, beside {} that are cleared", size(cleared)));
    Ok(())
}
