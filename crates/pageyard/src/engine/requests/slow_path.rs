//! The slow path of requests that may wait, reclaim and compaction, and the background work.
//!
//! Compaction comes first, because it is cheap here: blocks are chosen, not searched for. Three more differences from
//! Linux's order, which the slow-path suite records: lists are drained and the atomic reserve released before any
//! reclaim; a costly request with `NORETRY` compacts once and reclaims nothing; one without retries reclaims a second
//! time for the last compaction.

use crate::engine::map::tree::SearchEffort;
use crate::engine::pcp::percpu::PerCpu;
use crate::engine::yard::Pageyard;
use crate::engine::zone::Zone;
use crate::engine::zone::marks::Mark;
use pageyard_core::allocator::Cx;
use pageyard_core::clear::Clear;
use pageyard_core::compaction::{Mode, Outcome, Work};
use pageyard_core::error::BadRequest;
use pageyard_core::observer::Observer;
use pageyard_core::reclaim::{
    Attempts, Failure, Helpers, PressureAllocator, Priority, Reclaimed, Shortage, ZoneMask,
};
use pageyard_core::request::{Request, RequestFlags};
use pageyard_core::stats::Counter;
use pageyard_core::units::{CpuId, Frames, Order, Pfn, ZoneId};
use pageyard_sync::Relaxed;

/// Orders above this one are costly: they are not worth endless reclaim. `PAGE_ALLOC_COSTLY_ORDER`.
const COSTLY: Order = Order::of(3);
/// Frames that one reclaim aims at. `SWAP_CLUSTER_MAX`.
const CLUSTER: u64 = 32;
/// Rounds without progress before a request fails. `MAX_RECLAIM_RETRIES`.
const MAX_IDLE: u32 = 16;
/// Rounds before a request fails, whatever reclaim achieves.
const MAX_ROUNDS: u32 = 1024;

impl<P: PerCpu, O: Observer, C: Clear> Pageyard<'_, P, O, C> {
    fn wait_for<H: Helpers>(
        &self,
        cx: &Cx,
        request: &Request,
        help: &H,
        tried: &mut Attempts,
    ) -> Option<Pfn> {
        let (flags, order) = (request.flags, request.order);
        let (costly, patient) = (order > COSTLY, flags.contains(RequestFlags::RETRY_MAYFAIL));
        let mut mode = Mode::Async;
        let mut idle = 0;
        for _ in 0..MAX_ROUNDS {
            if let Some(pfn) = self.compact(cx, request, help, mode, tried) {
                return Some(pfn);
            }
            if flags.contains(RequestFlags::NORETRY) && costly && mode == Mode::Async {
                return None;
            }
            let gained = self.reclaim(cx, request, help, tried);
            if gained > 0
                && let Some(pfn) = self.again(cx, request)
            {
                return Some(pfn);
            }
            let harder = mode == Mode::Async && order > Order::ZERO;
            mode = Mode::SyncLight;
            idle = if gained > 0 && (!costly || patient) { 0 } else { idle + 1 };
            let enough = if costly && !patient { 2 } else { MAX_IDLE };
            if flags.contains(RequestFlags::NORETRY) || idle >= enough || (gained == 0 && !harder) {
                break;
            }
        }
        self.compact(cx, request, help, Mode::SyncLight, tried)
    }

    /// Tries the zones again, then drains lists and the atomic reserve and retries.
    fn again(&self, cx: &Cx, request: &Request) -> Option<Pfn> {
        let effort = &mut SearchEffort::default();
        let pfn = self.try_zones(cx, request, Mark::Min, effort);
        pfn.or_else(|| self.try_relieved(cx, request, Mark::Min, effort))
    }

    fn compact<H: Helpers>(
        &self,
        cx: &Cx,
        request: &Request,
        help: &H,
        mode: Mode,
        tried: &mut Attempts,
    ) -> Option<Pfn> {
        if request.order == Order::ZERO || !self.config.compaction {
            return None;
        }
        let did = self.compact_for_request(cx, request, help, mode);
        tried.compactions += 1;
        tried.deferred += did.deferred;
        tried.work += did.work;
        tried.outcome = did.outcome;
        if matches!(did.outcome, None | Some(Outcome::Skipped | Outcome::Deferred)) {
            return None;
        }
        self.count(cx.cpu, Counter::CompactStall, 1);
        let got = did.captured.or_else(|| self.again(cx, request));
        let counter = if got.is_some() { Counter::CompactSuccess } else { Counter::CompactFail };
        self.count(cx.cpu, counter, 1);
        if let Some((zone, _)) = got.and_then(|pfn| self.zone_of(pfn)) {
            zone.compaction.succeeded(request.order, mode, true);
        }
        got
    }

    /// Reclaims with increasing effort; returns by how many frames the zones' free memory grew.
    fn reclaim<H: Helpers>(&self, cx: &Cx, request: &Request, help: &H, tried: &mut Attempts) -> u64 {
        self.count(cx.cpu, Counter::Allocstall, 1);
        tried.reclaims += 1;
        let order = request.order;
        let want = CLUSTER.max(if order > Order::ZERO { 2 * order.frames().0 } else { 0 });
        let mut gained = 0;
        for priority in (0..=Priority::START.0).rev().map(Priority) {
            for zone in self.walk(cx.cpu, request) {
                // Compaction has what it needs here: reclaiming more would only throw things out.
                let room = zone.online.high().0 + 2 * order.frames().0;
                if order > COSTLY && self.config.compaction && zone.pageblocks.free() > room {
                    continue;
                }
                let (id, rest) = (zone.pageblocks.id, Frames(want - gained));
                let ask =
                    Shortage { zones: ZoneMask::only(id), want: rest, order, priority, background: false };
                let (said, grew) = self.ask(cx, help, zone, &ask);
                tried.reclaimed += said;
                tried.gained += Frames(grew);
                gained += grew;
                if gained >= want {
                    return gained;
                }
            }
        }
        gained
    }

    /// Asks for reclaim in a zone; returns its report, and by how much the zone's free memory grew meanwhile.
    fn ask<H: Helpers>(&self, cx: &Cx, help: &H, zone: &Zone<'_>, ask: &Shortage) -> (Reclaimed, u64) {
        let cpus = 0..self.config.cpus;
        let free = || {
            zone.pageblocks.free()
                + cpus.clone().map(|c| crate::engine::report::cached(zone, CpuId(c))).sum::<u64>()
        };
        let before = free();
        let said = help.reclaim(cx, ask);
        let grew = free().saturating_sub(before);
        let (scanned, freed) = match ask.background {
            true => (Counter::PgscanKswapd, Counter::PgstealKswapd),
            false => (Counter::PgscanDirect, Counter::PgstealDirect),
        };
        self.count(cx.cpu, scanned, said.scanned.0);
        self.count(cx.cpu, freed, said.freed.0);
        (said, grew)
    }

    /// Balances one zone in the background reclaimer's run.
    fn balance<H: Helpers>(&self, cx: &Cx, help: &H, zone: &Zone<'_>, order: Order) -> Reclaimed {
        // ORDER: Relaxed: a boost orders nothing.
        let boost = zone.pageblocks.boost().load(Relaxed);
        let gap = if order > Order::ZERO { 2 * order.frames().0 } else { 0 };
        let target = zone.online.high().0 + boost + gap;
        let mut sum = Reclaimed::default();
        let mut priority = Priority::START;
        while priority > Priority::HARDEST {
            // Read once: others free frames meanwhile, and what is wanted must not become less than nothing.
            let free = zone.pageblocks.free();
            if free > target {
                break;
            }
            let want = Frames((target + 1 - free).max(CLUSTER));
            let zones = ZoneMask::only(zone.pageblocks.id);
            let ask = Shortage { zones, want, order, priority, background: true };
            let (said, _) = self.ask(cx, help, zone, &ask);
            sum += said;
            priority.0 -= 1;
        }
        self.reclaimed(zone.pageblocks.id);
        if order > Order::ZERO {
            zone.compaction.wake.wake(order);
        }
        if zone.compaction.take_doubts() {
            zone.pageblocks.forget_stuck();
        }
        sum
    }
}

impl<P: PerCpu, O: Observer, C: Clear> PressureAllocator for Pageyard<'_, P, O, C> {
    #[inline]
    fn alloc_with<H: Helpers>(&self, cx: &Cx, request: &Request, helpers: &H) -> Result<Pfn, Failure> {
        let mut tried = Attempts::default();
        if O::ACTIVE && self.observer.refuses(request) {
            return Err(Failure { why: self.refused(cx), tried });
        }
        if let Some(pfn) = self.alloc_hit(cx, request) {
            return Ok(pfn);
        }
        let got = self.alloc_miss(cx, request, || self.wait_for(cx, request, helpers, &mut tried));
        got.map_err(|why| Failure { why, tried })
    }

    fn kswapd_with<H: Helpers>(&self, cx: &Cx, helpers: &H) -> Result<Reclaimed, BadRequest> {
        self.check_cpu(cx)?;
        let mut sum = Reclaimed::default();
        for zone in self.zones {
            if let Some(order) = zone.reclaim_wake.take() {
                sum += self.balance(cx, helpers, zone, order);
            }
        }
        Ok(sum)
    }

    fn kcompactd_with<H: Helpers>(&self, cx: &Cx, helpers: &H) -> Result<Work, BadRequest> {
        self.check_cpu(cx)?;
        let mut work = Work::default();
        for zone in self.zones {
            work += self.compact_in_background(cx, zone, helpers);
        }
        Ok(work)
    }

    fn compact_zone_with<H: Helpers>(
        &self,
        cx: &Cx,
        zone: ZoneId,
        helpers: &H,
    ) -> Result<(Outcome, Work), BadRequest> {
        self.check_cpu(cx)?;
        let zone = self.zones.get(zone.index()).ok_or(BadRequest::NoZone)?;
        Ok(self.compact_everything(cx, zone, helpers))
    }
}
