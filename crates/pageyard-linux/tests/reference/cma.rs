//! Areas that their owners lend to movable requests.

use crate::common::{CX, bare, normal, request, sound};
use crate::scripted_zone::direct;
use pageyard_core::compaction::{Mode, Outcome};
use pageyard_core::{
    AllocError, CpuSet,
    Migratetype::{self, Cma, Movable, Unmovable},
    Order, PAGEBLOCK_ORDER, PageAllocator, PageblockId, Pfn, Request, ZoneId,
};
use pageyard_linux::compaction::{Goal, Plan, suitability};
use pageyard_linux::{Config, LinuxAllocator};

/// Pageblocks of the machine, and the first of those that are lent: the upper `LENT` of them.
const PAGEBLOCKS: u64 = 16;
const PAGEBLOCK: u64 = PAGEBLOCK_ORDER.frames().0;

/// Makes a machine of 16 pageblocks of which the last `lent` are lent.
fn machine(lent: u64, config: &Config) -> LinuxAllocator {
    let a = normal(PAGEBLOCKS * PAGEBLOCK, &bare(config.clone()));
    for n in PAGEBLOCKS - lent..PAGEBLOCKS {
        a.set_pageblock_migratetype(PageblockId(n), Cma);
    }
    a
}

fn presets() -> impl Iterator<Item = Config> {
    Config::PRESETS.into_iter().map(|name| Config::preset(name).unwrap())
}

fn is_lent(pfn: Pfn, lent: u64) -> bool {
    pfn.0 >= (PAGEBLOCKS - lent) * PAGEBLOCK
}

fn take_all(a: &LinuxAllocator, m: Migratetype) -> (Vec<Pfn>, AllocError) {
    let mut held = Vec::new();
    loop {
        match a.alloc(&CX, &Request::new(Order::ZERO, m)) {
            Ok(pfn) => held.push(pfn),
            Err(why) => return (held, why),
        }
    }
}

#[test]
fn only_movable_requests_get_what_is_lent() {
    for config in presets() {
        let a = machine(4, &config);
        let (unmovable, why) = take_all(&a, Unmovable);
        assert!(unmovable.iter().all(|pfn| !is_lent(*pfn, 4)), "{}", config.name);
        assert!(unmovable.len() as u64 > 11 * PAGEBLOCK, "{}: {}", config.name, unmovable.len());
        let kept = matches!(why, AllocError::BelowWatermark { .. });
        assert!(kept, "{}: what is lent is kept from it, so {why}", config.name);
        let (movable, _) = take_all(&a, Movable);
        assert!(movable.iter().all(|pfn| is_lent(*pfn, 4)), "{}", config.name);
        assert!(movable.len() as u64 > 3 * PAGEBLOCK, "{}: {}", config.name, movable.len());
        sound(&a);
    }
}

#[test]
fn what_is_lent_comes_last_or_while_it_is_half_of_what_is_free() {
    for config in presets() {
        // Ten of sixteen pageblocks: more than half.
        let a = machine(10, &config);
        let huge = || a.alloc(&CX, &request(9, Movable)).ok();
        let order: Vec<bool> = std::iter::from_fn(huge).map(|pfn| is_lent(pfn, 10)).collect();
        let lent = |n: usize| order[..n].iter().filter(|lent| **lent).count();
        match config.name {
            "linux-4.6" | "linux-4.10" => assert_eq!(lent(6), 0, "{}: {order:?}", config.name),
            // Until there are as many of either: ten, nine, ... of sixteen; from then on in turns.
            _ => assert_eq!((lent(4), lent(12)), (4, 8), "{}: {order:?}", config.name),
        }
    }
}

#[test]
fn a_lent_frame_goes_back_to_its_area_through_the_lists() {
    for config in presets() {
        let a = machine(4, &config);
        let before = a.zone_stats(ZoneId(0)).unwrap();
        let (held, _) = take_all(&a, Movable);
        assert!(held.iter().any(|pfn| is_lent(*pfn, 4)), "{}", config.name);
        for pfn in held {
            a.free(&CX, pfn, Order::ZERO).unwrap();
        }
        a.drain(CpuSet::All);
        let after = a.zone_stats(ZoneId(0)).unwrap();
        let lent = |s: &pageyard_core::stats::ZoneStats| {
            s.free_blocks.iter().enumerate().map(|(o, by)| by[Cma.index()] << o).sum::<u64>()
        };
        assert_eq!((lent(&before), lent(&after)), (4 * PAGEBLOCK, 4 * PAGEBLOCK), "{}", config.name);
        sound(&a);
    }
}

#[test]
fn a_lent_pageblock_stays_one_and_merges_with_no_other_kind() {
    for config in presets() {
        // The last pageblock alone is lent: its buddy is movable.
        let a = machine(1, &config);
        let (held, _) = take_all(&a, Unmovable);
        held.into_iter().for_each(|pfn| a.free(&CX, pfn, Order::ZERO).unwrap());
        a.drain(CpuSet::All);
        let stats = a.zone_stats(ZoneId(0)).unwrap();
        assert_eq!(stats.pageblocks[Cma.index()], 1, "{}", config.name);
        assert_eq!(stats.free_blocks[9][Cma.index()], 1, "{}", config.name);
        assert_eq!(stats.free_blocks[10][Cma.index()], 0, "{}", config.name);
        sound(&a);
    }
}

#[test]
fn compaction_that_does_not_wait_wants_room_beside_what_is_lent_for_a_large_block() {
    let begins = |needs_own: &str, order, m, mode| {
        let mut config = Config::linux_7_3();
        config.set("compaction.async_needs_own", needs_own).unwrap();
        let a = machine(10, &config);
        take_all(&a, Unmovable);
        suitability(&a, &Plan { goal: Goal::Block(Order::of(order), m), ..direct(order, mode) })
    };
    assert_eq!(begins("true", 4, Unmovable, Mode::Async), Some(Outcome::Skipped));
    for other in [
        begins("false", 4, Unmovable, Mode::Async),
        begins("true", 3, Unmovable, Mode::Async),
        begins("true", 4, Unmovable, Mode::SyncLight),
    ] {
        assert_eq!(other, None, "what moves may move there");
    }
    assert_eq!(begins("true", 4, Movable, Mode::Async), Some(Outcome::Success), "it may use what is lent");
}
