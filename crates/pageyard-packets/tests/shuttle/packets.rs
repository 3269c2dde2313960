//! Pools and fragments: rings at the sizes that ship, pages that come back from several threads, and ends of all kinds.

use pageyard::watermark::WatermarkKnobs;
use pageyard::{
    Config, CpuId, CpuSet, Cx, Frames, MemoryMap, Migratetype, NodeId, Order, OwnedPageyard, PageAllocator,
    Pageyard, Pfn, PhysAddr, Region, Request, TryLock, ZoneKind,
};
use pageyard_packets::{FragConfig, FragPages, PagePool, PoolConfig, PutError, UseTable};
use pageyard_testkit::schedules::{explore, explore_some};
use shuttle::thread;
use std::alloc::Layout;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::sync::Arc;

const FRAMES: u64 = 1024;

type Yard = Arc<OwnedPageyard<TryLock>>;
type Pool = Arc<PagePool<'static, Yard>>;
type Pages = Arc<FragPages<'static, Yard>>;

fn cx(cpu: u32) -> Cx {
    Cx::on(CpuId(cpu))
}

fn yard() -> Yard {
    let regions = [Region::managed(Pfn(0), Frames(FRAMES), NodeId(0), ZoneKind::Normal)];
    let watermark =
        WatermarkKnobs { min_free_kbytes: Some(0), watermark_scale_factor: 0, ..WatermarkKnobs::default() };
    let config = Config { watermark, ..Config::new(4) };
    Arc::new(Pageyard::owned(&MemoryMap::new(&regions).unwrap(), config, TryLock).unwrap())
}

std::thread_local! {
    /// The destructors of the values that a schedule lends. A schedule's threads share one thread of the host.
    static LENT: RefCell<Vec<Box<dyn FnOnce()>>> = const { RefCell::new(Vec::new()) };
}

/// Made first in a schedule, and so dropped last: frees what it lent.
struct Lender;

impl Drop for Lender {
    fn drop(&mut self) {
        // A schedule that failed has threads that still use it.
        if !std::thread::panicking() {
            LENT.take().into_iter().rev().for_each(|free| free());
        }
    }
}

/// Lends a value to a schedule's threads, which cannot borrow: they live as long as the program, as far as the compiler
/// knows.
fn lend<T: 'static>(value: T) -> &'static T {
    let value = Box::into_raw(Box::new(value));
    // SAFETY: schedules end with all their threads joined and everything dropped that was made of what they lent; then
    // this runs, once.
    let free = move || drop(unsafe { Box::from_raw(value) });
    LENT.with_borrow_mut(|lent| lent.push(Box::new(free)));
    // SAFETY: it is there until the schedule's end.
    unsafe { &*value }
}

fn table(yard: &Yard) -> &'static UseTable<'static> {
    lend(UseTable::of(yard).unwrap())
}

fn pool(ring: u32) -> Pool {
    let yard = yard();
    let table = table(&yard);
    Arc::new(PagePool::owned(yard, table, PoolConfig { ring, ..PoolConfig::new() }, ()).unwrap())
}

fn pages(order: u8) -> Pages {
    let yard = yard();
    let table = table(&yard);
    let request = Request::new(Order::of(order), Migratetype::Unmovable);
    Arc::new(FragPages::new(yard, table, FragConfig { request }).unwrap())
}

fn all_free(yard: &Yard) {
    yard.drain(CpuSet::All);
    let census = yard.audit().unwrap();
    assert_eq!(census.free, Frames(FRAMES), "{census:?}");
}

/// Takes pages by their addresses.
fn take(pool: &Pool, n: usize) -> Vec<PhysAddr> {
    let mut consumer = pool.consumer().unwrap();
    (0..n).map(|_| consumer.get(&cx(0)).unwrap().into_raw()).collect()
}

/// Closes the pool, and checks that nothing is lost.
fn end(pool: &Pool) {
    assert_eq!(pool.consumer().unwrap().close(&cx(0)), 0);
    all_free(pool.allocator());
}

/// Three threads give pages back while the consumer takes some: none is in two hands, and all are there at the end.
fn comes_back(ring: u32, each: usize, taken: usize) {
    explore(&format!("{each} pages from each of three threads, through a ring of {ring}"), move || {
        let _lender = Lender;
        let pool = pool(ring);
        let mut out = take(&pool, 3 * each);
        let threads: Vec<_> = (1..4)
            .map(|cpu| {
                let (pool, mine) = (pool.clone(), out.split_off(out.len() - each));
                thread::spawn(move || mine.into_iter().for_each(|at| pool.put_raw(&cx(cpu), at).unwrap()))
            })
            .collect();
        // What the first refill left, then what comes back.
        let got = take(&pool, taken);
        threads.into_iter().for_each(|t| t.join().unwrap());
        let apart: BTreeSet<_> = got.iter().collect();
        assert_eq!(apart.len(), got.len(), "a page has one holder");
        got.into_iter().for_each(|at| pool.put_raw(&cx(0), at).unwrap());
        end(&pool);
    });
}

#[test]
fn pages_come_back_through_rings_of_all_sizes() {
    // 63 pages stay in the cache of the first 64: the next comes from the ring if there is one.
    comes_back(1024, 7, 50);
    comes_back(64, 5, 60);
    comes_back(4, 5, 60);
    comes_back(1, 3, 60);
}

/// Takes batches of 64 pages.
fn batches(pool: &Pool, n: usize) -> Vec<Vec<PhysAddr>> {
    let mut consumer = pool.consumer().unwrap();
    let taken = (0..n).map_while(|_| consumer.get_bulk(&cx(0), PoolConfig::BATCH).ok());
    taken.map(|mut batch| std::iter::from_fn(|| batch.pop()).map(|page| page.into_raw()).collect()).collect()
}

/// Starts threads that give batches back, two each.
fn giving_back(pool: &Pool, batches: &[Vec<PhysAddr>]) -> Vec<thread::JoinHandle<()>> {
    let start = |(cpu, mine): (u32, Vec<Vec<PhysAddr>>)| {
        let pool = pool.clone();
        thread::spawn(move || {
            for batch in mine {
                pool.put_raw_bulk(&cx(cpu), &batch, &mut |at, why| panic!("{at:?}: {why}"));
            }
        })
    };
    (1..).zip(batches.chunks(2).map(<[_]>::to_vec)).map(start).collect()
}

#[test]
fn batches_come_back_through_rings_of_all_sizes() {
    for ring in [1024, 128, 1] {
        explore(&format!("batches from three threads, through a ring of {ring}"), move || {
            let _lender = Lender;
            let pool = pool(ring);
            let out = batches(&pool, 6);
            let threads = giving_back(&pool, &out);
            let got = batches(&pool, 3).concat();
            threads.into_iter().for_each(|t| t.join().unwrap());
            assert_eq!(got.iter().collect::<BTreeSet<_>>().len(), got.len(), "a page has one holder");
            got.into_iter().for_each(|at| pool.put_raw(&cx(0), at).unwrap());
            end(&pool);
        });
    }
}

#[test]
fn of_two_that_give_back_the_same_neighbours_each_page_is_ones() {
    explore("two threads give back overlapping parts of a batch", || {
        let _lender = Lender;
        let pool = pool(1024);
        let mut out = batches(&pool, 1).concat();
        out.sort_unstable();
        let wrong: Vec<_> = [(1, 0..40), (2, 20..64)]
            .map(|(cpu, part)| {
                let (pool, mine) = (pool.clone(), out[part].to_vec());
                thread::spawn(move || {
                    let mut wrong = Vec::new();
                    pool.put_raw_bulk(&cx(cpu), &mine, &mut |at, why| wrong.push((at, why)));
                    wrong
                })
            })
            .into_iter()
            .flat_map(|thread| thread.join().unwrap())
            .collect();
        let twice: BTreeSet<_> = wrong.iter().map(|(at, _)| *at).collect();
        assert!(twice.iter().eq(&out[20..40]), "{wrong:?}");
        assert!(wrong.len() == 20 && wrong.iter().all(|(_, why)| *why == PutError::NotInUse), "{wrong:?}");
        assert_eq!(pool.stats().in_ring, 64);
        end(&pool);
    });
}

#[test]
fn a_pool_that_is_closed_while_batches_come_back_keeps_none() {
    for ring in [1, 128] {
        explore(&format!("a ring of {ring} is closed while batches come back"), move || {
            let _lender = Lender;
            let pool = pool(ring);
            let out = batches(&pool, 4);
            let threads = giving_back(&pool, &out);
            let _ = pool.consumer().unwrap().close(&cx(0));
            threads.into_iter().for_each(|t| t.join().unwrap());
            assert_eq!((pool.pages(), pool.stats().in_ring), (0, 0), "what came back later went on");
            all_free(pool.allocator());
        });
    }
}

#[test]
fn a_ring_that_is_written_and_emptied_around_its_end_loses_nothing() {
    explore("writers that lag behind a ring's hint", || {
        let _lender = Lender;
        let pool = pool(2);
        let mut out = take(&pool, 9);
        let threads: Vec<_> = (1..4)
            .map(|cpu| {
                let (pool, mine) = (pool.clone(), out.split_off(out.len() - 3));
                thread::spawn(move || mine.into_iter().for_each(|at| pool.put_raw(&cx(cpu), at).unwrap()))
            })
            .collect();
        // The cache is emptied first, so that every further page is looked for in the ring.
        let mut got = take(&pool, 55);
        for _ in 0..4 {
            got.extend(take(&pool, 1));
        }
        threads.into_iter().for_each(|t| t.join().unwrap());
        assert_eq!(got.iter().collect::<BTreeSet<_>>().len(), got.len(), "a page has one holder");
        got.into_iter().for_each(|at| pool.put_raw(&cx(0), at).unwrap());
        end(&pool);
    });
}

#[test]
fn a_pool_that_is_closed_while_pages_come_back_keeps_none() {
    for ring in [1, 64, 1024] {
        explore(&format!("a ring of {ring} is closed while pages come back"), move || {
            let _lender = Lender;
            let pool = pool(ring);
            let mut out = take(&pool, 4);
            let threads: Vec<_> = (1..3)
                .map(|cpu| {
                    let (pool, mine) = (pool.clone(), out.split_off(out.len() - 2));
                    thread::spawn(move || mine.into_iter().for_each(|at| pool.put_raw(&cx(cpu), at).unwrap()))
                })
                .collect();
            let _ = pool.consumer().unwrap().close(&cx(0));
            threads.into_iter().for_each(|t| t.join().unwrap());
            assert_eq!((pool.pages(), pool.stats().in_ring), (0, 0), "what came back later went on");
            all_free(pool.allocator());
        });
    }
}

#[test]
fn of_two_that_give_back_one_page_one_succeeds() {
    explore("a page given back twice at once", || {
        let _lender = Lender;
        let pool = pool(64);
        let at = take(&pool, 1)[0];
        let other = {
            let pool = pool.clone();
            thread::spawn(move || pool.put_raw(&cx(1), at))
        };
        let mine = pool.consumer().unwrap().put_raw(&cx(0), at);
        let both = [mine, other.join().unwrap()];
        assert!(both.contains(&Ok(())) && both.contains(&Err(PutError::NotInUse)), "{both:?}");
        end(&pool);
    });
}

#[test]
fn a_block_goes_back_once_whoever_is_last() {
    for order in [0, 3] {
        explore(&format!("fragments of a block of order {order} against its carver's end"), move || {
            let _lender = Lender;
            let pages = pages(order);
            let layout = Layout::from_size_align(512, 64).unwrap();
            let owner: &'static Pages = lend(pages.clone());
            let mut cache = owner.cache();
            let mut held: Vec<_> = (0..4).map(|_| cache.alloc(&cx(0), layout).unwrap()).collect();
            let threads: Vec<_> = (1..3)
                .map(|cpu| {
                    let mine = held.split_off(held.len() - 2);
                    thread::spawn(move || mine.into_iter().for_each(|f| f.put(&cx(cpu)).unwrap()))
                })
                .collect();
            cache.drain(&cx(0));
            threads.into_iter().for_each(|t| t.join().unwrap());
            all_free(pages.allocator());
        });
    }
}

#[test]
fn a_block_that_comes_back_while_it_is_asked_for_is_carved_again_or_goes_back() {
    explore("the last fragments against a carver that needs room", || {
        let _lender = Lender;
        let owner: &'static Pages = lend(pages(0));
        let layout = Layout::from_size_align(2048, 64).unwrap();
        let mut cache = owner.cache();
        let held: Vec<_> = (0..2).map(|_| cache.alloc(&cx(0), layout).unwrap()).collect();
        let other = thread::spawn(move || held.into_iter().for_each(|f| f.put(&cx(1)).unwrap()));
        let again: Vec<_> = (0..3).map(|_| cache.alloc(&cx(0), layout).unwrap()).collect();
        let apart: BTreeSet<_> = again.iter().map(|f| f.address()).collect();
        assert_eq!(apart.len(), 3, "none lies on another that is out");
        other.join().unwrap();
        again.into_iter().for_each(|f| f.put(&cx(0)).unwrap());
        cache.drain(&cx(0));
        all_free(owner.allocator());
    });
}

#[test]
fn fragments_of_a_pools_page_take_it_back_through_the_ring() {
    explore("fragments of pages, given back on two CPUs, while the pool is used", || {
        let _lender = Lender;
        let owner: &'static Pool = lend(pool(64));
        let layout = Layout::from_size_align(2048, 64).unwrap();
        let mut consumer = owner.consumer().unwrap();
        let mut held: Vec<_> = (0..4).map(|_| consumer.frag(&cx(0), layout).unwrap()).collect();
        let threads: Vec<_> = (1..3)
            .map(|cpu| {
                let mine = [held.remove(0), held.pop().unwrap()];
                thread::spawn(move || mine.into_iter().for_each(|f| f.put(&cx(cpu)).unwrap()))
            })
            .collect();
        consumer.frag(&cx(0), layout).unwrap().put(&cx(0)).unwrap();
        threads.into_iter().for_each(|t| t.join().unwrap());
        drop(consumer);
        end(owner);
    });
}

#[test]
fn owners_numbers_are_had_by_one_at_a_time() {
    explore_some("owners come and go", 200, || {
        let _lender = Lender;
        let yard = yard();
        let table = table(&yard);
        let enter = move |yard: Yard| FragPages::new(yard, table, FragConfig::new()).unwrap();
        let threads: Vec<_> = (0..3)
            .map(|_| {
                let yard = yard.clone();
                thread::spawn(move || {
                    drop(enter(yard.clone()));
                    enter(yard)
                })
            })
            .collect();
        let owners: Vec<_> = threads.into_iter().map(|t| t.join().unwrap()).collect();
        let layout = Layout::from_size_align(64, 64).unwrap();
        for (nth, owner) in owners.iter().enumerate() {
            let mut cache = owner.cache();
            let at = cache.alloc(&cx(0), layout).unwrap().into_raw();
            for (other, pages) in owners.iter().enumerate().filter(|(other, _)| *other != nth) {
                assert_eq!(pages.put_raw(&cx(0), at), Err(PutError::WrongOwner), "{other}");
            }
            owner.put_raw(&cx(0), at).unwrap();
            cache.drain(&cx(0));
        }
    });
}
