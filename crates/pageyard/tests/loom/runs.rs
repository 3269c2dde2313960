//! Runs of pageblocks larger than a word of the index under the model checker: what stands for orders 16 to 18.
//!
//! A word of the index has 4 pageblocks here, so a run of 8 is one of two words, as a block of order 16 is.

use crate::common::{BLOCK, Machine, PAGEBLOCK, explore, run, with};
use pageyard::PageAllocator;

/// Order of a run of two words of pageblocks, and of one word.
const RUN: u8 = BLOCK + 3;
const WORD: u8 = BLOCK + 2;
const BLOCKS: u64 = 8;

#[test]
fn two_frees_that_complete_a_run_of_two_words() {
    explore(4, || {
        let m = Machine::new(BLOCKS, false);
        // One pageblock of either word is in use.
        let (a, b) = (m.exact(PAGEBLOCK, BLOCK).unwrap().0, m.exact(6 * PAGEBLOCK, BLOCK).unwrap().0);
        let free = run(&m, move |m| m.free(1, a, BLOCK));
        m.free(0, b, BLOCK);
        free.join().unwrap();
        m.engine.audit().unwrap();
        let all = m.movable(0, RUN);
        assert!(all.is_some(), "all of it is free");
        m.end([with(RUN, all)]);
    });
}

#[test]
fn two_frees_in_one_word_that_complete_a_run_of_two() {
    explore(4, || {
        let m = Machine::new(BLOCKS, false);
        let (a, b) = (m.exact(4 * PAGEBLOCK, BLOCK).unwrap().0, m.exact(7 * PAGEBLOCK, BLOCK).unwrap().0);
        let free = run(&m, move |m| m.free(1, a, BLOCK));
        m.free(0, b, BLOCK);
        free.join().unwrap();
        m.engine.audit().unwrap();
        let all = m.movable(0, RUN);
        assert!(all.is_some(), "all of it is free");
        m.end([with(RUN, all)]);
    });
}

#[test]
fn a_free_that_completes_a_run_of_two_words_against_a_claim_in_the_other() {
    explore(4, || {
        let m = Machine::new(BLOCKS, false);
        let a = m.exact(2 * PAGEBLOCK, BLOCK).unwrap().0;
        let free = run(&m, move |m| m.free(1, a, BLOCK));
        let claimed = m.exact(5 * PAGEBLOCK, BLOCK).map(|(pfn, _)| pfn);
        free.join().unwrap();
        m.end([with(BLOCK, claimed)]);
    });
}

#[test]
fn a_claim_and_a_free_of_one_pageblock_of_a_run_of_two_words() {
    explore(3, || {
        let m = Machine::new(BLOCKS, false);
        let back = run(&m, |m| {
            if let Some((pfn, order)) = m.exact(3 * PAGEBLOCK, BLOCK) {
                m.free(1, pfn, order);
            }
        });
        if let Some((pfn, order)) = m.exact(3 * PAGEBLOCK, BLOCK) {
            m.free(0, pfn, order);
        }
        back.join().unwrap();
        m.engine.audit().unwrap();
        let all = m.movable(0, RUN);
        assert!(all.is_some(), "all of it is free");
        m.end([with(RUN, all)]);
    });
}

#[test]
fn a_run_of_two_words_against_one_of_its_pageblocks() {
    explore(2, || {
        let m = Machine::new(BLOCKS, false);
        let one = run(&m, |m| m.exact(6 * PAGEBLOCK, BLOCK).map(|(pfn, _)| pfn));
        let all = m.movable(0, RUN);
        let one = one.join().unwrap();
        assert!(all.is_none() || one.is_none());
        m.end([with(RUN, all), with(BLOCK, one)]);
    });
}

#[test]
fn a_run_of_two_words_against_a_run_of_one() {
    explore(1, || {
        let m = Machine::new(BLOCKS, false);
        let half = run(&m, |m| m.movable(1, WORD));
        let all = m.movable(0, RUN);
        let half = half.join().unwrap();
        assert!(all.is_none() || half.is_none());
        m.end([with(RUN, all), with(WORD, half)]);
    });
}
