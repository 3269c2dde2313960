//! How much memory is managed: what is yet to be accepted is accepted when a request needs it, and the watermarks
//! follow each change.

use crate::engine::geometry::BlockIdx;
use crate::engine::map::descriptor::BlockState;
use crate::engine::map::tree::SearchEffort;
use crate::engine::pcp::percpu::PerCpu;
use crate::engine::yard::Pageyard;
use crate::engine::zone::Zone;
use crate::engine::zone::marks::Mark;
use crate::engine::zone::pageblocks::Pageblocks;
use pageyard_core::allocator::Cx;
use pageyard_core::clear::Clear;
use pageyard_core::memmap::{ZoneKind, ZoneSpan};
use pageyard_core::observer::Observer;
use pageyard_core::range::FrameRange;
use pageyard_core::request::Request;
use pageyard_core::units::{PAGEBLOCK_ORDER, Pfn};
use pageyard_core::watermark::{default_min_free_kbytes, watermarks};

/// A pageblock that a call is about to accept: refused, where this is dropped, also by a callback that panics.
struct Refused<'z, 'm> {
    pageblocks: &'z Pageblocks<'m>,
    block: BlockIdx,
}

impl Drop for Refused<'_, '_> {
    fn drop(&mut self) {
        self.pageblocks.transit(self.block, |state| state.end_accepting(false));
    }
}

impl<P: PerCpu, O: Observer, C: Clear> Pageyard<'_, P, O, C> {
    /// Tries the zones of a request, each again for every pageblock of it that could be accepted. Apart from
    /// `try_zones`: one loop for both made a walk of 16 zones 3 to 5 % longer where nothing is accepted.
    #[inline(never)]
    pub(crate) fn try_zones_accepting(
        &self,
        cx: &Cx,
        request: &Request,
        mark: Mark,
        effort: &mut SearchEffort,
    ) -> Option<Pfn> {
        for zone in self.walk(cx.cpu, request) {
            loop {
                effort.step();
                if zone.passes(request, mark)
                    && let Some(pfn) = self.allocate_in(zone, cx, request, effort)
                {
                    return Some(pfn);
                }
                if zone.unaccepted.left() == 0 || !self.accept_in(zone) {
                    break;
                }
            }
        }
        None
    }

    /// Accepts a pageblock of a zone; returns whether one was.
    fn accept_in(&self, zone: &Zone<'_>) -> bool {
        let Some(accept) = self.config.accept else { return false };
        let (pageblocks, frames) = (&zone.pageblocks, &zone.pageblocks.frames);
        while let Some(block) = zone.unaccepted.search(frames.len(), |b| frames.state(b).is_unaccepted()) {
            if !pageblocks.transit(block, BlockState::begin_accepting) {
                continue;
            }
            zone.unaccepted.remove();
            let range = FrameRange::new(pageblocks.pfn(block.first_frame()), PAGEBLOCK_ORDER.frames());
            let refused = Refused { pageblocks, block };
            if (accept.0)(range) {
                core::mem::forget(refused);
                // Managed before it can be allocated.
                zone.online.change(range.frames, true);
                pageblocks.transit(block, |state| state.end_accepting(true));
                self.settle_watermarks();
                return true;
            }
        }
        false
    }

    /// Computes all watermarks anew from what is online.
    ///
    /// # Linux
    /// `init_per_zone_wmark_min`.
    pub(crate) fn settle_watermarks(&self) {
        let mut change = self.main.online.count_change();
        loop {
            let span = |zone: &Zone<'_>| ZoneSpan { managed: zone.online.managed(), ..zone.pageblocks.span };
            let spans = || self.zones.iter().map(span);
            let lowmem = spans().filter(|z| z.kind <= ZoneKind::Normal).map(|z| z.managed).sum();
            let knobs = &self.config.watermark;
            let default = || default_min_free_kbytes(spans(), knobs.transparent_hugepage);
            let kib = knobs.min_free_kbytes.unwrap_or_else(default);
            for zone in self.zones {
                let marks = watermarks(&span(zone), lowmem, kib, knobs.watermark_scale_factor);
                zone.online.set_marks(marks);
            }
            // Of two calls, the one that comes second here has seen the other's change, and stores last.
            let now = self.main.online.changes();
            if now == change {
                return;
            }
            change = now;
        }
    }
}
