//! A pool of pages, and what any CPU can do with it: give pages back, and ask what it has counted.

use crate::batch_ring::BATCH;
use crate::cache::Consumer;
use crate::carve::LARGEST;
use crate::error::{PacketsError, PutError};
use crate::fragment::{FragmentOwner, Parts};
use crate::placed::{self, Placed};
use crate::returns::Returns;
use crate::ring::MOST_SLOTS;
use crate::stats::{Count, Own, PoolStats};
use crate::use_table::{Owner, UseTable};
use pageyard_core::allocator::{Cx, PageAllocator};
use pageyard_core::error::FreeError;
use pageyard_core::migratetype::Migratetype;
use pageyard_core::request::Request;
use pageyard_core::units::{Frames, Order, Pfn, PhysAddr};
use pageyard_sync::Metadata;
use pageyard_sync::{A32, Carver, Relaxed, SeqCst, store_load_fence};

/// Pages that can be on their way to the allocator at a time, and be found if their threads are killed.
const LEAVING: usize = if cfg!(pageyard_loom) { 1 } else { 16 };

/// The fewest pages worth writing to the ring of batches: fewer cost no more locked instructions one by one.
const LEAST: usize = 3;

/// How large a pool's pages and its ring are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PoolConfig {
    /// The request for a page: its order is at most 9.
    pub request: Request,
    /// Slots of the ring for pages that come back from other CPUs one by one, and of that for batches: a power of two.
    /// The ring for batches has 64 slots at least.
    ///
    /// # Linux
    /// `page_pool_params.pool_size`.
    pub ring: u32,
}

impl PoolConfig {
    /// The most slots that a ring has.
    pub const MOST_SLOTS: u32 = MOST_SLOTS;

    /// The most pages that a [`PoolBatch`](crate::PoolBatch) has.
    pub const BATCH: usize = BATCH;

    /// Unmovable single frames, and a ring of 1,024.
    #[must_use]
    pub const fn new() -> PoolConfig {
        PoolConfig { request: Request::new(Order::ZERO, Migratetype::Unmovable), ring: 1024 }
    }

    fn check(&self) -> Result<(), PacketsError> {
        let order = self.request.order;
        if order > LARGEST {
            return Err(PacketsError::Order { order, largest: LARGEST });
        }
        if !self.ring.is_power_of_two() || self.ring > Self::MOST_SLOTS {
            return Err(PacketsError::Ring { slots: self.ring });
        }
        Ok(())
    }
}

impl Default for PoolConfig {
    fn default() -> PoolConfig {
        PoolConfig::new()
    }
}

/// How a pool numbers its pages, so that 32 bits hold one: by the complement of their place in the table, which is
/// never 0.
#[derive(Clone, Copy)]
pub(crate) struct Numbers {
    /// The table's first frame, in pages.
    first: u64,
    order: Order,
}

impl Numbers {
    #[inline(always)]
    pub fn of(self, page: Pfn) -> u32 {
        !(((page.0 >> self.order.get()) - self.first) as u32)
    }

    #[inline(always)]
    pub fn page(self, number: u32) -> Pfn {
        Pfn((u64::from(!number) + self.first) << self.order.get())
    }
}

/// Work done once for each page when it enters a pool, and once when it leaves: mapping it for a device.
///
/// The value of a page stays with it while it is recycled. `()` maps nothing.
/// [`UNMAPPED`](PageMap::UNMAPPED) is no value.
///
/// # Linux
/// `PP_FLAG_DMA_MAP` and `page_pool_get_dma_addr`.
pub trait PageMap: Sync {
    /// Whether pages have values at all.
    const MAPS: bool = true;

    /// The value that means "not mapped".
    const UNMAPPED: u64 = u64::MAX;

    /// Maps a page; returns its value, or `None` where that is not possible. A page whose mapping panics goes back to
    /// the allocator.
    fn map(&self, page: Pfn, order: Order) -> Option<u64>;

    /// Ends that, before the page goes to the allocator. If this panics, the page stays in use, under its address.
    fn unmap(&self, page: Pfn, order: Order, value: u64);
}

impl PageMap for () {
    const MAPS: bool = false;

    fn map(&self, _: Pfn, _: Order) -> Option<u64> {
        Some(0)
    }

    fn unmap(&self, _: Pfn, _: Order, _: u64) {}
}

/// A pool of pages of one order. One consumer at a time takes pages; any CPU gives them back.
///
/// Dropping it [closes](crate::PoolConsumer::close) it if its allocator [may be called
/// anywhere](PageAllocator::anywhere). Otherwise close it first: if it is dropped open, its pages stay allocated.
/// [`RequestFlags::ZERO`](pageyard_core::RequestFlags::ZERO) holds for a page's first use only.
///
/// # Examples
#[cfg_attr(feature = "alloc", doc = "```")]
#[cfg_attr(not(feature = "alloc"), doc = "```ignore")]
/// use pageyard_packets::{PagePool, PoolConfig, UseTable};
/// use pageyard::*;
///
/// let regions = [Region::managed(Pfn(0), Frames(1 << 15), NodeId(0), ZoneKind::Normal)];
/// let yard = Pageyard::owned(&MemoryMap::new(&regions)?, Config::new(2), TryLock)?;
/// let table = UseTable::of(&*yard)?;
/// let pool = PagePool::owned(&*yard, &table, PoolConfig::new(), ())?;
///
/// let (receive, complete) = (Cx::on(CpuId(0)), Cx::on(CpuId(1)));
/// let mut consumer = pool.consumer().unwrap(); // the receive queue's
/// let page = consumer.get(&receive)?;
/// page.put(&complete).unwrap(); // from any CPU, through the ring
/// assert_eq!(pool.stats().recycle_ring, 1);
/// assert_eq!(consumer.close(&receive), 0, "no page is still out");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Linux
/// `struct page_pool`.
pub struct PagePool<'t, A: PageAllocator, M: PageMap = ()> {
    pub(crate) allocator: A,
    pub(crate) table: &'t UseTable<'t>,
    pub(crate) owner: Owner,
    pub(crate) request: Request,
    pub(crate) numbers: Numbers,
    pub(crate) map: M,
    pub(crate) returns: Placed<Returns<'t>>,
    pub(crate) consumer: Consumer,
    /// Not 0 once the pool was closed.
    closed: A32,
    /// Numbers of pages that are on their way to the allocator.
    pub(crate) leaving: [A32; LEAVING],
    /// Pages that came from the allocator.
    pub(crate) came: Own,
    /// Pages that the pool has no more.
    pub(crate) gone: Count,
    ring_full: Count,
    released_refcnt: Count,
}

impl<'t, A: PageAllocator, M: PageMap> PagePool<'t, A, M> {
    fn carve(config: &PoolConfig) -> impl Fn(&mut Carver<'t>) -> Returns<'t> + use<'t, A, M> {
        let slots = config.ring as usize;
        move |c| Returns::carve(slots, c)
    }

    fn with(
        allocator: A,
        table: &'t UseTable<'t>,
        config: PoolConfig,
        map: M,
        returns: Placed<Returns<'t>>,
    ) -> Result<Self, PacketsError> {
        if M::MAPS && !table.keeps_values() {
            return Err(PacketsError::NoValues);
        }
        let closed = A32::new(0);
        let (consumer, came) = (Consumer::new(), Own::default());
        let (gone, ring_full, released_refcnt) = Default::default();
        let leaving = [0; LEAVING].map(A32::new);
        let (owner, request) = (table.enter()?, config.request);
        let order = request.order;
        let numbers = Numbers { first: table.first().0 >> order.get(), order };
        Ok(PagePool {
            allocator,
            table,
            owner,
            request,
            numbers,
            map,
            returns,
            consumer,
            closed,
            leaving,
            came,
            gone,
            ring_full,
            released_refcnt,
        })
    }

    /// Returns the bytes of memory that a pool's rings need.
    ///
    /// # Errors
    /// [`PacketsError::Order`], [`PacketsError::Ring`].
    pub fn bytes(config: &PoolConfig) -> Result<usize, PacketsError> {
        config.check()?;
        Ok(placed::bytes(Self::carve(config)))
    }

    /// Makes a pool with its rings in the caller's memory.
    ///
    /// # Errors
    /// As [`PagePool::bytes`]; [`PacketsError::MemoryTooSmall`], [`PacketsError::NoValues`],
    /// [`PacketsError::TooManyOwners`].
    pub fn new(
        allocator: A,
        table: &'t UseTable<'t>,
        config: PoolConfig,
        map: M,
        memory: Metadata<'t>,
    ) -> Result<Self, PacketsError> {
        config.check()?;
        Self::with(allocator, table, config, map, Placed::new(memory, Self::carve(&config))?)
    }

    /// Makes a pool that owns its rings' memory.
    ///
    /// # Errors
    /// As [`PagePool::new`], with [`PacketsError::NoMemory`].
    #[cfg(feature = "alloc")]
    pub fn owned(
        allocator: A,
        table: &'t UseTable<'t>,
        config: PoolConfig,
        map: M,
    ) -> Result<Self, PacketsError> {
        config.check()?;
        let slots = config.ring as usize;
        let returns = Placed::owned(move |c| Returns::carve(slots, c))?;
        Self::with(allocator, table, config, map, returns)
    }

    /// Returns whether the pool was closed: what comes back goes to the allocator.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.closed.load(SeqCst) != 0
    }

    /// Says that the pool is closed, before its consumer takes the pages out of its ring.
    pub(crate) fn close(&self) {
        // ORDER: SeqCst, before the loads of `sweep`: a thread that writes to the ring looks here afterwards. One of
        // both sees the other.
        self.closed.store(1, SeqCst);
        store_load_fence();
    }

    /// Returns how many pages the pool has: handed out, in its cache, or in its ring.
    ///
    /// # Linux
    /// `page_pool_inflight`.
    #[must_use]
    pub fn pages(&self) -> u64 {
        // In this order: a page comes before it goes.
        let gone = self.gone.get();
        self.came.get().saturating_sub(gone)
    }

    /// Returns the counters.
    #[must_use]
    pub fn stats(&self) -> PoolStats {
        let ring = self.returns.slices.count() as u64;
        let mut stats = self.consumer.stats(self.request.order);
        stats.recycle_ring += ring;
        stats.recycle_ring_full = self.ring_full.get();
        stats.released_refcnt = self.released_refcnt.get();
        stats.pages = self.pages();
        stats.in_ring = ring;
        stats
    }

    /// Returns the order of its pages.
    #[must_use]
    pub fn order(&self) -> Order {
        self.request.order
    }

    /// Returns the allocator.
    pub fn allocator(&self) -> &A {
        &self.allocator
    }

    /// Returns what maps the pages.
    pub fn map(&self) -> &M {
        &self.map
    }

    /// Calls `f` with the address of each page that is out as a bare address or as fragments, and with how many uses it
    /// has.
    ///
    /// After a crash this says which pages somebody has to give back. The page that the consumer carves is among them,
    /// with the uses that it has set aside: after [`PoolConsumer::close`](crate::PoolConsumer::close) it is not. It
    /// reads the whole table.
    pub fn visit_in_use(&self, f: &mut dyn FnMut(PhysAddr, u32)) {
        self.table.visit(self.owner, &mut |pfn, uses| f(pfn.address(), uses));
    }

    /// Calls `f` with each page that a thread is giving to the allocator, or was when it was killed: of up to 16 at a
    /// time.
    ///
    /// After a crash that thread may have been killed on either side of what gives the page away. So such a page is the
    /// pool's, or free, or another's by now: see [`PoolConsumer::recover`](crate::PoolConsumer::recover).
    pub fn visit_leaving(&self, f: &mut dyn FnMut(Pfn)) {
        for note in &self.leaving {
            // ORDER: Relaxed: a hint, unless nothing else uses the pool.
            if let number @ 1.. = note.load(Relaxed) {
                f(self.page(number));
            }
        }
    }

    /// Notes that a page is on its way to the allocator; `None` where too many are.
    fn note_leaving(&self, page: Pfn) -> Option<&A32> {
        let number = self.number(page);
        // ORDER: Relaxed, as in `visit_leaving`.
        let take = |note: &&A32| note.compare_exchange(0, number, Relaxed, Relaxed).is_ok();
        self.leaving.iter().find(take)
    }

    /// Iterates over all blocks of the table that can be pages of the pool.
    pub(crate) fn places(&self) -> impl Iterator<Item = Pfn> {
        let (order, first) = (self.request.order, self.table.first());
        let start = first.align_up(order);
        let frames = self.table.frames().0.saturating_sub((start - first).0);
        (0..frames >> order.get()).map(move |nth| start + Frames(nth << order.get()))
    }

    /// Returns the number of a page among those that the ring and the cache can hold.
    #[inline(always)]
    pub(crate) fn number(&self, page: Pfn) -> u32 {
        self.numbers.of(page)
    }

    /// Returns the page of a number.
    #[inline(always)]
    pub(crate) fn page(&self, number: u32) -> Pfn {
        self.numbers.page(number)
    }

    /// Gives back a page, or a fragment of one, by its address, from any CPU: for descriptors that hold only numbers. A
    /// page that was given back is refused.
    ///
    /// A fragment that is given back twice is noticed when its page has no uses left: until then it counts as another
    /// of the page's, as in Linux.
    ///
    /// # Errors
    /// [`PutError`]; nothing changed.
    ///
    /// # Linux
    /// `page_pool_put_full_page`, and `page_frag_free`.
    pub fn put_raw(&self, cx: &Cx, at: PhysAddr) -> Result<(), PutError> {
        self.put_at(cx, at)
    }

    /// Writes a batch's numbers to its ring; returns whether they are there.
    #[inline(always)]
    pub(crate) fn offer_batch(&self, numbers: &[u32; BATCH], len: usize) -> bool {
        len >= LEAST && self.returns.slices.batches.push(numbers, len)
    }

    /// Writes a page that the caller owns to the ring; returns whether the pool now owns it: not if the ring is full or
    /// the pool closed.
    #[inline(always)]
    fn offer(&self, page: Pfn) -> bool {
        let number = self.number(page);
        let written = self.returns.slices.pages.push(number);
        store_load_fence();
        match written {
            // ORDER: SeqCst, in `is_closed`, after the compare-and-swap of `push`: see `close`.
            Some(_) if !self.is_closed() => true,
            // The consumer may have closed the pool and looked there before. If it took the page out, it is the
            // consumer's.
            Some(nth) => !self.returns.slices.pages.undo(nth, number),
            None => {
                self.ring_full.add(1);
                false
            }
        }
    }

    /// Puts a page, which the caller owns, into the ring; one that has no room there goes to the allocator.
    #[inline]
    pub(crate) fn recycle(&self, cx: &Cx, page: Pfn) -> Result<(), FreeError> {
        if self.offer(page) { Ok(()) } else { self.free(cx, page) }
    }

    /// Takes back a page that its holder dropped. Where the ring is full and the allocator may not be called anywhere,
    /// the page stays in use, under its address.
    #[inline]
    pub(crate) fn dropped(&self, page: Pfn) {
        if !self.offer(page) {
            self.dropped_without_room(page);
        }
    }

    #[cold]
    fn dropped_without_room(&self, page: Pfn) {
        let freed = self.allocator.anywhere().is_some_and(|cx| self.free(&cx, page).is_ok());
        if !freed {
            self.table.marks().lend(page, self.owner);
        }
    }

    /// Puts a page that was nowhere back into the ring, unless its mapping had been ended: then it goes to the
    /// allocator.
    pub(crate) fn recover_one(&self, cx: &Cx, page: Pfn) -> Result<(), FreeError> {
        let is_mapped = !M::MAPS || self.table.value(page) != M::UNMAPPED;
        if is_mapped { self.recycle(cx, page) } else { self.free(cx, page) }
    }

    /// Gives a page, which the caller owns, back to the allocator.
    pub(crate) fn free(&self, cx: &Cx, page: Pfn) -> Result<(), FreeError> {
        let order = self.request.order;
        self.unmap(page);
        // A thread that is killed before the allocator has the page leaves a note to find it by.
        let note = self.note_leaving(page);
        self.table.clear(page);
        let freed = self.allocator.free(cx, page, order);
        if let Some(note) = note {
            // ORDER: Relaxed: notes are read when nothing else uses the pool.
            note.store(0, Relaxed);
        }
        match freed {
            Ok(()) => {
                self.gone.add(1);
                Ok(())
            }
            Err(why) => {
                // It is still the caller's, as it was, unless it cannot be mapped again: then it has no value.
                self.table.start(page, self.owner, 0);
                if M::MAPS {
                    let stays = StaysInUse(self.table, self.owner, page);
                    let value = self.map.map(page, order).unwrap_or(M::UNMAPPED);
                    core::mem::forget(stays);
                    self.table.set_value(page, value);
                }
                Err(why)
            }
        }
    }

    /// Ends the mapping of a page, which the caller owns.
    fn unmap(&self, page: Pfn) {
        let value = self.table.value(page);
        if M::MAPS && value != M::UNMAPPED {
            let stays = StaysInUse(self.table, self.owner, page);
            self.map.unmap(page, self.request.order, value);
            core::mem::forget(stays);
            self.table.set_value(page, M::UNMAPPED);
        }
    }

    /// Takes a page, which the caller owns, out of the pool.
    pub(crate) fn take_out(&self, page: Pfn) {
        self.unmap(page);
        self.table.clear(page);
        self.gone.add(1);
        self.released_refcnt.add(1);
    }
}

/// A page that a callback has: if that panics, it stays in use, under its address.
struct StaysInUse<'a>(&'a UseTable<'a>, Owner, Pfn);

impl Drop for StaysInUse<'_> {
    fn drop(&mut self) {
        self.0.marks().lend(self.2, self.1);
    }
}

impl<A: PageAllocator, M: PageMap> FragmentOwner for PagePool<'_, A, M> {}

impl<A: PageAllocator, M: PageMap> Parts for PagePool<'_, A, M> {
    #[inline(always)]
    fn table(&self) -> &UseTable<'_> {
        self.table
    }

    fn owner(&self) -> Owner {
        self.owner
    }

    #[inline]
    fn block_of(&self, at: PhysAddr) -> Option<(Pfn, Order)> {
        let order = self.request.order;
        let block = at.pfn().align_down(order);
        self.table.covers(block, order.frames()).then_some((block, order))
    }

    /// Takes a page that is out, else gives up a fragment of one.
    #[inline]
    fn give_up(&self, at: PhysAddr) -> Result<Option<(Pfn, Order)>, PutError> {
        let order = self.request.order;
        let page = at.pfn().align_down(order);
        if self.table.marks().take(page, self.owner) {
            Ok(Some((page, order)))
        } else {
            self.give_up_fragment(at)
        }
    }

    #[inline]
    fn take_back(&self, cx: &Cx, block: Pfn, _: Order) -> Result<(), FreeError> {
        self.recycle(cx, block)
    }
}
