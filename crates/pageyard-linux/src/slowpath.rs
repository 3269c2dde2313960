//! The slow path: what is tried when no zone is above its low watermark, and why it did not help. Layer: requests, above
//! `waiting`.

use crate::allocator::LinuxAllocator;
use crate::effort::{Effort, Mark, Wake};
use crate::events::Counts;
use crate::zone::Zone;
use crate::zonelist::Inlined;
use pageyard_core::reason::{ZoneRoom, reason};
use pageyard_core::reclaim::{Attempts, Failure, Helpers};
use pageyard_core::{AllocError, BadRequest, CpuSet, Cx, Frames, Pfn, Request, RequestFlags};

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
    /// What follows when no zone is above its low watermark, or, as `missed` says, none can serve the request. A
    /// request that fails while the allowed nodes change is tried again; `changes` is the count of changes before the
    /// first attempt.
    ///
    /// # Linux
    /// `__alloc_pages_slowpath`: the background reclaimer is woken, and reserves open to those entitled to them. A request that
    /// may wait reclaims and compacts if there is help to do so; in any case it empties the per-CPU lists and gives the
    /// high-atomic reserve back before it fails. The retry is `check_retry_cpuset`.
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
        loop {
            let failure = match missed {
                Some(why) => Failure { why: why.into(), tried: Attempts::default() },
                None => match self.try_slowly(cx, request, help, counted) {
                    Ok(pfn) => return Ok(pfn),
                    Err(failure) => failure,
                },
            };
            let now = self.zonelists.allowed.changes();
            if now == changes {
                return Err(failure);
            }
            changes = now;
            Counts::add(&self.counts.retries);
            missed = match self.first_attempt::<Inlined>(cx, request, counted.wake(request)) {
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
        if wake != Wake::No {
            if wake == Wake::Counts {
                counted.woken = true;
                Counts::add(&self.counts.wakes);
            }
            self.zones_for(cx, request).for_each(|zone| zone.wake_kswapd(request.order));
        }
        let mut tried = Attempts::default();
        let effort = Effort {
            mark: Mark::Min,
            reserves: request.flags,
            nofragment: false,
            wake: counted.wake(request),
        };
        self.try_hard(cx, request, help, effort, &mut tried)
            .ok_or_else(|| Failure { why: self.reason(cx, request, effort), tried })
    }

    fn try_hard<H: Helpers>(
        &self,
        cx: &Cx,
        request: &Request,
        help: Option<&H>,
        effort: Effort,
        tried: &mut Attempts,
    ) -> Option<Pfn> {
        let last = Effort { mark: Mark::None, ..effort };
        let attempt = |effort| self.try_zones(cx, request, effort);
        let memalloc = request.flags.contains(RequestFlags::MEMALLOC);
        let waits = !request.flags.contains(RequestFlags::NON_BLOCKING);
        attempt(effort)
            .or_else(|| memalloc.then(|| attempt(last)).flatten())
            .or_else(|| {
                // Reclaim's own requests do not reclaim.
                let help = help.filter(|_| waits && !memalloc)?;
                self.wait_for(cx, request, help, effort, tried)
            })
            .or_else(|| (waits && self.give_reserves_back(cx, request)).then(|| attempt(effort)).flatten())
            .or_else(|| {
                let unlimited = RequestFlags::MEMALLOC | RequestFlags::NOFAIL;
                request.flags.intersects(unlimited).then(|| attempt(last)).flatten()
            })
    }

    /// Empties the per-CPU lists and gives reserved pageblocks back; says whether that freed anything.
    fn give_reserves_back(&self, cx: &Cx, request: &Request) -> bool {
        let zones = || self.zones_for(cx, request);
        let free = || zones().map(|z| z.free.get()).sum::<u64>();
        let before = free();
        self.drain(CpuSet::All);
        let gave = zones().any(|z| z.unreserve_highatomic(request.migratetype, true));
        gave || free() > before
    }

    /// Says why a request could not be served, from the zones' current state.
    fn reason(&self, cx: &Cx, request: &Request, effort: Effort) -> AllocError {
        let (order, highest) = (request.order, request.highest_zone);
        let unlimited = request.flags.intersects(RequestFlags::MEMALLOC | RequestFlags::NOFAIL);
        let kept = |z: &Zone| match unlimited {
            true => 0,
            // What it says is compared with the frames that are left when all but the last of the block are taken.
            false => z
                .kept_from(order, highest, z.mark(effort.mark), effort, &self.config)
                .saturating_sub(order.frames().0 - 1),
        };
        let room = |z: &Zone| ZoneRoom { free: Frames(z.free.get()), kept: Frames(kept(z)) };
        reason(order, self.zones_for(cx, request).map(room))
    }
}
