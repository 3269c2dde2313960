//! Many blocks that are freed together.

use super::holder::ArenaRef;
use super::memory::Arena;
use pageyard::{Migratetype, Observer, Order, PAGE_SIZE, PerCpu, Pfn, Request, RequestFlags};
use std::fmt;

/// Blocks of one order, freed with one call when this is dropped. `A` is [how it holds their arena](ArenaRef).
pub struct Blocks<A: ArenaRef> {
    arena: A,
    pfns: Vec<Pfn>,
    order: Order,
}

impl<P: PerCpu, O: Observer> Arena<P, O> {
    /// Allocates up to `count` blocks with one call; fewer where memory is short.
    #[must_use]
    pub fn alloc_bulk(&self, order: Order, count: usize) -> Blocks<&Self> {
        Blocks::alloc_in(self, &Request::new(order, Migratetype::Movable), count)
    }

    /// The same, cleared with one fence for all of them.
    #[must_use]
    pub fn alloc_bulk_zeroed(&self, order: Order, count: usize) -> Blocks<&Self> {
        let request = Request::new(order, Migratetype::Movable).with(RequestFlags::ZERO);
        Blocks::alloc_in(self, &request, count)
    }
}

impl<A: ArenaRef> Blocks<A> {
    /// Allocates up to `count` blocks for a request with one call; fewer where memory is short.
    #[must_use]
    pub fn alloc_in(arena: A, request: &Request, count: usize) -> Blocks<A> {
        let of = arena.arena();
        let most = of.mapping().frames().0 >> request.order.get();
        let mut pfns = vec![Pfn(0); count.min(most as usize)];
        let got = match of.is_inert() {
            true => 0,
            false => of.yard().alloc_bulk(&of.cx(), request, &mut pfns),
        };
        pfns.truncate(got);
        Blocks { arena, pfns, order: request.order }
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
        let (arena, bytes) = (self.arena.arena(), (self.order.frames().0 * PAGE_SIZE) as usize);
        self.pfns.iter_mut().map(move |pfn| {
            // SAFETY: 1. The block is allocated, and this is its owner. 2. No two blocks share a byte, and each is lent
            // once.
            //         3. The kernel's memory is initialised, and owners write initialised bytes.
            unsafe { std::slice::from_raw_parts_mut(arena.address(*pfn).as_ptr(), bytes) }
        })
    }
}

impl<A: ArenaRef> Drop for Blocks<A> {
    fn drop(&mut self) {
        let arena = self.arena.arena();
        if arena.is_inert() {
            return;
        }
        arena.yard().free_bulk(&arena.cx(), &self.pfns, self.order, &mut |_, why| {
            debug_assert!(false, "a block has one owner: {why}");
        });
    }
}

impl<A: ArenaRef> fmt::Debug for Blocks<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Blocks").field("pfns", &self.pfns).field("order", &self.order).finish_non_exhaustive()
    }
}
