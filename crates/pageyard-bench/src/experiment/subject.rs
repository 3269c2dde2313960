//! What experiments measure: timed loops over anything with the project's interface, compiled for each engine.

use crate::error::BenchError;
use pageyard::OwnedPageyard;
use pageyard::Pageyard;
use pageyard::{
    Context, CpuId, Cx, Frames, MemoryMap, Migratetype, NodeId, Order, PageAllocator, PerCpu, Pfn, Region,
    Request, RequestFlags, TryLock, ZoneKind,
};
use pageyard_arena::rseq::{Rseq, possible_cpus};
use pageyard_linux::{Config, LinuxAllocator};
use pageyard_replay::ReplayError;
use pageyard_replay::latency::clock_cost_ns;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// A failed allocation; no map reaches this frame.
const MISSING: Pfn = Pfn(u64::MAX);

/// The batches of the documents' microbenchmark.
pub(super) fn batches(quick: bool) -> Vec<usize> {
    if quick { vec![1, 64, 1024, 16_384] } else { (0..15).map(|i| 1 << i).collect() }
}

/// Frames that a sample of a sweep handles at least.
pub(super) fn frames_a_sample(quick: bool) -> usize {
    if quick { 1 << 14 } else { 1 << 15 }
}

/// One order-0 call of a recorded mix.
#[derive(Clone, Copy)]
pub(super) struct Call {
    pub place: u32,
    pub context: Context,
    pub free: bool,
}

/// A recorded mix of order-0 calls.
pub(super) struct Mix {
    pub calls: Vec<Call>,
    /// How many frames are held at most, each in its own place.
    pub places: usize,
    /// How often a sample makes the calls.
    pub repeat: usize,
}

/// Anything that can be measured.
pub(super) trait Subject: Sync {
    /// Takes `held.len()` single frames and frees them in the same order, `rounds` times. Returns nanoseconds a frame for
    /// taking, freeing and both; or `None` where an allocation failed.
    fn sweep(&self, cpu: usize, request: &Request, held: &mut [Pfn], rounds: usize) -> Option<[f64; 3]>;

    /// The same through the bulk calls, `held.len()` frames a call.
    fn bulk(&self, cpu: usize, request: &Request, held: &mut [Pfn], rounds: usize) -> Option<f64>;

    /// Makes the calls of a mix. Returns nanoseconds a call, or `None` where an allocation failed.
    fn mix(&self, cpu: usize, mix: &Mix) -> Option<f64>;
}

fn fill<A: PageAllocator>(a: &A, cx: &Cx, request: &Request, held: &mut [Pfn]) -> bool {
    held.iter_mut().fold(true, |had, slot| {
        *slot = a.alloc(cx, request).unwrap_or(MISSING);
        had & (*slot != MISSING)
    })
}

fn give<A: PageAllocator>(a: &A, cx: &Cx, held: &[Pfn]) {
    for pfn in held.iter().filter(|p| **p != MISSING) {
        // A refused free would show in the audit that ends an experiment.
        let _ = a.free(cx, *pfn, Order::ZERO);
    }
}

/// What reading the clock costs, measured once: a disturbed measurement would be subtracted from each later sample.
fn clock() -> Duration {
    static CLOCK: OnceLock<Duration> = OnceLock::new();
    *CLOCK.get_or_init(|| Duration::from_nanos((0..9).map(|_| clock_cost_ns()).min().unwrap_or(0)))
}

impl<A: PageAllocator> Subject for A {
    fn sweep(&self, cpu: usize, request: &Request, held: &mut [Pfn], rounds: usize) -> Option<[f64; 3]> {
        let cx = Cx::on(CpuId(cpu as u32));
        let mut had = true;
        let start = Instant::now();
        for _ in 0..rounds {
            had &= fill(self, &cx, request, held);
            give(self, &cx, held);
        }
        let total = start.elapsed();
        // Each half separately, in its own pass, with the clock read in between and its cost subtracted. A disturbance
        // in one half is not part of the other, so the halves need not add up to the whole.
        let (mut alloc, mut free) = (Duration::ZERO, Duration::ZERO);
        for _ in 0..rounds {
            let start = Instant::now();
            had &= fill(self, &cx, request, held);
            let middle = Instant::now();
            give(self, &cx, held);
            alloc += middle - start;
            free += middle.elapsed();
        }
        let frames = (rounds * held.len()) as f64;
        let clock = clock() * rounds as u32;
        let each = |taken: Duration| taken.as_nanos() as f64 / frames;
        let halves = [alloc, free].map(|half| each(half.saturating_sub(clock)));
        had.then_some([halves[0], halves[1], each(total)])
    }

    fn bulk(&self, cpu: usize, request: &Request, held: &mut [Pfn], rounds: usize) -> Option<f64> {
        let cx = Cx::on(CpuId(cpu as u32));
        let mut all = true;
        let start = Instant::now();
        for _ in 0..rounds {
            let got = self.alloc_bulk(&cx, request, held);
            all &= got == held.len();
            self.free_bulk(&cx, &held[..got], Order::ZERO, &mut |_, _| {});
        }
        let taken = start.elapsed().as_nanos() as f64;
        all.then_some(taken / (rounds * held.len()) as f64)
    }

    fn mix(&self, cpu: usize, mix: &Mix) -> Option<f64> {
        let cx = Context::ALL.map(|context| Cx { context, ..Cx::on(CpuId(cpu as u32)) });
        let task = Request::new(Order::ZERO, Migratetype::Movable);
        let atomic = task.with(RequestFlags::HIGH | RequestFlags::NON_BLOCKING);
        let mut held = vec![MISSING; mix.places];
        let mut had = true;
        let mut taken = Duration::ZERO;
        for _ in 0..mix.repeat {
            let start = Instant::now();
            for call in &mix.calls {
                let cx = &cx[call.context as usize];
                let slot = &mut held[call.place as usize];
                if !call.free {
                    let request = if call.context == Context::Task { &task } else { &atomic };
                    *slot = self.alloc(cx, request).unwrap_or(MISSING);
                    had &= *slot != MISSING;
                } else if *slot != MISSING {
                    let _ = self.free(cx, *slot, Order::ZERO);
                    *slot = MISSING;
                }
            }
            taken += start.elapsed();
            give(self, &cx[0], &held);
            held.fill(MISSING);
        }
        let taken = taken.as_nanos() as f64 / mix.repeat as f64;
        had.then_some(taken / mix.calls.len().max(1) as f64)
    }
}

/// The memory of an experiment on one node: 8 GiB, of which no sample holds a quarter.
pub(super) const MEMORY: u64 = 1 << 21;

/// Makes the regions of `nodes` nodes of three zones, together as large as [`MEMORY`].
pub(super) fn regions(nodes: u8) -> Vec<Region> {
    let node = MEMORY / u64::from(nodes);
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

/// Makes a reference whose lists have only the protection that its configuration says.
pub(super) fn reference(regions: &[Region], config: &Config) -> Result<LinuxAllocator, BenchError> {
    let fail = |why| ReplayError::Map { trace: "this experiment's machine".into(), why };
    let map = MemoryMap::new(regions).map_err(fail)?;
    Ok(super::unsafely::by_cpu(&map, config).map_err(fail)?)
}

/// The engine: `pageyard` where this host has restartable sequences, the try-lock elsewhere.
pub(super) enum Engine {
    Restartable(OwnedPageyard<Rseq>),
    Locked(OwnedPageyard<TryLock>),
}

impl Engine {
    /// Makes it, for every CPU that a thread may run on.
    pub fn new(regions: &[Region]) -> Result<Engine, BenchError> {
        match Rseq::new() {
            Ok(rseq) => Ok(Engine::Restartable(yard(regions, possible_cpus(), rseq)?)),
            Err(_) => Ok(Engine::Locked(locked(regions)?)),
        }
    }

    /// Returns it as something that is measured.
    pub fn subject(&self) -> &dyn Subject {
        match self {
            Engine::Restartable(yard) => yard,
            Engine::Locked(yard) => yard,
        }
    }

    /// Returns it as an allocator, one call through a table each.
    pub fn allocator(&self) -> &dyn PageAllocator {
        match self {
            Engine::Restartable(yard) => yard,
            Engine::Locked(yard) => yard,
        }
    }

    /// Returns it as an allocator to keep.
    pub fn boxed(self) -> Box<dyn PageAllocator> {
        match self {
            Engine::Restartable(yard) => Box::new(yard),
            Engine::Locked(yard) => Box::new(yard),
        }
    }

    /// Says what keeps a list to one user.
    pub fn protection(&self) -> &'static str {
        match self {
            Engine::Restartable(_) => "the engine's lists are used by restartable sequences",
            Engine::Locked(_) => {
                "the engine's lists stand behind a lock that is tried once: no restartable sequences here"
            }
        }
    }
}

/// Makes the engine behind a lock that is tried, for two CPUs.
pub(super) fn locked(regions: &[Region]) -> Result<OwnedPageyard<TryLock>, BenchError> {
    yard(regions, 2, TryLock)
}

fn yard<P: PerCpu>(regions: &[Region], cpus: u32, percpu: P) -> Result<OwnedPageyard<P>, BenchError> {
    let fail = |why| ReplayError::Map { trace: "this experiment's machine".into(), why };
    let map = MemoryMap::new(regions).map_err(fail)?;
    Ok(Pageyard::owned(&map, pageyard::Config::new(cpus), percpu).map_err(fail)?)
}

/// A plain request for a movable frame.
pub(super) fn single() -> Request {
    Request::new(Order::ZERO, Migratetype::Movable)
}

/// Checks that nothing was lost; an experiment that lost a frame measured something else.
pub(super) fn sound(engines: &[&dyn PageAllocator]) -> Result<(), BenchError> {
    for engine in engines {
        let census =
            engine.audit().map_err(|e| BenchError::Experiment { why: format!("an audit failed: {e}") })?;
        if census.allocated.0 > 0 || !census.is_conserved() {
            return Err(BenchError::Experiment { why: format!("frames were lost: {census:?}") });
        }
    }
    Ok(())
}
