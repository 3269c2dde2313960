//! What compaction sees of the engine. No step here is new to the protocol: compaction claims, releases and leases as
//! any call does, and a frame that it holds is an allocated block of order 0.

use super::geometry::{BLOCK_FRAMES, BLOCK_ORDER, BlockIdx, FrameIdx, MAX_ORDER, WORD_FRAMES, WORD_ORDER};
use super::map::frame_map::Masks;
use super::map::index::Bins;
use super::map::tag::Tag;
use super::map::tree::SearchEffort;
use super::pcp::percpu::PerCpu;
use super::report::blocks_of;
use super::words::runs;
use super::yard::Pageyard;
use super::zone::Zone;
use super::zone::choose;
use super::zone::hints::Cursor;
use super::zone::pageblocks::{Pageblocks, Take, Want};
use core::ops::Range;
use pageyard_core::allocator::Cx;
use pageyard_core::block::holders;
use pageyard_core::clear::Clear;
use pageyard_core::compaction::{
    CLUSTER, Choice, Chooser, CompactionView, Direct, FrameState, FreeScan, FreeStock, Holder, Knobs, Lease,
    Leases, PageblockInfo, Plan, Role, Slots, Stock, ZoneState, ZoneView,
};
use pageyard_core::memmap::{ZoneKind, ZoneSpan};
use pageyard_core::migratetype::Migratetype;
use pageyard_core::observer::Observer;
use pageyard_core::request::RequestFlags;
use pageyard_core::stats::Counter;
use pageyard_core::units::{BlockId, CompactorId, Frames, NR_ORDERS, Order, PageblockId, Pfn, ZoneId};

/// How many compactors a descriptor can tell apart, each with its two ends.
const COMPACTORS: u16 = 127;

/// Returns the number under which a pageblock is leased to a holder.
fn lease_number(holder: Holder) -> CompactorId {
    CompactorId(holder.by.0 % COMPACTORS * 2 + u16::from(holder.role == Role::Target))
}

impl<'m, P: PerCpu, O: Observer, C: Clear> Pageyard<'m, P, O, C> {
    fn zone_at(&self, zone: ZoneId) -> Option<&'m Zone<'m>> {
        self.zones.get(zone.index())
    }

    /// Returns a zone's part of a pageblock.
    fn part_at(&self, zone: ZoneId, block: PageblockId) -> Option<(&'m Pageblocks<'m>, BlockIdx)> {
        let pageblocks = &self.zone_at(zone)?.pageblocks;
        Some((pageblocks, pageblocks.block_of(block)?))
    }

    /// Marks a frame that was just claimed as one that compaction holds.
    pub(super) fn hold(&self, zone: &Zone<'_>, frame: FrameIdx) -> Pfn {
        zone.pageblocks.frames.allocate_tag(frame, 0);
        zone.pageblocks.pfn(frame)
    }

    /// Gives a block back to its zone, past the lists, if it is still the caller's.
    fn release_straight(&self, pfn: Pfn, order: Order) -> bool {
        let Some((zone, frame)) = self.zone_of(pfn) else { return false };
        let won = self.win_block(&zone.pageblocks, frame, order, Tag::Free).is_ok();
        if won {
            // Single frames that compaction holds were never handed out, and moved frames were reported as migrated:
            // what is left is a block that was captured and not taken.
            if order > Order::ZERO {
                self.tell_freed(zone, frame, order);
            }
            zone.pageblocks.free.add(zone.pageblocks.release_block(frame, order.get(), false));
        }
        won
    }
}

impl<P: PerCpu, O: Observer, C: Clear> Leases for Pageyard<'_, P, O, C> {
    fn release(&self, block: PageblockId, holder: Holder) {
        self.end_lease(block, lease_number(holder));
    }
}

impl<P: PerCpu, O: Observer, C: Clear> CompactionView for Pageyard<'_, P, O, C> {
    type Stock = FreeStock;
    type Room<T> = Slots<T, CLUSTER>;

    fn zone(&self, zone: ZoneId) -> Option<ZoneView> {
        let zone = self.zone_at(zone)?;
        let span = ZoneSpan { managed: zone.online.managed(), ..zone.pageblocks.span };
        Some(ZoneView {
            span,
            free: Frames(zone.pageblocks.free()),
            marks: zone.online.marks(),
            boost: Frames::ZERO,
        })
    }

    fn zone_state(&self, zone: ZoneId) -> Option<&ZoneState> {
        self.zone_at(zone).map(|zone| &zone.compaction)
    }

    fn knobs(&self) -> &Knobs {
        &self.config.compaction
    }

    fn watermark_ok(
        &self,
        zone: ZoneId,
        order: Order,
        mark: Frames,
        highest: ZoneKind,
        _: RequestFlags,
    ) -> bool {
        let Some(Zone { pageblocks, protection, .. }) = self.zone_at(zone) else { return false };
        let reserve = protection[highest.index()].0 + pageblocks.highatomic_free();
        let kept = mark.0.saturating_add(reserve);
        pageblocks.free().checked_sub(order.frames().0).is_some_and(|left| left >= kept)
            && (order == Order::ZERO || self.has_suitable(zone, order, Migratetype::Movable))
    }

    fn has_suitable(&self, zone: ZoneId, order: Order, m: Migratetype) -> bool {
        let Some(Zone { pageblocks, .. }) = self.zone_at(zone) else { return false };
        if order.get() > BLOCK_ORDER {
            return order.get() <= MAX_ORDER
                && pageblocks
                    .index
                    .find_run(order.get(), BlockIdx::new(0), &mut SearchEffort::default())
                    .is_some();
        }
        if m == Migratetype::Isolate {
            return false;
        }
        let bins = Bins::fitting(order.get());
        let mut types = core::iter::once(&m).chain(m.fallbacks());
        types.any(|m| {
            pageblocks.index.find(*m as u8, bins, BlockIdx::new(0), &mut SearchEffort::default()).is_some()
        })
    }

    fn free_blocks(&self, zone: ZoneId) -> [u64; NR_ORDERS] {
        self.zone_at(zone).map_or([0; NR_ORDERS], |zone| blocks_of(&zone.pageblocks))
    }

    fn pageblock(&self, zone: ZoneId, block: PageblockId) -> PageblockInfo {
        let Some((pageblocks, at)) = self.part_at(zone, block) else {
            let migratetype = Migratetype::Unmovable;
            return PageblockInfo { populated: false, migratetype, free_whole: false, skip: true };
        };
        let s = pageblocks.frames.state(at);
        PageblockInfo {
            populated: !s.is_hole(),
            migratetype: s.migratetype(),
            free_whole: s.is_whole(),
            skip: s.is_skipped(),
        }
    }

    fn set_skip(&self, zone: ZoneId, block: PageblockId, skip: bool) {
        let Some((pageblocks, at)) = self.part_at(zone, block) else { return };
        pageblocks.transit(at, |s| (s.is_skipped() != skip).then(|| s.with_skip(skip)));
    }

    fn frame(&self, pfn: Pfn) -> FrameState {
        let Some((zone, frame)) = self.zone_of(pfn) else { return FrameState::Hole };
        let pageblocks = &zone.pageblocks;
        let s = pageblocks.frames.state(frame.block());
        if s.is_hole() {
            return FrameState::Hole;
        }
        let free = pageblocks.frames.free_bits(frame.block(), frame.word());
        let bit = frame.bit();
        if !s.is_huge() && free >> bit & 1 != 0 {
            let most = WORD_ORDER.min(bit.trailing_zeros().min(u32::from(WORD_ORDER)) as u8);
            let order = (0..=most).rev().find(|k| runs(free, *k) >> bit & 1 != 0).unwrap_or(0);
            return FrameState::Free(Order::of(order));
        }
        match pageblocks.frames.tag(frame) {
            Tag::Allocated(order) | Tag::AllocatedZero(order) => FrameState::Allocated(order),
            Tag::Hole => FrameState::Hole,
            Tag::Splitting => FrameState::Tail,
            Tag::Free | Tag::FreeZero => {
                let inside = holders(pfn, Order::of(MAX_ORDER)).skip(1).any(|b| {
                    let head = pageblocks.frame_of(b.pfn).map(|head| pageblocks.frames.tag(head));
                    head.and_then(Tag::allocated).is_some_and(|order| order >= b.order)
                });
                if inside { FrameState::Tail } else { FrameState::Cached }
            }
        }
    }

    fn lease(&self, block: PageblockId, role: Role, by: CompactorId) -> Result<Lease<'_>, Holder> {
        let holder = Holder { by, role };
        let number = lease_number(holder);
        if self.lease_pageblock(block, number) {
            return Ok(Lease::granted(self, block, holder));
        }
        let owner = self.lease_of(block).unwrap_or(number.0);
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
        let mut scan = FreeScan { scanned: 0, next: range.start, below_floor: false };
        let found = self.zone_at(zone).and_then(|z| Some((z, z.pageblocks.frame_of(range.start)?)));
        let Some((zone, first)) = found else { return FreeScan { next: range.end, ..scan } };
        let pageblocks = &zone.pageblocks;
        let block = first.block();
        let left = u64::from(BLOCK_FRAMES - first.offset()).min(range.end.0.saturating_sub(range.start.0));
        let last = first.plus(left as usize);
        let mut frame = first;
        while frame < last && out.len() < want && !out.is_full() {
            let s = pageblocks.frames.state(block);
            if s.is_huge() || s.is_hole() || s.is_isolated() {
                frame = last;
                break;
            }
            let end = last.min(frame.plus((WORD_FRAMES - frame.bit()) as usize));
            scan.scanned += (end.get() - frame.get()) as u64;
            let free = pageblocks.frames.free_bits(block, frame.word());
            while frame < end && out.len() < want && !out.is_full() {
                if free >> frame.bit() & 1 != 0 {
                    if pageblocks.free().saturating_sub(1) <= floor.0 {
                        scan.below_floor = true;
                        if give_up {
                            scan.next = pageblocks.pfn(frame);
                            return scan;
                        }
                    } else if pageblocks.claim_exactly(frame, 0) {
                        let _fits = out.push(self.hold(zone, frame));
                    }
                }
                frame = frame.plus(1);
            }
        }
        scan.next = if frame >= last { range.end } else { pageblocks.pfn(frame) };
        scan
    }

    fn take_direct(
        &self,
        cx: &Cx,
        zone: ZoneId,
        mark: Frames,
        _: bool,
        want: usize,
        mut offer: impl FnMut(Pfn) -> bool,
    ) -> Direct {
        let Some(zone) = self.zone_at(zone) else { return Direct::Done };
        let pageblocks = &zone.pageblocks;
        let most = want.min(u32::MAX as usize) as u64;
        let room = pageblocks.free().saturating_sub(mark.0.saturating_add(1)).min(most) as u32;
        if room == 0 {
            return Direct::Done;
        }
        for _ in 0..choose::TRIES {
            let next = |step| zone.choices.next(Cursor::Target, pageblocks.frames.len(), step);
            let Some(block) = pageblocks.choose_target(next) else { break };
            let ty = pageblocks.frames.state(block).ty();
            let claim = Want { ty, order: 0, blocks: room, cpu: cx.cpu };
            let Some(got) = pageblocks.claim_of(block, claim, Take::Same, false) else { continue };
            pageblocks.free.add(got.claimed);
            let mut claimed = Claimed { pageblocks, block, left: got.masks };
            while let Some(frame) = claimed.next() {
                if !offer(self.hold(zone, frame)) {
                    break;
                }
            }
            break;
        }
        Direct::Done
    }

    fn choose(&self, plan: &Plan, order: Order, chooser: &mut Chooser) -> Choice {
        // It chooses no single frame, and nothing beyond a pageblock.
        if order == Order::ZERO || order.get() > BLOCK_ORDER {
            return Choice::Nothing;
        }
        let Some(zone) = self.zone_at(plan.zone) else { return Choice::Nothing };
        zone.pageblocks.choose_source(plan, order, chooser, &zone.choices)
    }

    fn give_back(&self, block: BlockId) {
        self.release_straight(block.pfn, block.order);
    }

    fn migrated(&self, from: BlockId, to: Pfn) {
        self.observer.migrated(from.pfn, to);
    }

    /// Straight to the zone: what was emptied becomes free as a whole at once. A move is neither an allocation nor a
    /// free: its target was not counted as an allocation, so this is not counted as a free.
    ///
    /// # Linux
    /// Difference: there the free counts, in `pgfree`, and the target's allocation does not.
    fn free_migrated(&self, _: &Cx, block: BlockId) {
        self.release_straight(block.pfn, block.order);
    }

    /// Moved frames never lie in a list here, so there is nothing to empty.
    fn drain_local(&self, _: &Cx, _: ZoneId) {}

    fn capture(&self, cx: &Cx, block: BlockId, m: Migratetype) -> Option<Pfn> {
        let (zone, frame) = self.zone_of(block.pfn)?;
        let (pageblocks, order) = (&zone.pageblocks, block.order.get());
        let at = frame.block();
        let ty = pageblocks.frames.state(at).ty();
        // No request waits for a single frame, so none is captured.
        let can_be =
            block.pfn.is_aligned(block.order) && (1..=BLOCK_ORDER).contains(&order) && m.is_requested();
        if !can_be || usize::from(ty) >= Migratetype::REQUESTED.len() {
            return None;
        }
        if order == BLOCK_ORDER {
            let want = Want { ty: m as u8, order, blocks: 1, cpu: cx.cpu };
            let how = if ty == m as u8 { Take::Same } else { Take::Convert { from: ty } };
            pageblocks.free.add(pageblocks.claim_of(at, want, how, false)?.claimed);
        } else if !pageblocks.claim_exactly(frame, order) {
            return None;
        }
        Some(self.hand_out(zone, cx, frame, block.order, m))
    }

    fn tally(&self, cx: &Cx, counter: Counter, n: u64) {
        self.count(cx.cpu, counter, n);
    }
}

/// Frames of one pageblock that were claimed and not handed on yet. Those left go back, even where a callback panics.
pub(super) struct Claimed<'a, 'm> {
    pub(super) pageblocks: &'a Pageblocks<'m>,
    pub(super) block: BlockIdx,
    pub(super) left: Masks,
}

impl Claimed<'_, '_> {
    /// Takes the lowest frame.
    pub(super) fn next(&mut self) -> Option<FrameIdx> {
        let word = self.left.iter().position(|mask| *mask != 0)?;
        let bit = self.left[word].trailing_zeros();
        self.left[word] &= self.left[word] - 1;
        Some(self.block.frame(((word as u32) << WORD_ORDER) + bit))
    }
}

impl Drop for Claimed<'_, '_> {
    fn drop(&mut self) {
        let back = self.left;
        // The claim may have noted in the tags that they hold zeros. That is forgotten: a tag may say so of a free
        // frame only where the descriptor does.
        while let Some(frame) = self.next() {
            self.pageblocks.frames.set_tag(frame, Tag::Free);
        }
        let n = back.iter().map(|mask| mask.count_ones()).sum();
        if n > 0 {
            let released = self.pageblocks.release(self.block, n, &back, false, None);
            self.pageblocks.free.add(released.freed);
        }
    }
}
