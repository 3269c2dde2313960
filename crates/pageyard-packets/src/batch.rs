//! Up to 64 pages of a pool, which are taken, passed on and given back together.

use crate::batch_ring::BATCH;
use crate::consumer::PoolConsumer;
use crate::error::{GetError, PutError, Refused};
use crate::fragment::Parts;
use crate::page::{PoolPage, RestOfBatch};
use crate::pool::{PageMap, PagePool};
use core::fmt;
use pageyard_core::allocator::{Cx, PageAllocator};
use pageyard_core::units::{Order, Pfn, PhysAddr};

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
    /// instruction to check each page, or up to eight neighbours that follow each other, and two more for every 64.
    /// `wrong` is called for each that is refused, with its address or, where the allocator refused it, its page's.
    ///
    /// # Linux
    /// `page_pool_put_page_bulk`.
    pub fn put_raw_bulk(&self, cx: &Cx, mut pages: &[PhysAddr], wrong: &mut dyn FnMut(PhysAddr, PutError)) {
        while !pages.is_empty() {
            let mut batch = self.batch();
            loop {
                let (won, left) = self.take_back(pages, &mut batch.numbers[batch.len..]);
                batch.len += won;
                pages = left;
                let [at, behind @ ..] = left else { break };
                if batch.is_full() {
                    break;
                }
                pages = behind;
                match self.give_up_fragment(*at) {
                    Ok(Some((page, _))) => batch.add(page),
                    Ok(None) => {}
                    Err(why) => wrong(*at, why),
                }
            }
            if batch.offer() {
                continue;
            }
            if let Err(Refused { why, item }) = batch.put(cx) {
                let mut rest = item.into_rest();
                while let Some(page) = rest.next() {
                    self.table.marks().lend(page, self.owner);
                    wrong(page.address(), why);
                }
            }
        }
    }

    /// Makes pages that are out under these addresses the caller's, and writes their numbers, until there is no more
    /// room or one is not such a page; returns how many, and the addresses from that one on.
    #[inline(always)]
    fn take_back<'a>(&self, mut pages: &'a [PhysAddr], out: &mut [u32]) -> (usize, &'a [PhysAddr]) {
        let (owner, numbers, marks, order) =
            (self.owner, self.numbers, self.table.marks(), self.request.order);
        let mut won = 0;
        while let [at, behind @ ..] = pages
            && won < out.len()
        {
            if order == Order::ZERO
                && let [next, ..] = behind
                && marks.are_neighbours(*at, *next)
            {
                // A page's number is what this writes.
                let these = marks.neighbours(pages, &mut out[won..]);
                if these.count > 1 && marks.take_all(these, owner) {
                    (won, pages) = (won + these.count, &pages[these.count..]);
                    continue;
                }
            }
            let page = at.pfn().align_down(order);
            if !marks.take(page, owner) {
                break;
            }
            out[won] = numbers.of(page);
            (won, pages) = (won + 1, behind);
        }
        (won, pages)
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
        let mut batch = pool.batch();
        let count = count.min(BATCH);
        if count == BATCH && self.cache().len == 0 {
            // As it came back: not through the cache.
            batch.len = pool.returns.slices.batches.take(&mut batch.numbers);
            pool.consumer.from_ring.add(batch.len as u64);
            pool.consumer.refill.add(u64::from(batch.len > 0));
            pool.consumer.fast.add((batch.len as u64).saturating_sub(1));
        }
        let more = count - batch.len;
        let (numbers, len) = (&mut batch.numbers, &mut batch.len);
        let taken = self.take(cx, more, |some| {
            numbers[*len..][..some.len()].copy_from_slice(some);
            *len += some.len();
        });
        match taken {
            Err(why) if batch.is_empty() => return Err(why),
            _ => {}
        }
        Ok(batch)
    }

    /// Takes up to as many pages as there is room for addresses, as [`PoolConsumer::get_bulk`] does, in the raw form of
    /// [`PoolPage::into_raw`]; returns how many it wrote, from the front.
    ///
    /// # Errors
    /// As there.
    pub fn get_raw_bulk(&mut self, cx: &Cx, out: &mut [PhysAddr]) -> Result<usize, GetError> {
        let pool = self.pool();
        let (numbers, owner, marks) = (pool.numbers, pool.owner, pool.table.marks());
        let mut got = 0;
        let room = out.len();
        self.take(cx, room, |some| {
            for number in some {
                let page = numbers.page(*number);
                marks.lend(page, owner);
                out[got] = page.address();
                got += 1;
            }
        })?;
        Ok(got)
    }

    /// Takes up to `count` pages out of the cache, which is filled as often as needed, and calls `f` with their
    /// numbers, some at a time.
    #[inline(always)]
    fn take(&mut self, cx: &Cx, count: usize, mut f: impl FnMut(&[u32])) -> Result<(), GetError> {
        let (mut left, mut fills) = (count, 0);
        while left > 0 {
            if self.cache().len == 0 {
                match self.fill(cx) {
                    Ok(()) => fills += 1,
                    Err(why) if left == count => return Err(why),
                    Err(_) => break,
                }
            }
            let cache = self.cache();
            let some = cache.len.min(left);
            // First: a thread that is killed after this leaves pages that are nowhere, not in two places.
            cache.len -= some;
            f(&cache.numbers[cache.len..][..some]);
            left -= some;
        }
        self.pool().consumer.fast.add(((count - left) as u64).saturating_sub(fills));
        Ok(())
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

    /// Gives back pages by their addresses, as [`PagePool::put_raw_bulk`] does, but to the cache; those that have no
    /// room there, to the ring.
    pub fn put_raw_bulk(
        &mut self,
        cx: &Cx,
        mut pages: &[PhysAddr],
        wrong: &mut dyn FnMut(PhysAddr, PutError),
    ) {
        let pool = self.pool();
        loop {
            let cache = self.cache();
            let room = cache.room.max(cache.len);
            let (won, left) = pool.take_back(pages, &mut cache.numbers[cache.len..room]);
            cache.len += won;
            let is_full = cache.len >= room;
            pool.consumer.cached.add(won as u64);
            let [at, behind @ ..] = left else { return };
            if is_full {
                pool.consumer.cache_full.add(left.len() as u64);
                return pool.put_raw_bulk(cx, left, wrong);
            }
            pages = behind;
            // A fragment, or wrong.
            if let Err(why) = self.put_raw(cx, *at) {
                wrong(*at, why);
            }
        }
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
