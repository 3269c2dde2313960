//! The one consumer of a pool: it takes pages from its cache, from the ring, and from the allocator.

use crate::batch_ring::BATCH;
use crate::cache::{CACHE, Cache};
use crate::carve::{Carve, Retired};
use crate::error::{GetError, PutError, Refused};
use crate::fragment::{Fragment, Parts};
use crate::page::{PoolPage, RestOfBatch};
use crate::pool::{PageMap, PagePool};
use crate::returns::Returns;
use core::alloc::Layout;
use pageyard_core::allocator::{Cx, PageAllocator};
use pageyard_core::error::AllocError;
use pageyard_core::units::{Order, Pfn, PhysAddr};
use pageyard_sync::{Acquire, Relaxed};

/// Pages that it takes at a time, from the ring or from the allocator.
///
/// # Linux
/// `PP_ALLOC_CACHE_REFILL`.
const REFILL: usize = BATCH;

/// The one consumer of a pool: a receive queue's. It costs no atomic operation while its cache lasts.
///
/// Dropped, it leaves its cache to the next one.
pub struct PoolConsumer<'p, 't, A: PageAllocator, M: PageMap = ()> {
    pool: &'p PagePool<'t, A, M>,
}

impl<'p, 't, A: PageAllocator, M: PageMap> PoolConsumer<'p, 't, A, M> {
    pub(crate) fn enter(pool: &'p PagePool<'t, A, M>) -> Option<Self> {
        // ORDER: Acquire pairs with the Release in `leave`.
        let entered = pool.consumer.held.compare_exchange(0, 1, Acquire, Relaxed);
        // Not `then_some`: one that has not entered must not be dropped, it would leave for the one that has.
        entered.is_ok().then(|| PoolConsumer { pool })
    }

    /// Returns its pool.
    #[must_use]
    #[inline(always)]
    pub fn pool(&self) -> &'p PagePool<'t, A, M> {
        self.pool
    }

    #[inline(always)]
    pub(crate) fn cache(&mut self) -> &mut Cache {
        // SAFETY: this is the one consumer, and it is borrowed exclusively.
        unsafe { &mut *self.pool.consumer.cache.get() }
    }

    /// Takes a page out of the cache.
    #[inline(always)]
    fn pop(&mut self) -> Option<Pfn> {
        let cache = self.cache();
        let top = cache.len.checked_sub(1)?;
        cache.len = top;
        // Within the array, because `len` is at most its length: said so that no check is left.
        let number = cache.numbers[top % CACHE];
        Some(self.pool.page(number))
    }

    /// Puts a page into the cache, if it has room.
    #[inline(always)]
    fn push(&mut self, page: Pfn) -> bool {
        let number = self.pool.number(page);
        let cache = self.cache();
        let had_room = cache.len < cache.room;
        if had_room {
            cache.numbers[cache.len % CACHE] = number;
            cache.len += 1;
        }
        had_room
    }

    /// Takes a page: from the cache, else from the ring, else from the allocator, 64 at a time.
    ///
    /// # Errors
    /// [`GetError`] where the allocator has none, or its page could not be mapped. Pages that come back serve the next
    /// call.
    ///
    /// # Linux
    /// `page_pool_alloc_pages`.
    #[inline]
    pub fn get(&mut self, cx: &Cx) -> Result<PoolPage<'p, 't, A, M>, GetError> {
        let page = match self.pop() {
            Some(page) => {
                self.pool.consumer.fast.add(1);
                page
            }
            None => self.take_slow(cx)?,
        };
        Ok(PoolPage::new(self.pool, page))
    }

    #[cold]
    #[inline(never)]
    fn take_slow(&mut self, cx: &Cx) -> Result<Pfn, GetError> {
        self.fill(cx)?;
        // One was taken at least.
        self.pop().ok_or(GetError::Alloc(AllocError::OutOfMemory))
    }

    /// Fills the cache, which is empty: with one page at least, or an error.
    #[inline]
    pub(crate) fn fill(&mut self, cx: &Cx) -> Result<(), GetError> {
        let pool = self.pool;
        if pool.is_closed() {
            return Err(GetError::Closed);
        }
        if self.take_returned(|returns, numbers| returns.take(numbers)) {
            pool.consumer.refill.add(1);
            return Ok(());
        }
        pool.consumer.empty.add(1);
        match self.refill(cx) {
            Ok(()) => pool.consumer.slow.add(1),
            // What the rings' hints do not lead to is all that is left.
            Err(why) if !self.take_returned(|returns, numbers| returns.take_anywhere(numbers)) => {
                return Err(why);
            }
            Err(_) => {}
        }
        Ok(())
    }

    /// Fills the cache, which is empty, with what came back; returns whether there was anything.
    fn take_returned(&mut self, take: impl FnOnce(&Returns<'t>, &mut [u32; BATCH]) -> usize) -> bool {
        let pool = self.pool;
        let cache = self.cache();
        cache.len = cache.numbers.first_chunk_mut().map_or(0, |out| take(&pool.returns.slices, out));
        pool.consumer.from_ring.add(cache.len as u64);
        cache.len > 0
    }

    /// Takes pages from the allocator: one at least, or an error.
    fn refill(&mut self, cx: &Cx) -> Result<(), GetError> {
        let pool = self.pool;
        let mut pages = [Pfn(0); REFILL];
        // Larger pages one by one, as in Linux: 64 of them could be all that there are.
        let most = if pool.request.order == Order::ZERO { REFILL } else { 1 };
        let mut got = pool.allocator.alloc_bulk(cx, &pool.request, &mut pages[..most]);
        if got == 0 {
            pages[0] = pool.allocator.alloc(cx, &pool.request).map_err(GetError::Alloc)?;
            got = 1;
        }
        let mut rest = Rest { pool, cx, pages: &pages[..got] };
        let mut why = Ok(());
        while let Some((page, others)) = rest.pages.split_first() {
            match Self::admit(pool, *page) {
                Ok(()) => self.push(*page),
                Err(e) => {
                    why = Err(e);
                    break;
                }
            };
            pool.came.add(1);
            rest.pages = others;
        }
        drop(rest);
        if self.cache().len > 0 { Ok(()) } else { why }
    }

    /// Makes an allocator's page one of the pool's.
    fn admit(pool: &PagePool<'t, A, M>, page: Pfn) -> Result<(), GetError> {
        let order = pool.request.order;
        if !pool.table.covers(page, order.frames()) {
            return Err(GetError::OutsideTable);
        }
        if M::MAPS {
            let value = pool.map.map(page, order).filter(|value| *value != M::UNMAPPED);
            pool.table.set_value(page, value.ok_or(GetError::NotMapped)?);
        }
        pool.table.start(page, pool.owner, 0);
        Ok(())
    }

    /// Gives a page back to the cache; one that has no room there, to the ring, and then to the allocator.
    ///
    /// # Errors
    /// [`Refused`], with the page: it is another pool's, or the allocator refuses it.
    ///
    /// # Linux
    /// `page_pool_recycle_direct`.
    #[inline]
    pub fn put(
        &mut self,
        cx: &Cx,
        page: PoolPage<'p, 't, A, M>,
    ) -> Result<(), Refused<PoolPage<'p, 't, A, M>>> {
        if !page.is_of(self.pool) {
            return Err(Refused { why: PutError::WrongOwner, item: page });
        }
        let page = page.into_page();
        if self.push(page) {
            self.pool.consumer.cached.add(1);
            return Ok(());
        }
        self.put_beyond(cx, page)
    }

    /// Gives back a page that the cache has no room for.
    #[inline(never)]
    fn put_beyond(&self, cx: &Cx, page: Pfn) -> Result<(), Refused<PoolPage<'p, 't, A, M>>> {
        self.pool.consumer.cache_full.add(1);
        PoolPage::new(self.pool, page).put(cx)
    }

    /// Gives back a page by its address, as [`put_raw`](PagePool::put_raw) of the pool does, but to the
    /// cache. One locked instruction, which is the check.
    ///
    /// # Errors
    /// [`PutError`]; nothing changed.
    #[inline]
    pub fn put_raw(&mut self, cx: &Cx, at: PhysAddr) -> Result<(), PutError> {
        match self.pool.give_up(at)? {
            Some((block, _)) => self.keep(cx, block),
            None => Ok(()),
        }
    }

    /// Carves a buffer of this size and alignment from a page of the pool, which comes back to the pool with its last
    /// fragment.
    ///
    /// # Errors
    /// As [`PoolConsumer::get`]; [`BadRequest::Size`](pageyard_core::BadRequest::Size) for a buffer of no bytes, or
    /// larger than a page of the pool.
    ///
    /// # Linux
    /// `page_pool_alloc_frag`.
    #[inline]
    pub fn frag(&mut self, cx: &Cx, layout: Layout) -> Result<Fragment<'p, PagePool<'t, A, M>>, GetError> {
        let at = match self.cache().carve.carve(layout) {
            Some(at) => at,
            None => self.frag_slow(cx, layout)?,
        };
        Ok(Fragment::new(self.pool, at, layout.size(), self.pool.request.order))
    }

    /// Gives back a fragment of a page of this pool, as [`Fragment::put`] does; the last takes the page to the cache.
    ///
    /// # Errors
    /// As [`Fragment::put`]; [`PutError::WrongOwner`] for another pool's.
    #[inline]
    pub fn put_frag(
        &mut self,
        cx: &Cx,
        fragment: Fragment<'p, PagePool<'t, A, M>>,
    ) -> Result<(), Refused<Fragment<'p, PagePool<'t, A, M>>>> {
        if !core::ptr::eq(fragment.owner(), self.pool) {
            return Err(Refused { why: PutError::WrongOwner, item: fragment });
        }
        let block = fragment.block();
        match self.pool.table.give_up_one(block) {
            Ok(false) => Ok(()),
            Ok(true) => self.keep(cx, block).map_err(|why| Refused { why, item: fragment }),
            Err(why) => Err(Refused { why, item: fragment }),
        }
    }

    /// Puts a page that nothing uses into the cache; one that has no room there, into the ring, and then to the
    /// allocator.
    #[inline]
    fn keep(&mut self, cx: &Cx, page: Pfn) -> Result<(), PutError> {
        if self.push(page) {
            self.pool.consumer.cached.add(1);
            return Ok(());
        }
        self.pool.consumer.cache_full.add(1);
        self.pool.last_use(cx, page, self.pool.request.order)
    }

    #[cold]
    #[inline(never)]
    fn frag_slow(&mut self, cx: &Cx, layout: Layout) -> Result<PhysAddr, GetError> {
        let (pool, order) = (self.pool, self.pool.request.order);
        if !Carve::fits(layout, order) {
            return Err(GetError::Alloc(Carve::refusal(layout, order)));
        }
        if !self.cache().carve.again(pool.table, pool.owner) {
            let page = self.get(cx)?.into_page();
            self.retire(cx);
            self.cache().carve.start(pool.table, pool.owner, page, order);
        }
        self.cache().carve.carve(layout).ok_or(GetError::Alloc(AllocError::OutOfMemory))
    }

    /// Stops carving; a page that no fragment uses goes to the cache, else to the ring or the allocator.
    fn retire(&mut self, cx: &Cx) {
        let pool = self.pool;
        if let Some(Retired::Unused(page, _)) = self.cache().carve.retire(pool.table, pool.owner)
            && !self.push(page)
        {
            // Refused only for a CPU that the allocator does not have: then it is in use, under its address.
            let _ = pool.last_use(cx, page, pool.request.order);
        }
    }

    /// Closes the pool: its cache and its ring go back to the allocator, and so does what comes back from now on.
    /// Returns how many pages are still out.
    ///
    /// # Linux
    /// `page_pool_destroy`.
    pub fn close(mut self, cx: &Cx) -> u64 {
        let pool = self.pool;
        self.cache().room = 0;
        pool.close();
        self.retire(cx);
        let give = |page: Pfn| {
            // Refused only for a CPU that the allocator does not have: then it is in use, under its address.
            if pool.free(cx, page).is_err() {
                pool.table.marks().lend(page, pool.owner);
            }
        };
        while let Some(page) = self.pop() {
            give(page);
        }
        pool.returns.slices.sweep(|numbers| {
            pool.consumer.from_ring.add(numbers.len() as u64);
            let mut rest = RestOfBatch::new(pool, numbers);
            while let Some(page) = rest.next() {
                give(page);
            }
        });
        pool.pages()
    }

    /// Puts back into the ring, or the allocator, the pages of the pool that are nowhere: neither in its cache nor its
    /// ring, nor in use under their addresses. A thread was killed while moving them, or giving them to the allocator.
    /// Returns how many there were.
    ///
    /// Blocks that a killed consumer had from the allocator and had not made pages of the pool yet, 64 at most, are not
    /// found.
    ///
    /// It looks through the ring for each page that might be lost: an act for after a crash.
    ///
    /// # Safety
    /// 1. No thread holds a [`PoolPage`] or [`PoolBatch`](crate::PoolBatch) of this pool, nor an address from
    ///    [`PoolPage::into_address`] that becomes one again, only marked addresses and fragments; and no other call on
    ///    the pool runs at the same time.
    /// 2. No page that [`PagePool::visit_leaving`] names has been allocated since its thread was killed: such a page,
    ///    if it is live, is taken for the pool's. While another has it, wait for that one to free it.
    pub unsafe fn recover(&mut self, cx: &Cx) -> u64 {
        let pool = self.pool;
        let mut lost = 0;
        let is_ours = |page: &Pfn| pool.table.is_of(*page, pool.owner);
        pool.returns.slices.batches.give_up_claims();
        for note in &pool.leaving {
            // ORDER: Relaxed: nothing else uses the pool.
            let number = note.load(Relaxed);
            note.store(0, Relaxed);
            // One that is the pool's by the table had not been given up yet, or came back: it is found below.
            let page = (number > 0).then(|| pool.page(number)).filter(|page| !is_ours(page));
            if let Some(page) = page
                && pool.allocator.order_of(page) == Some(pool.request.order)
            {
                pool.table.start(page, pool.owner, 0);
            }
        }
        for page in pool.places().filter(|page| pool.table.is_unused(*page, pool.owner)) {
            let number = pool.number(page);
            let cache = self.cache();
            let is_idle = cache.numbers[..cache.len].contains(&number) || pool.returns.slices.holds(number);
            if !is_idle {
                lost += u64::from(pool.recover_one(cx, page).is_ok());
            }
        }
        // What a killed thread had given away and not counted.
        let left = pool.places().filter(is_ours).count() as u64;
        pool.gone.add(pool.pages().saturating_sub(left));
        lost
    }
}

impl<'t, A: PageAllocator, M: PageMap> PagePool<'t, A, M> {
    /// Returns the pool's consumer; `None` while there is one. That of a closed pool gets no pages, and can close it
    /// again.
    #[must_use]
    pub fn consumer(&self) -> Option<PoolConsumer<'_, 't, A, M>> {
        PoolConsumer::enter(self)
    }

    /// Returns the pool's consumer although there was one, which is gone without a trace: its thread was killed.
    ///
    /// Up to 64 pages that it was moving can be nowhere; [`PoolConsumer::recover`] finds those that were the pool's
    /// already, and those that other threads were giving back when they were killed.
    ///
    /// # Safety
    /// The former consumer is never used again, not even dropped; all it did happened before this call; no other call
    /// of this function or of [`consumer`](PagePool::consumer) runs at the same time.
    #[must_use]
    pub unsafe fn consumer_of_the_dead(&self) -> Option<PoolConsumer<'_, 't, A, M>> {
        self.consumer.leave();
        self.consumer()
    }
}

impl<A: PageAllocator, M: PageMap> Drop for PagePool<'_, A, M> {
    fn drop(&mut self) {
        if let Some(cx) = self.allocator.anywhere() {
            // A consumer that there still was is forgotten: the pool is no longer borrowed.
            self.consumer.leave();
            if let Some(consumer) = self.consumer() {
                consumer.close(&cx);
            }
        }
        // While pages are out under their addresses, no one else must get the number that tells whose they are.
        if self.pages() == 0 {
            self.table.leave(self.owner);
        }
    }
}

impl<A: PageAllocator, M: PageMap> Drop for PoolConsumer<'_, '_, A, M> {
    fn drop(&mut self) {
        self.pool.consumer.leave();
    }
}

/// Pages from the allocator that are not the pool's yet: they go back, also if mapping one panics.
struct Rest<'a, 'p, 't, A: PageAllocator, M: PageMap> {
    pool: &'p PagePool<'t, A, M>,
    cx: &'a Cx,
    pages: &'a [Pfn],
}

impl<A: PageAllocator, M: PageMap> Drop for Rest<'_, '_, '_, A, M> {
    fn drop(&mut self) {
        for page in self.pages {
            // The allocator just handed them out to this CPU.
            let _ = self.pool.allocator.free(self.cx, *page, self.pool.request.order);
        }
    }
}
