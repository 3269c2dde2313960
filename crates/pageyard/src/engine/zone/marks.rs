//! How far down a zone goes for a request: its watermarks, what it protects, and what only some requests can use.

use super::Zone;
use pageyard_core::migratetype::Migratetype;
use pageyard_core::request::{Request, RequestFlags};
use pageyard_core::units::Order;
use pageyard_sync::Relaxed;

/// How far down a zone may go for a request.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mark {
    /// To its low watermark, and what fragmentation adds to it.
    Low,
    /// To its minimum, as far as the request's flags lower it.
    Min,
    /// To the last frame.
    None,
}

impl Mark {
    /// Returns how far down a request goes before it fails.
    pub(crate) fn for_last_try(self, request: &Request) -> Mark {
        if request.flags.contains(RequestFlags::NOFAIL) { Mark::None } else { self }
    }
}

impl Zone<'_> {
    /// Returns whether a zone may give a block of this size to this request, going down to `mark`.
    ///
    /// # Linux
    /// `__zone_watermark_ok`.
    pub(crate) fn passes(&self, request: &Request, mark: Mark) -> bool {
        self.passes_here(request, mark)
    }

    /// [`Zone::passes`], inlined.
    #[inline(always)]
    pub(crate) fn passes_here(&self, request: &Request, mark: Mark) -> bool {
        let size = request.order.frames().0;
        let kept = self.kept(request, mark);
        self.pageblocks.free_above(0, kept + size) >= kept + size
    }

    /// Returns how many frames a zone keeps back from a request that goes down to `mark`.
    #[inline(always)]
    pub(crate) fn kept(&self, request: &Request, mark: Mark) -> u64 {
        // ORDER: Relaxed: the boost orders nothing.
        let boost = self.pageblocks.boost().load(Relaxed);
        let min = match mark {
            Mark::Low => self.online.low().0 + boost,
            Mark::Min => self.reserve_rule.lower(self.online.min(), request.flags).0,
            Mark::None => return 0,
        };
        let mut kept = min + self.protection[request.highest_zone.index()].0;
        if !wants_highatomic(request) {
            kept += self.pageblocks.highatomic_free();
        }
        if request.migratetype != Migratetype::Movable {
            kept += self.pageblocks.cma_free();
        }
        kept
    }
}

/// Returns whether a request may use, and adds to, the pageblocks reserved for high-order requests that cannot wait.
pub(crate) fn wants_highatomic(request: &Request) -> bool {
    request.order > Order::ZERO && request.flags.is_atomic()
}
