//! Per-CPU lists before LLFree, as the engine has them: for orders 0 to 3 and 9, changed by restartable sequences, moved
//! to and from LLFree an eighth at a time. They check nothing: a block that is freed twice is in them twice.

use super::Alone;
use pageyard_arena::rseq::CpuStacks;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Orders that have lists.
const ORDERS: [u32; 5] = [0, 1, 2, 3, 9];
/// The lists of an order, on all CPUs together, hold at most this part of memory: about a zone's low watermark, as in
/// Linux.
const SHARE: u64 = 256;

/// How many blocks a CPU has in a list, on a cache line of its own.
#[repr(align(128))]
#[derive(Default)]
struct Held(AtomicUsize);

/// The lists of an order.
struct List {
    blocks: CpuStacks,
    held: Box<[Held]>,
    most: usize,
}

/// LLFree behind lists.
pub struct Listed {
    alone: Alone,
    lists: [List; ORDERS.len()],
}

impl Listed {
    pub fn new(frames: u64, cpus: u32) -> Option<Listed> {
        let alone = Alone::new(frames, cpus)?;
        let list = |order: u32| {
            let blocks = CpuStacks::new(pageyard_arena::rseq::possible_cpus(), 0).ok()?;
            let most = (frames / SHARE / u64::from(cpus)) as usize >> order;
            let held = (0..cpus).map(|_| Held::default()).collect();
            Some(List { blocks, held, most: most.clamp(8, CpuStacks::PLACES) })
        };
        let lists = ORDERS.map(list);
        if lists.iter().any(Option::is_none) {
            return None;
        }
        Some(Listed { alone, lists: lists.map(|list| list.expect("just seen")) })
    }

    fn list(&self, order: u32) -> Option<&List> {
        match order {
            0..=3 => Some(&self.lists[order as usize]),
            9 => Some(&self.lists[4]),
            _ => None,
        }
    }

    #[inline]
    pub fn take(&self, cpu: u32, order: u32) -> Option<u64> {
        let Some(list) = self.list(order) else { return self.alone.take(cpu, order) };
        // One thread at a time uses a CPU's number, so no other thread writes this.
        let held = &list.held[cpu as usize].0;
        if let Some(block) = list.blocks.pop() {
            held.store(held.load(Relaxed) - 1, Relaxed);
            return Some(block);
        }
        let first = self.alone.take(cpu, order)?;
        let more = (1..list.most / 8).map_while(|_| self.alone.take(cpu, order));
        held.store(more.filter(|block| list.blocks.push(*block)).count(), Relaxed);
        Some(first)
    }

    #[inline]
    pub fn give(&self, cpu: u32, block: u64, order: u32) {
        let Some(list) = self.list(order) else { return self.alone.give(cpu, block, order) };
        let held = &list.held[cpu as usize].0;
        let mut n = held.load(Relaxed);
        if n >= list.most {
            for block in (0..list.most / 8).map_while(|_| list.blocks.pop()) {
                self.alone.give(cpu, block, order);
                n -= 1;
            }
        }
        list.blocks.push(block);
        held.store(n + 1, Relaxed);
    }
}
