//! The timed loops, compiled for each allocator.

use super::allocator::Allocator;
use super::clock::now_ns;
use super::load::{Busy, Load, Mix, Taken};
use pageyard::Pfn;

/// A failed allocation; no map reaches this frame.
pub(super) const MISSING: Pfn = Pfn(u64::MAX);

/// Runs a sample on this thread.
pub(super) fn run<A: Allocator>(a: &A, cpu: usize, load: &Load) -> Taken {
    let mut held = vec![MISSING; load.order.len()];
    let mut taken = Taken { marks: Vec::with_capacity(load.rounds / load.chunk + 1), ..Taken::default() };
    taken.marks.push(now_ns());
    for _ in 0..load.rounds / load.chunk {
        taken.missing += if load.bulk {
            rounds::<A, true>(a, cpu, &mut held, load)
        } else {
            rounds::<A, false>(a, cpu, &mut held, load)
        };
        taken.marks.push(now_ns());
    }
    if load.bulk {
        split::<A, true>(a, cpu, &mut held, load, &mut taken);
    } else {
        split::<A, false>(a, cpu, &mut held, load, &mut taken);
    }
    taken
}

/// Takes a block and gives it back, so many times; returns how long that took. Without a place to hold it in between:
/// the loop of `page_bench02`.
#[inline(never)]
pub(super) fn pairs<A: Allocator>(a: &A, cpu: usize, times: u32) -> u64 {
    let start = now_ns();
    for _ in 0..times {
        if let Some(block) = a.take(cpu) {
            a.give(cpu, std::hint::black_box(block));
        }
    }
    now_ns() - start
}

/// Runs a chunk of rounds; returns how many allocations failed. A separate function for each way to call, so that the
/// compiler keeps a loop's values in registers, whatever is measured.
#[inline(never)]
fn rounds<A: Allocator, const BULK: bool>(a: &A, cpu: usize, held: &mut [Pfn], load: &Load) -> u64 {
    let mut missing = 0;
    for _ in 0..load.chunk {
        let failed = fill::<A, BULK>(a, cpu, held, load.call);
        give_all::<A, BULK>(a, cpu, held, load, failed == 0);
        missing += failed;
    }
    missing
}

/// Runs the rounds in which the clock is read between taking and giving back.
#[inline(never)]
fn split<A: Allocator, const BULK: bool>(
    a: &A,
    cpu: usize,
    held: &mut [Pfn],
    load: &Load,
    taken: &mut Taken,
) {
    for _ in 0..load.split {
        let start = now_ns();
        let failed = fill::<A, BULK>(a, cpu, held, load.call);
        let middle = now_ns();
        give_all::<A, BULK>(a, cpu, held, load, failed == 0);
        taken.missing += failed;
        taken.alloc += middle - start;
        taken.free += now_ns() - middle;
    }
}

#[inline(always)]
fn fill<A: Allocator, const BULK: bool>(a: &A, cpu: usize, held: &mut [Pfn], call: usize) -> u64 {
    let mut missing = 0;
    if BULK {
        for group in held.chunks_mut(call) {
            let got = a.take_many(cpu, group);
            group[got..].fill(MISSING);
            missing += (group.len() - got) as u64;
        }
    } else {
        for slot in held.iter_mut() {
            *slot = a.take(cpu).unwrap_or(MISSING);
            missing += u64::from(*slot == MISSING);
        }
    }
    missing
}

#[inline(always)]
fn give_all<A: Allocator, const BULK: bool>(a: &A, cpu: usize, held: &[Pfn], load: &Load, whole: bool) {
    if BULK {
        for group in held.chunks(load.call) {
            let end = || group.iter().position(|block| *block == MISSING);
            let got = if whole { None } else { end() };
            a.give_many(cpu, &group[..got.unwrap_or(group.len())]);
        }
    } else {
        for i in load.order.iter() {
            if let Some(block) = held.get(*i as usize).filter(|block| **block != MISSING) {
                a.give(cpu, *block);
            }
        }
    }
}

/// Makes the calls of a mix on this thread.
#[inline(never)]
pub(super) fn mix<A: Allocator>(a: &A, cpu: usize, mix: &Mix) -> Busy {
    let mut held = vec![MISSING; mix.places];
    let mut busy = Busy { ns: 0, start: now_ns(), end: 0, missing: 0 };
    for _ in 0..mix.repeat {
        let start = now_ns();
        for call in mix.calls.iter() {
            let slot = &mut held[call.place as usize];
            if !call.free {
                *slot = a.take_in(cpu, call.context).unwrap_or(MISSING);
                busy.missing += u64::from(*slot == MISSING);
            } else if *slot != MISSING {
                a.give_in(cpu, call.context, *slot);
                *slot = MISSING;
            }
        }
        busy.ns += now_ns() - start;
        held.iter().filter(|block| **block != MISSING).for_each(|block| a.give(cpu, *block));
        held.fill(MISSING);
    }
    busy.end = now_ns();
    busy
}
