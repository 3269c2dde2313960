//! Handing pages and blocks of fragments between threads: every interleaving of a few calls, with rings and caches at
//! the sizes that ship.
//!
//! Each frame has a cell that its holder writes, so a page that is handed on without an order between its holders is
//! reported.

use loom::cell::UnsafeCell;
use loom::thread;
use pageyard::watermark::WatermarkKnobs;
use pageyard::{
    Config, CpuId, Cx, Frames, MemoryMap, Migratetype, NodeId, Order, OwnedPageyard, PageAllocator, Pageyard,
    Pfn, PhysAddr, Region, Request, RequestFlags, TryLock, ZoneKind,
};
use pageyard_packets::{FragConfig, FragPages, PagePool, PoolConfig, PutError, UseTable};
use pageyard_testkit::interleavings::explore;
use std::alloc::Layout;

const FRAMES: u64 = 8;

type Yard = &'static OwnedPageyard<TryLock>;

/// A model's machine, and the contents of its frames.
struct Machine {
    yard: OwnedPageyard<TryLock>,
    table: UseTable<'static>,
    contents: Vec<UnsafeCell<u64>>,
}

// SAFETY: the cells are what is being checked: the model checker reports every access that is not ordered.
unsafe impl Sync for Machine {}

/// Makes a machine that lives as long as the program: threads of a model do.
fn machine() -> &'static Machine {
    let regions = [Region::managed(Pfn(0), Frames(FRAMES), NodeId(0), ZoneKind::Normal)];
    let watermark =
        WatermarkKnobs { min_free_kbytes: Some(0), watermark_scale_factor: 0, ..WatermarkKnobs::default() };
    let config = Config { watermark, pcp: false, ..Config::new(3) };
    let yard = Pageyard::owned(&MemoryMap::new(&regions).unwrap(), config, TryLock).unwrap();
    let table = UseTable::of(&*yard).unwrap();
    let contents = (0..FRAMES).map(|_| UnsafeCell::new(0)).collect();
    Box::leak(Box::new(Machine { yard, table, contents }))
}

fn request() -> Request {
    Request::new(Order::ZERO, Migratetype::Unmovable).with(RequestFlags::MEMALLOC)
}

fn cx(cpu: u32) -> Cx {
    Cx::on(CpuId(cpu))
}

impl Machine {
    /// Writes to a frame, as its holder does.
    fn write(&self, pfn: Pfn) {
        // SAFETY: the frame is this thread's, or the checker says so.
        self.contents[pfn.0 as usize].with_mut(|contents| unsafe { *contents += 1 });
    }

    fn pool(&'static self, ring: u32) -> &'static PagePool<'static, Yard> {
        let config = PoolConfig { request: request(), ring };
        Box::leak(Box::new(PagePool::owned(&self.yard, &self.table, config, ()).unwrap()))
    }

    /// Takes all pages there are.
    fn all(&'static self, pool: &PagePool<'static, Yard>) -> Vec<PhysAddr> {
        let mut consumer = pool.consumer().unwrap();
        std::iter::from_fn(|| consumer.get(&cx(0)).ok())
            .map(|page| {
                self.write(page.pfn());
                page.into_raw()
            })
            .collect()
    }

    /// Takes a page, if there is one.
    fn one(&self, pool: &PagePool<'static, Yard>) -> Option<PhysAddr> {
        let page = pool.consumer().unwrap().get(&cx(0)).ok()?;
        self.write(page.pfn());
        Some(page.into_raw())
    }

    /// Takes a batch, if there is one.
    fn batch(&self, pool: &PagePool<'static, Yard>) -> Option<Vec<PhysAddr>> {
        let mut batch = pool.consumer().unwrap().get_bulk(&cx(0), PoolConfig::BATCH).ok()?;
        batch.pfns().for_each(|pfn| self.write(pfn));
        Some(std::iter::from_fn(|| batch.pop()).map(|page| page.into_raw()).collect())
    }

    /// Gives a page back.
    fn put(&self, pool: &PagePool<'static, Yard>, cpu: u32, at: PhysAddr) {
        self.write(at.pfn());
        pool.put_raw(&cx(cpu), at).unwrap();
    }

    fn ends(&self) {
        let census = self.yard.audit().unwrap();
        assert_eq!(census.free, Frames(FRAMES), "{census:?}");
    }
}

#[test]
fn a_page_is_handed_on_with_what_its_holder_wrote() {
    for ring in [64, 1] {
        explore(1, move || {
            let m = machine();
            let pool = m.pool(ring);
            let out = m.all(pool);
            let (one, two) = (out[0], out[1]);
            let threads = [(1, one), (2, two)].map(|(cpu, at)| thread::spawn(move || m.put(pool, cpu, at)));
            let got = m.one(pool);
            threads.into_iter().for_each(|t| t.join().unwrap());
            for at in got.iter().chain(&out[2..]) {
                m.put(pool, 0, *at);
            }
            assert_eq!(pool.consumer().unwrap().close(&cx(0)), 0);
            m.ends();
        });
    }
}

#[test]
fn a_batch_is_handed_on_with_what_its_holder_wrote() {
    explore(2, || {
        let m = machine();
        let pool = m.pool(64);
        let out = m.all(pool);
        let mut batch = pool.batch();
        out[..3].iter().for_each(|at| batch.push(pool.take_raw(*at).unwrap()).unwrap());
        let other = thread::spawn(move || {
            batch.pfns().for_each(|pfn| m.write(pfn));
            batch.put(&cx(1)).unwrap();
        });
        thread::yield_now();
        let early = m.batch(pool);
        other.join().unwrap();
        let got = early.or_else(|| m.batch(pool)).unwrap();
        assert_eq!(got.len(), 3);
        got.iter().chain(&out[3..]).for_each(|at| m.put(pool, 0, *at));
        assert_eq!(pool.consumer().unwrap().close(&cx(0)), 0);
        m.ends();
    });
}

#[test]
fn an_address_is_handed_on_with_what_its_holder_wrote() {
    explore(2, || {
        let m = machine();
        let pool = m.pool(64);
        let out = m.all(pool);
        let (at, page) = (out[0], pool.take_raw(out[0]).unwrap());
        let other = thread::spawn(move || {
            m.write(page.pfn());
            page.into_raw()
        });
        thread::yield_now();
        // The address was known before: nothing but the mark orders the two.
        let taken = pool.take_raw(at);
        if let Ok(page) = &taken {
            m.write(page.pfn());
        }
        assert_eq!(other.join().unwrap(), at);
        if let Ok(page) = taken {
            let _ = page.into_raw();
        }
        out.iter().for_each(|at| m.put(pool, 0, *at));
        assert_eq!(pool.consumer().unwrap().close(&cx(0)), 0);
        m.ends();
    });
}

#[test]
fn a_batch_that_comes_back_while_its_pool_is_closed_goes_on_to_the_allocator() {
    explore(1, || {
        let m = machine();
        let pool = m.pool(64);
        let out = m.all(pool);
        let mut batch = pool.batch();
        out[..3].iter().for_each(|at| batch.push(pool.take_raw(*at).unwrap()).unwrap());
        for at in &out[3..] {
            m.put(pool, 0, *at);
        }
        let other = thread::spawn(move || {
            batch.pfns().for_each(|pfn| m.write(pfn));
            batch.put(&cx(1)).unwrap();
        });
        let _ = pool.consumer().unwrap().close(&cx(0));
        other.join().unwrap();
        assert_eq!((pool.pages(), pool.stats().in_ring), (0, 0));
        m.ends();
    });
}

#[test]
fn a_ring_of_one_slot_is_used_again_and_again() {
    explore(1, || {
        let m = machine();
        let pool = m.pool(1);
        let out = m.all(pool);
        let (one, two) = (out[0], out[1]);
        let other = thread::spawn(move || {
            m.put(pool, 1, one);
            m.put(pool, 1, two);
        });
        let got: Vec<_> = [0, 1].into_iter().filter_map(|_| m.one(pool)).collect();
        other.join().unwrap();
        for at in got.iter().chain(&out[2..]) {
            m.put(pool, 0, *at);
        }
        assert_eq!(pool.consumer().unwrap().close(&cx(0)), 0);
        m.ends();
    });
}

#[test]
fn a_page_that_comes_back_while_its_pool_is_closed_goes_on_to_the_allocator() {
    explore(1, || {
        let m = machine();
        let pool = m.pool(64);
        let out = m.all(pool);
        let (one, two) = (out[0], out[1]);
        for at in &out[2..] {
            m.put(pool, 0, *at);
        }
        let threads = [(1, one), (2, two)].map(|(cpu, at)| thread::spawn(move || m.put(pool, cpu, at)));
        let _ = pool.consumer().unwrap().close(&cx(0));
        threads.into_iter().for_each(|t| t.join().unwrap());
        assert_eq!((pool.pages(), pool.stats().in_ring), (0, 0));
        m.ends();
    });
}

#[test]
fn of_two_that_give_back_one_page_one_succeeds() {
    explore(3, || {
        let m = machine();
        let pool = m.pool(64);
        let out = m.all(pool);
        let at = out[0];
        let other = thread::spawn(move || pool.put_raw(&cx(1), at));
        let mine = pool.put_raw(&cx(0), at);
        let both = [mine, other.join().unwrap()];
        assert!(both.contains(&Ok(())) && both.contains(&Err(PutError::NotInUse)), "{both:?}");
        for at in &out[1..] {
            m.put(pool, 0, *at);
        }
        assert_eq!(pool.consumer().unwrap().close(&cx(0)), 0);
        m.ends();
    });
}

#[test]
fn a_block_is_its_last_users_before_it_is_anyone_elses() {
    explore(3, || {
        let m = machine();
        let config = FragConfig { request: request() };
        let pages = FragPages::new(&m.yard, &m.table, config).unwrap();
        let pages: &'static FragPages<'static, Yard> = Box::leak(Box::new(pages));
        let mut cache = pages.cache();
        let layout = Layout::from_size_align(1024, 64).unwrap();
        // Two fragments, one for each of two threads: the last writes all of the block, as its next owner would.
        let held = [0, 1].map(|_| cache.alloc(&cx(0), layout).unwrap());
        let block = held[0].block();
        cache.drain(&cx(0));
        let mut cpu = 0;
        let threads = held.map(|fragment| {
            cpu += 1;
            let cx = cx(cpu);
            thread::spawn(move || {
                // SAFETY: reading a part that is this thread's.
                m.contents[block.0 as usize].with(|contents| unsafe { std::hint::black_box(*contents) });
                fragment.put(&cx).unwrap();
            })
        });
        let next = m.yard.claim_exact(&cx(0), block, Order::ZERO, Migratetype::Unmovable);
        if next.is_ok() {
            m.write(block);
            m.yard.free(&cx(0), block, Order::ZERO).unwrap();
        }
        threads.into_iter().for_each(|t| t.join().unwrap());
        m.ends();
    });
}

#[test]
fn a_block_that_is_carved_again_was_read_by_all_its_users_before() {
    explore(3, || {
        let m = machine();
        let pages = FragPages::new(&m.yard, &m.table, FragConfig { request: request() }).unwrap();
        let pages: &'static FragPages<'static, Yard> = Box::leak(Box::new(pages));
        let mut cache = pages.cache();
        let layout = Layout::from_size_align(4096, 64).unwrap();
        let first = cache.alloc(&cx(0), layout).unwrap();
        let block = first.block();
        let other = thread::spawn(move || {
            // SAFETY: reading what is this thread's.
            m.contents[block.0 as usize].with(|contents| unsafe { std::hint::black_box(*contents) });
            first.put(&cx(1)).unwrap();
        });
        let again = cache.alloc(&cx(0), layout).unwrap();
        m.write(again.block());
        other.join().unwrap();
        again.put(&cx(0)).unwrap();
        cache.drain(&cx(0));
        m.ends();
    });
}
