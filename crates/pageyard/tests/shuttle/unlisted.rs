//! Blocks that have no lists: claimed from what a CPU works on, and counted in words of the CPU, which sequences add
//! to.

use crate::common::{Block, Machine, explore};
use crate::sequences::{Sequences, run_on};
use pageyard::{Config, Counter, PageAllocator};
use shuttle::thread;

/// Runs a thread on each of some CPUs, or on none, which allocates and frees blocks of these orders, and keeps those of
/// order 6; then what was counted must be what was done, to the frame.
fn counted(cpus: &'static [Option<u32>], moves: bool, orders: &'static [u8]) {
    explore(&format!("blocks without lists, on {cpus:?}"), move || {
        let config = Config { pcp: false, ..Config::new(2) };
        run_on(Some(0));
        let m = Machine::of(2, config, Sequences::new(2, moves));
        let use_some = |m: &Machine<Sequences>| -> (u64, Vec<Block>) {
            let got: Vec<Block> = orders.iter().filter_map(|order| m.movable(0, *order)).collect();
            let frames = got.iter().map(|block| 1 << block.1).sum();
            let (kept, back): (Vec<_>, Vec<_>) = got.into_iter().partition(|block| block.1 == 6);
            back.into_iter().for_each(|block| m.free(0, block));
            (frames, kept)
        };
        let threads: Vec<_> = cpus
            .iter()
            .map(|cpu| {
                let m = m.clone();
                thread::spawn(move || {
                    run_on(*cpu);
                    use_some(&m)
                })
            })
            .collect();
        let done: Vec<_> = threads.into_iter().map(|t| t.join().unwrap()).collect();
        let allocated: u64 = done.iter().map(|(frames, _)| frames).sum();
        let kept: Vec<Block> = done.into_iter().flat_map(|(_, kept)| kept).collect();
        let stats = m.engine.stats();
        assert_eq!(stats[Counter::Pgalloc], allocated);
        assert_eq!(stats[Counter::Pgfree], allocated - 64 * kept.len() as u64);
        m.end(kept);
    });
}

#[test]
fn threads_of_one_cpu_count_together() {
    counted(&[Some(0), Some(0)], false, &[4, 0, 6]);
}

#[test]
fn threads_of_two_cpus_that_move_and_one_without_sequences_count_together() {
    counted(&[Some(0), Some(0), Some(1), None], true, &[0, 6, 4]);
}

#[test]
fn claims_that_break_each_others_runs_leave_hints_that_are_large_enough() {
    counted(&[Some(0), Some(0), Some(0)], false, &[7, 5, 8, 0]);
}

#[test]
fn a_free_beside_a_claim_that_lowers_the_hint_is_known_to_it() {
    explore("a free of four frames, and a claim of the only larger run", || {
        run_on(Some(0));
        let m = Machine::of(1, Config { pcp: false, ..Config::new(2) }, Sequences::new(2, false));
        let mut words: Vec<Block> = (0..7).map(|_| m.movable(0, 6).unwrap()).collect();
        let mut parts = m.split(words.pop().unwrap(), 2);
        let part = parts.pop().unwrap();
        let claim = {
            let m = m.clone();
            thread::spawn(move || {
                run_on(Some(1));
                m.movable(1, 6)
            })
        };
        m.free(0, part);
        let claimed = claim.join().unwrap();
        assert!(claimed.is_some(), "there is one");
        // What the end of it asks: that hints are large enough.
        m.end(words.into_iter().chain(parts).chain(claimed));
    });
}
