//! Blocks of orders 9 to 18: claims and frees of runs of pageblocks, which the index finds word by word and, from order
//! 16 on, by words of words.

use crate::common::{BLOCK, Block, Machine, PAGEBLOCK, Part, all, explore_some};
use pageyard::Migratetype::Unmovable;
use pageyard::{Frames, PageAllocator};
use shuttle::rand::Rng;
use shuttle::thread;
use std::sync::Arc;

/// Schedules of each kind: the machines are large, so each takes a tenth of a second.
const SCHEDULES: usize = 25;
/// Pageblocks of a block of order 16.
const RUN: u64 = 128;

/// Checks the books, gives everything back, and takes all of the machine as one block of order `whole`.
fn end(m: &Machine, held: Vec<Block>, whole: u8) {
    let census = m.engine.audit().unwrap();
    let allocated: u64 = held.iter().map(|(_, order)| 1 << order).sum();
    assert_eq!((census.allocated, census.is_conserved()), (Frames(allocated), true));
    held.into_iter().for_each(|block| m.free(0, block));
    let all = m.movable(0, whole);
    assert!(all.is_some(), "all of it is free, and one block");
}

/// Two words of the index as far as order 16 goes, and one block of order 17.
fn machine() -> Arc<Machine> {
    Machine::new(2 * RUN, false)
}

#[test]
fn large_blocks_and_pageblocks_inside_them() {
    explore_some("large blocks", SCHEDULES, || {
        let m = machine();
        let parts: [Part; 4] = [
            |m| m.movable(0, 16).into_iter().collect(),
            |m| {
                if let Some(block) = m.movable(1, 17) {
                    m.free(1, block);
                }
                m.alloc(1, 16, Unmovable).into_iter().collect()
            },
            |m| [m.exact(70 * PAGEBLOCK, BLOCK), m.movable(2, 10)].into_iter().flatten().collect(),
            |m| [m.exact((RUN + 64) * PAGEBLOCK, 15), m.movable(3, 0)].into_iter().flatten().collect(),
        ];
        let held = all(&m, &parts);
        end(&m, held, 17);
    });
}

#[test]
fn frees_that_complete_large_blocks_leave_room_for_them() {
    explore_some("frees that complete large blocks", SCHEDULES, || {
        let m = machine();
        // Of each word of 64 pageblocks a few are in use, of different ones by different threads.
        let mut used: Vec<Vec<Block>> = vec![Vec::new(); 4];
        for word in 0..2 * RUN / 64 {
            for (n, used) in used.iter_mut().enumerate() {
                let at = (word * 64 + 13 * n as u64) * PAGEBLOCK;
                used.push(m.exact(at, BLOCK).unwrap());
            }
        }
        assert_eq!(m.movable(0, 15), None, "no word is whole");
        let threads: Vec<_> = used
            .into_iter()
            .enumerate()
            .map(|(cpu, mine)| {
                let m = m.clone();
                thread::spawn(move || mine.into_iter().for_each(|block| m.free(cpu as u32, block)))
            })
            .collect();
        threads.into_iter().for_each(|t| t.join().unwrap());
        m.engine.audit().unwrap();
        let held = [m.movable(0, 16), m.movable(1, 16)];
        assert!(held.iter().all(Option::is_some), "both blocks of order 16 are whole");
        held.into_iter().flatten().for_each(|block| m.free(0, block));
        assert!(m.movable(0, 17).is_some());
    });
}

/// Claims a pageblock and frees it, a few times.
fn again_and_again(m: &Machine, cpu: u32, pageblock: u64) -> Vec<Block> {
    for _ in 0..4 {
        if let Some(block) = m.exact(pageblock * PAGEBLOCK, BLOCK) {
            m.free(cpu, block);
        }
    }
    Vec::new()
}

#[test]
fn a_pageblock_of_either_word_that_comes_and_goes() {
    explore_some("two words", 2 * SCHEDULES, || {
        let m = Machine::new(RUN, false);
        let parts: [Part; 4] = [
            |m| again_and_again(m, 0, 5),
            |m| again_and_again(m, 1, 5),
            |m| again_and_again(m, 2, 100),
            |m| again_and_again(m, 3, 101),
        ];
        let held = all(&m, &parts);
        end(&m, held, 16);
    });
}

/// Makes calls that the scheduler's randomness chooses.
fn random_calls(m: &Machine, cpu: u32) -> Vec<Block> {
    let mut rng = shuttle::rand::thread_rng();
    let mut held: Vec<Block> = Vec::new();
    for _ in 0..6 {
        match rng.gen_range(0..6) {
            0 | 1 => held.extend(m.movable(cpu, rng.gen_range(9..18))),
            2 => held.extend(m.alloc(cpu, rng.gen_range(14..18), Unmovable)),
            3 => {
                let order = rng.gen_range(9..17);
                held.extend(m.exact(rng.gen_range(0..2 * RUN * PAGEBLOCK) >> order << order, order));
            }
            _ if held.is_empty() => {}
            _ => m.free(cpu, held.swap_remove(rng.gen_range(0..held.len()))),
        }
    }
    held
}

#[test]
fn random_calls_for_large_blocks() {
    explore_some("random calls for large blocks", SCHEDULES, || {
        let m = machine();
        let threads: Vec<_> = (0..3)
            .map(|cpu| {
                let m = m.clone();
                thread::spawn(move || random_calls(&m, cpu))
            })
            .collect();
        let held: Vec<_> = threads.into_iter().flat_map(|t| t.join().unwrap()).collect();
        end(&m, held, 17);
    });
}

#[test]
fn the_largest_block_and_pageblocks_inside_it() {
    explore_some("the largest block", 8, || {
        let m = Machine::new(4 * RUN, false);
        let parts: [Part; 3] = [
            |m| m.movable(0, 18).into_iter().collect(),
            |m| {
                if let Some(block) = m.exact(300 * PAGEBLOCK, BLOCK) {
                    m.free(1, block);
                }
                Vec::new()
            },
            |m| m.movable(2, 16).into_iter().collect(),
        ];
        let held = all(&m, &parts);
        end(&m, held, 18);
    });
}

#[test]
fn a_free_beside_others_in_one_word_is_found_at_once() {
    explore_some("frees beside each other", 4 * SCHEDULES, || {
        let m = Machine::new(70, false);
        let mut held: Vec<Block> = (0..70).map(|b| m.exact(b * PAGEBLOCK, BLOCK).unwrap()).collect();
        let others: Vec<_> = [1, 2]
            .map(|cpu| {
                let (m, block) = (m.clone(), held.swap_remove(65 + cpu as usize));
                thread::spawn(move || m.free(cpu, block))
            })
            .into();
        m.free(0, held.swap_remove(65));
        let got = m.at_once(0, BLOCK);
        assert!(got.is_some(), "what was freed is found, wherever the other frees have got to");
        others.into_iter().for_each(|t| t.join().unwrap());
        held.extend(got);
        end(&m, held, 15);
    });
}
