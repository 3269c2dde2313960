//! Exact numbers of frames: what is kept, and where the rest goes.

use crate::common::{CX, bare, normal, request, sound};
use pageyard_core::Migratetype::Movable;
use pageyard_core::{AllocError, BadRequest, Counter, CpuId, Frames, Order, PageAllocator, Pfn, ZoneId};
use pageyard_linux::{Config, LinuxAllocator};

fn machine(preset: &str) -> LinuxAllocator {
    normal(1 << 12, &bare(Config::preset(preset).unwrap()))
}

fn exact(a: &LinuxAllocator, frames: u64, align: u8) -> Result<Pfn, AllocError> {
    a.alloc_exact(&CX, Frames(frames), Order::of(align), &request(0, Movable))
}

/// Returns the free blocks of an order, next to be taken first.
fn free_list(a: &LinuxAllocator, order: u8) -> Vec<Pfn> {
    let zone = a.opening().zones.swap_remove(0);
    zone.free.into_iter().filter(|list| list.order == Order::of(order)).flat_map(|list| list.blocks).collect()
}

#[test]
fn what_is_behind_an_exact_request_goes_to_its_zone_at_the_lists_tail() {
    for preset in ["linux-6.1", "linux-6.12", "linux-6.18"] {
        let a = machine(preset);
        let first = exact(&a, 14, 0).unwrap();
        let second = exact(&a, 14, 0).unwrap();
        // 14 and 15 of each merge; the later ones are behind the earlier ones.
        assert_eq!(free_list(&a, 1), [first + Frames(14), second + Frames(14)], "{preset}");
        assert_eq!(a.pcp_stats(ZoneId(0), CpuId(0)).unwrap().count, 0, "{preset}");
        let stats = a.stats();
        assert_eq!((stats[Counter::Pgalloc], stats[Counter::Pgfree]), (32, 4), "{preset}");
        // 13 merges with nothing, and lies before 14.
        let third = exact(&a, 13, 0).unwrap();
        assert_eq!(free_list(&a, 0), [third + Frames(13)], "{preset}");
        assert_eq!(free_list(&a, 1).last(), Some(&(third + Frames(14))), "{preset}");
        sound(&a);
    }
}

#[test]
fn the_frames_of_an_exact_request_are_freed_one_by_one() {
    for preset in Config::PRESETS {
        let a = machine(preset);
        for frames in [1, 2, 3, 16, 513, 1024] {
            let first = exact(&a, frames, 0).unwrap();
            assert_eq!(a.audit().unwrap().allocated, Frames(frames), "{preset}");
            for i in 0..frames {
                assert_eq!(a.order_of(first + Frames(i)), Some(Order::ZERO), "{preset}: {i} of {frames}");
                a.free(&CX, first + Frames(i), Order::ZERO).unwrap();
            }
            assert_eq!(a.audit().unwrap().allocated, Frames::ZERO, "{preset}");
            sound(&a);
        }
    }
}

#[test]
fn an_exact_request_is_aligned_as_asked_and_refused_where_no_block_is_so_large() {
    let a = machine("linux-6.18");
    exact(&a, 1, 0).unwrap();
    let aligned = exact(&a, 3, 5).unwrap();
    assert!(aligned.is_aligned(Order::of(5)), "{aligned}");
    assert_eq!(a.audit().unwrap().allocated, Frames(4));
    for frames in [0, 1025] {
        let size = BadRequest::Size { frames: Frames(frames), most: Frames(1024) };
        assert_eq!(exact(&a, frames, 0), Err(size.into()));
    }
    let large = BadRequest::OrderTooLarge { order: Order::of(11), largest: Order::of(10) };
    assert_eq!(exact(&a, 1, 11), Err(large.into()));
    sound(&a);
}
