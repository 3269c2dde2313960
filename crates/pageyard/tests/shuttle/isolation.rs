//! Isolation of a pageblock keeps it out of allocation: frees, refills and spills that began before it change nothing.
//!
//! The property: after `isolate` has returned and a drain of all CPUs after it has been complete, no allocation that
//! begins then gets a frame of the pageblock, until it is restored.

use crate::common::{BLOCK, Block, Machine, PAGEBLOCK, explore_some};
use pageyard::Migratetype::{Movable, Reclaimable, Unmovable};
use pageyard::engine::Internals;
use pageyard::{CpuId, CpuSet, Cx, Migratetype, Order, PageAllocator, PageblockId, Pfn};
use shuttle::rand::Rng;
use shuttle::thread;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

/// Schedules of each kind: each ends with many allocations.
const SCHEDULES: usize = 100;

/// The pageblock that is isolated.
const OUT: PageblockId = PageblockId(0);

/// A machine, and whether the pageblock has been isolated and all lists drained since. The scheduler does not know of
/// that.
struct Case {
    m: Arc<Machine>,
    out: AtomicBool,
}

impl Case {
    fn new(m: Arc<Machine>) -> Arc<Case> {
        Arc::new(Case { m, out: AtomicBool::new(false) })
    }

    fn isolate_and_drain(&self) {
        assert!(self.m.engine.isolate(&Cx::on(CpuId(0)), OUT));
        // A list in use is skipped and reported.
        while !self.m.engine.drain(CpuSet::All).is_complete() {
            thread::yield_now();
        }
        self.out.store(true, SeqCst);
    }

    /// Checks that a block lies elsewhere, if the pageblock was out when the call that got it began.
    fn check(&self, was_out: bool, block: Block, what: &str) {
        let inside = block.0.pageblock() == OUT;
        assert!(!(was_out && inside), "{what} got {block:?} of a pageblock that is isolated");
    }

    fn alloc(&self, cpu: u32, order: u8, ty: Migratetype) -> Option<Block> {
        let was_out = self.out.load(SeqCst);
        let block = self.m.alloc(cpu, order, ty)?;
        self.check(was_out, block, "an allocation");
        Some(block)
    }

    fn bulk(&self, cpu: u32, n: usize, ty: Migratetype) -> Vec<Block> {
        let was_out = self.out.load(SeqCst);
        let blocks = self.m.bulk(cpu, n, ty);
        blocks.iter().for_each(|block| self.check(was_out, *block, "a bulk allocation"));
        blocks
    }

    /// Everything has ended: whatever is in lists comes out now, on every CPU.
    fn end(&self, mut held: Vec<Block>, cpus: u32) {
        for cpu in 0..cpus {
            for (order, times) in [(0, 5), (1, 2), (3, 2), (BLOCK, 1)] {
                held.extend((0..times).filter_map(|_| self.alloc(cpu, order, Movable)));
            }
            held.extend(self.bulk(cpu, 8, Movable));
        }
        assert!(self.m.engine.restore(&Cx::on(CpuId(0)), OUT));
        self.m.end(held);
    }
}

/// A thread of a case: it returns the blocks it holds at the end.
type Part = Box<dyn FnOnce(&Case) -> Vec<Block> + Send>;

/// Runs parts of a case in threads, and isolation in another; returns what the parts hold.
fn beside_isolation(case: &Arc<Case>, parts: Vec<Part>) -> Vec<Block> {
    let isolating = {
        let case = case.clone();
        thread::spawn(move || case.isolate_and_drain())
    };
    let threads: Vec<_> = parts
        .into_iter()
        .map(|part| {
            let case = case.clone();
            thread::spawn(move || part(&case))
        })
        .collect();
    let held = threads.into_iter().flat_map(|t| t.join().unwrap()).collect();
    isolating.join().unwrap();
    held
}

#[test]
fn a_free_that_began_before_isolation() {
    for order in [0, 3, BLOCK] {
        explore_some(&format!("a free of order {order} and isolation"), SCHEDULES, move || {
            // More memory where lists of pageblocks are wanted.
            let m = if order == BLOCK { Machine::with_batches(4, 1) } else { Machine::new(2, true) };
            let block = m.exact(0, order).unwrap();
            let case = Case::new(m);
            let held = beside_isolation(
                &case,
                vec![Box::new(move |c| {
                    c.m.free(0, block);
                    Vec::new()
                })],
            );
            case.end(held, 1);
        });
    }
}

#[test]
fn a_bulk_free_that_began_before_isolation() {
    explore_some("a bulk free and isolation", SCHEDULES, || {
        let m = Machine::with_batches(2, 2);
        let frames: Vec<_> = (0..6).map(|n| m.exact(3 * n, 0).unwrap()).collect();
        let case = Case::new(m);
        let held = beside_isolation(
            &case,
            vec![Box::new(move |c| {
                let pfns: Vec<Pfn> = frames.iter().map(|block| block.0).collect();
                frames.iter().for_each(|block| c.m.disown(*block));
                c.m.engine.free_bulk(&Cx::on(CpuId(0)), &pfns, Order::ZERO, &mut |pfn, why| {
                    panic!("{pfn:?}: {why}")
                });
                Vec::new()
            })],
        );
        case.end(held, 2);
    });
}

#[test]
fn a_free_of_zeros_that_began_before_isolation() {
    explore_some("a free of zeros and isolation", SCHEDULES, || {
        let m = Machine::new(2, true);
        let block = m.exact(8, 1).unwrap();
        let case = Case::new(m);
        let held = beside_isolation(
            &case,
            vec![Box::new(move |c| {
                c.m.disown(block);
                c.m.engine.free_zeroed(&Cx::on(CpuId(0)), block.0, Order::of(1)).unwrap();
                Vec::new()
            })],
        );
        case.end(held, 1);
    });
}

#[test]
fn a_refill_that_began_before_isolation() {
    explore_some("a refill and isolation", SCHEDULES, || {
        let m = Machine::with_batches(2, 2);
        // The other pageblock is used, so the refill goes to the one that is to be isolated.
        let held: Vec<_> = [m.exact(PAGEBLOCK, 8)].into_iter().flatten().collect();
        m.exact(0, 8).into_iter().for_each(|block| m.free(0, block));
        let case = Case::new(m);
        let mut held = held;
        held.extend(beside_isolation(
            &case,
            vec![Box::new(|c| c.alloc(0, 0, Movable).into_iter().collect())],
        ));
        case.end(held, 2);
    });
}

#[test]
fn a_spill_that_began_before_isolation() {
    explore_some("a spill and isolation", SCHEDULES, || {
        let m = Machine::new(2, true);
        // The list is full: the next free spills, and then pushes.
        let frames: Vec<_> = (0..8).map(|n| m.exact(5 * n, 0).unwrap()).collect();
        let (last, full) = frames.split_last().unwrap();
        full.iter().for_each(|block| m.free(0, *block));
        let (case, last) = (Case::new(m), *last);
        let held = beside_isolation(
            &case,
            vec![Box::new(move |c| {
                c.m.free(0, last);
                Vec::new()
            })],
        );
        case.end(held, 1);
    });
}

#[test]
fn a_pageblock_whose_type_changes_while_it_is_isolated() {
    explore_some("isolation and a steal", SCHEDULES, || {
        let m = Machine::new(2, true);
        let frames: Vec<_> = (0..3).map(|n| m.exact(7 * n, 0).unwrap()).collect();
        let case = Case::new(m);
        let held = beside_isolation(
            &case,
            vec![
                Box::new(move |c| {
                    frames.into_iter().for_each(|block| c.m.free(0, block));
                    Vec::new()
                }),
                Box::new(|c| {
                    [c.alloc(1, 0, Unmovable), c.alloc(1, 5, Reclaimable)].into_iter().flatten().collect()
                }),
            ],
        );
        case.end(held, 2);
    });
}

#[test]
fn random_calls_beside_isolation() {
    explore_some("random calls and isolation", 4 * SCHEDULES, || {
        let m = Machine::new(2, true);
        let case = Case::new(m.clone());
        let part = |cpu: u32| {
            let mine: Vec<_> =
                (0..2).map(|n| m.exact(u64::from(cpu) * 16 + 8 * n, [0, 2][n as usize]).unwrap()).collect();
            Box::new(move |c: &Case| {
                let mut rng = shuttle::rand::thread_rng();
                let mut held = mine;
                for _ in 0..6 {
                    match rng.gen_range(0..5) {
                        0 => held.extend(c.alloc(cpu, rng.gen_range(0..4), Movable)),
                        1 => held.extend(c.bulk(cpu, 7, Movable)),
                        2 => {
                            c.m.engine.drain(CpuSet::One(CpuId(cpu ^ 1)));
                        }
                        _ if held.is_empty() => {}
                        _ => c.m.free(cpu, held.swap_remove(rng.gen_range(0..held.len()))),
                    }
                }
                held
            }) as Part
        };
        let parts = (0..3).map(part).collect();
        let held = beside_isolation(&case, parts);
        case.end(held, 3);
    });
}
