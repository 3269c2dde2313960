//! Fragments an arena and compacts it, again and again, while four threads read and write what moves. Says how many
//! free blocks of 2 MiB there were after each compaction, as a share of what the frames in use leave room for.
//!
//!     cargo run --release -p pageyard-arena --example handles [CYCLES]

use pageyard::{Order, PAGEBLOCK_ORDER, TryLock};
use pageyard_arena::backing::Prefault;
use pageyard_arena::{Arena, Handle};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Instant;

const BYTES: usize = 256 << 20;
const THREADS: u64 = 4;
/// Handles that each thread keeps about.
const KEPT: usize = 400;
/// Frames that a cycle takes; it keeps one in eight, so that no block of 2 MiB stays free among them.
const SCATTERED: usize = 40_000;

/// Stamps the first and the last word of a frame.
fn stamp(handle: &mut Handle<&Arena<TryLock>>, stamp: u64) {
    let mut pinned = handle.pin_mut();
    pinned[..8].copy_from_slice(&stamp.to_ne_bytes());
    pinned[4088..].copy_from_slice(&stamp.to_ne_bytes());
}

fn check(handle: &Handle<&Arena<TryLock>>, stamp: u64) {
    let (pinned, bytes) = (handle.pin(), stamp.to_ne_bytes());
    assert!(pinned[..8] == bytes && pinned[4088..] == bytes, "frame {:?} lost what it held", handle.pfn());
}

/// Takes, reads, writes and drops handles until it is told to stop; returns how often it wrote.
fn work(arena: &Arena<TryLock>, seed: u64, live: &AtomicU64, done: &AtomicBool) -> u64 {
    let (mut rng, mut held, mut writes) = (fastrand::Rng::with_seed(seed), Vec::new(), 0);
    while !done.load(Relaxed) {
        if held.len() < KEPT {
            if let Ok(mut handle) = arena.alloc_movable(Order::ZERO) {
                let first = rng.u64(..);
                stamp(&mut handle, first);
                held.push((first, handle));
                live.fetch_add(1, Relaxed);
            }
        } else if rng.u8(..8) == 0 {
            drop(held.swap_remove(rng.usize(..held.len())));
            live.fetch_sub(1, Relaxed);
        }
        let at = rng.usize(..held.len().max(1));
        if let Some((last, handle)) = held.get_mut(at) {
            check(handle, *last);
            *last = rng.u64(..);
            stamp(handle, *last);
            writes += 1;
        }
    }
    held.iter().for_each(|(last, handle)| check(handle, *last));
    writes
}

fn main() {
    let cycles: usize = std::env::args().nth(1).map_or(1000, |n| n.parse().expect("a number of cycles"));
    let prefault = Prefault { threads: 1, progress: &|_, _| () };
    let arena: Arena<TryLock> =
        Arena::builder().size(BYTES).prefault(prefault).build_locked().expect("an arena of 256 MiB");
    let huge = PAGEBLOCK_ORDER.frames().0;
    let all = arena.mapping().frames().0 / huge;
    let (live, done) = (AtomicU64::new(0), AtomicBool::new(false));
    let (mut shares, mut moved, mut failed) = (Vec::new(), 0, 0);
    let start = Instant::now();
    let writes: u64 = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|seed| {
                scope.spawn({
                    let (a, l, d) = (&arena, &live, &done);
                    move || work(a, seed, l, d)
                })
            })
            .collect();
        for cycle in 0..cycles {
            let scattered: Vec<_> =
                (0..SCATTERED).filter_map(|_| arena.alloc_movable(Order::ZERO).ok()).collect();
            let kept: Vec<_> =
                scattered.into_iter().enumerate().filter(|(n, _)| n % 8 == cycle % 8).collect();
            let (_, work) = arena.compact();
            let free: Vec<_> = std::iter::from_fn(|| arena.alloc(PAGEBLOCK_ORDER).ok()).collect();
            let used = (live.load(Relaxed) + kept.len() as u64).div_ceil(huge);
            shares.push(100.0 * free.len() as f64 / (all - used) as f64);
            (moved, failed) = (moved + work.moved, failed + work.failed);
            drop((free, kept));
        }
        done.store(true, Relaxed);
        threads.into_iter().map(|thread| thread.join().expect("what was written was read")).sum()
    });
    let seconds = start.elapsed().as_secs_f64();
    shares.sort_by(f64::total_cmp);
    let least = shares.first().copied().unwrap_or(0.0);
    let median = shares.get(shares.len() / 2).copied().unwrap_or(0.0);
    println!("{cycles} cycles in {seconds:.1} s: {writes} writes by {THREADS} threads, each read back");
    println!(
        "free blocks of 2 MiB after a compaction, of those that frames in use leave room for: median {median:.1} %, least {least:.1} %"
    );
    println!("frames moved {moved}, not moved {failed}");
    let order = Order::of(arena.mapping().frames().0.ilog2() as u8);
    arena.alloc_compacting(order).map(drop).expect("nothing is lost: all of it is one block again");
    arena.audit().expect("the metadata agree");
}
