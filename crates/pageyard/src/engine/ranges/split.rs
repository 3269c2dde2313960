//! A live block cut at a frame, into the fewest live blocks.

use crate::engine::geometry::{FrameIdx, PAGEBLOCK};
use crate::engine::map::tag::Tag;
use crate::engine::pcp::percpu::PerCpu;
use crate::engine::requests::win::Unwon;
use crate::engine::yard::Pageyard;
use crate::engine::zone::Zone;
use crate::engine::zone::pageblocks::Pageblocks;
use pageyard_core::clear::Clear;
use pageyard_core::observer::Observer;
use pageyard_core::units::Order;

impl<P: PerCpu, O: Observer, C: Clear> Pageyard<'_, P, O, C> {
    /// Cuts a live block in two at a frame inside it: halves it, then the half that has the cut inside, and so on. What
    /// was known of its contents is forgotten.
    ///
    /// The observer is told of each halving before it is made; where it panics, the block is live in the parts it has
    /// by then.
    ///
    /// # Errors
    /// Why the block could not be won; nothing changed.
    pub(super) fn cut(
        &self,
        zone: &Zone<'_>,
        (head, order): (FrameIdx, Order),
        at: FrameIdx,
    ) -> Result<(), Unwon> {
        let pageblocks = &zone.pageblocks;
        self.win_block(pageblocks, head, order, Tag::Splitting)?;
        let mut parts = Parts { pageblocks, head, at_head: order, inner: head, order };
        while parts.inner < at
            && let Some(half) = parts.order.smaller()
        {
            self.observer.split(pageblocks.pfn(parts.inner), parts.order, half);
            if parts.order == PAGEBLOCK {
                let block = parts.inner.block();
                pageblocks.frames.take_huge(block);
                if let Some(change) = pageblocks.frames.update(block, |s| s.shatter()) {
                    pageblocks.changed(block, change);
                }
            }
            parts.halve(half, at);
        }
        Ok(())
    }
}

/// A block that is being cut: tagged from its head up to `inner`, which has the cut inside, and behind that. Dropping
/// it tags `inner` and then the head, so that all of it is live.
struct Parts<'a, 'm> {
    pageblocks: &'a Pageblocks<'m>,
    head: FrameIdx,
    /// The order of the part that starts at the head.
    at_head: Order,
    inner: FrameIdx,
    order: Order,
}

impl Parts<'_, '_> {
    /// Halves the part with the cut inside, and goes on with the half that has it.
    fn halve(&mut self, half: Order, at: FrameIdx) {
        let middle = self.inner.plus(half.frames().0 as usize);
        if self.inner == self.head {
            self.at_head = half;
        }
        self.order = half;
        if at < middle {
            self.pageblocks.frames.set_tag(middle, Tag::Allocated(half));
            return;
        }
        if self.inner > self.head {
            self.pageblocks.frames.set_tag(self.inner, Tag::Allocated(half));
        }
        self.inner = middle;
    }
}

impl Drop for Parts<'_, '_> {
    fn drop(&mut self) {
        if self.inner > self.head {
            self.pageblocks.frames.set_tag(self.inner, Tag::Allocated(self.order));
        }
        // The head last: a search that finds it no longer large enough then finds the parts.
        self.pageblocks.frames.set_tag(self.head, Tag::Allocated(self.at_head));
    }
}
