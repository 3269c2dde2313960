//! The usual request without a list, served from what its CPU works on: no search, and no word that CPUs share but the
//! descriptor, the bits and the tag.

use crate::engine::geometry::{BlockIdx, FrameIdx, LINE_WORDS, PAGEBLOCK};
use crate::engine::map::count::FrameDelta;
use crate::engine::map::tree::SearchEffort;
use crate::engine::pcp::percpu::PerCpu;
use crate::engine::yard::{Pageyard, WHOLE_WORD};
use crate::engine::zone::Zone;
use crate::engine::zone::marks::{Mark, wants_highatomic};
use pageyard_core::allocator::Cx;
use pageyard_core::clear::Clear;
use pageyard_core::migratetype::Migratetype;
use pageyard_core::observer::Observer;
use pageyard_core::request::{NodeMask, Request, RequestFlags};
use pageyard_core::units::{CpuId, Pfn};
use pageyard_sync::Relaxed;

impl<P: PerCpu, O: Observer, C: Clear> Pageyard<'_, P, O, C> {
    /// Claims a pageblock where this CPU last claimed or released one: it is still in its cache.
    #[inline(never)]
    fn claim_whole_here(&self, zone: &Zone<'_>, cpu: CpuId, ty: Migratetype) -> Option<FrameIdx> {
        // ORDER: Relaxed: a hint, of whatever zone.
        let near = self.efforts[cpu.index() * LINE_WORDS + WHOLE_WORD].load(Relaxed);
        let block = zone.pageblocks.claim_whole_near(ty, BlockIdx::new(near as usize))?;
        self.note_whole(cpu, block.first_frame());
        Some(block.first_frame())
    }

    /// Notes where this CPU last claimed or released a whole pageblock.
    #[inline(always)]
    pub(super) fn note_whole(&self, cpu: CpuId, frame: FrameIdx) {
        // ORDER: Relaxed: a hint.
        self.efforts[cpu.index() * LINE_WORDS + WHOLE_WORD].store(frame.block().get() as u64, Relaxed);
    }

    /// Allocates a block of an order without a list from the CPU's current pageblock: the usual case for such a
    /// request, without the search. All that it calls is inlined, up to a word's order.
    #[inline(always)]
    pub(super) fn alloc_here(&self, cx: &Cx, request: &Request) -> Option<Pfn> {
        let (order, ty) = (request.order, request.migratetype);
        let plain = order <= PAGEBLOCK
            && request.nodes == NodeMask::ALL
            && request.migratetype.is_requested()
            && !request.flags.contains(RequestFlags::ZERO)
            && !self.wants_zeros(request)
            && !wants_highatomic(request);
        if !plain || !self.has_cpu(cx.cpu) {
            return None;
        }
        let zone = self.zonelists.first_zone(cx.cpu, request.highest_zone)?;
        if zone.has_list(order) || !zone.passes_here(request, Mark::Low) {
            return None;
        }
        let frame = if order < PAGEBLOCK {
            zone.pageblocks.claim_here(cx.cpu, ty, order)?
        } else {
            self.claim_whole_here(zone, cx.cpu, ty)?
        };
        self.add_free_here(zone, cx.cpu, FrameDelta::claimed(1 << order.get()));
        let pfn = self.hand_out_here(zone, cx, frame, order, ty);
        self.note_effort(cx.cpu, SearchEffort { steps: 1 });
        if self.zonelists.several_nodes() {
            self.note_origin(cx.cpu, request, pfn);
        }
        Some(pfn)
    }
}
