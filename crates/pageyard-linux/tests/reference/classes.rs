//! Fallback by placement classes, worked by hand.

use crate::common::{CX, bare, blocks, give, normal, pageblocks, sound, take};
use pageyard_core::Migratetype::{Movable, Reclaimable, Unmovable};
use pageyard_core::{Counter, Order, PageAllocator, Pfn, Request, RequestFlags};
use pageyard_linux::{Config, LinuxAllocator};

/// A zone of so many frames.
fn by_class(frames: u64) -> LinuxAllocator {
    let mut config = bare(Config::linux_7_3());
    config.set("fallback", "classes").unwrap();
    normal(frames, &config)
}

#[test]
fn what_cannot_be_moved_takes_over_a_pageblock_whatever_it_holds() {
    let a = by_class(1024);
    let held: Vec<Pfn> = (0..64).map(|_| take(&a, 4, Movable)).collect();
    // One block in 32 of each pageblock is free: Linux would take a frame and leave the rest as it is.
    [held[5], held[40]].iter().for_each(|pfn| give(&a, *pfn, 4));
    take(&a, 0, Unmovable);
    assert_eq!((pageblocks(&a, Unmovable), pageblocks(&a, Movable)), (1, 1));
    assert_eq!((blocks(&a, 3, Unmovable), blocks(&a, 4, Movable)), (1, 1));
    let stats = a.stats();
    assert_eq!((stats[Counter::ExtfragClaim], stats[Counter::ExtfragSteal]), (1, 0));
    sound(&a);
}

#[test]
fn types_that_cannot_be_moved_share_pageblocks_before_they_take_a_free_one() {
    let a = by_class(2048);
    let first = take(&a, 4, Unmovable);
    let second = take(&a, 4, Reclaimable);
    assert_eq!((first.0 / 512, pageblocks(&a, Reclaimable)), (second.0 / 512, 0));
    assert_eq!(a.stats()[Counter::ExtfragSteal], 1);
    // A request for a whole pageblock takes a free one.
    take(&a, 9, Reclaimable);
    assert!(pageblocks(&a, Reclaimable) > 0);
    sound(&a);
}

#[test]
fn what_can_be_moved_takes_free_pageblocks_and_then_single_blocks_of_others() {
    let a = by_class(1024);
    let one = take(&a, 4, Unmovable);
    assert_eq!(pageblocks(&a, Unmovable), 2);
    // The other pageblock is free, so it becomes movable; the first one stays what it is.
    let held: Vec<Pfn> = (0..32).map(|_| take(&a, 4, Movable)).collect();
    assert_eq!((pageblocks(&a, Unmovable), pageblocks(&a, Movable)), (1, 1));
    assert!(held.iter().all(|pfn| pfn.0 / 512 != one.0 / 512));
    let another = take(&a, 4, Movable);
    assert_eq!((pageblocks(&a, Unmovable), a.stats()[Counter::ExtfragSteal]), (1, 1));
    // The smallest block was taken, the one beside the first.
    assert_eq!(another.0, one.0 ^ 16);
    sound(&a);
}

#[test]
fn a_first_attempt_mixes_no_classes() {
    let mut config = bare(Config::linux_6_18());
    config.set("fallback", "classes").unwrap();
    config.set("defrag_mode", "1").unwrap();
    let a = normal(1024, &config);
    let held: Vec<Pfn> = (0..1024).map(|_| take(&a, 0, Movable)).collect();
    held.iter().step_by(2).for_each(|pfn| give(&a, *pfn, 0));
    let atomic = Request::new(Order::ZERO, Unmovable).with(RequestFlags::HIGH | RequestFlags::NON_BLOCKING);
    assert!(a.alloc(&CX, &atomic).is_err());
    sound(&a);
}
