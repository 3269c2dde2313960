//! The scanners on hand-made maps of a few pageblocks: one test for each sentence of document 002's patches.

use crate::scripted_zone::{Event, Frame, ScriptedZone, background, direct, plainest};
use pageyard_core::compaction::{MigrateError, Mode, Outcome};
use pageyard_core::{Cx, Migratetype, PageblockId, Pfn};
use pageyard_linux::compaction::{Compactor, ContendedLock, Deferral, Knobs, Progress, Scope, Skip};

/// Patch 1 and no more.
fn plain() -> Knobs {
    plainest()
}

fn patch2() -> Knobs {
    Knobs { last_migrated_drain: true, ..plain() }
}

fn patch3() -> Knobs {
    Knobs { skip_on_failure: Scope::DirectAsync, ..patch2() }
}

fn patch4() -> Knobs {
    Knobs { direct_free: Scope::DirectAsync, ..patch3() }
}

/// Every other frame is in use, so that no two free frames are neighbours.
fn odd(range: std::ops::Range<u64>) -> impl Iterator<Item = u64> {
    range.filter(|pfn| pfn % 2 == 1)
}

fn compactor<'a>(
    zone: &'a ScriptedZone,
    plan: pageyard_linux::compaction::Plan,
) -> Compactor<'a, ScriptedZone, ScriptedZone> {
    Compactor::new(zone, zone, &Cx::default(), plan).unwrap()
}

// The scanners as they were.

#[test]
fn the_migrate_scanner_goes_up_and_the_free_scanner_down_by_pageblock_until_they_meet() {
    let zone = ScriptedZone::new(3, plain())
        .used(odd(0..512))
        .pinned([0, 100])
        .pinned(512..1024)
        .used(odd(1024..1536));
    let mut c = compactor(&zone, direct(9, Mode::SyncLight));
    assert_eq!(c.run(), Outcome::Complete);
    let visits = zone.visits();
    assert!(visits.is_sorted() && visits[0] == 0);
    assert!(*visits.last().unwrap() < 1024, "it stops at the pageblock where the free scanner stands");
    let scans: Vec<_> = zone.log().into_iter().filter(|e| matches!(e, Event::FreeScan(..))).collect();
    assert!(matches!(scans[0], Event::FreeScan(1024, _)), "the last pageblock comes first: {scans:?}");
    assert!(scans.iter().all(|e| matches!(e, Event::FreeScan(from, _) if *from >= 512)), "{scans:?}");
}

#[test]
fn at_most_32_frames_are_isolated_before_they_are_moved() {
    let zone =
        ScriptedZone::new(3, plain()).used(odd(0..512)).used(odd(1024..1536)).pinned(512..1024).pinned([0]);
    let mut c = compactor(&zone, direct(9, Mode::Sync));
    let mut most = 0;
    while c.step(1) == Progress::Working {
        most = most.max(c.holds().0);
    }
    assert_eq!(most, 32);
    assert!(c.work().moved >= 200, "{:?}", c.work());
}

#[test]
fn a_free_block_is_looked_at_once_and_passed_as_a_whole() {
    let zone = ScriptedZone::new(2, plain()).used(0..8).pinned([16]).used(512..1024).used([8 + 4]);
    let mut c = compactor(&zone, direct(9, Mode::Sync));
    c.run();
    let first: Vec<_> = zone.visits().into_iter().filter(|pfn| (8..32).contains(pfn)).collect();
    assert_eq!(first, [8, 12, 13, 14, 16, 17, 18, 20, 24], "blocks of order 2, 0, 1, 0, 1, 2 and 3");
}

#[test]
fn asynchronous_compaction_empties_movable_pageblocks_only_and_still_calls_that_complete() {
    let map = || ScriptedZone::new(4, plain()).used(odd(0..2048)).typed(0, Migratetype::Unmovable);
    let zone = map();
    assert_eq!(compactor(&zone, direct(9, Mode::Async)).run(), Outcome::Success);
    assert!(zone.visits().iter().all(|pfn| *pfn >= 512));
    let zone = map().pinned([512, 1024, 1536]);
    assert_eq!(compactor(&zone, direct(9, Mode::Async)).run(), Outcome::Complete);
    let zone = map();
    assert_eq!(compactor(&zone, direct(9, Mode::SyncLight)).run(), Outcome::Success);
    assert_eq!(zone.visits()[0], 0);
}

#[test]
fn frames_are_moved_only_into_movable_pageblocks_that_are_not_free_as_a_whole() {
    let zone = ScriptedZone::new(4, plain()).used(odd(0..512)).pinned([511]);
    let zone = zone.used(odd(512..1024)).used(odd(1024..1536)).typed(2, Migratetype::Unmovable);
    // Pageblock 3 is free as a whole: an order-9 block is there, so ask for order 10.
    compactor(&zone, direct(10, Mode::SyncLight)).run();
    let targets: Vec<_> = zone
        .log()
        .into_iter()
        .filter_map(|e| if let Event::Move(_, to) = e { Some(to) } else { None })
        .collect();
    assert!(!targets.is_empty() && targets.iter().all(|to| (512..1024).contains(to)), "{targets:?}");
}

#[test]
fn a_pageblock_without_a_frame_and_one_with_a_skip_hint_are_not_looked_into() {
    let zone =
        ScriptedZone::new(4, plain()).hole(0..512).used(odd(512..1536)).used(odd(1536..2048)).pinned([1024]);
    zone.skips.lock().unwrap().insert(1);
    compactor(&zone, direct(9, Mode::SyncLight)).run();
    assert!(zone.visits().iter().all(|pfn| *pfn >= 1024));
}

#[test]
fn a_pageblock_where_nothing_was_isolated_gets_a_hint_and_later_scans_begin_behind_it() {
    let zone = ScriptedZone::new(4, plain()).pinned(0..512).used(odd(512..2048)).pinned([512, 1024, 1536]);
    let mut c = compactor(&zone, direct(9, Mode::SyncLight));
    while zone.skips.lock().unwrap().is_empty() {
        assert_eq!(c.step(1), Progress::Working);
    }
    c.interrupt();
    assert_eq!(c.run(), Outcome::Contended);
    assert!(zone.skips.lock().unwrap().contains(&0));
    let seen = zone.visits().len();
    compactor(&zone, direct(9, Mode::SyncLight)).run();
    assert!(zone.visits()[seen..].iter().all(|pfn| *pfn >= 512));
}

#[test]
fn when_the_scanners_have_met_the_next_compaction_begins_at_the_ends() {
    let zone = ScriptedZone::new(3, plain()).used(odd(0..1536)).pinned([0, 512, 1024]);
    assert_eq!(compactor(&zone, direct(9, Mode::SyncLight)).run(), Outcome::Complete);
    let seen = zone.log().len();
    compactor(&zone, direct(9, Mode::SyncLight)).run();
    let visit = zone.log()[seen..].iter().find_map(|e| if let Event::Visit(p) = e { Some(*p) } else { None });
    assert_eq!(visit, Some(0));
}

#[test]
fn where_asynchronous_compaction_does_not_reset_the_scanners_one_that_waits_does() {
    let outcomes = |async_resets, modes: [Mode; 3]| {
        let zone = ScriptedZone::new(4, Knobs { async_resets, ..plain() });
        let zone = zone.pinned(0..1024).used(odd(1024..1536)).pinned([1024, 1536]);
        modes.map(|mode| compactor(&zone, direct(9, mode)).run())
    };
    let (begins, goes_on) = (Outcome::Complete, Outcome::PartialSkipped);
    let thrice = [Mode::Async; 3];
    assert_eq!(outcomes(true, thrice), [begins; 3]);
    assert_eq!(outcomes(false, thrice), [begins, goes_on, goes_on]);
    let waiting = [Mode::Async, Mode::SyncLight, Mode::Async];
    assert_eq!(outcomes(false, waiting)[2], begins);
}

#[test]
fn after_the_longest_deferral_hints_are_forgotten() {
    let zone = ScriptedZone::new(3, plain()).used(odd(0..1536)).pinned([0, 512, 1024]);
    zone.skips.lock().unwrap().extend([0, 1, 2]);
    let order = pageyard_core::Order::of(9);
    for _ in 0..7 {
        zone.state.defer(order, Mode::SyncLight, Deferral::Shared);
    }
    while zone.state.is_deferred(order, Mode::SyncLight, Deferral::Shared) {}
    compactor(&zone, direct(9, Mode::SyncLight)).run();
    assert_eq!(zone.visits()[0], 0);
}

// Patch 2: "last_migrated_pfn should track the lowest pfn that was isolated".

#[test]
fn patch_2_does_not_drain_while_the_block_that_was_isolated_from_is_not_left() {
    // Order-4 blocks 0 to 3 hold nothing that can be isolated; block 4 holds 16 frames, block 5 too, block 6 one more:
    // the cluster of 32 ends with block 5, at frame 95.
    let map = |knobs| {
        ScriptedZone::new(3, knobs)
            .pinned(0..64)
            .used(64..112)
            .pinned(112..512)
            .used(odd(1024..1536))
            .pinned(512..1024)
    };
    let drains_at = |zone: &ScriptedZone| {
        let log = zone.log();
        let first = log.iter().position(|e| *e == Event::Drain)?;
        log[..first].iter().rev().find_map(|e| if let Event::Visit(pfn) = e { Some(*pfn) } else { None })
    };
    let before = map(plain());
    compactor(&before, direct(5, Mode::SyncLight)).run();
    assert_eq!(drains_at(&before), Some(95), "the scan began at frame 0, so its block counts as left");
    let after = map(patch2());
    compactor(&after, direct(5, Mode::SyncLight)).run();
    assert_eq!(drains_at(&after), Some(95), "frames 64 to 95 are a block of order 5, and it is left");
    // With order 6 the block is 64 to 127, and it has not been left after the first cluster.
    let before = map(plain());
    compactor(&before, direct(6, Mode::SyncLight)).run();
    assert_eq!(drains_at(&before), Some(95), "a spurious drain");
    let after = map(patch2());
    compactor(&after, direct(6, Mode::SyncLight)).run();
    assert!(drains_at(&after).unwrap() > 111, "{:?}", drains_at(&after));
}

#[test]
fn patch_2_drains_once_for_each_block_that_frames_were_moved_out_of() {
    let zone =
        ScriptedZone::new(3, patch2()).used([0, 1, 32, 33]).pinned((2..16).chain(34..48)).pinned(48..1024);
    let zone = zone.pinned(16..32).used(odd(1024..1536));
    let mut c = compactor(&zone, direct(4, Mode::SyncLight));
    c.run();
    assert_eq!(
        (c.work().drains, zone.isolated()),
        (1, vec![0, 1, 32, 33]),
        "one cluster, so one drain after it"
    );
}

// Patch 3: "skip blocks where isolation fails in async direct compaction".

/// Two pageblocks of which the second is where frames go; the first is what a test fills.
fn blocks() -> ScriptedZone {
    ScriptedZone::new(3, patch3()).pinned(32..1024).used(odd(1024..1536)).pinned([1024])
}

#[test]
fn patch_3_passes_the_rest_of_a_block_over_as_soon_as_a_frame_cannot_be_isolated() {
    let zone = blocks().used(0..5).pinned([5]).used(6..16).used(16..32);
    let mut c = compactor(&zone, direct(4, Mode::Async));
    c.run();
    assert_eq!(zone.visits()[..6], [0, 1, 2, 3, 4, 5]);
    assert_eq!(zone.visits()[6], 16, "frames 6 to 15 are not even looked at");
}

#[test]
fn patch_3_puts_back_what_it_had_isolated_of_the_block_instead_of_moving_it() {
    let zone = blocks().used(0..5).pinned(5..16).used(16..32);
    let mut c = compactor(&zone, direct(4, Mode::Async));
    c.run();
    for pfn in 0..5 {
        assert_eq!(zone.times(Event::Putback(pfn)), 1);
    }
    assert!(!zone.log().iter().any(|e| matches!(e, Event::Move(from, _) if *from < 16)));
    assert_eq!(c.work().abandoned, 5);
}

#[test]
fn patch_3_moves_a_block_as_soon_as_all_of_it_is_isolated() {
    let zone = blocks().used(0..16).used(16..32);
    let mut c = compactor(&zone, direct(4, Mode::Async));
    assert_eq!(c.run(), Outcome::Success);
    assert_eq!(zone.isolated(), (0..16).collect::<Vec<_>>(), "16 frames, not a cluster of 32");
}

#[test]
fn patch_3_a_free_frame_is_not_a_failure() {
    let zone = blocks().used((0..16).filter(|pfn| ![3, 8, 9].contains(pfn))).used(16..32);
    let mut c = compactor(&zone, direct(4, Mode::Async));
    assert_eq!(c.run(), Outcome::Success);
    assert_eq!((zone.isolated().len(), c.work().abandoned), (13, 0));
}

#[test]
fn patch_3_a_hole_a_compound_block_and_a_refused_isolation_are_failures() {
    for zone in [blocks().hole([3]), blocks().compound(4, 1), blocks().pinned([3])] {
        let zone = zone.used([0, 1, 2]).used(16..32);
        let mut c = compactor(&zone, direct(4, Mode::Async));
        assert_eq!(c.run(), Outcome::Success);
        assert_eq!(c.work().abandoned, 3);
        assert!(zone.visits().iter().all(|pfn| *pfn <= 4 || *pfn >= 16), "{:?}", zone.visits());
    }
}

#[test]
fn patch_3_a_compound_block_larger_than_the_wanted_one_leads_past_more_than_one_block() {
    let zone = ScriptedZone::new(3, patch3())
        .compound(0, 6)
        .used(64..80)
        .pinned(80..1024)
        .used(odd(1024..1536))
        .pinned([1024]);
    let mut c = compactor(&zone, direct(4, Mode::Async));
    assert_eq!(c.run(), Outcome::Success);
    assert_eq!(zone.visits()[..3], [0, 64, 65], "the boundary is computed anew, not one block further");
    assert_eq!(zone.isolated(), (64..80).collect::<Vec<_>>());
}

#[test]
fn patch_3_applies_to_direct_asynchronous_compaction_only() {
    for plan in [direct(4, Mode::SyncLight), background(4)] {
        let zone = blocks().used(0..5).pinned([5]).used(6..16).used(16..32);
        let mut c = compactor(&zone, plan);
        c.run();
        assert_eq!(c.work().abandoned, 0);
        assert!(zone.visits().starts_with(&[0, 1, 2, 3, 4, 5, 6, 7]));
    }
}

#[test]
fn patch_3_clears_the_drain_mark_when_it_puts_back() {
    let zone = ScriptedZone::new(3, patch3()).used(0..5).pinned(5..1024).used(odd(1024..1536)).pinned([1024]);
    let mut c = compactor(&zone, direct(4, Mode::Async));
    c.run();
    assert_eq!((c.work().drains, c.work().moved), (0, 0), "draining is useless where nothing was moved");
}

#[test]
fn patch_3_goes_on_at_the_next_block_after_a_failed_migration() {
    let zone = blocks().used(0..32);
    zone.stubborn.lock().unwrap().insert(3, MigrateError::Refused);
    // A block of order 6 is two clusters: the first fails, and the second is not looked for.
    let zone6 =
        ScriptedZone::new(3, patch3()).used(0..128).pinned(128..1024).used(odd(1024..1536)).pinned([1024]);
    zone6.stubborn.lock().unwrap().insert(3, MigrateError::Refused);
    let mut c = compactor(&zone6, direct(6, Mode::Async));
    c.run();
    assert!(!zone6.visits().contains(&40), "the second half of the block of 64 is passed over");
    assert!(zone6.visits().contains(&64));
    let mut c = compactor(&zone, direct(4, Mode::Async));
    c.run();
    assert!(zone.visits().contains(&16));
}

// Patch 4: "direct freepage allocation for async direct compaction".

#[test]
fn patch_4_takes_free_frames_straight_from_the_lists_and_the_free_scanner_does_not_move() {
    let zone = ScriptedZone::new(3, patch4())
        .used(0..16)
        .pinned(16..1024)
        .used(odd(1024..1536))
        .direct((1024..1100).step_by(2));
    let mut c = compactor(&zone, direct(4, Mode::Async));
    assert_eq!(c.run(), Outcome::Success);
    let work = c.work();
    assert_eq!((work.direct_alloc, work.direct_miss, work.free_scanned, work.moved), (16, 0, 0, 16));
    assert_eq!(work.isolated, 16, "what is taken directly is not isolated");
}

#[test]
fn patch_4_counts_what_it_takes_behind_the_migrate_scanner() {
    let zone = ScriptedZone::new(3, patch4()).pinned((0..512).filter(|pfn| pfn % 8 != 4));
    let zone = zone.used(512..528).pinned(528..1024).used(odd(1024..1536));
    let zone = zone.direct((4..44).step_by(8).chain((1024..1100).step_by(2)));
    let mut c = compactor(&zone, direct(4, Mode::Async));
    assert_eq!(c.run(), Outcome::Success);
    assert_eq!((c.work().direct_alloc, c.work().direct_behind, c.work().moved), (16, 5, 16));
}

#[test]
fn frames_are_taken_directly_without_waiting_in_asynchronous_compaction_only() {
    let everywhere = Knobs { direct_free: Scope::Direct, ..patch4() };
    for (mode, outcome) in [(Mode::Async, Outcome::Contended), (Mode::SyncLight, Outcome::Success)] {
        let zone = ScriptedZone::new(3, everywhere).used(0..16).pinned(16..1024).used(odd(1024..1536));
        let zone = zone.direct((1024..1100).step_by(2));
        *zone.in_use.lock().unwrap() = true;
        assert_eq!(compactor(&zone, direct(4, mode)).run(), outcome);
    }
}

#[test]
fn patch_4_frames_of_the_block_that_is_migrated_are_held_and_released_when_it_is_left() {
    let zone = ScriptedZone::new(3, patch4()).used(0..14).pinned(16..1024).used(odd(1024..1536));
    let zone = zone.direct([14, 15].into_iter().chain((1024..1100).step_by(2)));
    let mut c = compactor(&zone, direct(4, Mode::Async));
    let mut held = 0;
    while c.step(1) == Progress::Working {
        held = held.max(c.holds().2);
    }
    assert_eq!(held, 2);
    assert_eq!((c.work().direct_alloc, c.work().direct_miss), (16, 2), "a miss is one of the frames taken");
    let log = zone.log();
    let last_move = log.iter().rposition(|e| matches!(e, Event::Move(..))).unwrap();
    let released = log.iter().position(|e| *e == Event::GiveBack(14)).unwrap();
    assert!(released > last_move, "only after migration, to allow them to merge");
}

#[test]
fn patch_4_releases_held_frames_after_a_failed_migration() {
    let zone = ScriptedZone::new(3, patch4()).used(0..14).pinned(16..1024).used(odd(1024..1536));
    let zone = zone.direct([14, 15].into_iter().chain((1024..1100).step_by(2)));
    zone.stubborn.lock().unwrap().insert(13, MigrateError::Refused);
    let mut c = compactor(&zone, direct(4, Mode::Async));
    c.run();
    assert_eq!((zone.times(Event::GiveBack(14)), zone.times(Event::GiveBack(15))), (1, 1));
    assert_eq!(c.work().drains, 0, "draining is useless in this case");
}

#[test]
fn patch_4_takes_only_while_more_than_low_and_one_frame_are_free() {
    let mut zone = ScriptedZone::new(3, patch4())
        .used(0..64)
        .pinned(64..1024)
        .used(odd(1024..1536))
        .direct((1024..1536).step_by(2));
    // 256 frames are free; a compaction for order 4 needs low + 32.
    zone.low = 256 - 40;
    let mut c = compactor(&zone, direct(4, Mode::Async));
    while c.step(1) == Progress::Working {
        assert!(zone.census().0 as u64 > zone.low, "free > low + 1 before each one");
    }
    let none_left = ScriptedZone { low: 256 - 33, elsewhere: 0, ..ScriptedZone::new(3, patch4()) };
    let none_left =
        none_left.used(0..64).pinned(64..1024).used(odd(1024..1536)).direct((1024..1536).step_by(2));
    let mut c = compactor(&none_left, direct(6, Mode::Async));
    assert_eq!((c.run(), c.work().direct_alloc), (Outcome::Skipped, 0));
}

#[test]
fn patch_4_only_tries_the_lock_of_the_zone() {
    let zone = ScriptedZone::new(3, patch4())
        .used(0..16)
        .pinned(16..1024)
        .used(odd(1024..1536))
        .direct((1024..1100).step_by(2));
    *zone.in_use.lock().unwrap() = true;
    let mut c = compactor(&zone, direct(4, Mode::Async));
    assert_eq!(c.run(), Outcome::Contended);
    assert_eq!((c.work().direct_alloc, c.work().moved), (0, 0));
    assert_eq!(zone.census(), (256, 16 + 256, 1008));
}

#[test]
fn a_held_lock_ends_an_asynchronous_compaction_at_once_or_behind_its_cluster() {
    let waits = Knobs { contended_lock: ContendedLock::Waits, ..plainest() };
    let later = Knobs { contended_lock: ContendedLock::GivesWayLater, ..plainest() };
    // Frames isolated, frames moved, and whether it counts as ended by a lock. With one lock or the other held.
    for (knobs, mode, by_zone, by_lists) in [
        (plainest(), Mode::Async, (32, 0, 1), (0, 0, 1)),
        (later, Mode::Async, (32, 32, 1), (256, 256, 1)),
        (waits, Mode::Async, (256, 256, 0), (256, 256, 0)),
        (plainest(), Mode::SyncLight, (256, 256, 0), (256, 256, 0)),
    ] {
        for (lists, expected) in [(false, by_zone), (true, by_lists)] {
            let zone = ScriptedZone::new(3, knobs).used(0..256).pinned(512..1024).used(odd(1024..1536));
            let held = if lists { &zone.lists_in_use } else { &zone.in_use };
            *held.lock().unwrap() = true;
            let mut c = compactor(&zone, direct(9, mode));
            let outcome = c.run();
            let work = c.work();
            let ends = outcome == Outcome::Contended;
            let isolated = zone.log.lock().unwrap().iter().filter(|e| matches!(e, Event::Isolate(_))).count();
            assert_eq!((isolated, work.moved, work.locked), expected, "{knobs:?}, {mode:?}, {lists}");
            assert_eq!(ends, work.locked > 0, "{outcome:?}");
        }
    }
}

#[test]
fn scanners_that_go_through_the_whole_zone_pass_each_other_and_leave_what_was_filled() {
    // The only block that can be emptied lies at the zone's end, and the only free frames in front of it.
    let zone = |knobs| {
        let zone = ScriptedZone::new(4, knobs).pinned(odd(0..512)).pinned(512..1536);
        zone.used(1536..1552).pinned(1552..2048)
    };
    let halves = zone(plain());
    let mut c = compactor(&halves, direct(4, Mode::SyncLight));
    assert_eq!((c.run(), c.work().moved), (Outcome::Complete, 0));
    let whole = zone(Knobs { whole_zone: true, ..plain() });
    let mut c = compactor(&whole, direct(4, Mode::SyncLight));
    // The check that the migrate scanner is at its end comes before the one for a free block.
    assert_eq!((c.run(), c.work().moved), (Outcome::Complete, 16));
    let frames = whole.frames.lock().unwrap();
    assert!(frames[1536..1552].iter().all(|f| *f == Frame::Free));
    drop(frames);
    // Where there is no free frame, the free scanner looks at each pageblock once, and compaction ends.
    let full = ScriptedZone::new(4, Knobs { whole_zone: true, ..plain() }).used(0..2048);
    let mut c = compactor(&full, direct(4, Mode::SyncLight));
    c.run();
    assert!(c.work().free_scanned <= 3 * 512, "{:?}", c.work());
}

#[test]
fn patch_4_leaves_synchronous_and_background_compaction_to_the_free_scanner() {
    for plan in [direct(4, Mode::SyncLight), background(4)] {
        let zone = ScriptedZone::new(3, patch4())
            .used(0..16)
            .pinned(16..1024)
            .used(odd(1024..1536))
            .direct((1024..1100).step_by(2));
        let mut c = compactor(&zone, plan);
        assert_eq!(c.run(), Outcome::Success);
        assert_eq!(c.work().direct_alloc, 0);
        assert!(c.work().free_scanned > 0);
    }
}

#[test]
fn patch_4_still_stops_where_the_free_scanner_stands_unless_it_is_told_not_to() {
    let map = |knobs| {
        ScriptedZone::new(3, knobs)
            .pinned((0..1536).step_by(16))
            .used((0..1536).filter(|p| p % 16 != 0 && p % 2 == 1))
            .direct((2..1000).step_by(2))
    };
    let zone = map(patch4());
    assert_eq!(compactor(&zone, direct(4, Mode::Async)).run(), Outcome::Complete);
    assert!(zone.visits().iter().all(|pfn| *pfn < 1024));
    let zone = map(Knobs { migrate_ignores_free_scanner: true, ..patch4() });
    assert_eq!(compactor(&zone, direct(4, Mode::Async)).run(), Outcome::Complete);
    assert_eq!(zone.visits().last(), Some(&1520), "every block is spoiled, and every one was looked at");
}

#[test]
fn leftovers_are_released_after_a_failed_migration_where_that_is_asked_for() {
    let map = |knobs| {
        let zone = ScriptedZone::new(3, knobs)
            .used(0..32)
            .pinned(32..1024)
            .used(odd(1024..1536))
            .direct((1024..1100).step_by(2));
        zone.stubborn.lock().unwrap().insert(0, MigrateError::Refused);
        zone
    };
    let given_before_16 = |zone: &ScriptedZone| {
        let log = zone.log();
        let at = log.iter().position(|e| *e == Event::Visit(16)).unwrap();
        log[..at].iter().filter(|e| matches!(e, Event::GiveBack(_))).count()
    };
    let (kept, released) = (map(patch4()), map(Knobs { release_leftovers: true, ..patch4() }));
    compactor(&kept, direct(4, Mode::Async)).run();
    compactor(&released, direct(4, Mode::Async)).run();
    assert_eq!((given_before_16(&kept), given_before_16(&released)), (0, 1));
}

// What reviewers asked for.

#[test]
fn skip_on_failure_in_the_background_goes_up_to_the_order_that_is_named() {
    let knobs = Knobs { skip_on_failure: Scope::All, ..patch2() };
    let limited = Knobs { skip_on_failure_order: pageyard_core::Order::of(4), ..knobs };
    let map =
        |knobs| ScriptedZone::new(3, knobs).pinned([0]).used(1..512).pinned(512..1024).used(odd(1024..1536));
    let zone = map(limited);
    compactor(&zone, background(9)).run();
    assert_eq!(zone.visits()[..2], [0, 16], "one frame spoils a block of 16");
    let zone = map(knobs);
    compactor(&zone, background(9)).run();
    assert_eq!(zone.visits()[1..].iter().find(|p| **p < 512), None, "one frame spoils a block of 512");
}

#[test]
fn an_asynchronous_compaction_ends_as_contended_when_its_budget_is_used_up() {
    let map = |budget| {
        ScriptedZone::new(8, Knobs { async_budget: budget, ..plain() })
            .used(odd(0..4096))
            .pinned((0..8).map(|b| b * 512))
    };
    let zone = map(1000);
    let mut c = compactor(&zone, direct(9, Mode::Async));
    assert_eq!(c.run(), Outcome::Contended);
    assert!((1000..1600).contains(&(c.work().migrate_scanned + c.work().free_scanned)), "{:?}", c.work());
    let zone = map(1000);
    assert_ne!(compactor(&zone, direct(9, Mode::SyncLight)).run(), Outcome::Contended);
    let zone = map(0);
    assert_eq!(compactor(&zone, direct(9, Mode::Async)).run(), Outcome::Complete);
}

#[test]
fn skipping_by_chance_passes_over_about_the_share_that_is_named_and_others_each_time() {
    let knobs = Knobs { skip: Skip::Random(500), ..plain() };
    let zone = ScriptedZone::new(64, knobs).pinned(0..63 * 512).used(odd(63 * 512..64 * 512));
    let looked_at = || {
        zone.log.lock().unwrap().clear();
        compactor(&zone, direct(9, Mode::SyncLight)).run();
        zone.visits().iter().map(|pfn| pfn / 512).collect::<std::collections::BTreeSet<_>>()
    };
    let (first, second) = (looked_at(), looked_at());
    assert!((16..48).contains(&first.len()), "{}", first.len());
    assert_ne!(first, second);
}

#[test]
fn a_thorough_compaction_looks_at_everything_from_the_ends() {
    let knobs = Knobs { thorough: true, ..plain() };
    let zone = ScriptedZone::new(3, knobs)
        .used(odd(0..1536))
        .pinned([0, 512, 1024])
        .typed(0, Migratetype::Unmovable);
    zone.skips.lock().unwrap().extend([0, 1, 2]);
    assert_eq!(compactor(&zone, direct(9, Mode::SyncLight)).run(), Outcome::Complete);
    assert_eq!(zone.visits()[0], 0);
}

#[test]
fn a_block_that_became_free_is_captured_and_goes_back_when_nobody_takes_it() {
    let knobs = Knobs { capture: true, ..patch2() };
    let map =
        || ScriptedZone::new(3, knobs).used(0..16).pinned(16..1024).used(odd(1024..1536)).pinned([1024]);
    let zone = map();
    let mut c = compactor(&zone, direct(4, Mode::SyncLight));
    assert_eq!(c.run(), Outcome::Success);
    assert_eq!(c.take_captured(), Some(Pfn(0)));
    let zone = map();
    assert_eq!(compactor(&zone, direct(4, Mode::SyncLight)).run(), Outcome::Success);
    assert_eq!(zone.times(Event::GiveBack(0)), 1);
}

// Leases.

#[test]
fn two_compactors_never_use_a_pageblock_for_opposite_ends() {
    let knobs = Knobs { leases: true, direct_free: Scope::DirectAsync, ..patch2() };
    let zone = ScriptedZone::new(6, knobs)
        .used(odd(0..3072))
        .pinned((0..6).map(|b| b * 512))
        .direct((1..1536).rev().map(|n| 2 * n));
    let by =
        |id, mode| pageyard_linux::compaction::Plan { by: pageyard_core::CompactorId(id), ..direct(9, mode) };
    let (mut a, mut b) = (compactor(&zone, by(1, Mode::Async)), compactor(&zone, by(2, Mode::SyncLight)));
    let (mut a_done, mut b_done) = (false, false);
    while !(a_done && b_done) {
        a_done = matches!(a.step(1), Progress::Done(_));
        b_done = matches!(b.step(1), Progress::Done(_));
        let held: Vec<_> = zone.leases.lock().unwrap().iter().map(|(b, h)| (*b, *h)).collect();
        assert!(held.len() <= 34, "{held:?}");
    }
    assert_eq!((a.work().conflicts, b.work().conflicts), (0, 0));
    assert!(zone.leases.lock().unwrap().is_empty(), "every lease has ended");
    assert_eq!(zone.census().1, 1536, "nothing is lost");
}

#[test]
fn free_frames_of_a_pageblock_that_another_compactor_empties_go_back_as_they_came() {
    // Some of them before the first that may be used; then more than a batch, so that there is nothing to move to.
    for (theirs, outcome, moved) in [(20, Outcome::Success, 16), (40, Outcome::Contended, 0)] {
        let knobs = Knobs { leases: true, ..patch4() };
        let zone = ScriptedZone::new(4, knobs).used(0..16).pinned(16..1024).used(odd(1024..2048));
        let taken = (1024..1536).step_by(2).take(theirs);
        let zone = zone.direct(taken.clone().chain((1536..1600).step_by(2)));
        let before = zone.census();
        let lease = pageyard_linux::compaction::CompactionView::lease(
            &zone,
            PageblockId(2),
            pageyard_linux::compaction::Role::Source,
            pageyard_core::CompactorId(9),
        );
        let mut c = compactor(&zone, direct(4, Mode::Async));
        assert_eq!((c.run(), c.work().moved), (outcome, moved));
        drop((c, lease));
        let back = taken.filter(|pfn| zone.times(Event::GiveBack(*pfn)) == 1).count();
        assert_eq!(back, theirs.min(32), "of a batch of 32 at most");
        let after = zone.census();
        assert_eq!((before.0, before.1), (after.0, after.1));
    }
}

#[test]
fn without_leases_the_conflicts_are_counted() {
    let zone = ScriptedZone::new(3, plain()).used(odd(0..1536)).pinned([0, 512, 1024]);
    let _theirs = pageyard_linux::compaction::CompactionView::lease(
        &zone,
        PageblockId(0),
        pageyard_linux::compaction::Role::Target,
        pageyard_core::CompactorId(9),
    );
    let mut c = compactor(&zone, direct(9, Mode::SyncLight));
    c.run();
    assert_eq!(c.work().conflicts, 1);
    assert_eq!(zone.visits()[0], 0, "it is used all the same");
}

// A compaction that is dropped, or whose owner does wrong.

#[test]
fn a_dropped_compaction_gives_everything_back() {
    for steps in [1, 40, 200, 500] {
        let zone =
            ScriptedZone::new(3, patch4()).used(0..14).used(16..512).pinned(512..1024).used(odd(1024..1536));
        let zone = zone.direct([14, 15].into_iter().chain((1024..1536).step_by(2)));
        let before = zone.census();
        let mut c = compactor(&zone, direct(9, Mode::Async));
        c.step(steps);
        drop(c);
        let after = zone.census();
        assert_eq!((before.0, before.1), (after.0, after.1), "after {steps} steps");
        assert!(zone.leases.lock().unwrap().is_empty());
    }
}

#[test]
fn a_panic_in_a_callback_loses_neither_the_frame_nor_its_target() {
    let zone =
        ScriptedZone::new(3, patch2()).used(0..32).pinned(32..1024).used(odd(1024..1536)).pinned([1024]);
    *zone.panics_at.lock().unwrap() = Some(20);
    let before = zone.census();
    let run = std::panic::AssertUnwindSafe(|| compactor(&zone, direct(5, Mode::SyncLight)).run());
    assert!(std::panic::catch_unwind(run).is_err());
    zone.panics_at.clear_poison();
    let after = zone.census();
    assert_eq!((before.0, before.1), (after.0, after.1));
    assert_eq!(zone.times(Event::Putback(20)), 1, "the frame that was being moved is put back");
    assert!(zone.leases.lock().unwrap().is_empty());
}

#[test]
fn a_frame_that_its_owner_frees_meanwhile_is_neither_moved_nor_put_back() {
    let zone =
        ScriptedZone::new(3, patch2()).used(0..16).pinned(16..1024).used(odd(1024..1536)).pinned([1024]);
    zone.stubborn.lock().unwrap().insert(7, MigrateError::Gone);
    let mut c = compactor(&zone, direct(4, Mode::SyncLight));
    assert_eq!(c.run(), Outcome::Success);
    assert_eq!((c.work().moved, c.work().failed, zone.times(Event::Putback(7))), (15, 0, 0));
    assert_eq!(zone.census(), (255 + 1, 15 + 256, 1009));
}

#[test]
fn a_frame_that_says_again_ten_times_counts_as_failed_once_and_is_put_back() {
    let zone =
        ScriptedZone::new(3, patch2()).used(0..16).pinned(16..1024).used(odd(1024..1536)).pinned([1024]);
    zone.stubborn.lock().unwrap().insert(7, MigrateError::Again);
    let mut c = compactor(&zone, direct(4, Mode::SyncLight));
    assert_eq!(c.run(), Outcome::Complete);
    assert_eq!((c.work().moved, c.work().failed, zone.times(Event::Putback(7))), (15, 1, 1));
    assert_eq!(zone.times(Event::Refuse(7)), 10);
}

#[test]
fn a_budgeted_step_looks_at_no_more_than_its_budget_and_a_pageblock() {
    let zone = ScriptedZone::new(8, plain()).used(odd(0..4096)).pinned((0..8).map(|b| b * 512));
    let mut c = compactor(&zone, direct(9, Mode::SyncLight));
    let mut seen = 0;
    while c.step(64) == Progress::Working {
        let now = c.work().examined();
        assert!(now - seen <= 64 + 512, "{}", now - seen);
        seen = now;
    }
}
