//! Searches of the free lists before the scanners move, as Linux has them since 5.1: which blocks are looked at, which
//! are taken, and where the scanners go.

use crate::scripted_zone::{Event, Frame, ScriptedZone, background, direct, plainest};
use pageyard_core::compaction::{Mode, Outcome};
use pageyard_core::{Cx, Migratetype, Order, PageblockId};
use pageyard_linux::compaction::{Compactor, FastSource, Goal, Hints, Knobs, ListEnd, Plan, Progress};

fn targets() -> Knobs {
    Knobs { extfrag_threshold: 0, whole_blocks: true, fast_free: true, ..plainest() }
}

fn sources() -> Knobs {
    Knobs { extfrag_threshold: 0, hints: Hints::AnyFrame, fast_source: FastSource::Found, ..plainest() }
}

fn compactor(zone: &ScriptedZone, plan: Plan) -> Compactor<'_, ScriptedZone, ScriptedZone> {
    Compactor::new(zone, zone, &Cx::default(), plan).unwrap()
}

/// Eight pageblocks in which frames 0 to 15 are to move, these blocks of an order are free, and nothing else is.
///
/// The migrate scanner is at 512 when targets are looked for, and the free scanner at 3584: the highest quarter between
/// them begins at 2560, the upper half at 2048.
fn with_free(knobs: Knobs, order: u8, blocks: &[u64]) -> ScriptedZone {
    let free: Vec<_> = blocks.iter().map(|b| *b..*b + (1 << order)).collect();
    ScriptedZone::new(8, knobs)
        .used(0..16)
        .pinned((16..4096).filter(|pfn| !free.iter().any(|f| f.contains(pfn))))
        .listed(order, blocks.iter().copied())
}

/// Works until something has happened.
fn until(c: &mut Compactor<'_, ScriptedZone, ScriptedZone>, happened: impl Fn() -> bool) {
    while !happened() {
        assert_eq!(c.step(1), Progress::Working);
    }
}

fn scans(zone: &ScriptedZone) -> Vec<u64> {
    let from = |e| if let Event::FreeScan(from, _) = e { Some(from) } else { None };
    zone.log().into_iter().filter_map(from).collect()
}

// Targets: `fast_isolate_freepages`.

#[test]
fn targets_come_from_the_tails_of_the_lists_and_the_free_scanner_stays() {
    let zone = with_free(targets(), 3, &[3648, 3664]);
    let mut c = compactor(&zone, direct(4, Mode::Async));
    assert_eq!(c.run(), Outcome::Success);
    assert_eq!(zone.seen(), [3664, 3648], "the tail first");
    assert_eq!((zone.times(Event::Take(3664, 3)), zone.times(Event::Take(3648, 3))), (1, 1));
    let expected: Vec<u64> = (3664..3672).rev().chain((3648..3656).rev()).collect();
    assert_eq!(zone.targets(), expected, "all of a block, before the next is looked for");
    assert_eq!((scans(&zone), c.positions().1.0), (vec![], 3584));
    assert_eq!((c.work().free_scanned, c.work().isolated), (2, 32), "a block of a list counts as one frame");
}

#[test]
fn without_the_knob_the_free_scanner_finds_them() {
    let zone = with_free(Knobs { fast_free: false, ..targets() }, 3, &[3648, 3664]);
    assert_eq!(compactor(&zone, direct(4, Mode::Async)).run(), Outcome::Success);
    assert_eq!((zone.seen(), scans(&zone)), (vec![], vec![3584]));
}

#[test]
fn the_highest_quarter_between_the_scanners_is_preferred_to_the_upper_half() {
    // The first of the highest quarter ends the search; the upper half serves when a list holds nothing better.
    let zone = with_free(targets(), 3, &[3000, 1024, 2104, 2200]);
    compactor(&zone, direct(4, Mode::Async)).run();
    assert_eq!(zone.log().iter().find(|e| matches!(e, Event::Take(..))), Some(&Event::Take(3000, 3)));
    let zone = with_free(targets(), 3, &[1024, 2200, 2104]);
    compactor(&zone, direct(4, Mode::Async)).run();
    assert_eq!(zone.seen()[..3], [2104, 2200, 1024]);
    let taken = zone.log().into_iter().find(|e| matches!(e, Event::Take(..)));
    assert_eq!(taken, Some(Event::Take(2200, 3)), "the highest candidate");
}

#[test]
fn where_the_lists_hold_only_low_blocks_the_free_scanner_starts_at_half_the_way() {
    let zone = with_free(targets(), 3, &[1024, 1040]);
    compactor(&zone, direct(4, Mode::Async)).run();
    assert_eq!(scans(&zone)[0], 2048, "a request that waits does not scan down from the end");
    let zone = with_free(targets(), 3, &[1024, 1040]);
    compactor(&zone, background(4)).run();
    assert_eq!(scans(&zone)[0], 3584, "the background does");
}

#[test]
fn a_search_begins_with_the_order_where_the_last_one_ended_well() {
    let zone = with_free(targets(), 2, &[3600, 3608, 3616, 3624]).listed(3, [1024]);
    zone.frames.lock().unwrap()[1024..1032].fill(Frame::Free);
    assert_eq!(compactor(&zone, direct(4, Mode::Async)).run(), Outcome::Success);
    assert_eq!(zone.seen(), [1024, 3624, 3616, 3608, 3600], "order 3 is looked at once, then order 2 first");
}

#[test]
fn a_search_looks_at_256_blocks_of_a_list_and_the_next_one_goes_on_after_them() {
    // 300 single frames, all too low.
    let low: Vec<u64> = (0..300).map(|n| 513 + 2 * n).collect();
    let zone = with_free(targets(), 0, &low);
    let mut c = compactor(&zone, direct(4, Mode::Async));
    until(&mut c, || !zone.seen().is_empty());
    let first: Vec<u64> = low.iter().rev().take(256).copied().collect();
    assert_eq!(zone.seen(), first);
    assert_eq!(zone.times(Event::Turn(low[44], ListEnd::Tail)), 1);
    let again = with_free(targets(), 0, &low);
    *again.lists.lock().unwrap() = zone.lists.lock().unwrap().clone();
    let mut d = compactor(&again, direct(4, Mode::Async));
    until(&mut d, || !again.seen().is_empty());
    let rest: Vec<u64> = low[..44].iter().rev().copied().collect();
    assert_eq!(again.seen()[..44], rest);
}

#[test]
fn a_block_that_cannot_be_spared_ends_the_search() {
    let zone = with_free(targets(), 3, &[3648, 3664]).listed(2, [3700]);
    zone.frames.lock().unwrap()[3700..3704].fill(Frame::Free);
    *zone.at_floor.lock().unwrap() = true;
    assert_eq!(compactor(&zone, direct(4, Mode::Async)).run(), Outcome::Contended);
    assert_eq!(zone.seen(), [3664], "no other order is tried");
    assert_eq!(scans(&zone), [3584], "the scanner tries once more, and that is the end");
}

#[test]
fn a_synchronous_search_takes_more_of_the_pageblock_and_an_asynchronous_one_does_not() {
    // Two blocks of order 3 in one pageblock, of which the list names one.
    for (mode, around) in [(Mode::SyncLight, vec![3584]), (Mode::Async, vec![])] {
        let zone = with_free(targets(), 3, &[3648, 3664]);
        zone.lists.lock().unwrap().insert(3, vec![3664]);
        let mut c = compactor(&zone, direct(4, mode));
        until(&mut c, || !zone.targets().is_empty());
        assert_eq!(scans(&zone), around, "{mode:?}");
    }
}

#[test]
fn a_compaction_of_everything_does_not_search() {
    let zone = with_free(targets(), 3, &[3648, 3664]);
    let plan = Plan { goal: Goal::Everything, request: None, ..direct(4, Mode::Sync) };
    compactor(&zone, plan).run();
    assert!(zone.seen().is_empty() && !scans(&zone).is_empty());
}

#[test]
fn with_leases_a_target_in_another_compactors_pageblock_is_not_taken() {
    use pageyard_linux::compaction::{CompactionView, Role};
    for (leases, taken) in [(true, 0), (false, 1)] {
        let zone = with_free(Knobs { leases, ..targets() }, 3, &[3648]);
        let theirs = zone.lease(PageblockId(7), Role::Source, pageyard_core::CompactorId(9));
        compactor(&zone, direct(4, Mode::Async)).run();
        assert_eq!(zone.times(Event::Take(3648, 3)), taken, "leases {leases}");
        drop(theirs);
    }
}

#[test]
fn a_compaction_that_is_dropped_gives_whole_blocks_back() {
    for steps in [1, 40, 200, 513, 530] {
        let zone = with_free(targets(), 3, &[3648, 3664]);
        let before = zone.census();
        let mut c = compactor(&zone, direct(4, Mode::Async));
        c.step(steps);
        drop(c);
        assert_eq!(zone.census(), before, "after {steps} steps");
    }
}

// Sources: `fast_find_migrateblock`.

/// Sixteen pageblocks, half free; a list of order 5 names blocks of pageblocks 10 and 3. The first half of the zone
/// ends at pageblock 7.
fn with_sources(knobs: Knobs) -> ScriptedZone {
    let zone = ScriptedZone::new(16, knobs)
        .used((0..8192).filter(|pfn| pfn % 2 == 1 && !in_blocks(*pfn)))
        .pinned((0..16).map(|b| b * 512 + 1));
    zone.listed(5, [5184, 1600])
}

fn in_blocks(pfn: u64) -> bool {
    (5184..5216).contains(&pfn) || (1600..1632).contains(&pfn)
}

fn first_isolated(knobs: Knobs, plan: Plan) -> u64 {
    let zone = with_sources(knobs);
    let mut c = compactor(&zone, plan);
    until(&mut c, || !zone.isolated().is_empty());
    zone.isolated()[0] / 512
}

#[test]
fn the_migrate_scanner_begins_in_a_pageblock_that_a_list_names() {
    let zone = with_sources(sources());
    let mut c = compactor(&zone, direct(9, Mode::SyncLight));
    until(&mut c, || !zone.isolated().is_empty());
    assert_eq!(zone.seen(), [5184, 1600], "the head first; pageblock 10 may become a target");
    assert_eq!(zone.times(Event::Turn(1600, ListEnd::Head)), 1);
    assert_eq!(zone.isolated()[0], 3 * 512 + 3, "from the pageblock's first frame on");
    assert!(c.work().migrate_scanned >= 2);
}

#[test]
fn a_pageblock_is_searched_for_only_where_emptying_one_is_worth_it() {
    assert_eq!(first_isolated(sources(), direct(9, Mode::SyncLight)), 3);
    assert_eq!(first_isolated(sources(), background(9)), 3);
    let unmovable = Goal::Block(Order::of(9), Migratetype::Unmovable);
    for (why, knobs, plan) in [
        ("it would spoil the pageblock", sources(), Plan { goal: unmovable, ..direct(9, Mode::SyncLight) }),
        ("hints are ignored", sources(), Plan { ignore_hints: true, ..direct(9, Mode::SyncLight) }),
        ("it is off", Knobs { fast_source: FastSource::Off, ..sources() }, direct(9, Mode::SyncLight)),
        (
            "there are no hints",
            Knobs { skip: pageyard_linux::compaction::Skip::Nothing, ..sources() },
            direct(9, Mode::SyncLight),
        ),
    ] {
        assert_eq!(first_isolated(knobs, plan), 0, "{why}");
    }
}

#[test]
fn a_pageblock_with_a_skip_hint_is_not_named() {
    let zone = with_sources(sources());
    zone.skips.lock().unwrap().insert(3);
    let mut c = compactor(&zone, direct(9, Mode::SyncLight));
    until(&mut c, || !zone.isolated().is_empty());
    assert_eq!(zone.isolated()[0] / 512, 0);
}

#[test]
fn when_no_list_names_another_the_scanner_returns_once_to_the_lowest_frame_found() {
    let zone = with_sources(sources());
    compactor(&zone, direct(9, Mode::SyncLight)).run();
    let visits = zone.visits();
    let end = visits.iter().position(|pfn| *pfn == 2047).unwrap();
    assert!(!visits[..end].contains(&2048));
    let back = visits[end..].iter().position(|pfn| *pfn == 1600).unwrap();
    assert!(visits[end..end + back].iter().all(|pfn| *pfn >= 1600), "it does not return to the start");
    // The first frame of a pageblock is looked at before it is used as a target, too.
    let scanned: Vec<u64> = visits.into_iter().filter(|pfn| pfn % 512 != 0).collect();
    let returns = scanned.windows(2).filter(|w| w[1] < w[0]).count();
    assert_eq!(returns, 1, "only once");
}

#[test]
fn in_6_1_the_pageblock_found_is_passed_over_because_of_its_own_hint() {
    let knobs = Knobs { fast_source: FastSource::Hinted, hints: Hints::FirstFrame, ..sources() };
    let zone = with_sources(knobs);
    let mut c = compactor(&zone, direct(9, Mode::SyncLight));
    until(&mut c, || !zone.isolated().is_empty());
    assert!(zone.skips.lock().unwrap().contains(&3));
    assert_eq!(zone.isolated()[0], 1601 + 32, "only the return scans it, from the frame that was found");
    assert!(c.work().skipped >= 1);
}
