//! The engine's protocol under a model checker: every interleaving, up to a number of preemptions, of a few calls.
//!
//! Constants shrink there (`engine/geometry.rs`): a word has 2 frames and a pageblock 4 words, so order 1 is a block
//! that fills a word, order 2 takes several words (as 7 and 8 do otherwise), order 3 is a pageblock (9), and order 4
//! is a run of pageblocks (10 and above).

use crate::common::{BLOCK, Machine, explore, run, with};
use pageyard::engine::Internals;
use pageyard::{CpuId, CpuSet, Cx, Frames, Migratetype, Order, PageAllocator, PageblockId, Pfn};

#[test]
fn an_order_0_refill_against_a_pageblock_claim() {
    explore(2, || {
        let m = Machine::new(1, true);
        let t = run(&m, |m| m.movable(1, 0));
        let whole = m.movable(0, BLOCK);
        let one = t.join().unwrap();
        assert!(one.is_some() != whole.is_some(), "one of them gets the pageblock: {one:?} {whole:?}");
        m.end([with(0, one), with(BLOCK, whole)]);
    });
}

#[test]
fn a_pageblock_claim_against_a_free_of_its_last_frame() {
    explore(2, || {
        let m = Machine::new(1, false);
        let one = m.movable(0, 0).unwrap();
        let t = run(&m, move |m| m.free(1, one, 0));
        let whole = m.movable(0, BLOCK);
        t.join().unwrap();
        m.end([with(BLOCK, whole)]);
    });
}

#[test]
fn an_order_0_claim_against_a_free_of_a_pageblock() {
    explore(2, || {
        let m = Machine::new(1, false);
        let whole = m.movable(0, BLOCK).unwrap();
        let t = run(&m, move |m| m.free(1, whole, BLOCK));
        let one = m.movable(0, 0);
        t.join().unwrap();
        m.end([with(0, one)]);
    });
}

#[test]
fn order_0_claims_against_frees_in_the_same_words() {
    explore(2, || {
        let m = Machine::new(1, false);
        let held = [m.movable(0, 0).unwrap(), m.movable(0, 0).unwrap(), m.movable(0, 0).unwrap()];
        let t = run(&m, move |m| {
            m.free(1, held[0], 0);
            m.movable(1, 0)
        });
        let mine = m.movable(0, 0);
        m.free(0, held[2], 0);
        let theirs = t.join().unwrap();
        assert!(mine.is_some() && theirs.is_some(), "there was always room for both");
        m.end([with(0, mine), with(0, theirs), with(0, Some(held[1]))]);
    });
}

#[test]
fn a_claim_against_isolation_of_its_pageblock() {
    explore(2, || {
        let m = Machine::new(1, false);
        let t = run(&m, |m| m.movable(1, 0));
        assert!(m.engine.isolate(&Cx::on(CpuId(0)), PageblockId(0)));
        let one = t.join().unwrap();
        assert!(m.movable(0, 0).is_none(), "nothing comes out of an isolated pageblock");
        let census = m.engine.audit().unwrap();
        assert_eq!(census.free, Frames(0), "isolated frames do not count as free");
        assert!(m.engine.restore(&Cx::on(CpuId(0)), PageblockId(0)));
        m.end([with(0, one)]);
    });
}

#[test]
fn a_pageblock_claim_against_isolation_and_back() {
    explore(2, || {
        let m = Machine::new(1, false);
        let t = run(&m, |m| m.movable(1, BLOCK));
        if m.engine.isolate(&Cx::on(CpuId(0)), PageblockId(0)) {
            assert!(m.engine.restore(&Cx::on(CpuId(0)), PageblockId(0)));
        }
        let whole = t.join().unwrap();
        m.end([with(BLOCK, whole)]);
    });
}

#[test]
fn a_pageblock_claim_against_isolation() {
    explore(2, || {
        let m = Machine::new(1, false);
        let t = run(&m, |m| m.movable(1, BLOCK));
        assert!(m.engine.isolate(&Cx::on(CpuId(0)), PageblockId(0)));
        let whole = t.join().unwrap();
        assert!(m.movable(0, BLOCK).is_none(), "nothing comes out of an isolated pageblock");
        assert!(m.engine.restore(&Cx::on(CpuId(0)), PageblockId(0)));
        m.end([with(BLOCK, whole)]);
    });
}

#[test]
fn a_free_against_isolation_of_its_pageblock() {
    explore(2, || {
        let m = Machine::new(1, true);
        let one = m.movable(0, 0).unwrap();
        let t = run(&m, move |m| m.free(1, one, 0));
        assert!(m.engine.isolate(&Cx::on(CpuId(0)), PageblockId(0)));
        t.join().unwrap();
        assert!(m.engine.audit().unwrap().is_conserved());
        assert!(m.engine.restore(&Cx::on(CpuId(0)), PageblockId(0)));
        m.end([]);
    });
}

#[test]
fn a_refill_against_a_steal_of_its_pageblock() {
    explore(2, || {
        let m = Machine::new(1, true);
        let t = run(&m, |m| m.alloc(1, 0, Migratetype::Unmovable));
        let mine = m.movable(0, 0);
        let theirs = t.join().unwrap();
        assert!(mine.is_some() || theirs.is_some());
        m.end([with(0, mine), with(0, theirs)]);
    });
}

#[test]
fn a_split_against_frees_of_the_block_and_of_its_parts() {
    explore(3, || {
        let m = Machine::new(1, false);
        let whole = m.movable(0, BLOCK).unwrap();
        let t = run(&m, move |m| m.engine.free(&Cx::on(CpuId(1)), whole, Order::of(BLOCK)).is_ok());
        let parts = m.engine.split(&Cx::on(CpuId(0)), whole, Order::of(BLOCK), Order::of(1)).is_ok();
        let freed = t.join().unwrap();
        assert!(parts != freed, "the block is split or freed");
        let held: Vec<_> = (0..if parts { 4 } else { 0 }).map(|n| Some((Pfn(whole.0 + 2 * n), 1))).collect();
        m.end(held);
    });
}

#[test]
fn parts_are_freed_while_a_split_goes_on() {
    explore(2, || {
        let m = Machine::new(1, false);
        let whole = m.movable(0, BLOCK).unwrap();
        let t = run(&m, move |m| {
            let freed = |n: u64| m.engine.free(&Cx::on(CpuId(1)), Pfn(whole.0 + n), Order::ZERO).is_ok();
            [7, 0].map(|n| (n, freed(n)))
        });
        m.engine.split(&Cx::on(CpuId(0)), whole, Order::of(BLOCK), Order::ZERO).unwrap();
        let other = m.movable(0, 0);
        let freed = t.join().unwrap();
        let again = other.map(|p| p.0);
        let held: Vec<_> = (0..8)
            .filter(|n| !freed.contains(&(*n, true)) || again == Some(whole.0 + n))
            .map(|n| Some((Pfn(whole.0 + n), 0)))
            .collect();
        m.end(held);
    });
}

#[test]
fn a_refill_against_a_split_of_the_neighbour() {
    explore(2, || {
        let m = Machine::new(2, true);
        let whole = m.movable(0, BLOCK).unwrap();
        let t = run(&m, |m| m.movable(1, 0));
        m.engine.split(&Cx::on(CpuId(0)), whole, Order::of(BLOCK), Order::of(2)).unwrap();
        m.free(0, whole, 2);
        let one = t.join().unwrap();
        m.end([with(0, one), with(2, Some(Pfn(whole.0 + 4)))]);
    });
}

#[test]
fn blocks_of_several_words_against_each_other() {
    explore(3, || {
        let m = Machine::new(1, false);
        let t = run(&m, |m| m.movable(1, 2));
        let mine = m.movable(0, 2);
        let theirs = t.join().unwrap();
        assert!(mine.is_some() || theirs.is_some(), "there is room for both");
        m.end([with(2, mine), with(2, theirs)]);
    });
}

#[test]
fn a_block_of_several_words_against_a_single_frame() {
    explore(3, || {
        let m = Machine::new(1, false);
        let t = run(&m, |m| m.movable(1, 0));
        let mine = m.movable(0, 2);
        let theirs = t.join().unwrap();
        assert!(theirs.is_some(), "there was always a frame");
        m.end([with(2, mine), with(0, theirs)]);
    });
}

#[test]
fn a_block_of_several_words_against_a_block_of_one() {
    explore(2, || {
        let m = Machine::new(1, false);
        let one = m.movable(0, 1).unwrap();
        let t = run(&m, move |m| {
            m.free(1, one, 1);
            m.movable(1, 1)
        });
        let mine = m.movable(0, 2);
        let theirs = t.join().unwrap();
        m.end([with(2, mine), with(1, theirs)]);
    });
}

#[test]
fn a_block_of_several_words_against_a_free_in_the_middle() {
    explore(2, || {
        let m = Machine::new(1, false);
        // Frames 0 to 3 are one place, 4 to 7 the other: one frame of each is taken.
        m.engine.claim_exact(&Cx::on(CpuId(0)), Pfn(2), Order::ZERO, Migratetype::Movable).unwrap();
        m.engine.claim_exact(&Cx::on(CpuId(0)), Pfn(4), Order::ZERO, Migratetype::Movable).unwrap();
        let t = run(&m, |m| m.free(1, Pfn(2), 0));
        let mine = m.movable(0, 2);
        t.join().unwrap();
        if let Some(pfn) = mine {
            assert_eq!(pfn, Pfn(0));
        }
        m.end([with(2, mine), with(0, Some(Pfn(4)))]);
    });
}

#[test]
fn two_frees_that_complete_a_block_of_several_words() {
    explore(3, || {
        let m = Machine::new(1, false);
        for pfn in [0, 2, 4] {
            m.engine.claim_exact(&Cx::on(CpuId(0)), Pfn(pfn), Order::ZERO, Migratetype::Movable).unwrap();
        }
        let t = run(&m, |m| m.free(1, Pfn(2), 0));
        m.free(0, Pfn(0), 0);
        t.join().unwrap();
        let mine = m.movable(0, 2);
        assert_eq!(mine, Some(Pfn(0)), "one of the two frees saw the other");
        m.end([with(2, mine), with(0, Some(Pfn(4)))]);
    });
}

#[test]
fn two_frees_of_one_frame_have_one_winner() {
    for order in [0, 2, BLOCK, BLOCK + 1] {
        explore(3, move || {
            let m = Machine::new(2, false);
            let block = m.movable(0, order).unwrap();
            let free =
                move |m: &Machine, cpu| m.engine.free(&Cx::on(CpuId(cpu)), block, Order::of(order)).is_ok();
            let t = run(&m, move |m| free(m, 1));
            let mine = free(&m, 0);
            assert!(mine != t.join().unwrap());
            m.end([]);
        });
    }
}

#[test]
fn two_frees_of_one_frame_into_lists_have_one_winner() {
    explore(3, || {
        let m = Machine::new(1, true);
        let block = m.movable(0, 0).unwrap();
        let free = move |m: &Machine, cpu| m.engine.free(&Cx::on(CpuId(cpu)), block, Order::ZERO).is_ok();
        let t = run(&m, move |m| free(m, 1));
        let mine = free(&m, 0);
        assert!(mine != t.join().unwrap());
        m.end([]);
    });
}

#[test]
fn one_list_is_used_by_two_threads() {
    explore(3, || {
        let m = Machine::new(1, true);
        let one = m.movable(0, 0).unwrap();
        let t = run(&m, |m| m.movable(0, 0));
        m.free(0, one, 0);
        let mine = m.movable(0, 0);
        let theirs = t.join().unwrap();
        m.end([with(0, mine), with(0, theirs)]);
    });
}

#[test]
fn a_list_is_drained_while_it_is_used() {
    explore(2, || {
        let m = Machine::new(1, true);
        let one = m.movable(0, 0).unwrap();
        let t = run(&m, |m| m.engine.drain(pageyard::CpuSet::One(CpuId(0))));
        m.free(0, one, 0);
        let mine = m.movable(0, 0);
        t.join().unwrap();
        m.end([with(0, mine)]);
    });
}

#[test]
fn the_index_between_three_threads() {
    explore(2, || {
        let m = Machine::new(2, false);
        let a = m.movable(0, BLOCK).unwrap();
        let b = m.movable(0, BLOCK).unwrap();
        let first = run(&m, move |m| m.free(1, a, BLOCK));
        let second = run(&m, move |m| m.free(2, b, BLOCK));
        let one = m.movable(0, BLOCK);
        first.join().unwrap();
        second.join().unwrap();
        m.end([with(BLOCK, one)]);
    });
}

#[test]
fn the_current_pageblock_changes_under_another_cpu() {
    explore(2, || {
        let m = Machine::new(2, false);
        // What is left of the first pageblock is one frame.
        for pfn in [0, 4] {
            m.engine
                .claim_exact(
                    &Cx::on(CpuId(0)),
                    Pfn(pfn),
                    Order::of(if pfn == 0 { 2 } else { 1 }),
                    Migratetype::Movable,
                )
                .unwrap();
        }
        m.engine.claim_exact(&Cx::on(CpuId(0)), Pfn(6), Order::ZERO, Migratetype::Movable).unwrap();
        let t = run(&m, |m| [m.movable(1, 0), m.movable(1, 0)]);
        let mine = m.movable(0, 0);
        let theirs = t.join().unwrap();
        assert!(mine.is_some() && theirs.iter().all(Option::is_some), "there was room for all");
        let held = [(Pfn(0), 2), (Pfn(4), 1), (Pfn(6), 0)].map(Some);
        m.end(held.into_iter().chain([mine, theirs[0], theirs[1]].map(|p| with(0, p))));
    });
}

#[test]
fn two_pageblocks_at_a_time_against_a_frame_of_one() {
    explore(2, || {
        let m = Machine::new(2, true);
        let t = run(&m, |m| m.movable(1, 0));
        let whole = m.movable(0, BLOCK);
        let one = t.join().unwrap();
        m.end([with(0, one), with(BLOCK, whole)]);
    });
}

#[test]
fn two_pageblocks_at_a_time_against_the_same() {
    explore(2, || {
        let m = Machine::new(2, true);
        let t = run(&m, |m| m.movable(1, BLOCK));
        let whole = m.movable(0, BLOCK);
        let other = t.join().unwrap();
        m.end([with(BLOCK, other), with(BLOCK, whole)]);
    });
}

#[test]
fn two_pageblocks_go_back_together_while_one_is_claimed() {
    explore(2, || {
        let m = Machine::new(3, true);
        let held = m.movable(0, BLOCK).unwrap();
        let t = run(&m, |m| m.engine.drain(CpuSet::One(CpuId(0))));
        let other = m.movable(1, BLOCK);
        t.join().unwrap();
        m.end([with(BLOCK, Some(held)), with(BLOCK, other)]);
    });
}

#[test]
fn a_run_of_pageblocks_against_one_of_them() {
    explore(2, || {
        let m = Machine::new(2, false);
        let t = run(&m, |m| m.movable(1, BLOCK));
        let run = m.movable(0, BLOCK + 1);
        let one = t.join().unwrap();
        assert!(run.is_some() || one.is_some());
        m.end([with(BLOCK + 1, run), with(BLOCK, one)]);
    });
}

#[test]
fn runs_of_pageblocks_against_each_other_and_a_frame() {
    explore(2, || {
        let m = Machine::new(2, false);
        let t = run(&m, |m| m.movable(1, BLOCK + 1));
        let mine = m.movable(0, BLOCK + 1);
        let theirs = t.join().unwrap();
        assert!(mine.is_none() || theirs.is_none());
        m.end([with(BLOCK + 1, mine), with(BLOCK + 1, theirs)]);
    });
    explore(2, || {
        let m = Machine::new(2, false);
        let t = run(&m, |m| m.movable(1, 0));
        let mine = m.movable(0, BLOCK + 1);
        let theirs = t.join().unwrap();
        m.end([with(BLOCK + 1, mine), with(0, theirs)]);
    });
}

#[test]
fn two_frees_that_complete_a_run_of_pageblocks() {
    explore(2, || {
        let m = Machine::new(2, false);
        let a = m.movable(0, BLOCK).unwrap();
        let b = m.movable(0, BLOCK).unwrap();
        let t = run(&m, move |m| m.free(1, a, BLOCK));
        m.free(0, b, BLOCK);
        t.join().unwrap();
        let run = m.movable(0, BLOCK + 1);
        assert!(run.is_some(), "the index knows the run");
        m.end([with(BLOCK + 1, run)]);
    });
}

#[test]
fn an_exact_claim_against_a_claim_that_the_engine_chooses() {
    explore(2, || {
        let m = Machine::new(1, false);
        let t = run(&m, |m| m.movable(1, 1));
        let mine =
            m.engine.claim_exact(&Cx::on(CpuId(0)), Pfn(0), Order::of(2), Migratetype::Movable).is_ok();
        let theirs = t.join().unwrap();
        assert!(theirs.is_some(), "there was always room for it");
        m.end([mine.then_some((Pfn(0), 2)), with(1, theirs)]);
    });
}

/// Takes a frame of a pageblock known to hold zeros while another CPU frees one that was written to.
fn take_beside_a_used_frame(take: fn(&Machine, Pfn) -> Option<Pfn>) {
    explore(2, move || {
        let m = Machine::new(1, false);
        let whole = m.movable(0, BLOCK).unwrap();
        m.engine.free_zeroed(&Cx::on(CpuId(0)), whole, Order::of(BLOCK)).unwrap();
        let used = m.movable(0, 0).unwrap();
        let t = run(&m, move |m| m.free(1, used, 0));
        let mine = take(&m, used);
        t.join().unwrap();
        assert!(mine != Some(used) || !m.engine.was_zeroed(used), "that frame was written to");
        m.end([with(0, mine)]);
    });
}

#[test]
fn what_is_known_of_contents_is_not_believed_of_a_frame_that_was_used() {
    take_beside_a_used_frame(|m, _| Some(m.movable(0, 0).unwrap()));
}

#[test]
fn a_claim_by_number_does_not_believe_it_either() {
    take_beside_a_used_frame(|m, used| {
        let claimed = m.engine.claim_exact(&Cx::on(CpuId(0)), used, Order::ZERO, Migratetype::Movable);
        claimed.ok().map(|_| used)
    });
}

#[test]
fn one_frame_of_zeros_does_not_speak_for_its_neighbour() {
    explore(3, || {
        let m = Machine::new(1, false);
        // Frames 1, 4 and 5 are free, and 0 is about to be: a claim of two that meant 4 and 5 may find 0 and 1.
        for pfn in [0, 2, 3, 6, 7] {
            m.engine.claim_exact(&Cx::on(CpuId(0)), Pfn(pfn), Order::ZERO, Migratetype::Movable).unwrap();
        }
        let t = run(&m, |m| m.engine.free_zeroed(&Cx::on(CpuId(1)), Pfn(0), Order::ZERO).unwrap());
        let mine = m.movable(0, 1).unwrap();
        t.join().unwrap();
        assert!(!m.engine.was_zeroed(mine), "nothing is known of the other frame");
        let others = [2, 3, 6, 7].map(|pfn| Some((Pfn(pfn), 0)));
        m.end(others.into_iter().chain([with(1, Some(mine))]));
    });
}

#[test]
fn three_sizes_in_one_pageblock() {
    explore(1, || {
        let m = Machine::new(1, false);
        for pfn in [1, 6] {
            m.engine.claim_exact(&Cx::on(CpuId(0)), Pfn(pfn), Order::ZERO, Migratetype::Movable).unwrap();
        }
        let first = run(&m, |m| m.movable(1, 1));
        let second = run(&m, |m| m.free(2, Pfn(1), 0));
        let mine = m.movable(0, 2);
        let pair = first.join().unwrap();
        second.join().unwrap();
        m.end([with(2, mine), with(1, pair), with(0, Some(Pfn(6)))]);
    });
}

#[test]
fn frees_of_two_words_against_a_claim_of_both() {
    explore(2, || {
        let m = Machine::new(1, false);
        for pfn in [0, 2] {
            m.engine.claim_exact(&Cx::on(CpuId(0)), Pfn(pfn), Order::of(1), Migratetype::Movable).unwrap();
        }
        let t = run(&m, |m| {
            m.free(1, Pfn(2), 1);
            m.free(1, Pfn(0), 1);
        });
        let mine = [m.movable(0, 2), m.movable(0, 2)];
        t.join().unwrap();
        assert!(mine[0].is_some(), "four frames were free from the start");
        m.end(mine.map(|p| with(2, p)));
    });
}

#[test]
fn a_pageblock_claim_against_a_free_that_empties_what_a_cpu_works_on() {
    explore(2, || pageblock_claim_against_a_free(0));
}

// The claim finds the CPU's bit of before, and clears it.
#[test]
fn a_pageblock_claim_against_a_free_that_empties_it_again() {
    explore(2, || pageblock_claim_against_a_free(1));
}

/// Runs them, after CPU 0 has emptied the pageblock some `times`.
fn pageblock_claim_against_a_free(times: usize) {
    let m = Machine::new(1, false);
    let mut one = m.movable(0, 0).unwrap();
    for _ in 0..times {
        m.free(0, one, 0);
        one = m.movable(0, 0).unwrap();
    }
    let t = run(&m, move |m| m.free(0, one, 0));
    let whole = m.at_once(1, BLOCK);
    t.join().unwrap();
    let whole = whole.or_else(|| m.at_once(1, BLOCK));
    assert!(whole.is_some(), "an emptied pageblock is found without a sweep");
    m.end([with(BLOCK, whole)]);
}

#[test]
fn a_run_against_a_free_that_empties_what_a_cpu_works_on() {
    explore(2, || {
        let m = Machine::new(2, false);
        let one = m.movable(0, 0).unwrap();
        let t = run(&m, move |m| m.free(0, one, 0));
        let run = m.at_once(1, BLOCK + 1);
        t.join().unwrap();
        let run = run.or_else(|| m.at_once(1, BLOCK + 1));
        assert!(run.is_some(), "an emptied pageblock is part of a run");
        m.end([with(BLOCK + 1, run)]);
    });
}

#[test]
fn a_claim_from_an_emptied_pageblock_against_one_of_it_as_a_whole() {
    explore(2, || {
        let m = Machine::new(1, false);
        let one = m.movable(0, 0).unwrap();
        m.free(0, one, 0);
        let t = run(&m, |m| m.movable(0, 0));
        let whole = m.at_once(1, BLOCK);
        let one = t.join().unwrap();
        assert!(one.is_some() != whole.is_some(), "one of them gets the pageblock: {one:?} {whole:?}");
        m.end([with(0, one), with(BLOCK, whole)]);
    });
}

#[test]
fn an_emptied_pageblock_that_is_let_go_of_against_its_cpu() {
    explore(2, || {
        let m = Machine::new(2, false);
        let one = m.movable(0, 0).unwrap();
        m.free(0, one, 0);
        let t = run(&m, |m| m.movable(0, 0));
        let run = m.at_once(1, BLOCK + 1);
        let one = t.join().unwrap();
        assert!(one.is_some() || run.is_some());
        m.end([with(0, one), with(BLOCK + 1, run)]);
    });
}
