//! Pageblocks that are taken out of allocation, or leased to a compactor.

use super::geometry::{BLOCK_ORDER, BlockIdx};
use super::map::descriptor::BlockState;
use super::pcp::percpu::PerCpu;
use super::yard::Pageyard;
use super::zone::Zone;
use pageyard_core::allocator::Cx;
use pageyard_core::clear::Clear;
use pageyard_core::observer::Observer;
use pageyard_core::units::{CompactorId, PageblockId};

impl<P: PerCpu, O: Observer, C: Clear> Pageyard<'_, P, O, C> {
    /// [`Internals::isolate`](super::internals::Internals::isolate).
    pub(crate) fn isolate(&self, cx: &Cx, block: PageblockId) -> bool {
        if !self.has_cpu(cx.cpu) {
            return false;
        }
        // Which parts this call has isolated, a bit each (`MAX_ZONES`): one that is a hole now may come online before
        // the end.
        let mut mine = 0u64;
        for (n, (zone, at)) in self.parts_of(block).enumerate() {
            if zone.pageblocks.frames.state(at).is_hole() {
                continue;
            }
            if !zone.pageblocks.isolate(at) {
                // Where zones share it, all of it or nothing: another call has a part, and restores that itself.
                let isolated = |n: usize| mine >> n & 1 != 0;
                self.parts_of(block).enumerate().filter(|(n, _)| isolated(*n)).for_each(|(_, (zone, at))| {
                    zone.pageblocks.restore(at);
                });
                return false;
            }
            mine |= 1 << n;
        }
        mine != 0
    }

    /// [`Internals::restore`](super::internals::Internals::restore).
    pub(crate) fn restore(&self, cx: &Cx, block: PageblockId) -> bool {
        self.has_cpu(cx.cpu)
            && self.parts_of(block).fold(false, |any, (zone, at)| zone.pageblocks.restore(at) || any)
    }

    /// [`Internals::lease_pageblock`](super::internals::Internals::lease_pageblock).
    pub(crate) fn lease_pageblock(&self, block: PageblockId, by: CompactorId) -> bool {
        let Ok(by) = u8::try_from(by.0) else { return false };
        let first = self.parts_of(block).next();
        first.is_some_and(|(zone, at)| zone.pageblocks.transit(at, |s| s.lease(by)))
    }

    /// [`Internals::unlease_pageblock`](super::internals::Internals::unlease_pageblock).
    pub(crate) fn unlease_pageblock(&self, block: PageblockId) -> bool {
        self.end_lease_if(block, |_| true)
    }

    /// Ends the lease that a pageblock has under this number. Returns whether it had one.
    #[cfg_attr(pageyard_loom, allow(dead_code, reason = "compaction is not modelled"))]
    pub(crate) fn end_lease(&self, block: PageblockId, by: CompactorId) -> bool {
        self.end_lease_if(block, |owner| u16::from(owner) == by.0)
    }

    fn end_lease_if(&self, block: PageblockId, is_ended: impl Fn(u8) -> bool) -> bool {
        let end = |s: BlockState| s.owner().filter(|owner| is_ended(*owner)).map(|_| s.unlease());
        let first = self.parts_of(block).next();
        first.is_some_and(|(zone, at)| zone.pageblocks.transit(at, end))
    }

    /// Iterates over the zones that have part of a pageblock, each with the pageblock's number in it, the lowest first.
    pub(crate) fn parts_of(&self, block: PageblockId) -> impl Iterator<Item = (&Zone<'_>, BlockIdx)> {
        let first = block.0.checked_mul(1 << BLOCK_ORDER);
        self.zones.iter().filter_map(move |zone| {
            let at = first?.checked_sub(zone.pageblocks.base)? >> BLOCK_ORDER;
            ((at as usize) < zone.pageblocks.frames.len()).then_some((zone, BlockIdx::new(at as usize)))
        })
    }
}
