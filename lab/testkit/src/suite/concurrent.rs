//! Threads that allocate and free at the same time, each on its own CPU, every frame stamped by its owner.

use super::stamps::{Stamps, audit_holding};
use super::steps::{of_type, sound};
use crate::check;
use crate::engine::Build;
use crate::maps;
use crate::naive::Naive;
use core::ops::AddAssign;
use fastrand::Rng;
use pageyard::{AllocError, BlockId, CpuId, CpuSet, Cx, Migratetype, Order, PageAllocator, Pfn, Region};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Barrier, Mutex};

/// Threads that allocate, each with its own CPU.
const THREADS: u32 = 4;

/// The load of the threads.
struct Load {
    regions: Vec<Region>,
    /// Orders, each as often as it is listed.
    orders: &'static [u8],
    /// Rounds of each thread.
    rounds: u32,
    /// Frames that one thread holds at most.
    hold: u64,
    /// One in this many blocks goes to another thread; 0 for none.
    hand_over: u32,
    /// One in this many rounds is a bulk call; 0 for none.
    bulk: u32,
    /// Whether another thread keeps draining lists.
    drain: bool,
}

/// The result.
#[derive(Default, Debug)]
struct ThreadResult {
    allocs: u64,
    refused: u64,
    handed: u64,
    bulk: u64,
}

impl AddAssign for ThreadResult {
    fn add_assign(&mut self, other: ThreadResult) {
        self.allocs += other.allocs;
        self.refused += other.refused;
        self.handed += other.handed;
        self.bulk += other.bulk;
    }
}

struct Worker<'a, E> {
    engine: &'a E,
    stamps: &'a Stamps,
    exchange: &'a Mutex<Vec<(BlockId, u32)>>,
    load: &'a Load,
    me: u32,
    cx: Cx,
    rng: Rng,
    held: Vec<BlockId>,
    frames: u64,
    outcome: ThreadResult,
}

impl<E: PageAllocator> Worker<'_, E> {
    fn got(&mut self, pfn: Pfn, order: Order) {
        let block = BlockId { pfn, order };
        self.stamps.own(block, self.me);
        self.held.push(block);
        self.frames += order.frames().0;
        self.outcome.allocs += 1;
    }

    fn grow(&mut self) {
        let order = Order::of(self.load.orders[self.rng.usize(0..self.load.orders.len())]);
        let migratetype = Migratetype::REQUESTED[self.rng.usize(0..3)];
        if self.load.bulk > 0 && self.rng.u32(0..self.load.bulk) == 0 {
            let mut out = [Pfn(0); 50];
            let request = of_type(Order::ZERO, migratetype);
            let got = self.engine.alloc_bulk(&self.cx, &request, &mut out);
            out[..got].iter().for_each(|pfn| self.got(*pfn, Order::ZERO));
            self.outcome.bulk += got as u64;
            return;
        }
        match self.engine.alloc(&self.cx, &of_type(order, migratetype)) {
            Ok(pfn) => self.got(pfn, order),
            Err(AllocError::OutOfMemory | AllocError::Fragmented { .. }) => self.outcome.refused += 1,
            Err(why) => panic!("a request that may use every reserve was refused: {why:?}"),
        }
    }

    fn give(&mut self) {
        if self.held.is_empty() {
            return;
        }
        let block = self.held.swap_remove(self.rng.usize(0..self.held.len()));
        self.frames -= block.order.frames().0;
        if self.load.hand_over > 0 && self.rng.u32(0..self.load.hand_over) == 0 {
            self.exchange.lock().expect("no thread panicked").push((block, self.me));
            return;
        }
        self.free(block);
        if self.load.bulk > 0 && self.rng.u32(0..self.load.bulk) == 0 {
            let singles = self.held.extract_if(.., |b| b.order == Order::ZERO).take(40);
            let pfns: Vec<Pfn> = singles.map(|b| b.pfn).collect();
            self.frames -= pfns.len() as u64;
            pfns.iter()
                .for_each(|pfn| self.stamps.disown(BlockId { pfn: *pfn, order: Order::ZERO }, self.me));
            self.engine.free_bulk(&self.cx, &pfns, Order::ZERO, &mut |pfn, why| {
                panic!("frame {pfn} is ours: {why}")
            });
        }
    }

    /// Frees a block that this thread owns; sometimes it is split first and its parts are freed separately.
    fn free(&mut self, block: BlockId) {
        self.stamps.disown(block, self.me);
        let freed = if block.order > Order::ZERO && self.rng.u8(0..8) == 0 {
            let part = Order::of(self.rng.u8(0..block.order.get()));
            let parts = 0..1_u64 << (block.order.get() - part.get());
            self.engine.split(&Cx::on(CpuId(0)), block.pfn, block.order, part).and_then(|()| {
                parts
                    .map(|n| Pfn(block.pfn.0 + (n << part.get())))
                    .try_for_each(|p| self.engine.free(&self.cx, p, part))
            })
        } else {
            self.engine.free(&self.cx, block.pfn, block.order)
        };
        freed.unwrap_or_else(|e| panic!("{block:?} is ours: {e}"));
    }

    fn run(mut self, start: &Barrier) -> ThreadResult {
        start.wait();
        for round in 0..self.load.rounds {
            let full = self.frames > self.load.hold;
            if self.rng.u8(0..100) < if full { 20 } else { 55 } {
                self.grow()
            } else {
                self.give()
            }
            // More often than blocks are put there, so that they do not pile up.
            if round % 4 == 0 && self.load.hand_over > 0 {
                let mut exchange = self.exchange.lock().expect("no thread panicked");
                // It leaves its own blocks to the other threads, unless those seem to have stopped.
                let theirs = exchange.iter().take(9).position(|(_, owner)| *owner != self.me);
                let any = || (exchange.len() > 8).then_some(0);
                let handed = theirs.or_else(any).map(|at| exchange.swap_remove(at));
                drop(exchange);
                if let Some((block, owner)) = handed {
                    self.stamps.hand(block, owner, self.me);
                    self.outcome.handed += u64::from(owner != self.me);
                    self.held.push(block);
                    self.frames += block.order.frames().0;
                }
            }
        }
        while let Some(block) = self.held.pop() {
            self.free(block);
        }
        self.outcome
    }
}

/// Runs a load and checks the engine while some blocks are held, and again when none is.
fn run<B: Build>(build: &B, load: &Load) -> ThreadResult {
    let map = maps::checked(&load.regions);
    let engine = build.build(&map, THREADS).unwrap_or_else(|e| panic!("{e}"));
    let (stamps, exchange) = (Stamps::new(&map), Mutex::new(Vec::new()));
    let (stop, drains) = (AtomicBool::new(false), AtomicU64::new(0));
    let (mut outcome, start) = (ThreadResult::default(), Barrier::new(THREADS as usize));
    std::thread::scope(|scope| {
        let drainer = load.drain.then(|| {
            scope.spawn(|| {
                let mut rng = Rng::with_seed(99);
                while !stop.load(Ordering::Acquire) {
                    let one = CpuSet::One(CpuId(rng.u32(0..THREADS)));
                    engine.drain(if rng.u8(0..4) == 0 { CpuSet::All } else { one });
                    drains.fetch_add(1, Ordering::Relaxed);
                    std::thread::yield_now();
                }
            })
        });
        let workers: Vec<_> = (0..THREADS)
            .map(|n| {
                let worker = Worker {
                    engine: &engine,
                    stamps: &stamps,
                    exchange: &exchange,
                    load,
                    me: n + 1,
                    cx: Cx::on(CpuId(n)),
                    rng: Rng::with_seed(u64::from(n) + 1),
                    held: Vec::new(),
                    frames: 0,
                    outcome: ThreadResult::default(),
                };
                let start = &start;
                scope.spawn(move || worker.run(start))
            })
            .collect();
        let outcomes: Vec<_> = workers.into_iter().map(|w| w.join()).collect();
        stop.store(true, Ordering::Release);
        drainer.into_iter().for_each(|d| d.join().expect("the draining thread is sound"));
        outcomes
            .into_iter()
            .for_each(|o| outcome += o.unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
    });
    let left = exchange.into_inner().expect("no thread panicked");
    audit_holding(&engine, left.iter().map(|(b, _)| b.order.frames().0).sum());
    for (block, owner) in left {
        stamps.disown(block, owner);
        engine.free(&Cx::on(CpuId(0)), block.pfn, block.order).unwrap_or_else(|e| panic!("{block:?}: {e}"));
    }
    sound(check::all_free(&engine, &Naive::new(&map, THREADS, build.largest_order())));
    assert!(outcome.allocs > u64::from(load.rounds), "{outcome:?}");
    assert!(load.hand_over == 0 || outcome.handed > 0, "no block changed hands: {outcome:?}");
    assert!(load.bulk == 0 || outcome.bulk > 0, "nothing was allocated in bulk: {outcome:?}");
    assert!(!load.drain || drains.into_inner() > 0, "nothing was drained");
    outcome
}

fn load(frames: u64) -> Load {
    Load {
        regions: maps::plain(frames).regions,
        orders: &[0, 0, 0, 0, 0, 0, 1, 1, 2, 3, 4, 5, 6, 7, 8, 9],
        rounds: 200_000,
        hold: frames / 8,
        hand_over: 0,
        bulk: 0,
        drain: false,
    }
}

/// All orders at once: no frame has two owners, and all of them come back.
pub fn no_block_has_two_owners<B: Build>(build: &B) {
    run(build, &load(32_768));
}

/// Blocks are allocated by one thread and freed by another, while lists are drained.
pub fn blocks_change_hands<B: Build>(build: &B) {
    run(build, &Load { hand_over: 4, drain: true, ..load(32_768) });
}

/// Whole pageblocks against single frames of the same pageblocks, and the orders in between that take several words.
pub fn huge_and_small_blocks_together<B: Build>(build: &B) {
    run(build, &Load { orders: &[9, 8, 7, 0, 0, 9, 6, 0], drain: true, ..load(8192) });
}

/// Bulk calls, single calls and drains together, over several zones and nodes.
pub fn bulk_calls_while_lists_drain<B: Build>(build: &B) {
    let orders = &[0, 0, 0, 1, 3];
    let regions = maps::numa().regions;
    run(build, &Load { regions, orders, bulk: 20, hand_over: 16, drain: true, hold: 2000, ..load(0) });
}

/// Threads want more than there is: refusals happen all the time, and nothing is lost.
pub fn near_the_wall<B: Build>(build: &B) {
    let outcome = run(build, &Load { hold: 4096, drain: true, hand_over: 32, ..load(4096) });
    assert!(outcome.refused > 1000, "memory was never full: {outcome:?}");
}
