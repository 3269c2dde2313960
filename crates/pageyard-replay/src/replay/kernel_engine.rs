//! A kernel's replay, as the engine that it is reported as. It is gone through twice. First the opening is brought
//! about in a reference, from which the guest takes its lists, and the calls are written down. Then the same calls are
//! answered from what the guest did.

use super::kernel_plan::Steps;
use crate::engine::{Fallbacks, ReplayEngine};
use crate::machine::Mapping;
use pageyard::watermark::Watermarks;
use pageyard::{
    AllocError, AuditError, Census, ClaimError, Counter, CpuId, CpuSet, Cx, Drained, Frames, FreeError,
    MemoryMap, Migratetype, NR_ORDERS, NodeId, Order, PageAllocator, PageblockId, PcpStats, Pfn, Request,
    Stats, ZoneId, ZoneSpan, ZoneStats,
};
use pageyard_guest::exchange::{
    GuestSample, GuestZone, NO_FRAME, ORDERS, Replayed, Step, StepKind, TYPES, ZONES,
};
use pageyard_linux::LinuxAllocator;
use std::sync::{Mutex, MutexGuard};

/// A guest's answers to a plan, in the recording's frames.
pub struct Answers {
    /// The result of each allocating step, in order: the step's number and the first frame.
    asked: Vec<(u32, Option<Pfn>)>,
    /// The zones' state at each sampling step, in order.
    sampled: Vec<GuestSample>,
    /// The same after each refused request.
    refused: Vec<GuestSample>,
    zones: [GuestZone; ZONES],
    census: Census,
    fallbacks: Fallbacks,
    slow: u64,
    page_bytes: u64,
    /// Answers that name frames that the guest was not opened with.
    pub strays: u64,
    /// Blocks of the opening that were not where they belong.
    pub misplaced: u64,
}

impl Answers {
    /// Translates what a guest did with `steps` in zones of these spans, of whose managed frames `managed` are a list.
    pub fn new(
        replayed: &Replayed,
        steps: &[Step],
        zones: [GuestZone; ZONES],
        mapping: &Mapping,
        managed: impl Iterator<Item = Pfn>,
    ) -> Answers {
        let mut strays = 0;
        let asked = (0..).zip(steps).filter(|(_, step)| step.kind == StepKind::Alloc).map(|(n, _)| {
            let got = replayed.answers[n as usize];
            let pfn = mapping.back(got).filter(|_| got != NO_FRAME);
            strays += u64::from(got != NO_FRAME && pfn.is_none());
            (n, pfn)
        });
        let asked = asked.collect();
        let is_refusal = |s: &GuestSample| steps[s.step as usize].kind == StepKind::Alloc;
        let (refused, sampled) = replayed.samples.iter().cloned().partition(is_refusal);
        let mut census = Census::default();
        for pfn in managed {
            let there = mapping.there(pfn).map_or(u64::MAX, u64::from);
            census.managed.0 += 1;
            census.free.0 += u64::from(replayed.free.contains(there));
            census.cached.0 += u64::from(replayed.cached.contains(there));
        }
        census.allocated = census.managed.saturating_sub(census.free + census.cached);
        let mut fallbacks = Fallbacks::default();
        for (m, from) in (0..TYPES - 1).flat_map(|m| (0..TYPES - 1).map(move |from| (m, from))) {
            fallbacks[m][from] = replayed.fallbacks[m][from];
        }
        Answers {
            asked,
            sampled,
            refused,
            zones,
            census,
            fallbacks,
            slow: replayed.slow,
            page_bytes: replayed.page_bytes,
            strays,
            misplaced: replayed.misplaced,
        }
    }

    /// Returns what zones held when a step was refused; beyond so many refusals a guest keeps none, and it is that of
    /// the last one.
    fn refused_at(&self, step: u32) -> Option<&GuestSample> {
        let next = self.refused.partition_point(|s| s.step <= u64::from(step));
        self.refused.get(next.checked_sub(1)?)
    }

    /// Returns what the steps that ask got, in order.
    pub fn frames(&self) -> impl Iterator<Item = (u32, Option<Pfn>)> {
        self.asked.iter().copied()
    }
}

/// The reason the engine's zones are read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Asker {
    /// The opening is brought about.
    Opening,
    /// A sample is due.
    Clock,
    /// A request was refused.
    Row,
}

#[derive(Default)]
struct Reading {
    asked: usize,
    /// One more than the sample that was read last.
    sampled: usize,
    /// The step of the request that was refused last.
    refused: Option<u32>,
}

/// The engine.
pub struct KernelEngine<'a> {
    /// In the opening state.
    reference: LinuxAllocator,
    steps: &'a Steps,
    /// The guest's answers; `None` while the calls are written down.
    answers: Option<Answers>,
    spans: Vec<ZoneSpan>,
    cpus: u32,
    asker: Mutex<Asker>,
    reading: Mutex<Reading>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|e| e.into_inner())
}

impl<'a> KernelEngine<'a> {
    /// Makes an engine over `map`: one that writes steps down, or, with the guest's answers, one that gives them.
    pub fn new(
        reference: LinuxAllocator,
        map: &MemoryMap<'_>,
        cpus: u32,
        steps: &'a Steps,
        answers: Option<Answers>,
    ) -> KernelEngine<'a> {
        KernelEngine {
            reference,
            steps,
            answers,
            spans: map.zones().map(|(_, span)| span).collect(),
            cpus,
            asker: Mutex::new(Asker::Opening),
            reading: Mutex::default(),
        }
    }

    /// Says on whose behalf the engine is asked from now on.
    pub fn asked_by(&self, asker: Asker) {
        *lock(&self.asker) = asker;
    }

    /// Returns the reference, which the opening brings about.
    pub fn reference(&self) -> &LinuxAllocator {
        &self.reference
    }

    /// Returns its zones.
    pub fn spans(&self) -> &[ZoneSpan] {
        &self.spans
    }

    /// Adds a step of the background on every CPU of `cpus`.
    fn background(&self, kind: StepKind, cpus: u32) {
        if self.answers.is_none() && *lock(&self.asker) != Asker::Opening {
            (0..cpus).for_each(|cpu| _ = self.steps.add(Step::new(kind, cpu as u16, 0, 0, 0)));
        }
    }

    /// Returns the sample that an answer about the zones is read from: the next one, if the first zone is asked about.
    fn sample(&self, answers: &'a Answers, first: bool) -> Option<&'a GuestSample> {
        let mut reading = lock(&self.reading);
        if *lock(&self.asker) == Asker::Row
            && let Some(step) = reading.refused
        {
            return answers.refused_at(step);
        }
        reading.sampled += usize::from(first && reading.sampled < answers.sampled.len());
        answers.sampled.get(reading.sampled.max(1) - 1)
    }
}

/// Tells why a kernel refused a request, by what its zones held then.
fn why(sample: Option<&GuestSample>, zones: &[GuestZone; ZONES], request: &Request) -> AllocError {
    let Some(sample) = sample else { return AllocError::OutOfMemory };
    let allowed = || (0..=request.highest_zone as usize).filter(|z| *z < ZONES && zones[*z].spanned > 0);
    let free = Frames(allowed().map(|z| sample.zones[z].free).sum());
    let order = request.order;
    let large =
        |z: usize| sample.zones[z].blocks[order.index().min(ORDERS)..].iter().flatten().any(|n| *n > 0);
    if free < order.frames() {
        AllocError::OutOfMemory
    } else if allowed().any(large) {
        let kept =
            allowed().map(|z| zones[z].marks[0] + zones[z].protection[request.highest_zone as usize]).sum();
        AllocError::BelowWatermark { free, kept: Frames(kept) }
    } else {
        AllocError::Fragmented { order, free }
    }
}

// SAFETY: 1. to 3. are the guest's to keep: an answer is a name of one of its frames, behind which there is no memory
//         of this process, and a replay counts blocks that were handed out twice. While the calls are written down
//         nothing is handed out.
#[allow(unsafe_code, reason = "frames that are only names")]
unsafe impl PageAllocator for KernelEngine<'_> {
    fn alloc(&self, _: &Cx, request: &Request) -> Result<Pfn, AllocError> {
        let Some(answers) = &self.answers else { return Err(AllocError::OutOfMemory) };
        let (step, got) = {
            let mut reading = lock(&self.reading);
            let (step, got) = answers.asked.get(reading.asked).copied().unwrap_or((0, None));
            reading.asked += 1;
            reading.refused = got.is_none().then_some(step);
            (step, got)
        };
        got.ok_or_else(|| why(answers.refused_at(step), &answers.zones, request))
    }

    fn free(&self, cx: &Cx, pfn: Pfn, order: Order) -> Result<(), FreeError> {
        match *lock(&self.asker) {
            Asker::Opening => PageAllocator::free(&self.reference, cx, pfn, order),
            _ => Ok(()),
        }
    }

    fn split(&self, _: &Cx, _: Pfn, _: Order, _: Order) -> Result<(), FreeError> {
        Ok(())
    }

    fn claim_exact(&self, cx: &Cx, pfn: Pfn, order: Order, m: Migratetype) -> Result<(), ClaimError> {
        // A guest is not told of moves: what it holds stays where it is.
        match *lock(&self.asker) {
            Asker::Opening => self.reference.claim_exact(cx, pfn, order, m),
            _ => Err(ClaimError::NotFree),
        }
    }

    fn order_of(&self, _: Pfn) -> Option<Order> {
        None
    }

    fn drain(&self, cpus: CpuSet) -> Drained {
        PageAllocator::drain(&self.reference, cpus)
    }

    fn stats(&self) -> Stats {
        let spanned: Frames = self.spans.iter().map(|s| s.spanned).sum();
        let bytes = self.answers.as_ref().map_or(0, |a| a.page_bytes);
        let mut stats = Stats::new(self.spans.len(), self.cpus as usize, bytes * spanned.0, spanned);
        if let Some(answers) = &self.answers {
            stats[Counter::Extfrag] = answers.fallbacks.iter().flatten().sum();
            stats[Counter::AllocSlow] = answers.slow;
        }
        stats
    }

    fn zone_stats(&self, zone: ZoneId) -> Option<ZoneStats> {
        let mut stats = self.reference.zone_stats(zone)?;
        if *lock(&self.asker) == Asker::Opening {
            return Some(stats);
        }
        let Some(answers) = &self.answers else {
            if zone.0 == 0 {
                self.steps.add(Step::new(StepKind::Sample, 0, 0, 0, 0));
            }
            return Some(stats);
        };
        let kind = stats.span.kind as usize;
        let (sampled, guest) =
            (self.sample(answers, zone.0 == 0)?.zones.get(kind)?, answers.zones.get(kind)?);
        stats.free = Frames(sampled.free);
        stats.cached = Frames(sampled.lists.iter().map(|(count, _)| count).sum());
        let [min, low, high] = guest.marks.map(Frames);
        stats.watermarks = Watermarks { min, low, high, ..stats.watermarks };
        stats.boost = Frames(sampled.boost);
        stats.protection = std::array::from_fn(|k| Frames(guest.protection.get(k).copied().unwrap_or(0)));
        stats.highatomic = Frames(sampled.highatomic);
        stats.free_blocks = [[0; Migratetype::COUNT]; NR_ORDERS];
        stats.pageblocks = [0; Migratetype::COUNT];
        for (m, n) in sampled.pageblocks.iter().enumerate() {
            stats.pageblocks[m.min(Migratetype::COUNT - 1)] += n;
        }
        for (order, by_type) in sampled.blocks.iter().enumerate() {
            for (m, n) in by_type.iter().enumerate() {
                stats.free_blocks[order][m.min(Migratetype::COUNT - 1)] += n;
            }
        }
        Some(stats)
    }

    fn pcp_stats(&self, zone: ZoneId, cpu: CpuId) -> Option<PcpStats> {
        let ours = self.reference.pcp_stats(zone, cpu)?;
        let (Some(answers), true) = (&self.answers, *lock(&self.asker) != Asker::Opening) else {
            return Some(ours);
        };
        let kind = self.spans.get(zone.index())?.kind as usize;
        let (count, high) = *self.sample(answers, false)?.zones.get(kind)?.lists.get(cpu.index())?;
        let [batch, high_min, high_max] = answers.zones.get(kind)?.lists;
        Some(PcpStats { count, high, batch, high_min, high_max })
    }

    fn audit(&self) -> Result<Census, AuditError> {
        match &self.answers {
            Some(answers) => Ok(answers.census),
            None => self.reference.audit(),
        }
    }
}

impl ReplayEngine for KernelEngine<'_> {
    fn set_pageblock_migratetype(&self, block: PageblockId, m: Migratetype) {
        // A kernel may be built without CMA, so in guests nothing is lent.
        let m = if m <= Migratetype::HighAtomic { m } else { Migratetype::Movable };
        self.reference.set_pageblock_migratetype(block, m);
    }

    fn restore_cached(&self, cpu: CpuId, pfn: Pfn, order: Order, m: Migratetype) -> bool {
        ReplayEngine::restore_cached(&self.reference, cpu, pfn, order, m)
    }

    fn order_free_lists(&self, rank: &dyn Fn(Pfn) -> Option<u32>) {
        self.reference.order_free_lists(rank);
    }

    fn restore_pcp_high(&self, zone: ZoneId, cpu: CpuId, high: u64) {
        self.reference.restore_pcp_high(zone, cpu, high);
    }

    fn kswapd_tick(&self, _: &dyn Fn(NodeId) -> bool) {
        self.background(StepKind::KswapdEnds, 1);
    }

    fn vmstat_tick(&self) {
        self.background(StepKind::Tick, self.cpus);
    }

    fn empty_lists(&self) {
        self.background(StepKind::Drain, 1);
    }

    fn fallbacks(&self) -> Option<Fallbacks> {
        self.answers.as_ref().map(|a| a.fallbacks)
    }
}
