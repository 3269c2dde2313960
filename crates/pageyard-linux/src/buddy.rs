//! The buddy system: blocks are split in halves when taken and merged with their buddies when freed.
//! Layer: on the zone.

use crate::freelist::End;
use crate::tag::{MAX_PAGE_ORDER, Tag};
use crate::zone::Locked;
use pageyard_core::{BlockId, Frames, Migratetype, Order, PAGEBLOCK_ORDER, Pfn, block};

/// The contents of a pageblock.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Contents {
    /// Frames on free lists.
    pub free: u64,
    /// Frames held by callers who said that they can be moved.
    pub movable: u64,
}

impl Locked<'_> {
    /// Puts a block on the free list of its type.
    pub(crate) fn insert(&mut self, pfn: Pfn, order: Order, m: Migratetype, end: End) {
        self.zone.set_tag(pfn, Tag::Buddy(order, m));
        self.inner.lists.add(self.zone.number(pfn), order, m, end);
        self.account(order, m);
    }

    /// Takes a block off its free list. Its first frame then belongs to no block.
    pub(crate) fn take_off(&mut self, pfn: Pfn, order: Order, m: Migratetype) {
        self.inner.lists.remove(self.zone.number(pfn), order, m);
        self.zone.set_tag(pfn, Tag::Inside);
        self.account(order, m);
    }

    /// Brings the gauges in line with a list that has just changed.
    fn account(&self, order: Order, m: Migratetype) {
        let zone = self.zone;
        let gauge = &zone.blocks[order.index()][m.index()];
        let (old, new) = (gauge.get(), self.inner.lists.len(order, m));
        gauge.set(new);
        let frames = |total: u64| (total + (new << order.get())) - (old << order.get());
        if m != Migratetype::Isolate {
            zone.free.set(frames(zone.free.get()));
        }
        match m {
            Migratetype::HighAtomic => zone.free_highatomic.set(frames(zone.free_highatomic.get())),
            Migratetype::Cma => zone.free_lent.set(frames(zone.free_lent.get())),
            _ => {}
        }
    }

    /// Sets every count of free blocks and frames to none, as after the lists were emptied at one stroke.
    pub(crate) fn forget_counts(&self) {
        self.zone.blocks.iter().flatten().for_each(|gauge| gauge.set(0));
        self.zone.free.set(0);
        self.zone.free_highatomic.set(0);
        self.zone.free_lent.set(0);
    }

    /// Frees a block, merging it with its buddies while they are free.
    ///
    /// # Linux
    /// `__free_one_page`. A block whose parent's buddy is free goes to the tail: the rest of the parent may soon be
    /// freed as well, and then the four merge.
    pub(crate) fn free_one(&mut self, pfn: Pfn, order: Order, m: Migratetype, keep_types: bool) {
        let (pfn, order) = self.merge(pfn, order, m, keep_types);
        let end = if self.merge_likely(pfn, order) { End::Tail } else { End::Head };
        self.insert(pfn, order, m, end);
    }

    /// Frees a block that comes past the per-CPU lists: to the type of its pageblock, or, where lists are pure, each of
    /// its pageblocks to its own.
    ///
    /// # Linux
    /// `free_one_page`, and from 6.10 on `split_large_buddy`.
    pub(crate) fn free_by_pageblock(&mut self, pfn: Pfn, order: Order, pure: bool) {
        let unit = if pure { order.min(PAGEBLOCK_ORDER) } else { order };
        for part in block::blocks(pfn, order.frames(), unit) {
            let of = self.zone.pageblocks.type_of(part.pfn);
            self.free_one(part.pfn, part.order, of, !pure);
        }
    }

    /// Frees a block to the type of its first pageblock and to the tail of the list, so that it is taken last.
    ///
    /// # Linux
    /// `__free_one_page` with `FPI_TO_TAIL`.
    pub(crate) fn free_to_tail(&mut self, pfn: Pfn, order: Order, keep_types: bool) {
        let m = self.zone.pageblocks.type_of(pfn);
        let (pfn, order) = self.merge(pfn, order, m, keep_types);
        self.insert(pfn, order, m, End::Tail);
    }

    fn merge(&mut self, mut pfn: Pfn, mut order: Order, m: Migratetype, keep_types: bool) -> (Pfn, Order) {
        while order < MAX_PAGE_ORDER {
            let buddy = block::buddy(pfn, order);
            let Some(listed) = self.free_block_at(buddy, order) else { break };
            if order >= PAGEBLOCK_ORDER {
                // From here on the buddy is another pageblock, which may have a different type.
                let other = self.zone.pageblocks.type_of(buddy);
                let merges = |m: Migratetype| {
                    m.is_mergeable() || (self.zone.merges_reserved && m == Migratetype::HighAtomic)
                };
                if other != m && !(merges(m) && merges(other)) {
                    break;
                }
                if !keep_types {
                    self.zone.pageblocks.set_type(buddy, m);
                }
            }
            self.take_off(buddy, order, listed);
            pfn = block::parent(pfn, order);
            order = Order::of(order.get() + 1);
        }
        if order >= PAGEBLOCK_ORDER {
            self.zone.owners.end(pfn, order);
        }
        (pfn, order)
    }

    /// Returns the list that the block is on, if a free block of this order starts here.
    fn free_block_at(&self, pfn: Pfn, order: Order) -> Option<Migratetype> {
        match self.zone.tag(pfn) {
            Tag::Buddy(o, m) if o == order => Some(m),
            _ => None,
        }
    }

    /// # Linux
    /// `buddy_merge_likely`.
    fn merge_likely(&self, pfn: Pfn, order: Order) -> bool {
        if order.get() + 1 >= MAX_PAGE_ORDER.get() {
            return false;
        }
        let up = Order::of(order.get() + 1);
        let parent = block::parent(pfn, order);
        self.free_block_at(block::buddy(parent, up), up).is_some()
    }

    /// Takes a block of `order` from the smallest block of type `m` that holds one.
    ///
    /// # Linux
    /// `__rmqueue_smallest`.
    pub(crate) fn take_smallest(&mut self, order: Order, m: Migratetype) -> Option<Pfn> {
        let (from, pfn) = order.up_to(MAX_PAGE_ORDER).find_map(|o| Some((o, self.first(o, m)?)))?;
        self.take_and_split(pfn, from, m, order, m);
        Some(pfn)
    }

    /// Returns the first block of a list.
    pub(crate) fn first(&self, order: Order, m: Migratetype) -> Option<Pfn> {
        Some(self.zone.span.start + Frames(self.inner.lists.first(order, m)?))
    }

    /// Takes a block off its list, keeps its first `order`, and puts the rest on the lists of type `rest`.
    ///
    /// # Linux
    /// `expand`.
    pub(crate) fn take_and_split(
        &mut self,
        pfn: Pfn,
        from: Order,
        m: Migratetype,
        order: Order,
        rest: Migratetype,
    ) {
        self.take_off(pfn, from, m);
        for half in order.up_to(from).rev().skip(1) {
            self.insert(pfn + half.frames(), half, rest, End::Head);
        }
    }

    /// Takes exactly this block out of the free block that holds it; `false` if part of it is not free.
    pub(crate) fn take_exact(&mut self, want: BlockId) -> bool {
        let holder = block::holders(want.pfn, MAX_PAGE_ORDER)
            .filter(|b| b.order >= want.order)
            .find_map(|b| Some((b, self.free_block_at(b.pfn, b.order)?)));
        let Some((holder, m)) = holder else { return false };
        self.take_off(holder.pfn, holder.order, m);
        let mut at = holder.pfn;
        for half in want.order.up_to(holder.order).rev().skip(1) {
            let upper = at + half.frames();
            if want.pfn >= upper {
                self.insert(at, half, m, End::Head);
                at = upper;
            } else {
                self.insert(upper, half, m, End::Head);
            }
        }
        true
    }

    /// Returns the first and last frame + 1 of the pageblock, unless the zone ends inside it.
    pub(crate) fn whole_pageblock(&self, pfn: Pfn) -> Option<(Pfn, Pfn)> {
        let start = pfn.align_down(PAGEBLOCK_ORDER);
        let end = start + PAGEBLOCK_ORDER.frames();
        (start >= self.zone.span.start && end <= self.zone.span.end()).then_some((start, end))
    }

    /// Returns what of a pageblock moves with one of its blocks. Where the zone ends inside it nothing does; where the
    /// zone begins inside it, what follows the block, or, where lists are pure, nothing either.
    ///
    /// # Linux
    /// The beginning of `move_freepages_block`.
    pub(crate) fn movable_part(&self, pfn: Pfn) -> Option<(Pfn, Pfn)> {
        let start = pfn.align_down(PAGEBLOCK_ORDER);
        let end = start + PAGEBLOCK_ORDER.frames();
        match (start >= self.zone.span.start, end <= self.zone.span.end()) {
            (true, true) => Some((start, end)),
            (false, true) if !self.zone.pure => Some((pfn, end)),
            _ => None,
        }
    }

    /// Counts what a pageblock holds; `None` if the zone ends inside it.
    pub(crate) fn survey(&self, pfn: Pfn) -> Option<Contents> {
        let (mut at, end) = self.movable_part(pfn)?;
        let mut contents = Contents::default();
        while at < end {
            let tag = self.zone.tag(at);
            match tag {
                Tag::Buddy(order, _) => contents.free += order.frames().0,
                Tag::Allocated(order, held) if held.movable => contents.movable += order.frames().0,
                _ => {}
            }
            at = at + tag.frames();
        }
        Some(contents)
    }

    /// Moves a pageblock's free blocks to the lists of type `to`; returns how many frames that was.
    ///
    /// Blocks that are on those lists already go to their end, too. Where lists are pure, a block larger than the
    /// pageblock is divided first; otherwise it moves whole if it begins here.
    ///
    /// # Linux
    /// `move_freepages_block`.
    pub(crate) fn move_free(&mut self, pfn: Pfn, to: Migratetype, end: End) -> Frames {
        let Some((mut at, last)) = self.movable_part(pfn) else { return Frames::ZERO };
        if self.zone.pure {
            self.divide_larger(at);
        }
        let mut moved = Frames::ZERO;
        while at < last {
            let tag = self.zone.tag(at);
            if let Tag::Buddy(order, from) = tag {
                self.take_off(at, order, from);
                self.insert(at, order, to, end);
                moved += tag.frames();
            }
            at = at + tag.frames();
        }
        moved
    }

    /// Divides a free block that is larger than a pageblock and holds `start`, so that each part is on its own type's
    /// list.
    pub(crate) fn divide_larger(&mut self, start: Pfn) {
        let larger = block::holders(start, MAX_PAGE_ORDER)
            .filter(|b| b.order > PAGEBLOCK_ORDER)
            .find_map(|b| Some((b, self.free_block_at(b.pfn, b.order)?)));
        let Some((b, m)) = larger else { return };
        self.take_off(b.pfn, b.order, m);
        let end = b.pfn + b.order.frames();
        for part in block::blocks(b.pfn, end - b.pfn, PAGEBLOCK_ORDER) {
            self.insert(part.pfn, part.order, m, End::Head);
        }
    }

    /// Joins a pageblock that is one free block with the other half of a block of two, where both are on one list: such
    /// halves are apart only while they are converted one after the other.
    pub(crate) fn join_halves(&mut self, start: Pfn, end: End) {
        let buddy = block::buddy(start, PAGEBLOCK_ORDER);
        let Some(m) = self.free_block_at(start, PAGEBLOCK_ORDER) else { return };
        if self.free_block_at(buddy, PAGEBLOCK_ORDER) == Some(m) {
            [start, buddy].into_iter().for_each(|half| self.take_off(half, PAGEBLOCK_ORDER, m));
            self.insert(block::parent(start, PAGEBLOCK_ORDER), MAX_PAGE_ORDER, m, end);
        }
    }

    /// Gives a pageblock a type and moves its free blocks along; returns how many frames those are.
    pub(crate) fn convert(&mut self, pfn: Pfn, to: Migratetype, end: End) -> Frames {
        self.zone.pageblocks.set_type(pfn, to);
        self.move_free(pfn, to, end)
    }
}
