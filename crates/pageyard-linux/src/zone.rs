//! A zone: its frames, its lock, its watermarks, and the question whether a request may take from it.

use crate::config::Config;
use crate::freelist::FreeLists;
use crate::irq::{Interrupts, Section};
use crate::lock::MeasuredLock;
use crate::pcp::{Pcp, Taken};
use crate::slot::{self, Slot, SlotGuard};
use crate::tag::{MAX_PAGE_ORDER, NR_PAGE_ORDERS, Tag, Tags};
use pageyard_core::compaction::ZoneState;
use pageyard_core::memmap::NR_ZONE_KINDS;
use pageyard_core::watermark::{self, Watermarks};
use pageyard_core::{
    Frames, MemoryMap, Migratetype, Order, PageblockId, Pfn, RequestFlags, ZoneId, ZoneKind, ZoneSpan, block,
};
use parking_lot::MutexGuard;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};

/// What the zone lock protects.
pub struct ZoneInner {
    pub lists: FreeLists,
    pub counts: ZoneCounts,
}

/// Events that happen under the zone lock.
#[derive(Clone, Copy, Default, Debug)]
pub struct ZoneCounts {
    /// Taken from and given to the zone straight, past the per-CPU lists.
    pub taken: Taken,
    pub extfrag_steal: u64,
    pub extfrag_claim: u64,
    pub highatomic_reserve: u64,
    pub highatomic_unreserve: u64,
    pub watermark_boost: u64,
    /// Fallbacks by the type asked for and the type taken from.
    pub fallbacks: [[u64; Migratetype::COUNT]; Migratetype::COUNT],
}

/// A flag of a zone that is read without a lock and only steers policy.
#[derive(Default)]
pub struct Flag(AtomicBool);

impl Flag {
    // ORDER: Relaxed throughout: a flag that is seen late delays a policy by one call and orders nothing.
    pub fn get(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    pub fn set(&self, on: bool) {
        if self.get() != on {
            self.0.store(on, Ordering::Relaxed);
        }
    }

    /// Clears the flag and says whether it was set.
    pub fn take(&self) -> bool {
        self.get() && self.0.swap(false, Ordering::Relaxed)
    }
}

/// A number that only the holder of the zone lock changes and anybody reads as an estimate.
#[derive(Default)]
pub struct Gauge(AtomicU64);

impl Gauge {
    // ORDER: Relaxed throughout: readers take it as an estimate, as Linux's `zone_page_state` is one.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    pub fn set(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }
}

/// Something that is written often, on cache lines of its own beside fields that are only read.
#[derive(Default)]
#[repr(align(128))]
pub struct Apart<T>(T);

impl<T> std::ops::Deref for Apart<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.0
    }
}

/// The watermark that a request is held to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mark {
    /// None: it may take everything.
    None,
    Min,
    Low,
    High,
}

/// How a request may take from a zone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Effort {
    pub mark: Mark,
    /// Privileges towards the reserve; empty on the first attempt, as in Linux.
    pub reserves: RequestFlags,
    /// Whether pageblocks of other types are taken only as a whole.
    pub nofragment: bool,
    /// Whether the background reclaimer may be woken.
    pub wake: bool,
}

impl Effort {
    /// An attempt without privileges, held to a watermark.
    pub fn plain(mark: Mark) -> Effort {
        Effort { mark, reserves: RequestFlags::empty(), nofragment: false, wake: false }
    }

    /// Says whether high-order atomic requests' own reserve is open to this one.
    ///
    /// # Linux
    /// `ALLOC_HIGHATOMIC`.
    pub fn is_highatomic(self, order: Order) -> bool {
        order > Order::ZERO && self.reserves.contains(RequestFlags::HIGH | RequestFlags::NON_BLOCKING)
    }

    /// Says whether any privilege applies, so that reserved frames count as free.
    fn has_reserves(self) -> bool {
        self.reserves.intersects(RequestFlags::HIGH | RequestFlags::NON_BLOCKING | RequestFlags::OOM_VICTIM)
    }
}

/// One zone.
pub struct Zone {
    pub id: ZoneId,
    pub span: ZoneSpan,
    pub tags: Tags,
    types: Vec<AtomicU8>,
    /// Whether each pageblock holds a managed frame.
    populated: Vec<bool>,
    pub free: Apart<Gauge>,
    /// Free blocks by order and type: what the lists hold, readable without the lock.
    pub blocks: Apart<[[Gauge; Migratetype::COUNT]; NR_PAGE_ORDERS]>,
    pub free_highatomic: Gauge,
    pub reserved_highatomic: Gauge,
    pub boost: Gauge,
    pub marks: Watermarks,
    pub max_boost: Option<Frames>,
    pub protection: [Frames; NR_ZONE_KINDS],
    pub below_high: Flag,
    pub boosted: Flag,
    pub kswapd_woken: Flag,
    /// The largest order that the background reclaimer was woken for.
    pub kswapd_order: Gauge,
    /// What compaction remembers.
    pub compaction: ZoneState,
    /// Whether an earlier scan found nothing to do in a pageblock.
    skips: Vec<AtomicBool>,
    /// By pageblock: the compactor that uses it, plus one, and for which end; 0 for none.
    pub leases: Vec<AtomicU32>,
    pub lock: MeasuredLock<ZoneInner>,
    pub pcps: Vec<Slot>,
    interrupts: Interrupts,
    /// `numa_foreign`: requests that wished for this zone's node and were served by another.
    pub foreign: AtomicU64,
    /// `numa_interleave`: requests served here because the node's turn had come.
    pub interleaved: AtomicU64,
}

/// The managed frames of each kind of zone, of one node and of the whole machine.
pub struct Managed {
    pub of_node: [Frames; NR_ZONE_KINDS],
    pub lowmem: Frames,
    pub min_free_kbytes: u64,
}

impl Zone {
    /// Makes a zone with all its managed frames free.
    pub fn new(
        id: ZoneId,
        span: ZoneSpan,
        map: &MemoryMap<'_>,
        managed: &Managed,
        cpus_of_node: u64,
        config: &Config,
    ) -> Zone {
        let frames = span.spanned.0 as usize;
        let knobs = &config.watermark;
        let marks = watermark::watermarks(
            &span,
            managed.lowmem,
            managed.min_free_kbytes,
            knobs.watermark_scale_factor,
        );
        let first_block = span.start.pageblock().0;
        let blocks = (span.end().0 - 1) / 512 + 1 - first_block;
        let types =
            std::iter::repeat_with(|| AtomicU8::new(Migratetype::Movable as u8)).take(blocks as usize);
        let mut zone = Zone {
            id,
            span,
            tags: Tags::new(frames),
            types: types.collect(),
            populated: vec![false; blocks as usize],
            free: Apart::default(),
            blocks: Default::default(),
            free_highatomic: Gauge::default(),
            reserved_highatomic: Gauge::default(),
            boost: Gauge::default(),
            marks,
            max_boost: watermark::max_boost(marks.high, span.managed, knobs.watermark_boost_factor),
            protection: watermark::protection(span.kind, &managed.of_node, &knobs.lowmem_reserve_ratio),
            below_high: Flag::default(),
            boosted: Flag::default(),
            kswapd_woken: Flag::default(),
            kswapd_order: Gauge::default(),
            compaction: ZoneState::new(),
            skips: (0..blocks).map(|_| AtomicBool::new(false)).collect(),
            leases: (0..blocks).map(|_| AtomicU32::new(0)).collect(),
            lock: MeasuredLock::new(ZoneInner {
                lists: FreeLists::new(frames),
                counts: ZoneCounts::default(),
            }),
            pcps: (0..config.cpus)
                .map(|_| slot::locked(Pcp::new(config, span.managed, marks.low, cpus_of_node)))
                .collect(),
            interrupts: config.interrupts,
            foreign: AtomicU64::new(0),
            interleaved: AtomicU64::new(0),
        };
        let regions = || map.regions().filter(|r| r.managed && (r.node, r.zone) == (span.node, span.kind));
        for region in regions() {
            let last = zone.block_index(Pfn(region.end().0 - 1));
            let first = zone.block_index(region.start);
            zone.populated[first..=last].fill(true);
        }
        let mut locked = zone.lock();
        for region in regions() {
            for frame in region.start.0..region.end().0 {
                zone.set_tag(Pfn(frame), Tag::Inside);
            }
            for b in block::blocks(region.start, region.frames, MAX_PAGE_ORDER) {
                locked.free_at_start(b.pfn, b.order);
            }
        }
        drop(locked);
        zone
    }

    /// Ends what fragmentation adds to the watermarks.
    ///
    /// # Linux
    /// The end of `balance_pgdat`.
    pub fn end_boost(&self) {
        let _locked = self.lock();
        self.boost.set(0);
    }

    /// Returns the free frames, those in per-CPU lists included.
    pub fn available(&self) -> u64 {
        self.free.get() + self.pcps.iter().map(|p| p.lock().count).sum::<u64>()
    }

    /// Takes the zone lock, unless somebody has it.
    pub fn try_lock(&self) -> Option<Locked<'_>> {
        let off = self.interrupts.off();
        Some(Locked { zone: self, inner: self.lock.try_lock()?, _off: off })
    }

    /// Takes the zone lock, with interrupts off: a handler may want it, too.
    pub fn lock(&self) -> Locked<'_> {
        let off = self.interrupts.off();
        Locked { zone: self, inner: self.lock.lock(), _off: off }
    }

    /// Begins to use a CPU's lists, unless they are in use.
    #[inline]
    pub fn enter(&self, cpu: usize, config: &Config) -> Option<Entered<'_>> {
        let section = self.interrupts.protect(config.pcp_protection);
        Some(Entered { pcp: self.pcps.get(cpu)?.try_lock()?, _section: section })
    }

    fn index(&self, pfn: Pfn) -> u64 {
        pfn.0.wrapping_sub(self.span.start.0)
    }

    /// Returns the frame's number within the zone. The frame must be of the zone.
    pub fn number(&self, pfn: Pfn) -> u64 {
        debug_assert!(self.span.spans(pfn));
        self.index(pfn)
    }

    /// Reads a frame's tag; frames outside the zone are holes.
    pub fn tag(&self, pfn: Pfn) -> Tag {
        self.tags.get(self.index(pfn))
    }

    /// Writes the tag of a frame that only the caller can change.
    pub fn set_tag(&self, pfn: Pfn, tag: Tag) {
        self.tags.set(self.number(pfn), tag);
    }

    /// Returns the migratetype of the pageblock that holds the frame.
    pub fn type_of(&self, pfn: Pfn) -> Migratetype {
        // ORDER: Relaxed: a free that reads an old type puts its block on the list of that type, as Linux's may.
        let raw = self.types[self.block_index(pfn)].load(Ordering::Relaxed);
        Migratetype::ALL[raw as usize]
    }

    /// Sets the migratetype of the pageblock that holds the frame; its free blocks stay where they are.
    pub fn set_type(&self, pfn: Pfn, m: Migratetype) {
        // ORDER: Relaxed: see `type_of`.
        self.types[self.block_index(pfn)].store(m as u8, Ordering::Relaxed);
    }

    /// Says whether an earlier scan found nothing to do in the pageblock.
    pub fn is_skipped(&self, pfn: Pfn) -> bool {
        // ORDER: Relaxed: a hint.
        self.skips[self.block_index(pfn)].load(Ordering::Relaxed)
    }

    /// Notes that a scan found nothing to do in the pageblock, or forgets it.
    pub fn set_skipped(&self, pfn: Pfn, skip: bool) {
        // ORDER: Relaxed: a hint.
        self.skips[self.block_index(pfn)].store(skip, Ordering::Relaxed);
    }

    /// Says whether any frame of the pageblock is managed.
    pub fn is_populated(&self, pfn: Pfn) -> bool {
        self.populated[self.block_index(pfn)]
    }

    /// Returns the number in the zone of the pageblock that holds the frame.
    pub fn block_index(&self, pfn: Pfn) -> usize {
        (pfn.pageblock().0 - self.span.start.pageblock().0) as usize
    }

    /// Iterates over the pageblocks that hold a managed frame.
    pub fn managed_pageblocks(&self) -> impl Iterator<Item = PageblockId> + '_ {
        let first = self.span.start.pageblock().0;
        (first..).zip(&self.populated).filter(|(_, populated)| **populated).map(|(b, _)| PageblockId(b))
    }

    /// Returns a watermark as it stands now.
    pub fn mark(&self, mark: Mark) -> u64 {
        let boost = self.boost.get();
        match mark {
            Mark::None => 0,
            Mark::Min => self.marks.min.0 + boost,
            Mark::Low => self.marks.low.0 + boost,
            Mark::High => self.marks.high.0 + boost,
        }
    }

    /// Returns the frames that must stay free for a request of this kind, beside those it takes.
    pub fn kept_from(
        &self,
        order: Order,
        highest: ZoneKind,
        mark: u64,
        effort: Effort,
        config: &Config,
    ) -> u64 {
        let reserved = match effort.has_reserves() {
            true => 0,
            false if config.highatomic_counts_free => self.free_highatomic.get(),
            false => self.reserved_highatomic.get(),
        };
        let min = config.reserve_rule.lower(Frames(mark), effort.reserves).0;
        order.frames().0 - 1 + reserved + min + self.protection[highest.index()].0
    }

    /// Says whether the zone can serve a request without going below the watermark.
    ///
    /// # Linux
    /// `zone_watermark_fast`.
    pub fn watermark_ok(&self, order: Order, highest: ZoneKind, effort: Effort, config: &Config) -> bool {
        if effort.mark == Mark::None {
            return true;
        }
        if self.enough(order, highest, self.mark(effort.mark), effort, config) {
            return true;
        }
        // Single frames that cannot wait ignore the boost: it is meant to wake reclaim, not to fail anybody.
        order == Order::ZERO
            && effort.mark == Mark::Min
            && effort.reserves.contains(RequestFlags::HIGH)
            && self.boost.get() > 0
            && self.enough(order, highest, self.marks.min.0, effort, config)
    }

    /// Says whether a request can be served while `mark` frames stay free, beside what is kept back from it.
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

    /// Says whether a free block of this order or a larger one exists that such a request may use.
    pub fn has_block(&self, order: Order, effort: Effort) -> bool {
        let reserve = effort.is_highatomic(order) || effort.reserves.contains(RequestFlags::OOM_VICTIM);
        order.up_to(MAX_PAGE_ORDER).any(|o| {
            let blocks = &self.blocks[o.index()];
            Migratetype::REQUESTED.iter().any(|m| blocks[m.index()].get() > 0)
                || (reserve && blocks[Migratetype::HighAtomic.index()].get() > 0)
        })
    }

    /// Returns the free blocks by order and type.
    pub fn free_blocks(&self) -> [[u64; Migratetype::COUNT]; NR_PAGE_ORDERS] {
        std::array::from_fn(|o| std::array::from_fn(|m| self.blocks[o][m].get()))
    }
}

/// A zone whose lock is held.
pub struct Locked<'a> {
    pub zone: &'a Zone,
    pub inner: MutexGuard<'a, ZoneInner>,
    // Declared last, so dropped last: interrupts come on again after the lock is free.
    _off: Section,
}

/// A CPU's lists, protected as the configuration says.
pub struct Entered<'a> {
    pub pcp: SlotGuard<'a>,
    _section: Section,
}
