//! The walk: a request goes from zone to zone until one serves it, from a CPU's list or under the zone lock. Layer:
//! taking and giving.

use crate::allocator::LinuxAllocator;
use crate::compaction::COSTLY;
use crate::config::{BoostRule, HighatomicGrowth, PcpPolicy};
use crate::effort::{ATOMIC, Effort, HIGHATOMIC, Mark, Reach, Wake, own_privileges};
use crate::events::{Counts, Origin};
use crate::fallback::Found;
use crate::pcp;
use crate::tag::{Holding, MAX_PAGE_ORDER, Tag};
use crate::zone::Locked;
use crate::zonelist::{Called, Inlined, Step, Zoneref};
use pageyard_core::{BadRequest, Cx, Migratetype, NodeMask, Order, Pfn, Request, RequestFlags};

/// The zones that a request walks: a zonelist, and the nodes it may take from (`None`: all).
pub(crate) struct Walk<'a> {
    pub(crate) list: &'a [Zoneref],
    pub(crate) nodes: Option<NodeMask>,
    /// The preferred entry: the first that the request would use, whether or not its cpuset lets it.
    pub(crate) first: usize,
}

impl LinuxAllocator {
    /// Says what is wrong with a request, whatever the zones hold.
    #[inline]
    pub(crate) fn check(&self, cx: &Cx, request: &Request) -> Result<(), BadRequest> {
        if request.order > MAX_PAGE_ORDER {
            return Err(BadRequest::OrderTooLarge { order: request.order, largest: MAX_PAGE_ORDER });
        }
        if !request.migratetype.is_requested() {
            return Err(BadRequest::Migratetype);
        }
        if !self.has_cpu(cx.cpu) {
            return Err(BadRequest::NoSuchCpu);
        }
        if request.flags.contains(RequestFlags::ZERO) {
            return Err(BadRequest::CannotZero);
        }
        Ok(())
    }

    /// Makes a request's attempt before the slow path: zones above their low watermark.
    #[inline(always)]
    pub(crate) fn first_attempt<S: Step>(
        &self,
        cx: &Cx,
        request: &Request,
        wake: Wake,
    ) -> Result<Option<Pfn>, BadRequest> {
        let mut walk = self.walk_of::<S>(cx, request, Reach::First)?;
        if request.flags.contains(RequestFlags::WRITE) {
            walk.nodes = self.not_too_dirty(walk.nodes);
        }
        let mut effort = Effort { wake, ..self.first_effort(&walk).of_type(request.migratetype) };
        let several = request.order > Order::ZERO;
        if self.config.highatomic_first && several && own_privileges(request.flags).contains(ATOMIC) {
            effort.reserves = HIGHATOMIC;
        }
        Ok(self.try_walk::<S>(cx, request, &walk, effort, false))
    }

    /// Returns how a request first tries.
    #[inline(always)]
    fn first_effort(&self, walk: &Walk<'_>) -> Effort {
        let nofragment = self.zones[walk.list[walk.first].zone].splits_late;
        Effort { nofragment, ..Effort::plain(Mark::Low) }
    }

    /// Determines once what a request walks, and which entry it prefers.
    ///
    /// # Linux
    /// `prepare_alloc_pages`.
    #[inline(always)]
    pub(crate) fn walk_of<S: Step>(
        &self,
        cx: &Cx,
        request: &Request,
        reach: Reach,
    ) -> Result<Walk<'_>, BadRequest> {
        let (list, bounds) = self.zonelists.for_request(cx, request, reach);
        let highest = request.highest_zone;
        let preferred =
            if S::MASKS_ALL { bounds.preferred.or(Some(NodeMask::ALL)) } else { bounds.preferred };
        match S::next(list, 0, highest, preferred) {
            Some(first) => Ok(Walk { list, nodes: bounds.allowed, first }),
            None => Err(BadRequest::NoZone),
        }
    }

    /// Goes from zone to zone; to those under reclaim only if `allow_reclaiming_nodes`. Compiled separately for each
    /// form of the step, and otherwise identical: only the step differs.
    ///
    /// # Linux
    /// `get_page_from_freelist`. With `defrag_mode` (6.15) it neither keeps to a node nor tries again to mix types.
    #[inline(never)]
    pub(crate) fn try_walk<S: Step>(
        &self,
        cx: &Cx,
        request: &Request,
        walk: &Walk<'_>,
        effort: Effort,
        allow_reclaiming_nodes: bool,
    ) -> Option<Pfn> {
        let order = request.order;
        let preferred = &walk.list[walk.first];
        let node = self.zones[preferred.zone].span.node;
        let auto = self.config.pcp_policy == PcpPolicy::Auto;
        let mut from = walk.first;
        while let Some(at) = S::next(walk.list, from, request.highest_zone, walk.nodes) {
            from = at + 1;
            let zone = &self.zones[walk.list[at].zone];
            // Another node costs more than a mixed pageblock.
            if effort.nofragment && zone.span.node != node && !self.config.defrag_mode {
                continue;
            }
            if zone.under_reclaim.get() && !allow_reclaiming_nodes {
                continue;
            }
            let above = |mark| {
                zone.watermark_ok(order, request.highest_zone, Effort { mark, ..effort }, &self.config)
            };
            // Far from the watermarks one check is enough; near them the per-CPU lists are told to shrink (6.7 and
            // later).
            let roomy = auto && !zone.below_high.get() && above(Mark::High);
            if auto {
                zone.below_high.set(!roomy);
            }
            if !roomy && !above(effort.mark) {
                continue;
            }
            let got = self.take_from(walk.list[at].zone, cx, request, preferred, effort);
            // Whether or not it got something: fragmentation has raised the watermarks.
            let wakes =
                effort.wake != Wake::No || (self.config.boost_rule == BoostRule::Atomic && !effort.trylock);
            if wakes && zone.boosted.take() {
                self.wake_reclaimer(zone, zone.span.kind, Order::ZERO);
                if effort.wake == Wake::Counts {
                    Counts::add(&self.counts.wakes);
                }
            }
            let Some(pfn) = got else { continue };
            if effort.is_highatomic(order) && self.config.highatomic_growth == HighatomicGrowth::Served {
                zone.reserve_highatomic(pfn, order, &self.config);
            }
            return Some(pfn);
        }
        let (effort, allow_reclaiming_nodes) =
            self.next_try::<S>(request, walk, effort, allow_reclaiming_nodes)?;
        self.try_walk::<S>(cx, request, walk, effort, allow_reclaiming_nodes)
    }

    /// Returns how a request that got nothing goes through the zonelist once more, if it does. A mixed pageblock costs
    /// less than a node where reclaim is at work, and that less than a mixed pageblock where there is no other node.
    fn next_try<S: Step>(
        &self,
        request: &Request,
        walk: &Walk<'_>,
        effort: Effort,
        allow_reclaiming_nodes: bool,
    ) -> Option<(Effort, bool)> {
        // With `defrag_mode` the slow path gives this up, for requests that wait.
        let keeps = effort.nofragment && !self.config.defrag_mode;
        let zones = std::iter::successors(Some(walk.first), |at| {
            S::next(walk.list, at + 1, request.highest_zone, walk.nodes)
        });
        let mut zones = zones.map(|at| &self.zones[walk.list[at].zone]);
        let first = self.zones[walk.list[walk.first].zone].span.node;
        if keeps && zones.clone().any(|zone| zone.span.node != first) {
            return Some((Effort { nofragment: false, ..effort }, allow_reclaiming_nodes));
        }
        if !allow_reclaiming_nodes && zones.any(|zone| zone.under_reclaim.get()) {
            return Some((effort, true));
        }
        keeps.then_some((Effort { nofragment: false, ..effort }, allow_reclaiming_nodes))
    }

    /// Walks the zonelist once more, on the slow path.
    #[cold]
    pub(crate) fn try_zones(&self, cx: &Cx, request: &Request, effort: Effort) -> Option<Pfn> {
        if self.zonelists.inlined() {
            self.try_zones_by::<Inlined>(cx, request, effort)
        } else {
            self.try_zones_by::<Called>(cx, request, effort)
        }
    }

    fn try_zones_by<S: Step>(&self, cx: &Cx, request: &Request, effort: Effort) -> Option<Pfn> {
        let walk = self.walk_of::<S>(cx, request, effort.reach).ok()?;
        self.try_walk::<S>(cx, request, &walk, effort, false)
    }

    /// # Linux
    /// `rmqueue`.
    fn take_from(
        &self,
        place: usize,
        cx: &Cx,
        request: &Request,
        preferred: &Zoneref,
        effort: Effort,
    ) -> Option<Pfn> {
        let (order, m) = (request.order, request.migratetype);
        let zone = &self.zones[place];
        let loose = order > Order::ZERO && request.flags.contains(RequestFlags::LOOSE);
        let taken = Tag::Allocated(order, Holding { loose, ..Holding::of(m) });
        let cold = request.flags.contains(RequestFlags::COLD) && self.config.heeds_cold();
        let listed = pcp::list_for_request(&self.config, cx.context, order, m);
        if let Some(listed) = listed
            && let Some(mut entered) = zone.enter(cx.cpu.index(), &self.config)
            && let Some(pfn) = zone.take_listed(&mut entered.pages, listed, m, effort, cold, &self.config)
        {
            zone.set_tag(pfn, taken);
            entered.pages.counts.taken.count(order, self.origin(cx, preferred, place));
            return Some(pfn);
        }
        let mut locked = zone.lock_for(effort)?;
        let reserve = |locked: &mut Locked<'_>, may: bool| {
            may.then(|| locked.take_smallest(order, Migratetype::HighAtomic)).flatten()
        };
        let desperate = RequestFlags::NON_BLOCKING | RequestFlags::OOM_VICTIM;
        let pfn = reserve(&mut locked, effort.is_highatomic(order))
            .or_else(|| locked.rmqueue(order, m, effort, &self.config, &mut Found::default()))
            .or_else(|| {
                reserve(&mut locked, self.config.highatomic_last && effort.reserves.intersects(desperate))
            })?;
        zone.set_tag(pfn, taken);
        locked.inner.counts.taken.count(order, self.origin(cx, preferred, place));
        drop(locked);
        let grows = match self.config.highatomic_growth {
            HighatomicGrowth::Served => false,
            HighatomicGrowth::Unlisted => effort.mark == Mark::Min,
            HighatomicGrowth::Costly => effort.mark == Mark::Min && order > COSTLY,
        };
        if grows && effort.is_highatomic(order) {
            zone.reserve_highatomic(pfn, order, &self.config);
        }
        Some(pfn)
    }

    /// Says where an allocation from an entry of a zonelist came from, and counts it for the node it passed over.
    ///
    /// # Linux
    /// `zone_statistics`.
    #[inline]
    pub(crate) fn origin(&self, cx: &Cx, preferred: &Zoneref, zone: usize) -> Origin {
        let (wished, node) = (&self.zones[preferred.zone], self.zones[zone].span.node);
        let hit = wished.span.node == node;
        if !hit {
            Counts::add(&wished.foreign);
        }
        Origin { hit, local: self.zonelists.home(cx.cpu.index()) == node }
    }
}
