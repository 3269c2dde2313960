//! Every kind of call, alone and in several threads, with each block's contents written by its owner.
//!
//! Contents are plain memory: handing a frame over without ordering, or twice, is a data race that Miri
//! (`make miri`) and ThreadSanitizer (`make tsan`) report. Without them the test still finds a frame with two owners.

use pageyard::engine::Internals;
use pageyard::watermark::WatermarkKnobs;
use pageyard::{
    CompactorId, Config, CpuId, CpuSet, Cx, Frames, MemoryMap, Migratetype, NodeId, Order, OwnedPageyard,
    PageAllocator, PageblockId, Pageyard, Pfn, Region, Request, RequestFlags, TryLock, ZoneKind,
};
use std::cell::UnsafeCell;

/// Calls that each thread makes. Miri runs a call a thousand times slower.
const CALLS: u32 = if cfg!(miri) { 20 } else { 10_000 };
const THREADS: u32 = if cfg!(miri) { 2 } else { 4 };
const PAGEBLOCKS: u64 = if cfg!(miri) { 2 } else { 4 };

/// A block and its order.
type Block = (Pfn, Order);

/// An engine, and the contents of its frames.
struct Machine {
    engine: OwnedPageyard<TryLock>,
    contents: Vec<UnsafeCell<u64>>,
}

// SAFETY: 1. A frame's contents are touched by its owner only. 2. That this holds is what is tested.
unsafe impl Sync for Machine {}

impl Machine {
    /// Makes a machine whose first pageblock begins in the middle and has a hole.
    fn new(pcp: bool) -> Machine {
        let end = PAGEBLOCKS * 512;
        let region = |from, to| Region::managed(Pfn(from), Frames(to - from), NodeId(0), ZoneKind::Normal);
        let regions = [region(100, 300), region(340, end)];
        let map = MemoryMap::new(&regions).unwrap();
        let watermark = WatermarkKnobs { min_free_kbytes: Some(0), ..WatermarkKnobs::default() };
        let config = Config { watermark, pcp, ..Config::new(THREADS) };
        let engine = Pageyard::owned(&map, config, TryLock).unwrap();
        Machine { engine, contents: (0..end).map(|_| UnsafeCell::new(0)).collect() }
    }

    /// Writes to every frame of a block, as its owner does.
    fn write(&self, (pfn, order): Block, owner: u64) {
        for cell in &self.contents[pfn.0 as usize..(pfn.0 + order.frames().0) as usize] {
            // SAFETY: the block is the caller's, as the engine says.
            unsafe { *cell.get() = owner };
        }
    }

    /// Reads every frame of a block that was written with `owner`.
    fn read(&self, (pfn, order): Block, owner: u64) {
        for cell in &self.contents[pfn.0 as usize..(pfn.0 + order.frames().0) as usize] {
            // SAFETY: the block is the caller's, as the engine says.
            assert_eq!(unsafe { *cell.get() }, owner, "a frame of {pfn:?} has two owners");
        }
    }
}

/// One thread's calls and the blocks it holds.
struct Caller<'a> {
    m: &'a Machine,
    cpu: u32,
    rng: fastrand::Rng,
    held: Vec<Block>,
}

impl Caller<'_> {
    fn owner(&self) -> u64 {
        u64::from(self.cpu) + 1
    }

    fn cx(&self) -> Cx {
        Cx::on(CpuId(self.cpu))
    }

    fn request(&mut self, order: u8) -> Request {
        let ty = Migratetype::REQUESTED[self.rng.usize(..3)];
        Request::new(Order::of(order), ty).with(RequestFlags::MEMALLOC)
    }

    fn keep(&mut self, block: Block) {
        self.m.write(block, self.owner());
        self.held.push(block);
    }

    fn give_up(&mut self) -> Option<Block> {
        let block =
            (!self.held.is_empty()).then(|| self.held.swap_remove(self.rng.usize(..self.held.len())))?;
        self.m.read(block, self.owner());
        Some(block)
    }

    fn alloc(&mut self) {
        let order = [0, 0, 0, 1, 2, 3, 4, 6, 7, 8, 9, 10][self.rng.usize(..12)];
        let request = self.request(order);
        if let Ok(pfn) = self.m.engine.alloc(&self.cx(), &request) {
            self.keep((pfn, Order::of(order)));
        }
    }

    fn bulk(&mut self) {
        let request = self.request(0);
        let mut frames = [Pfn(0); 70];
        let n = self.m.engine.alloc_bulk(&self.cx(), &request, &mut frames);
        for pfn in &frames[..n] {
            self.m.write((*pfn, Order::ZERO), self.owner());
            self.m.read((*pfn, Order::ZERO), self.owner());
        }
        let free = |pfns: &[Pfn]| {
            self.m.engine.free_bulk(&self.cx(), pfns, Order::ZERO, &mut |pfn, why| panic!("{pfn:?}: {why}"));
        };
        let (kept, freed) = frames[..n].split_at(n / 8);
        free(freed);
        self.held.extend(kept.iter().map(|pfn| (*pfn, Order::ZERO)));
    }

    fn free(&mut self) {
        if let Some((pfn, order)) = self.give_up() {
            self.m.engine.free(&self.cx(), pfn, order).expect("what is held can be freed");
        }
    }

    fn free_zeroed(&mut self) {
        if let Some(block) = self.give_up() {
            self.m.write(block, 0);
            self.m.engine.free_zeroed(&self.cx(), block.0, block.1).expect("what is held can be freed");
        }
    }

    fn split(&mut self) {
        let Some((pfn, order)) = self.give_up() else { return };
        let to = Order::of(order.get().saturating_sub(self.rng.u8(1..4)));
        if to < order {
            self.m.engine.split(&Cx::on(CpuId(0)), pfn, order, to).expect("what is held can be split");
        }
        let parts = 0..1u64 << (order.get() - to.get());
        self.held.extend(parts.map(|n| (Pfn(pfn.0 + n * to.frames().0), to)));
    }

    fn claim(&mut self) {
        let (order, pfn) =
            (Order::of([0, 3, 6, 7, 9][self.rng.usize(..5)]), self.rng.u64(..PAGEBLOCKS * 512));
        let pfn = Pfn(pfn & !(order.frames().0 - 1));
        if self.m.engine.claim_exact(&Cx::on(CpuId(0)), pfn, order, Migratetype::Movable).is_ok() {
            self.keep((pfn, order));
        }
    }

    fn isolate(&mut self) {
        let block = PageblockId(self.rng.u64(..PAGEBLOCKS));
        let yard = &self.m.engine;
        if yard.isolate(&Cx::on(CpuId(0)), block) {
            assert!(yard.restore(&Cx::on(CpuId(0)), block), "no other thread restores it");
        }
        if yard.lease_pageblock(block, CompactorId(self.cpu as u16)) {
            assert!(yard.unlease_pageblock(block), "no other thread ends the lease");
        }
    }

    fn calls(mut self) -> Vec<Block> {
        for _ in 0..CALLS {
            match self.rng.u32(..16) {
                0..=5 => self.alloc(),
                6 => self.bulk(),
                7 => self.free_zeroed(),
                8 => self.split(),
                9 => self.claim(),
                10 => self.isolate(),
                11 => drop(self.m.engine.drain(CpuSet::One(CpuId(self.rng.u32(..THREADS))))),
                _ => self.free(),
            }
        }
        for block in &self.held {
            self.m.read(*block, self.owner());
        }
        self.held
    }
}

fn calls_of(threads: u32, pcp: bool, seed: u64) {
    let m = &Machine::new(pcp);
    let caller = |cpu: u32| {
        let rng = fastrand::Rng::with_seed(seed + u64::from(cpu));
        Caller { m, cpu, rng, held: Vec::new() }.calls()
    };
    let held: Vec<_> = std::thread::scope(|s| {
        let threads: Vec<_> = (0..threads).map(|cpu| s.spawn(move || caller(cpu))).collect();
        threads.into_iter().flat_map(|t| t.join().unwrap()).collect()
    });
    let census = m.engine.audit().unwrap();
    assert!(census.is_conserved());
    assert_eq!(census.allocated, held.iter().map(|(_, order)| order.frames()).sum());
    for (pfn, order) in held {
        m.engine.free(&Cx::on(CpuId(0)), pfn, order).expect("what is held can be freed");
    }
    m.engine.drain(CpuSet::All);
    let census = m.engine.audit().unwrap();
    assert_eq!(census.free, census.managed, "nothing is lost: {census:?}");
}

#[test]
fn calls_of_one_thread() {
    calls_of(1, true, 1);
    calls_of(1, false, 2);
}

#[test]
fn calls_of_several_threads() {
    calls_of(THREADS, true, 3);
}

#[test]
fn calls_of_several_threads_without_lists() {
    calls_of(THREADS, false, 7);
}

#[test]
fn several_frees_of_one_block_have_one_winner() {
    for pcp in [true, false] {
        let m = &Machine::new(pcp);
        for order in [0, 3, 7, 9, 10].map(Order::of) {
            if order.frames().0 > (PAGEBLOCKS - 1) * 512 {
                continue;
            }
            for lap in 0..CALLS / 20 {
                let request = Request::new(order, Migratetype::Movable).with(RequestFlags::MEMALLOC);
                let pfn = m.engine.alloc(&Cx::on(CpuId(lap % THREADS)), &request).unwrap();
                m.write((pfn, order), 1);
                let free = |cpu| u32::from(m.engine.free(&Cx::on(CpuId(cpu)), pfn, order).is_ok());
                let won: u32 = std::thread::scope(|s| {
                    let threads: Vec<_> = (0..THREADS).map(|cpu| s.spawn(move || free(cpu))).collect();
                    threads.into_iter().map(|t| t.join().unwrap()).sum()
                });
                assert_eq!(won, 1, "lap {lap} at {order:?}");
            }
        }
        m.engine.drain(CpuSet::All);
        let census = m.engine.audit().unwrap();
        assert_eq!(census.free, census.managed, "nothing is lost: {census:?}");
    }
}
