//! Runs of pageblocks larger than a word of the index under the model checker: what stands for orders 16 to 18.
//!
//! A word of the index has 4 pageblocks here, so a run of 8 is one of two words, as a block of order 16 is.

use crate::common::{BLOCK, Machine, PAGEBLOCK, explore, run, with};
use pageyard::{PageAllocator, Pfn};

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

/// Frees a pageblock, wherever another free of one of the same word has got to, and takes one at once.
fn a_free_beside_another(blocks: u64, preemptions: usize) {
    explore(preemptions, move || {
        let m = Machine::new(blocks, false);
        (0..blocks).for_each(|b| assert!(m.exact(b * PAGEBLOCK, BLOCK).is_some()));
        let last = blocks - 1;
        let other = run(&m, move |m| m.free(1, Pfn(last * PAGEBLOCK), BLOCK));
        m.free(0, Pfn((last - 1) * PAGEBLOCK), BLOCK);
        let got = m.at_once(0, BLOCK);
        assert!(got.is_some(), "what was freed is found, although another free has not ended");
        other.join().unwrap();
        let rest = (0..last - 1).map(|b| with(BLOCK, Some(Pfn(b * PAGEBLOCK))));
        m.end(rest.chain([with(BLOCK, got)]));
    });
}

#[test]
fn a_free_beside_another_in_one_word_is_found_at_once() {
    a_free_beside_another(4, 3);
}

#[test]
fn a_free_beside_another_two_levels_below_the_root_is_found_at_once() {
    a_free_beside_another(8, 3);
}
