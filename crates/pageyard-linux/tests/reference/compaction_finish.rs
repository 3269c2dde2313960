//! Pageblocks that are finished once they were begun, as Linux does since 5.1; and what begins and ends a compaction
//! there.

use crate::scripted_zone::{Event, Frame, ScriptedZone, direct, plainest};
use pageyard_core::compaction::{MigrateError, Mode, Outcome};
use pageyard_core::{Cx, Migratetype, Order};
use pageyard_linux::compaction::{Compactor, Finish, Goal, Hints, Knobs, Marks, Plan, Progress, Scope};

fn plain() -> Knobs {
    Knobs { last_migrated_drain: true, ..plainest() }
}

fn odd(range: std::ops::Range<u64>) -> impl Iterator<Item = u64> {
    range.filter(|pfn| pfn % 2 == 1)
}

fn compactor(zone: &ScriptedZone, plan: Plan) -> Compactor<'_, ScriptedZone, ScriptedZone> {
    Compactor::new(zone, zone, &Cx::default(), plan).unwrap()
}

fn half_used(knobs: Knobs) -> ScriptedZone {
    ScriptedZone::new(3, knobs).used(odd(0..512)).pinned(512..1024).used(odd(1024..1536))
}

// `__compact_finished`, and `rescan` or `finish_pageblock` in `compact_zone`.

#[test]
fn a_compaction_ends_between_pageblocks_only() {
    for (finish, moved) in [(Finish::Off, 32), (Finish::Begun, 256), (Finish::Failed, 256)] {
        let zone = half_used(Knobs { finish, ..plain() });
        let mut c = compactor(&zone, direct(4, Mode::SyncLight));
        assert_eq!((c.run(), c.work().moved), (Outcome::Success, moved), "{finish:?}");
    }
}

#[test]
fn the_lists_are_emptied_as_blocks_are_left_and_once_for_the_pageblock_when_all_of_it_is_wanted() {
    for finish in [Finish::Begun, Finish::Failed] {
        let zone = half_used(Knobs { finish, ..plain() });
        compactor(&zone, direct(9, Mode::SyncLight)).run();
        assert_eq!(zone.times(Event::Drain), 1, "{finish:?}");
    }
}

#[test]
fn a_pageblock_that_is_finished_is_where_the_next_scan_goes_on() {
    // The last frames of pageblock 0 are isolated, so that its end is no empty scan.
    let next = |finish| {
        let knobs = Knobs { finish, hints: Hints::FirstFrame, ..plain() };
        let zone = ScriptedZone::new(8, knobs).used(odd(0..4096)).pinned([1]);
        let mut c = compactor(&zone, direct(9, Mode::SyncLight));
        while c.positions().0.0 < 512 {
            assert_eq!(c.step(1), Progress::Working);
        }
        c.interrupt();
        assert_eq!(c.run(), Outcome::Contended);
        let mut c = compactor(&zone, direct(9, Mode::SyncLight));
        c.step(1);
        c.positions().0.0
    };
    assert_eq!(next(Finish::Off), 0, "it was not empty");
    assert_eq!(next(Finish::Begun), 1024, "and Linux passes over one more");
    assert_eq!(next(Finish::Failed), 1024);
}

#[test]
fn after_a_failed_migration_the_rest_of_the_block_or_of_the_pageblock_follows() {
    let run = |finish| {
        let knobs = Knobs { finish, skip_on_failure: Scope::DirectAsync, ..plain() };
        // Not in pageblock 0, which is finished as soon as it is begun.
        let zone = ScriptedZone::new(4, knobs).pinned(0..512).used(512..640).pinned(640..1536);
        let zone = zone.used(odd(1536..2048)).pinned([1536]);
        zone.stubborn.lock().unwrap().insert(515, MigrateError::Refused);
        compactor(&zone, direct(6, Mode::Async)).run();
        zone.visits()
    };
    for finish in [Finish::Off, Finish::Begun] {
        assert!(
            !run(finish).contains(&552) && run(finish).contains(&576),
            "{finish:?}: the rest is passed over"
        );
    }
    assert!(run(Finish::Failed).contains(&552), "the pageblock is scanned to its end");
}

#[test]
fn a_failed_pageblock_is_not_worth_emptying_the_lists_for() {
    let drains = |order| {
        let zone = half_used(Knobs { finish: Finish::Failed, ..plain() });
        zone.stubborn.lock().unwrap().insert(3, MigrateError::Refused);
        let mut c = compactor(&zone, direct(order, Mode::SyncLight));
        while c.positions().0.0 < 64 {
            assert_eq!(c.step(1), Progress::Working);
        }
        let marked = c.work().drains;
        (c.run(), marked)
    };
    assert_eq!(drains(9).1, 0);
    assert_eq!(drains(4).0, Outcome::Success, "a smaller block elsewhere in it can be free");
}

#[test]
fn every_block_of_a_finished_pageblock_may_be_captured() {
    // Order 4; the first block keeps a pin, the second becomes free.
    let knobs = Knobs { finish: Finish::Failed, capture: true, ..plain() };
    let zone =
        ScriptedZone::new(3, knobs).used(odd(0..32)).pinned([0]).pinned(32..1024).used(odd(1024..1536));
    let mut c = compactor(&zone, direct(4, Mode::SyncLight));
    assert_eq!((c.run(), c.take_captured().map(|p| p.0)), (Outcome::Success, Some(16)));
}

#[test]
fn a_request_captures_a_block_of_its_own_order_where_a_larger_one_is_made() {
    // Of the pageblock only the second block of order 4 becomes free.
    let knobs = Knobs { finish: Finish::Failed, capture: true, ..plain() };
    let zone =
        ScriptedZone::new(3, knobs).used(odd(0..32)).pinned([0]).pinned(32..1024).used(odd(1024..1536));
    let plan = Plan { request: Some(Order::of(4)), ..direct(9, Mode::SyncLight) };
    let mut c = compactor(&zone, plan);
    assert_eq!((c.run(), c.take_captured().map(|p| p.0)), (Outcome::Success, Some(16)));
}

// `compaction_suitable`.

#[test]
fn up_to_order_3_the_min_watermark_is_enough_to_begin() {
    for (marks, order, begins) in
        [(Marks::Low, 3, false), (Marks::Min, 3, true), (Marks::Min, 4, false), (Marks::Low, 4, false)]
    {
        let mut zone = half_used(Knobs { marks, ..plain() });
        (zone.low, zone.elsewhere) = (1000, 0);
        let outcome = compactor(&zone, direct(order, Mode::SyncLight)).run();
        assert_eq!(outcome != Outcome::Skipped, begins, "{marks:?}, order {order}");
    }
}

#[test]
fn up_to_order_3_memory_that_is_short_is_compacted_all_the_same() {
    // Its free frames are all of order 0, so that the index says how short memory is.
    for (order, begins) in [(3, true), (4, false)] {
        let zone = half_used(Knobs { marks: Marks::Min, extfrag_threshold: 1000, ..plain() });
        let outcome = compactor(&zone, direct(order, Mode::SyncLight)).run();
        assert_eq!(outcome != Outcome::Skipped, begins, "order {order}");
    }
}

#[test]
fn a_suitable_block_is_a_success_whatever_the_watermark() {
    for (marks, success) in [(Marks::Low, false), (Marks::Min, true)] {
        let mut zone = half_used(Knobs { marks, ..plain() });
        zone.elsewhere = 0;
        zone.low = 512 - 2 * 16 - 1;
        let mut c = compactor(&zone, direct(4, Mode::SyncLight));
        assert_eq!(c.step(1), Progress::Working, "there is room to begin");
        // Then others allocate, and the zone is below its low watermark.
        zone.frames.lock().unwrap()[1400..1536].fill(Frame::Pinned);
        assert_eq!(c.run() == Outcome::Success, success, "{marks:?}");
    }
}

// `suitable_migration_source`, `suitable_migration_target`.

#[test]
fn an_asynchronous_compaction_empties_pageblocks_of_the_requests_own_type() {
    let emptied = |m, waits: bool, mode| {
        let zone = ScriptedZone::new(6, Knobs { async_same_type: true, ..plain() })
            .used(odd(0..3072))
            .pinned((0..6).map(|b| b * 512 + 1))
            .typed(1, Migratetype::Unmovable)
            .typed(2, Migratetype::Reclaimable);
        let request = waits.then_some(Order::of(9));
        let plan = Plan { goal: Goal::Block(Order::of(9), m), request, ..direct(9, mode) };
        compactor(&zone, plan).run();
        let mut blocks: Vec<u64> = zone.isolated().iter().map(|pfn| pfn / 512).collect();
        blocks.dedup();
        blocks
    };
    assert_eq!(emptied(Migratetype::Unmovable, true, Mode::Async), [1]);
    assert_eq!(emptied(Migratetype::Reclaimable, true, Mode::Async), [2]);
    assert!(!emptied(Migratetype::Movable, true, Mode::Async).iter().any(|b| [1, 2].contains(b)));
    assert!(emptied(Migratetype::Movable, true, Mode::SyncLight).starts_with(&[0, 1, 2]));
    assert!(emptied(Migratetype::Movable, false, Mode::Async).starts_with(&[0, 1, 2]), "only direct ones");
}

#[test]
fn a_pageblock_that_one_block_fills_is_not_begun() {
    let zone = ScriptedZone::new(4, Knobs { async_same_type: true, ..plain() })
        .compound(0, 9)
        .used(odd(512..2048))
        .pinned([513]);
    let mut c = compactor(&zone, direct(9, Mode::SyncLight));
    while zone.isolated().is_empty() {
        assert_eq!(c.step(1), Progress::Working);
    }
    assert_eq!(c.work().migrate_scanned, zone.visits().iter().filter(|pfn| **pfn > 512).count() as u64 + 1);
}

#[test]
fn a_pageblock_that_begins_with_a_wanted_block_is_spared() {
    // Pageblock 3 has single free frames. Pageblock 4 begins with 16 free ones, once pageblock 1 is begun.
    let targets = |spare_wanted| {
        let knobs = Knobs { spare_wanted, hints: Hints::AnyFrame, finish: Finish::Begun, ..plain() };
        let zone = ScriptedZone::new(5, knobs)
            .pinned(0..512)
            .used(512..544)
            .pinned(544..1536)
            .used(odd(1536..2048))
            .used(2048..2560);
        let mut c = compactor(&zone, direct(4, Mode::SyncLight));
        while zone.isolated().is_empty() {
            assert_eq!(c.step(1), Progress::Working);
        }
        zone.frames.lock().unwrap()[2048..2064].fill(Frame::Free);
        while zone.targets().is_empty() {
            assert_eq!(c.step(1), Progress::Working);
        }
        zone.targets()[0] / 512
    };
    assert_eq!((targets(false), targets(true)), (4, 3));
}

#[test]
fn a_thorough_compaction_fills_any_type_and_in_6_x_spares_what_is_free_as_a_whole() {
    for (hints, block) in [(Hints::NothingFound, 3), (Hints::AnyFrame, 2)] {
        // Pageblock 2 is unmovable and half free, pageblock 3 free as a whole: so a larger block is asked for.
        let zone = ScriptedZone::new(4, Knobs { thorough: true, hints, ..plain() })
            .used(0..32)
            .pinned(32..1024)
            .used(odd(1024..1536))
            .typed(2, Migratetype::Unmovable);
        let mut c = compactor(&zone, direct(10, Mode::SyncLight));
        while zone.targets().is_empty() {
            assert_eq!(c.step(1), Progress::Working);
        }
        assert_eq!(zone.targets()[0] / 512, block, "{hints:?}");
    }
}

// `isolate_freepages`.

#[test]
fn a_free_block_is_taken_whole_and_what_is_left_serves_the_next_cluster() {
    let scans = |whole_blocks| {
        let zone = ScriptedZone::new(3, Knobs { whole_blocks, ..plain() })
            .used(0..128)
            .pinned((128..1536).filter(|pfn| !(1088..1152).contains(pfn) && !(1216..1280).contains(pfn)));
        let mut c = compactor(&zone, direct(7, Mode::SyncLight));
        assert_eq!((c.run(), c.work().moved), (Outcome::Success, 128));
        zone.log().iter().filter(|e| matches!(e, Event::FreeScan(..))).count()
    };
    assert_eq!((scans(true), scans(false)), (2, 4), "each block of 64 serves two clusters of 32");
}

#[test]
fn the_free_scanner_strides_where_it_finds_nothing() {
    let scanned = |mode, stride| {
        let knobs = Knobs { whole_blocks: true, stride, ..plain() };
        let zone =
            ScriptedZone::new(8, knobs).used(0..16).pinned(16..1536).used(odd(1536..2048)).pinned(2048..4096);
        let mut c = compactor(&zone, direct(4, mode));
        while zone.targets().is_empty() {
            assert_eq!(c.step(1), Progress::Working);
        }
        // Pageblocks 7 to 4 hold nothing; in pageblock 3 every other frame is free.
        let (from, work) = (zone.targets()[0], c.work().free_scanned);
        (from / 512, work)
    };
    let (block, all) = scanned(Mode::Async, false);
    assert_eq!(block, 3);
    assert!(all >= 4 * 512);
    assert_eq!(
        scanned(Mode::Async, true),
        (3, 4 * 16 + 16),
        "every 32nd frame until one is free, then every one"
    );
    let (_, sync) = scanned(Mode::SyncLight, true);
    assert!(
        (512 + 256 + 128 + 64..all).contains(&sync),
        "{sync}: twice as far for each pageblock without any"
    );
}
