//! What a request that waits does: reclaim, compaction and retries, in Linux's order. Layer: requests, above `reclaim`.

use crate::allocator::LinuxAllocator;
use crate::config::Retries;
use crate::effort::{Effort, Mark};
use crate::reclaim::CLUSTER;
use crate::zone::Zone;
use pageyard_core::compaction::{Mode, Outcome, compact_for_request};
use pageyard_core::reclaim::{Attempts, Helpers, Priority, Shortage};
use pageyard_core::{Counter, CpuSet, Cx, Frames, Migratetype, Order, Pfn, Request, RequestFlags};

/// Orders above this one are costly: they are not worth endless reclaim. `PAGE_ALLOC_COSTLY_ORDER`.
const COSTLY: Order = Order::of(3);
/// Rounds without progress before reclaim is given up. `MAX_RECLAIM_RETRIES`.
const MAX_RECLAIM_RETRIES: u32 = 16;
/// Successful compactions that did not serve the request, before it gives up. `MAX_COMPACT_RETRIES`.
const MAX_COMPACT_RETRIES: u32 = 16;

/// Rounds of reclaim and compaction after which a request gives up, whatever progress reclaim reports: a helper that
/// frees frames and takes them again would keep it going forever. Linux has no such limit.
const MAX_ROUNDS: u32 = 1024;

/// How hard compaction tries for a request.
///
/// # Linux
/// `enum compact_priority`, the hardest last.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Zeal {
    Async,
    SyncLight,
    /// Every pageblock, whatever was deferred.
    SyncFull,
}

/// A request that waits.
struct Wait<'a, H> {
    engine: &'a LinuxAllocator,
    cx: &'a Cx,
    request: &'a Request,
    help: &'a H,
    effort: Effort,
    tried: &'a mut Attempts,
}

impl LinuxAllocator {
    /// What a request that may wait does before it fails.
    ///
    /// # Linux
    /// `__alloc_pages_slowpath`, from its first direct compaction on.
    pub(crate) fn wait_for<H: Helpers>(
        &self,
        cx: &Cx,
        request: &Request,
        help: &H,
        effort: Effort,
        tried: &mut Attempts,
    ) -> Option<Pfn> {
        let mut wait = Wait { engine: self, cx, request, help, effort, tried };
        match self.config.retries {
            Retries::Progress => wait.by_progress(),
            Retries::Bounded => wait.bounded(),
        }
    }
}

impl<H: Helpers> Wait<'_, H> {
    fn zones(&self) -> impl Iterator<Item = &Zone> + Clone {
        self.engine.zones_for(self.cx, self.request)
    }

    fn attempt(&self) -> Option<Pfn> {
        self.engine.try_zones(self.cx, self.request, self.effort)
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
            if progress == 0 || (self.is_costly() && !patient) || self.tried.reclaims >= MAX_ROUNDS {
                break;
            }
            if let Some(pfn) = self.attempt() {
                return Some(pfn);
            }
        }
        self.compact(Mode::SyncLight, false)
    }

    /// 4.7 and later: what is retried depends on what could still help.
    fn bounded(&mut self) -> Option<Pfn> {
        let (flags, costly, order) = (self.request.flags, self.is_costly(), self.request.order);
        let mut zeal = Zeal::SyncLight;
        if costly || (order > Order::ZERO && self.request.migratetype != Migratetype::Movable) {
            if let Some(pfn) = self.compact(Mode::Async, false) {
                return Some(pfn);
            }
            if costly && flags.contains(RequestFlags::NORETRY) {
                if matches!(self.tried.outcome, None | Some(Outcome::Skipped | Outcome::Deferred)) {
                    return None;
                }
                zeal = Zeal::Async;
            }
        }
        let (mut idle, mut compactions) = (0, 0);
        loop {
            let (progress, got) = self.reclaim();
            if got.is_some() {
                return got;
            }
            let mode = if zeal == Zeal::Async { Mode::Async } else { Mode::SyncLight };
            if let Some(pfn) = self.compact(mode, zeal == Zeal::SyncFull) {
                return Some(pfn);
            }
            let gives_up = flags.contains(RequestFlags::NORETRY)
                || (costly && !flags.contains(RequestFlags::RETRY_MAYFAIL));
            if gives_up {
                return None;
            }
            let again = self.should_reclaim(progress, &mut idle)
                || (progress > 0 && self.should_compact(&mut zeal, &mut compactions));
            if !again || self.tried.reclaims >= MAX_ROUNDS {
                return None;
            }
            if let Some(pfn) = self.attempt() {
                return Some(pfn);
            }
        }
    }

    /// # Linux
    /// `should_reclaim_retry`: would the request fit if everything reclaimable were reclaimed?
    fn should_reclaim(&self, progress: u64, idle: &mut u32) -> bool {
        *idle = if progress > 0 && !self.is_costly() { 0 } else { *idle + 1 };
        if *idle > MAX_RECLAIM_RETRIES {
            return self.zones().any(|z| z.unreserve_highatomic(self.request.migratetype, true));
        }
        self.zones().any(|z| self.would_fit(z))
    }

    fn would_fit(&self, z: &Zone) -> bool {
        let Request { order, highest_zone, .. } = *self.request;
        let all = z.free.get().saturating_add(self.help.reclaimable(z.id).0);
        let kept = z.kept_from(order, highest_zone, z.mark(Mark::Min), self.effort, &self.engine.config);
        all > kept && (order == Order::ZERO || z.has_block(order, self.effort))
    }

    /// # Linux
    /// `should_compact_retry`.
    fn should_compact(&self, zeal: &mut Zeal, compactions: &mut u32) -> bool {
        let Request { order, .. } = *self.request;
        if order == Order::ZERO || !self.engine.config.compaction.enabled {
            return false;
        }
        let outcome = self.tried.outcome;
        if outcome == Some(Outcome::Skipped) {
            // Too little is free to move things to. Would it be enough if everything were reclaimed?
            return self.zones().any(|z| {
                let all = z.free.get() + self.help.reclaimable(z.id).0 / u64::from(order.get());
                all > z.mark(Mark::Low) + 2 * order.frames().0
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
        if *zeal >= hardest {
            return false;
        }
        *zeal = if *zeal == Zeal::Async { Zeal::SyncLight } else { Zeal::SyncFull };
        *compactions = 0;
        true
    }

    /// # Linux
    /// `__alloc_pages_direct_compact`.
    fn compact(&mut self, mode: Mode, thorough: bool) -> Option<Pfn> {
        let engine = self.engine;
        let order = self.request.order;
        if order == Order::ZERO || !engine.config.compaction.enabled {
            return None;
        }
        let zones = self.zones().map(|z| z.id);
        let tried = compact_for_request(engine, self.help, self.cx, self.request, zones, mode, thorough);
        self.tried.compactions += 1;
        self.tried.deferred += tried.deferred;
        self.tried.work += tried.work;
        self.tried.outcome = tried.outcome;
        if matches!(tried.outcome, None | Some(Outcome::Skipped | Outcome::Deferred)) {
            return None;
        }
        engine.counts.pressure.add(Counter::CompactStall, 1);
        let got = tried.captured.or_else(|| self.attempt());
        if let Some(zone) = got.and_then(|pfn| engine.zone_of(pfn)) {
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
        self.engine.counts.pressure.add(Counter::Allocstall, 1);
        self.tried.reclaims += 1;
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
        let order = self.request.order;
        let want = CLUSTER.max(if order > Order::ZERO { 2 * order.frames().0 } else { 0 });
        let (mut gained, mut ready) = (0, false);
        for priority in (0..=Priority::START.0).rev().map(Priority) {
            for i in 0..self.zones().count() {
                let Some(z) = self.zones().nth(i) else { break };
                // Compaction has what it needs here: reclaiming more would only evict useful pages.
                let room = z.mark(Mark::High) + 2 * order.frames().0;
                if self.is_costly() && self.engine.config.compaction.enabled && z.free.get() > room {
                    ready = true;
                    continue;
                }
                let ask =
                    Shortage { zone: z.id, want: Frames(want - gained), order, priority, background: false };
                let (said, grew) = self.engine.ask(self.cx, self.help, z, &ask);
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
