//! What clearing leaves of another working set in the caches.

use super::{Extent, column, size};
use crate::clear::{Mode, Region, Way};
use crate::error::BenchError;
use crate::experiment::{Rows, Run};
use crate::harness::clock::now_ns;
use crate::harness::machine::last_level_cache;
use crate::harness::sampler::Sample;
use pageyard_arena::clear::{Extent as Memory, Primitive, Unit, clear_in};

const SECTION: &str = "Another working set";

/// The metric: how much of what the last-level cache held is still there.
pub(super) const SURVIVES: &str = "share of a working set that clearing leaves in the caches";

/// Bytes that are cleared beside it: more than any cache holds.
const CLEARED: usize = 256 << 20;

/// The share of the last-level cache that the working set takes.
const PART: u64 = 4;

/// A cache line with the number of another one.
#[derive(Clone)]
#[repr(align(64))]
struct Line(u32);

/// A working set: lines that name each other in a random order, so that no prefetcher knows the next.
struct WorkingSet(Vec<Line>);

impl WorkingSet {
    fn new(bytes: u64) -> WorkingSet {
        let lines = (bytes / 64).max(2) as u32;
        let mut order: Vec<u32> = (0..lines).collect();
        fastrand::Rng::with_seed(1).shuffle(&mut order);
        let mut set = vec![Line(0); lines as usize];
        for (i, line) in order.iter().enumerate() {
            set[*line as usize] = Line(order[(i + 1) % order.len()]);
        }
        WorkingSet(set)
    }

    /// Reads every line once; returns nanoseconds a line.
    fn read(&self) -> f64 {
        let start = now_ns();
        let mut at = 0;
        for _ in 0..self.0.len() {
            at = self.0[at as usize].0;
        }
        std::hint::black_box(at);
        (now_ns() - start) as f64 / self.0.len() as f64
    }
}

/// What happens between two readings.
#[derive(Clone, Copy)]
enum Between {
    /// Nothing: all of it stays.
    Nothing,
    /// So much is read that nothing of it stays.
    Everything,
    Clearing(Way),
}

pub(super) fn measure(extent: &Extent, run: &mut Run<'_>, rows: &mut Rows) -> Result<(), BenchError> {
    let Some(cache) = last_level_cache() else {
        run.note("what clearing leaves of a working set was not measured: the kernel does not say how large the caches are");
        return Ok(());
    };
    let refused = |why| BenchError::Experiment { why: format!("there is no memory to clear: {why}") };
    let set = WorkingSet::new(cache / PART);
    let cleared = CLEARED.min(extent.memory);
    let mut region = Region::new(cleared).map_err(refused)?;
    let other = WorkingSet::new(4 * cache);
    let mut between = vec![Between::Nothing, Between::Everything];
    let whole = |primitive| Between::Clearing(Way { primitive, mode: Mode::Extent });
    between.extend(Primitive::available().map(Some).chain([None]).map(whole));
    run.at("working sets", 0, 1);
    let series = run.sampler().run(&mut between, |between| {
        // Twice: the first reading brings it in, the second what the first drove out.
        set.read();
        set.read();
        match between {
            Between::Nothing => {}
            Between::Everything => drop(std::hint::black_box(other.read())),
            Between::Clearing(way) => {
                let memory = Memory::new(&mut region.bytes()[..cleared]).expect("frames of a mapping");
                clear_in(way.primitive_for(cleared, true), memory, Unit::Whole, &mut || ());
            }
        }
        Sample::Counts([set.read()])
    });
    let (all, none) = (series[0][0].median(), series[1][0].median());
    rows.section(SECTION);
    rows.add("a line of it read, all cached", "machine", all, "ns");
    rows.add("a line of it read, none cached", "machine", none, "ns");
    for (between, [ns]) in between.iter().zip(&series) {
        let Between::Clearing(way) = between else { continue };
        let share = 100.0 * ((none - ns.median()) / (none - all)).clamp(0.0, 1.0);
        rows.add(SURVIVES, column(*way), share, "%");
    }
    run.note(format!(
        "the working set is {}, a quarter of the last-level cache as the kernel describes it, beside {} that are cleared",
        size((cache / PART) as usize),
        size(cleared)
    ));
    Ok(())
}
