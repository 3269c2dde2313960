//! Fragments of blocks: where they lie, when their block goes back, and what a wrong one is.

use pageyard::watermark::WatermarkKnobs;
use pageyard::{
    AllocError, AuditError, BadRequest, Census, ClaimError, Config, CpuId, CpuSet, Cx, Drained, Frames,
    FreeError, MemoryMap, Metadata, Migratetype, NodeId, Order, OwnedPageyard, PageAllocator, Pageyard,
    PcpStats, Pfn, PhysAddr, Region, Request, Stats, TryLock, ZoneId, ZoneKind, ZoneStats,
};
use pageyard_packets::{
    FragConfig, FragPages, PacketsError, PagePool, PoolConfig, PutError, UseTable, Values,
};
use std::alloc::Layout;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

const HERE: Cx = Cx::on(CpuId(0));
const THERE: Cx = Cx::on(CpuId(1));
const NOWHERE: Cx = Cx::on(CpuId(99));

fn yard_at(start: u64, frames: u64) -> OwnedPageyard<TryLock> {
    let regions = [Region::managed(Pfn(start), Frames(frames), NodeId(0), ZoneKind::Normal)];
    Pageyard::owned(&MemoryMap::new(&regions).unwrap(), Config::new(2), TryLock).unwrap()
}

fn yard() -> OwnedPageyard<TryLock> {
    yard_at(1 << 20, 4096)
}

fn layout(bytes: usize, align: usize) -> Layout {
    Layout::from_size_align(bytes, align).unwrap()
}

fn config(order: u8) -> FragConfig {
    FragConfig { request: Request::new(Order::of(order), Migratetype::Unmovable) }
}

/// Returns the free frames of an allocator, those in lists included, and checks it.
fn free_frames(yard: &OwnedPageyard<TryLock>) -> u64 {
    assert!(yard.drain(CpuSet::All).is_complete());
    yard.audit().unwrap();
    yard.zone_stats(ZoneId(0)).unwrap().free.0
}

#[test]
fn buffers_lie_apart_in_a_block_from_its_end_down_aligned_as_asked() {
    let yard = yard();
    let before = free_frames(&yard);
    let table = UseTable::of(&*yard).unwrap();
    let pages = FragPages::new(&*yard, &table, FragConfig::new()).unwrap();
    let mut cache = pages.cache();
    let mut taken: Vec<(u64, u64)> = Vec::new();
    let mut held = Vec::new();
    let mut rng = fastrand::Rng::with_seed(1);
    for _ in 0..2000 {
        let (bytes, align) = (rng.usize(1..6000), 1 << rng.u32(0..13));
        let buffer = cache.alloc(&HERE, layout(bytes, align)).unwrap();
        let at = buffer.address().0;
        assert_eq!((at % align as u64, buffer.len()), (0, bytes));
        assert_eq!(buffer.block(), PhysAddr(at).pfn().align_down(Order::of(3)), "in one block");
        assert_eq!(yard.order_of(buffer.block()), Some(Order::of(3)));
        assert_eq!(PhysAddr(at + bytes as u64 - 1).pfn().align_down(Order::of(3)), buffer.block());
        taken.push((at, at + bytes as u64));
        held.push(buffer);
        if held.len() > 200 {
            let nth = rng.usize(..held.len());
            let gone = held.swap_remove(nth);
            taken.retain(|t| t.0 != gone.address().0);
            gone.put(if rng.bool() { &HERE } else { &THERE }).unwrap();
        }
        if taken.len().is_multiple_of(50) {
            let mut sorted = taken.clone();
            sorted.sort_unstable();
            assert!(sorted.windows(2).all(|w| w[0].1 <= w[1].0), "no two overlap");
        }
    }
    for buffer in held {
        buffer.put(&THERE).unwrap();
    }
    cache.drain(&HERE);
    assert_eq!(free_frames(&yard), before);
}

#[test]
fn a_block_goes_back_with_its_last_buffer_and_not_before() {
    let yard = yard();
    let before = free_frames(&yard);
    let table = UseTable::of(&*yard).unwrap();
    let pages = FragPages::new(&*yard, &table, FragConfig::new()).unwrap();
    let mut cache = pages.cache();
    // Sixteen fill a block: the next is in another.
    let mut held: Vec<_> = (0..17).map(|_| cache.alloc(&HERE, layout(2048, 1)).unwrap()).collect();
    let (first, last) = (held[0].block(), held[16].block());
    assert_ne!(first, last);
    assert_eq!(pages.uses_of(first), 16, "what was set aside for it came back when it was full");
    let kept = held.remove(3);
    held.pop().unwrap().put(&THERE).unwrap();
    for buffer in held {
        buffer.put(&THERE).unwrap();
    }
    assert_eq!((pages.uses_of(first), yard.order_of(first)), (1, Some(Order::of(3))));
    kept.put(&THERE).unwrap();
    assert_eq!((pages.uses_of(first), yard.order_of(first)), (0, None));
    assert_eq!(yard.order_of(last), Some(Order::of(3)), "it is still being carved");
    cache.drain(&HERE);
    cache.drain(&HERE);
    assert_eq!(free_frames(&yard), before);
}

#[test]
fn a_full_block_whose_buffers_are_all_back_is_carved_again() {
    let yard = yard();
    let table = UseTable::of(&*yard).unwrap();
    let pages = FragPages::new(&*yard, &table, FragConfig::new()).unwrap();
    let mut cache = pages.cache();
    let first = cache.alloc(&HERE, layout(2048, 1)).unwrap();
    let block = first.block();
    first.put(&THERE).unwrap();
    for _ in 0..100 {
        let buffer = cache.alloc(&HERE, layout(2048, 1)).unwrap();
        assert_eq!(buffer.block(), block);
        buffer.put(&THERE).unwrap();
    }
    cache.drain(&HERE);
    assert_eq!(yard.order_of(block), None);
}

#[test]
fn without_larger_blocks_buffers_come_from_single_frames() {
    let regions = [Region::managed(Pfn(0), Frames(512), NodeId(0), ZoneKind::Normal)];
    let watermark =
        WatermarkKnobs { min_free_kbytes: Some(0), watermark_scale_factor: 0, ..WatermarkKnobs::default() };
    let config = Config { watermark, ..Config::new(2) };
    let yard = Pageyard::owned(&MemoryMap::new(&regions).unwrap(), config, TryLock).unwrap();
    let table = UseTable::of(&*yard).unwrap();
    let pages = FragPages::new(&*yard, &table, FragConfig::new()).unwrap();
    let movable = Request::new(Order::ZERO, Migratetype::Unmovable);
    let all: Vec<Pfn> = std::iter::from_fn(|| yard.alloc(&HERE, &movable).ok()).collect();
    let mut cache = pages.cache();
    assert!(cache.alloc(&HERE, layout(64, 1)).is_err(), "there is nothing at all");
    for pfn in all.iter().filter(|p| p.0 % 3 == 0) {
        yard.free(&HERE, *pfn, Order::ZERO).unwrap();
    }
    let held: Vec<_> = (0..8).map(|_| cache.alloc(&HERE, layout(2048, 64)).unwrap()).collect();
    let mut blocks: Vec<Pfn> = held.iter().map(|b| b.block()).collect();
    blocks.dedup();
    assert_eq!(blocks.len(), 4, "two in a frame");
    assert!(blocks.iter().all(|b| yard.order_of(*b) == Some(Order::ZERO)));
    let why = cache.alloc(&HERE, layout(5000, 1)).map(drop);
    assert!(matches!(why, Err(AllocError::Fragmented { .. })), "{why:?}");
    assert!(cache.alloc(&HERE, layout(4096, 4096)).unwrap().put(&HERE).is_ok());
    for buffer in held {
        // By its address: the block is found by what is allocated there.
        pages.put_raw(&THERE, buffer.into_raw()).unwrap();
    }
    cache.drain(&HERE);
    for pfn in all.iter().filter(|p| p.0 % 3 != 0) {
        yard.free(&HERE, *pfn, Order::ZERO).unwrap();
    }
    assert_eq!(free_frames(&yard), 512);
}

#[test]
fn sizes_that_no_block_has_are_refused() {
    let yard = yard();
    let table = UseTable::of(&*yard).unwrap();
    let pages = FragPages::new(&*yard, &table, FragConfig::new()).unwrap();
    let mut cache = pages.cache();
    // Served only by a block that happens to lie so.
    let why = cache.alloc(&HERE, layout(64, 65536)).map(drop);
    assert!(matches!(why, Err(AllocError::BadRequest(BadRequest::Size { .. }))));
    for (bytes, align, frames) in [(0, 1, 0), (32769, 1, 9)] {
        for _ in 0..2 {
            let why = cache.alloc(&HERE, layout(bytes, align)).map(drop);
            let size = BadRequest::Size { frames: Frames(frames), most: Frames(8) };
            assert_eq!(why, Err(AllocError::BadRequest(size)), "{bytes} bytes");
            // The second time with a block at hand.
            cache.alloc(&HERE, layout(8, 8)).unwrap().put(&HERE).unwrap();
        }
    }
    let whole = cache.alloc(&HERE, layout(32768, 32768)).unwrap();
    assert_eq!(whole.address(), whole.block().address());
    whole.put(&HERE).unwrap();
    cache.drain(&HERE);
    let order = Order::of(10);
    let refused = FragPages::new(&*yard, &table, config(10)).err();
    assert_eq!(refused, Some(PacketsError::Order { order, largest: Order::of(9) }));
}

#[test]
fn a_buffer_given_back_twice_by_its_address_is_noticed_when_nothing_is_left() {
    let yard = yard();
    let before = free_frames(&yard);
    let table = UseTable::of(&*yard).unwrap();
    let pages = FragPages::new(&*yard, &table, FragConfig::new()).unwrap();
    let mut cache = pages.cache();
    let at = cache.alloc(&HERE, layout(32768, 1)).unwrap().into_raw();
    cache.drain(&HERE);
    pages.put_raw(&THERE, at).unwrap();
    for cx in [HERE, THERE] {
        assert_eq!(pages.put_raw(&cx, at), Err(PutError::NotInUse));
    }
    assert_eq!(pages.put_raw(&HERE, PhysAddr(0)), Err(PutError::OutsideTable));
    assert_eq!(pages.put_raw(&HERE, PhysAddr(u64::MAX)), Err(PutError::OutsideTable));
    let never = UseTable::frames_of(&*yard).end.address();
    assert_eq!(pages.put_raw(&HERE, never), Err(PutError::OutsideTable));
    let others = FragPages::new(&*yard, &table, FragConfig::new()).unwrap();
    let mut theirs = others.cache();
    let raw = theirs.alloc(&HERE, layout(100, 4)).unwrap().into_raw();
    assert_eq!(pages.put_raw(&HERE, raw), Err(PutError::WrongOwner));
    others.put_raw(&HERE, raw).unwrap();
    theirs.drain(&HERE);
    assert_eq!(free_frames(&yard), before);
}

#[test]
fn a_buffer_whose_use_was_given_up_by_address_is_refused_and_harms_no_one() {
    let yard = yard();
    let before = free_frames(&yard);
    let table = UseTable::of(&*yard).unwrap();
    let pages = FragPages::new(&*yard, &table, FragConfig::new()).unwrap();
    let mut cache = pages.cache();
    let buffer = cache.alloc(&HERE, layout(4096, 1)).unwrap();
    cache.drain(&HERE);
    let (at, block) = (buffer.address(), buffer.block());
    pages.put_raw(&THERE, at).unwrap();
    let refused = buffer.put(&HERE).unwrap_err();
    assert_eq!(refused.why, PutError::NotInUse);
    assert_eq!(pages.uses_of(block), 0, "what was subtracted from nothing is put back");
    // The block can be carved again as ever.
    let again = cache.alloc(&HERE, layout(4096, 1)).unwrap();
    assert_eq!(pages.uses_of(again.block()), 32769, "a use for each byte, of which one is the buffer's");
    again.put(&HERE).unwrap();
    cache.drain(&HERE);
    assert_eq!(free_frames(&yard), before);
}

#[test]
fn too_many_frees_by_address_while_a_block_is_carved_do_not_reach_another() {
    let yard = yard();
    let before = free_frames(&yard);
    let table = UseTable::of(&*yard).unwrap();
    let pages = FragPages::new(&*yard, &table, config(0)).unwrap();
    let mut cache = pages.cache();
    let at = cache.alloc(&HERE, layout(64, 64)).unwrap().into_raw();
    let uses = pages.uses_of(at.pfn());
    for _ in 0..uses {
        pages.put_raw(&HERE, at).unwrap();
    }
    // The block went back although it was being carved; the carver notices when it is done with it.
    assert_eq!(pages.put_raw(&HERE, at), Err(PutError::NotInUse));
    cache.drain(&HERE);
    assert_eq!(free_frames(&yard), before);
}

#[test]
fn a_last_buffer_that_the_allocator_refuses_stays_the_callers() {
    let yard = yard();
    let before = free_frames(&yard);
    let table = UseTable::of(&*yard).unwrap();
    let pages = FragPages::new(&*yard, &table, FragConfig::new()).unwrap();
    let mut cache = pages.cache();
    let buffer = cache.alloc(&HERE, layout(4096, 1)).unwrap();
    cache.drain(&HERE);
    let refused = buffer.put(&NOWHERE).unwrap_err();
    assert_eq!(refused.why, PutError::Free(pageyard::FreeError::NoSuchCpu));
    let at = refused.item.into_raw();
    assert!(pages.put_raw(&NOWHERE, at).is_err());
    pages.put_raw(&HERE, at).unwrap();
    assert_eq!(free_frames(&yard), before);
}

#[test]
fn tables_have_255_owners_and_the_numbers_are_used_again() {
    let yard = yard();
    let table = UseTable::of(&*yard).unwrap();
    let mut owners: Vec<_> =
        (0..255).map(|_| FragPages::new(&*yard, &table, FragConfig::new()).unwrap()).collect();
    let refused = FragPages::new(&*yard, &table, FragConfig::new()).err();
    assert_eq!(refused, Some(PacketsError::TooManyOwners { most: 255 }));
    owners.swap_remove(100);
    assert!(FragPages::new(&*yard, &table, FragConfig::new()).is_ok());
}

#[test]
fn tables_lie_in_memory_that_is_large_enough() {
    let frames = Pfn(0)..Pfn(1024);
    let bytes = UseTable::bytes(&frames, Values::None).unwrap();
    assert!(bytes < 1024 * 5 + 256, "five bytes a frame");
    assert!(UseTable::bytes(&frames, Values::Kept).unwrap() < 1024 * 13 + 256, "eight more for values");
    let mut memory = vec![0xff; bytes];
    assert!(UseTable::new(frames.clone(), Values::None, Metadata::zeroed(&mut memory)).is_ok());
    let small = UseTable::new(frames.clone(), Values::None, Metadata::zeroed(&mut memory[..bytes / 2]));
    assert_eq!(small.err(), Some(PacketsError::MemoryTooSmall { needed: bytes }));
    assert_eq!(UseTable::bytes(&(Pfn(5)..Pfn(5)), Values::None), Err(PacketsError::Frames));
    // Its last frame would have no number.
    assert_eq!(UseTable::bytes(&(Pfn(7)..Pfn(7 + (1 << 32))), Values::None), Err(PacketsError::Frames));
    assert!(UseTable::bytes(&(Pfn(7)..Pfn(6 + (1 << 32))), Values::None).is_ok());
}

#[test]
fn a_block_that_the_table_does_not_cover_goes_back() {
    let yard = yard();
    let before = free_frames(&yard);
    let frames = UseTable::frames_of(&*yard);
    let table = UseTable::owned(Pfn(0)..frames.start, Values::None).unwrap();
    let pages = FragPages::new(&*yard, &table, FragConfig::new()).unwrap();
    let why = pages.cache().alloc(&HERE, layout(64, 1)).map(drop);
    assert_eq!(why, Err(AllocError::BadRequest(BadRequest::NoZone)));
    assert_eq!(free_frames(&yard), before);
}

#[test]
fn buffers_given_back_on_other_threads_take_their_blocks_along() {
    let yard = yard_at(0, 1 << 15);
    let before = free_frames(&yard);
    let table = UseTable::of(&*yard).unwrap();
    let pages = FragPages::new(&*yard, &table, FragConfig::new()).unwrap();
    std::thread::scope(|s| {
        for cpu in 0..2 {
            let (send, receive) = std::sync::mpsc::sync_channel(500);
            let pages = &pages;
            s.spawn(move || {
                let (cx, mut cache) = (Cx::on(CpuId(cpu)), pages.cache());
                let mut rng = fastrand::Rng::with_seed(u64::from(cpu));
                for _ in 0..200_000 {
                    let buffer = cache.alloc(&cx, layout(rng.usize(1..3000), 8)).unwrap();
                    if rng.u8(..) < 200 {
                        send.send(buffer).unwrap();
                    } else {
                        buffer.put(&cx).unwrap();
                    }
                }
                cache.drain(&cx);
            });
            s.spawn(move || receive.into_iter().for_each(|b| b.put(&Cx::on(CpuId(1 - cpu))).unwrap()));
        }
    });
    assert_eq!(free_frames(&yard), before);
}

#[test]
fn a_buffer_of_an_owner_that_is_gone_is_nobody_elses() {
    let yard = yard();
    let table = UseTable::of(&*yard).unwrap();
    let pages = FragPages::new(&*yard, &table, FragConfig::new()).unwrap();
    let mut cache = pages.cache();
    let at = cache.alloc(&HERE, layout(32768, 1)).unwrap().into_raw();
    cache.drain(&HERE);
    drop(pages);
    let pool = PagePool::owned(&*yard, &table, PoolConfig::new(), ()).unwrap();
    assert_eq!(pool.put_raw(&THERE, at), Err(PutError::WrongOwner));
    assert_eq!((pool.stats().in_ring, pool.pages()), (0, 0));
}

#[test]
fn a_block_that_wrong_frees_took_is_not_carved_again() {
    let yard = yard();
    let table = UseTable::of(&*yard).unwrap();
    let [ours, theirs] = [0, 1].map(|_| FragPages::new(&*yard, &table, config(0)).unwrap());
    let (mut a, mut b) = (ours.cache(), theirs.cache());
    let at = a.alloc(&HERE, layout(4096, 1)).unwrap().into_raw();
    for _ in 0..ours.uses_of(at.pfn()) {
        ours.put_raw(&HERE, at).unwrap();
    }
    // It went back; another owner carves it now.
    let first = b.alloc(&HERE, layout(2048, 1)).unwrap();
    assert_eq!(first.block(), at.pfn(), "the list is last in, first out");
    first.put(&HERE).unwrap();
    let wrong = a.alloc(&HERE, layout(4096, 1)).unwrap();
    assert_ne!(wrong.block(), at.pfn(), "it is another's");
}

#[test]
fn a_drain_on_a_wrong_cpu_loses_no_block() {
    let yard = yard();
    let before = free_frames(&yard);
    let table = UseTable::of(&*yard).unwrap();
    let pages = FragPages::new(&*yard, &table, FragConfig::new()).unwrap();
    let mut cache = pages.cache();
    let buffer = cache.alloc(&HERE, layout(64, 1)).unwrap();
    let at = buffer.address();
    buffer.put(&HERE).unwrap();
    cache.drain(&NOWHERE);
    assert_eq!(yard.order_of(at.pfn().align_down(Order::of(3))), Some(Order::of(3)), "the cache keeps it");
    cache.drain(&HERE);
    assert_eq!(free_frames(&yard), before);
}

/// An engine that at times has single frames only, and at times takes nothing back.
struct Moody<'e> {
    engine: &'e OwnedPageyard<TryLock>,
    singles_only: AtomicBool,
    refuses: AtomicBool,
}

// SAFETY: it hands out what the engine hands out.
unsafe impl PageAllocator for Moody<'_> {
    fn alloc(&self, cx: &Cx, request: &Request) -> Result<Pfn, AllocError> {
        let too_large = self.singles_only.load(Relaxed) && request.order > Order::ZERO;
        if too_large { Err(AllocError::OutOfMemory) } else { self.engine.alloc(cx, request) }
    }

    fn free(&self, cx: &Cx, pfn: Pfn, order: Order) -> Result<(), FreeError> {
        if self.refuses.load(Relaxed) { Err(FreeError::NoSuchCpu) } else { self.engine.free(cx, pfn, order) }
    }

    fn split(&self, cx: &Cx, pfn: Pfn, from: Order, to: Order) -> Result<(), FreeError> {
        self.engine.split(cx, pfn, from, to)
    }

    fn claim_exact(&self, cx: &Cx, pfn: Pfn, order: Order, m: Migratetype) -> Result<(), ClaimError> {
        self.engine.claim_exact(cx, pfn, order, m)
    }

    fn order_of(&self, pfn: Pfn) -> Option<Order> {
        self.engine.order_of(pfn)
    }

    fn drain(&self, cpus: CpuSet) -> Drained {
        self.engine.drain(cpus)
    }

    fn stats(&self) -> Stats {
        self.engine.stats()
    }

    fn zone_stats(&self, zone: ZoneId) -> Option<ZoneStats> {
        self.engine.zone_stats(zone)
    }

    fn pcp_stats(&self, zone: ZoneId, cpu: CpuId) -> Option<PcpStats> {
        self.engine.pcp_stats(zone, cpu)
    }

    fn audit(&self) -> Result<Census, AuditError> {
        self.engine.audit()
    }
}

#[test]
fn a_block_that_the_allocator_refuses_while_another_follows_is_not_lost() {
    let yard = yard();
    let before = free_frames(&yard);
    let moody = Moody { engine: &yard, singles_only: true.into(), refuses: false.into() };
    let table = UseTable::of(&*yard).unwrap();
    let pages = FragPages::new(&moody, &table, FragConfig::new()).unwrap();
    let mut cache = pages.cache();
    cache.alloc(&HERE, layout(100, 8)).unwrap().put(&HERE).unwrap();
    // The single frame at hand is unused, and too small for what is asked for.
    moody.singles_only.store(false, Relaxed);
    moody.refuses.store(true, Relaxed);
    for _ in 0..3 {
        assert_eq!(cache.alloc(&HERE, layout(8192, 8)).err(), Some(AllocError::OutOfMemory));
        cache.drain(&HERE);
    }
    let small = cache.alloc(&HERE, layout(100, 8)).unwrap();
    assert_eq!(yard.order_of(small.block()), Some(Order::ZERO), "from the block at hand");
    moody.refuses.store(false, Relaxed);
    small.put(&HERE).unwrap();
    cache.alloc(&HERE, layout(8192, 8)).unwrap().put(&HERE).unwrap();
    cache.drain(&HERE);
    drop(pages);
    assert_eq!(free_frames(&yard), before);
}

#[test]
fn a_refused_buffer_is_refused_again() {
    let yard = yard();
    let table = UseTable::of(&*yard).unwrap();
    let pages = FragPages::new(&*yard, &table, FragConfig::new()).unwrap();
    let mut cache = pages.cache();
    let buffer = cache.alloc(&HERE, layout(4096, 1)).unwrap();
    cache.drain(&HERE);
    let at = buffer.address();
    pages.put_raw(&THERE, at).unwrap();
    let refused = buffer.put(&HERE).unwrap_err();
    assert_eq!(refused.item.put(&HERE).unwrap_err().why, PutError::NotInUse);
    assert_eq!(pages.put_raw(&HERE, at), Err(PutError::NotInUse));
}

#[test]
fn a_block_that_left_its_pool_is_one_fragment_and_goes_back_with_it() {
    let yard = yard();
    let before = free_frames(&yard);
    let table = UseTable::of(&*yard).unwrap();
    let pages = FragPages::new(&*yard, &table, FragConfig::new()).unwrap();
    for order in [0, 3] {
        let block = yard.alloc(&HERE, &config(order).request).unwrap();
        let buffer = pages.whole(block, Order::of(order)).unwrap();
        assert_eq!((buffer.address(), buffer.len()), (block.address(), 4096 << order));
        assert_eq!((buffer.block(), pages.uses_of(block)), (block, 1));
        buffer.put(&THERE).unwrap();
        assert_eq!((pages.uses_of(block), yard.order_of(block)), (0, None));
    }
    // By its address, and once only.
    let block = yard.alloc(&HERE, &config(0).request).unwrap();
    let at = pages.whole(block, Order::ZERO).unwrap().into_raw();
    pages.put_raw(&THERE, at).unwrap();
    assert_eq!(pages.put_raw(&THERE, at), Err(PutError::NotInUse));
    // Refused where the block goes back, and still the caller's then.
    let block = yard.alloc(&HERE, &config(3).request).unwrap();
    let refused = pages.whole(block, Order::ZERO).unwrap().put(&HERE).unwrap_err();
    let allocated = Order::of(3);
    assert_eq!(refused.why, PutError::Free(pageyard::FreeError::WrongOrder { allocated }));
    pages.whole(block, allocated).unwrap().put(&HERE).unwrap();
    assert_eq!(free_frames(&yard), before);
}

#[test]
fn what_cannot_be_one_fragment_stays_the_callers() {
    let yard = yard();
    let table = UseTable::of(&*yard).unwrap();
    let pages = FragPages::new(&*yard, &table, FragConfig::new()).unwrap();
    let block = yard.alloc(&HERE, &config(3).request).unwrap();
    for (at, order) in [(block, 2), (block, 4), (block + Frames(1), 3), (Pfn(0), 0), (Pfn(u64::MAX >> 12), 0)]
    {
        assert!(pages.whole(at, Order::of(order)).is_none(), "{at:?} {order}");
    }
    assert_eq!(pages.uses_of(block), 0);
    yard.free(&HERE, block, Order::of(3)).unwrap();
}
