//! Ranges in threads: parts of one block freed by several owners at a time, and every other call beside them.

use crate::ranges::machine;
use pageyard::engine::Visit;
use pageyard::{
    BlockId, CpuId, CpuSet, Cx, FrameRange, Frames, FreeError, Migratetype, Order, OwnedPageyard, Pfn,
    RangeFault, Request, RequestFlags, TryLock,
};
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

const THREADS: u32 = 4;
const LAPS: u32 = if cfg!(miri) { 4 } else { 2000 };
const ALL: u64 = 8 * 512;

fn movable(order: u8) -> Request {
    Request::new(Order::of(order), Migratetype::Movable).with(RequestFlags::MEMALLOC)
}

/// Frees a range that is the caller's, again where another owner was splitting the block at that moment; returns how
/// many frames it freed, and where it found that they were not the caller's.
fn free(yard: &OwnedPageyard<TryLock>, cpu: u32, first: u64, frames: u64) -> (u64, Option<FreeError>) {
    let mut freed = 0;
    while freed < frames {
        match yard.free_range(&Cx::on(CpuId(cpu)), Pfn(first + freed), Frames(frames - freed)) {
            Ok(()) => freed = frames,
            Err(error) => {
                freed += error.freed.0;
                match error.why {
                    RangeFault::Free(FreeError::Busy) => std::thread::yield_now(),
                    RangeFault::Free(why) => return (freed, Some(why)),
                    why => panic!("{why}"),
                }
            }
        }
    }
    (freed, None)
}

fn whole(yard: &OwnedPageyard<TryLock>) {
    yard.drain(CpuSet::All);
    let census = yard.audit().unwrap();
    assert_eq!(census.free, census.managed, "nothing is lost: {census:?}");
}

#[test]
fn owners_of_parts_of_one_block_free_them_at_the_same_time() {
    let yard = &machine(true);
    let barrier = &Barrier::new(THREADS as usize);
    for (lap, order) in (0..LAPS).zip([2, 3, 6, 8, 9, 10, 11].into_iter().cycle()) {
        let cx = Cx::on(CpuId(lap % THREADS));
        let first = yard.alloc(&cx, &movable(order)).unwrap().0;
        let size = 1 << order;
        // Cuts at odd places, one part for each thread.
        let cut =
            |n: u64| first + (n * size / u64::from(THREADS)) / 2 * 2 + u64::from(n > 0 && n < 4 && size > 8);
        std::thread::scope(|s| {
            for cpu in 0..THREADS {
                s.spawn(move || {
                    let (from, to) = (cut(cpu.into()), cut(u64::from(cpu) + 1).min(first + size));
                    barrier.wait();
                    assert_eq!(free(yard, cpu, from, to - from), (to - from, None), "lap {lap}");
                });
            }
        });
        assert_eq!(yard.audit().unwrap().allocated, Frames::ZERO, "lap {lap}");
    }
    whole(yard);
}

#[test]
fn of_several_frees_of_one_range_each_frame_has_one_winner() {
    let yard = &machine(true);
    let barrier = &Barrier::new(THREADS as usize);
    for lap in 0..LAPS / 2 {
        let frames = 40 + u64::from(lap % 700);
        let first = yard.alloc_exact(&Cx::on(CpuId(0)), Frames(frames), Order::ZERO, &movable(0)).unwrap();
        let freed = &AtomicU64::new(0);
        std::thread::scope(|s| {
            for cpu in 0..THREADS {
                s.spawn(move || {
                    barrier.wait();
                    // Over each other, from different places.
                    let from = u64::from(cpu) * 7;
                    let (n, _) = free(yard, cpu, first.0 + from, frames - from);
                    freed.fetch_add(n, Relaxed);
                });
            }
        });
        let left: Vec<u64> =
            (first.0..first.0 + frames).filter(|pfn| yard.order_of(Pfn(*pfn)).is_some()).collect();
        for pfn in left {
            let order = yard.order_of(Pfn(pfn)).unwrap();
            assert_eq!(free(yard, 0, pfn, order.frames().0), (order.frames().0, None));
            freed.fetch_add(order.frames().0, Relaxed);
        }
        assert_eq!(freed.load(Relaxed), frames, "lap {lap}: each frame was freed once");
        assert_eq!(yard.audit().unwrap().allocated, Frames::ZERO);
    }
    whole(yard);
}

/// Which frames are owned: noted by the owner, after it got them and before it gives them up.
struct Books(Vec<AtomicBool>);

impl Books {
    fn note(&self, range: FrameRange, owned: bool) {
        for frame in &self.0[range.first.0 as usize..(range.first.0 + range.frames.0) as usize] {
            assert_ne!(frame.swap(owned, Relaxed), owned, "{range}: one owner at a time");
        }
    }
}

fn calls(yard: &OwnedPageyard<TryLock>, books: &Books, cpu: u32) -> Vec<FrameRange> {
    let (cx, mut random) = (Cx::on(CpuId(cpu)), fastrand::Rng::with_seed(cpu.into()));
    let mut held: Vec<FrameRange> = Vec::new();
    for _ in 0..LAPS * 4 {
        let before = held.len();
        match random.u32(..10) {
            0 | 1 => {
                let (frames, align) = (Frames(1 + random.u64(..600)), Order::of(random.u8(..7)));
                let got = yard.alloc_exact(&cx, frames, align, &movable(0));
                held.extend(got.ok().map(|first| FrameRange::new(first, frames)));
            }
            2 => {
                let mut out = [FrameRange::default(); 6];
                let frames = Frames(1 + random.u64(..300));
                let got = yard.alloc_frames(&cx, frames, Order::of(random.u8(..4)), &movable(0), &mut out);
                held.extend(&out[..got.unwrap_or(0)]);
            }
            3 => {
                let order = random.u8(..10);
                let got = yard.alloc(&cx, &movable(order));
                held.extend(got.ok().map(|pfn| FrameRange::new(pfn, Order::of(order).frames())));
            }
            4 => {
                let mut left = 3;
                let visit = |block: BlockId| {
                    left -= 1;
                    let range = FrameRange::new(block.pfn, block.order.frames());
                    books.note(range, true);
                    books.note(range, false);
                    if left < 0 {
                        Visit::Return
                    } else {
                        held.push(range);
                        Visit::Keep
                    }
                };
                let (least, from) = (Order::of(random.u8(..11)), Pfn(random.u64(..ALL)));
                yard.visit_free_blocks(&cx, least, from, Frames(512), visit).unwrap();
            }
            5 => drop(yard.drain(CpuSet::All)),
            _ if !held.is_empty() => {
                // All of it, or a part from either end.
                let at = random.usize(..held.len());
                let FrameRange { first, frames } = held[at];
                let n = if random.bool() { frames.0 } else { 1 + random.u64(..frames.0) };
                let (part, rest) = match random.bool() {
                    true => (
                        FrameRange::new(first, Frames(n)),
                        FrameRange::new(Pfn(first.0 + n), Frames(frames.0 - n)),
                    ),
                    false => {
                        let rest = Frames(frames.0 - n);
                        (FrameRange::new(first + rest, Frames(n)), FrameRange::new(first, rest))
                    }
                };
                held.swap_remove(at);
                books.note(part, false);
                assert_eq!(free(yard, cpu, part.first.0, n), (n, None), "{part}");
                if rest.frames > Frames::ZERO {
                    held.push(rest);
                }
                continue;
            }
            _ => {}
        }
        held[before..].iter().for_each(|range| books.note(*range, true));
    }
    held
}

#[test]
fn every_call_on_ranges_at_once() {
    for pcp in [true, false] {
        let yard = &machine(pcp);
        let books = &Books((0..ALL).map(|_| AtomicBool::new(false)).collect());
        let held: Vec<FrameRange> = std::thread::scope(|s| {
            let threads: Vec<_> = (0..THREADS).map(|cpu| s.spawn(move || calls(yard, books, cpu))).collect();
            threads.into_iter().flat_map(|t| t.join().unwrap()).collect()
        });
        let census = yard.audit().unwrap();
        assert!(census.is_conserved());
        assert_eq!(census.allocated, held.iter().map(|range| range.frames).sum());
        for range in held {
            assert_eq!(free(yard, 0, range.first.0, range.frames.0), (range.frames.0, None));
        }
        whole(yard);
    }
}
