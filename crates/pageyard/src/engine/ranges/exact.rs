//! Counts of frames that are no power of two: in one piece, or in several.

use crate::engine::geometry::LARGEST;
use crate::engine::pcp::percpu::PerCpu;
use crate::engine::yard::Pageyard;
use pageyard_core::allocator::Cx;
use pageyard_core::clear::Clear;
use pageyard_core::error::{AllocError, BadRequest};
use pageyard_core::observer::Observer;
use pageyard_core::range::FrameRange;
use pageyard_core::request::{Request, RequestFlags};
use pageyard_core::units::{Frames, Order, Pfn};

impl<P: PerCpu, O: Observer, C: Clear> Pageyard<'_, P, O, C> {
    /// Allocates exactly `frames` frames that follow each other, the first one aligned to `align`; returns the first.
    /// The request's own order is not looked at.
    ///
    /// A block is allocated that is large enough and aligned, and what is behind the `frames`th frame is freed at once.
    /// The caller has live blocks, the fewest aligned ones that the range consists of (13 frames: orders 3, 2 and 0),
    /// to be freed by [`free_range`](Pageyard::free_range), all together or in any parts, or each by
    /// [`free`](Pageyard::free).
    ///
    /// # Errors
    /// As [`alloc`](Pageyard::alloc) for a block that large; [`BadRequest::Size`] where `frames` is zero or larger than
    /// the largest block. Nothing is allocated.
    ///
    /// # Concurrency
    /// Lock-free. The rest cannot be freed where a free is [`Busy`](crate::FreeError::Busy) (the kernel refuses the
    /// barrier that frees of biased pageblocks need, or 255 threads without sequences free there): then it stays
    /// allocated.
    ///
    /// # Panics
    /// An observer that panics leaves live what was not reported as free by then; it has no owner.
    ///
    /// # Linux
    /// `alloc_pages_exact`. Difference: an alignment apart from the size.
    ///
    /// # Examples
    #[cfg_attr(feature = "alloc", doc = "```")]
    #[cfg_attr(not(feature = "alloc"), doc = "```ignore")]
    /// use pageyard::*;
    ///
    /// let regions = [Region::managed(Pfn(0), Frames(1 << 18), NodeId(0), ZoneKind::Normal)]; // 1 GiB
    /// let yard = Pageyard::owned(&MemoryMap::new(&regions)?, Config::new(1), TryLock)?;
    /// let (cx, request) = (Cx::on(CpuId(0)), Request::new(Order::ZERO, Migratetype::Unmovable));
    ///
    /// let ring = yard.alloc_exact(&cx, Frames(13), Order::of(2), &request)?; // 52 KiB, aligned to 16 KiB
    /// yard.free_range(&cx, ring, Frames(5))?; // in any parts
    /// yard.free_range(&cx, Pfn(ring.0 + 5), Frames(8))?;
    /// let twice = yard.free_range(&cx, ring, Frames(13)).unwrap_err();
    /// assert_eq!((twice.at, twice.freed), (ring, Frames(0)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn alloc_exact(
        &self,
        cx: &Cx,
        frames: Frames,
        align: Order,
        request: &Request,
    ) -> Result<Pfn, AllocError> {
        let size = order_for(frames)?;
        let order = size.max(align);
        let first = self.alloc(cx, &Request { order, ..*request })?;
        let rest = order.frames() - frames;
        if rest > Frames::ZERO {
            // Refused only where the block is no longer the caller's, because another call freed it without owning it,
            // or where there was no barrier: either way this call has nothing more to give.
            let _ = self.free_range(cx, first + frames, rest);
        }
        Ok(first)
    }

    /// Allocates `frames` frames in as few pieces as there are: in one, or else the largest blocks first, none smaller
    /// than `least` but for what is left at the end. Writes the pieces to `out`, from the front, and returns how many
    /// there are. Each is aligned to `least`; blocks that lie next to each other in one zone are one piece. The
    /// request's own order is not looked at.
    ///
    /// Each piece is freed by [`free_range`](Pageyard::free_range), all of it or in any parts.
    ///
    /// Attempts at more than `least` are opportunistic: they neither wake the reclaimer nor go through all pageblocks.
    /// Each that is refused counts as a failed allocation.
    ///
    /// # Errors
    /// As [`alloc`](Pageyard::alloc) for a block of `least`; [`AllocError::Fragmented`] where there would be more
    /// pieces than `out` has room for; [`BadRequest::Size`] for no frames. Nothing is allocated.
    ///
    /// # Concurrency
    /// Lock-free. Other calls may see, and be refused because of, frames that this one gives back in the end.
    ///
    /// # Linux
    /// The loops of `vmalloc` and `iommu_dma_alloc`: `vm_area_alloc_pages`, `__iommu_dma_alloc_pages`.
    pub fn alloc_frames(
        &self,
        cx: &Cx,
        frames: Frames,
        least: Order,
        request: &Request,
        out: &mut [FrameRange],
    ) -> Result<usize, AllocError> {
        if frames == Frames::ZERO {
            return Err(BadRequest::Size { frames, most: Frames(u64::MAX) }.into());
        }
        if least > LARGEST {
            return Err(BadRequest::OrderTooLarge { order: least, largest: LARGEST }.into());
        }
        let mut pieces = Pieces { out, len: 0 };
        let got = self.alloc_pieces(cx, frames, least, request, &mut pieces);
        if got.is_err() {
            for piece in &pieces.out[..pieces.len] {
                // As in `alloc_exact`.
                let _ = self.free_range(cx, piece.first, piece.frames);
            }
        }
        got.map(|()| pieces.len)
    }

    fn alloc_pieces(
        &self,
        cx: &Cx,
        frames: Frames,
        least: Order,
        request: &Request,
        pieces: &mut Pieces<'_>,
    ) -> Result<(), AllocError> {
        let lightly = opportunistic(request);
        // In one piece, with what is behind it given back.
        if order_for(frames).is_ok_and(|order| order > least)
            && !frames.0.is_power_of_two()
            && !pieces.out.is_empty()
            && let Ok(first) = self.alloc_exact(cx, frames, least, &lightly)
        {
            pieces.add(FrameRange::new(first, frames), |_| false);
            return Ok(());
        }
        let (mut left, mut most) = (frames, LARGEST);
        while left > Frames::ZERO {
            let whole = Order::new(left.0.ilog2().min(LARGEST.get().into()) as u8).unwrap_or(LARGEST);
            let order = most.min(whole).max(least);
            let piece = Frames(left.0.min(order.frames().0));
            let how = if order > least { &lightly } else { request };
            match self.alloc_exact(cx, piece, least, &Request { order, ..*how }) {
                Ok(first) => {
                    let range = FrameRange::new(first, piece);
                    // A range is freed within its zone.
                    let zone = |pfn| self.zone_of(pfn).map(|(zone, _)| zone.pageblocks.id);
                    if !pieces.add(range, |last| zone(last) == zone(first)) {
                        let _ = self.free_range(cx, first, piece);
                        return Err(AllocError::Fragmented { order, free: self.free_for(cx, request) });
                    }
                    left -= piece;
                }
                Err(why) => match order.smaller().filter(|smaller| *smaller >= least) {
                    Some(smaller) if !matches!(why, AllocError::BadRequest(_)) => most = smaller,
                    _ => return Err(why),
                },
            }
        }
        Ok(())
    }

    /// Returns the free frames of the zones that may serve a request.
    fn free_for(&self, cx: &Cx, request: &Request) -> Frames {
        self.walk(cx.cpu, request).map(|zone| Frames(zone.pageblocks.free())).sum()
    }
}

/// Returns the order of the smallest block that has this many frames.
fn order_for(frames: Frames) -> Result<Order, BadRequest> {
    let most = LARGEST.frames();
    if frames == Frames::ZERO || frames > most {
        return Err(BadRequest::Size { frames, most });
    }
    Ok(Order::of(frames.0.next_power_of_two().ilog2() as u8))
}

/// Returns a request that is refused where it would take effort. One that may use the reserves of atomic requests keeps
/// its flags: with another it would add to those.
fn opportunistic(request: &Request) -> Request {
    let calm = request.without(RequestFlags::WAKE_RECLAIM.union(RequestFlags::NOFAIL));
    if request.flags.contains(RequestFlags::HIGH) { calm } else { calm.with(RequestFlags::NON_BLOCKING) }
}

/// Pieces that were allocated.
struct Pieces<'o> {
    out: &'o mut [FrameRange],
    len: usize,
}

impl Pieces<'_> {
    /// Adds a piece, to the last one where it lies next to it and `joins` says so of that one's first frame; `false`
    /// where there is no room.
    fn add(&mut self, new: FrameRange, joins: impl Fn(Pfn) -> bool) -> bool {
        if let Some(last) = self.out[..self.len].last_mut().filter(|last| joins(last.first)) {
            let joined = Frames(last.frames.0 + new.frames.0);
            if last.end() == Some(new.first) {
                last.frames = joined;
                return true;
            }
            if new.end() == Some(last.first) {
                *last = FrameRange::new(new.first, joined);
                return true;
            }
        }
        let Some(slot) = self.out.get_mut(self.len) else { return false };
        *slot = new;
        self.len += 1;
        true
    }
}
