//! The pivot: both scanners set out from where they met last, and go round the zone.

use crate::scripted_zone::{Event, Frame, ScriptedZone, direct, plainest};
use pageyard_core::compaction::{Mode, Outcome};
use pageyard_core::{Cx, Order, ZoneId};
use pageyard_linux::compaction::{Compactor, Deferral, Knobs, Pivot, forget_hints_if_asked};

const ORDER: u8 = 9;

fn odd(range: std::ops::Range<u64>) -> impl Iterator<Item = u64> {
    range.filter(|pfn| pfn % 2 == 1)
}

/// Six pageblocks, half of each in use, and none that can become free.
fn zone(pivot: Pivot) -> ScriptedZone {
    let knobs = Knobs { pivot, ..plainest() };
    ScriptedZone::new(6, knobs).used(odd(0..3072)).pinned((0..6).map(|block| block * 512))
}

/// Compacts to the end, and returns the pageblocks in which the migrate scanner looked, and the free scanner, in order.
fn compact(zone: &ScriptedZone) -> (Vec<u64>, Vec<u64>) {
    zone.log.lock().unwrap().clear();
    let mut compactor = Compactor::new(zone, zone, &Cx::default(), direct(ORDER, Mode::SyncLight)).unwrap();
    assert_eq!(compactor.run(), Outcome::Complete);
    assert_eq!(compactor.holds(), (0, 0, 0));
    let (mut sources, mut targets) = (Vec::new(), Vec::new());
    for event in zone.log() {
        match event {
            Event::Visit(pfn) => sources.push(pfn / 512),
            Event::FreeScan(pfn, _) => targets.push(pfn / 512),
            _ => {}
        }
    }
    sources.dedup();
    targets.dedup();
    (sources, targets)
}

/// Does what the background reclaimer does when it goes to sleep.
fn sleep(zone: &ScriptedZone) {
    forget_hints_if_asked(zone, zone, ZoneId(0));
}

#[test]
fn without_a_pivot_the_half_of_the_zone_that_was_filled_is_never_emptied() {
    let zone = zone(Pivot::Start);
    for _ in 0..3 {
        let (sources, _) = compact(&zone);
        sleep(&zone);
        assert!(sources.iter().all(|block| *block < 3), "{sources:?}");
    }
}

#[test]
fn with_a_pivot_the_next_compaction_begins_where_the_scanners_met_and_fills_what_was_emptied() {
    let zone = zone(Pivot::Forgetting);
    let (sources, targets) = compact(&zone);
    assert_eq!((sources, targets), (vec![0, 1, 2], vec![5, 4, 3]));
    sleep(&zone);
    let (sources, targets) = compact(&zone);
    assert_eq!((sources, targets), (vec![3, 4, 5], vec![2, 1, 0]));
}

/// A zone whose pivot is pageblock 3, of which so many in 64 frames are then in use, by pageblock.
fn met_in_the_middle(used: [usize; 6]) -> ScriptedZone {
    let zone = zone(Pivot::Forgetting);
    compact(&zone);
    sleep(&zone);
    let mut frames = zone.frames.lock().unwrap();
    for (pfn, frame) in frames.iter_mut().enumerate().filter(|(pfn, _)| pfn % 512 != 0) {
        *frame = if pfn % 64 < used[pfn / 512] { Frame::Used } else { Frame::Free };
    }
    drop(frames);
    zone
}

#[test]
fn the_migrate_scanner_goes_on_at_the_start_of_the_zone_when_it_has_come_to_its_end() {
    let zone = met_in_the_middle([32, 32, 0, 1, 1, 1]);
    assert_eq!(compact(&zone), (vec![3, 4, 5, 0, 1], vec![2]));
    let moved = zone.log().into_iter().filter(|e| matches!(e, Event::Move(from, _) if *from < 512)).count();
    assert_eq!(moved, 8 * 32 - 1, "all but the pinned frame");
}

#[test]
fn the_free_scanner_goes_on_at_the_end_of_the_zone_when_it_has_come_to_its_start() {
    let zone = met_in_the_middle([64, 64, 64, 32, 16, 0]);
    assert_eq!(compact(&zone), (vec![3, 4], vec![2, 1, 0, 5]));
}

#[test]
fn as_posted_the_pivot_moves_when_a_compaction_starts_over_and_not_when_the_reclaimer_sleeps() {
    let zone = zone(Pivot::Restarting);
    compact(&zone);
    sleep(&zone);
    assert_eq!(compact(&zone).0[0], 0);
    sleep(&zone);
    let (order, mode) = (Order::of(ORDER), Mode::SyncLight);
    for _ in 0..7 {
        zone.state.defer(order, mode, Deferral::Shared);
    }
    while zone.state.is_deferred(order, mode, Deferral::Shared) {}
    let (sources, _) = compact(&zone);
    assert!(sources[0] >= 2, "{sources:?}");
}

#[test]
fn what_ignores_the_free_scanner_or_looks_at_everything_begins_at_the_ends() {
    let zone = zone(Pivot::Forgetting);
    compact(&zone);
    sleep(&zone);
    zone.log.lock().unwrap().clear();
    let plan = pageyard_linux::compaction::Plan { thorough: true, ..direct(ORDER, Mode::SyncLight) };
    Compactor::new(&zone, &zone, &Cx::default(), plan).unwrap().run();
    assert_eq!(zone.visits().first().map(|pfn| pfn / 512), Some(0));
}
