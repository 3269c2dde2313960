//! `bench sweep`: blocks allocated and freed in batches of 1 to 16,384, on one thread and two.

use super::floors::{FloorArray, FloorTrylock};
use super::peers::{BuddyBare, BuddyLocked, Paged};
use super::subject::{Load, Named, Subject, Taken, no_moves};
use super::{SAMPLES, Skipped, median};
use crate::latency::clock_cost_ns;
use crate::yard::{Yard, alone_on_one_thread, exclusive_on_one_thread};
use pageyard::{Config, Frames, MemoryMap, NodeId, Order, Pfn, Region, TryLock, ZoneKind};
use pageyard_linux::LinuxAllocator;
use std::sync::Barrier;
use std::time::Duration;

/// The memory that is managed, in frames: 16 GiB. No row holds more than a quarter of it.
const MEMORY: u64 = 1 << 22;

/// Blocks that a sample handles at least, so that the clock is forgotten.
const BLOCKS_A_SAMPLE: usize = 1 << 15;

/// The order in which a batch is given back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pattern {
    /// As it was taken.
    Fifo,
    /// The last one first.
    Lifo,
    /// At random, the same for every subject and sample.
    Shuffled,
}

impl Pattern {
    /// Every pattern.
    pub const ALL: [Pattern; 3] = [Pattern::Fifo, Pattern::Lifo, Pattern::Shuffled];

    /// Returns the name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Pattern::Fifo => "fifo",
            Pattern::Lifo => "lifo",
            Pattern::Shuffled => "shuffled",
        }
    }

    fn order(self, batch: usize) -> Vec<u32> {
        let mut order: Vec<u32> = (0..batch as u32).collect();
        match self {
            Pattern::Fifo => {}
            Pattern::Lifo => order.reverse(),
            Pattern::Shuffled => fastrand::Rng::with_seed(batch as u64).shuffle(&mut order),
        }
        order
    }
}

/// What to sweep.
#[derive(Clone, Debug)]
pub struct SweepOptions {
    /// Orders: 0, 3 or 9.
    pub orders: Vec<Order>,
    /// Blocks in a batch.
    pub batches: Vec<usize>,
    /// Threads: 1 or 2.
    pub threads: Vec<usize>,
    /// Patterns.
    pub patterns: Vec<Pattern>,
}

impl SweepOptions {
    /// Everything: within a few minutes.
    #[must_use]
    pub fn full() -> SweepOptions {
        SweepOptions {
            orders: vec![Order::ZERO, Order::of(3), Order::of(9)],
            batches: (0..15).map(|i| 1 << i).collect(),
            threads: vec![1, 2],
            patterns: Pattern::ALL.to_vec(),
        }
    }

    /// What says most: within a minute.
    #[must_use]
    pub fn quick() -> SweepOptions {
        SweepOptions {
            orders: vec![Order::ZERO, Order::of(9)],
            batches: vec![1, 64, 1024, 16_384],
            threads: vec![1, 2],
            patterns: vec![Pattern::Fifo],
        }
    }
}

/// One row: nanoseconds for each block, each thread.
#[derive(Clone, Debug)]
pub struct SweepRow {
    /// Who.
    pub allocator: &'static str,
    /// Threads at the same time.
    pub threads: usize,
    /// Order of the blocks.
    pub order: u8,
    /// Blocks in a batch.
    pub batch: usize,
    /// Order of the frees.
    pub pattern: Pattern,
    /// Taking, by the share that it has in passes with the clock read between.
    pub alloc_ns: f64,
    /// Giving back, likewise.
    pub free_ns: f64,
    /// Both, the fastest sample.
    pub total_ns_min: f64,
    /// Both, the median.
    pub total_ns_median: f64,
    /// Times a per-CPU list was filled from its zone, in all samples of the row.
    pub refills: u64,
    /// Times one was spilled to it.
    pub spills: u64,
}

/// A sweep's result.
#[derive(Clone, Debug, Default)]
pub struct Sweep {
    /// The rows.
    pub rows: Vec<SweepRow>,
    /// What was not measured.
    pub skipped: Vec<Skipped>,
}

/// Runs a sweep. `progress` is told how many of how many rows of settings are done.
#[must_use]
pub fn sweep(options: &SweepOptions, progress: &mut dyn FnMut(u64, u64)) -> Sweep {
    let mut sweep = Sweep::default();
    let per_order = options.batches.len() * options.patterns.len() * options.threads.len();
    let all = (options.orders.len() * per_order) as u64;
    let mut done = 0;
    let cores = core_affinity::get_core_ids().unwrap_or_default();
    for order in &options.orders {
        let (alone, shared) = match order.get() {
            0 => (alone::<0>(), shared::<0>()),
            3 => (alone::<3>(), shared::<3>()),
            _ => (alone::<9>(), shared::<9>()),
        };
        for batch in options.batches.iter().filter(|b| (**b as u64) << order.get() <= MEMORY / 4) {
            for pattern in &options.patterns {
                let load = Load { order: pattern.order(*batch), rounds: (BLOCKS_A_SAMPLE / batch).max(1) };
                for threads in &options.threads {
                    let cell = Cell { order: *order, batch: *batch, pattern: *pattern, threads: *threads };
                    if *threads == 1 {
                        let mut subjects: Vec<&dyn Subject> = alone.iter().map(|s| &**s).collect();
                        subjects.extend(shared.iter().map(|s| &**s as &dyn Subject));
                        sweep.rows.extend(cell.measure(&subjects, |s| on_one(s, &load)));
                    } else if cores.len() >= *threads {
                        let subjects: Vec<&(dyn Subject + Sync)> = shared.iter().map(|s| &**s).collect();
                        sweep
                            .rows
                            .extend(cell.measure(&subjects, |s| on_several(s, &load, &cores[..*threads])));
                    }
                    done += 1;
                    progress(done, all);
                }
            }
        }
    }
    if options.threads.iter().any(|n| *n > cores.len()) {
        sweep.skipped.push(Skipped {
            allocator: "two threads",
            why: format!("this process may use {} CPU", cores.len().max(1)),
        });
    } else if options.threads.iter().any(|n| *n > 1) {
        for allocator in ["floor-array", "pageyard-exclusive", "pageyard-alone", "buddy_system_allocator"] {
            sweep.skipped.push(Skipped {
                allocator,
                why: "it is for one thread; its rows with two are left out".into(),
            });
        }
    }
    sweep
}

fn memory() -> [Region; 1] {
    [Region::managed(Pfn(0), Frames(MEMORY), NodeId(0), ZoneKind::Normal)]
}

/// Makes the subjects for one thread only.
fn alone<const ORDER: u8>() -> Vec<Box<dyn Subject>> {
    let regions = memory();
    let map = MemoryMap::new(&regions).expect("one region is a map");
    let exclusive = exclusive_on_one_thread(&map, Config::new(2)).expect("the map is small enough");
    let alone = alone_on_one_thread(&map, Config::new(2)).expect("the map is small enough");
    vec![
        Box::new(Named { name: "floor-array", allocator: FloorArray::new(1 << 15), moves: no_moves }),
        Box::new(Named {
            name: "pageyard-exclusive",
            allocator: Paged::<_, ORDER>(exclusive),
            moves: Paged::moves,
        }),
        Box::new(Named { name: "pageyard-alone", allocator: Paged::<_, ORDER>(alone), moves: Paged::moves }),
        Box::new(Named {
            name: "buddy_system_allocator",
            allocator: BuddyBare::new(MEMORY, Order::of(ORDER)),
            moves: no_moves,
        }),
    ]
}

/// Makes the subjects for any number of threads.
fn shared<const ORDER: u8>() -> Vec<Box<dyn Subject + Sync>> {
    let regions = memory();
    let map = MemoryMap::new(&regions).expect("one region is a map");
    let trylock = Yard::new(&map, Config::new(2), TryLock).expect("the map is small enough");
    let linux = LinuxAllocator::new(&map, &pageyard_linux::Config::linux_6_18());
    vec![
        Box::new(Named { name: "floor-trylock", allocator: FloorTrylock::new(2, 1 << 15), moves: no_moves }),
        Box::new(Named {
            name: "pageyard-trylock",
            allocator: Paged::<_, ORDER>(trylock),
            moves: Paged::moves,
        }),
        Box::new(Named {
            name: "buddy_system_allocator-locked",
            allocator: BuddyLocked::new(MEMORY, Order::of(ORDER)),
            moves: no_moves,
        }),
        Box::new(Named {
            name: "pageyard-linux",
            allocator: Paged::<_, ORDER>(linux.expect("the map is small enough")),
            moves: Paged::moves,
        }),
    ]
}

fn on_one<S: Subject + ?Sized>(subject: &S, load: &Load) -> Taken {
    subject.sample(0, load, &mut Vec::new())
}

/// Runs a sample on several CPUs at once; the threads start together, and their mean counts.
fn on_several(subject: &(dyn Subject + Sync), load: &Load, cores: &[core_affinity::CoreId]) -> Taken {
    let barrier = Barrier::new(cores.len());
    let mut sum = Taken::default();
    std::thread::scope(|scope| {
        let start = |(cpu, core): (usize, &core_affinity::CoreId)| {
            let (barrier, core) = (&barrier, *core);
            scope.spawn(move || {
                core_affinity::set_for_current(core);
                barrier.wait();
                subject.sample(cpu, load, &mut Vec::new())
            })
        };
        let threads: Vec<_> = cores.iter().enumerate().map(start).collect();
        for thread in threads {
            let taken = thread.join().expect("a sample does not panic");
            sum.total += taken.total;
            sum.alloc += taken.alloc;
            sum.free += taken.free;
            sum.missing += taken.missing;
        }
    });
    let n = cores.len() as u32;
    Taken { total: sum.total / n, alloc: sum.alloc / n, free: sum.free / n, missing: sum.missing }
}

/// One setting of a sweep.
struct Cell {
    order: Order,
    batch: usize,
    pattern: Pattern,
    threads: usize,
}

impl Cell {
    /// Measures every subject, in turn, sample by sample, after one untimed pass.
    fn measure<S: Subject + ?Sized>(
        &self,
        subjects: &[&S],
        mut sample: impl FnMut(&S) -> Taken,
    ) -> Vec<SweepRow> {
        let clock = Duration::from_nanos(clock_cost_ns());
        let rounds = (BLOCKS_A_SAMPLE / self.batch).max(1) as u32;
        let blocks = (f64::from(rounds) * self.batch as f64).max(1.0);
        for subject in subjects {
            sample(subject);
        }
        let before: Vec<_> = subjects.iter().map(|s| s.moves()).collect();
        let mut totals = vec![Vec::with_capacity(SAMPLES); subjects.len()];
        let mut shares = vec![Vec::with_capacity(SAMPLES); subjects.len()];
        let mut missing = vec![0; subjects.len()];
        for _ in 0..SAMPLES {
            for (i, subject) in subjects.iter().enumerate() {
                let taken = sample(subject);
                totals[i].push(taken.total.as_nanos() as f64 / blocks);
                let alloc = taken.alloc.saturating_sub(clock * rounds).as_nanos() as f64;
                let free = taken.free.saturating_sub(clock * rounds).as_nanos() as f64;
                shares[i].push(if alloc + free > 0.0 { alloc / (alloc + free) } else { 0.5 });
                missing[i] += taken.missing;
            }
        }
        let rows = subjects.iter().enumerate().filter(|(i, _)| missing[*i] == 0).map(|(i, subject)| {
            let total = median(&mut totals[i]);
            let share = median(&mut shares[i]);
            let after = subject.moves();
            SweepRow {
                allocator: subject.name(),
                threads: self.threads,
                order: self.order.get(),
                batch: self.batch,
                pattern: self.pattern,
                alloc_ns: total * share,
                free_ns: total * (1.0 - share),
                total_ns_min: totals[i][0],
                total_ns_median: total,
                refills: after.0 - before[i].0,
                spills: after.1 - before[i].1,
            }
        });
        rows.collect()
    }
}
