//! Load: a recorded trace, repeated by several jobs at once, each a part of the trace ahead of the others.
//!
//! The recording decides what a job allocates and frees, in which order, of which size and when; the engine chooses the
//! frames. If a row allocates something that an earlier round of the same job still holds, the job frees that first, as
//! a replay does: processes that outlived the recording end then. Page cache stays until it is reclaimed.

use super::job::{CHUNK, Job, Leaving, Timed};
use super::object::Role;
use super::owners::{Owners, for_fragmentation};
use crate::engine::ReplayEngine;
use crate::error::ReplayError;
use crate::latency::clock_cost_ns;
use crate::ledger::Stand;
use pageyard::RequestFlags;
use pageyard::{CpuId, Cx, Gfp, GfpMap, Migratetype, Nanos, Order, Pfn, PressureAllocator, Request};
use pageyard_trace::{Columns, Event, EventKind, Trace};
use std::collections::HashMap;
use std::time::Instant;

/// How often the background reclaimer gets to run, in recorded time: about as soon as a woken task does.
const TICK_NS: u64 = 1_000_000;

/// How often per-CPU lists shrink, in recorded time: Linux's `vm.stat_interval`.
const VMSTAT_NS: u64 = 1_000_000_000;

/// How a load departs from its recording.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Shape {
    /// How many jobs repeat the recording at the same time.
    pub jobs: usize,
    /// Whether movable blocks above order 0 are asked for whole, as the recorded kernel did, or frame by frame, as
    /// kernels without large folios do.
    pub large_blocks: bool,
    /// How often the background compactor gets to run, in recorded nanoseconds. Linux's reclaimer wakes it when it has
    /// had nothing to do for a tenth of a second.
    pub compactor_ns: u64,
}

/// A row of a load.
#[derive(Clone, Copy, Debug)]
struct Row {
    time_ns: u64,
    /// Renumbered.
    pfn: u32,
    /// The index of the request, or [`FREE`].
    request: u16,
    cpu: u8,
    order: u8,
}

const FREE: u16 = u16::MAX;

/// A recording made ready to be repeated.
pub struct LoadTrace {
    name: String,
    rows: Vec<Row>,
    requests: Vec<(Request, Role)>,
    frames: u64,
    duration_ns: u64,
    cpus: u32,
}

impl LoadTrace {
    /// Reads a recording.
    ///
    /// # Errors
    /// [`ReplayError`] where it cannot be read, or holds nothing that could be repeated.
    pub fn read(trace: &Trace, shape: &Shape) -> Result<LoadTrace, ReplayError> {
        let gfp = GfpMap::from_names(trace.meta().gfp_bits.iter().map(|(name, bit)| (name.as_str(), *bit)));
        let mut made = LoadTrace {
            name: trace.name().to_owned(),
            rows: Vec::new(),
            requests: Vec::new(),
            frames: 0,
            duration_ns: 0,
            cpus: trace.meta().cpus,
        };
        let (mut chunks, mut known) = (HashMap::new(), HashMap::new());
        let in_chunk = CHUNK.frames().0;
        let mut reader = trace.events(Columns::Replay)?;
        let mut batch: Vec<Event> = Vec::new();
        while reader.next_batch(&mut batch)? {
            for event in &batch {
                let Some(order) = Order::new(event.order) else { continue };
                if !matches!(event.kind, EventKind::Alloc | EventKind::Free) || event.failed() {
                    continue;
                }
                let next = chunks.len() as u64;
                let chunk = *chunks.entry(event.pfn / in_chunk).or_insert(next);
                let row = Row {
                    time_ns: event.time_ns,
                    pfn: (chunk * in_chunk + event.pfn % in_chunk) as u32,
                    request: FREE,
                    cpu: event.cpu as u8,
                    order: order.get(),
                };
                if event.kind == EventKind::Free {
                    made.rows.push(row);
                    continue;
                }
                let movable = event.migratetype == Migratetype::Movable as i8;
                let parts = if movable && !shape.large_blocks { order.frames().0 } else { 1 };
                let asked = if parts > 1 { Order::ZERO } else { order };
                let request = *known.entry((event.gfp, event.migratetype, asked)).or_insert_with(|| {
                    let recorded = u8::try_from(event.migratetype).ok().and_then(Migratetype::from_index);
                    // A replay has no memory to clear: only which frames were given matters.
                    let request =
                        Request::from_gfp(event.gfp, &gfp, asked, recorded).without(RequestFlags::ZERO);
                    made.requests.push((request, role(gfp.decode(event.gfp), request.migratetype)));
                    made.requests.len() as u16 - 1
                });
                let part = |n| Row { pfn: row.pfn + n, request, order: asked.get(), ..row };
                made.rows.extend((0..parts as u32).map(part));
            }
        }
        made.frames = chunks.len() as u64 * in_chunk;
        made.duration_ns = made.rows.last().map_or(0, |r| r.time_ns + 1);
        if made.rows.is_empty() {
            let why = "it holds no allocation and no free that could be repeated".to_owned();
            return Err(ReplayError::Machine { trace: made.name, why });
        }
        Ok(made)
    }

    /// Returns the recording's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns how long one round takes, in recorded nanoseconds.
    #[must_use]
    pub fn duration_ns(&self) -> u64 {
        self.duration_ns
    }

    /// Returns how many CPUs it was recorded on.
    #[must_use]
    pub fn cpus(&self) -> u32 {
        self.cpus
    }

    /// Returns how many frames one round allocates in each role.
    #[must_use]
    pub fn allocates(&self) -> [u64; Role::ALL.len()] {
        let mut sum = [0; Role::ALL.len()];
        for row in self.rows.iter().filter(|r| r.request != FREE) {
            sum[self.requests[row.request as usize].1 as usize] += 1 << row.order;
        }
        sum
    }
}

/// Returns whether Linux calls the OOM killer rather than refuse this: it may wait, is not costly, and does not say
/// that it would rather fail.
///
/// # Linux
/// `__alloc_pages_may_oom`.
fn may_kill(request: &Request) -> bool {
    let rather_fails = RequestFlags::NON_BLOCKING | RequestFlags::NORETRY | RequestFlags::RETRY_MAYFAIL;
    request.order <= Order::of(3) && !request.flags.intersects(rather_fails)
}

/// Reads from its gfp flags what an allocation is for.
///
/// Pages of files are the movable ones that are read ahead (they may fail: `NORETRY`), written to (`WRITE`) or of a
/// block device (`NOFAIL`); huge pages of processes have `NORETRY` too, and `NOMEMALLOC`. Page tables are zeroed,
/// charged and unmovable.
pub(crate) fn role(gfp: Gfp, m: Migratetype) -> Role {
    let file = Gfp::NORETRY.union(Gfp::WRITE).union(Gfp::NOFAIL);
    match m {
        Migratetype::Movable if gfp.intersects(file) && !gfp.contains(Gfp::NOMEMALLOC) => Role::Cache,
        Migratetype::Movable => Role::Anon,
        _ if gfp.contains(Gfp::ZERO.union(Gfp::ACCOUNT)) => Role::PageTable,
        _ => Role::Slab,
    }
}

/// The totals of a load.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Done {
    /// Rows executed.
    pub rows: u64,
    /// Requests refused, after the killer had ended what it could where it comes at all.
    pub refused: u64,
    /// Of those, refused although memory was free.
    pub fragmented: u64,
    /// Rounds that all jobs together have finished.
    pub rounds: u64,
    /// Jobs that were ended for want of memory.
    pub killed: u64,
    /// Nanoseconds in the engine, estimated: one call in 17 is timed, background work always.
    pub engine_ns: u64,
    /// Of those, in background reclaim and compaction.
    pub background_ns: u64,
}

impl Done {
    /// Returns what was done since an earlier moment.
    #[must_use]
    pub fn since(&self, earlier: &Done) -> Done {
        Done {
            rows: self.rows - earlier.rows,
            refused: self.refused - earlier.refused,
            fragmented: self.fragmented - earlier.fragmented,
            rounds: self.rounds - earlier.rounds,
            killed: self.killed - earlier.killed,
            engine_ns: self.engine_ns - earlier.engine_ns,
            background_ns: self.background_ns - earlier.background_ns,
        }
    }
}

/// A load under way.
pub struct Load<'a, 'e, E: ?Sized> {
    trace: &'a LoadTrace,
    owners: &'a Owners<'e, E>,
    jobs: Vec<Job>,
    now: u64,
    next_tick: u64,
    next_vmstat: u64,
    next_compactor: u64,
    compactor_ns: u64,
    clock_ns: u64,
    /// The totals so far.
    pub done: Done,
}

impl<'a, 'e, E: PressureAllocator + ReplayEngine> Load<'a, 'e, E> {
    /// Makes a load that has not begun; its jobs are spread evenly over the recording, and the first begins `shift` of
    /// a round into it (0 to 1).
    pub fn new(trace: &'a LoadTrace, owners: &'a Owners<'e, E>, shape: &Shape, shift: f64) -> Self {
        let jobs = (0..shape.jobs).map(|n| {
            let into = (n as f64 / shape.jobs as f64 + shift).fract() * trace.duration_ns as f64;
            let row = trace.rows.partition_point(|r| r.time_ns < into as u64);
            Job::new(trace.frames, row, -(into as i64))
        });
        let jobs = jobs.collect();
        Load {
            trace,
            owners,
            jobs,
            now: 0,
            next_tick: TICK_NS,
            next_vmstat: VMSTAT_NS,
            next_compactor: shape.compactor_ns,
            compactor_ns: shape.compactor_ns,
            clock_ns: clock_cost_ns(),
            done: Done::default(),
        }
    }

    /// Returns the time, in recorded nanoseconds since the load began.
    pub fn now(&self) -> u64 {
        self.now
    }

    /// Lets every job go on until `until`, and the background with them.
    pub fn run_until(&mut self, until: u64) {
        loop {
            let due = |job: &Job| {
                let row = self.trace.rows.get(job.row).map_or(self.trace.duration_ns, |r| r.time_ns);
                (job.began + row as i64).max(0) as u64
            };
            let next = self.jobs.iter().enumerate().map(|(i, job)| (due(job), i)).min();
            let Some((time, job)) = next.filter(|(time, _)| *time < until) else { break };
            self.background(time);
            self.now = self.now.max(time);
            self.step(job);
        }
        self.background(until);
        self.now = self.now.max(until);
    }

    /// Gives the background the turns that are due.
    fn background(&mut self, now: u64) {
        while self.next_tick <= now {
            let cx = Cx { now: Nanos(self.next_tick), ..Cx::on(CpuId(0)) };
            let start = Instant::now();
            let engine = self.owners.engine();
            engine.kswapd_with(&cx, self.owners).expect("the load names CPUs that there are");
            if self.next_compactor <= self.next_tick {
                engine.kcompactd_with(&cx, self.owners).expect("the load names CPUs that there are");
                self.next_compactor += self.compactor_ns;
            }
            if self.next_vmstat <= self.next_tick {
                engine.vmstat_tick();
                self.next_vmstat += VMSTAT_NS;
            }
            self.owners.take_reclaim_ns();
            let ns = start.elapsed().as_nanos() as u64;
            self.done.background_ns += ns;
            self.done.engine_ns += ns;
            self.next_tick += TICK_NS;
        }
    }

    /// Executes the next row of a job.
    fn step(&mut self, index: usize) {
        let trace = self.trace;
        let job = &mut self.jobs[index];
        let Some(row) = trace.rows.get(job.row).copied() else {
            job.row = 0;
            job.began += trace.duration_ns as i64;
            self.done.rounds += 1;
            return;
        };
        job.row += 1;
        self.done.rows += 1;
        let cx = Cx { now: Nanos(self.now), ..Cx::on(CpuId(u32::from(row.cpu))) };
        let block = (Pfn(u64::from(row.pfn)), Order::of(row.order));
        let mut timed = Timed::row(self.done.rows, self.clock_ns);
        let allocates = row.request != FREE;
        let leaving = if allocates { Leaving::Abandoned } else { Leaving::Freed };
        job.leave(self.owners, &cx, block, leaving, &mut timed);
        if allocates {
            let (request, role) = &trace.requests[row.request as usize];
            if let Some(stand) = self.alloc(index, &cx, request, *role, &mut timed) {
                self.jobs[index].put(block, stand, *role);
            }
        }
        self.done.engine_ns += timed.ns;
    }

    /// Allocates for a job. Where Linux would call the OOM killer, the job that holds the most is ended, and the
    /// request is made again; none is returned if the job itself was ended.
    ///
    /// # Linux
    /// `__alloc_pages_may_oom`, `select_bad_process`.
    fn alloc(
        &mut self,
        index: usize,
        cx: &Cx,
        request: &Request,
        role: Role,
        timed: &mut Timed,
    ) -> Option<Stand> {
        loop {
            let failure = match timed.call(|| self.owners.alloc(cx, request, role)) {
                Ok(id) => return Some(Stand(id)),
                Err(failure) => failure,
            };
            let most = (0..self.jobs.len()).max_by_key(|job| self.jobs[*job].held);
            match most.filter(|job| may_kill(request) && self.jobs[*job].held > 0) {
                Some(victim) => {
                    self.jobs[victim].kill(self.owners, cx, self.trace.duration_ns, timed);
                    self.done.killed += 1;
                    if victim == index {
                        return None;
                    }
                }
                None => {
                    self.done.refused += 1;
                    self.done.fragmented += u64::from(for_fragmentation(&failure.why));
                    return Some(Stand::UNSERVED);
                }
            }
        }
    }

    /// Returns how long one round takes, in recorded nanoseconds.
    pub fn round_ns(&self) -> u64 {
        self.trace.duration_ns
    }

    /// Returns whether [`Load::end`] was called.
    pub fn has_ended(&self) -> bool {
        self.jobs.is_empty()
    }

    /// Ends every process of the load: from now on only the background runs. Page cache stays.
    pub fn end(&mut self) {
        self.jobs.clear();
        self.owners.end_processes(&Cx { now: Nanos(self.now), ..Cx::on(CpuId(0)) });
    }
}
