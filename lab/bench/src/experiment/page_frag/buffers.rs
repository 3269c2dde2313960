//! The buffers of packets: pages of a pool for each receiving CPU, and what becomes of them when a packet is complete.

use crate::error::BenchError;
use pageyard::{CpuId, Cx, Migratetype, Order, PageAllocator, Pfn, Request};
use pageyard_packets::{
    FragConfig, FragPages, Fragment, PacketsError, PagePool, PoolConfig, PoolConsumer, PoolPage, PoolStats,
    UseTable,
};

/// CPUs that receive at most.
const CPUS: u32 = 2;

pub(super) type Page<A> = PoolPage<'static, 'static, &'static A>;
pub(super) type Consumer<A> = PoolConsumer<'static, 'static, &'static A>;

/// An allocator's fragments, and a pool for each CPU that receives.
///
/// All of it is kept for good, about a megabyte: buffers that borrow from it go to threads that outlive any borrow.
pub(super) struct Buffers<A: PageAllocator + 'static> {
    allocator: &'static A,
    fragments: FragPages<'static, &'static A>,
    pools: Vec<PagePool<'static, &'static A>>,
}

fn failed(why: PacketsError) -> BenchError {
    BenchError::Experiment { why: format!("pools of packets' pages were not made: {why}") }
}

impl<A: PageAllocator + 'static> Buffers<A> {
    /// Makes pools of single frames over an allocator.
    ///
    /// # Errors
    /// [`BenchError::Experiment`] where there is no memory for their tables.
    pub fn over(allocator: A) -> Result<Buffers<A>, BenchError> {
        let allocator: &'static A = Box::leak(Box::new(allocator));
        let table: &'static UseTable<'static> = Box::leak(Box::new(UseTable::of(allocator).map_err(failed)?));
        let config = FragConfig { request: Request::new(Order::ZERO, Migratetype::Unmovable) };
        let fragments = FragPages::new(allocator, table, config).map_err(failed)?;
        let pool = |_| PagePool::owned(allocator, table, PoolConfig::new(), ());
        let pools = (0..CPUS).map(pool).collect::<Result<_, _>>().map_err(failed)?;
        Ok(Buffers { allocator, fragments, pools })
    }

    /// Returns the allocator.
    pub fn allocator(&self) -> &'static A {
        self.allocator
    }

    /// Returns the consumer of a CPU's pool.
    pub fn consumer(&'static self, cpu: usize) -> Option<Consumer<A>> {
        self.pools.get(cpu)?.consumer()
    }

    /// Returns what the pools have counted together.
    pub fn stats(&self) -> PoolStats {
        self.pools.iter().map(PagePool::stats).fold(PoolStats::default(), |a, b| PoolStats {
            recycle_cached: a.recycle_cached + b.recycle_cached,
            recycle_ring: a.recycle_ring + b.recycle_ring,
            recycle_ring_full: a.recycle_ring_full + b.recycle_ring_full,
            released_refcnt: a.released_refcnt + b.released_refcnt,
            pages: a.pages + b.pages,
            ..a
        })
    }

    /// Closes the pools, while no thread uses them. Returns how many pages are still out.
    pub fn close(&'static self) -> u64 {
        let cx = Cx::on(CpuId(0));
        self.pools.iter().filter_map(PagePool::consumer).map(|consumer| consumer.close(&cx)).sum()
    }
}

/// The path of a packet's page from receipt to completion.
pub(super) trait Fate: Send + Sync + 'static {
    /// A packet's buffer.
    type Buffer<A: PageAllocator + 'static>: Send;

    /// Makes a page the buffer of a packet. `None`: it was refused, and is lost.
    fn build<A: PageAllocator + 'static>(
        buffers: &'static Buffers<A>,
        page: Page<A>,
    ) -> Option<Self::Buffer<A>>;

    /// Returns the buffer's frame.
    fn page<A: PageAllocator + 'static>(buffer: &Self::Buffer<A>) -> Pfn;

    /// Gives the buffer back. `false`: it was refused.
    fn put<A: PageAllocator + 'static>(buffer: Self::Buffer<A>, cx: &Cx) -> bool;
}

/// Recycling fails: the page leaves its pool, and the packet's buffer is one fragment of it, freed to the allocator. So
/// the pool is always empty and asks the allocator.
///
/// # Linux
/// The document's account of mlx5: `page_pool_release_page` and `build_skb` on receipt, `page_frag_free` on
/// completion.
pub(super) struct Leaves;

impl Fate for Leaves {
    type Buffer<A: PageAllocator + 'static> = Fragment<'static, FragPages<'static, &'static A>>;

    #[inline]
    fn build<A: PageAllocator + 'static>(
        buffers: &'static Buffers<A>,
        page: Page<A>,
    ) -> Option<Self::Buffer<A>> {
        buffers.fragments.whole(page.release(), Order::ZERO)
    }

    #[inline]
    fn page<A: PageAllocator + 'static>(buffer: &Self::Buffer<A>) -> Pfn {
        buffer.block()
    }

    #[inline]
    fn put<A: PageAllocator + 'static>(buffer: Self::Buffer<A>, cx: &Cx) -> bool {
        buffer.put(cx).is_ok()
    }
}

/// Recycling works: the page comes back to its pool through the ring.
pub(super) struct Recycled;

impl Fate for Recycled {
    type Buffer<A: PageAllocator + 'static> = Page<A>;

    #[inline]
    fn build<A: PageAllocator + 'static>(_: &'static Buffers<A>, page: Page<A>) -> Option<Page<A>> {
        Some(page)
    }

    #[inline]
    fn page<A: PageAllocator + 'static>(buffer: &Page<A>) -> Pfn {
        buffer.pfn()
    }

    #[inline]
    fn put<A: PageAllocator + 'static>(buffer: Page<A>, cx: &Cx) -> bool {
        buffer.put(cx).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::machines::{reference, sound};
    use crate::harness::engines::one_zone;
    use pageyard::Counter;
    use pageyard_linux::{Config, OneByOne};

    const CX: Cx = Cx::on(CpuId(0));

    fn buffers(frag_free: &str) -> &'static Buffers<OneByOne> {
        let mut config = Config::linux_4_10();
        config.set("frag_free", frag_free).unwrap();
        let linux = reference(&one_zone(1 << 15), &config).unwrap();
        Box::leak(Box::new(Buffers::over(OneByOne::new(linux)).unwrap()))
    }

    /// Sends a packet's page all the way, and returns its frame.
    fn forward<F: Fate>(buffers: &'static Buffers<OneByOne>) -> Pfn {
        let mut pages = buffers.consumer(0).unwrap();
        let packet = F::build(buffers, pages.get(&CX).unwrap()).unwrap();
        let page = F::page::<OneByOne>(&packet);
        assert!(F::put::<OneByOne>(packet, &CX));
        page
    }

    #[test]
    fn a_page_that_leaves_is_asked_for_anew_and_freed_where_the_knob_says() {
        for (frag_free, locked) in [("buddy", 100), ("pcp", 0)] {
            let buffers = buffers(frag_free);
            forward::<Leaves>(buffers);
            let before = buffers.allocator().stats();
            for _ in 0..100 {
                forward::<Leaves>(buffers);
            }
            let after = buffers.allocator().stats();
            let grown = |counter: Counter| after[counter] - before[counter];
            assert_eq!((grown(Counter::Pgalloc), grown(Counter::Pgfree)), (100, 100), "{frag_free}");
            let taken = grown(Counter::ZoneLock);
            assert!((locked..locked + 20).contains(&taken), "{frag_free}: the lock was taken {taken} times");
            let stats = buffers.stats();
            assert_eq!((stats.released_refcnt, stats.recycle_ring, stats.pages), (101, 0, 0));
            assert_eq!(buffers.close(), 0);
            sound([buffers.allocator() as &dyn PageAllocator]).unwrap();
        }
    }

    #[test]
    fn a_page_that_is_recycled_is_handed_out_again_without_the_allocator() {
        let buffers = buffers("buddy");
        let first = forward::<Recycled>(buffers);
        let before = buffers.allocator().stats()[Counter::Pgalloc];
        assert!((0..100).all(|_| forward::<Recycled>(buffers) == first));
        assert_eq!(buffers.allocator().stats()[Counter::Pgalloc], before);
        assert_eq!((buffers.stats().recycle_ring, buffers.stats().released_refcnt), (101, 0));
        assert_eq!(buffers.close(), 0);
        sound([buffers.allocator() as &dyn PageAllocator]).unwrap();
    }
}
