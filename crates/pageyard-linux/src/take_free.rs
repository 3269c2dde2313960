//! Free frames that leave the zone for compaction, which holds them as single frames. Layer: on the zone, above
//! `watermark` and `buddy`.

use crate::compaction::{FreeScan, HeldFrees};
use crate::config::Config;
use crate::effort::{Effort, Mark};
use crate::freelist::End;
use crate::tag::{Holding, Tag};
use crate::zone::{Locked, Zone};
use pageyard_core::{BlockId, Frames, Migratetype, Order, PAGEBLOCK_ORDER, Pfn, ZoneKind, block};
use std::ops::Range;

/// The tag of a frame that compaction holds.
pub(crate) const HELD: Tag = Tag::Allocated(Order::ZERO, Holding::MOVABLE);

/// How the free scanner takes what it finds in a part of a pageblock.
pub(crate) struct Taking<'c> {
    /// The frames that it wants to have in the end.
    pub want: usize,
    /// Frames that must stay free.
    pub floor: Frames,
    /// Whether it stops at the first block that would go below the floor.
    pub give_up: bool,
    /// Whether blocks are taken whole; otherwise no more frames than are wanted.
    pub whole: bool,
    /// How many frames it goes on by where it finds nothing.
    pub stride: u64,
    pub config: &'c Config,
}

impl Zone {
    /// Returns whether a block of this order can leave without the zone going below a floor.
    fn can_spare(&self, order: Order, floor: Frames, config: &Config) -> bool {
        let room = floor.0 + order.frames().0;
        let effort = Effort::plain(Mark::Low).of_type(Migratetype::Movable);
        self.enough(Order::ZERO, ZoneKind::Dma, room, effort, config)
    }
}

impl Locked<'_> {
    /// Takes the first `n` frames of a free block as single frames; the rest stays free.
    fn take_single(&mut self, pfn: Pfn, order: Order, m: Migratetype, n: u64) {
        self.take_off(pfn, order, m);
        for frame in pfn.0..pfn.0 + n {
            self.zone.set_tag(Pfn(frame), HELD);
        }
        let rest = Frames(order.frames().0 - n);
        for b in block::blocks(pfn + Frames(n), rest, order) {
            self.insert(b.pfn, b.order, m, End::Head);
        }
    }

    /// Takes a free block whole. A pageblock that gives half of itself at once is movable from then on.
    ///
    /// # Linux
    /// `__isolate_free_page`. Where lists never mix types, the other free blocks of the pageblock move to the far end
    /// of the movable ones, even if they are movable already.
    fn take_whole(&mut self, pfn: Pfn, order: Order, m: Migratetype, config: &Config) {
        self.take_single(pfn, order, m, order.frames().0);
        if order.get() + 1 < PAGEBLOCK_ORDER.get() {
            return;
        }
        for part in block::blocks(pfn, order.frames(), PAGEBLOCK_ORDER) {
            if !self.zone.pageblocks.type_of(part.pfn).is_mergeable() {
                continue;
            }
            if !config.keeps_lists_pure() {
                self.zone.pageblocks.set_type(part.pfn, Migratetype::Movable);
            } else if self.movable_part(part.pfn).is_some() {
                self.convert(part.pfn, Migratetype::Movable, End::Tail);
            }
        }
    }

    /// Takes this block if it is on the list of free movable blocks of its order.
    pub(crate) fn take_listed(
        &mut self,
        block: BlockId,
        floor: Frames,
        config: &Config,
        out: &mut HeldFrees,
    ) -> bool {
        let BlockId { pfn, order } = block;
        let listed = self.zone.tag(pfn) == Tag::Buddy(order, Migratetype::Movable);
        if !listed || !self.zone.can_spare(order, floor, config) {
            return false;
        }
        out.push_block(block);
        self.take_whole(pfn, order, Migratetype::Movable, config);
        true
    }

    /// Looks for free frames in a part of a pageblock, from its lowest frame on.
    ///
    /// # Linux
    /// `isolate_freepages_block`.
    pub(crate) fn scan_for_free(
        &mut self,
        range: Range<Pfn>,
        taking: &Taking<'_>,
        out: &mut HeldFrees,
    ) -> FreeScan {
        let z = self.zone;
        let &Taking { want, whole, stride, .. } = taking;
        let mut scan = FreeScan { scanned: 0, next: range.start.max(z.span.start), below_floor: false };
        while scan.next < range.end.min(z.span.end()) && out.len() < want {
            let pfn = scan.next;
            let tag = z.tag(pfn);
            scan.scanned += 1;
            let Tag::Buddy(order, m) = tag else {
                // A page in use is skipped as a whole; frames in a list are examined one by one, as in Linux.
                let in_use =
                    if matches!(tag, Tag::Allocated(_, held) if !held.loose) { tag.frames().0 } else { 1 };
                scan.next = pfn + Frames(in_use - 1 + stride);
                continue;
            };
            if m == Migratetype::Isolate || !z.can_spare(order, taking.floor, taking.config) {
                scan.below_floor |= m != Migratetype::Isolate;
                if scan.below_floor && taking.give_up {
                    break;
                }
                scan.next = pfn + Frames(stride);
                continue;
            }
            let n = if whole {
                // There is room: fewer blocks than frames are here.
                out.push_block(BlockId { pfn, order });
                self.take_whole(pfn, order, m, taking.config);
                order.frames().0
            } else {
                let inside = order.frames().0.min(range.end.0 - pfn.0);
                let n = inside.min((want - out.len()) as u64);
                self.take_single(pfn, order, m, n);
                for frame in pfn.0..pfn.0 + n {
                    // There is room: `n` was cut to it.
                    out.push(Pfn(frame));
                }
                n
            };
            // A stride leads from the last frame of what was taken, unless that was enough.
            let on = if whole && out.len() < want { stride - 1 } else { 0 };
            scan.next = pfn + Frames(n + on);
        }
        scan.next = scan.next.min(range.end);
        if scan.next >= z.span.end() {
            scan.next = range.end;
        }
        scan
    }
}
