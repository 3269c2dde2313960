//! The reference as page pools of 2018 used it: one page at a time, and frees that say where they are.

use pageyard_core::{
    Counter, CpuId, CpuSet, Cx, Frames, MemoryMap, Migratetype, NodeId, Order, PageAllocator, Pfn, Region,
    Request, ZoneKind,
};
use pageyard_linux::place::{FreeObserver, FreeStage};
use pageyard_linux::{Config, LinuxAllocator, OneByOne};
use std::cell::RefCell;

const CX: Cx = Cx::on(CpuId(0));

thread_local! {
    /// The places that this thread entered and left (`false`), in order.
    static PATH: RefCell<Vec<(FreeStage, bool)>> = const { RefCell::new(Vec::new()) };
}

struct Noted;

struct Stay(FreeStage);

impl Drop for Stay {
    fn drop(&mut self) {
        PATH.with_borrow_mut(|path| path.push((self.0, false)));
    }
}

impl FreeObserver for Noted {
    type Stay = Stay;

    fn enter(place: FreeStage) -> Stay {
        PATH.with_borrow_mut(|path| path.push((place, true)));
        Stay(place)
    }
}

fn allocator(frag_free: &str) -> OneByOne<Noted> {
    let regions = [Region::managed(Pfn(0), Frames(1 << 15), NodeId(0), ZoneKind::Normal)];
    let mut config = Config::linux_4_10();
    config.set("frag_free", frag_free).unwrap();
    OneByOne::new(LinuxAllocator::new(&MemoryMap::new(&regions).unwrap(), &config).unwrap())
}

fn request() -> Request {
    Request::new(Order::ZERO, Migratetype::Unmovable)
}

/// Frees a fragment's frame and returns the places that the free went through.
fn path_of(allocator: &OneByOne<Noted>, pfn: Pfn) -> Vec<(FreeStage, bool)> {
    PATH.take();
    allocator.free_frag(&CX, pfn, Order::ZERO).unwrap();
    PATH.take()
}

#[test]
fn many_pages_are_handed_out_one_at_a_time() {
    let allocator = allocator("pcp");
    let mut pages = [Pfn(u64::MAX); 64];
    assert_eq!(allocator.alloc_bulk(&CX, &request(), &mut pages), 1);
    assert_eq!((allocator.order_of(pages[0]), pages[1]), (Some(Order::ZERO), Pfn(u64::MAX)));
    assert_eq!(allocator.alloc_bulk(&CX, &request(), &mut []), 0);
    allocator.free(&CX, pages[0], Order::ZERO).unwrap();
    assert!(allocator.drain(CpuSet::All).is_complete());
    assert_eq!(allocator.audit().unwrap().allocated, Frames::ZERO);
}

#[test]
fn a_free_past_the_lists_goes_through_the_functions_of_the_documents_profile() {
    let allocator = allocator("buddy");
    let pfn = allocator.alloc(&CX, &request()).unwrap();
    let (ok, one, lock) = (FreeStage::FreePagesOk, FreeStage::FreeOnePage, FreeStage::RawSpinLock);
    let path = [(ok, true), (one, true), (lock, true), (lock, false), (one, false), (ok, false)];
    assert_eq!(path_of(&allocator, pfn), path);
}

#[test]
fn a_free_to_the_lists_takes_the_lock_only_when_they_spill() {
    let allocator = allocator("pcp");
    let held: Vec<Pfn> = (0..1000).map(|_| allocator.alloc(&CX, &request()).unwrap()).collect();
    let (listed, lock) = (FreeStage::FreeUnrefPage, FreeStage::RawSpinLock);
    let paths: Vec<_> = held.into_iter().map(|pfn| path_of(&allocator, pfn)).collect();
    assert_eq!(paths[0], [(listed, true), (listed, false)]);
    let spilled = [(listed, true), (lock, true), (lock, false), (listed, false)];
    let spills = paths.iter().filter(|path| path[..] == spilled).count();
    assert!(spills > 5);
    assert_eq!(spills as u64, allocator.stats()[Counter::PcpDrain], "each spill takes the lock once");
    assert!(paths.iter().all(|path| path.len() == 2 || path[..] == spilled));
}
