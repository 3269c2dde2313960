//! A zone: its parts, and how they are locked. Layer: the zone. Its operations are in the layer above, a file for each
//! subject.

use crate::compaction::ZoneState;
use crate::config::Config;
use crate::effort::Effort;
use crate::events::ZoneCounts;
use crate::freelist::FreeLists;
use crate::gauge::{Apart, Flag, Gauge};
use crate::irq::{Interrupts, Section};
use crate::late::Late;
use crate::lock::MeasuredLock;
use crate::marks::{Marks, Protection};
use crate::owners::Owners;
use crate::pageblock::Pageblocks;
use crate::pcp::Pressure;
use crate::place::FreeObserver;
use crate::scans::Scans;
use crate::slot::{Slot, SlotGuard};
use crate::tag::{MAX_PAGE_ORDER, NR_PAGE_ORDERS, Tag, Tags};
use pageyard_core::{Migratetype, Order, PAGEBLOCK_ORDER, Pfn, ZoneId, ZoneSpan};
use spin::mutex::SpinMutexGuard;
use std::sync::atomic::AtomicU64;

/// The state that the zone lock protects.
pub struct ZoneInner {
    pub lists: FreeLists,
    pub counts: ZoneCounts,
}

/// One zone.
///
/// # Linux
/// `struct zone`.
pub struct Zone {
    pub id: ZoneId,
    pub span: ZoneSpan,
    pub tags: Tags,
    pub pageblocks: Pageblocks,
    /// Which CPU owns each pageblock, with `pcp_owners`.
    pub owners: Owners,
    /// Pageblocks with blocks that were freed while the lock was held.
    pub late: Late,
    /// Whether a free block is always on the list of its pageblock's type (6.10 and later).
    pub pure: bool,
    /// Whether a request that prefers this zone first avoids mixing types in a pageblock; with `defrag_mode` in every
    /// zone.
    pub splits_late: bool,
    /// Pageblocks of a superpageblock; 0 for none.
    pub superpageblock: u64,
    /// Whether free pageblocks of the reserve merge with those of other types.
    pub merges_reserved: bool,
    pub free: Apart<Gauge>,
    /// Free blocks by order and type: what the lists hold, readable without the lock.
    pub blocks: Apart<[[Gauge; Migratetype::COUNT]; NR_PAGE_ORDERS]>,
    pub free_highatomic: Gauge,
    /// Free frames of areas that their owners lend: `nr_free_cma`.
    pub free_lent: Gauge,
    pub reserved_highatomic: Gauge,
    pub boost: Gauge,
    pub marks: Marks,
    /// `watermark_boost_factor`.
    pub boost_factor: Gauge,
    pub protection: Protection,
    pub below_high: Flag,
    pub boosted: Flag,
    /// Whether an atomic request has raised the boost since the last second began.
    pub boosted_for_atomic: Flag,
    /// Whether the background reclaimer is at work here.
    pub reclaiming: Flag,
    /// Whether requests take from it last: the background reclaimer of its node is awake.
    pub under_reclaim: Flag,
    /// Reclaim's scan counts, if they are kept by zone.
    pub scans: Scans,
    /// Compaction's state.
    pub compaction: ZoneState,
    pub lock: MeasuredLock<ZoneInner>,
    pub pcps: Vec<Slot>,
    /// CPUs among which what its lists may hold is divided.
    pub sharers: u64,
    pub interrupts: Interrupts,
    /// `numa_foreign`: requests that preferred this zone's node and were served by another.
    pub foreign: AtomicU64,
    /// `numa_interleave`: requests served here because the node's turn had come.
    pub interleaved: AtomicU64,
}

impl Zone {
    /// Returns the free frames, those in per-CPU lists included.
    pub fn available(&self) -> u64 {
        self.free.get() + self.pcps.iter().map(|p| p.lock().lists.held()).sum::<u64>()
    }

    /// Returns how many frames have come back to the zone so far, those that CPUs' lists keep not counted.
    pub fn came_back(&self) -> u64 {
        let direct = self.lock().inner.counts.taken.pgfree;
        direct + self.pcps.iter().map(|p| p.lock().counts.drained.frames).sum::<u64>()
    }

    /// Returns the frames that are free in whole pageblocks.
    ///
    /// # Linux
    /// `NR_FREE_PAGES_BLOCKS` (6.15 and later).
    pub fn free_pageblocks(&self) -> u64 {
        let of = |order: Order| {
            let types = Migratetype::ALL.iter().filter(|m| **m != Migratetype::Isolate);
            types.map(|m| self.blocks[order.index()][m.index()].get()).sum::<u64>() * order.frames().0
        };
        PAGEBLOCK_ORDER.up_to(MAX_PAGE_ORDER).map(of).sum()
    }

    /// Tells the lists' policy the state of the zone.
    #[inline]
    pub fn pressure(&self) -> Pressure {
        Pressure { reclaiming: self.reclaiming.get(), below_high: self.below_high.get() }
    }

    /// Takes the zone lock, unless it is held.
    pub fn try_lock(&self) -> Option<Locked<'_>> {
        let off = self.interrupts.off();
        Some(Locked { zone: self, inner: self.lock.try_lock()?, _off: off })
    }

    /// Returns whether the zone lock is held now.
    pub fn is_locked(&self) -> bool {
        self.lock.is_locked()
    }

    /// Takes the zone lock for a request; one that does not wait gets nothing while it is held.
    #[inline]
    pub fn lock_for(&self, effort: Effort) -> Option<Locked<'_>> {
        if effort.trylock { self.try_lock() } else { Some(self.lock()) }
    }

    /// Takes the zone lock, with interrupts off: a handler may want it too.
    pub fn lock(&self) -> Locked<'_> {
        let off = self.interrupts.off();
        Locked { zone: self, inner: self.lock.lock(), _off: off }
    }

    /// Takes the zone lock as [`Zone::lock`] does; `W` is told so.
    #[inline]
    pub fn lock_watched<W: FreeObserver>(&self) -> Locked<'_> {
        let off = self.interrupts.off();
        Locked { zone: self, inner: self.lock.lock_watched::<W>(), _off: off }
    }

    /// Begins to use a CPU's lists, unless they are in use.
    #[inline]
    pub fn enter(&self, cpu: usize, config: &Config) -> Option<Entered<'_>> {
        let section = self.interrupts.protect(config.pcp_protection);
        Some(Entered { pages: self.pcps.get(cpu)?.try_lock()?, _section: section })
    }

    #[inline]
    fn index(&self, pfn: Pfn) -> u64 {
        pfn.0.wrapping_sub(self.span.start.0)
    }

    /// Returns the frame's number within the zone. The frame must be of the zone.
    #[inline]
    pub fn number(&self, pfn: Pfn) -> u64 {
        debug_assert!(self.span.spans(pfn));
        self.index(pfn)
    }

    /// Reads a frame's tag; frames outside the zone are holes.
    #[inline]
    pub fn tag(&self, pfn: Pfn) -> Tag {
        self.tags.get(self.index(pfn))
    }

    /// Writes the tag of a frame that only the caller can change.
    #[inline]
    pub fn set_tag(&self, pfn: Pfn, tag: Tag) {
        self.tags.set(self.number(pfn), tag);
    }
}

/// A zone whose lock is held.
pub struct Locked<'a> {
    pub zone: &'a Zone,
    pub inner: SpinMutexGuard<'a, ZoneInner>,
    // Declared last, so dropped last: interrupts come on again after the lock is free.
    _off: Section,
}

/// A CPU's lists, protected as the configuration says.
pub struct Entered<'a> {
    pub pages: SlotGuard<'a>,
    _section: Section,
}
