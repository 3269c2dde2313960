//! The protocol of the frame map as rules ([`rules`]): every state that they can reach ([`explore`]), and executions of
//! the engine whose every step is one of theirs ([`recorded`]).
//!
//! `cargo test -p pageyard --features step-hook --test model`, and with `-- --include-ignored` what takes minutes.
#![cfg(not(any(pageyard_loom, pageyard_shuttle)))]

mod choices;
mod explore;
mod recorded;
mod rules;

use choices::Input;
use explore::{Calls, Explored, explore};
use recorded::{STEPS, record};
use rules::Mistakes;

/// Explores, says how much there was, and checks that every kind of step was made that these calls make.
fn whole<const FRAMES: usize>(calls: Calls) {
    let Explored { states, steps, kinds, broken } = explore::<FRAMES>(calls);
    println!("{FRAMES} frames: {states} states, {steps} steps");
    assert_eq!(broken, None);
    let made =
        11 + usize::from(calls.steal) + 2 * usize::from(calls.lists > 0) + 2 * usize::from(calls.isolate);
    assert_eq!(kinds, made);
}

#[test]
fn claims_steals_splits_and_frees_keep_one_owner() {
    whole::<8>(Calls { steal: true, ..Calls::default() });
}

#[test]
fn lists_and_drains_keep_one_owner() {
    whole::<4>(Calls { steal: true, lists: 3, ..Calls::default() });
}

#[test]
fn an_emptied_list_takes_nothing_of_an_isolated_pageblock() {
    whole::<4>(Calls { lists: 1, isolate: true, ..Calls::default() });
}

#[test]
#[ignore = "takes a minute"]
fn three_emptied_lists_take_nothing_of_an_isolated_pageblock() {
    whole::<4>(Calls { lists: 3, isolate: true, ..Calls::default() });
}

#[test]
#[ignore = "takes a minute"]
fn lists_and_drains_of_larger_pageblocks_keep_one_owner() {
    whole::<8>(Calls { lists: 3, ..Calls::default() });
}

/// Explores rules with a mistake; returns what it breaks.
fn planted(calls: Calls) -> String {
    let explored = explore::<4>(calls);
    explored.broken.unwrap_or_else(|| panic!("not found in {} states", explored.states))
}

#[test]
fn frames_that_count_before_they_are_given_are_found() {
    let mistakes = Mistakes { counts_before_giving: true, ..Mistakes::default() };
    planted(Calls { mistakes, ..Calls::default() });
}

#[test]
fn frames_that_are_taken_before_they_are_reserved_are_found() {
    let mistakes = Mistakes { takes_before_reserving: true, ..Mistakes::default() };
    planted(Calls { mistakes, ..Calls::default() });
}

#[test]
fn a_claim_of_a_pageblock_that_is_not_whole_is_found() {
    let mistakes = Mistakes { claims_nearly_whole: true, ..Mistakes::default() };
    planted(Calls { mistakes, ..Calls::default() });
}

#[test]
fn a_claim_that_gives_back_what_it_did_not_take_is_found() {
    let mistakes = Mistakes { gives_back_too_much: true, ..Mistakes::default() };
    planted(Calls { mistakes, ..Calls::default() });
}

#[test]
fn a_whole_pageblock_that_is_released_by_another_thread_is_found() {
    let mistakes = Mistakes { releases_what_is_not_its_own: true, ..Mistakes::default() };
    planted(Calls { mistakes, ..Calls::default() });
}

/// The engine marks first; the other order is what `bench/mutants/run` plants and no test finds.
#[test]
fn a_pageblock_that_is_broken_up_before_its_bits_are_taken_harms_nothing() {
    let mistakes = Mistakes { shatters_before_marking: true, ..Mistakes::default() };
    whole::<8>(Calls { mistakes, ..Calls::default() });
}

#[test]
fn a_push_that_asks_too_early_is_found() {
    let broken = planted(Calls { lists: 1, isolate: true, asks_too_early: true, ..Calls::default() });
    assert!(broken.contains("a list that was emptied"), "{broken}");
}

/// Executions that `PAGEYARD_EXECUTIONS` asks for.
fn executions() -> u64 {
    std::env::var("PAGEYARD_EXECUTIONS").ok().and_then(|n| n.parse().ok()).unwrap_or(40)
}

#[test]
fn each_step_of_the_engine_is_one_of_the_rules() {
    let recorded = record::<true>((0..executions()).map(Input::of_seed));
    println!("{} steps, {} hand-overs: {:?}", recorded.steps, recorded.handed_over, recorded.seen);
    assert_eq!(recorded.failed, None);
    assert_eq!(recorded.seen.len(), STEPS, "of some kind there is no step: {:?}", recorded.seen);
}

#[test]
fn a_list_that_does_not_ask_whether_a_pageblock_is_isolated_is_found() {
    let failed = record::<false>((0..300).map(Input::of_seed)).failed.expect("it is found");
    assert!(failed.contains("was pushed although") || failed.contains("a list that was emptied"), "{failed}");
}

/// As in `fuzz/fuzz_targets/threads.rs`, bytes alone decide.
#[test]
fn an_execution_that_bytes_steer_is_judged_and_comes_again() {
    let mut random = fastrand::Rng::with_seed(1);
    let input = Input { seed: 0, bytes: (0..4096).map(|_| random.u8(..)).collect() };
    let [first, again] = [0, 1].map(|_| record::<true>([input.clone()]));
    assert_eq!((first.failed, first.steps), (None, again.steps));
    assert_eq!((first.handed_over, first.seen), (again.handed_over, again.seen));
    let none = Input { bytes: vec![0; 4096], ..input };
    assert_ne!(record::<true>([none]).steps, first.steps, "bytes decide nothing");
}
