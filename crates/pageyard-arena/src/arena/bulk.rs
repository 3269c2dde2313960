//! Many blocks that are freed together.

use super::memory::Arena;
use crate::rseq::Rseq;
use pageyard::{Migratetype, Order, PAGE_SIZE, PerCpu, Pfn, Request, RequestFlags};
use std::fmt;

/// Blocks of one order, freed with one call when this is dropped.
pub struct Blocks<'a, P: PerCpu = Rseq> {
    arena: &'a Arena<P>,
    pfns: Vec<Pfn>,
    order: Order,
}

impl<P: PerCpu> Arena<P> {
    /// Allocates up to `count` blocks with one call; fewer where memory is short.
    #[must_use]
    pub fn alloc_bulk(&self, order: Order, count: usize) -> Blocks<'_, P> {
        Blocks::allocate(self, order, count, false)
    }

    /// The same, cleared with one fence for all of them.
    #[must_use]
    pub fn alloc_bulk_zeroed(&self, order: Order, count: usize) -> Blocks<'_, P> {
        Blocks::allocate(self, order, count, true)
    }
}

impl<'a, P: PerCpu> Blocks<'a, P> {
    fn allocate(arena: &'a Arena<P>, order: Order, count: usize, zero: bool) -> Blocks<'a, P> {
        let most = arena.mapping().frames().0 >> order.get();
        let mut pfns = vec![Pfn(0); count.min(most as usize)];
        let request = Request::new(order, Migratetype::Movable);
        let request = if zero { request.with(RequestFlags::ZERO) } else { request };
        let got = match arena.is_inert() {
            true => 0,
            false => arena.yard().alloc_bulk(&arena.cx(), &request, &mut pfns),
        };
        pfns.truncate(got);
        Blocks { arena, pfns, order }
    }

    /// Returns how many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.pfns.len()
    }

    /// Returns whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.pfns.is_empty()
    }

    /// Returns their first frames.
    #[must_use]
    pub fn pfns(&self) -> &[Pfn] {
        &self.pfns
    }

    /// Borrows the bytes of each.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut [u8]> {
        let (arena, bytes) = (self.arena, (self.order.frames().0 * PAGE_SIZE) as usize);
        self.pfns.iter_mut().map(move |pfn| {
            // SAFETY: 1. The block is allocated, and this is its owner. 2. No two blocks share a byte, and each is lent
            // once.
            //         3. The kernel's memory is initialised, and owners write initialised bytes.
            unsafe { std::slice::from_raw_parts_mut(arena.address(*pfn).as_ptr(), bytes) }
        })
    }
}

impl<P: PerCpu> Drop for Blocks<'_, P> {
    fn drop(&mut self) {
        if self.arena.is_inert() {
            return;
        }
        self.arena.yard().free_bulk(&self.arena.cx(), &self.pfns, self.order, &mut |_, why| {
            debug_assert!(false, "a block has one owner: {why}");
        });
    }
}

impl<P: PerCpu> fmt::Debug for Blocks<'_, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Blocks").field("pfns", &self.pfns).field("order", &self.order).finish_non_exhaustive()
    }
}
