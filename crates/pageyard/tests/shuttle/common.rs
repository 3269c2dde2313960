//! A machine under the randomised scheduler: an engine at its real sizes, and who owns each of its frames.
//!
//! Owners are noted in plain atomics, which the scheduler does not see: a note is one step with the call around it.

use pageyard::watermark::WatermarkKnobs;
use pageyard::{
    Accept, Config, CpuId, CpuSet, Cx, FrameRange, Frames, FreeError, MemoryMap, Migratetype, NodeId, Order,
    OwnedPageyard, PageAllocator, Pageyard, PerCpu, Pfn, Region, Request, RequestFlags, TryLock, ZoneKind,
};
use shuttle::thread;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

pub use pageyard_testkit::schedules::{explore, explore_some, once, stop_everywhere, stop_from_here};

pub const PAGEBLOCK: u64 = 512;
pub const BLOCK: u8 = 9;
/// CPUs of a machine.
pub const CPUS: u32 = 5;

/// A block and its order.
pub type Block = (Pfn, u8);

/// An engine, and which of its frames are owned.
pub struct Machine<P: PerCpu = TryLock> {
    pub engine: OwnedPageyard<P>,
    owned: Vec<AtomicBool>,
}

impl Machine {
    /// Makes a machine, with per-CPU lists if `pcp` says so.
    pub fn new(pageblocks: u64, pcp: bool) -> Arc<Machine> {
        Self::with(pageblocks, Config { pcp, ..Config::new(CPUS) })
    }

    /// Makes a machine of three CPUs and twelve pageblocks, whose lists are so large that pageblocks move two at a
    /// time.
    pub fn with_large_lists() -> Arc<Machine> {
        Self::with(12, Config { percpu_pagelist_high_fraction: 1, ..Config::new(3) })
    }

    /// Makes a machine whose lists may hold all of it together, so that many frames move at a time: 32 for a pageblock
    /// and two CPUs, more than a stack holds for four pageblocks.
    pub fn with_batches(pageblocks: u64, cpus: u32) -> Arc<Machine> {
        Self::with(pageblocks, Config { percpu_pagelist_high_fraction: 1, ..Config::new(cpus) })
    }

    /// Makes a machine of which one pageblock, neither the first nor the last, is a hole.
    pub fn with_hole(pageblocks: u64, hole: u64, pcp: bool) -> Arc<Machine> {
        let region = |first: u64, end: u64| {
            let frames = Frames((end - first) * PAGEBLOCK);
            Region::managed(Pfn(first * PAGEBLOCK), frames, NodeId(0), ZoneKind::Normal)
        };
        let regions = [region(0, hole), region(hole + 1, pageblocks)];
        Machine::over(&regions, Config { pcp, accept: Some(Accept(accept)), ..Config::new(CPUS) }, TryLock)
    }

    fn with(pageblocks: u64, config: Config) -> Arc<Machine> {
        Machine::of(pageblocks, config, TryLock)
    }
}

/// Accepts memory, with a pause in which others run.
fn accept(_: FrameRange) -> bool {
    thread::yield_now();
    true
}

impl<P: PerCpu> Machine<P> {
    /// Makes a machine of a zone without watermarks.
    pub fn of(pageblocks: u64, config: Config, percpu: P) -> Arc<Machine<P>> {
        let frames = Frames(pageblocks * PAGEBLOCK);
        Machine::over(&[Region::managed(Pfn(0), frames, NodeId(0), ZoneKind::Normal)], config, percpu)
    }

    fn over(regions: &[Region], config: Config, percpu: P) -> Arc<Machine<P>> {
        let map = MemoryMap::new(regions).unwrap();
        let frames = map.end().0;
        let watermark = WatermarkKnobs {
            min_free_kbytes: Some(0),
            watermark_scale_factor: 0,
            ..WatermarkKnobs::default()
        };
        let config = Config { watermark, ..config };
        let engine = Pageyard::owned(&map, config, percpu).unwrap();
        Arc::new(Machine { engine, owned: (0..frames).map(|_| AtomicBool::new(false)).collect() })
    }

    /// Notes that a block has an owner, or that it has none any more.
    fn note(&self, (pfn, order): Block, owned: bool) {
        for frame in pfn.0..pfn.0 + (1 << order) {
            let was = self.owned[frame as usize].swap(owned, Relaxed);
            assert_ne!(was, owned, "frame {frame} of {pfn:?}, order {order}, has one owner at a time");
        }
    }

    fn request(order: u8, ty: Migratetype) -> Request {
        Request::new(Order::of(order), ty).with(RequestFlags::MEMALLOC)
    }

    pub fn alloc(&self, cpu: u32, order: u8, ty: Migratetype) -> Option<Block> {
        let pfn = self.engine.alloc(&Cx::on(CpuId(cpu)), &Self::request(order, ty)).ok()?;
        assert!(pfn.0.is_multiple_of(1 << order), "{pfn:?} is aligned to order {order}");
        self.note((pfn, order), true);
        Some((pfn, order))
    }

    pub fn movable(&self, cpu: u32, order: u8) -> Option<Block> {
        self.alloc(cpu, order, Migratetype::Movable)
    }

    /// Takes what a request gets that may not wait, so that nothing is swept for it.
    pub fn at_once(&self, cpu: u32, order: u8) -> Option<Block> {
        let request = Self::request(order, Migratetype::Movable).with(RequestFlags::NON_BLOCKING);
        let pfn = self.engine.alloc(&Cx::on(CpuId(cpu)), &request).ok()?;
        self.note((pfn, order), true);
        Some((pfn, order))
    }

    /// Allocates up to `n` single frames.
    pub fn bulk(&self, cpu: u32, n: usize, ty: Migratetype) -> Vec<Block> {
        let mut frames = vec![Pfn(0); n];
        let got = self.engine.alloc_bulk(&Cx::on(CpuId(cpu)), &Self::request(0, ty), &mut frames);
        let blocks: Vec<_> = frames[..got].iter().map(|pfn| (*pfn, 0)).collect();
        blocks.iter().for_each(|block| self.note(*block, true));
        blocks
    }

    /// Claims a block at a place.
    pub fn exact(&self, pfn: u64, order: u8) -> Option<Block> {
        self.engine.claim_exact(&Cx::on(CpuId(0)), Pfn(pfn), Order::of(order), Migratetype::Movable).ok()?;
        self.note((Pfn(pfn), order), true);
        Some((Pfn(pfn), order))
    }

    /// Frees a block that the caller owns.
    pub fn free(&self, cpu: u32, block: Block) {
        self.note(block, false);
        self.engine.free(&Cx::on(CpuId(cpu)), block.0, Order::of(block.1)).unwrap();
    }

    /// Gives up a block without freeing it, so that several threads can try to.
    pub fn disown(&self, block: Block) {
        self.note(block, false);
    }

    /// Notes a block whose owner became known only now.
    pub fn own(&self, block: Block) -> Block {
        self.note(block, true);
        block
    }

    /// Frees a block that the caller may not own.
    pub fn try_free(&self, cpu: u32, (pfn, order): Block) -> Result<(), FreeError> {
        self.engine.free(&Cx::on(CpuId(cpu)), pfn, Order::of(order))
    }

    /// Splits a block that the caller owns into its parts.
    pub fn split(&self, (pfn, from): Block, to: u8) -> Vec<Block> {
        self.engine.split(&Cx::on(CpuId(0)), pfn, Order::of(from), Order::of(to)).unwrap();
        (0..1u64 << (from - to)).map(|n| (Pfn(pfn.0 + (n << to)), to)).collect()
    }

    /// Takes the largest block that its bits say is free, again and again, while nothing else runs: none is refused.
    pub fn takes_what_is_free(&self) -> Vec<Block> {
        let mut held = Vec::new();
        loop {
            let free = self.engine.zone_stats(pageyard::ZoneId(0)).unwrap().blocks_by_order();
            let Some(order) = free.iter().rposition(|n| *n > 0).map(|order| order as u8) else { return held };
            let got = self.movable(0, order);
            held.push(got.unwrap_or_else(|| {
                panic!("{} blocks of order {order} are free: {free:?}", free[order as usize])
            }));
        }
    }

    /// Checks the books, gives everything back, and checks that every pageblock is whole again.
    pub fn end(&self, held: impl IntoIterator<Item = Block>) {
        let held: Vec<_> = held.into_iter().collect();
        let allocated: u64 = held.iter().map(|(_, order)| 1 << order).sum();
        let census = self.engine.audit().unwrap();
        assert_eq!(census.allocated, Frames(allocated));
        assert!(census.is_conserved(), "{census:?}");
        for block in held {
            self.free(0, block);
        }
        self.engine.drain(CpuSet::All);
        let census = self.engine.audit().unwrap();
        assert_eq!(census.free, census.managed, "nothing is lost: {census:?}");
        let pageblocks = self.owned.len() as u64 / PAGEBLOCK;
        for n in 0..pageblocks {
            assert!(self.movable(0, BLOCK).is_some(), "pageblock {n} of {pageblocks} is whole again");
        }
    }
}

/// A thread of a schedule: it returns the blocks it holds at the end.
pub type Part = fn(&Machine) -> Vec<Block>;

/// Runs each part in its own thread and returns all that they hold.
pub fn all(m: &Arc<Machine>, parts: &[Part]) -> Vec<Block> {
    let spawn = |part: &Part| {
        let (m, part) = (m.clone(), *part);
        thread::spawn(move || part(&m))
    };
    let threads: Vec<_> = parts.iter().map(spawn).collect();
    threads.into_iter().flat_map(|t| t.join().unwrap()).collect()
}
