//! Skip hints as Linux leaves and forgets them since 5.1.

use crate::scripted_zone::{Event, ScriptedZone, direct, plainest};
use pageyard_core::compaction::{Mode, Outcome};
use pageyard_core::{Cx, Order, ZoneId};
use pageyard_linux::compaction::{
    Compactor, Hints, Knobs, Plan, Progress, compact_in_background, forget_hints_if_asked,
};

fn knobs(hints: Hints) -> Knobs {
    Knobs { hints, ..plainest() }
}

fn odd(range: std::ops::Range<u64>) -> impl Iterator<Item = u64> {
    range.filter(|pfn| pfn % 2 == 1)
}

/// Eight frames in use, eight free, and so on: a sample of every eighth frame meets both.
fn eights(range: std::ops::Range<u64>) -> impl Iterator<Item = u64> {
    range.filter(|pfn| pfn % 16 < 8)
}

fn compactor(zone: &ScriptedZone, plan: Plan) -> Compactor<'_, ScriptedZone, ScriptedZone> {
    Compactor::new(zone, zone, &Cx::default(), plan).unwrap()
}

fn hinted(zone: &ScriptedZone) -> Vec<u64> {
    let mut skips: Vec<u64> = zone.skips.lock().unwrap().iter().copied().collect();
    skips.sort_unstable();
    skips
}

/// Lets a direct compaction fail, which asks for hints to be forgotten, and undoes what it moved.
fn ask(zone: &ScriptedZone) {
    let frames = zone.frames.lock().unwrap().clone();
    let outcome = compactor(zone, direct(9, Mode::SyncLight)).run();
    assert!(matches!(outcome, Outcome::Complete | Outcome::PartialSkipped), "{outcome:?}");
    *zone.frames.lock().unwrap() = frames;
}

#[test]
fn a_source_gets_its_hint_when_its_first_or_any_frame_is_isolated() {
    let after_the_first = |hints, frames: std::ops::Range<u64>| {
        let zone = ScriptedZone::new(4, knobs(hints)).pinned(0..2048).used(frames);
        let mut c = compactor(&zone, direct(9, Mode::SyncLight));
        while zone.isolated().is_empty() {
            assert_eq!(c.step(1), Progress::Working);
        }
        hinted(&zone)
    };
    for hints in [Hints::NothingFound, Hints::FirstFrame, Hints::AnyFrame] {
        let (first, later) = (after_the_first(hints, 0..64), after_the_first(hints, 64..128));
        assert_eq!(first == [0], hints != Hints::NothingFound, "{hints:?}: {first:?}");
        assert_eq!(later == [0], hints == Hints::AnyFrame, "{hints:?}: {later:?}");
    }
}

#[test]
fn a_pageblock_with_its_own_hint_is_scanned_to_its_end() {
    let zone = ScriptedZone::new(4, knobs(Hints::AnyFrame)).used(odd(0..2048)).pinned([1]);
    let mut c = compactor(&zone, direct(9, Mode::SyncLight));
    while c.positions().0.0 < 512 {
        assert_eq!(c.step(1), Progress::Working);
    }
    assert_eq!(zone.isolated().iter().filter(|pfn| **pfn < 512).count(), 255);
}

#[test]
fn a_target_gets_its_hint_at_its_end_whatever_was_found() {
    let after_one = |hints, mode_ignores: bool| {
        // Twenty frames to move, and twenty free in the last pageblock.
        let zone = ScriptedZone::new(4, knobs(hints)).pinned(0..2028).used(0..64);
        let plan = Plan { ignore_hints: mode_ignores, ..direct(9, Mode::SyncLight) };
        let mut c = compactor(&zone, plan);
        assert_eq!(c.step(1), Progress::Working);
        while c.positions().1.0 >= 1536 {
            assert_eq!(c.step(1), Progress::Working);
        }
        hinted(&zone).contains(&3)
    };
    assert!(!after_one(Hints::NothingFound, false));
    for hints in [Hints::FirstFrame, Hints::AnyFrame] {
        assert!(after_one(hints, false) && after_one(hints, true), "{hints:?}: also where hints are ignored");
    }
}

#[test]
fn where_the_next_scan_begins() {
    // Pageblocks 0 and 7 have nothing to offer.
    let next = |hints| {
        let zone = ScriptedZone::new(8, knobs(hints))
            .pinned(0..512)
            .used(odd(512..3584))
            .pinned((1..7).map(|b| b * 512 + 1))
            .pinned(3584..4096);
        let mut c = compactor(&zone, direct(9, Mode::SyncLight));
        while zone.targets().is_empty() {
            assert_eq!(c.step(1), Progress::Working);
        }
        drop(c);
        let mut c = compactor(&zone, direct(9, Mode::SyncLight));
        c.step(1);
        (c.positions().0.0 / 512, c.positions().1.0 / 512)
    };
    assert_eq!(next(Hints::NothingFound).0, 0, "at the pageblock without anything");
    assert_eq!(next(Hints::FirstFrame).0, 2, "a pageblock later than it could");
    assert_eq!(next(Hints::AnyFrame).0, 2);
    // Free frames that went back are where the next free scan begins.
    assert_eq!((next(Hints::NothingFound).1, next(Hints::FirstFrame).1), (7, 7));
}

#[test]
fn asynchronous_scans_take_others_along_until_they_isolate_something() {
    let next = |hints| {
        let zone = ScriptedZone::new(8, knobs(hints))
            .pinned(0..2048)
            .used(odd(2048..4096))
            .pinned([2049, 2561, 3073]);
        let mut c = compactor(&zone, direct(9, Mode::Async));
        while zone.isolated().is_empty() {
            assert_eq!(c.step(1), Progress::Working);
        }
        drop(c);
        let mut c = compactor(&zone, direct(9, Mode::SyncLight));
        c.step(1);
        c.positions().0.0 / 512
    };
    assert_eq!((next(Hints::NothingFound), next(Hints::FirstFrame)), (0, 5));
}

#[test]
fn hints_are_forgotten_where_a_sample_shows_something_to_do_and_only_when_asked() {
    let map = |hints| {
        // Pageblock 1 is full of two compound blocks, pageblock 2 of one.
        let zone =
            ScriptedZone::new(6, knobs(hints)).used(eights(0..3072)).pinned((0..6).map(|b| b * 512 + 1));
        zone.compound(512, 8).compound(768, 8).compound(1024, 9)
    };
    for (hints, left) in
        [(Hints::NothingFound, vec![]), (Hints::FirstFrame, vec![1, 2]), (Hints::AnyFrame, vec![1, 2])]
    {
        let zone = map(hints);
        let unasked = zone.skips.lock().unwrap().clone();
        forget_hints_if_asked(&zone, &zone, ZoneId(0));
        assert_eq!(*zone.skips.lock().unwrap(), unasked);
        ask(&zone);
        zone.skips.lock().unwrap().extend(0..6);
        forget_hints_if_asked(&zone, &zone, ZoneId(0));
        assert_eq!(hinted(&zone), left, "{hints:?}");
        zone.skips.lock().unwrap().extend(0..6);
        forget_hints_if_asked(&zone, &zone, ZoneId(0));
        assert_eq!(hinted(&zone).len(), 6, "{hints:?}: it was asked for once");
    }
}

#[test]
fn after_hints_were_forgotten_the_scanners_begin_where_there_is_something_to_do() {
    let zone = ScriptedZone::new(6, knobs(Hints::AnyFrame))
        .compound(0, 8)
        .compound(256, 8)
        .used(eights(512..2560))
        .pinned([513, 1025, 1537, 2049])
        .compound(2560, 8)
        .compound(2816, 8);
    ask(&zone);
    zone.skips.lock().unwrap().extend(0..6);
    forget_hints_if_asked(&zone, &zone, ZoneId(0));
    assert_eq!(hinted(&zone), [0, 5]);
    let mut c = compactor(&zone, direct(9, Mode::SyncLight));
    c.step(1);
    assert_eq!((c.positions().0.0, c.positions().1.0), (512, 2559), "the free scanner at a last frame");
    // It covers all that can be useful, so it is complete when it fails.
    assert_eq!(c.run(), Outcome::Complete);
}

#[test]
fn the_background_obeys_hints_and_empties_all_lists_when_it_fails() {
    for background_hints in [false, true] {
        let knobs = Knobs { background_hints, ..knobs(Hints::AnyFrame) };
        let zone = ScriptedZone::new(4, knobs).pinned(0..2048);
        zone.skips.lock().unwrap().insert(0);
        zone.state.wake(Order::of(9));
        compact_in_background(&zone, &zone, &Cx::default(), ZoneId(0));
        assert_eq!(zone.visits()[0] >= 512, background_hints);
        assert_eq!(zone.times(Event::Drain), usize::from(background_hints), "nothing was moved");
    }
}
