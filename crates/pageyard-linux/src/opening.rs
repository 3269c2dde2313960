//! Opening states and background work: what a replay sets up and what it lets happen in between. Layer: top.

use crate::allocator::LinuxAllocator;
use crate::effort::Mark;
use crate::freelist::End;
use crate::node::Node;
use crate::pcp::Listed;
use crate::tag::{MAX_PAGE_ORDER, Tag};
use crate::zone::Zone;
use pageyard_core::{
    CpuId, CpuSet, Frames, Migratetype, NodeId, Order, PAGEBLOCK_ORDER, PageblockId, Pfn, ZoneId,
};

impl LinuxAllocator {
    /// Gives a pageblock a migratetype and moves its free blocks along, for an opening state, or to lend it
    /// ([`Migratetype::Cma`]) from now on.
    pub fn set_pageblock_migratetype(&self, block: PageblockId, m: Migratetype) {
        let Some(zone) = self.zone_of(block.start()).or_else(|| self.zone_of(Pfn(block.start().0 + 511)))
        else {
            return;
        };
        let at = Pfn(block.start().0.max(zone.span.start.0));
        let mut locked = zone.lock();
        let reserve = |reserved: u64| match (zone.pageblocks.type_of(at), m) {
            (Migratetype::HighAtomic, Migratetype::HighAtomic) => reserved,
            (Migratetype::HighAtomic, _) => reserved.saturating_sub(PAGEBLOCK_ORDER.frames().0),
            (_, Migratetype::HighAtomic) => reserved + PAGEBLOCK_ORDER.frames().0,
            _ => reserved,
        };
        zone.reserved_highatomic.set(reserve(zone.reserved_highatomic.get()));
        if m == Migratetype::Cma {
            // No free block reaches out of a lent area.
            locked.divide_larger(at);
        }
        locked.convert(at, m, End::Tail);
        if m != Migratetype::Cma {
            locked.join_halves(at, End::Tail);
        }
    }

    /// Puts an allocated block into a CPU's list, where a recording says it was at the start.
    ///
    /// Returns `false`, and changes nothing, where the block is not allocated or no list takes its order.
    pub fn restore_cached(&self, cpu: CpuId, pfn: Pfn, order: Order, m: Migratetype, hottest: bool) -> bool {
        let Ok((zone, movable)) = self.held(pfn, order) else { return false };
        let Some(slot) = zone.pcps.get(cpu.index()) else { return false };
        let Some(list) = self.config.pcp_list(order, m) else { return false };
        let mut pages = slot.lock();
        if !zone.tags.swap(zone.number(pfn), Tag::Allocated(order, movable), Tag::Cached(order, m)) {
            return false;
        }
        pages.lists.put(Listed { list, order }, pfn, if hottest { End::Head } else { End::Tail });
        true
    }

    /// Puts every free list in the order of `rank`, lowest first; blocks without a rank come before all others.
    pub fn order_free_lists(&self, rank: impl Fn(Pfn) -> Option<u32>) {
        for zone in &self.zones {
            let mut locked = zone.lock();
            for (order, m) in Order::ZERO.up_to(MAX_PAGE_ORDER).flat_map(|o| Migratetype::ALL.map(|m| (o, m)))
            {
                let frames = locked.inner.lists.iter(order, m);
                let mut blocks: Vec<Pfn> = frames.map(|frame| zone.span.start + Frames(frame)).collect();
                // None is less than any rank, and blocks without one stay in their order.
                blocks.sort_by_key(|pfn| rank(*pfn));
                for pfn in blocks {
                    locked.take_off(pfn, order, m);
                    locked.insert(pfn, order, m, End::Tail);
                }
            }
        }
    }

    /// Sets the spill limit of a CPU's lists to the recorded value, within its bounds.
    pub fn restore_pcp_high(&self, zone: ZoneId, cpu: CpuId, high: u64) {
        if let Some(slot) = self.zones.get(zone.index()).and_then(|z| z.pcps.get(cpu.index())) {
            slot.lock().policy.set_high(high);
        }
    }

    /// Does what background work does once a second: per-CPU lists shrink towards their least size.
    ///
    /// # Linux
    /// The vmstat worker (`refresh_cpu_vm_stats`), every `vm.stat_interval`.
    pub fn vmstat_tick(&self) {
        (0..self.config.cpus).for_each(|cpu| self.vmstat_tick_of(CpuId(cpu)));
    }

    /// Does that for one CPU; nothing where there is no such CPU. With the first CPU's tick a second begins, in which
    /// an atomic request may boost each zone once.
    pub fn vmstat_tick_of(&self, cpu: CpuId) {
        for zone in &self.zones {
            if cpu == CpuId(0) {
                zone.boosted_for_atomic.set(false);
            }
            if let Some(pages) = zone.pcps.get(cpu.index()) {
                zone.tick(&mut pages.lock(), &self.config);
            }
        }
    }

    /// Gives a pageblock of the reserve for atomic requests to type `m`, if more than one is set aside, and empties the
    /// lists of all CPUs. For a replay whose recording shows that the host did.
    ///
    /// # Linux
    /// `__alloc_pages_direct_reclaim`, after reclaim that was not enough.
    pub fn reclaim_was_not_enough(&self, m: Migratetype) {
        self.zones.iter().rev().any(|zone| zone.unreserve_highatomic(m, false));
        self.drain(CpuSet::All);
    }

    /// Lets the background reclaimer of a node go to sleep: its zones' lists may grow again, and no boost is left.
    ///
    /// # Linux
    /// The end of `balance_pgdat`.
    pub fn reclaim_ends(&self, node: NodeId) {
        self.nodes.iter().filter(|n| n.id == node).for_each(|node| self.reclaim_is_done(node));
    }

    /// Wakes the background reclaimer of a zone, as a request below the low watermark does, whatever is free. Until
    /// [`LinuxAllocator::kswapd_tick`] ends its run, the per-CPU lists keep little.
    pub fn wake_kswapd(&self, zone: ZoneId) {
        if let Some(zone) = self.zones.get(zone.index()) {
            let node = self.node(zone.span.node);
            node.ask(Order::ZERO, zone.span.kind, self.config.reclaimer);
            if !node.awake.get() {
                self.reclaim_begins(node);
            }
        }
    }

    /// Lets the background reclaimers sleep whose nodes have enough free frames. The others stay awake, and their
    /// zones' lists keep little; so do those that `is_at_work` names, whether they were woken or not. Every call ends a
    /// pass of each that is awake, and with it the boost of the watermarks. For a replay, whose recording has the frees
    /// of the host's own reclaimers when they came, and not where one pass ended and the next began.
    ///
    /// # Linux
    /// The loop of `kswapd`, whose `balance_pgdat` ends when the node is balanced, or when it has looked everywhere; a
    /// boost ends with it either way. Of a larger block than one frame it is taken to have given up by then, as Linux
    /// does once it has reclaimed twice as much.
    pub fn kswapd_follows(&self, is_at_work: impl Fn(NodeId) -> bool) {
        for node in &self.nodes {
            if node.awake.get() {
                self.zones_up_to(node, node.run().1).for_each(Zone::end_boost);
            }
            match (is_at_work(node.id), node.awake.get()) {
                (true, false) if self.is_short(node) => self.reclaim_begins(node),
                (false, true) if self.may_rest(node, Order::ZERO, node.run().1) => self.reclaim_is_done(node),
                _ => {}
            }
        }
    }

    /// Returns whether a node has less than twice its high watermarks free, or a boosted one: so little that its
    /// background reclaimer can be at work.
    fn is_short(&self, node: &Node) -> bool {
        let zones = || node.zones().map(|place| &self.zones[place]);
        let free: u64 = zones().map(|z| z.free.get()).sum();
        let high: u64 = zones().map(|z| z.marks.of(Mark::High)).sum();
        free < 2 * high || zones().any(|z| z.boost.get() > 0)
    }

    /// Lets the background reclaimers run where they were woken, with nothing of their own to reclaim: the boost that
    /// woke them ends, and they sleep. For a replay, whose recording has the frees of the host's own reclaimer.
    ///
    /// # Linux
    /// The end of `balance_pgdat`.
    pub fn kswapd_tick(&self) {
        self.nodes.iter().filter(|n| n.awake.get()).for_each(|node| self.reclaim_is_done(node));
    }
}
