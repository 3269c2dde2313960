//! Free frames to move to, and the leases of the pageblocks that they lie in.

use super::cluster::CLUSTER;
use super::knobs::TargetOrder;
use super::stock::FreeStock;
use super::view::{CompactionView, Lease};
use crate::units::{BlockId, Order, PageblockId, Pfn};

/// A search of the free scanner that goes on from pageblock to pageblock until it has what is wanted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Search {
    /// How many frames it goes on by while it finds none that is free.
    pub(super) stride: u64,
}

/// Free frames that were taken to be moved to. Those still here when it is dropped go back, and the leases end.
pub(super) struct Targets<'a, M: CompactionView> {
    map: &'a M,
    stock: FreeStock,
    order: TargetOrder,
    leases: [Option<Lease<'a>>; CLUSTER],
}

impl<'a, M: CompactionView> Targets<'a, M> {
    pub(super) fn new(map: &'a M) -> Targets<'a, M> {
        let order = map.knobs().target_order;
        Targets { map, stock: FreeStock::new(), order, leases: [const { None }; CLUSTER] }
    }

    /// Returns the next frame to move to, which stays here until it is taken with [`used`](Self::used).
    pub(super) fn next(&self) -> Option<Pfn> {
        self.stock.next(self.order)
    }

    /// Takes the next frame out: it has an owner now.
    pub(super) fn used(&mut self) {
        self.stock.take(self.order);
    }

    /// Adds a frame; `false` where there is no room, and the frame is still the caller's.
    #[must_use = "a frame that did not fit is still the caller's"]
    pub(super) fn push(&mut self, pfn: Pfn) -> bool {
        self.stock.push(pfn)
    }

    /// Returns the frames, for an engine to add to.
    pub(super) fn stock(&mut self) -> &mut FreeStock {
        &mut self.stock
    }

    pub(super) fn len(&self) -> usize {
        self.stock.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.stock.is_empty()
    }

    pub(super) fn is_full(&self) -> bool {
        self.stock.is_full()
    }

    /// Keeps a lease for as long as frames are here. If there is no room for it, it ends.
    pub(super) fn keep(&mut self, lease: Option<Lease<'a>>) {
        if let Some(place) = self.leases.iter_mut().find(|l| l.is_none()) {
            *place = lease;
        }
    }

    /// Says whether a pageblock is leased.
    pub(super) fn has_leased(&self, block: PageblockId) -> bool {
        self.leases.iter().flatten().any(|l| l.block == block)
    }

    /// Ends the leases, which no frame needs any more.
    pub(super) fn end_leases(&mut self) {
        self.leases.iter_mut().for_each(|lease| *lease = None);
    }

    /// Gives all frames back, and then ends the leases; returns the highest frame.
    pub(super) fn release(&mut self) -> Option<Pfn> {
        let mut highest = None;
        while let Some(pfn) = self.stock.take(self.order) {
            highest = highest.max(Some(pfn));
            self.map.give_back(BlockId { pfn, order: Order::ZERO });
        }
        self.end_leases();
        highest
    }
}

impl<M: CompactionView> Drop for Targets<'_, M> {
    fn drop(&mut self) {
        self.release();
    }
}
