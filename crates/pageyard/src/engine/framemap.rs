//! What compaction sees of the engine. No step here is new to the protocol: compaction claims, releases and leases as
//! everybody does, and a frame that it holds is an allocated block of order 0.

use super::choose;
use super::geometry::{BLOCK_FRAMES, BLOCK_ORDER, MAX_ORDER, WORD_FRAMES, WORD_ORDER, WORDS};
use super::index::Shelves;
use super::percpu::PerCpu;
use super::report::blocks_of;
use super::tag::Tag;
use super::tree::Effort;
use super::words::runs;
use super::yard::{Pageyard, Place};
use super::zone::{Take, Want};
use crate::allocator::Cx;
use crate::block::holders;
use crate::compaction::{
    Choice, Chooser, Direct, FrameMap, FrameState, FreeScan, FreeStock, Holder, Knobs, Lease, Leases,
    PageblockInfo, Plan, Role, ZoneState, ZoneView,
};
use crate::memmap::ZoneKind;
use crate::migratetype::Migratetype;
use crate::stats::Counter;
use crate::units::{BlockId, CompactorId, Frames, NR_ORDERS, Order, PageblockId, Pfn, ZoneId};
use core::ops::Range;

/// Numbers of compactors that a descriptor can tell apart, each with its two ends.
const COMPACTORS: u16 = 127;

impl<'m, P: PerCpu> Pageyard<'m, P> {
    fn place(&self, zone: ZoneId) -> &'m Place<'m> {
        &self.places[zone.index()]
    }

    /// Marks a frame that was just claimed as one that compaction holds.
    fn hold(&self, place: &Place<'_>, frame: usize) -> Pfn {
        place.zone.frames.allocate_tag(frame, 0);
        place.zone.pfn(frame)
    }

    /// Gives a block back to its zone, past the lists, if it is still the caller's.
    fn put_straight(&self, pfn: Pfn, order: Order) -> bool {
        let Some((place, frame)) = self.place_of(pfn) else { return false };
        let frames = &place.zone.frames;
        let won = frames.retag(frame, Tag::Allocated(order), Tag::Free).is_ok()
            || frames.retag(frame, Tag::AllocatedZero(order), Tag::Free).is_ok();
        if won {
            place.zone.release_block(0, frame, order.get(), false);
        }
        won
    }
}

impl<P: PerCpu> Leases for Pageyard<'_, P> {
    fn release(&self, block: PageblockId) {
        self.unlease_pageblock(block);
    }
}

impl<P: PerCpu> FrameMap for Pageyard<'_, P> {
    fn zone(&self, zone: ZoneId) -> Option<ZoneView> {
        let place = self.places.get(zone.index())?;
        Some(ZoneView { span: place.zone.span, free: Frames(place.zone.free()), marks: place.marks })
    }

    fn zone_state(&self, zone: ZoneId) -> &ZoneState {
        &self.place(zone).compaction
    }

    fn knobs(&self) -> &Knobs {
        &self.config.compaction
    }

    fn watermark_ok(&self, zone: ZoneId, order: Order, mark: Frames, highest: ZoneKind) -> bool {
        let place = self.place(zone);
        let kept = mark.0 + place.protection[highest.index()].0 + place.zone.highatomic_free();
        place.zone.free().checked_sub(order.frames().0).is_some_and(|left| left >= kept)
            && (order == Order::ZERO || self.has_suitable(zone, order, Migratetype::Movable))
    }

    fn has_suitable(&self, zone: ZoneId, order: Order, m: Migratetype) -> bool {
        let z = &self.place(zone).zone;
        if order.get() > BLOCK_ORDER {
            return order.get() <= MAX_ORDER
                && z.index.find_run(order.get(), 0, &mut Effort::default()).is_some();
        }
        let shelves = Shelves::fitting(order.get());
        let mut types = core::iter::once(&m).chain(m.fallbacks());
        types.any(|m| z.index.find(*m as u8, shelves, 0, &mut Effort::default()).is_some())
    }

    fn free_blocks(&self, zone: ZoneId) -> [u64; NR_ORDERS] {
        blocks_of(&self.place(zone).zone)
    }

    fn pageblock(&self, zone: ZoneId, block: PageblockId) -> PageblockInfo {
        let z = &self.place(zone).zone;
        let at = (block.0 - (z.base >> BLOCK_ORDER)) as usize;
        let s = z.frames.state(at);
        PageblockInfo {
            populated: !s.is_hole(),
            migratetype: s.migratetype(),
            free_whole: s.is_whole(),
            skip: s.is_skipped(),
        }
    }

    fn set_skip(&self, zone: ZoneId, block: PageblockId, skip: bool) {
        let z = &self.place(zone).zone;
        let at = (block.0 - (z.base >> BLOCK_ORDER)) as usize;
        z.transit(at, |s| (s.is_skipped() != skip).then(|| s.with_skip(skip)));
    }

    fn frame(&self, pfn: Pfn) -> FrameState {
        let Some((place, frame)) = self.place_of(pfn) else { return FrameState::Hole };
        let z = &place.zone;
        let s = z.frames.state(frame >> BLOCK_ORDER);
        if s.is_hole() {
            return FrameState::Hole;
        }
        let offset = frame as u32 & (BLOCK_FRAMES - 1);
        let free = z.frames.free_bits(frame >> BLOCK_ORDER, (offset >> WORD_ORDER) as usize);
        let bit = offset & (WORD_FRAMES - 1);
        if !s.is_huge() && free >> bit & 1 != 0 {
            let most = WORD_ORDER.min(bit.trailing_zeros().min(u32::from(WORD_ORDER)) as u8);
            let order = (0..=most).rev().find(|k| runs(free, *k) >> bit & 1 != 0).unwrap_or(0);
            return FrameState::Free(Order::of(order));
        }
        match z.frames.tag(frame) {
            Tag::Allocated(order) | Tag::AllocatedZero(order) => FrameState::Allocated(order),
            Tag::Hole => FrameState::Hole,
            Tag::Splitting => FrameState::Tail,
            Tag::Free | Tag::FreeZero => {
                let inside = holders(pfn, Order::of(MAX_ORDER)).skip(1).any(|b| {
                    let head = z.frame_of(b.pfn).map(|head| z.frames.tag(head));
                    head.and_then(Tag::allocated).is_some_and(|order| order >= b.order)
                });
                if inside { FrameState::Tail } else { FrameState::Cached }
            }
        }
    }

    fn lease(&self, block: PageblockId, role: Role, by: CompactorId) -> Result<Lease<'_>, Holder> {
        let id = by.0 % COMPACTORS * 2 + u16::from(role == Role::Target);
        if self.lease_pageblock(block, CompactorId(id)) {
            return Ok(Lease::granted(self, block, role));
        }
        let owner = self.lease_of(block).unwrap_or(id);
        let role = if owner & 1 == 0 { Role::Source } else { Role::Target };
        Err(Holder { by: CompactorId(owner / 2), role })
    }

    fn isolate_free(
        &self,
        zone: ZoneId,
        range: Range<Pfn>,
        want: usize,
        floor: Frames,
        give_up: bool,
        out: &mut FreeStock,
    ) -> FreeScan {
        let place = self.place(zone);
        let z = &place.zone;
        let mut scan = FreeScan { scanned: 0, next: range.start, below_floor: false };
        let Some(first) = z.frame_of(range.start) else { return FreeScan { next: range.end, ..scan } };
        let block = first >> BLOCK_ORDER;
        let last =
            (first as u64 + (range.end.0 - range.start.0)).min(((block + 1) << BLOCK_ORDER) as u64) as usize;
        let mut frame = first;
        while frame < last && out.len() < want && !out.is_full() {
            let offset = frame as u32 & (BLOCK_FRAMES - 1);
            let s = z.frames.state(block);
            if s.is_huge() || s.is_hole() || s.is_isolated() {
                frame = last;
                break;
            }
            let end = last.min((frame | (WORD_FRAMES as usize - 1)) + 1);
            scan.scanned += (end - frame) as u64;
            let free = z.frames.free_bits(block, (offset >> WORD_ORDER) as usize);
            while frame < end && out.len() < want && !out.is_full() {
                if free >> (frame as u32 & (WORD_FRAMES - 1)) & 1 != 0 {
                    if z.free() <= floor.0 + 1 {
                        scan.below_floor = true;
                        if give_up {
                            scan.next = z.pfn(frame);
                            return scan;
                        }
                    } else if z.claim_exactly(frame, 0) {
                        let _fits = out.push(self.hold(place, frame));
                    }
                }
                frame += 1;
            }
        }
        scan.next = if frame >= last { range.end } else { z.pfn(frame) };
        scan
    }

    fn take_direct(
        &self,
        cx: &Cx,
        zone: ZoneId,
        mark: Frames,
        want: usize,
        mut offer: impl FnMut(Pfn) -> bool,
    ) -> Direct {
        let place = self.place(zone);
        let z = &place.zone;
        let room = z.free().saturating_sub(mark.0 + 1).min(want as u64) as u32;
        if room == 0 {
            return Direct::Done;
        }
        for _ in 0..choose::TRIES {
            let next = |step| place.compaction.next_places(0, z.frames.len(), step);
            let Some(block) = z.choose_target(next) else { break };
            let ty = z.frames.state(block).ty();
            let claim = Want { ty, order: 0, blocks: room, cpu: cx.cpu.index() };
            let Some(got) = z.take(block, claim, Take::Same, false) else { continue };
            let mut wants = true;
            let mut back = [0; WORDS];
            for (w, mask) in got.masks.iter().enumerate() {
                let mut left = *mask;
                while left != 0 {
                    let bit = left.trailing_zeros();
                    left &= left - 1;
                    if wants {
                        wants = offer(
                            self.hold(place, (block << BLOCK_ORDER) + (w << WORD_ORDER) + bit as usize),
                        );
                    } else {
                        back[w] |= 1 << bit;
                    }
                }
            }
            if back != [0; WORDS] {
                z.add_free(cx.cpu.index(), z.release(block, &back, false, None).0);
            }
            break;
        }
        Direct::Done
    }

    fn choose(&self, plan: &Plan, order: Order, chooser: &mut Chooser) -> Choice {
        let place = self.place(plan.zone);
        place.zone.choose_source(plan, order, chooser, &place.compaction)
    }

    fn give_back(&self, block: BlockId) {
        self.put_straight(block.pfn, block.order);
    }

    /// Straight to the zone: what was emptied becomes free as a whole at once.
    fn free_migrated(&self, cx: &Cx, pfn: Pfn) {
        if self.put_straight(pfn, Order::ZERO) {
            self.count(cx.cpu, Counter::Pgfree, 1);
        }
    }

    /// Moved frames never lie in a list here, so there is nothing to empty.
    fn drain_local(&self, _: &Cx, _: ZoneId) {}

    fn capture(&self, cx: &Cx, block: BlockId, m: Migratetype) -> Option<Pfn> {
        let (place, frame) = self.place_of(block.pfn)?;
        let (z, order) = (&place.zone, block.order.get());
        let at = frame >> BLOCK_ORDER;
        let ty = z.frames.state(at).ty();
        if order > BLOCK_ORDER || usize::from(ty) >= Migratetype::REQUESTED.len() {
            return None;
        }
        if order == BLOCK_ORDER {
            let want = Want { ty: m as u8, order, blocks: 1, cpu: cx.cpu.index() };
            z.take(at, want, if ty == m as u8 { Take::Same } else { Take::Convert { from: ty } }, false)?;
        } else if !z.claim_exactly(frame, order) {
            return None;
        }
        Some(self.hand_out(place, cx, frame, order))
    }

    fn tally(&self, cx: &Cx, counter: Counter, n: u64) {
        self.count(cx.cpu, counter, n);
    }
}
