//! Pools of pages: where pages come from and go to, what is counted, and how a pool ends.

use pageyard::{
    AllocError, BadRequest, Config, CpuId, CpuSet, Cx, Frames, FreeError, MemoryMap, Metadata, Migratetype,
    NodeId, Order, OwnedPageyard, PageAllocator, Pageyard, Pfn, PhysAddr, Region, Request, TryLock, ZoneId,
    ZoneKind,
};
use pageyard_packets::{
    GetError, PacketsError, PageMap, PagePool, PoolConfig, PoolPage, PoolStats, PutError, Refused, UseTable,
    Values,
};
use pageyard_testkit::child::in_child;
use std::alloc::Layout;
use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, mpsc};

pub(crate) const HERE: Cx = Cx::on(CpuId(0));
pub(crate) const THERE: Cx = Cx::on(CpuId(1));
pub(crate) const NOWHERE: Cx = Cx::on(CpuId(99));

pub(crate) type Yard = OwnedPageyard<TryLock>;

pub(crate) fn yard_of(frames: u64) -> Yard {
    let regions = [Region::managed(Pfn(1 << 33), Frames(frames), NodeId(0), ZoneKind::Normal)];
    Pageyard::owned(&MemoryMap::new(&regions).unwrap(), Config::new(2), TryLock).unwrap()
}

pub(crate) fn free_frames(yard: &Yard) -> u64 {
    assert!(yard.drain(CpuSet::All).is_complete());
    yard.audit().unwrap();
    yard.zone_stats(ZoneId(0)).unwrap().free.0
}

pub(crate) fn ring_of(slots: u32) -> PoolConfig {
    PoolConfig { ring: slots, ..PoolConfig::new() }
}

#[test]
fn pages_come_from_the_cache_then_the_ring_then_the_allocator() {
    let yard = yard_of(4096);
    let before = free_frames(&yard);
    let table = UseTable::of(&*yard).unwrap();
    let pool = PagePool::owned(&*yard, &table, PoolConfig::new(), ()).unwrap();
    let mut consumer = pool.consumer().unwrap();
    for _ in 0..2 {
        assert!(pool.consumer().is_none(), "there is one, and a refusal does not end it");
    }
    let mut held: Vec<_> = (0..100).map(|_| consumer.get(&HERE).unwrap()).collect();
    let mut seen: Vec<Pfn> = held.iter().map(|p| p.pfn()).collect();
    seen.sort_unstable();
    seen.dedup();
    assert_eq!(seen.len(), 100, "each is handed out once");
    let stats = pool.stats();
    let expected =
        PoolStats { alloc_fast: 98, alloc_slow: 2, alloc_empty: 2, pages: 128, ..PoolStats::default() };
    assert_eq!(stats, expected, "64 at a time");
    // To the ring from elsewhere, to the cache from here.
    for page in held.drain(..50) {
        page.put(&THERE).unwrap();
    }
    for page in held.drain(..) {
        consumer.put(&HERE, page).unwrap();
    }
    let stats = pool.stats();
    assert_eq!((stats.recycle_ring, stats.recycle_cached, stats.in_ring), (50, 50, 50));
    // 78 in the cache; then the ring's 50; then the allocator.
    let held: Vec<_> = (0..129).map(|_| consumer.get(&HERE).unwrap()).collect();
    let stats = pool.stats();
    assert_eq!((stats.alloc_refill, stats.alloc_slow, stats.in_ring, stats.recycle_ring), (1, 3, 0, 50));
    assert_eq!((stats.alloc_fast, stats.pages), (98 + 78 + 49, 192));
    for page in held {
        consumer.put(&HERE, page).unwrap();
    }
    assert_eq!(pool.stats().recycle_cache_full, 129 + 63 - 128, "a cache has 128");
    assert_eq!(consumer.close(&HERE), 0);
    assert_eq!(free_frames(&yard), before);
}

#[test]
fn a_full_ring_sends_pages_to_the_allocator() {
    let yard = yard_of(4096);
    let before = free_frames(&yard);
    let table = UseTable::of(&*yard).unwrap();
    for slots in [1, 2, 64] {
        let pool = PagePool::owned(&*yard, &table, ring_of(slots), ()).unwrap();
        let mut consumer = pool.consumer().unwrap();
        let held: Vec<_> = (0..100).map(|_| consumer.get(&HERE).unwrap()).collect();
        for page in held {
            page.put(&THERE).unwrap();
        }
        let stats = pool.stats();
        let full = 100 - u64::from(slots);
        assert_eq!((stats.in_ring, stats.recycle_ring_full), (u64::from(slots), full));
        assert_eq!(stats.pages, 128 - full);
        assert_eq!(consumer.close(&HERE), 0);
        assert_eq!(free_frames(&yard), before);
    }
}

#[test]
fn pages_of_eight_frames_come_one_by_one() {
    let yard = yard_of(4096);
    let before = free_frames(&yard);
    let table = UseTable::of(&*yard).unwrap();
    let request = Request::new(Order::of(3), Migratetype::Unmovable);
    let pool = PagePool::owned(&*yard, &table, PoolConfig { request, ring: 64 }, ()).unwrap();
    let mut consumer = pool.consumer().unwrap();
    let held: Vec<_> = (0..20).map(|_| consumer.get(&HERE).unwrap()).collect();
    assert!(held.iter().all(|p| p.pfn().is_aligned(Order::of(3)) && p.order() == Order::of(3)));
    let stats = pool.stats();
    assert_eq!((stats.alloc_slow, stats.alloc_slow_high_order, stats.pages), (0, 20, 20));
    for page in held {
        page.put(&THERE).unwrap();
    }
    let again = consumer.get(&HERE).unwrap();
    assert_eq!(pool.stats().alloc_refill, 1);
    consumer.put(&HERE, again).unwrap();
    assert_eq!(consumer.close(&HERE), 0);
    assert_eq!(free_frames(&yard), before);
}

#[test]
fn what_cannot_be_a_pool_is_refused_by_name() {
    let yard = yard_of(4096);
    let table = UseTable::of(&*yard).unwrap();
    for slots in [0, 3, 100, 3000, (1 << 20) + 1, 1 << 21, u32::MAX] {
        let why = PagePool::owned(&*yard, &table, ring_of(slots), ()).err();
        assert_eq!(why, Some(PacketsError::Ring { slots }));
        assert!(why.unwrap().to_string().contains("power of two"));
    }
    let request = Request::new(Order::of(10), Migratetype::Unmovable);
    let why = PagePool::owned(&*yard, &table, PoolConfig { request, ring: 64 }, ()).err();
    assert_eq!(why, Some(PacketsError::Order { order: Order::of(10), largest: Order::of(9) }));
    let why = PagePool::owned(&*yard, &table, PoolConfig::new(), Device::default()).err();
    assert_eq!(why, Some(PacketsError::NoValues));
    let needed = PagePool::<&Yard>::bytes(&PoolConfig::new()).unwrap();
    let mut memory = vec![0xff; needed];
    let small = Metadata::zeroed(&mut memory[..needed / 2]);
    let why = PagePool::new(&*yard, &table, PoolConfig::new(), (), small).err();
    assert_eq!(why, Some(PacketsError::MemoryTooSmall { needed }));
}

#[test]
fn a_pool_in_the_callers_memory_is_a_pool() {
    let yard = yard_of(4096);
    let before = free_frames(&yard);
    let frames = UseTable::frames_of(&*yard);
    let mut memory = vec![0xff; UseTable::bytes(&frames, Values::None).unwrap()];
    let table = UseTable::new(frames, Values::None, Metadata::zeroed(&mut memory)).unwrap();
    let mut memory = vec![0xff; PagePool::<&Yard>::bytes(&PoolConfig::new()).unwrap()];
    let pool = PagePool::new(&*yard, &table, PoolConfig::new(), (), Metadata::zeroed(&mut memory)).unwrap();
    let mut consumer = pool.consumer().unwrap();
    consumer.get(&HERE).unwrap().put(&THERE).unwrap();
    assert_eq!(consumer.close(&HERE), 0);
    assert_eq!(free_frames(&yard), before);
}

#[test]
fn a_pool_without_frames_says_so_and_goes_on_when_there_are_some() {
    let yard = yard_of(512);
    let table = UseTable::of(&*yard).unwrap();
    let pool = PagePool::owned(&*yard, &table, PoolConfig::new(), ()).unwrap();
    let mut consumer = pool.consumer().unwrap();
    let mut held: Vec<_> = std::iter::from_fn(|| consumer.get(&HERE).ok()).collect();
    let why = consumer.get(&HERE).unwrap_err();
    assert!(
        matches!(why, GetError::Alloc(AllocError::BelowWatermark { .. } | AllocError::OutOfMemory)),
        "{why:?}"
    );
    assert!(held.len() > 400);
    let page = held.pop().unwrap();
    let pfn = page.pfn();
    page.put(&THERE).unwrap();
    let page = consumer.get(&HERE).unwrap();
    assert_eq!(page.pfn(), pfn, "it is the only one");
    held.push(page);
    for page in held {
        page.put(&THERE).unwrap();
    }
    assert_eq!(consumer.close(&HERE), 0);
    assert_eq!(free_frames(&yard), 512);
}

#[test]
fn a_page_by_its_address_is_given_back_once_and_to_its_own_pool() {
    let yard = yard_of(4096);
    let before = free_frames(&yard);
    let table = UseTable::of(&*yard).unwrap();
    let pools = [0, 1].map(|_| PagePool::owned(&*yard, &table, PoolConfig::new(), ()).unwrap());
    let [mut ours, mut theirs] = pools.each_ref().map(|p| p.consumer().unwrap());
    let at = ours.get(&HERE).unwrap().into_raw();
    assert_eq!(pools[1].put_raw(&THERE, at), Err(PutError::WrongOwner));
    assert_eq!(theirs.put_raw(&THERE, at), Err(PutError::WrongOwner));
    let mut out = Vec::new();
    pools[0].visit_in_use(&mut |at, uses| out.push((at, uses)));
    assert_eq!(out, [(at, 1)]);
    pools[0].put_raw(&THERE, PhysAddr(at.0 + 100)).unwrap();
    assert_eq!(pools[0].put_raw(&THERE, at), Err(PutError::NotInUse), "a second time");
    assert_eq!(ours.put_raw(&HERE, at), Err(PutError::NotInUse));
    assert_eq!(ours.put_raw(&HERE, PhysAddr(5)), Err(PutError::OutsideTable));
    let at = ours.get(&HERE).unwrap().into_raw();
    ours.put_raw(&HERE, at).unwrap();
    assert_eq!(ours.put_raw(&HERE, at), Err(PutError::NotInUse));
    assert_eq!(pools[0].stats().recycle_cached, 1);
    let page = theirs.get(&HERE).unwrap();
    let Refused { why, item } = ours.put(&HERE, page).unwrap_err();
    assert_eq!(why, PutError::WrongOwner);
    assert_eq!(Refused { why, item: () }.to_string(), why.to_string(), "what was refused says why");
    theirs.put(&HERE, item).unwrap();
    assert_eq!([ours.close(&HERE), theirs.close(&HERE)], [0, 0]);
    assert_eq!(pools[0].put_raw(&THERE, at), Err(PutError::NotInUse), "after the pool is gone");
    drop(pools);
    let other = PagePool::owned(&*yard, &table, PoolConfig::new(), ()).unwrap();
    assert_eq!(other.put_raw(&THERE, at), Err(PutError::NotInUse));
    assert_eq!(free_frames(&yard), before);
}

#[test]
fn a_pool_is_closed_with_pages_out_and_ends_with_the_last_of_them() {
    let yard = yard_of(4096);
    let before = free_frames(&yard);
    let table = UseTable::of(&*yard).unwrap();
    let pool = PagePool::owned(&*yard, &table, PoolConfig::new(), ()).unwrap();
    let mut consumer = pool.consumer().unwrap();
    let mut held: Vec<_> = (0..10).map(|_| consumer.get(&HERE).unwrap()).collect();
    let raw = held.pop().unwrap().into_raw();
    let part = consumer.frag(&HERE, Layout::new::<[u8; 256]>()).unwrap();
    held.pop().unwrap().put(&THERE).unwrap();
    assert_eq!(consumer.close(&HERE), 10, "eight pages, an address, and the page of a fragment");
    assert!(pool.is_closed());
    assert_eq!(pool.stats().in_ring, 0);
    for page in held {
        page.put(&THERE).unwrap();
    }
    part.put(&THERE).unwrap();
    assert_eq!((pool.pages(), pool.stats().in_ring), (1, 0), "they went to the allocator");
    let mut again = pool.consumer().unwrap();
    assert_eq!(again.get(&HERE).unwrap_err(), GetError::Closed);
    pool.put_raw(&THERE, raw).unwrap();
    assert_eq!(again.close(&HERE), 0);
    assert_eq!(free_frames(&yard), before);
}

#[test]
fn a_page_that_leaves_the_pool_is_the_callers_block() {
    let yard = yard_of(4096);
    let before = free_frames(&yard);
    let table = UseTable::of(&*yard).unwrap();
    let pool = PagePool::owned(&*yard, &table, PoolConfig::new(), ()).unwrap();
    let mut consumer = pool.consumer().unwrap();
    let block = consumer.get(&HERE).unwrap().release();
    assert_eq!((pool.stats().released_refcnt, pool.pages()), (1, 63));
    yard.free(&THERE, block, Order::ZERO).unwrap();
    assert_eq!(consumer.close(&HERE), 0);
    assert_eq!(free_frames(&yard), before);
}

#[test]
fn a_page_of_fragments_comes_back_to_the_pool_with_the_last() {
    let yard = yard_of(4096);
    let before = free_frames(&yard);
    let table = UseTable::of(&*yard).unwrap();
    let pool = PagePool::owned(&*yard, &table, PoolConfig::new(), ()).unwrap();
    let other = PagePool::owned(&*yard, &table, PoolConfig::new(), ()).unwrap();
    let mut consumer = pool.consumer().unwrap();
    let layout = Layout::from_size_align(1024, 64).unwrap();
    let mut held: Vec<_> = (0..5).map(|_| consumer.frag(&HERE, layout).unwrap()).collect();
    let first = held[0].block();
    assert!(held[..4].iter().all(|f| f.block() == first) && held[4].block() != first);
    let last = held.pop().unwrap();
    for part in held.drain(..3) {
        part.put(&THERE).unwrap();
    }
    assert_eq!(pool.stats().in_ring, 0);
    pool.put_raw(&THERE, held.pop().unwrap().into_raw()).unwrap();
    assert_eq!((pool.stats().in_ring, pool.pages()), (1, 64), "through the ring");
    last.put(&HERE).unwrap();
    // Carved again, because all of it is back.
    let again = consumer.frag(&HERE, Layout::from_size_align(4096, 1).unwrap()).unwrap();
    let alone = pool.stats().alloc_fast;
    again.put(&HERE).unwrap();
    let again = consumer.frag(&HERE, Layout::from_size_align(4096, 1).unwrap()).unwrap();
    assert_eq!(pool.stats().alloc_fast, alone);
    // To the consumer itself: the page goes to the cache, if it is not being carved any more.
    let (cached, next) = (pool.stats().recycle_cached, consumer.frag(&HERE, layout).unwrap());
    assert_ne!(next.block(), again.block());
    consumer.put_frag(&HERE, again).unwrap();
    assert_eq!(pool.stats().recycle_cached, cached + 1);
    let mut theirs = other.consumer().unwrap();
    let refused = theirs.put_frag(&HERE, next).unwrap_err();
    assert_eq!(refused.why, PutError::WrongOwner);
    consumer.put_frag(&HERE, refused.item).unwrap();
    assert_eq!(theirs.close(&HERE), 0);
    for bytes in [0, 4097] {
        let why = consumer.frag(&HERE, Layout::from_size_align(bytes, 1).unwrap()).map(drop);
        assert!(matches!(why, Err(GetError::Alloc(AllocError::BadRequest(BadRequest::Size { .. })))));
    }
    assert_eq!(consumer.close(&HERE), 0);
    assert_eq!(free_frames(&yard), before);
}

#[test]
fn the_next_consumer_goes_on_where_the_last_one_left() {
    let yard = yard_of(4096);
    let before = free_frames(&yard);
    let table = UseTable::of(&*yard).unwrap();
    let pool = PagePool::owned(&*yard, &table, PoolConfig::new(), ()).unwrap();
    let mut consumer = pool.consumer().unwrap();
    consumer.get(&HERE).unwrap().put(&THERE).unwrap();
    drop(consumer);
    let mut next = pool.consumer().unwrap();
    let held: Vec<_> = (0..64).map(|_| next.get(&HERE).unwrap()).collect();
    assert_eq!(pool.stats().alloc_slow, 1, "all that the first one took");
    // The thread is gone without a trace.
    std::mem::forget(next);
    assert!(pool.consumer().is_none());
    // SAFETY: the former consumer was forgotten.
    let heir = unsafe { pool.consumer_of_the_dead() }.unwrap();
    for page in held {
        page.put(&THERE).unwrap();
    }
    assert_eq!(heir.close(&HERE), 0);
    assert_eq!(free_frames(&yard), before);
}

/// A device that maps pages, and can fail or panic.
#[derive(Default)]
struct Device {
    mapped: Mutex<BTreeMap<Pfn, u64>>,
    next: AtomicU64,
    refuses: AtomicBool,
    /// Every tenth mapping panics, and every end of one.
    panics: AtomicBool,
    /// Every mapping panics.
    breaks: AtomicBool,
}

impl PageMap for Device {
    fn map(&self, page: Pfn, _: Order) -> Option<u64> {
        let value = self.next.fetch_add(1, Relaxed);
        assert!(!self.breaks.load(Relaxed), "the device is broken");
        assert!(!(self.panics.load(Relaxed) && value % 10 == 9), "the device is broken");
        if self.refuses.load(Relaxed) {
            return None;
        }
        assert!(self.mapped.lock().unwrap().insert(page, value).is_none(), "a page is mapped once");
        Some(value)
    }

    fn unmap(&self, page: Pfn, _: Order, value: u64) {
        assert!(!self.panics.load(Relaxed), "the device is broken");
        assert_eq!(self.mapped.lock().unwrap().remove(&page), Some(value), "as it was mapped");
    }
}

#[test]
fn pages_are_mapped_once_and_keep_their_value_until_they_leave() {
    let yard = yard_of(4096);
    let before = free_frames(&yard);
    let table = UseTable::owned(UseTable::frames_of(&*yard), Values::Kept).unwrap();
    let pool = PagePool::owned(&*yard, &table, ring_of(64), Device::default()).unwrap();
    let mut consumer = pool.consumer().unwrap();
    for _ in 0..5 {
        let held: Vec<_> = (0..200).map(|_| consumer.get(&HERE).unwrap()).collect();
        for page in held {
            assert_eq!(pool.map().mapped.lock().unwrap()[&page.pfn()], page.value());
            page.put(&THERE).unwrap();
        }
    }
    let block = consumer.get(&HERE).unwrap().release();
    assert!(!pool.map().mapped.lock().unwrap().contains_key(&block));
    yard.free(&HERE, block, Order::ZERO).unwrap();
    assert_eq!(pool.map().mapped.lock().unwrap().len() as u64, pool.pages());
    assert_eq!(consumer.close(&HERE), 0);
    assert!(pool.map().mapped.lock().unwrap().is_empty());
    assert_eq!(free_frames(&yard), before);
}

#[test]
fn a_page_that_cannot_be_mapped_goes_back() {
    let yard = yard_of(4096);
    let before = free_frames(&yard);
    let table = UseTable::owned(UseTable::frames_of(&*yard), Values::Kept).unwrap();
    let pool = PagePool::owned(&*yard, &table, ring_of(64), Device::default()).unwrap();
    let mut consumer = pool.consumer().unwrap();
    pool.map().refuses.store(true, Relaxed);
    assert_eq!(consumer.get(&HERE).unwrap_err(), GetError::NotMapped);
    assert_eq!((pool.pages(), free_frames(&yard)), (0, before));
    pool.map().refuses.store(false, Relaxed);
    consumer.get(&HERE).unwrap().put(&HERE).unwrap();
    assert_eq!(consumer.close(&HERE), 0);
    assert_eq!(free_frames(&yard), before);
}

#[test]
fn a_device_that_panics_loses_no_page() {
    in_child("pools::a_device_that_panics_loses_no_page", || {
        let yard = yard_of(4096);
        let before = free_frames(&yard);
        let table = UseTable::owned(UseTable::frames_of(&*yard), Values::Kept).unwrap();
        let pool = PagePool::owned(&*yard, &table, ring_of(8), Device::default()).unwrap();
        let mut consumer = pool.consumer().unwrap();
        pool.map().panics.store(true, Relaxed);
        let got = catch_unwind(AssertUnwindSafe(|| consumer.get(&HERE).map(drop)));
        assert!(got.is_err());
        assert_eq!(pool.pages(), 9, "those that were mapped before; the others went back");
        assert_eq!(free_frames(&yard), before - 9);
        let held: Vec<_> = (0..9).map(|_| consumer.get(&HERE).unwrap()).collect();
        let mut thrown = 0;
        for page in held {
            thrown += u64::from(catch_unwind(AssertUnwindSafe(|| page.put(&THERE).unwrap())).is_err());
        }
        assert_eq!((thrown, pool.stats().in_ring), (1, 8), "the ring had no room for one");
        let mut out = Vec::new();
        pool.visit_in_use(&mut |at, _| out.push(at));
        assert_eq!(out.len(), 1, "which stays in use");
        let closed = catch_unwind(AssertUnwindSafe(|| consumer.close(&HERE)));
        assert!(closed.is_err());
        pool.map().panics.store(false, Relaxed);
        out.clear();
        pool.visit_in_use(&mut |at, _| out.push(at));
        for at in out {
            pool.put_raw(&THERE, at).unwrap();
        }
        assert_eq!(pool.consumer().unwrap().close(&HERE), 0);
        assert!(pool.map().mapped.lock().unwrap().is_empty());
        assert_eq!(free_frames(&yard), before);
    });
}

#[test]
fn a_page_that_the_allocator_refuses_stays_the_callers() {
    let yard = yard_of(4096);
    let table = UseTable::of(&*yard).unwrap();
    let pool = PagePool::owned(&*yard, &table, ring_of(1), ()).unwrap();
    let mut consumer = pool.consumer().unwrap();
    let [one, two] = [0, 1].map(|_| consumer.get(&HERE).unwrap());
    one.put(&HERE).unwrap();
    let refused = two.put(&NOWHERE).unwrap_err();
    assert_eq!(refused.why, PutError::Free(FreeError::NoSuchCpu));
    let raw = refused.item.into_raw();
    assert_eq!(pool.put_raw(&NOWHERE, raw), Err(PutError::Free(FreeError::NoSuchCpu)));
    pool.put_raw(&HERE, raw).unwrap();
    assert_eq!(consumer.close(&HERE), 0);
}

#[test]
fn pages_that_come_back_from_several_threads_are_all_there() {
    let yard = yard_of(1 << 15);
    let before = free_frames(&yard);
    let table = UseTable::of(&*yard).unwrap();
    for slots in [16, 1024] {
        let pool = PagePool::owned(&*yard, &table, ring_of(slots), ()).unwrap();
        let out = AtomicU64::new(0);
        std::thread::scope(|s| {
            let senders: Vec<_> = (0..3)
                .map(|_| {
                    let (send, receive) = std::sync::mpsc::sync_channel(300);
                    let (pool, out) = (&pool, &out);
                    s.spawn(move || {
                        for (nth, at) in receive.into_iter().enumerate() {
                            let cx = Cx::on(CpuId(nth as u32 % 2));
                            pool.put_raw(&cx, at).unwrap();
                            out.fetch_sub(1, Relaxed);
                        }
                    });
                    send
                })
                .collect();
            let mut consumer = pool.consumer().unwrap();
            for nth in 0..300_000 {
                out.fetch_add(1, Relaxed);
                senders[nth % 3].send(consumer.get(&HERE).unwrap().into_raw()).unwrap();
            }
        });
        assert_eq!(out.load(Relaxed), 0);
        assert_eq!(pool.consumer().unwrap().close(&HERE), 0);
        assert_eq!(free_frames(&yard), before);
    }
}

#[test]
fn a_closed_pools_consumer_keeps_nothing() {
    let yard = yard_of(4096);
    let before = free_frames(&yard);
    let table = UseTable::of(&*yard).unwrap();
    let pool = PagePool::owned(&*yard, &table, PoolConfig::new(), ()).unwrap();
    let mut consumer = pool.consumer().unwrap();
    let (one, two) = (consumer.get(&HERE).unwrap(), consumer.get(&HERE).unwrap().into_raw());
    assert_eq!(consumer.close(&HERE), 2);
    let mut again = pool.consumer().unwrap();
    again.put(&HERE, one).unwrap();
    again.put_raw(&HERE, two).unwrap();
    assert_eq!(again.get(&HERE).map(|p| p.into_raw()), Err(GetError::Closed));
    drop(again);
    assert_eq!((pool.pages(), free_frames(&yard)), (0, before));
}

#[test]
fn a_table_that_begins_and_ends_within_blocks_numbers_those_that_it_covers() {
    let yard = yard_of(4096);
    let before = free_frames(&yard);
    let (order, start) = (Order::of(3), 1 << 33);
    let table = UseTable::owned(Pfn(start + 3)..Pfn(start + 4096 - 5), Values::None).unwrap();
    let request = Request::new(order, Migratetype::Unmovable);
    let pool = PagePool::owned(&*yard, &table, PoolConfig { request, ring: 512 }, ()).unwrap();
    let mut consumer = pool.consumer().unwrap();
    // The first block and the last are not covered wholly.
    let ends = [Pfn(start), Pfn(start + 4096 - 8)];
    assert_eq!(pool.put_raw(&HERE, ends[0].address()), Err(PutError::OutsideTable));
    assert_eq!(pool.put_raw(&HERE, ends[1].address()), Err(PutError::OutsideTable));
    ends.into_iter().for_each(|pfn| yard.claim_exact(&HERE, pfn, order, Migratetype::Unmovable).unwrap());
    let mut seen = BTreeSet::new();
    for _ in 0..3 {
        let held: Vec<_> = (0..300).map(|_| consumer.get(&HERE).unwrap()).collect();
        assert!(held.iter().all(|page| yard.order_of(page.pfn()) == Some(order)));
        seen.extend(held.iter().map(PoolPage::pfn));
        held.into_iter().for_each(|page| page.put(&THERE).unwrap());
    }
    assert_eq!(seen.len(), 300);
    assert_eq!(consumer.close(&HERE), 0);
    ends.into_iter().for_each(|pfn| yard.free(&HERE, pfn, order).unwrap());
    assert_eq!(free_frames(&yard), before);
}

#[test]
fn a_refused_page_whose_mapping_panics_stays_in_use() {
    in_child("pools::a_refused_page_whose_mapping_panics_stays_in_use", || {
        let yard = yard_of(4096);
        let table = UseTable::owned(UseTable::frames_of(&*yard), Values::Kept).unwrap();
        let pool = PagePool::owned(&*yard, &table, ring_of(1), Device::default()).unwrap();
        let mut consumer = pool.consumer().unwrap();
        let [one, two] = [0, 1].map(|_| consumer.get(&HERE).unwrap());
        one.put(&HERE).unwrap();
        let at = two.into_raw();
        pool.map().breaks.store(true, Relaxed);
        assert!(catch_unwind(AssertUnwindSafe(|| pool.put_raw(&NOWHERE, at))).is_err());
        pool.map().breaks.store(false, Relaxed);
        assert_eq!(pool.put_raw(&HERE, at), Ok(()));
        assert_eq!(consumer.close(&HERE), 0);
    });
}

#[test]
fn what_was_not_mapped_is_not_unmapped() {
    let yard = yard_of(4096);
    let table = UseTable::owned(UseTable::frames_of(&*yard), Values::Kept).unwrap();
    let pool = PagePool::owned(&*yard, &table, ring_of(1), Device::default()).unwrap();
    let mut consumer = pool.consumer().unwrap();
    let [one, two] = [0, 1].map(|_| consumer.get(&HERE).unwrap());
    one.put(&HERE).unwrap();
    pool.map().refuses.store(true, Relaxed);
    let refused = two.put(&NOWHERE).unwrap_err();
    pool.map().refuses.store(false, Relaxed);
    assert_eq!(refused.item.value(), Device::UNMAPPED);
    refused.item.put(&HERE).unwrap();
    assert_eq!(consumer.close(&HERE), 0);
    assert!(pool.map().mapped.lock().unwrap().is_empty());
}

/// A device that waits, while it unmaps, until somebody has tried something.
struct Slow {
    tell: Mutex<mpsc::Sender<Pfn>>,
    told: Mutex<mpsc::Receiver<()>>,
}

impl PageMap for Slow {
    fn map(&self, page: Pfn, _: Order) -> Option<u64> {
        Some(page.0)
    }

    fn unmap(&self, page: Pfn, _: Order, _: u64) {
        let _ = self.tell.lock().unwrap().send(page);
        let _ = self.told.lock().unwrap().recv();
    }
}

#[test]
fn a_page_is_not_given_back_again_while_it_is_unmapped() {
    let yard = yard_of(4096);
    let table = UseTable::owned(UseTable::frames_of(&*yard), Values::Kept).unwrap();
    let ((tell, hears), (tells, told)) = (mpsc::channel(), mpsc::channel());
    let slow = Slow { tell: Mutex::new(tell), told: Mutex::new(told) };
    let pool = PagePool::owned(&*yard, &table, ring_of(1), slow).unwrap();
    let mut consumer = pool.consumer().unwrap();
    let [one, two] = [0, 1].map(|_| consumer.get(&HERE).unwrap());
    one.put(&HERE).unwrap();
    let at = two.into_raw();
    std::thread::scope(|s| {
        let pool = &pool;
        let first = s.spawn(move || pool.put_raw(&HERE, at));
        let page = hears.recv().unwrap();
        assert_eq!(page, at.pfn());
        // Makes room, so that the second one lands in the ring.
        while consumer.get(&HERE).map(std::mem::forget).is_ok() && pool.stats().in_ring > 0 {}
        let second = pool.put_raw(&THERE, at);
        tells.send(()).unwrap();
        assert_eq!(first.join().unwrap(), Ok(()));
        assert_eq!(second, Err(PutError::NotInUse));
    });
    assert!(yard.order_of(at.pfn()).is_none() && pool.stats().in_ring == 0, "free, and in the ring");
}

#[test]
fn a_number_is_not_given_to_another_pool_while_pages_are_out_under_it() {
    let yard = yard_of(4096);
    let table = UseTable::of(&*yard).unwrap();
    let pool = PagePool::owned(&*yard, &table, PoolConfig::new(), ()).unwrap();
    let mut consumer = pool.consumer().unwrap();
    let at = consumer.get(&HERE).unwrap().into_raw();
    assert_eq!(consumer.close(&HERE), 1);
    drop(pool);
    let next = PagePool::owned(&*yard, &table, PoolConfig::new(), ()).unwrap();
    assert_eq!(next.put_raw(&HERE, at), Err(PutError::WrongOwner));
}

#[test]
fn pages_that_somebody_was_moving_when_he_was_killed_are_recovered() {
    let yard = yard_of(4096);
    let before = free_frames(&yard);
    let table = UseTable::of(&*yard).unwrap();
    for order in [0, 3] {
        let request = Request::new(Order::of(order), Migratetype::Unmovable);
        let pool = PagePool::owned(&*yard, &table, PoolConfig { request, ring: 64 }, ()).unwrap();
        let mut consumer = pool.consumer().unwrap();
        let raw: Vec<_> = (0..100).map(|_| consumer.get(&HERE).unwrap().into_raw()).collect();
        raw[..40].iter().for_each(|at| pool.put_raw(&THERE, *at).unwrap());
        // A page that was handed out and whose holder is gone is no different from one that was on its way.
        for _ in 0..7 {
            std::mem::forget(consumer.get(&HERE).unwrap());
        }
        std::mem::forget(consumer);
        // SAFETY: the former consumer was forgotten, on this thread.
        let mut heir = unsafe { pool.consumer_of_the_dead() }.unwrap();
        // SAFETY: no one has a page but by its address, and nothing else runs.
        assert_eq!(unsafe { heir.recover(&HERE) }, 7);
        // SAFETY: as above.
        assert_eq!(unsafe { heir.recover(&HERE) }, 0);
        raw[40..].iter().for_each(|at| pool.put_raw(&THERE, *at).unwrap());
        assert_eq!(heir.close(&HERE), 0);
        assert_eq!(free_frames(&yard), before);
    }
}

#[test]
fn what_is_recovered_keeps_its_mapping_and_goes_into_the_ring() {
    let yard = yard_of(4096);
    let before = free_frames(&yard);
    let table = UseTable::owned(UseTable::frames_of(&*yard), Values::Kept).unwrap();
    let pool = PagePool::owned(&*yard, &table, ring_of(64), Device::default()).unwrap();
    let mut consumer = pool.consumer().unwrap();
    for _ in 0..7 {
        std::mem::forget(consumer.get(&HERE).unwrap());
    }
    let pages = pool.pages();
    // SAFETY: no one has a page, and nothing else runs.
    assert_eq!(unsafe { consumer.recover(&HERE) }, 7);
    assert_eq!((pool.stats().in_ring, pool.pages()), (7, pages), "none went to the allocator");
    assert_eq!((consumer.close(&HERE), free_frames(&yard)), (0, before));
    assert!(pool.map().mapped.lock().unwrap().is_empty(), "all were unmapped in the end");
}

#[test]
fn an_address_without_a_mark_becomes_the_page_again_and_nothing_else_takes_it() {
    let yard = yard_of(4096);
    let before = free_frames(&yard);
    let table = UseTable::of(&*yard).unwrap();
    let pool = PagePool::owned(&*yard, &table, PoolConfig::new(), ()).unwrap();
    let mut consumer = pool.consumer().unwrap();
    let at = consumer.get(&HERE).unwrap().into_address();
    assert_eq!(pool.put_raw(&THERE, at), Err(PutError::NotInUse), "it has no mark");
    pool.visit_in_use(&mut |at, _| panic!("{at:?} is marked"));
    // SAFETY: it is the address from above, for the first time.
    let page = unsafe { pool.from_address(at) };
    page.put(&THERE).unwrap();
    assert_eq!((consumer.close(&HERE), free_frames(&yard)), (0, before));
}
