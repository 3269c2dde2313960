//! Free frames to move to, and the leases of the pageblocks that they lie in.

use super::held_frees::{HeldFrees, Places};
use super::view::{CompactionView, Lease};
use pageyard_core::allocator::Cx;
use pageyard_core::compaction::CLUSTER;
use pageyard_core::compaction::Room;
use pageyard_core::units::{BlockId, Order, PageblockId, Pfn};

/// A search of the free scanner that goes on from pageblock to pageblock until it has what is wanted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Search {
    /// How many frames it goes on by while it finds none that is free.
    pub(super) stride: u64,
}

/// Free frames that were taken to be moved to. Those still here when it is dropped go back, and the leases end.
pub(super) struct Targets<'a, M: CompactionView> {
    map: &'a M,
    cx: Cx,
    stock: HeldFrees,
    /// By number: the target of each block of a batch that has one, until it is used.
    pairs: Places<BlockId>,
    /// The target of the block of several frames that is being moved alone.
    single: Option<BlockId>,
    leases: [Option<Lease<'a>>; CLUSTER],
}

impl<'a, M: CompactionView> Targets<'a, M> {
    pub(super) fn new(map: &'a M, cx: &Cx) -> Targets<'a, M> {
        let stock = HeldFrees::new(map.knobs().target_order);
        Targets { map, cx: *cx, stock, pairs: Room::new(), single: None, leases: [const { None }; CLUSTER] }
    }

    /// Returns the next frame to move to, which stays here until it is taken with [`used`](Self::used).
    pub(super) fn next(&self) -> Option<Pfn> {
        self.stock.next()
    }

    /// Takes the next frame out: it has an owner now.
    pub(super) fn used(&mut self) {
        self.stock.take();
    }

    /// Returns whether there is a target for a block of this order.
    pub(super) fn has(&self, order: Order) -> bool {
        if order == Order::ZERO { !self.stock.is_empty() } else { self.stock.has(order) }
    }

    /// Takes a target of this order out of the stock, as one allocated block.
    ///
    /// # Linux
    /// `compaction_alloc`: the smallest block that is large enough is halved until it fits, and the upper halves stay.
    fn take(&mut self, order: Order) -> Option<BlockId> {
        if order == Order::ZERO {
            return self.stock.take().map(|pfn| BlockId { pfn, order });
        }
        loop {
            let block = BlockId { pfn: self.stock.take_of(order)?, order };
            if self.map.join(block) {
                return Some(block);
            }
        }
    }

    /// Returns a target to the stock. One that a caller has freed meanwhile, without owning it, is lost to compaction.
    ///
    /// # Linux
    /// `compaction_free`.
    fn put_back(&mut self, block: BlockId) {
        if block.order == Order::ZERO || self.map.part(block) {
            self.stock.put_back_block(block);
        }
    }

    /// Makes a target for a block of several frames that is moved alone; it stays here until
    /// [`used_single`](Self::used_single) or [`put_back_single`](Self::put_back_single).
    pub(super) fn single(&mut self, order: Order) -> Option<Pfn> {
        self.single = self.take(order);
        self.single.map(|block| block.pfn)
    }

    /// Takes that target out: it has an owner now.
    pub(super) fn used_single(&mut self) {
        self.single = None;
    }

    /// Returns that target to the stock, if it was not used.
    pub(super) fn put_back_single(&mut self) {
        if let Some(block) = self.single.take() {
            self.put_back(block);
        }
    }

    /// Finds a target for the next block of a batch, of the same order; returns whether there was one.
    pub(super) fn pair(&mut self, order: Order) -> bool {
        let target = self.take(order);
        if let Some(block) = target {
            self.pairs.push(block);
        }
        target.is_some()
    }

    /// The next block of a batch needs no target.
    pub(super) fn pair_none(&mut self) {
        let at = self.pairs.places().len();
        self.pairs.push(BlockId { pfn: Pfn(0), order: Order::ZERO });
        self.used_pair(at);
    }

    /// Returns how many frames there are in targets of a batch that are not used.
    pub(super) fn paired(&self) -> usize {
        self.pairs.places().iter().flatten().map(|block| block.order.frames().0 as usize).sum()
    }

    /// Returns the first block of a batch from a number on whose target is not used, and the target.
    pub(super) fn paired_from(&self, at: usize) -> Option<(usize, Pfn)> {
        let places = self.pairs.places().iter().enumerate().skip(at);
        places.filter_map(|(n, block)| Some((n, (*block)?.pfn))).next()
    }

    /// Takes the target of a block of a batch out: it has an owner now.
    pub(super) fn used_pair(&mut self, at: usize) {
        if let Some(place) = self.pairs.places_mut().get_mut(at) {
            *place = None;
        }
    }

    /// Returns the target of a block that is not moved to the stock, if it was not used.
    pub(super) fn unpair_one(&mut self, at: usize) {
        let place = self.pairs.places_mut().get_mut(at);
        if let Some(block) = place.and_then(Option::take) {
            self.put_back(block);
        }
    }

    /// Returns the targets that were not used to the stock: the batch is done with.
    pub(super) fn unpair(&mut self) {
        for at in 0..self.pairs.places().len() {
            self.unpair_one(at);
        }
        self.pairs.clear();
    }

    /// Adds a frame.
    pub(super) fn push(&mut self, pfn: Pfn) {
        self.stock.push(pfn);
    }

    /// Returns the frames, for an engine to add to.
    pub(super) fn stock(&mut self) -> &mut HeldFrees {
        &mut self.stock
    }

    pub(super) fn len(&self) -> usize {
        self.stock.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.stock.is_empty()
    }

    /// Returns how many frames it holds, those of targets that were found included.
    pub(super) fn held(&self) -> usize {
        let single = self.single.map_or(0, |block| block.order.frames().0 as usize);
        self.len() + self.paired() + single
    }

    /// Keeps a lease for as long as frames are here. If there is no room for it, it ends.
    pub(super) fn keep(&mut self, lease: Option<Lease<'a>>) {
        if let Some(place) = self.leases.iter_mut().find(|l| l.is_none()) {
            *place = lease;
        }
    }

    /// Returns whether a pageblock is leased.
    pub(super) fn has_leased(&self, block: PageblockId) -> bool {
        self.leases.iter().flatten().any(|l| l.block == block)
    }

    /// Ends the leases, which no frame needs any more.
    pub(super) fn end_leases(&mut self) {
        self.leases.iter_mut().for_each(|lease| *lease = None);
    }

    /// Gives all frames back, and then ends the leases; returns the first frame of the highest block.
    pub(super) fn release(&mut self) -> Option<Pfn> {
        self.unpair();
        self.put_back_single();
        let mut highest = None;
        while let Some(block) = self.stock.take_block() {
            highest = highest.max(Some(block.pfn));
            match self.map.knobs().leftovers_listed {
                true => self.map.free_leftover(&self.cx, block),
                false => self.map.give_back(block),
            }
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
