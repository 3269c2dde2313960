//! Reservations of several blocks under the model checker: a list's refill, on a stack and on a CPU's scratch memory.

use crate::common::{BLOCK, Machine, PAGEBLOCK, explore, run};
use loom::sync::Arc;
use pageyard::{CpuId, CpuSet, PageAllocator, Pfn};

/// The blocks that a test holds.
type Held = Vec<Option<(Pfn, u8)>>;

/// Lets a CPU's list miss `times` in a row, so that the next refill takes more.
fn warm_up(m: &Machine, cpu: u32, times: usize) {
    for _ in 0..times {
        let pfn = m.movable(cpu, 0).unwrap();
        m.free(cpu, pfn, 0);
        m.engine.drain(CpuSet::One(CpuId(cpu)));
    }
}

/// Takes all of the first pageblock but its last `2^order` frames; returns frames of it with nothing next to them, and
/// the rest.
fn all_but_the_last(m: &Machine, order: u8) -> (Vec<(Pfn, u8)>, Held) {
    let frames = (0..PAGEBLOCK - (1 << order)).map(|pfn| m.exact(pfn, 0).unwrap());
    let (apart, rest): (Vec<_>, Vec<_>) = frames.partition(|(pfn, _)| pfn.0 % 2 == 0);
    (apart, rest.into_iter().map(Some).collect())
}

/// Checks that no order that is free is refused, then everything else.
fn end(m: &Arc<Machine>, mut held: Held) {
    loop {
        let free = m.engine.zone_stats(pageyard::ZoneId(0)).unwrap().blocks_by_order();
        let Some(order) = free.iter().rposition(|n| *n > 0).map(|order| order as u8) else { break };
        let pfn = m.movable(0, order);
        assert!(pfn.is_some(), "a block of order {order} is free: {free:?}");
        held.push(pfn.map(|pfn| (pfn, order)));
    }
    m.end(held);
}

#[test]
fn the_last_2_frames_of_a_pageblock_while_others_are_freed() {
    explore(3, || {
        let m = Machine::with_batches(1, 2);
        warm_up(&m, 0, 2);
        let (apart, mut held) = all_but_the_last(&m, 1);
        let claim = run(&m, |m| m.movable(0, 0));
        apart.into_iter().for_each(|(pfn, order)| m.free(1, pfn, order));
        m.engine.drain(CpuSet::One(CpuId(1)));
        held.push(claim.join().unwrap().map(|pfn| (pfn, 0)));
        end(&m, held);
    });
}

#[test]
fn the_last_4_frames_of_a_pageblock_in_scratch_memory_while_others_are_freed() {
    explore(3, || {
        let m = Machine::with_batches(2, 2);
        warm_up(&m, 0, 3);
        let mut held: Held = vec![m.exact(PAGEBLOCK, BLOCK)];
        let (apart, rest) = all_but_the_last(&m, 2);
        held.extend(rest);
        let claim = run(&m, |m| m.movable(0, 0));
        apart.into_iter().for_each(|(pfn, order)| m.free(1, pfn, order));
        m.engine.drain(CpuSet::One(CpuId(1)));
        held.push(claim.join().unwrap().map(|pfn| (pfn, 0)));
        // At once: a request that would be refused drains the lists, and so may hide what is wrong.
        m.engine.audit().unwrap();
        end(&m, held);
    });
}
