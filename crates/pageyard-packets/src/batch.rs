//! Up to 64 pages of a pool, which are taken, passed on and given back together.

use crate::batch_ring::BATCH;
use crate::consumer::PoolConsumer;
use crate::error::{GetError, PutError, Refused};
use crate::fragment::Parts;
use crate::page::{PoolPage, RestOfBatch};
use crate::pool::{PageMap, PagePool};
use core::fmt;
use pageyard_core::allocator::{Cx, PageAllocator};
use pageyard_core::units::{Pfn, PhysAddr};

/// Up to 64 pages of one pool, their holder's alone: a burst of packets. It is 272 bytes, and is passed on as a whole.
///
/// A batch that is dropped goes back to its pool, as a [`PoolPage`] does.
///
#[cfg_attr(feature = "alloc", doc = "```")]
#[cfg_attr(not(feature = "alloc"), doc = "```ignore")]
/// # use pageyard_packets::{PagePool, PoolConfig, UseTable};
/// # use pageyard::*;
/// # let regions = [Region::managed(Pfn(0), Frames(1 << 15), NodeId(0), ZoneKind::Normal)];
/// # let yard = Pageyard::owned(&MemoryMap::new(&regions)?, Config::new(2), TryLock)?;
/// # let table = UseTable::of(&*yard)?;
/// # let pool = PagePool::owned(&*yard, &table, PoolConfig::new(), ())?;
/// # let (receive, complete) = (Cx::on(CpuId(0)), Cx::on(CpuId(1)));
/// let mut consumer = pool.consumer().unwrap();
/// let mut burst = consumer.get_bulk(&receive, PoolConfig::BATCH)?;
/// let kept = burst.pop().unwrap();
/// assert_eq!(burst.len(), 63);
/// burst.put(&complete).unwrap(); // from any CPU, with two locked instructions
/// kept.put(&complete).unwrap();
/// assert_eq!(consumer.close(&receive), 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "pages that are dropped go back to their pool"]
pub struct PoolBatch<'p, 't, A: PageAllocator, M: PageMap = ()> {
    pool: &'p PagePool<'t, A, M>,
    /// The pages' numbers; those from `len` on mean nothing.
    numbers: [u32; BATCH],
    len: usize,
}

impl<'p, 't, A: PageAllocator, M: PageMap> PoolBatch<'p, 't, A, M> {
    #[inline(always)]
    fn new(pool: &'p PagePool<'t, A, M>) -> Self {
        PoolBatch { pool, numbers: [0; BATCH], len: 0 }
    }

    /// Returns its pool.
    #[must_use]
    #[inline(always)]
    pub fn pool(&self) -> &'p PagePool<'t, A, M> {
        self.pool
    }

    /// Returns how many pages it has.
    #[must_use]
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns whether it has none.
    #[must_use]
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns whether it has as many as there can be.
    #[must_use]
    #[inline(always)]
    pub fn is_full(&self) -> bool {
        self.len == BATCH
    }

    /// Iterates over the first frames of its pages.
    pub fn pfns(&self) -> impl ExactSizeIterator<Item = Pfn> + '_ {
        self.numbers[..self.len].iter().map(|number| self.pool.page(*number))
    }

    /// Adds a page.
    ///
    /// # Errors
    /// The page, where the batch is full, or of another pool.
    #[inline]
    pub fn push(&mut self, page: PoolPage<'p, 't, A, M>) -> Result<(), PoolPage<'p, 't, A, M>> {
        if self.is_full() || !page.is_of(self.pool) {
            return Err(page);
        }
        let page = page.into_page();
        self.add(page);
        Ok(())
    }

    /// Adds a page that the caller owns. There is room.
    #[inline(always)]
    fn add(&mut self, page: Pfn) {
        self.numbers[self.len % BATCH] = self.pool.number(page);
        self.len += 1;
    }

    /// Takes a page out of it.
    #[inline]
    pub fn pop(&mut self) -> Option<PoolPage<'p, 't, A, M>> {
        self.take().map(|page| PoolPage::new(self.pool, page))
    }

    #[inline(always)]
    fn take(&mut self) -> Option<Pfn> {
        self.len = self.len.checked_sub(1)?;
        Some(self.pool.page(self.numbers[self.len % BATCH]))
    }

    /// Returns whether it is of this pool.
    #[inline(always)]
    fn is_of(&self, pool: &PagePool<'t, A, M>) -> bool {
        core::ptr::eq(self.pool, pool)
    }

    /// Gives all its pages back to their pool, from any CPU: with two locked instructions, if the ring has room.
    ///
    /// # Errors
    /// [`Refused`], with the remaining pages, if the ring is full or the pool closed and the allocator also refuses a
    /// page because it does not have this CPU.
    #[inline]
    #[allow(
        clippy::result_large_err,
        reason = "what was refused is the whole batch, and is written only then"
    )]
    pub fn put(mut self, cx: &Cx) -> Result<(), Refused<Self>> {
        if self.offer() {
            return Ok(());
        }
        let pool = self.pool;
        let mut rest = self.into_rest();
        while let Some(page) = rest.next() {
            if let Err(why) = pool.recycle(cx, page) {
                let (numbers, len) = rest.into_numbers();
                let mut item = PoolBatch { pool, numbers, len };
                item.add(page);
                return Err(Refused { why: PutError::Free(why), item });
            }
        }
        Ok(())
    }

    /// Gives it up, to go page by page.
    fn into_rest(self) -> RestOfBatch<'p, 't, A, M> {
        let batch = core::mem::ManuallyDrop::new(self);
        RestOfBatch::new(batch.pool, &batch.numbers[..batch.len])
    }

    /// Writes the batch to the ring of batches, which leaves it empty; returns whether it did.
    #[inline(always)]
    fn offer(&mut self) -> bool {
        let is_there = self.pool.offer_batch(&self.numbers, self.len);
        if is_there {
            self.len = 0;
        }
        is_there
    }
}

impl<'t, A: PageAllocator, M: PageMap> PagePool<'t, A, M> {
    /// Returns a batch of no pages, to be filled with pages of this pool.
    pub fn batch(&self) -> PoolBatch<'_, 't, A, M> {
        PoolBatch::new(self)
    }

    /// Gives back pages by their addresses, as [`put_raw`](PagePool::put_raw) does, but in batches: one locked
    /// instruction to check each page, and two more for every 64. `wrong` is called for each that is refused, with its
    /// address or, where the allocator refused it, its page's.
    ///
    /// # Linux
    /// `page_pool_put_page_bulk`.
    pub fn put_raw_bulk(&self, cx: &Cx, pages: &[PhysAddr], wrong: &mut dyn FnMut(PhysAddr, PutError)) {
        let mut batch = self.batch();
        for at in pages {
            match self.give_up(*at) {
                Ok(Some((block, _))) => {
                    if batch.is_full() {
                        self.put_batch(cx, core::mem::replace(&mut batch, self.batch()), wrong);
                    }
                    batch.add(block);
                }
                Ok(None) => {}
                Err(why) => wrong(*at, why),
            }
        }
        self.put_batch(cx, batch, wrong);
    }

    /// Gives back pages that were given up by their addresses; what is refused is in use again, under its address.
    fn put_batch(&self, cx: &Cx, batch: PoolBatch<'_, 't, A, M>, wrong: &mut dyn FnMut(PhysAddr, PutError)) {
        if let Err(Refused { why, item }) = batch.put(cx) {
            let mut rest = item.into_rest();
            while let Some(page) = rest.next() {
                self.table.start(page, self.owner, 1);
                wrong(page.address(), why);
            }
        }
    }
}

impl<'p, 't, A: PageAllocator, M: PageMap> PoolConsumer<'p, 't, A, M> {
    /// Takes up to `count` pages, and up to [`PoolConfig::BATCH`](super::PoolConfig::BATCH): from the cache, else from
    /// the ring, else from the allocator. There are fewer where all these have no more.
    ///
    /// # Errors
    /// As [`PoolConsumer::get`], where there is none.
    pub fn get_bulk(&mut self, cx: &Cx, count: usize) -> Result<PoolBatch<'p, 't, A, M>, GetError> {
        let pool = self.pool();
        let (mut batch, mut fills) = (pool.batch(), 0);
        let count = count.min(BATCH);
        if count == BATCH && self.cache().len == 0 {
            // As it came back: not through the cache.
            batch.len = pool.returns.slices.batches.take(&mut batch.numbers);
            fills = u64::from(batch.len > 0);
            pool.consumer.from_ring.add(batch.len as u64);
            pool.consumer.refill.add(fills);
        }
        while batch.len < count {
            if self.cache().len == 0 {
                match self.fill(cx) {
                    Ok(()) => fills += 1,
                    Err(why) if batch.is_empty() => return Err(why),
                    Err(_) => break,
                }
            }
            let cache = self.cache();
            let some = cache.len.min(count - batch.len);
            cache.len -= some;
            batch.numbers[batch.len..][..some].copy_from_slice(&cache.numbers[cache.len..][..some]);
            batch.len += some;
        }
        pool.consumer.fast.add((batch.len as u64).saturating_sub(fills));
        Ok(batch)
    }

    /// Gives pages back to the cache; those that have no room there, to the ring, and then to the allocator.
    ///
    /// # Errors
    /// As [`PoolConsumer::put`], with the pages that are left.
    #[allow(
        clippy::result_large_err,
        reason = "what was refused is the whole batch, and is written only then"
    )]
    pub fn put_bulk(
        &mut self,
        cx: &Cx,
        mut batch: PoolBatch<'p, 't, A, M>,
    ) -> Result<(), Refused<PoolBatch<'p, 't, A, M>>> {
        if !batch.is_of(self.pool()) {
            return Err(Refused { why: PutError::WrongOwner, item: batch });
        }
        let cache = self.cache();
        let some = batch.len.min(cache.room.saturating_sub(cache.len));
        batch.len -= some;
        cache.numbers[cache.len..][..some].copy_from_slice(&batch.numbers[batch.len..][..some]);
        cache.len += some;
        self.pool().consumer.cached.add(some as u64);
        if batch.is_empty() {
            return Ok(());
        }
        self.pool().consumer.cache_full.add(batch.len as u64);
        batch.put(cx)
    }
}

impl<A: PageAllocator, M: PageMap> Drop for PoolBatch<'_, '_, A, M> {
    #[inline]
    fn drop(&mut self) {
        if self.len > 0 && !self.offer() {
            let mut rest = RestOfBatch::new(self.pool, &self.numbers[..self.len]);
            while let Some(page) = rest.next() {
                self.pool.dropped(page);
            }
        }
    }
}

impl<A: PageAllocator, M: PageMap> fmt::Debug for PoolBatch<'_, '_, A, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.pfns()).finish()
    }
}
