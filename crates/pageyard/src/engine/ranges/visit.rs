//! Free blocks, taken out of allocation one after another: for balloons and for free page reporting.

use crate::engine::geometry::{
    BLOCK_FRAMES, BLOCK_ORDER, BlockIdx, FrameIdx, LARGEST, PAGEBLOCK, WORD, WORD_MASK, WORD_ORDER, WORDS,
};
use crate::engine::map::descriptor::BlockState;
use crate::engine::map::tag::Tag;
use crate::engine::pcp::percpu::PerCpu;
use crate::engine::words::runs;
use crate::engine::yard::Pageyard;
use crate::engine::zone::Zone;
use crate::engine::zone::current::By;
use crate::engine::zone::pageblocks::{Pageblocks, Take, Want};
use pageyard_core::allocator::Cx;
use pageyard_core::clear::{Caches, Clear};
use pageyard_core::error::BadRequest;
use pageyard_core::observer::Observer;
use pageyard_core::units::{BlockId, Frames, Order, Pfn};
use pageyard_sync::Relaxed;

/// The caller's decision about a free block that it visited.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Visit {
    /// It is free again, with the contents that it had.
    Return,
    /// It is free again, and holds zeros now: its next owner need not clear it. Where the engine clears all blocks that
    /// are allocated or freed, the caller is not trusted, and this is `Return`.
    Zeroed,
    /// It is the caller's: a live block, to be freed as any other, and cleared where all are (`init_on_alloc`).
    Keep,
}

/// The totals of a pass over free blocks.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Visited {
    /// Where the pass goes on; none where it is over.
    pub next: Option<Pfn>,
    /// Blocks that the callback was called with.
    pub blocks: u64,
    /// Frames that it kept.
    pub kept: Frames,
    /// Whether it stopped because the next block would have taken the zone below its low watermark.
    pub below_low: bool,
}

impl<P: PerCpu, O: Observer, C: Clear> Pageyard<'_, P, O, C> {
    /// Takes free blocks of at least `least` out of allocation, one after another by their addresses from `from` on,
    /// and calls `visit` with each: while it runs, the block is free and cannot be allocated. It answers whether the
    /// block goes back or stays the caller's.
    ///
    /// Blocks up to a pageblock are as large as they are there, halves of pageblocks at most, or the pageblock; above
    /// that, they are of `least`. Not visited: what lies in per-CPU lists ([`drain`](Pageyard::drain) first),
    /// pageblocks that are isolated, leased to a compactor, or reserved for atomic requests, and contiguous areas.
    ///
    /// It looks at about `most` frames, at least at one pageblock or aligned block, and says where the next call goes
    /// on. One block is out of allocation at a time, and none where that takes its zone below its low watermark.
    ///
    /// # Errors
    /// [`BadRequest::NoSuchCpu`], [`BadRequest::OrderTooLarge`].
    ///
    /// # Concurrency
    /// Lock-free. What is allocated or freed meanwhile may be visited or not.
    ///
    /// # Panics
    /// Where `visit` panics, its block goes back. Where an observer panics that is told of a block that is kept, that
    /// block is live and has no owner.
    ///
    /// # Linux
    /// `page_reporting_cycle`, and `alloc_pages` of `virtio_balloon`. Difference: a block is not marked as reported; a
    /// pass visits it whether it was in use since the last one or not.
    ///
    /// # Examples
    #[cfg_attr(feature = "alloc", doc = "```")]
    #[cfg_attr(not(feature = "alloc"), doc = "```ignore")]
    /// use pageyard::{engine::Visit, *};
    ///
    /// let regions = [Region::managed(Pfn(0), Frames(1 << 18), NodeId(0), ZoneKind::Normal)]; // 1 GiB
    /// let yard = Pageyard::owned(&MemoryMap::new(&regions)?, Config::new(1), TryLock)?;
    ///
    /// let (mut from, mut told) = (Some(Pfn(0)), Frames(0));
    /// while let Some(at) = from {
    ///     let did = yard.visit_free_blocks(&Cx::on(CpuId(0)), Order::of(9), at, Frames(1 << 15), |block| {
    ///         told += block.order.frames(); // tell the host that it may take this memory back
    ///         Visit::Return
    ///     })?;
    ///     from = did.next;
    /// }
    /// assert_eq!(told, Frames(1 << 18));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn visit_free_blocks(
        &self,
        cx: &Cx,
        least: Order,
        from: Pfn,
        most: Frames,
        mut visit: impl FnMut(BlockId) -> Visit,
    ) -> Result<Visited, BadRequest> {
        self.check_cpu(cx)?;
        if least > LARGEST {
            return Err(BadRequest::OrderTooLarge { order: least, largest: LARGEST });
        }
        let mut pass = Pass { least, cx, left: most.0, did: Visited::default() };
        for zone in self.zones.iter().filter(|zone| zone.pageblocks.span.end() > from) {
            let start = from.max(zone.pageblocks.span.start);
            if let Some(next) = self.visit_zone(zone, start, &mut pass, &mut visit) {
                pass.did.next = Some(next);
                break;
            }
        }
        Ok(pass.did)
    }

    /// Visits the blocks of a zone; returns where it stopped before its end.
    fn visit_zone(
        &self,
        zone: &Zone<'_>,
        from: Pfn,
        pass: &mut Pass<'_>,
        visit: &mut impl FnMut(BlockId) -> Visit,
    ) -> Option<Pfn> {
        let pageblocks = &zone.pageblocks;
        let step = pass.least.max(PAGEBLOCK);
        let mut at = from;
        while at < pageblocks.span.end() {
            if pass.left == 0 {
                return Some(at);
            }
            let first = at.align_down(step);
            let next = first + step.frames();
            if pass.least > PAGEBLOCK {
                // One that began before `from` was visited, or lies in the zone before.
                if first >= at && !self.visit_run(zone, first, pass, visit) {
                    return Some(at);
                }
            } else if let Some(stopped) = self.visit_pageblock(zone, at, pass, visit) {
                return Some(stopped);
            }
            pass.left = pass.left.saturating_sub(next.0 - at.0);
            at = next;
        }
        None
    }

    /// Visits one aligned run of pageblocks, if it is free. Returns whether the pass goes on.
    fn visit_run(
        &self,
        zone: &Zone<'_>,
        first: Pfn,
        pass: &mut Pass<'_>,
        visit: &mut impl FnMut(BlockId) -> Visit,
    ) -> bool {
        let pageblocks = &zone.pageblocks;
        let least = pass.least;
        let blocks = 1usize << (least.get() - BLOCK_ORDER);
        let Some(frame) = pageblocks.frame_of(first) else { return true };
        if frame.block().get() + blocks > pageblocks.frames.len() {
            return true;
        }
        let ty = pageblocks.frames.state(frame.block()).migratetype();
        // Of one type, so that claiming it changes none.
        let free = frame.block().run(blocks).all(|block| {
            let state = pageblocks.frames.state(block);
            state.has_type(ty) && is_visited(state) && state.claim_whole().is_some()
        });
        if !free {
            return true;
        }
        let claim = || pageblocks.claim_run_at(frame.block(), least, ty, false);
        self.visit_block(zone, (frame, least), pass, visit, claim)
    }

    /// Visits the free blocks of one pageblock from a frame on. Where the pass stops, returns at which frame.
    fn visit_pageblock(
        &self,
        zone: &Zone<'_>,
        from: Pfn,
        pass: &mut Pass<'_>,
        visit: &mut impl FnMut(BlockId) -> Visit,
    ) -> Option<Pfn> {
        let pageblocks = &zone.pageblocks;
        let frame = pageblocks.frame_of(from)?;
        let (block, cpu) = (frame.block(), pass.cx.cpu);
        let state = pageblocks.frames.state(block);
        if !is_visited(state) || state.free() == 0 {
            return None;
        }
        if frame.offset() == 0 && state.claim_whole().is_some() {
            let want = Want { ty: state.migratetype(), order: PAGEBLOCK, blocks: 1, cpu };
            let claim = || {
                let got = pageblocks.claim_of(block, want, Take::Same, false);
                got.map(|got| pageblocks.free.add(got.claimed)).is_some()
            };
            return (!self.visit_block(zone, (frame, PAGEBLOCK), pass, visit, claim)).then_some(from);
        }
        let mut offset = frame.offset().next_multiple_of(1 << pass.least.get());
        while offset < BLOCK_FRAMES {
            let at = block.frame(offset);
            let Some(order) = free_at(pageblocks, block, offset).filter(|order| *order >= pass.least) else {
                offset += 1 << pass.least.get();
                continue;
            };
            let claim = || pageblocks.claim_exactly(at, order);
            if !self.visit_block(zone, (at, order), pass, visit, claim) {
                return Some(pageblocks.pfn(at));
            }
            offset += 1 << order.get();
        }
        None
    }

    /// Claims a block that looks free, unless the zone is too low for it, and calls back with it. Returns whether the
    /// pass goes on.
    fn visit_block(
        &self,
        zone: &Zone<'_>,
        (frame, order): (FrameIdx, Order),
        pass: &mut Pass<'_>,
        visit: &mut impl FnMut(BlockId) -> Visit,
        claim: impl FnOnce() -> bool,
    ) -> bool {
        let pageblocks = &zone.pageblocks;
        let size = order.frames();
        if pageblocks.free_above(zone.online.low().0, size.0) < size.0 {
            pass.did.below_low = true;
            return false;
        }
        if !claim() {
            return true;
        }
        let mut lent = Lent { pageblocks, frame, order, zeroed: false };
        pass.did.blocks += 1;
        let answer = visit(BlockId { pfn: pageblocks.pfn(frame), order });
        if answer == Visit::Zeroed && self.trusts_zeros() {
            // ORDER: Relaxed: it is set before the block is free, and stays.
            self.zero_seen[0].store(1, Relaxed);
            lent.zeroed = true;
        }
        if answer == Visit::Keep {
            core::mem::forget(lent);
            pass.did.kept += size;
            let ty = pageblocks.frames.state(frame.block()).migratetype();
            let pfn = self.hand_out(zone, pass.cx, frame, order, ty);
            if C::ACTIVE && self.config.init_on_alloc && !self.was_zeroed(pfn) {
                self.clear_one(pfn, order, Caches::Cold);
            }
        }
        true
    }
}

/// A pass over free blocks.
struct Pass<'a> {
    least: Order,
    cx: &'a Cx,
    /// Frames that it may still look at.
    left: u64,
    did: Visited,
}

/// A block that was claimed and has no tag. It goes back where it is dropped.
struct Lent<'a, 'm> {
    pageblocks: &'a Pageblocks<'m>,
    frame: FrameIdx,
    order: Order,
    /// Whether it holds zeros now, whatever it held before.
    zeroed: bool,
}

impl Drop for Lent<'_, '_> {
    fn drop(&mut self) {
        let zero = self.zeroed || self.pageblocks.frames.tag(self.frame) == Tag::FreeZero;
        self.pageblocks.free.add(self.pageblocks.release_block(self.frame, self.order, zero, By::NONE));
    }
}

/// Returns whether the free blocks of a pageblock in this state are visited.
fn is_visited(state: BlockState) -> bool {
    let requested = state.migratetype().is_requested();
    requested && !state.is_hole() && !state.is_huge() && !state.is_isolated() && state.owner().is_none()
}

/// Returns the order of the largest free block inside a pageblock that starts at an offset of it.
fn free_at(pageblocks: &Pageblocks<'_>, block: BlockIdx, offset: u32) -> Option<Order> {
    let frame = block.frame(offset);
    let (word, bit) = (frame.word(), frame.bit());
    let free = |word| pageblocks.frames.free_bits(block, word);
    let bits = free(word);
    if bits == WORD_MASK && bit == 0 {
        let aligned = |order: &Order| offset.trailing_zeros() >= u32::from(order.get());
        let is_free = |order: &Order| {
            (word..WORDS.min(word + (1 << (order.get() - WORD_ORDER)))).all(|w| free(w) == WORD_MASK)
        };
        let inside = WORD.up_to(Order::of(BLOCK_ORDER - 1)).rev();
        return inside.filter(aligned).find(is_free).or(Some(WORD));
    }
    let most = Order::of(bit.trailing_zeros().min(u32::from(WORD_ORDER)) as u8);
    Order::ZERO.up_to(most).rev().find(|order| runs(bits, order.get()) >> bit & 1 != 0)
}
