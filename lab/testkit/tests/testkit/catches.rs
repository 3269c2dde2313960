//! Each allocator with one thing wrong is caught: by random operations, by a hand-written case, or by both.

use crate::first_fit::{BuildFirstFit, Fault};
use pageyard_testkit::shrink::quietly;
use pageyard_testkit::suite::cases;
use pageyard_testkit::{Build, random_suite};

/// Returns the first hand-written case of these names that fails; of all, where no name is given.
fn failing_case(fault: Fault, names: &[&str]) -> Option<&'static str> {
    let build = BuildFirstFit(fault);
    let mut wanted =
        cases::<BuildFirstFit>().into_iter().filter(|(name, _)| names.is_empty() || names.contains(name));
    // Threads that a case starts print their own panics.
    let found = wanted.find_map(|(name, case)| Some((name, quietly(|| case(&build)).err()?)));
    let (name, why) = found?;
    println!("{} is caught by {name}: {why}", build.name());
    Some(name)
}

/// Returns the message of the random run that fails, and how many operations it was shrunk to.
fn random_failure(build: BuildFirstFit) -> (String, usize) {
    let message = quietly(|| random_suite(&build, 1, 300_000)).err();
    let message = message.unwrap_or_else(|| panic!("{}: random operations found nothing", build.name()));
    println!("{message}");
    let ops = message.lines().filter(|l| l.trim_start().starts_with("Op::")).count();
    (message, ops)
}

/// Demands that both halves of the suite catch the fault, random operations in a list of at most `most_ops`.
fn both_catch(fault: Fault, most_ops: usize) {
    let build = BuildFirstFit(fault);
    let (message, ops) = random_failure(build);
    assert!((1..=most_ops).contains(&ops), "{ops} operations:\n{message}");
    assert!(message.contains("replay(&BuildFirstFit(Fault::"), "{message}");
    assert!(failing_case(fault, &[]).is_some(), "no hand-written case caught {fault:?}");
}

/// Demands that this hand-written case catches the fault.
fn case_catches(fault: Fault, case: &str) {
    assert!(failing_case(fault, &[case]).is_some(), "{case} did not catch {fault:?}");
}

#[test]
fn a_block_handed_out_twice() {
    both_catch(Fault::HandsOutTwice, 600);
    case_catches(Fault::HandsOutTwice, "no_block_has_two_owners");
}

#[test]
fn a_frame_lost_on_free() {
    both_catch(Fault::LosesFrameOnFree, 3);
}

#[test]
fn a_merge_with_a_held_buddy() {
    both_catch(Fault::MergesWithHeldBuddy, 4);
}

#[test]
fn a_misaligned_block() {
    both_catch(Fault::Misaligned, 2);
}

#[test]
fn a_double_free_accepted() {
    both_catch(Fault::AcceptsDoubleFree, 2);
}

#[test]
fn orders_7_and_8_undone_and_granted() {
    both_catch(Fault::UndoneButGranted, 3);
    case_catches(Fault::UndoneButGranted, "huge_and_small_blocks_together");
}

#[test]
fn a_part_lost_on_split() {
    both_catch(Fault::LeaksOnSplit, 3);
}

#[test]
fn a_wrong_reason() {
    both_catch(Fault::WrongReason, 100);
}

#[test]
fn zones_and_nodes_ignored() {
    both_catch(Fault::IgnoresZones, 2);
    case_catches(Fault::IgnoresZones, "node_masks_are_respected");
    case_catches(Fault::IgnoresZones, "the_highest_zone_is_respected");
}

#[test]
fn a_part_freed_without_a_split() {
    both_catch(Fault::FreesParts, 3);
}

#[test]
fn a_claim_of_held_frames() {
    both_catch(Fault::ClaimsHeldFrames, 4);
}

#[test]
fn a_free_by_nobody_that_counts() {
    both_catch(Fault::FreesForNobody, 3);
}

#[test]
fn a_bulk_allocation_that_stops_short() {
    both_catch(Fault::BulkStopsShort, 2);
}

#[test]
fn frames_lost_on_drain() {
    both_catch(Fault::LosesFramesOnDrain, 4);
}

#[test]
fn a_frame_handed_out_and_kept_in_a_list() {
    both_catch(Fault::CopiesFromList, 4);
}

#[test]
fn a_reserve_that_is_not_there() {
    both_catch(Fault::InventsReserve, 100);
}

#[test]
fn a_panic() {
    both_catch(Fault::Panics, 100);
}

#[test]
fn a_race_between_frees() {
    case_catches(Fault::RacyFree, "a_double_free_has_one_winner");
}

#[test]
fn a_race_between_allocations() {
    case_catches(Fault::RacyAlloc, "no_block_has_two_owners");
}

#[test]
fn a_race_between_splits() {
    case_catches(Fault::RacySplit, "a_double_split_has_one_winner");
}

#[test]
fn a_race_between_claims() {
    case_catches(Fault::RacyClaim, "a_claim_has_at_most_one_winner");
}
