//! Memory that several threads add frame by frame to one pageblock, beside others that allocate, and memory that the
//! first to need it accepts: every frame is added once and has one owner.

use crate::common::{BLOCK, Block, Machine, PAGEBLOCK, all, explore};
use pageyard::Migratetype::{Movable, Unmovable};
use pageyard::{CpuId, Cx, Frames, FreeError, Pfn, RangeFault};
use shuttle::thread;
use std::sync::Arc;

/// The pageblock that is a hole at first.
const HOLE: u64 = 1;

/// Adds frames of it, again where another call opens it at that moment.
fn add(m: &Machine, cpu: u32, first: u64, frames: u64) {
    let mut done = 0;
    while done < frames {
        let (at, left) = (Pfn(HOLE * PAGEBLOCK + first + done), Frames(frames - done));
        // SAFETY: frames are numbers here.
        match unsafe { m.engine.add_range(&Cx::on(CpuId(cpu)), at, left) } {
            Ok(()) => return,
            Err(error) => {
                done += error.freed.0;
                assert_eq!(error.why, RangeFault::Free(FreeError::Busy), "{error}");
                thread::yield_now();
            }
        }
    }
}

/// Takes what there is, and gives half of it back.
fn churn(m: &Machine, cpu: u32) -> Vec<Block> {
    let mut held: Vec<Block> = [0, 3, BLOCK, 0].iter().filter_map(|order| m.movable(cpu, *order)).collect();
    held.extend(m.alloc(cpu, 2, Unmovable));
    held.extend(m.bulk(cpu, 40, Movable));
    let back = held.split_off(held.len() / 2);
    back.into_iter().for_each(|block| m.free(cpu, block));
    held
}

/// Threads add these parts, one each.
fn adding(name: &'static str, pcp: bool, parts: &'static [(u64, u64)]) {
    explore(name, move || {
        let m = Machine::with_hole(3, HOLE, pcp);
        let adding = parts.iter().enumerate().map(|(cpu, (first, frames))| {
            let m = m.clone();
            thread::spawn(move || add(&m, cpu as u32, *first, *frames))
        });
        let adding: Vec<_> = adding.collect();
        let held = {
            let m: Arc<Machine> = m.clone();
            thread::spawn(move || churn(&m, 4))
        };
        adding.into_iter().for_each(|t| t.join().unwrap());
        m.end(held.join().unwrap());
    });
}

#[test]
fn two_threads_add_parts_of_one_pageblock() {
    adding("parts of a hole, lists", true, &[(0, 200), (200, 312)]);
    adding("parts of a hole", false, &[(0, 200), (200, 312)]);
}

#[test]
fn three_threads_add_parts_that_share_words() {
    adding("parts of a hole that share words", false, &[(0, 31), (31, 70), (101, 411)]);
}

#[test]
fn one_thread_adds_a_whole_pageblock() {
    adding("a whole hole", true, &[(0, 512)]);
}

#[test]
fn of_threads_that_need_more_one_accepts_it() {
    for pcp in [true, false] {
        explore("a pageblock that is yet to be accepted", move || {
            let m = Machine::with_hole(3, HOLE, pcp);
            let (at, frames) = (Pfn(HOLE * PAGEBLOCK), Frames(PAGEBLOCK));
            // SAFETY: frames are numbers here.
            unsafe { m.engine.add_unaccepted(&Cx::on(CpuId(0)), at, frames) }.unwrap();
            let held =
                all(&m, &[|m| churn(m, 0), |m| churn(m, 1), |m| m.at_once(2, BLOCK).into_iter().collect()]);
            m.end(held);
        });
    }
}
