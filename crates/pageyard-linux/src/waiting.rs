//! The work of a request that waits: reclaim, compaction and retries, in Linux's order. Layer: requests, above
//! `reclaim`.

use crate::allocator::LinuxAllocator;
use crate::compaction::{COSTLY, Goal, Marks, Plan, compact_for_request, room_to_begin};
use crate::config::{FirstCompaction, Reclaimer, Retries};
use crate::effort::{Effort, Mark, Reach, Wake};
use crate::frees::To;
use crate::reclaim::CLUSTER;
use crate::zone::Zone;
use pageyard_core::compaction::{Mode, Outcome, Step};
use pageyard_core::reclaim::{Attempts, Helpers, Priority, Shortage};
use pageyard_core::watermark::Watermarks;
use pageyard_core::{
    CompactorId, Counter, CpuSet, Cx, Frames, Migratetype, NodeMask, Order, PAGEBLOCK_ORDER, Pfn, Request,
    RequestFlags, ZoneId,
};

/// Rounds without progress before reclaim is given up. `MAX_RECLAIM_RETRIES`.
const MAX_RECLAIM_RETRIES: u32 = 16;
/// Successful compactions that did not serve the request, before it gives up. `MAX_COMPACT_RETRIES`.
const MAX_COMPACT_RETRIES: u32 = 16;

/// Reclaims of a request from which on none counts as progress: a helper that frees frames and takes them again would
/// keep it going forever. Linux has no such limit.
const MAX_RECLAIMS: u32 = 1024;

/// How hard compaction tries for a request.
///
/// # Linux
/// `enum compact_priority`, the hardest last.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Zeal {
    Async,
    SyncLight,
    /// Every pageblock, whatever was deferred.
    SyncFull,
}

/// A request on the slow path, and what it has tried.
pub(crate) struct Wait<'a, H> {
    engine: &'a LinuxAllocator,
    cx: &'a Cx,
    request: &'a Request,
    /// Who can give frames up and move them; without, nothing can.
    help: Option<&'a H>,
    effort: Effort,
    tried: &'a mut Attempts,
    zeal: Zeal,
    /// Whether it was attempted awake before.
    attempted: bool,
}

/// A block on its way to the caller; it goes back if a helper panics meanwhile.
struct Given<'a> {
    engine: &'a LinuxAllocator,
    cx: &'a Cx,
    pfn: Pfn,
    order: Order,
}

impl Drop for Given<'_> {
    fn drop(&mut self) {
        // It is allocated, so this is not refused.
        let _ = self.engine.free_checked::<()>(self.cx, self.pfn, self.order, To::Hot);
    }
}

impl<'a, H: Helpers> Wait<'a, H> {
    pub(crate) fn new(
        engine: &'a LinuxAllocator,
        cx: &'a Cx,
        request: &'a Request,
        help: Option<&'a H>,
        effort: Effort,
        tried: &'a mut Attempts,
    ) -> Wait<'a, H> {
        Wait { engine, cx, request, help, effort, tried, zeal: Zeal::SyncLight, attempted: false }
    }

    /// Changes how it tries from now on.
    pub(crate) fn set_effort(&mut self, effort: Effort) {
        self.effort = effort;
    }

    /// Reclaims, compacts and retries for a request that may wait, before it fails.
    ///
    /// # Linux
    /// `__alloc_pages_slowpath`, from its first direct reclaim on.
    pub(crate) fn wait(&mut self) -> Option<Pfn> {
        match self.engine.config.retries {
            Retries::Progress => self.by_progress(),
            Retries::Bounded => self.bounded(),
        }
    }

    /// Whether the request can compact at all.
    fn can_compact(&self) -> bool {
        self.help.is_some() && self.engine.config.compaction.enabled
    }

    fn zones(&self) -> impl Iterator<Item = &Zone> + Clone {
        self.engine.zones_for(self.cx, self.request, self.reach_or(Reach::Named))
    }

    /// A request that takes from any node is helped on any: its node mask and cpuset are dropped for good.
    fn reach_or(&self, bounded: Reach) -> Reach {
        if self.effort.reach == Reach::Any { Reach::Any } else { bounded }
    }

    /// The zones of which it is asked whether reclaim could help, and in which is compacted.
    ///
    /// # Linux
    /// `should_reclaim_retry`, `try_to_compact_pages`: 6.12 heeds the cpuset, 6.1 did not.
    fn zones_that_help(&self) -> impl Iterator<Item = &Zone> + Clone {
        let reach = if self.engine.config.cpuset_bounds_help { Reach::Asked } else { Reach::Named };
        self.engine.zones_for(self.cx, self.request, self.reach_or(reach))
    }

    pub(crate) fn attempt(&self) -> Option<Pfn> {
        self.engine.try_zones(self.cx, self.request, self.effort)
    }

    /// Tries once more, and sees to it that the background reclaimers are awake.
    ///
    /// # Linux
    /// `__alloc_pages_slowpath`, from `retry` on.
    pub(crate) fn attempt_awake(&mut self) -> Option<Pfn> {
        // Until 6.18 it drops its node mask only behind this, for the next time.
        let masked = self.engine.config.first_compaction == FirstCompaction::Apart && !self.attempted;
        self.attempted = true;
        if self.effort.wake != Wake::No {
            self.engine.wake_all(
                self.cx,
                self.request,
                if masked { Reach::Asked } else { self.effort.reach },
            );
        }
        self.attempt()
    }

    /// Takes from pageblocks of other types, as the last resort of a request that cannot reclaim under `defrag_mode`
    /// and wakes the background reclaimer. A request that does not wake it has a fallback of its own, and fails
    /// instead.
    ///
    /// # Linux
    /// "mm/page_alloc: fix defrag_mode for non-reclaimable allocations" (D. Ilvokhin, May 2026).
    pub(crate) fn mix_types(&mut self) -> Option<Pfn> {
        let mixes = self.engine.config.defrag_falls_back && self.effort.wake != Wake::No;
        (mixes && std::mem::replace(&mut self.effort.nofragment, false))
            .then(|| self.attempt_awake())
            .flatten()
    }

    fn is_costly(&self) -> bool {
        self.request.order > COSTLY
    }

    /// 4.6: an asynchronous compaction, reclaim as long as it makes progress, a last synchronous compaction.
    fn by_progress(&mut self) -> Option<Pfn> {
        let flags = self.request.flags;
        let mut mode = Mode::Async;
        let mut gained = 0;
        loop {
            if let Some(pfn) = self.compact(mode, false) {
                return Some(pfn);
            }
            mode = Mode::SyncLight;
            let (progress, got) = self.reclaim();
            if got.is_some() {
                return got;
            }
            if flags.contains(RequestFlags::NORETRY) {
                break;
            }
            gained += progress;
            let patient =
                flags.contains(RequestFlags::RETRY_MAYFAIL) && gained < self.request.order.frames().0;
            if progress == 0 || (self.is_costly() && !patient) {
                break;
            }
            if let Some(pfn) = self.attempt_awake() {
                return Some(pfn);
            }
        }
        self.compact(Mode::SyncLight, false)
    }

    /// 4.7 and later: costly requests, and blocks that will not move, compact before they reclaim. Returns what the
    /// request gets, if that is decided.
    ///
    /// # Linux
    /// `__alloc_pages_slowpath`, its first direct compaction.
    pub(crate) fn compact_first(&mut self) -> Option<Option<Pfn>> {
        let flags = self.request.flags;
        if !self.begins_with_compaction() {
            return None;
        }
        if let Some(pfn) = self.compact(Mode::Async, false) {
            return Some(Some(pfn));
        }
        if self.is_costly() && flags.contains(RequestFlags::NORETRY) {
            let useless = matches!(self.tried.outcome, None | Some(Outcome::Skipped | Outcome::Deferred));
            let keeps = flags.contains(RequestFlags::THIS_NODE) && !self.engine.config.this_node_reclaims;
            if useless || keeps {
                return Some(None);
            }
            self.zeal = Zeal::Async;
        }
        None
    }

    /// Whether it compacts before it reclaims.
    fn begins_with_compaction(&self) -> bool {
        let Request { order, migratetype, .. } = *self.request;
        let gains = self.is_costly() || (order > Order::ZERO && migratetype != Migratetype::Movable);
        self.engine.config.retries != Retries::Progress && self.can_compact() && gains
    }

    /// 4.7 and later: what is retried depends on what could still help.
    fn bounded(&mut self) -> Option<Pfn> {
        let (flags, costly) = (self.request.flags, self.is_costly());
        let (mut idle, mut compactions) = (0, 0);
        let in_first_round = self.engine.config.first_compaction == FirstCompaction::FirstRound;
        if in_first_round && self.begins_with_compaction() {
            if let Some(pfn) = self.compact(Mode::Async, false) {
                return Some(pfn);
            }
            if flags.contains(RequestFlags::NORETRY | RequestFlags::THIS_NODE) {
                return None;
            }
            if flags.contains(RequestFlags::NORETRY) {
                self.zeal = Zeal::Async;
            }
            if let Some(pfn) = self.attempt_awake() {
                return Some(pfn);
            }
        }
        loop {
            let (progress, got) = self.reclaim();
            if got.is_some() {
                return got;
            }
            let mode = if self.zeal == Zeal::Async { Mode::Async } else { Mode::SyncLight };
            if let Some(pfn) = self.compact(mode, self.zeal == Zeal::SyncFull) {
                return Some(pfn);
            }
            let patient = flags.contains(RequestFlags::RETRY_MAYFAIL) && self.can_compact();
            if flags.contains(RequestFlags::NORETRY) || (costly && !patient) {
                return None;
            }
            let again = self.should_reclaim(progress, &mut idle)
                || (progress > 0 && self.can_compact() && self.should_compact(&mut compactions));
            // What reclaim and compaction could not prevent: types are mixed after all (`defrag_mode`).
            let anew = self.engine.config.defrag_gives_up && self.is_promoted();
            if !again && !std::mem::replace(&mut self.effort.nofragment, false) {
                return self.last_look();
            }
            if !again && anew {
                (idle, compactions) = (0, 0);
            }
            if let Some(pfn) = self.attempt_awake() {
                return Some(pfn);
            }
        }
    }

    /// Looks once more whether others have freed much meanwhile. There is no task to kill here.
    ///
    /// # Linux
    /// `__alloc_pages_may_oom`, its first attempt.
    fn last_look(&self) -> Option<Pfn> {
        self.engine.try_zones(self.cx, self.request, Effort::plain(Mark::High))
    }

    /// # Linux
    /// `should_reclaim_retry`: would the request fit if everything reclaimable were reclaimed?
    fn should_reclaim(&self, progress: u64, idle: &mut u32) -> bool {
        let in_vain = self.is_costly() || (self.engine.config.defrag_gives_up && self.is_promoted());
        *idle = if progress > 0 && !in_vain { 0 } else { *idle + 1 };
        let may_help = *idle <= MAX_RECLAIM_RETRIES;
        let helps = may_help && self.zones_that_help().any(|z| self.would_fit(z));
        let exhausts = !may_help || self.engine.config.highatomic_before_oom;
        helps || (exhausts && self.zones().any(|z| z.unreserve_highatomic(self.request.migratetype, true)))
    }

    /// Returns the most frames of a zone that reclaim could free.
    ///
    /// # Linux
    /// `zone_reclaimable_pages`.
    fn reclaimable(&self, zone: &Zone) -> u64 {
        match self.help.map_or(0, |help| help.reclaimable(zone.id).0) {
            0 if self.engine.config.reclaimable_counts_free => zone.free.get(),
            frames => frames,
        }
    }

    fn would_fit(&self, z: &Zone) -> bool {
        let Request { order, highest_zone, .. } = *self.request;
        let all = z.free.get().saturating_add(self.reclaimable(z));
        let kept = z.kept_from(order, highest_zone, z.mark(Mark::Min), self.effort, &self.engine.config);
        all > kept && (order == Order::ZERO || z.has_block(order, self.effort))
    }

    /// # Linux
    /// `should_compact_retry`.
    fn should_compact(&mut self, compactions: &mut u32) -> bool {
        let Request { order, highest_zone, .. } = *self.request;
        let by_work = self.engine.config.defrag_gives_up;
        if (if by_work { self.order_to_make() } else { order }) == Order::ZERO {
            return false;
        }
        let outcome = self.tried.outcome;
        if outcome == Some(Outcome::Skipped) && by_work && self.is_promoted() {
            return false;
        }
        if outcome == Some(Outcome::Skipped) {
            // Too little is free to move things to. Would it be enough if everything were reclaimed?
            return self.zones().any(|z| {
                let all = z.free.get() + self.reclaimable(z) / u64::from(order.get());
                let marks = Watermarks {
                    min: Frames(z.mark(Mark::Min)),
                    low: Frames(z.mark(Mark::Low)),
                    ..z.marks.get()
                };
                let config = &self.engine.config;
                let room = room_to_begin(&config.compaction, &marks, order).0;
                all > match config.compaction.marks {
                    Marks::Low => room,
                    // What is kept back from the request counts, too.
                    Marks::Min => {
                        let effort = Effort::plain(Mark::Min).of_type(Migratetype::Movable);
                        z.kept_from(Order::ZERO, highest_zone, room, effort, config)
                    }
                }
            });
        }
        if outcome == Some(Outcome::Success) {
            *compactions += 1;
            let most = MAX_COMPACT_RETRIES / if self.is_costly() { 4 } else { 1 };
            if *compactions <= most {
                return true;
            }
        }
        let hardest = if self.is_costly() { Zeal::SyncLight } else { Zeal::SyncFull };
        if self.zeal >= hardest {
            return false;
        }
        self.zeal = if self.zeal == Zeal::Async { Zeal::SyncLight } else { Zeal::SyncFull };
        *compactions = 0;
        true
    }

    /// Returns the order of the block that reclaim and compaction make for the request.
    ///
    /// # Linux
    /// "mm: fix reclaim storms in defrag_mode" (J. Weiner, June 2026): reclaim frees space in movable pageblocks, which
    /// helps what cannot be moved only once a whole one can be converted.
    fn order_to_make(&self) -> Order {
        let Request { order, migratetype, .. } = *self.request;
        let promotes = self.engine.config.defrag_promotes && self.effort.nofragment;
        if promotes && migratetype != Migratetype::Movable { order.max(PAGEBLOCK_ORDER) } else { order }
    }

    /// Whether reclaim and compaction make a larger block than it asks for.
    ///
    /// # Linux
    /// `order_defrag_promoted`.
    fn is_promoted(&self) -> bool {
        self.order_to_make() != self.request.order
    }

    /// # Linux
    /// `__alloc_pages_direct_compact`.
    fn compact(&mut self, mode: Mode, thorough: bool) -> Option<Pfn> {
        let engine = self.engine;
        let order = self.order_to_make();
        let help = self.help.filter(|_| order > Order::ZERO && engine.config.compaction.enabled)?;
        let zones = self.zones_that_help().map(|z| z.id);
        let Request { migratetype, highest_zone: highest, flags, .. } = *self.request;
        let plan = Plan {
            zone: ZoneId::default(),
            goal: Goal::Block(order, migratetype),
            mode,
            request: Some(self.request.order),
            by: CompactorId(self.cx.cpu.0 as u16),
            highest,
            flags,
            ignore_hints: false,
            thorough,
        };
        let tried = compact_for_request(engine, help, self.cx, plan, zones);
        self.tried.compactions += 1;
        self.tried.deferred += tried.deferred;
        self.tried.work += tried.work;
        self.tried.outcome = tried.outcome;
        let again = engine.config.compaction.attempt_deferred && tried.outcome == Some(Outcome::Deferred);
        if !again && matches!(tried.outcome, None | Some(Outcome::Skipped | Outcome::Deferred)) {
            return None;
        }
        engine.counts.pressure.add(Counter::CompactStall, 1);
        let got = tried.captured.or_else(|| self.attempt());
        if let Some(pfn) = got
            && let Some(zone) = engine.zone_of(pfn)
        {
            let given = Given { engine, cx: self.cx, pfn, order: self.request.order };
            help.step(Step::Helped(zone.span.start, order));
            std::mem::forget(given);
            zone.compaction.succeeded(order, mode, engine.config.compaction.deferral, true);
            engine.counts.pressure.add(Counter::CompactSuccess, 1);
        } else {
            engine.counts.pressure.add(Counter::CompactFail, 1);
        }
        got
    }

    /// Reclaims, and tries again; returns by how many frames the zones' free memory grew.
    ///
    /// # Linux
    /// `__alloc_pages_direct_reclaim`.
    fn reclaim(&mut self) -> (u64, Option<Pfn>) {
        if self.help.is_none() {
            return (0, None);
        }
        self.engine.counts.pressure.add(Counter::Allocstall, 1);
        self.tried.reclaims += 1;
        if self.tried.reclaims >= MAX_RECLAIMS {
            return (0, None);
        }
        let progress = self.shrink();
        if progress == 0 {
            return (0, None);
        }
        let got = self.attempt().or_else(|| {
            // What was freed may lie in lists, and in the reserve.
            self.zones().any(|z| z.unreserve_highatomic(self.request.migratetype, false));
            self.engine.drain(CpuSet::All);
            self.attempt()
        });
        (progress, got)
    }

    /// # Linux
    /// `do_try_to_free_pages`: harder and harder until enough is free.
    fn shrink(&mut self) -> u64 {
        let Some(help) = self.help else { return 0 };
        // Those of its cpuset now, which may change meanwhile, even where its node mask was dropped.
        let mut request = *self.request;
        if self.effort.reach == Reach::Any {
            request.nodes = NodeMask::ALL;
        }
        let zones: Vec<&Zone> = self.engine.zones_for(self.cx, &request, Reach::Walled).collect();
        let available = || zones.iter().map(|z| z.available()).sum::<u64>();
        let order = self.order_to_make();
        let gap = self.engine.config.compaction.gap_for(order);
        let want = CLUSTER.max(if order > Order::ZERO { gap } else { 0 });
        let (mut gained, mut ready) = (0, false);
        let by_node = self.engine.config.reclaimer == Reclaimer::ByNode;
        for priority in (0..=Priority::START.0).rev().map(Priority) {
            let mut last = None;
            for z in &zones {
                // Compaction has what it needs here: reclaiming more would only evict useful pages.
                let room = z.mark(Mark::High) + gap;
                if order > COSTLY && self.can_compact() && z.free.get() > room {
                    ready = true;
                    continue;
                }
                if priority != Priority::START && self.engine.is_unreclaimable(help, z) {
                    continue;
                }
                // What is reclaimed from together has one turn.
                if by_node && last.replace(z.span.node) == Some(z.span.node) {
                    continue;
                }
                let together = self.engine.together(z, self.request.highest_zone).map(|z| z.id).collect();
                let want_now = Frames(want - gained);
                let ask = Shortage { zones: together, want: want_now, order, priority, background: false };
                let before = available();
                let said = self.engine.ask(self.cx, help, z, &ask);
                let grew = available().saturating_sub(before);
                self.tried.reclaimed.scanned += said.scanned;
                self.tried.reclaimed.freed += said.freed;
                self.tried.gained += Frames(grew);
                gained += grew;
                if gained >= want {
                    return gained;
                }
            }
            if ready {
                break;
            }
        }
        gained.max(u64::from(ready))
    }
}
