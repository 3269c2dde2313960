//! Compaction's view of the reference: its tags, its lists, and leases of pageblocks. Layer: requests, the lowest of
//! them.
//!
//! A frame that compaction holds is an allocated block of order 0 that only compaction knows of. Such frames become one
//! block of several just before one is moved to them.

use crate::allocator::LinuxAllocator;
use crate::compaction::HeldFrees;
use crate::compaction::{
    CompactionView, Direct, FreeScan, Holder, Knobs, Lease, Leases, ListEnd, PageblockInfo, Role, ZoneState,
    ZoneView,
};
use crate::effort::{Effort, Mark, own_privileges};
use crate::events::Origin;
use crate::fallback::{Found, may_take_pageblock};
use crate::freelist::End;
use crate::frees::To;
use crate::tag::{Holding, MAX_PAGE_ORDER, Tag};
use crate::take_free::{HELD, Taking};
use crate::zone::Zone;
use pageyard_core::compaction::FrameState;
use pageyard_core::watermark::Watermarks;
use pageyard_core::{
    BlockId, CompactorId, Counter, Cx, Frames, Migratetype, NR_ORDERS, Order, PAGEBLOCK_ORDER, PageblockId,
    Pfn, RequestFlags, ZoneId, ZoneKind, block,
};
use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering};

/// Returns what the word of a leased pageblock says: never 0.
fn lease_number(holder: Holder) -> u32 {
    (u32::from(holder.by.0) + 1) << 1 | u32::from(holder.role == Role::Target)
}

impl LinuxAllocator {
    /// Returns the word that says which compactor uses a pageblock. A pageblock that two zones share belongs to the
    /// lower one.
    fn lease_word(&self, block: PageblockId) -> Option<&AtomicU32> {
        let last = Pfn(block.start().0 + PAGEBLOCK_ORDER.frames().0 - 1);
        let zone = self.zones.iter().find(|z| z.span.start <= last && block.start() < z.span.end())?;
        zone.pageblocks.lease(block.start().max(zone.span.start))
    }

    fn of(&self, zone: ZoneId) -> &Zone {
        &self.zones[zone.index()]
    }
}

impl Leases for LinuxAllocator {
    fn release(&self, block: PageblockId, holder: Holder) {
        if let Some(word) = self.lease_word(block) {
            // ORDER: Release pairs with the Acquire in `lease`: the next user sees what this one did. A failure reads
            // nothing: another compactor has the lease by now.
            let _ended = word.compare_exchange(lease_number(holder), 0, Ordering::Release, Ordering::Relaxed);
        }
    }
}

impl Zone {
    /// Returns the first frame of the zone in a pageblock.
    fn first_of(&self, block: PageblockId) -> Pfn {
        block.start().max(self.span.start)
    }

    /// Says what a frame is that starts no block.
    fn inside(&self, pfn: Pfn) -> FrameState {
        let holder = block::holders(pfn, MAX_PAGE_ORDER).find_map(|b| {
            let tag = self.span.spans(b.pfn).then(|| self.tag(b.pfn))?;
            (b.pfn + tag.frames() > pfn && tag != Tag::Inside).then_some(tag)
        });
        match holder {
            Some(Tag::Allocated(_, held)) if held.loose => FrameState::Loose,
            Some(Tag::Allocated(..)) => FrameState::Tail,
            Some(Tag::Cached(..) | Tag::Late(_)) => FrameState::Cached,
            _ => FrameState::Inside,
        }
    }
}

impl CompactionView for LinuxAllocator {
    const MOVES_BLOCKS: bool = true;

    fn zone(&self, zone: ZoneId) -> Option<ZoneView> {
        let z = self.zones.get(zone.index())?;
        let mark = |mark| Frames(z.mark(mark));
        let marks = Watermarks {
            min: mark(Mark::Min),
            low: mark(Mark::Low),
            high: mark(Mark::High),
            ..z.marks.get()
        };
        Some(ZoneView { span: z.span, free: Frames(z.free.get()), marks, boost: Frames(z.boost.get()) })
    }

    fn zone_state(&self, zone: ZoneId) -> Option<&ZoneState> {
        self.zones.get(zone.index()).map(|z| &z.compaction)
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
        flags: RequestFlags,
        lent: bool,
    ) -> bool {
        let reserves = own_privileges(flags);
        let effort = Effort { reserves, lent, ..Effort::plain(Mark::Low) };
        self.of(zone).enough(order, highest, mark.0, effort, &self.config)
    }

    fn passes_in_pageblocks(
        &self,
        zone: ZoneId,
        order: Order,
        mark: Frames,
        highest: ZoneKind,
    ) -> Option<bool> {
        let effort = Effort::plain(Mark::High);
        let passes = || self.of(zone).enough_in_pageblocks(order, highest, mark.0, effort, &self.config);
        self.config.defrag_mode.then(passes)
    }

    fn has_suitable(&self, zone: ZoneId, order: Order, m: Migratetype) -> bool {
        let z = self.of(zone);
        order.up_to(MAX_PAGE_ORDER).any(|o| {
            let has = |m: Migratetype| z.blocks[o.index()][m.index()].get() > 0;
            let lent = m == Migratetype::Movable && has(Migratetype::Cma);
            has(m) || lent || (may_take_pageblock(o, m) && m.fallbacks().iter().any(|f| has(*f)))
        })
    }

    fn free_blocks(&self, zone: ZoneId) -> [u64; NR_ORDERS] {
        let mut row = [0; NR_ORDERS];
        for (n, by_type) in row.iter_mut().zip(self.of(zone).free_blocks()) {
            *n = by_type.iter().sum();
        }
        row
    }

    fn pageblock(&self, zone: ZoneId, block: PageblockId) -> PageblockInfo {
        let z = self.of(zone);
        let first = z.first_of(block);
        let whole = |b: BlockId| matches!(z.tag(b.pfn), Tag::Buddy(o, _) if o >= b.order && b.order >= PAGEBLOCK_ORDER && z.span.spans(b.pfn));
        PageblockInfo {
            populated: z.pageblocks.is_present(first),
            migratetype: z.pageblocks.type_of(first),
            free_whole: block::holders(block.start(), MAX_PAGE_ORDER).any(whole),
            skip: z.pageblocks.is_skipped(first),
        }
    }

    fn set_skip(&self, zone: ZoneId, block: PageblockId, skip: bool) {
        let z = self.of(zone);
        z.pageblocks.set_skipped(z.first_of(block), skip);
    }

    fn frame(&self, pfn: Pfn) -> FrameState {
        let Some(zone) = self.zone_of(pfn) else { return FrameState::Hole };
        match zone.tag(pfn) {
            Tag::Hole => FrameState::Hole,
            Tag::Buddy(order, _) => FrameState::Free(order),
            Tag::Cached(..) | Tag::Late(_) => FrameState::Cached,
            Tag::Allocated(_, held) if held.loose => FrameState::Loose,
            Tag::Allocated(order, _) => FrameState::Allocated(order),
            Tag::Inside => zone.inside(pfn),
        }
    }

    fn lease(&self, block: PageblockId, role: Role, by: CompactorId) -> Result<Lease<'_>, Holder> {
        let holder = Holder { by, role };
        let Some(word) = self.lease_word(block) else { return Err(holder) };
        // ORDER: Acquire pairs with the Release in `release`. A failure reads only the holder.
        match word.compare_exchange(0, lease_number(holder), Ordering::Acquire, Ordering::Relaxed) {
            Ok(_) => Ok(Lease::granted(self, block, holder)),
            Err(held) => {
                let role = if held & 1 == 0 { Role::Source } else { Role::Target };
                Err(Holder { by: CompactorId((held >> 1).wrapping_sub(1) as u16), role })
            }
        }
    }

    fn isolate_free(
        &self,
        zone: ZoneId,
        range: Range<Pfn>,
        want: usize,
        floor: Frames,
        give_up: bool,
        out: &mut HeldFrees,
    ) -> FreeScan {
        let (config, stride) = (&self.config, 1);
        let taking = Taking { want, floor, give_up, whole: false, stride, config };
        self.of(zone).lock().scan_for_free(range, &taking, out)
    }

    fn isolate_free_blocks(
        &self,
        zone: ZoneId,
        range: Range<Pfn>,
        want: usize,
        floor: Frames,
        stride: u64,
        out: &mut HeldFrees,
    ) -> FreeScan {
        let taking = Taking { want, floor, give_up: true, whole: true, stride, config: &self.config };
        self.of(zone).lock().scan_for_free(range, &taking, out)
    }

    fn see_list(&self, zone: ZoneId, order: Order, from: ListEnd, mut see: impl FnMut(Pfn) -> bool) -> bool {
        if order > MAX_PAGE_ORDER {
            return true;
        }
        let z = self.of(zone);
        let locked = z.lock();
        let lists = &locked.inner.lists;
        let mut see = |frame: u64| see(z.span.start + Frames(frame));
        // Whether it saw all of the list does not matter here.
        let _all = match from {
            ListEnd::Head => lists.iter(order, Migratetype::Movable).all(&mut see),
            ListEnd::Tail => lists.iter_back(order, Migratetype::Movable).all(&mut see),
        };
        true
    }

    fn turn_list(&self, zone: ZoneId, block: BlockId, from: ListEnd) {
        let z = self.of(zone);
        let mut locked = z.lock();
        if z.tag(block.pfn) == Tag::Buddy(block.order, Migratetype::Movable) {
            let becomes = match from {
                ListEnd::Head => End::Tail,
                ListEnd::Tail => End::Head,
            };
            locked.inner.lists.turn(z.number(block.pfn), block.order, Migratetype::Movable, becomes);
        }
    }

    fn isolate_block(&self, zone: ZoneId, block: BlockId, floor: Frames, out: &mut HeldFrees) -> bool {
        self.of(zone).lock().take_listed(block, floor, &self.config, out)
    }

    fn is_locked(&self, zone: ZoneId) -> bool {
        self.of(zone).is_locked()
    }

    fn take_direct(
        &self,
        _: &Cx,
        zone: ZoneId,
        mark: Frames,
        waits: bool,
        _: usize,
        mut offer: impl FnMut(Pfn) -> bool,
    ) -> Direct {
        let z = self.of(zone);
        let Some(mut locked) = (if waits { Some(z.lock()) } else { z.try_lock() }) else {
            return Direct::Contended;
        };
        let effort = Effort::plain(Mark::Low).of_type(Migratetype::Movable);
        while z.enough(Order::ZERO, ZoneKind::Dma, mark.0 + 1, effort, &self.config) {
            let mut found = Found::default();
            let pfn = locked.rmqueue(Order::ZERO, Migratetype::Movable, effort, &self.config, &mut found);
            let Some(pfn) = pfn else { break };
            z.set_tag(pfn, HELD);
            if !offer(pfn) {
                break;
            }
        }
        Direct::Done
    }

    fn give_back(&self, block: BlockId) {
        let Some(zone) = self.zone_of(block.pfn) else { return };
        let tag = zone.tag(block.pfn);
        // A caller that freed it meanwhile, without owning it, took it from compaction: it is already free.
        if matches!(tag, Tag::Allocated(o, _) if o == block.order)
            && zone.tags.swap(zone.number(block.pfn), tag, Tag::Inside)
        {
            let m = zone.pageblocks.type_of(block.pfn);
            zone.lock().free_one(block.pfn, block.order, m, !self.config.keeps_lists_pure());
        }
    }

    fn free_leftover(&self, cx: &Cx, block: BlockId) {
        if self.join(block) {
            let _ = self.free_checked::<()>(cx, block.pfn, block.order, To::Hot);
        }
    }

    fn join(&self, block: BlockId) -> bool {
        let Some(zone) = self.zone_of(block.pfn) else { return false };
        let first = zone.number(block.pfn);
        let inside = first + 1..first + block.order.frames().0;
        let whole = Tag::Allocated(block.order, Holding::MOVABLE);
        // Each frame is won, the first one last: a caller may free one of them meanwhile, without owning it, and so
        // take it from compaction.
        let lost = inside.clone().find(|frame| !zone.tags.swap(*frame, HELD, Tag::Inside));
        let won = inside.start..lost.unwrap_or(inside.end);
        if lost.is_none() && zone.tags.swap(first, HELD, whole) {
            return true;
        }
        // The others go alone. No free can have taken what is inside a block.
        won.for_each(|frame| zone.tags.set(frame, HELD));
        let frames = (0..block.order.frames().0).map(|n| block.pfn + Frames(n));
        frames.for_each(|pfn| self.give_back(BlockId { pfn, order: Order::ZERO }));
        false
    }

    fn part(&self, block: BlockId) -> bool {
        let Some(zone) = self.zone_of(block.pfn) else { return false };
        let first = zone.number(block.pfn);
        // The first frame is won before the others are shown: until then, no free of them can succeed.
        if !zone.tags.swap(first, Tag::Allocated(block.order, Holding::MOVABLE), Tag::Inside) {
            return false;
        }
        (first + 1..first + block.order.frames().0).for_each(|frame| zone.tags.set(frame, HELD));
        zone.tags.set(first, HELD);
        true
    }

    fn free_migrated(&self, cx: &Cx, block: BlockId) {
        // A refused free means that the owner freed it too: it is already free.
        let _ = self.free_checked::<()>(cx, block.pfn, block.order, To::Hot);
    }

    fn drain_local(&self, cx: &Cx, zone: ZoneId) {
        let z = self.of(zone);
        if let Some(pages) = z.pcps.get(cx.cpu.index()) {
            z.drain(&mut pages.lock(), &self.config);
        }
    }

    fn drain_zone(&self, _: &Cx, zone: ZoneId) {
        let z = self.of(zone);
        for pages in &z.pcps {
            z.drain(&mut pages.lock(), &self.config);
        }
    }

    fn capture(&self, cx: &Cx, block: BlockId, m: Migratetype) -> Option<Pfn> {
        let zone = self.zone_of(block.pfn)?;
        // An unmovable request that is smaller than a pageblock leaves movable ones alone, as Linux's capture does.
        let spoils = block.order < PAGEBLOCK_ORDER && m != Migratetype::Movable;
        let of = zone.pageblocks.type_of(block.pfn);
        if block.order > MAX_PAGE_ORDER || !of.is_requested() || (spoils && of == Migratetype::Movable) {
            return None;
        }
        if !zone.lock().take_exact(block) {
            return None;
        }
        zone.set_tag(block.pfn, Tag::Allocated(block.order, Holding::of(m)));
        let local = self.zonelists.home(cx.cpu.index()) == zone.span.node;
        zone.lock().inner.counts.taken.count(block.order, Origin { hit: local, local });
        Some(block.pfn)
    }

    fn tally(&self, _: &Cx, counter: Counter, n: u64) {
        self.counts.pressure.add(counter, n);
    }
}
