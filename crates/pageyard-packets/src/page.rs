//! A page of a pool in its holder's hands, and pages that go back one after another.

use crate::batch_ring::BATCH;
use crate::error::{PutError, Refused};
use crate::fragment::Parts;
use crate::pool::{PageMap, PagePool};
use pageyard_core::allocator::{Cx, PageAllocator};
use pageyard_core::units::{Order, Pfn, PhysAddr};

/// A page of a pool, its holder's alone. It is given back once: by [`put`](PoolPage::put) from any CPU, or to the
/// consumer.
///
/// A page that is dropped goes back through the ring. Where that is full, it goes to the allocator, if that
/// [may be called anywhere](PageAllocator::anywhere); else it stays in use, under its address
/// ([`PagePool::visit_in_use`]).
#[must_use = "a page that is dropped goes back to its pool"]
pub struct PoolPage<'p, 't, A: PageAllocator, M: PageMap = ()> {
    pool: &'p PagePool<'t, A, M>,
    page: Pfn,
}

impl<'p, 't, A: PageAllocator, M: PageMap> PoolPage<'p, 't, A, M> {
    #[inline(always)]
    pub(crate) fn new(pool: &'p PagePool<'t, A, M>, page: Pfn) -> Self {
        PoolPage { pool, page }
    }

    /// Returns its pool.
    #[must_use]
    #[inline(always)]
    pub fn pool(&self) -> &'p PagePool<'t, A, M> {
        self.pool
    }

    /// Gives it up: its pool, and its first frame.
    #[inline(always)]
    fn into_parts(self) -> (&'p PagePool<'t, A, M>, Pfn) {
        let page = core::mem::ManuallyDrop::new(self);
        (page.pool, page.page)
    }

    /// Gives it up: its first frame.
    #[inline(always)]
    pub(crate) fn into_page(self) -> Pfn {
        self.into_parts().1
    }

    /// Returns its first frame.
    #[must_use]
    #[inline(always)]
    pub fn pfn(&self) -> Pfn {
        self.page
    }

    /// Returns its order.
    #[must_use]
    pub fn order(&self) -> Order {
        self.pool.request.order
    }

    /// Returns the value that it got when it was mapped; 0 in a pool that maps nothing.
    #[must_use]
    pub fn value(&self) -> u64 {
        self.pool.table.value(self.page)
    }

    /// Returns whether it is a page of this pool.
    #[inline(always)]
    pub(crate) fn is_of(&self, pool: &PagePool<'t, A, M>) -> bool {
        core::ptr::eq(self.pool, pool)
    }

    /// Gives it back to its pool, through the ring. One locked instruction, if there is room.
    ///
    /// # Errors
    /// [`Refused`], with the page, where the ring is full or the pool closed, and the allocator refuses the page: the
    /// CPU is not one of its own.
    #[inline]
    pub fn put(self, cx: &Cx) -> Result<(), Refused<Self>> {
        let (pool, page) = self.into_parts();
        let done = pool.recycle(cx, page);
        done.map_err(|why| Refused { why: PutError::Free(why), item: PoolPage { pool, page } })
    }

    /// Turns it into its address, to be given back by [`PagePool::put_raw`] or
    /// [`PoolConsumer::put_raw`](crate::PoolConsumer::put_raw).
    #[must_use = "the page is in use until its address is given back"]
    #[inline]
    pub fn into_raw(self) -> PhysAddr {
        let (pool, page) = self.into_parts();
        pool.table.marks().lend(page, pool.owner);
        page.address()
    }

    /// Turns it into its address without a mark: [`PagePool::from_address`] makes it a page again, and costs nothing.
    ///
    /// [`PagePool::put_raw`] does not know of it, nor does [`PagePool::visit_in_use`].
    #[must_use = "the page is out until its address is a page again"]
    #[inline(always)]
    pub fn into_address(self) -> PhysAddr {
        self.into_page().address()
    }

    /// Takes it out of the pool: it is the caller's block now, and the allocator's to take back.
    ///
    /// # Linux
    /// `page_pool_release_page`: what a driver does with a page that it cannot recycle.
    #[must_use = "the block is the caller's, who frees it"]
    pub fn release(self) -> Pfn {
        let (pool, page) = self.into_parts();
        pool.take_out(page);
        page
    }
}

impl<A: PageAllocator, M: PageMap> Drop for PoolPage<'_, '_, A, M> {
    #[inline]
    fn drop(&mut self) {
        self.pool.dropped(self.page);
    }
}

impl<A: PageAllocator, M: PageMap> core::fmt::Debug for PoolPage<'_, '_, A, M> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_tuple("PoolPage").field(&self.page).finish()
    }
}

impl<'t, A: PageAllocator, M: PageMap> PagePool<'t, A, M> {
    /// Makes an address the page again that it was: for descriptors that a trusted queue hands back once each. Nothing
    /// is checked.
    ///
    /// # Safety
    /// The address comes from [`PoolPage::into_address`] of a page of this pool, and is made a page once for each time
    /// that it did.
    #[inline(always)]
    pub unsafe fn from_address(&self, at: PhysAddr) -> PoolPage<'_, 't, A, M> {
        PoolPage::new(self, at.pfn())
    }

    /// Turns the address of a page back into the page, once for each [`PoolPage::into_raw`]. A page of which there are
    /// several fragments is refused. The last fragment of a page cannot be told from the page: an address that is kept
    /// too long, while its page comes back and is carved, takes it from the holder of that fragment.
    ///
    /// # Errors
    /// [`PutError`]; nothing changed.
    pub fn take_raw(&self, at: PhysAddr) -> Result<PoolPage<'_, 't, A, M>, PutError> {
        let (page, _) = self.block_of(at).ok_or(PutError::OutsideTable)?;
        if !self.table.marks().take(page, self.owner) {
            self.table.take_last(page, self.owner)?;
        }
        Ok(PoolPage::new(self, page))
    }
}

/// Pages that are given up one after another. If a callback panics at one of them, the others stay in use, under their
/// addresses.
pub(crate) struct RestOfBatch<'p, 't, A: PageAllocator, M: PageMap> {
    pool: &'p PagePool<'t, A, M>,
    numbers: [u32; BATCH],
    len: usize,
}

impl<'p, 't, A: PageAllocator, M: PageMap> RestOfBatch<'p, 't, A, M> {
    /// Takes the pages of up to 64 numbers.
    pub fn new(pool: &'p PagePool<'t, A, M>, of: &[u32]) -> Self {
        let mut numbers = [0; BATCH];
        numbers[..of.len()].copy_from_slice(of);
        RestOfBatch { pool, numbers, len: of.len() }
    }

    /// Returns the next page, which is the caller's now.
    pub fn next(&mut self) -> Option<Pfn> {
        self.len = self.len.checked_sub(1)?;
        Some(self.pool.page(self.numbers[self.len]))
    }

    /// Gives up those that are left: their numbers.
    pub fn into_numbers(self) -> ([u32; BATCH], usize) {
        let rest = core::mem::ManuallyDrop::new(self);
        (rest.numbers, rest.len)
    }
}

impl<A: PageAllocator, M: PageMap> Drop for RestOfBatch<'_, '_, A, M> {
    fn drop(&mut self) {
        while let Some(page) = self.next() {
            self.pool.table.marks().lend(page, self.pool.owner);
        }
    }
}
