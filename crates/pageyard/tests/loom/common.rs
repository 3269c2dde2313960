//! A machine under the model checker: an engine, and the contents of its frames.
//!
//! Each frame has a cell that its owner writes. The checker reports two writes that nothing orders, so a frame that
//! has two owners is found even where the second takes it after the first is done but does not know that.

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;
use pageyard::watermark::WatermarkKnobs;
use pageyard::{
    Config, CpuId, Cx, Frames, MemoryMap, Migratetype, NodeId, Order, OwnedPageyard, PageAllocator, Pageyard,
    Pfn, Region, Request, RequestFlags, TryLock, ZoneKind,
};

pub use pageyard_testkit::interleavings::explore;

pub const PAGEBLOCK: u64 = 8;
pub const BLOCK: u8 = 3;

/// An engine, and the contents of its frames.
pub struct Machine {
    pub engine: OwnedPageyard<TryLock>,
    contents: Vec<UnsafeCell<u64>>,
}

// SAFETY: the cells are what is being checked: the model checker reports every access that is not ordered.
unsafe impl Sync for Machine {}
// SAFETY: as above.
unsafe impl Send for Machine {}

impl Machine {
    pub fn new(pageblocks: u64, pcp: bool) -> Arc<Machine> {
        Self::with(pageblocks, Config { pcp, ..Config::new(3) })
    }

    /// Makes a machine whose lists may hold all of it together: what moves at a time doubles from one frame to half of
    /// what a list holds.
    pub fn with_batches(pageblocks: u64, cpus: u32) -> Arc<Machine> {
        Self::with(pageblocks, Config { percpu_pagelist_high_fraction: 1, ..Config::new(cpus) })
    }

    fn with(pageblocks: u64, config: Config) -> Arc<Machine> {
        let frames = pageblocks * PAGEBLOCK;
        let regions = [Region::managed(Pfn(0), Frames(frames), NodeId(0), ZoneKind::Normal)];
        let map = MemoryMap::new(&regions).unwrap();
        let watermark = WatermarkKnobs {
            min_free_kbytes: Some(0),
            watermark_scale_factor: 0,
            ..WatermarkKnobs::default()
        };
        let config = Config { watermark, ..config };
        let engine = Pageyard::owned(&map, config, TryLock).unwrap();
        Arc::new(Machine { engine, contents: (0..frames).map(|_| UnsafeCell::new(0)).collect() })
    }

    /// Writes to every frame of a block, as its owner does.
    fn write(&self, pfn: Pfn, order: u8) {
        for cell in &self.contents[pfn.0 as usize..pfn.0 as usize + (1 << order)] {
            // SAFETY: the block is this thread's, or the checker says so.
            cell.with_mut(|contents| unsafe { *contents += 1 });
        }
    }

    pub fn alloc(&self, cpu: u32, order: u8, ty: Migratetype) -> Option<Pfn> {
        let request = Request::new(Order::of(order), ty).with(RequestFlags::MEMALLOC);
        let pfn = self.engine.alloc(&Cx::on(CpuId(cpu)), &request).ok()?;
        self.write(pfn, order);
        Some(pfn)
    }

    pub fn movable(&self, cpu: u32, order: u8) -> Option<Pfn> {
        self.alloc(cpu, order, Migratetype::Movable)
    }

    /// Takes what a request gets that may not wait, so that nothing is swept for it.
    pub fn at_once(&self, cpu: u32, order: u8) -> Option<Pfn> {
        let flags = RequestFlags::MEMALLOC | RequestFlags::NON_BLOCKING;
        let request = Request::new(Order::of(order), Migratetype::Movable).with(flags);
        let pfn = self.engine.alloc(&Cx::on(CpuId(cpu)), &request).ok()?;
        self.write(pfn, order);
        Some(pfn)
    }

    pub fn free(&self, cpu: u32, pfn: Pfn, order: u8) {
        self.write(pfn, order);
        self.engine.free(&Cx::on(CpuId(cpu)), pfn, Order::of(order)).unwrap();
    }

    /// Claims a block at a place.
    pub fn exact(&self, pfn: u64, order: u8) -> Option<(Pfn, u8)> {
        self.engine.claim_exact(&Cx::on(CpuId(0)), Pfn(pfn), Order::of(order), Migratetype::Movable).ok()?;
        self.write(Pfn(pfn), order);
        Some((Pfn(pfn), order))
    }

    /// Checks the books, gives everything back, and checks that it all merges again.
    pub fn end(&self, held: impl IntoIterator<Item = Option<(Pfn, u8)>>) {
        let mut allocated = 0;
        let held: Vec<_> = held.into_iter().flatten().collect();
        for (_, order) in &held {
            allocated += 1 << order;
        }
        let census = self.engine.audit().unwrap();
        assert_eq!(census.allocated, Frames(allocated));
        assert!(census.is_conserved());
        for (pfn, order) in held {
            self.free(0, pfn, order);
        }
        self.engine.drain(pageyard::CpuSet::All);
        let census = self.engine.audit().unwrap();
        assert_eq!(census.free, census.managed, "nothing is lost: {census:?}");
        let pageblocks = self.contents.len() as u64 / PAGEBLOCK;
        for n in 0..pageblocks {
            assert!(self.movable(0, BLOCK).is_some(), "pageblock {n} of {pageblocks} is whole again");
        }
    }
}

/// Runs a function in a thread of the model, on a machine.
pub fn run<T: 'static>(m: &Arc<Machine>, f: impl FnOnce(&Machine) -> T + 'static) -> thread::JoinHandle<T> {
    let m = m.clone();
    thread::spawn(move || f(&m))
}

pub fn with(order: u8, pfn: Option<Pfn>) -> Option<(Pfn, u8)> {
    pfn.map(|p| (p, order))
}
