//! The engine's protocol at its real sizes, three to five threads, under schedulers that choose at random.
//!
//! `loom` proves the protocol for two threads, a few frames and a few preemptions. These tests try sizes that loom
//! cannot reach: words of 64 frames, pageblocks of 8 words, many threads, many preemptions. A schedule is a sample, not
//! a proof, and every step is sequentially consistent: loom finds a weak ordering that is wrong, these tests do not.

use crate::common::{BLOCK, Block, CPUS, Machine, PAGEBLOCK, Part, all, explore};
use pageyard::Migratetype::{Movable, Reclaimable, Unmovable};
use pageyard::engine::Internals;
use pageyard::{CpuId, CpuSet, Cx, Order, PageAllocator, PageblockId, Pfn};
use shuttle::rand::Rng;
use shuttle::thread;

/// Takes a pageblock out of allocation and puts it back.
fn isolate_and_restore(m: &Machine, block: PageblockId) {
    if m.engine.isolate(&Cx::on(CpuId(0)), block) {
        assert!(m.engine.restore(&Cx::on(CpuId(0)), block), "no other thread restores it");
    }
}

/// The same of the first pageblock, as a part of a schedule.
fn isolation(m: &Machine) -> Vec<Block> {
    isolate_and_restore(m, PageblockId(0));
    Vec::new()
}

#[test]
fn a_refill_a_pageblock_claim_frees_and_isolation_of_one_pageblock() {
    explore("one pageblock", || {
        let m = Machine::new(1, false);
        let last: [Block; 2] = [m.exact(70, 0).unwrap(), m.exact(511, 0).unwrap()];
        let freeing = {
            let m = m.clone();
            thread::spawn(move || last.iter().for_each(|block| m.free(2, *block)))
        };
        let parts: [Part; 3] = [
            |m| m.bulk(0, 64, Movable),
            |m| [m.movable(1, BLOCK), m.movable(1, BLOCK)].into_iter().flatten().collect(),
            isolation,
        ];
        let held = all(&m, &parts);
        freeing.join().unwrap();
        m.end(held);
    });
}

#[test]
fn refills_frees_and_claims_of_a_pageblock_that_is_whole_again_and_again() {
    explore("whole again", || {
        let m = Machine::new(1, false);
        let small: Part = |m| {
            for block in m.bulk(0, 3, Movable) {
                m.free(0, block);
            }
            Vec::new()
        };
        let large: Part = |m| {
            for _ in 0..3 {
                if let Some(block) = m.movable(1, BLOCK) {
                    m.free(1, block);
                }
            }
            Vec::new()
        };
        all(&m, &[small, small, large, large, isolation]);
        m.end([]);
    });
}

#[test]
fn a_steal_a_split_and_refills_in_one_pageblock() {
    explore("steal and split", || {
        let m = Machine::new(1, false);
        let part = m.movable(0, 6).unwrap();
        let splitting = {
            let m = m.clone();
            thread::spawn(move || {
                let mut parts = m.split(part, 1);
                parts.drain(..3).for_each(|block| m.free(0, block));
                parts
            })
        };
        let parts: [Part; 3] = [
            |m| m.bulk(1, 70, Movable),
            |m| [m.alloc(2, 0, Unmovable), m.alloc(2, 4, Unmovable)].into_iter().flatten().collect(),
            |m| m.alloc(3, 3, Reclaimable).into_iter().collect(),
        ];
        let held: Vec<_> = all(&m, &parts).into_iter().chain(splitting.join().unwrap()).collect();
        m.end(held);
    });
}

#[test]
fn a_pageblock_that_is_split_steals_and_isolation() {
    explore("split of a pageblock", || {
        let m = Machine::new(1, false);
        let whole = m.movable(0, BLOCK).unwrap();
        let splitting = {
            let m = m.clone();
            thread::spawn(move || {
                let mut parts = m.split(whole, 7);
                m.free(0, parts.pop().unwrap());
                m.free(0, parts.remove(0));
                parts
            })
        };
        let parts: [Part; 4] = [
            |m| m.alloc(1, 0, Unmovable).into_iter().collect(),
            |m| m.movable(2, 7).into_iter().collect(),
            |m| m.movable(3, BLOCK).into_iter().collect(),
            isolation,
        ];
        let held: Vec<_> = all(&m, &parts).into_iter().chain(splitting.join().unwrap()).collect();
        m.end(held);
    });
}

#[test]
fn orders_7_and_8_against_all_others() {
    explore("orders 7 and 8", || {
        let m = Machine::new(1, false);
        let middle = m.exact(130, 0).unwrap();
        let freeing = {
            let m = m.clone();
            thread::spawn(move || {
                m.free(0, middle);
                m.movable(0, 6).into_iter().collect::<Vec<_>>()
            })
        };
        let parts: [Part; 4] = [
            |m| [m.movable(1, 7), m.movable(1, 7)].into_iter().flatten().collect(),
            |m| m.movable(2, 8).into_iter().collect(),
            |m| m.bulk(3, 2, Movable),
            |m| {
                if let Some(block) = m.movable(4, 8) {
                    m.free(4, block);
                }
                m.movable(4, BLOCK).into_iter().collect()
            },
        ];
        let held: Vec<_> = all(&m, &parts).into_iter().chain(freeing.join().unwrap()).collect();
        m.end(held);
    });
}

#[test]
fn exact_claims_of_several_words_against_claims_that_the_engine_chooses() {
    explore("exact claims", || {
        let m = Machine::new(1, false);
        let mut held: Vec<_> = (0..4).map(|n| m.exact(n, 0).unwrap()).collect();
        let parts: [Part; 5] = [
            |m| m.exact(0, 8).or_else(|| m.exact(256, 8)).into_iter().collect(),
            |m| m.exact(384, 7).into_iter().collect(),
            |m| m.movable(2, 7).into_iter().collect(),
            |m| [m.movable(3, 6), m.movable(3, 6)].into_iter().flatten().collect(),
            |m| m.bulk(4, 70, Movable),
        ];
        held.extend(all(&m, &parts));
        m.end(held);
    });
}

#[test]
fn frees_of_all_words_leave_room_for_orders_7_and_8() {
    explore("room for 7 and 8", || {
        let m = Machine::new(1, false);
        let words: Vec<_> = (0..8).map(|w| m.exact(64 * w, 6).unwrap()).collect();
        let threads: Vec<_> = (0..4)
            .map(|n| {
                // Each thread frees one word of either half, so that every pair is completed by two threads.
                let (m, mine) = (m.clone(), [words[n], words[7 - n]]);
                thread::spawn(move || {
                    mine.iter().for_each(|block| m.free(n as u32, *block));
                    m.movable(n as u32, 7)
                })
            })
            .collect();
        let mut held: Vec<_> = threads.into_iter().filter_map(|t| t.join().unwrap()).collect();
        // What is left is whole pairs: none of their frees was lost to the hint.
        let left = 4 - held.len();
        held.extend((0..left).map(|n| m.movable(0, 7).unwrap_or_else(|| panic!("pair {n} of {left} fits"))));
        m.end(held);
    });
}

#[test]
fn several_frees_of_one_block_have_one_winner() {
    for (order, pcp) in [(0, false), (0, true), (7, false), (BLOCK, true), (BLOCK + 1, false)] {
        explore(&format!("frees of order {order}"), move || {
            let m = Machine::new(2, pcp);
            let block = m.movable(0, order).unwrap();
            m.disown(block);
            let frees: Vec<_> = (0..3)
                .map(|cpu| {
                    let m = m.clone();
                    thread::spawn(move || m.try_free(cpu, block).is_ok())
                })
                .collect();
            // Others take what becomes free, as blocks of another order, which those frees must not take for theirs.
            let other: Part = |m| [m.movable(3, 4), m.movable(3, 8)].into_iter().flatten().collect();
            let held = all(&m, &[other]);
            let won = frees.into_iter().map(|t| t.join().unwrap()).filter(|won| *won).count();
            assert_eq!(won, 1, "one of three frees of {block:?} wins");
            m.end(held);
        });
    }
}

#[test]
fn a_split_and_frees_of_the_whole_have_one_winner() {
    explore("split or free", || {
        let m = Machine::new(1, false);
        let whole = m.movable(0, 8).unwrap();
        m.disown(whole);
        let frees: Vec<_> = (1..3)
            .map(|cpu| {
                let m = m.clone();
                thread::spawn(move || m.try_free(cpu, whole).is_ok())
            })
            .collect();
        let other: Part = |m| m.movable(3, BLOCK).into_iter().collect();
        let splitting = {
            let m = m.clone();
            thread::spawn(move || {
                m.engine.split(&Cx::on(CpuId(0)), whole.0, Order::of(8), Order::of(3)).is_ok()
            })
        };
        let mut held = all(&m, &[other]);
        let freed = frees.into_iter().map(|t| t.join().unwrap()).filter(|won| *won).count();
        let split = splitting.join().unwrap();
        assert_eq!(freed + usize::from(split), 1, "it is split or freed, once");
        if split {
            held.extend((0..32).map(|n| m.own((Pfn(whole.0.0 + 8 * n), 3))));
        }
        m.end(held);
    });
}

#[test]
fn the_current_pageblock_changes_under_four_cpus() {
    explore("current pageblock", || {
        let m = Machine::new(2, false);
        // What is left of the first pageblock is one word and one frame.
        let mut held = vec![m.exact(0, 8).unwrap(), m.exact(256, 7).unwrap()];
        held.extend([m.exact(384, 5), m.exact(416, 4), m.exact(432, 4)].into_iter().flatten());
        let parts: [Part; 4] = [
            |m| m.bulk(0, 40, Movable),
            |m| m.bulk(1, 40, Movable),
            |m| m.movable(2, 5).into_iter().collect(),
            |m| {
                let blocks = m.bulk(3, 20, Movable);
                blocks.iter().for_each(|block| m.free(3, *block));
                m.alloc(3, 0, Unmovable).into_iter().collect()
            },
        ];
        held.extend(all(&m, &parts));
        assert_eq!(held.len(), 5 + 40 + 40 + 1 + 1, "there was room for all");
        m.end(held);
    });
}

#[test]
fn lists_that_threads_share_and_drain() {
    explore("shared lists", || {
        let m = Machine::new(2, true);
        let work: Part = |m| {
            let mine = [m.movable(0, 0), m.movable(0, 3)];
            mine.into_iter().flatten().for_each(|block| m.free(0, block));
            m.movable(0, 0).into_iter().collect()
        };
        let drain: Part = |m| {
            m.engine.drain(CpuSet::One(CpuId(0)));
            m.movable(1, BLOCK).into_iter().collect()
        };
        let several: Part = |m| {
            let frames: Vec<_> = m.bulk(0, 6, Movable);
            let pfns: Vec<_> = frames.iter().map(|block| block.0).collect();
            frames.iter().for_each(|block| m.disown(*block));
            m.engine
                .free_bulk(&Cx::on(CpuId(0)), &pfns, Order::ZERO, &mut |pfn, why| panic!("{pfn:?}: {why}"));
            Vec::new()
        };
        let held = all(&m, &[work, work, drain, several]);
        m.end(held);
    });
}

#[test]
fn pageblocks_that_move_two_at_a_time() {
    explore("two pageblocks at a time", || {
        let m = Machine::with_large_lists();
        let mut held: Vec<_> = (0..8).map(|n| m.exact(PAGEBLOCK * n, BLOCK).unwrap()).collect();
        let back = held.split_off(5);
        let freeing = {
            let m = m.clone();
            thread::spawn(move || {
                back.into_iter().for_each(|block| m.free(2, block));
                m.engine.drain(CpuSet::One(CpuId(2)));
            })
        };
        let parts: [Part; 4] = [
            |m| [m.movable(0, BLOCK), m.movable(0, BLOCK)].into_iter().flatten().collect(),
            |m| m.movable(1, BLOCK).into_iter().collect(),
            |m| m.bulk(0, 2, Movable),
            |m| m.alloc(1, BLOCK + 1, Unmovable).into_iter().collect(),
        ];
        held.extend(all(&m, &parts));
        freeing.join().unwrap();
        m.end(held);
    });
}

#[test]
fn runs_of_pageblocks_against_their_parts() {
    explore("runs of pageblocks", || {
        let m = Machine::new(4, false);
        let parts: [Part; 5] = [
            |m| m.movable(0, BLOCK + 1).into_iter().collect(),
            |m| m.movable(1, BLOCK + 2).into_iter().collect(),
            |m| m.exact(PAGEBLOCK, BLOCK).into_iter().collect(),
            |m| m.bulk(3, 2, Movable),
            isolation,
        ];
        let held = all(&m, &parts);
        m.end(held);
    });
}

/// Makes calls that the scheduler's randomness chooses, so that a schedule can be run again.
fn random_calls(m: &Machine, cpu: u32) -> Vec<Block> {
    let mut rng = shuttle::rand::thread_rng();
    let mut held: Vec<Block> = Vec::new();
    for _ in 0..8 {
        let ty = [Movable, Movable, Unmovable, Reclaimable][rng.gen_range(0..4)];
        match rng.gen_range(0..10) {
            0..=3 => held.extend(m.alloc(cpu, [0, 0, 1, 3, 5, 6, 7, 8, 9, 10][rng.gen_range(0..10)], ty)),
            4 => held.extend(m.bulk(cpu, rng.gen_range(1..80), ty)),
            5 => held.extend(m.exact(128 * rng.gen_range(0..8), [0, 6, 7][rng.gen_range(0..3)])),
            6 => isolate_and_restore(m, PageblockId(rng.gen_range(0..2))),
            _ if held.is_empty() => {
                m.engine.drain(CpuSet::One(CpuId(cpu ^ 1)));
            }
            7 => {
                let block = held.swap_remove(rng.gen_range(0..held.len()));
                let to = block.1.saturating_sub(rng.gen_range(1..3));
                held.extend(if to < block.1 { m.split(block, to) } else { vec![block] });
            }
            _ => m.free(cpu, held.swap_remove(rng.gen_range(0..held.len()))),
        }
    }
    held
}

#[test]
fn random_calls_of_five_threads() {
    for pcp in [false, true] {
        explore(if pcp { "random calls" } else { "random calls without lists" }, move || {
            let m = Machine::new(2, pcp);
            let threads: Vec<_> = (0..CPUS)
                .map(|cpu| {
                    let m = m.clone();
                    thread::spawn(move || random_calls(&m, cpu))
                })
                .collect();
            let held: Vec<_> = threads.into_iter().flat_map(|t| t.join().unwrap()).collect();
            m.end(held);
        });
    }
}
