//! Batches of a pool's pages, and pages that are dropped.

use crate::pools::{HERE, NOWHERE, THERE, free_frames, ring_of, yard_of};
use pageyard::{
    AllocError, Alone, Config, CpuSet, Frames, MemoryMap, NodeId, Order, PageAllocator, Pageyard, Pfn,
    PhysAddr, Region, ZoneKind,
};
use pageyard_packets::{GetError, PageMap, PagePool, PoolConfig, PoolPage, PutError, UseTable, Values};
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};

#[test]
fn batches_come_from_the_cache_then_the_ring_then_the_allocator() {
    let yard = yard_of(4096);
    let before = free_frames(&yard);
    let table = UseTable::of(&*yard).unwrap();
    let pool = PagePool::owned(&*yard, &table, PoolConfig::new(), ()).unwrap();
    let mut consumer = pool.consumer().unwrap();
    assert!(consumer.get_bulk(&HERE, 0).unwrap().is_empty());
    let (first, second) = (consumer.get_bulk(&HERE, 1000).unwrap(), consumer.get_bulk(&HERE, 40).unwrap());
    assert_eq!((first.len(), second.len()), (PoolConfig::BATCH, 40));
    let all: BTreeSet<_> = first.pfns().chain(second.pfns()).collect();
    assert_eq!(all.len(), 104, "each is handed out once");
    let stats = pool.stats();
    assert_eq!((stats.alloc_slow, stats.alloc_fast, stats.alloc_refill, stats.pages), (2, 102, 0, 128));
    first.put(&THERE).unwrap();
    consumer.put_bulk(&HERE, second).unwrap();
    let stats = pool.stats();
    assert_eq!((stats.recycle_ring, stats.in_ring, stats.recycle_cached), (64, 64, 40));
    // The cache has 64, the ring as many.
    let (cached, returned) = (consumer.get_bulk(&HERE, 64).unwrap(), consumer.get_bulk(&HERE, 64).unwrap());
    assert_eq!(cached.pfns().chain(returned.pfns()).collect::<BTreeSet<_>>().len(), 128);
    let stats = pool.stats();
    assert_eq!((stats.alloc_refill, stats.alloc_slow, stats.in_ring), (1, 2, 0));
    assert_eq!(stats.alloc_fast + stats.alloc_slow + stats.alloc_refill, 104 + 128, "each is counted once");
    // Three times what the cache has room for: what it has not goes to the ring.
    let third = consumer.get_bulk(&HERE, 64).unwrap();
    [cached, returned, third].into_iter().for_each(|batch| consumer.put_bulk(&HERE, batch).unwrap());
    let stats = pool.stats();
    assert_eq!((stats.recycle_cache_full, stats.in_ring), (64, 64));
    assert_eq!(consumer.close(&HERE), 0);
    assert_eq!(free_frames(&yard), before);
}

#[test]
fn pages_move_between_batches_of_one_pool() {
    let yard = yard_of(4096);
    let before = free_frames(&yard);
    let table = UseTable::of(&*yard).unwrap();
    let (pool, other) = (
        PagePool::owned(&*yard, &table, PoolConfig::new(), ()).unwrap(),
        PagePool::owned(&*yard, &table, PoolConfig::new(), ()).unwrap(),
    );
    let (mut consumer, mut others) = (pool.consumer().unwrap(), other.consumer().unwrap());
    let mut batch = pool.batch();
    assert!(batch.is_empty() && batch.pop().is_none());
    let foreign = batch.push(others.get(&HERE).unwrap()).unwrap_err();
    for _ in 0..PoolConfig::BATCH {
        batch.push(consumer.get(&HERE).unwrap()).unwrap();
    }
    let one_more = batch.push(consumer.get(&HERE).unwrap()).unwrap_err();
    assert!(batch.is_full());
    let last = batch.pop().unwrap();
    assert!(batch.pfns().all(|pfn| pfn != last.pfn()) && batch.pfns().len() == 63);
    let refused = others.put_bulk(&HERE, batch).unwrap_err();
    assert_eq!((refused.why, refused.item.len()), (PutError::WrongOwner, 63));
    drop((refused, one_more, last, foreign));
    assert_eq!((pool.stats().in_ring, other.stats().in_ring), (63 + 2, 1), "what is dropped goes back");
    assert_eq!((consumer.close(&HERE), others.close(&HERE)), (0, 0));
    assert_eq!(free_frames(&yard), before);
}

#[test]
fn what_the_ring_of_batches_has_no_room_for_goes_page_by_page_and_then_to_the_allocator() {
    let yard = yard_of(4096);
    let before = free_frames(&yard);
    let table = UseTable::of(&*yard).unwrap();
    // One group, and 16 slots.
    let pool = PagePool::owned(&*yard, &table, ring_of(16), ()).unwrap();
    let mut consumer = pool.consumer().unwrap();
    let batches = [0; 3].map(|_| consumer.get_bulk(&HERE, 64).unwrap());
    for batch in batches {
        batch.put(&THERE).unwrap();
    }
    let stats = pool.stats();
    assert_eq!((stats.in_ring, stats.recycle_ring_full, stats.pages), (64 + 16, 2 * 64 - 16, 80));
    // Two pages are no batch: the ring of single pages is full, and they go on.
    let two = consumer.get_bulk(&HERE, 2).unwrap();
    two.put(&THERE).unwrap();
    assert_eq!(consumer.close(&HERE), 0);
    assert_eq!(free_frames(&yard), before);
}

#[test]
fn a_batch_that_is_refused_is_still_the_callers() {
    let yard = yard_of(4096);
    let before = free_frames(&yard);
    let table = UseTable::of(&*yard).unwrap();
    let pool = PagePool::owned(&*yard, &table, ring_of(4), ()).unwrap();
    let mut consumer = pool.consumer().unwrap();
    let (first, second) = (consumer.get_bulk(&HERE, 64).unwrap(), consumer.get_bulk(&HERE, 64).unwrap());
    first.put(&THERE).unwrap();
    let refused = second.put(&NOWHERE).unwrap_err();
    assert!(matches!(refused.why, PutError::Free(_)), "{refused:?}");
    assert_eq!((refused.item.len(), pool.stats().in_ring), (60, 68), "four found room");
    refused.item.put(&THERE).unwrap();
    assert_eq!(consumer.close(&HERE), 0);
    assert_eq!(free_frames(&yard), before);
}

#[test]
fn pages_come_back_by_their_addresses_in_bulk() {
    let yard = yard_of(4096);
    let before = free_frames(&yard);
    let table = UseTable::of(&*yard).unwrap();
    let pool = PagePool::owned(&*yard, &table, PoolConfig::new(), ()).unwrap();
    let mut consumer = pool.consumer().unwrap();
    let mut raw: Vec<PhysAddr> = (0..100).map(|_| consumer.get(&HERE).unwrap().into_raw()).collect();
    let (twice, strange) = (raw[7], PhysAddr(12));
    raw.extend([twice, strange]);
    let mut wrong = Vec::new();
    pool.put_raw_bulk(&THERE, &raw, &mut |at, why| wrong.push((at, why)));
    assert_eq!(wrong, [(twice, PutError::NotInUse), (strange, PutError::OutsideTable)]);
    assert_eq!(pool.stats().in_ring, 100);
    // Where the allocator refuses, each is in use, as it was.
    let small = PagePool::owned(&*yard, &table, ring_of(2), ()).unwrap();
    let mut other = small.consumer().unwrap();
    let raw: Vec<PhysAddr> = (0..70).map(|_| other.get(&HERE).unwrap().into_raw()).collect();
    let mut refused = Vec::new();
    small.put_raw_bulk(&NOWHERE, &raw, &mut |at, why| refused.push((at, why)));
    assert_eq!((refused.len(), small.stats().in_ring), (70 - 64 - 2, 66));
    assert!(refused.iter().all(|(_, why)| matches!(why, PutError::Free(_))));
    refused.iter().for_each(|(at, _)| small.put_raw(&THERE, *at).unwrap());
    assert_eq!((consumer.close(&HERE), other.close(&HERE)), (0, 0));
    assert_eq!(free_frames(&yard), before);
}

#[test]
fn neighbours_come_back_together_each_once() {
    let yard = yard_of(4096);
    let before = free_frames(&yard);
    // A table whose rows of eight are not the allocator's.
    let mut frames = UseTable::frames_of(&*yard);
    frames.start.0 -= 3;
    for table in [UseTable::of(&*yard).unwrap(), UseTable::owned(frames, Values::None).unwrap()] {
        let pool = PagePool::owned(&*yard, &table, PoolConfig::new(), ()).unwrap();
        let other = PagePool::owned(&*yard, &table, PoolConfig::new(), ()).unwrap();
        let (mut consumer, mut others) = (pool.consumer().unwrap(), other.consumer().unwrap());
        let strange = others.get(&HERE).unwrap().into_raw();
        // Upwards, downwards, by threes, and with each sixth there twice or another pool's.
        let orders: [fn(usize) -> usize; 3] = [|nth| nth, |nth| 63 - nth, |nth| nth * 3 % 64];
        for (order, to_consumer) in orders.into_iter().flat_map(|order| [(order, false), (order, true)]) {
            let mut sorted = [PhysAddr(0); 64];
            assert_eq!(consumer.get_raw_bulk(&HERE, &mut sorted), Ok(64));
            sorted.sort_unstable();
            let mut raw = Vec::new();
            let mut expected = Vec::new();
            for nth in 0..64 {
                let at = sorted[order(nth)];
                raw.push(PhysAddr(at.0 + nth as u64));
                match nth % 12 {
                    5 => {
                        raw.push(at);
                        expected.push((at, PutError::NotInUse));
                    }
                    11 => {
                        raw.push(strange);
                        expected.push((strange, PutError::WrongOwner));
                    }
                    _ => {}
                }
            }
            let mut wrong = Vec::new();
            let mut note = |at, why| wrong.push((at, why));
            if to_consumer {
                consumer.put_raw_bulk(&HERE, &raw, &mut note);
            } else {
                pool.put_raw_bulk(&THERE, &raw, &mut note);
            }
            assert_eq!(wrong, expected);
            let mut in_use = 0;
            pool.visit_in_use(&mut |_, _| in_use += 1);
            assert_eq!(in_use, 0);
            let back = consumer.get_bulk(&HERE, 64).unwrap();
            let mut again: Vec<_> = back.pfns().map(Pfn::address).collect();
            again.sort_unstable();
            assert_eq!(again, sorted, "no page is there twice");
            consumer.put_bulk(&HERE, back).unwrap();
        }
        others.put_raw(&HERE, strange).unwrap();
        assert_eq!((consumer.close(&HERE), others.close(&HERE)), (0, 0));
        drop((pool, other));
        assert_eq!(free_frames(&yard), before);
    }
}

#[test]
fn an_address_becomes_a_page_once() {
    let yard = yard_of(4096);
    let table = UseTable::of(&*yard).unwrap();
    let (pool, other) = (
        PagePool::owned(&*yard, &table, PoolConfig::new(), ()).unwrap(),
        PagePool::owned(&*yard, &table, PoolConfig::new(), ()).unwrap(),
    );
    let at = pool.consumer().unwrap().get(&HERE).unwrap().into_raw();
    assert_eq!(other.take_raw(at).unwrap_err(), PutError::WrongOwner);
    assert_eq!(pool.take_raw(PhysAddr(3)).unwrap_err(), PutError::OutsideTable);
    let page = pool.take_raw(at).unwrap();
    assert_eq!((page.pfn().address(), pool.take_raw(at).unwrap_err()), (at, PutError::NotInUse));
    assert_eq!(pool.put_raw(&HERE, at).unwrap_err(), PutError::NotInUse);
    page.put(&HERE).unwrap();
}

#[test]
fn a_page_that_is_dropped_goes_back() {
    let yard = yard_of(4096);
    let before = free_frames(&yard);
    let table = UseTable::of(&*yard).unwrap();
    let pool = PagePool::owned(&*yard, &table, ring_of(2), ()).unwrap();
    let mut consumer = pool.consumer().unwrap();
    let held: Vec<_> = (0..5).map(|_| consumer.get(&HERE).unwrap()).collect();
    drop(held);
    let stats = pool.stats();
    assert_eq!((stats.in_ring, stats.recycle_ring_full, stats.pages), (2, 3, 64 - 3), "three went on");
    drop((consumer.get_bulk(&HERE, 60).unwrap(), consumer.get_bulk(&HERE, 60).unwrap()));
    drop(consumer);
    drop(pool);
    assert_eq!(free_frames(&yard), before, "a pool that is dropped gives all its pages back");
}

#[test]
fn a_page_that_no_cpu_can_free_stays_in_use_under_its_address() {
    let regions = [Region::managed(Pfn(0), Frames(4096), NodeId(0), ZoneKind::Normal)];
    // SAFETY: one thread makes all calls.
    let alone = unsafe { Alone::by_instance() };
    let yard = Pageyard::owned(&MemoryMap::new(&regions).unwrap(), Config::new(2), alone).unwrap();
    assert!((*yard).anywhere().is_none());
    let table = UseTable::of(&*yard).unwrap();
    let pool = PagePool::owned(&*yard, &table, ring_of(2), ()).unwrap();
    let mut consumer = pool.consumer().unwrap();
    let held: Vec<_> = (0..3).map(|_| consumer.get(&HERE).unwrap()).collect();
    let last = held[2].pfn().address();
    drop(held);
    let mut left = Vec::new();
    pool.visit_in_use(&mut |at, uses| left.push((at, uses)));
    assert_eq!((left, pool.stats().in_ring), (vec![(last, 1)], 2));
    pool.put_raw(&HERE, last).unwrap();
    assert_eq!(consumer.close(&HERE), 0);
    assert!(yard.drain(CpuSet::All).is_complete());
}

#[test]
fn a_batch_has_what_there_is_where_memory_is_short() {
    let yard = yard_of(512);
    let table = UseTable::of(&*yard).unwrap();
    let pool = PagePool::owned(&*yard, &table, PoolConfig::new(), ()).unwrap();
    let mut consumer = pool.consumer().unwrap();
    let mut batches = Vec::new();
    let why = loop {
        match consumer.get_bulk(&HERE, 64) {
            Ok(batch) => batches.push(batch),
            Err(why) => break why,
        }
    };
    assert!(
        matches!(why, GetError::Alloc(AllocError::BelowWatermark { .. } | AllocError::OutOfMemory)),
        "{why}"
    );
    let got: usize = batches.iter().map(|b| b.len()).sum();
    assert_eq!((got as u64, pool.pages()), (pool.pages(), got as u64));
    assert!(got > 300, "{got}");
    // All that is left are batches in the ring, where its hint does not lead.
    batches.into_iter().for_each(|batch| batch.put(&THERE).unwrap());
    let again: usize = std::iter::from_fn(|| consumer.get_bulk(&HERE, 64).ok())
        .map(|b| {
            let len = b.len();
            std::mem::forget(b);
            len
        })
        .sum();
    assert_eq!(again, got);
}

/// A device that panics when so many pages have been unmapped.
struct Breaks(AtomicI64);

impl PageMap for Breaks {
    fn map(&self, page: Pfn, _: Order) -> Option<u64> {
        Some(page.0)
    }

    fn unmap(&self, _: Pfn, _: Order, _: u64) {
        assert_ne!(self.0.fetch_sub(1, Relaxed), 0, "the device panics, as the test asked");
    }
}

#[test]
fn pages_after_one_at_which_a_callback_panics_stay_in_use_under_their_addresses() {
    let yard = yard_of(4096);
    let before = free_frames(&yard);
    let table = UseTable::owned(UseTable::frames_of(&*yard), Values::Kept).unwrap();
    for what in ["close", "put", "drop", "put_raw_bulk"] {
        let pool = PagePool::owned(&*yard, &table, ring_of(2), Breaks(AtomicI64::new(10))).unwrap();
        let mut consumer = pool.consumer().unwrap();
        let batch = consumer.get_bulk(&HERE, 64).unwrap();
        let panicked = match what {
            "close" => {
                batch.put(&THERE).unwrap();
                catch_unwind(AssertUnwindSafe(|| assert!(consumer.close(&HERE) > 0)))
            }
            "put" => {
                assert_eq!(consumer.close(&HERE), 64);
                catch_unwind(AssertUnwindSafe(|| drop(batch.put(&THERE))))
            }
            "drop" => {
                assert_eq!(consumer.close(&HERE), 64);
                catch_unwind(AssertUnwindSafe(|| drop(batch)))
            }
            _ => {
                assert_eq!(consumer.close(&HERE), 64);
                let mut batch = batch;
                let raw: Vec<_> = std::iter::from_fn(|| batch.pop()).map(PoolPage::into_raw).collect();
                let put = || pool.put_raw_bulk(&THERE, &raw, &mut |at, why| panic!("{at:?}: {why}"));
                catch_unwind(AssertUnwindSafe(put))
            }
        };
        assert!(panicked.is_err(), "{what}");
        let mut left = Vec::new();
        pool.visit_in_use(&mut |at, uses| left.push((at, uses)));
        assert_eq!((left.len(), pool.pages()), (54, 54), "{what}: ten went, and none is lost");
        left.iter().for_each(|(at, _)| pool.put_raw(&HERE, *at).unwrap());
        assert_eq!(pool.consumer().unwrap().close(&HERE), 0, "{what}");
        drop(pool);
        assert_eq!(free_frames(&yard), before, "{what}");
    }
}

#[test]
fn a_bulk_get_by_address_that_runs_out_halfway_says_how_many_it_got() {
    let yard = yard_of(1024);
    let before = free_frames(&yard);
    let table = UseTable::of(&*yard).unwrap();
    let pool = PagePool::owned(&*yard, &table, PoolConfig::new(), ()).unwrap();
    let mut consumer = pool.consumer().unwrap();
    let mut addresses = vec![PhysAddr(0); 2 * before as usize];
    let got = consumer.get_raw_bulk(&HERE, &mut addresses).expect("as many as there are");
    assert!((1..addresses.len()).contains(&got), "{got} of {before} frames");
    assert!(matches!(consumer.get_raw_bulk(&HERE, &mut addresses[got..]), Err(GetError::Alloc(_))));
    addresses[..got].iter().for_each(|at| pool.put_raw(&THERE, *at).unwrap());
    assert_eq!((consumer.close(&HERE), free_frames(&yard)), (0, before), "each is known by its address");
}
