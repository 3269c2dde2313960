//! The slow path: what is tried when no zone is above its low watermark, and why it did not help. Layer: requests,
//! above `waiting`.

use crate::allocator::LinuxAllocator;
use crate::config::FirstCompaction;
use crate::effort::{ATOMIC, Effort, Mark, Reach, Wake, own_privileges};
use crate::events::Counts;
use crate::waiting::Wait;
use crate::zone::Zone;
use crate::zonelist::Inlined;
use pageyard_core::reason::{ZoneRoom, reason};
use pageyard_core::reclaim::{Attempts, Failure, Helpers};
use pageyard_core::{
    AllocError, BadRequest, Cx, Frames, Migratetype, NodeMask, Order, Pfn, Request, RequestFlags,
};

/// The events that a request was already counted for: however often it tries, each counts once.
#[derive(Default)]
pub(crate) struct Counted {
    /// As one that came to the slow path.
    slow: bool,
    /// As one that woke the background reclaimer.
    woken: bool,
}

impl Counted {
    /// Returns the request's relation to the background reclaimer by now.
    fn wake(&self, request: &Request) -> Wake {
        match Wake::of(request) {
            Wake::Counts if self.woken => Wake::Counted,
            wake => wake,
        }
    }
}

impl LinuxAllocator {
    /// Serves a request when no zone is above its low watermark or, with `missed`, none can serve it. A request that
    /// fails while cpusets change is retried; `changes` is the count of changes before the first attempt. One that
    /// asked only for nodes outside its cpuset is retried without them.
    ///
    /// # Linux
    /// `__alloc_pages_slowpath`: the background reclaimer is woken, reserves open to those entitled to them, and a
    /// request that may wait reclaims and compacts. The retry is `check_retry_cpuset`.
    #[cold]
    pub(crate) fn slow_path<H: Helpers>(
        &self,
        cx: &Cx,
        request: &Request,
        help: Option<&H>,
        mut missed: Option<BadRequest>,
        mut changes: u64,
        counted: &mut Counted,
    ) -> Result<Pfn, Failure> {
        let mut request = *request;
        loop {
            let none = self.zones_for(cx, &request, Reach::Asked).next().is_none();
            let failure = match missed.filter(|_| none) {
                Some(why) => Failure { why: why.into(), tried: Attempts::default() },
                None => match self.try_slowly(cx, &request, help, counted) {
                    Ok(pfn) => return Ok(pfn),
                    Err(failure) => failure,
                },
            };
            let now = self.zonelists.cpusets.changes();
            if self.zonelists.cpusets.rules_out(cx, &request) {
                request.nodes = NodeMask::ALL;
            } else if now == changes {
                return Err(failure);
            }
            changes = now;
            Counts::add(&self.counts.retries);
            missed = match self.first_attempt::<Inlined>(cx, &request, counted.wake(&request)) {
                Ok(Some(pfn)) => return Ok(pfn),
                Ok(None) => None,
                Err(why) => Some(why),
            };
        }
    }

    fn try_slowly<H: Helpers>(
        &self,
        cx: &Cx,
        request: &Request,
        help: Option<&H>,
        counted: &mut Counted,
    ) -> Result<Pfn, Failure> {
        if !std::mem::replace(&mut counted.slow, true) {
            Counts::add(&self.counts.slow);
        }
        let wake = counted.wake(request);
        if wake == Wake::Counts {
            counted.woken = true;
            Counts::add(&self.counts.wakes);
        }
        if wake != Wake::No {
            self.wake_all(cx, request, Reach::Asked);
        }
        let mut tried = Attempts::default();
        // Entitled to more than the flags of the request say: that comes later.
        let effort = Effort {
            mark: Mark::Min,
            reserves: own_privileges(request.flags),
            nofragment: self.config.defrag_mode,
            wake: counted.wake(request),
            reach: Reach::Asked,
            lent: request.migratetype == Migratetype::Movable,
            trylock: false,
        };
        let entitled = entitled(request, effort, self.config.privileged_take_any_node);
        self.try_zones(cx, request, effort)
            .or_else(|| self.boost_for_atomic(cx, request))
            .or_else(|| self.try_harder(cx, request, help, effort, entitled, &mut tried))
            .or_else(|| self.nofail(cx, request, effort))
            .ok_or_else(|| Failure { why: self.reason(cx, request, entitled), tried })
    }

    /// Raises the boost of every zone that an atomic request for a single frame may use, so that later ones find more,
    /// and lets the background reclaimer begin on what was raised. Returns nothing: the request gains nothing by it.
    ///
    /// # Linux
    /// `boost_zones_for_atomic`, which Q. Yuan posted in February 2026 (v10).
    fn boost_for_atomic(&self, cx: &Cx, request: &Request) -> Option<Pfn> {
        let atomic = ATOMIC | RequestFlags::WAKE_RECLAIM;
        if self.config.boost_atomic && request.order == Order::ZERO && request.flags.contains(atomic) {
            let zones = self.zones_for(cx, request, Reach::Named);
            for zone in zones.filter(|zone| zone.boost_for_atomic()) {
                // The request has woken it already, but it may have gone to sleep since.
                self.wake_reclaimer(zone, request.highest_zone, Order::ZERO);
            }
        }
        None
    }

    /// Tries further after the first attempt with the request's own privileges: compaction, every reserve it is
    /// entitled to, and then reclaim and compaction in turns.
    fn try_harder<H: Helpers>(
        &self,
        cx: &Cx,
        request: &Request,
        help: Option<&H>,
        effort: Effort,
        entitled: Effort,
        tried: &mut Attempts,
    ) -> Option<Pfn> {
        let mut wait = Wait::new(self, cx, request, help, effort, tried);
        let reclaiming = request.flags.contains(RequestFlags::MEMALLOC);
        let waits = !request.flags.contains(RequestFlags::NON_BLOCKING);
        let apart = self.config.first_compaction == FirstCompaction::Apart;
        if apart
            && waits
            && !has_all_reserves(request.flags)
            && let Some(decided) = wait.compact_first()
        {
            return decided;
        }
        // Since 7.0 what has failed is tried again only with more privileges.
        let again = apart || has_all_reserves(request.flags) || entitled.reach == Reach::Any;
        wait.set_effort(entitled);
        again.then(|| wait.attempt_awake()).flatten().or_else(|| match waits {
            // Reclaim's own requests do not reclaim.
            true => (!reclaiming).then(|| wait.wait()).flatten(),
            false => wait.mix_types(),
        })
    }

    /// The last attempt of a request that must not fail: it may take a part of the least watermark's reserve. Linux
    /// goes on trying for ever; this engine says that it could not.
    fn nofail(&self, cx: &Cx, request: &Request, effort: Effort) -> Option<Pfn> {
        let flags = request.flags;
        if !flags.contains(RequestFlags::NOFAIL) || flags.contains(RequestFlags::NON_BLOCKING) {
            return None;
        }
        let most = Effort {
            mark: Mark::Min,
            reserves: RequestFlags::HIGH,
            nofragment: false,
            wake: Wake::No,
            ..effort
        };
        self.try_zones(cx, request, most)
    }

    /// Says why a request could not be served, from the zones' current state.
    pub(crate) fn reason(&self, cx: &Cx, request: &Request, effort: Effort) -> AllocError {
        let (order, highest) = (request.order, request.highest_zone);
        let kept = |z: &Zone| match effort.mark {
            Mark::None => 0,
            // What it says is compared with the frames that are left when all but the last of the block are taken.
            _ => z
                .kept_from(order, highest, z.mark(effort.mark), effort, &self.config)
                .saturating_sub(order.frames().0 - 1),
        };
        let room = |z: &Zone| ZoneRoom { free: Frames(z.free.get()), kept: Frames(kept(z)) };
        reason(order, self.zones_for(cx, request, Reach::Asked).map(room))
    }
}

/// Returns whether a request is entitled to more of the reserves than its other flags say.
///
/// # Linux
/// `gfp_pfmemalloc_allowed`.
fn has_all_reserves(flags: RequestFlags) -> bool {
    flags.intersects(RequestFlags::MEMALLOC | RequestFlags::OOM_VICTIM)
        && !flags.contains(RequestFlags::NO_RESERVE)
}

/// Returns how a request tries once it uses all that it is entitled to.
///
/// # Linux
/// `__gfp_pfmemalloc_flags`: those that reclaim ignore the watermarks, and those that are being killed take half; their
/// other privileges do not count then. They, and high-priority requests that cannot wait, take from any node.
fn entitled(request: &Request, effort: Effort, any_node: bool) -> Effort {
    let flags = request.flags;
    let any = if any_node { Reach::Any } else { Reach::Asked };
    if has_all_reserves(flags) {
        let (mark, reserves) = match flags.contains(RequestFlags::MEMALLOC) {
            true => (Mark::None, RequestFlags::empty()),
            // What is spared a boost for being atomic still is.
            false if flags.contains(ATOMIC) => {
                (effort.mark, RequestFlags::OOM_VICTIM | RequestFlags::NO_RESERVE)
            }
            false => (effort.mark, RequestFlags::OOM_VICTIM),
        };
        return Effort { mark, reserves, nofragment: false, reach: any, ..effort };
    }
    let urgent = flags.contains(RequestFlags::HIGH | RequestFlags::NON_BLOCKING);
    Effort { reach: if urgent { any } else { Reach::Asked }, ..effort }
}
