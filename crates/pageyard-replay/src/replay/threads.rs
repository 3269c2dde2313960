//! A replay on one thread a CPU: each makes its CPU's calls in their recorded order, at the same time as the others.
//!
//! First the rows are turned into a plan: for each CPU a list of steps. A block is named by a *place*, where the step
//! that allocates it writes the engine's frame, and where the step that frees it, perhaps on another CPU, waits for it.
//! A step only ever waits for an earlier row, so the threads cannot wait for each other in a cycle.

use super::failures::Failures;
use super::refusals::{Asked, OnHost, Refusals};
use super::walk::Calls;
use crate::bitmap::SharedFrameSet;
use crate::engine::ReplayEngine;
use crate::error::ReplayError;
use crate::latency::Latencies;
use crate::ledger::{Ledger, Stand};
use pageyard::CpuId;
use pageyard::{AllocError, Cx, FreeError, Order, Pfn, Request};
use pageyard_trace::Event;
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};
use std::time::Instant;

/// One call of a plan.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// Allocates, and writes the frame to a place.
    Alloc(Request, u32),
    /// Allocates, and frees again.
    AllocRefused(Request),
    /// Frees what a place holds.
    Free(u32, Order),
    /// Halves what a place holds, and writes the halves to two others.
    Halve(u32, Order, u32, u32),
}

/// A list in pieces: one that was reallocated as it grew would take three times its size.
#[derive(Clone)]
struct Pieces<T>(Vec<Vec<T>>);

impl<T> Default for Pieces<T> {
    fn default() -> Self {
        Pieces(Vec::new())
    }
}

impl<T: Copy> Pieces<T> {
    /// Items in a piece.
    const PIECE: usize = 1 << 13;

    fn push(&mut self, item: T) {
        match self.0.last_mut() {
            Some(last) if last.len() < Self::PIECE => last.push(item),
            _ => {
                let mut piece = Vec::with_capacity(Self::PIECE);
                piece.push(item);
                self.0.push(piece);
            }
        }
    }

    fn get(&self, index: usize) -> Option<T> {
        self.0.get(index / Self::PIECE)?.get(index % Self::PIECE).copied()
    }
}

/// The details of a refused request that its step does not carry.
#[derive(Clone, Copy, Debug, Default)]
struct Asker {
    gfp: u32,
    tid: u32,
}

/// One CPU's calls.
#[derive(Clone, Default)]
struct Steps {
    calls: Pieces<(Cx, Step)>,
    /// Of each call that allocates, in their order: who makes it. It is read only when the engine refuses.
    askers: Pieces<Asker>,
}

/// The steps of all CPUs.
#[derive(Default)]
pub struct Plan {
    cpus: Vec<Steps>,
    /// The initial contents of the places that name the opening state's blocks.
    opening: Vec<u32>,
    places: u32,
}

impl Plan {
    /// Makes an empty plan.
    pub fn new(cpus: u32) -> Plan {
        Plan { cpus: vec![Steps::default(); cpus as usize], ..Plan::default() }
    }

    /// Returns about how many bytes the plan of this many rows takes: most rows are one step, of one place.
    pub fn bytes(rows: u64) -> u64 {
        let place = size_of::<AtomicU32>() + size_of::<u32>();
        rows.saturating_mul((size_of::<(Cx, Step)>() + size_of::<Asker>() + place) as u64)
    }

    /// Names a block of the opening state. Before any call is planned.
    pub fn hold(&mut self, at: Pfn) -> Stand {
        self.opening.push(at.0 as u32 + 1);
        self.place()
    }

    fn place(&mut self) -> Stand {
        self.places += 1;
        Stand(self.places - 1)
    }

    fn add(&mut self, cx: &Cx, step: Step) {
        if let Some(steps) = self.cpus.get_mut(cx.cpu.index()) {
            steps.calls.push((*cx, step));
        }
    }

    fn add_alloc(&mut self, cx: &Cx, step: Step, row: &Event) {
        self.add(cx, step);
        if let Some(steps) = self.cpus.get_mut(cx.cpu.index()) {
            steps.askers.push(Asker { gfp: row.gfp, tid: row.tid });
        }
    }
}

impl Calls for Plan {
    fn alloc(
        &mut self,
        cx: &Cx,
        request: &Request,
        row: &Event,
        ledger: &mut Ledger,
    ) -> Result<(), AllocError> {
        let place = self.place();
        self.add_alloc(cx, Step::Alloc(*request, place.0), row);
        ledger.put(Pfn(row.pfn), request.order, place);
        Ok(())
    }

    fn alloc_refused(&mut self, cx: &Cx, request: &Request, row: &Event) -> Result<(), AllocError> {
        self.add_alloc(cx, Step::AllocRefused(*request), row);
        Ok(())
    }

    /// A plan is not refused anything: the thread that carries it out counts what is.
    fn refused(&mut self, _: &Cx, _: &Request, _: &Event, _: &AllocError, _: OnHost) {}

    fn free(&mut self, cx: &Cx, stand: Stand, order: Order) {
        self.add(cx, Step::Free(stand.0, order));
    }

    fn halve(&mut self, cx: &Cx, stand: Stand, order: Order) -> Result<(Stand, Stand), FreeError> {
        let (lower, upper) = (self.place(), self.place());
        self.add(cx, Step::Halve(stand.0, order, lower.0, upper.0));
        Ok((lower, upper))
    }
}

/// The gate that threads wait at until all of them are started.
const CLOSED: u8 = 0;
const OPEN: u8 = 1;
/// One could not be started: none begins.
const CANCELLED: u8 = 2;

/// A place that is not written yet.
const EMPTY: u32 = 0;

/// A place whose request was refused.
const REFUSED: u32 = u32::MAX;

/// The state shared by the threads.
struct Shared<'a, E: ?Sized> {
    engine: &'a E,
    /// For each place: 1 + the engine's frame, [`EMPTY`] or [`REFUSED`].
    places: Vec<AtomicU32>,
    taken: &'a SharedFrameSet,
    /// Whether the engine biases pageblocks to CPUs, so that it is counted which frees found theirs biased to their
    /// own.
    biases: bool,
}

/// The results of one thread.
pub struct Found {
    pub alloc: Latencies,
    pub free: Latencies,
    pub failures: Failures,
    pub refusals: Refusals,
    /// Calls that allocate that were made.
    allocs: usize,
    /// Calls that had to wait for a call of another CPU.
    pub waits: u64,
    /// Nanoseconds they waited, not counted as latency.
    pub wait_ns: u64,
    /// Threads that made calls.
    pub threads: u32,
    /// Frees, where the engine biases pageblocks to CPUs.
    frees: u64,
    /// Of those, the ones whose pageblock was biased to the CPU that freed.
    biased_frees: u64,
    /// How often a bias was taken back, likewise.
    pub revocations: Option<u64>,
}

impl Found {
    /// Makes an empty record, of which `refusals` are a part.
    fn new(clock_ns: u64, refusals: Refusals) -> Found {
        Found {
            alloc: Latencies::new(clock_ns),
            free: Latencies::new(clock_ns),
            failures: Failures::default(),
            refusals,
            allocs: 0,
            waits: 0,
            wait_ns: 0,
            threads: 0,
            frees: 0,
            biased_frees: 0,
            revocations: None,
        }
    }

    /// Returns the share of the frees whose pageblock was biased to the CPU that freed; `None` where the engine biases
    /// none.
    pub fn biased_share(&self) -> Option<f64> {
        self.revocations.map(|_| self.biased_frees as f64 / self.frees.max(1) as f64)
    }

    fn add(&mut self, other: Found) {
        self.alloc.add(&other.alloc);
        self.free.add(&other.free);
        self.failures.add(&other.failures);
        self.refusals.add(other.refusals);
        self.waits += other.waits;
        self.wait_ns += other.wait_ns;
        self.frees += other.frees;
        self.biased_frees += other.biased_frees;
    }
}

impl Plan {
    /// Makes all calls, one thread a CPU; `tick` is called by the first with the recorded time. `taken` holds the
    /// frames of the opening state, and at the end those that are still held. `refusals` is empty.
    pub fn run<E: ReplayEngine + ?Sized>(
        self,
        engine: &E,
        taken: &SharedFrameSet,
        clock_ns: u64,
        refusals: Refusals,
        tick: &mut (dyn FnMut(u64) + Send),
    ) -> Result<Found, ReplayError> {
        let empty = self.places as usize - self.opening.len();
        let places =
            self.opening.into_iter().chain(std::iter::repeat_n(EMPTY, empty)).map(AtomicU32::new).collect();
        let revoked = engine.revocations();
        let shared = Shared { engine, places, taken, biases: revoked.is_some() };
        let mut sum = Found::new(clock_ns, refusals.clone());
        let mut tick = Some(tick);
        // A CPU that does nothing needs no thread.
        let busy: Vec<Steps> = self.cpus.into_iter().filter(|steps| !steps.calls.0.is_empty()).collect();
        sum.threads = busy.len() as u32;
        // All wait for the last to be started: a block may come from any of them.
        let gate = AtomicU8::new(CLOSED);
        let threads = busy.len();
        std::thread::scope(|scope| {
            let mut workers = Vec::new();
            for (thread, steps) in busy.into_iter().enumerate() {
                let (shared, gate, mut tick) = (&shared, &gate, tick.take());
                let mut found = Found::new(clock_ns, refusals.clone());
                let work = move || {
                    let _registered = pageyard_arena::rseq::register_thread();
                    // ORDER: Relaxed: the gate only says when to begin; spawning published the rest.
                    while gate.load(Ordering::Relaxed) == CLOSED {
                        std::thread::yield_now();
                    }
                    if gate.load(Ordering::Relaxed) == CANCELLED {
                        return found;
                    }
                    for (cx, step) in steps.calls.0.iter().flatten() {
                        if let Some(tick) = &mut tick {
                            tick(cx.now.0);
                        }
                        shared.make(cx, *step, &steps.askers, &mut found);
                    }
                    found
                };
                match std::thread::Builder::new().spawn_scoped(scope, work) {
                    Ok(worker) => workers.push(worker),
                    Err(why) => {
                        // ORDER: Relaxed: as above.
                        gate.store(CANCELLED, Ordering::Relaxed);
                        return Err(ReplayError::NoThread { thread: thread + 1, threads, why });
                    }
                }
            }
            // ORDER: Relaxed: as above.
            gate.store(OPEN, Ordering::Relaxed);
            for worker in workers {
                match worker.join() {
                    Ok(found) => sum.add(found),
                    Err(panic) => std::panic::resume_unwind(panic),
                }
            }
            Ok(())
        })?;
        sum.revocations = engine.revocations().zip(revoked).map(|(after, before)| after - before);
        Ok(sum)
    }
}

impl<E: ReplayEngine + ?Sized> Shared<'_, E> {
    fn make(&self, cx: &Cx, step: Step, askers: &Pieces<Asker>, found: &mut Found) {
        let engine = self.engine;
        let refused = |found: &mut Found, request: &Request, why: &AllocError, host| {
            let Asker { gfp, tid } = askers.get(found.allocs).unwrap_or_default();
            let asked = Asked { cx, request, gfp, tid };
            found.refusals.refused(engine, &mut found.failures, &asked, why, host);
        };
        match step {
            Step::Alloc(request, place) => {
                let value = match found.alloc.time(|| engine.alloc(cx, &request)) {
                    Ok(at) => {
                        let already = self.taken.insert(at, request.order.frames());
                        found.failures.double_frames += already;
                        found.failures.double_allocations += u64::from(already > 0);
                        at.0 as u32 + 1
                    }
                    Err(why) => {
                        refused(found, &request, &why, OnHost::Served);
                        REFUSED
                    }
                };
                found.allocs += 1;
                self.write(place, value);
            }
            Step::AllocRefused(request) => {
                match found.alloc.time(|| engine.alloc(cx, &request)) {
                    Ok(at) => {
                        let Asker { gfp, tid } = askers.get(found.allocs).unwrap_or_default();
                        let asked = Asked { cx, request: &request, gfp, tid };
                        found.refusals.served(&mut found.failures, &asked);
                        self.free(cx, at, request.order, found);
                    }
                    Err(why) => refused(found, &request, &why, OnHost::Refused),
                }
                found.allocs += 1;
            }
            Step::Free(place, order) => {
                if let Some(at) = self.wait(place, found) {
                    self.taken.remove(at, order.frames());
                    self.free(cx, at, order, found);
                }
            }
            Step::Halve(place, order, lower, upper) => {
                let half = order.smaller().unwrap_or(order);
                let (low, high) = match self.wait(place, found) {
                    Some(at) if engine.split(&Cx::on(CpuId(0)), at, order, half).is_ok() => {
                        (at.0 as u32 + 1, (at + half.frames()).0 as u32 + 1)
                    }
                    Some(_) => {
                        found.failures.refused_frees += 1;
                        (REFUSED, REFUSED)
                    }
                    None => (REFUSED, REFUSED),
                };
                self.write(lower, low);
                self.write(upper, high);
            }
        }
    }

    fn free(&self, cx: &Cx, at: Pfn, order: Order, found: &mut Found) {
        let engine = self.engine;
        // Asked before the call, and not timed with it: another engine's frees cost no more than they would without.
        if self.biases {
            found.frees += 1;
            found.biased_frees += u64::from(engine.is_biased_here(at).unwrap_or(false));
        }
        if found.free.time(|| engine.free(cx, at, order)).is_err() {
            found.failures.refused_frees += 1;
        }
    }

    fn write(&self, place: u32, value: u32) {
        // ORDER: Release pairs with the Acquire in `wait`: the frames of the block are in `taken` by then.
        self.places[place as usize].store(value, Ordering::Release);
    }

    /// Waits until a place is written; `None` where the request for it was refused.
    fn wait(&self, place: u32, found: &mut Found) -> Option<Pfn> {
        let place = &self.places[place as usize];
        // ORDER: Acquire pairs with the Release in `write`.
        let read = || Some(place.load(Ordering::Acquire)).filter(|v| *v != EMPTY);
        let value = read().unwrap_or_else(|| {
            let start = Instant::now();
            found.waits += 1;
            let value = loop {
                std::thread::yield_now();
                if let Some(value) = read() {
                    break value;
                }
            };
            found.wait_ns += start.elapsed().as_nanos() as u64;
            value
        });
        (value != REFUSED).then(|| Pfn(u64::from(value - 1)))
    }
}
