//! A full arena under compaction: handles are dropped and made while three threads isolate and move their frames.

use fastrand::Rng;
use pageyard::{Frames, Order, PerCpu};
use pageyard_arena::{Arena, Handle};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Size of the arena: two pageblocks.
const BYTES: usize = 4 << 20;
/// Threads that hold handles, and the least calls of each: it goes on until compactions had enough frames, or a minute
/// is over.
const HOLDERS: u64 = 3;
const CALLS: u64 = 100_000;
const ISOLATED: u64 = 10_000;
const MOST: Duration = Duration::from_secs(60);
/// Threads that compact.
const COMPACTORS: u64 = 3;

/// The totals of a run.
#[derive(Debug, Default)]
pub struct Handles {
    /// Handles made, requests refused because the arena was full, frames that compactions isolated, and blocks that
    /// they made room for.
    made: AtomicU64,
    refused: AtomicU64,
    isolated: AtomicU64,
    blocks: AtomicU64,
}

/// A handle, and what it holds at both ends.
struct Held<'a, P: PerCpu>(Handle<&'a Arena<P>>, u64);

impl<'a, P: PerCpu> Held<'a, P> {
    fn new(mut handle: Handle<&'a Arena<P>>, content: u64) -> Self {
        {
            let mut bytes = handle.pin_mut();
            bytes[..8].copy_from_slice(&content.to_ne_bytes());
            let end = bytes.len() - 8;
            bytes[end..].copy_from_slice(&content.to_ne_bytes());
        }
        Held(handle, content)
    }

    fn check(&self) {
        let bytes = self.0.pin();
        let ends = [&bytes[..8], &bytes[bytes.len() - 8..]];
        assert_eq!(ends, [&self.1.to_ne_bytes(); 2], "{:?} lost what it held", self.0);
    }
}

fn hold<P: PerCpu>(arena: &Arena<P>, me: u64, did: &Handles) {
    let _registered = pageyard_arena::rseq::register_thread();
    let (mut rng, mut held) = (Rng::with_seed(me), Vec::new());
    let start = Instant::now();
    for call in 0.. {
        let enough = call >= CALLS && did.isolated.load(Relaxed) >= ISOLATED;
        if enough || (call % 1024 == 0 && start.elapsed() > MOST) {
            break;
        }
        // Half of them are single frames.
        match arena.alloc_movable(Order::of(rng.u8(..8).saturating_sub(3))) {
            Ok(handle) => {
                held.push(Held::new(handle, call << 8 | me));
                did.made.fetch_add(1, Relaxed);
            }
            Err(_) => {
                did.refused.fetch_add(1, Relaxed);
                // A few at a time, so that it is soon full again.
                for _ in 0..rng.usize(1..12).min(held.len()) {
                    let gone = held.swap_remove(rng.usize(..held.len()));
                    gone.check();
                }
            }
        }
    }
    held.iter().for_each(Held::check);
}

fn compact<P: PerCpu>(arena: &Arena<P>, me: u64, did: &Handles, done: &AtomicBool) {
    let _registered = pageyard_arena::rseq::register_thread();
    let mut rng = Rng::with_seed(me);
    while !done.load(Relaxed) {
        did.isolated.fetch_add(arena.compact().1.isolated, Relaxed);
        if rng.u8(..16) == 0
            && let Ok(block) = arena.alloc_compacting(Order::of(rng.u8(1..6)))
        {
            did.blocks.fetch_add(1, Relaxed);
            drop(block);
        }
    }
}

/// Runs it, and checks that every handle kept its content and that nothing is lost.
pub fn run<P: PerCpu + Send + Sync>(arena: &Arena<P>) -> Handles {
    let (did, done) = (Handles::default(), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let holders: Vec<_> = (0..HOLDERS)
            .map(|me| {
                scope.spawn({
                    let did = &did;
                    move || hold(arena, me, did)
                })
            })
            .collect();
        for me in HOLDERS..HOLDERS + COMPACTORS {
            let (did, done) = (&did, &done);
            scope.spawn(move || compact(arena, me, did, done));
        }
        let ended: Vec<_> = holders.into_iter().map(|holder| holder.join()).collect();
        done.store(true, Relaxed);
        assert!(ended.iter().all(Result::is_ok), "a thread that makes and drops handles panicked");
    });
    let census = arena.audit().expect("the audit finds nothing wrong");
    assert_eq!(census.allocated, Frames(0), "every handle was dropped: {did:?}");
    assert_eq!(census.free + census.cached, census.managed, "no frame is lost: {did:?}");
    did
}

impl Handles {
    /// Checks that the arena was full, and that compactions had frames of handles.
    pub fn is_strong(&self) {
        let [made, refused, isolated] = [&self.made, &self.refused, &self.isolated].map(|n| n.load(Relaxed));
        let strong = made > CALLS && refused > 1_000 && isolated >= ISOLATED;
        assert!(strong, "the storm was too weak: {self:?}");
    }
}

/// Makes the arena.
pub fn builder<'a>() -> pageyard_arena::ArenaBuilder<'a> {
    Arena::builder().size(BYTES)
}
