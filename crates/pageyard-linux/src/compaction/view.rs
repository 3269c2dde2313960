//! Compaction's view of an engine: pageblocks, frames, leases, and free frames to move things to.

use super::held_frees::{HeldFrees, Places};
use super::knobs::Knobs;
use super::state::ZoneState;
use pageyard_core::allocator::Cx;
use pageyard_core::compaction::{self, FrameState, IsolatedBlock};
use pageyard_core::memmap::{ZoneKind, ZoneSpan};
use pageyard_core::migratetype::Migratetype;
use pageyard_core::request::RequestFlags;
use pageyard_core::stats::Counter;
use pageyard_core::units::{BlockId, CompactorId, Frames, NR_ORDERS, Order, PageblockId, Pfn, ZoneId};
use pageyard_core::watermark::Watermarks;
use std::ops::Range;

/// The facts that compaction needs about a pageblock before it scans it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct PageblockInfo {
    /// Whether it has frames that a scanner looks at.
    pub populated: bool,
    /// Its migratetype.
    pub migratetype: Migratetype,
    /// Whether all of it is one free block, or part of a larger one.
    pub free_whole: bool,
    /// Whether an earlier scan found nothing to do in it.
    pub skip: bool,
}

/// A zone as compaction sees it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ZoneView {
    /// Where it lies.
    pub span: ZoneSpan,
    /// Free frames, those in per-CPU lists not counted.
    pub free: Frames,
    /// Its watermarks, with boost.
    pub marks: Watermarks,
    /// The temporary boost that fragmentation has added to them: 0 in an engine without boosts.
    pub boost: Frames,
}

/// Which end of a migration a pageblock serves.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Role {
    /// Its contents move away.
    Source,
    /// Contents move into its free frames.
    Target,
}

/// Who holds the lease of a pageblock, and for which end.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Holder {
    /// The compactor.
    pub by: CompactorId,
    /// The use it makes of the pageblock.
    pub role: Role,
}

/// The right to use a pageblock in one role, given back when dropped.
///
/// While it is held, no other compactor gets a lease on the pageblock, so two compactors never use it for opposite
/// ends.
pub struct Lease<'a> {
    map: &'a dyn Leases,
    /// The pageblock.
    pub block: PageblockId,
    /// Who holds it, and for which end.
    pub holder: Holder,
}

/// Where a [`Lease`] goes back to.
pub trait Leases: Sync {
    /// Ends the lease of a pageblock if this holder has it. Any other holder's lease stays: one that was ended early
    /// may have been followed by another compactor's.
    fn release(&self, block: PageblockId, holder: Holder);
}

impl<'a> Lease<'a> {
    /// Makes the lease that a [`CompactionView`] has just granted.
    #[must_use]
    pub fn granted(map: &'a dyn Leases, block: PageblockId, holder: Holder) -> Lease<'a> {
        Lease { map, block, holder }
    }
}

impl Drop for Lease<'_> {
    fn drop(&mut self) {
        self.map.release(self.block, self.holder);
    }
}

/// The result of a scan for free frames.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FreeScan {
    /// Frames whose state was examined; a word of 64 bits counts as 64.
    pub scanned: u64,
    /// Where it stopped: the first frame that it did not look at, the range's end where it looked at all.
    pub next: Pfn,
    /// Whether it stopped because the zone would have gone below the floor.
    pub below_floor: bool,
}

/// Which end of a free list a search begins at. Blocks are allocated from the head.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ListEnd {
    /// The end that the next allocation takes from.
    Head,
    /// The other end.
    Tail,
}

/// The result of an attempt to take free frames directly.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direct {
    /// It ended: enough were taken, or no more may be.
    Done,
    /// The zone was in use.
    Contended,
}

/// A cluster of isolated frames, which can grow to a pageblock and more.
pub(super) type Cluster<'a, O> = compaction::Cluster<'a, O, Places<IsolatedBlock<O>>>;

/// Compaction's view of an engine.
///
/// # Concurrency
/// Every method may be called from several threads at once. None calls back into the owner of frames.
///
/// # Errors
/// A zone, a pageblock or a frame that the engine does not have is one with nothing in it: no watermark passes, nothing
/// is found, and nothing changes.
pub trait CompactionView: Leases + Sized {
    /// Whether blocks of several frames can be taken, joined and parted, and so move as a whole.
    const MOVES_BLOCKS: bool = false;

    /// Describes a zone, or `None` where there is no such zone.
    fn zone(&self, zone: ZoneId) -> Option<ZoneView>;

    /// Returns what compaction remembers of a zone, or `None` where there is no such zone.
    fn zone_state(&self, zone: ZoneId) -> Option<&ZoneState>;

    /// Returns the knobs.
    fn knobs(&self) -> &Knobs;

    /// Returns whether an allocation of this order passes a watermark of `mark` frames, and a block for it is free.
    ///
    /// # Linux
    /// `zone_watermark_ok`. `flags` are the request's privileges, for an engine that heeds them; `lent` says whether
    /// frames that their owners lend count.
    fn watermark_ok(
        &self,
        zone: ZoneId,
        order: Order,
        mark: Frames,
        highest: ZoneKind,
        flags: RequestFlags,
        lent: bool,
    ) -> bool;

    /// Returns whether an allocation of this order passes a watermark of `mark` frames that must be free in whole
    /// pageblocks; `None` where the background counts every free frame, which is the default.
    ///
    /// # Linux
    /// `NR_FREE_PAGES_BLOCKS`: what the background goes by with `vm.defrag_mode` (6.15 and later).
    fn passes_in_pageblocks(
        &self,
        _zone: ZoneId,
        _order: Order,
        _mark: Frames,
        _highest: ZoneKind,
    ) -> Option<bool> {
        None
    }

    /// Returns whether a free block could be given to a request of this order and type, from its own type or from one
    /// whose pageblock it may take.
    ///
    /// # Linux
    /// The last part of `compact_finished`.
    fn has_suitable(&self, zone: ZoneId, order: Order, m: Migratetype) -> bool;

    /// Returns the free blocks of a zone by order: a row of `/proc/buddyinfo`.
    fn free_blocks(&self, zone: ZoneId) -> [u64; NR_ORDERS];

    /// Describes the part of a pageblock that lies in a zone.
    fn pageblock(&self, zone: ZoneId, block: PageblockId) -> PageblockInfo;

    /// Remembers, or forgets, that a scan found nothing to do in a pageblock.
    fn set_skip(&self, zone: ZoneId, block: PageblockId, skip: bool);

    /// Describes a frame: a hint.
    fn frame(&self, pfn: Pfn) -> FrameState;

    /// Reserves a pageblock for one compactor in one role.
    ///
    /// # Errors
    /// The holder, if the pageblock is leased.
    fn lease(&self, block: PageblockId, role: Role, by: CompactorId) -> Result<Lease<'_>, Holder>;

    /// Takes up to `want` free frames out of a part of one pageblock, lowest first, while more than `floor` frames
    /// and those it takes stay free in the zone.
    ///
    /// `give_up` says whether it stops at the first block that would go below the floor, or continues.
    ///
    /// # Linux
    /// `isolate_freepages_block`.
    fn isolate_free(
        &self,
        zone: ZoneId,
        range: Range<Pfn>,
        want: usize,
        floor: Frames,
        give_up: bool,
        out: &mut HeldFrees,
    ) -> FreeScan;

    /// As [`isolate_free`](Self::isolate_free), but takes free blocks whole, so that `out` may end with more than
    /// `want` frames, and gives up at the floor. While it finds nothing it goes on by `stride` frames.
    ///
    /// The default takes no more frames than are wanted, and does not stride.
    ///
    /// # Linux
    /// `isolate_freepages_block`, as it is since 5.1.
    fn isolate_free_blocks(
        &self,
        zone: ZoneId,
        range: Range<Pfn>,
        want: usize,
        floor: Frames,
        stride: u64,
        out: &mut HeldFrees,
    ) -> FreeScan {
        let _ = stride;
        self.isolate_free(zone, range, want, floor, true, out)
    }

    /// Shows `see` the free movable blocks of one order, beginning at one end of their list, until it has seen enough;
    /// `false` where the engine keeps no such lists, which is the default.
    ///
    /// The zone's lock may be held meanwhile: `see` may read what this trait says of pageblocks, and nothing more.
    fn see_list(&self, zone: ZoneId, order: Order, from: ListEnd, see: impl FnMut(Pfn) -> bool) -> bool {
        let _ = (zone, order, from, see);
        false
    }

    /// Turns a list of free movable blocks, so that the next search from the same end begins with what this one has not
    /// seen. `block` was seen last; a search from the head turns past it, one from the tail up to it. Nothing happens
    /// if it has left the list.
    ///
    /// # Linux
    /// `move_freelist_head`, `move_freelist_tail`.
    fn turn_list(&self, zone: ZoneId, block: BlockId, from: ListEnd) {
        let _ = (zone, block, from);
    }

    /// Takes a free block whole, unless the zone would go below the floor or the block has left its list; returns
    /// whether it did.
    ///
    /// # Linux
    /// `__isolate_free_page`.
    fn isolate_block(&self, zone: ZoneId, block: BlockId, floor: Frames, out: &mut HeldFrees) -> bool {
        let _ = (zone, block, floor, out);
        false
    }

    /// Returns whether another CPU holds the zone's lock. The default says no.
    fn is_locked(&self, zone: ZoneId) -> bool {
        let _ = zone;
        false
    }

    /// Takes about `want` free frames straight from a zone, as an allocation of movable single frames would, while more
    /// than `mark` and one frame stay free; `offer` takes each one and returns whether it wants another. A frame
    /// belongs to `offer` once it is called with it; if `offer` panics, the frames that it was not called with go back.
    /// `waits` says whether to wait for a zone that is in use.
    ///
    /// # Linux
    /// `isolate_freepages_direct` of document 002: it holds the zone's lock, which asynchronous compaction only tries.
    fn take_direct(
        &self,
        cx: &Cx,
        zone: ZoneId,
        mark: Frames,
        waits: bool,
        want: usize,
        offer: impl FnMut(Pfn) -> bool,
    ) -> Direct;

    /// Returns a block that compaction holds to its zone, past the per-CPU lists.
    fn give_back(&self, block: BlockId);

    /// Frees a block that compaction took and did not need, as any block is freed. The default returns it to its zone.
    fn free_leftover(&self, cx: &Cx, block: BlockId) {
        let _ = cx;
        self.give_back(block);
    }

    /// Makes one allocated block of the single frames of a block that was taken from a stock; returns whether it did.
    /// Where a frame was lost, because a caller freed it without owning it, the others are given back.
    fn join(&self, block: BlockId) -> bool {
        let _ = block;
        false
    }

    /// Makes single frames of such a block again, so that it can return to a stock; `false` where the block was lost.
    fn part(&self, block: BlockId) -> bool {
        let _ = block;
        false
    }

    /// Is told of each block whose contents have moved, to the one that starts at `to`, before it is freed.
    fn migrated(&self, from: BlockId, to: Pfn) {
        let _ = (from, to);
    }

    /// Frees a block whose contents have moved, as any block is freed: into the CPU's list where that takes its order.
    fn free_migrated(&self, cx: &Cx, block: BlockId);

    /// Returns the frames in this CPU's lists of a zone to it.
    fn drain_local(&self, cx: &Cx, zone: ZoneId);

    /// Returns the frames in all CPUs' lists of a zone to it. The default empties this CPU's.
    ///
    /// # Linux
    /// `drain_all_pages`.
    fn drain_zone(&self, cx: &Cx, zone: ZoneId) {
        self.drain_local(cx, zone);
    }

    /// Takes a block that has just become free as a whole, before another request does.
    fn capture(&self, cx: &Cx, block: BlockId, m: Migratetype) -> Option<Pfn>;

    /// Adds to a counter.
    fn tally(&self, cx: &Cx, counter: Counter, n: u64);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

    struct Book(AtomicU64);

    impl Leases for Book {
        fn release(&self, block: PageblockId, holder: Holder) {
            self.0.store(block.0 << 8 | u64::from(holder.by.0), SeqCst);
        }
    }

    #[test]
    fn a_dropped_lease_goes_back_in_its_holders_name() {
        let book = Book(AtomicU64::new(0));
        let lease = Lease::granted(&book, PageblockId(7), Holder { by: CompactorId(3), role: Role::Source });
        assert_eq!(book.0.load(SeqCst), 0);
        drop(lease);
        assert_eq!(book.0.load(SeqCst), 7 << 8 | 3);
    }
}
