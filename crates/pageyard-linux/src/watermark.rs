//! Watermarks: may a request take from a zone? Layer: on the zone.

use crate::config::{BoostRule, Config};
use crate::effort::{Effort, Mark};
use crate::tag::{MAX_PAGE_ORDER, NR_PAGE_ORDERS};
use crate::zone::Zone;
use pageyard_core::{Frames, Migratetype, Order, PAGEBLOCK_ORDER, RequestFlags, ZoneKind};

/// An atomic request raises a boost by this part of the zone's frames.
const ATOMIC_BOOST_PART: u64 = 1000;

/// Frames of the smallest zone that an atomic request boosts: it is the smallest that fragmentation boosts.
const LEAST_BOOSTED: u64 = 4 * PAGEBLOCK_ORDER.frames().0;

impl Zone {
    /// Removes what fragmentation added to the watermarks.
    pub fn end_boost(&self) {
        self.lower_boost(u64::MAX);
    }

    /// Removes so much of what fragmentation added to the watermarks.
    ///
    /// # Linux
    /// The end of `balance_pgdat`.
    pub fn lower_boost(&self, frames: u64) {
        let _locked = self.lock();
        self.boost.set(self.boost.get().saturating_sub(frames));
    }

    /// Raises the watermarks for an atomic request that found too little, unless one has done so in this second, or the
    /// zone is so small that no boost is of use. Returns whether it did.
    ///
    /// # Linux
    /// "mm/page_alloc: boost watermarks on atomic allocation failure" (Q. Yuan, v10, February 2026). There a second
    /// passes from one boost to the next; here each second begins with [`LinuxAllocator::vmstat_tick`].
    ///
    /// [`LinuxAllocator::vmstat_tick`]: crate::LinuxAllocator::vmstat_tick
    pub fn boost_for_atomic(&self) -> bool {
        let mut locked = self.lock();
        let managed = self.span.managed.0;
        if managed < LEAST_BOOSTED || self.boosted_for_atomic.get() {
            return false;
        }
        self.boosted_for_atomic.set(true);
        self.boost.set(self.boost.get() + managed / ATOMIC_BOOST_PART);
        locked.inner.counts.watermark_boost += 1;
        true
    }

    /// Returns a watermark as it stands now.
    #[inline]
    pub fn mark(&self, mark: Mark) -> u64 {
        if mark == Mark::None { 0 } else { self.marks.of(mark) + self.boost.get() }
    }

    /// Returns the frames that must stay free for a request of this kind, beside those it takes.
    #[inline]
    pub fn kept_from(
        &self,
        order: Order,
        highest: ZoneKind,
        mark: u64,
        effort: Effort,
        config: &Config,
    ) -> u64 {
        let reserved = match effort.has_reserves(config.reserve_rule) {
            true => 0,
            false if config.highatomic_counts_free => self.free_highatomic.get(),
            false => self.reserved_highatomic.get(),
        };
        let min = config.reserve_rule.lower(Frames(mark), effort.reserves).0;
        let lent = if effort.lent { 0 } else { self.free_lent.get() };
        order.frames().0 - 1 + reserved + lent + min + self.protection.from(highest)
    }

    /// Returns whether the zone can serve a request without going below the watermark.
    ///
    /// # Linux
    /// `zone_watermark_fast`.
    #[inline]
    pub fn watermark_ok(&self, order: Order, highest: ZoneKind, effort: Effort, config: &Config) -> bool {
        if effort.mark == Mark::None {
            return true;
        }
        if self.enough(order, highest, self.mark(effort.mark), effort, config) {
            return true;
        }
        // Urgent requests for single frames ignore the boost: it is meant to wake reclaim, not to fail requests.
        let is_spared = || match config.boost_rule {
            BoostRule::Atomic => effort.is_atomic(),
            BoostRule::High => effort.reserves.contains(RequestFlags::HIGH),
        };
        order == Order::ZERO
            && effort.mark == Mark::Min
            && is_spared()
            && self.boost.get() > 0
            && self.enough(order, highest, self.marks.of(Mark::Min), effort, config)
    }

    /// Returns whether a request can be served while `mark` frames stay free, beside what is kept back from it.
    #[inline]
    pub fn enough(
        &self,
        order: Order,
        highest: ZoneKind,
        mark: u64,
        effort: Effort,
        config: &Config,
    ) -> bool {
        let kept = self.kept_from(order, highest, mark, effort, config);
        self.free.get() > kept && (order == Order::ZERO || self.has_block(order, effort))
    }

    /// The same, where only what is free in whole pageblocks counts as free.
    pub fn enough_in_pageblocks(
        &self,
        order: Order,
        highest: ZoneKind,
        mark: u64,
        effort: Effort,
        config: &Config,
    ) -> bool {
        // What is free in whole pageblocks is free: so this is the stricter one.
        self.free_pageblocks() > self.kept_from(order, highest, mark, effort, config)
            && self.enough(order, highest, mark, effort, config)
    }

    /// Returns whether a free block of this order or a larger one exists that such a request may use.
    pub fn has_block(&self, order: Order, effort: Effort) -> bool {
        let reserve = effort.is_highatomic(order) || effort.reserves.contains(RequestFlags::OOM_VICTIM);
        order.up_to(MAX_PAGE_ORDER).any(|o| {
            let blocks = &self.blocks[o.index()];
            Migratetype::REQUESTED.iter().any(|m| blocks[m.index()].get() > 0)
                || (reserve && blocks[Migratetype::HighAtomic.index()].get() > 0)
                || (effort.lent && blocks[Migratetype::Cma.index()].get() > 0)
        })
    }

    /// Returns the free blocks by order and type.
    pub fn free_blocks(&self) -> [[u64; Migratetype::COUNT]; NR_PAGE_ORDERS] {
        std::array::from_fn(|o| std::array::from_fn(|m| self.blocks[o][m].get()))
    }
}
