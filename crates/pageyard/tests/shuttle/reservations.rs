//! Reservations of several blocks: what a list's refill claims at a time, on a stack and on a CPU's scratch memory.

use crate::common::{BLOCK, Block, Machine, PAGEBLOCK, Part, all, explore, explore_some};
use pageyard::Migratetype::{Movable, Unmovable};
use pageyard::{CpuId, CpuSet, Cx, Order, PageAllocator, Pfn};
use shuttle::rand::Rng;
use shuttle::thread;
use std::sync::Arc;

/// Frees blocks into a CPU's list, and returns the thread that gives them to the zone.
fn drain(m: &Arc<Machine>, cpu: u32, blocks: Vec<Block>) -> thread::JoinHandle<()> {
    blocks.into_iter().for_each(|block| m.free(cpu, block));
    let m = m.clone();
    thread::spawn(move || {
        m.engine.drain(CpuSet::One(CpuId(cpu)));
    })
}

/// Takes all of a pageblock but `2^order` frames at its end; returns what it holds, and 32 frames of the first word
/// with nothing next to them.
fn all_but_the_last(m: &Machine, pageblock: u64, order: u8) -> (Vec<Block>, Vec<Block>) {
    let base = pageblock * PAGEBLOCK;
    let word = m.split(m.exact(base, 6).unwrap(), 0);
    let (scattered, mut held): (Vec<Block>, Vec<Block>) =
        word.into_iter().partition(|(pfn, _)| pfn.0 % 2 == 0);
    let mut at = base + 64;
    let end = base + PAGEBLOCK - (1 << order);
    while at < end {
        let fits = |k: &u8| at.is_multiple_of(1 << k) && at + (1 << k) <= end;
        let k = (0..BLOCK).rev().find(fits).unwrap();
        held.push(m.exact(at, k).unwrap());
        at += 1 << k;
    }
    (held, scattered)
}

/// One CPU claims the last frames of a pageblock, which reserves all of them, while another frees frames apart from
/// each other in it. The claim may take either. `refused` says what is looked at first: what is refused, or what the
/// audit says, because a request that would be refused drains the lists, and so may hide what was wrong.
fn the_last_frames_while_others_are_freed(
    name: &str,
    pageblocks: u64,
    order: u8,
    freed: usize,
    refused: bool,
) {
    explore(name, move || {
        let m = Machine::with_batches(pageblocks, 2);
        let mut held: Vec<_> = (1..pageblocks).map(|n| m.exact(n * PAGEBLOCK, BLOCK).unwrap()).collect();
        let (rest, mut scattered) = all_but_the_last(&m, 0, order);
        held.extend(rest);
        held.extend(scattered.split_off(freed));
        let freeing = drain(&m, 1, scattered);
        held.extend(all(&m, &[|m| m.movable(0, 0).into_iter().collect()]));
        freeing.join().unwrap();
        if !refused {
            m.engine.audit().unwrap();
        }
        held.extend(m.takes_what_is_free());
        m.end(held);
    });
}

#[test]
fn the_last_16_frames_of_a_pageblock_while_others_are_freed() {
    the_last_frames_while_others_are_freed("the last 16", 1, 4, 16, true);
}

#[test]
fn the_last_128_frames_of_a_pageblock_while_others_are_freed() {
    the_last_frames_while_others_are_freed("the last 128", 4, 7, 32, false);
}

#[test]
fn refills_of_several_blocks_and_frees_of_a_pageblock_that_two_cpus_share() {
    explore("refills and frees", || {
        let m = Machine::with_batches(4, 3);
        let mut held: Vec<_> = (1..4).map(|n| m.exact(n * PAGEBLOCK, BLOCK).unwrap()).collect();
        let (rest, scattered) = all_but_the_last(&m, 0, 6);
        held.extend(rest);
        let freeing = drain(&m, 2, scattered);
        let parts: [Part; 3] = [
            |m| [m.movable(0, 0), m.movable(0, 1)].into_iter().flatten().collect(),
            |m| [m.movable(1, 1), m.movable(1, 2)].into_iter().flatten().collect(),
            |m| [m.alloc(1, 0, Unmovable), m.movable(1, 5)].into_iter().flatten().collect(),
        ];
        held.extend(all(&m, &parts));
        freeing.join().unwrap();
        m.engine.audit().unwrap();
        held.extend(m.takes_what_is_free());
        m.end(held);
    });
}

/// One CPU claims half of a pageblock while another claims a single frame, which may come from the middle of the first
/// half: then what was taken of that half is given back, and the second half is taken instead. The other CPU looks for
/// the largest run meanwhile, and may see neither half. `again` says whether the first works on the pageblock already.
fn half_a_pageblock_beside_a_frame(again: bool) {
    // What is looked for takes three changes of threads in their places: about one of 600 random schedules has them.
    explore_some("half a pageblock", 3000, move || {
        let m = Machine::new(1, false);
        if again {
            let frame = m.movable(0, 0).unwrap();
            m.free(0, frame);
        }
        let parts: [Part; 2] =
            [|m| m.movable(0, 8).into_iter().collect(), |m| m.movable(1, 0).into_iter().collect()];
        let mut held = all(&m, &parts);
        held.extend(m.takes_what_is_free());
        m.end(held);
    });
}

#[test]
fn half_a_pageblock_that_is_new_to_its_cpu_beside_a_frame() {
    half_a_pageblock_beside_a_frame(false);
}

#[test]
fn half_a_pageblock_that_its_cpu_emptied_beside_a_frame() {
    half_a_pageblock_beside_a_frame(true);
}

/// Makes calls that the scheduler's randomness chooses, on lists that take many frames at a time.
fn random_calls(m: &Machine, cpu: u32) -> Vec<Block> {
    let mut rng = shuttle::rand::thread_rng();
    let mut held: Vec<Block> = Vec::new();
    for _ in 0..8 {
        match rng.gen_range(0..8) {
            0..=1 => held.extend(m.movable(cpu, rng.gen_range(0..4))),
            2 => held.extend(m.alloc(cpu, [0, 2][rng.gen_range(0..2)], Unmovable)),
            3 => held.extend(m.bulk(cpu, rng.gen_range(1..90), Movable)),
            4 => {
                m.engine.drain(CpuSet::One(CpuId(rng.gen_range(0..3))));
            }
            5 => {
                let some = rng.gen_range(0..=held.len());
                let (single, other): (Vec<Block>, Vec<Block>) =
                    held.drain(some..).partition(|(_, order)| *order == 0);
                held.extend(other);
                single.iter().for_each(|block| m.disown(*block));
                let pfns: Vec<Pfn> = single.iter().map(|(pfn, _)| *pfn).collect();
                m.engine.free_bulk(&Cx::on(CpuId(cpu)), &pfns, Order::ZERO, &mut |pfn, why| {
                    panic!("{pfn:?}: {why}")
                });
            }
            _ if held.is_empty() => {}
            _ => m.free(cpu, held.swap_remove(rng.gen_range(0..held.len()))),
        }
    }
    held
}

#[test]
fn random_calls_of_three_threads_with_large_batches() {
    explore("large batches", || {
        let m = Machine::with_batches(4, 3);
        // Little is free, so that reservations come to the end of pageblocks.
        let mut held: Vec<_> = (2..4).map(|n| m.exact(n * PAGEBLOCK, BLOCK).unwrap()).collect();
        held.extend([m.exact(0, 8), m.exact(256, 7), m.exact(512, 8)].into_iter().flatten());
        let threads: Vec<_> = (0..3)
            .map(|cpu| {
                let m = m.clone();
                thread::spawn(move || random_calls(&m, cpu))
            })
            .collect();
        held.extend(threads.into_iter().flat_map(|t| t.join().unwrap()));
        held.extend(m.takes_what_is_free());
        m.end(held);
    });
}
