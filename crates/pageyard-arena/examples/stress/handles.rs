//! A storm of handles: threads make, read, write, hand over and drop the movable pages of a full arena. Meanwhile they
//! compact it, purge it, and take blocks and pages that do not move.
//!
//! Rules: a page holds what was written to it last, wherever it has moved; a pinned one stays where it is; all frames
//! are free once everything was dropped.

use fastrand::Rng;
use pageyard::{Frames, Order, PAGE_SIZE, PerCpu};
use pageyard_arena::{Arena, Handle};
use pageyard_testkit::storm::{self, Make, Plan, Variant};
use std::sync::Mutex;

/// Sizes of the arenas: two pageblocks, five, and sixteen.
const BYTES: [usize; 3] = [4 << 20, 10 << 20, 32 << 20];
/// Operations of a thread in a round.
const CALLS: u64 = 50_000;
/// Pages that a thread keeps at most, drawn for each: all that it gets, or so few that memory stays free to be purged
/// and compacted. Of few, half are large: they take long to copy, and are written to meanwhile.
const KEPT: [usize; 3] = [usize::MAX, 100, 10];
/// Pages that wait for another thread.
const WAITING: usize = 64;

pageyard_testkit::totals! {
    /// The totals of a storm.
    pub struct Handles {
        /// Rounds, and operations.
        pub rounds: u64,
        pub operations: u64,
        /// Pages made, and requests that were refused.
        pub made: u64,
        pub refused: u64,
        /// Pages that another thread got.
        pub handed_over: u64,
        /// Frames that compactions isolated, moved, and could not move.
        pub isolated: u64,
        pub moved: u64,
        pub given_up: u64,
        /// Blocks that compactions made room for.
        pub blocks: u64,
        /// Frames that went back to the host.
        pub purged: u64,
    }
}

/// A page, and what it holds at both ends of each frame.
struct Held<'a, P: PerCpu>(Handle<&'a Arena<P>>, u64);

/// Writes a word to both ends of each frame.
fn stamp(bytes: &mut [u8], word: u64) {
    for frame in bytes.chunks_exact_mut(PAGE_SIZE as usize) {
        frame[..8].copy_from_slice(&word.to_ne_bytes());
        frame[PAGE_SIZE as usize - 8..].copy_from_slice(&word.to_ne_bytes());
    }
}

/// Returns whether the word is at both ends of each frame.
fn is_stamped(bytes: &[u8], word: u64) -> bool {
    let word = word.to_ne_bytes();
    bytes.chunks_exact(PAGE_SIZE as usize).all(|frame| frame.starts_with(&word) && frame.ends_with(&word))
}

impl<'a, P: PerCpu> Held<'a, P> {
    fn new(mut handle: Handle<&'a Arena<P>>, word: u64) -> Self {
        stamp(&mut handle.pin_mut(), word);
        Held(handle, word)
    }

    fn check(&self) {
        assert!(is_stamped(&self.0.pin(), self.1), "{:?} lost what it held", self.0);
    }
}

/// A thread of a round.
struct Thread<'w, 'a, P: PerCpu> {
    arena: &'a Arena<P>,
    /// Pages that wait for another thread.
    waiting: &'w Mutex<Vec<Held<'a, P>>>,
    rng: Rng,
    held: Vec<Held<'a, P>>,
    most: usize,
    /// A word that no page had.
    word: u64,
    did: Handles,
}

impl<'a, P: PerCpu> Thread<'_, 'a, P> {
    fn run(mut self) -> Handles {
        for _ in 0..CALLS {
            match self.rng.u8(..) {
                0 => self.compact(),
                1 => self.compact_pinned(),
                2 => self.take_block(),
                3..=4 => self.take_pages(),
                5 => self.purge(),
                6..=20 => self.hand_over(),
                21..=35 => self.take_over(),
                36..=75 => self.rewrite(),
                76..=85 => self.number(),
                _ => self.make(),
            }
        }
        self.held.iter().for_each(Held::check);
        self.did.operations = CALLS;
        self.did
    }

    fn next_word(&mut self) -> u64 {
        self.word += 1 << 8;
        self.word
    }

    /// Takes one of its pages out.
    fn one(&mut self) -> Option<Held<'a, P>> {
        let n = self.held.len();
        (n > 0).then(|| self.held.swap_remove(self.rng.usize(..n)))
    }

    fn make(&mut self) {
        let is_large = self.most < 100 && self.rng.bool();
        // Of the others half are single frames.
        let order = if is_large { self.rng.u8(5..9) } else { self.rng.u8(..8).saturating_sub(3) };
        match self.arena.alloc_movable(Order::of(order)) {
            Ok(handle) => {
                let word = self.next_word();
                self.held.push(Held::new(handle, word));
                self.did.made += 1;
                if self.held.len() > self.most {
                    self.drop_some();
                }
            }
            Err(_) => {
                self.did.refused += 1;
                self.drop_some();
            }
        }
    }

    /// Drops a few pages, so that there are soon as many again.
    fn drop_some(&mut self) {
        for _ in 0..self.rng.usize(1..12) {
            let Some(gone) = self.one() else { break };
            gone.check();
        }
    }

    fn rewrite(&mut self) {
        let Some(mut held) = self.one() else { return };
        for _ in 0..self.rng.usize(1..4) {
            held.check();
            held.1 = self.next_word();
            stamp(&mut held.0.pin_mut(), held.1);
        }
        self.held.push(held);
    }

    /// Gives a page up for its number, and takes it back.
    fn number(&mut self) {
        let Some(Held(handle, word)) = self.one() else { return };
        let number = handle.into_raw();
        // SAFETY: it is the number of a handle of this arena, for the first time.
        let handle = unsafe { Handle::from_raw_in(self.arena, number) }.expect("the number is a handle's");
        self.held.push(Held(handle, word));
    }

    fn hand_over(&mut self) {
        let Some(held) = self.one() else { return };
        let mut waiting = self.waiting.lock().expect("no thread panics while it has the lock");
        // Where enough wait, it is dropped.
        if waiting.len() < WAITING {
            waiting.push(held);
        }
    }

    fn take_over(&mut self) {
        let held = self.waiting.lock().expect("no thread panics while it has the lock").pop();
        let Some(held) = held else { return };
        held.check();
        self.held.push(held);
        self.did.handed_over += 1;
    }

    fn compact(&mut self) {
        let (_, work) = self.arena.compact();
        self.did.isolated += work.isolated;
        self.did.moved += work.moved;
        self.did.given_up += work.failed;
    }

    /// Compacts while one of its pages is pinned twice.
    fn compact_pinned(&mut self) {
        let Some(held) = self.one() else { return };
        {
            let (one, two) = (held.0.pin(), held.0.pin());
            let pfn = held.0.pfn();
            self.compact();
            assert_eq!(held.0.pfn(), pfn, "it moved while it was pinned");
            assert!(
                is_stamped(&one, held.1) && one.as_ptr() == two.as_ptr(),
                "{:?} lost what it held",
                held.0
            );
        }
        self.held.push(held);
    }

    fn take_block(&mut self) {
        let word = self.next_word();
        let Ok(mut block) = self.arena.alloc_compacting(Order::of(self.rng.u8(1..6))) else { return };
        self.did.blocks += 1;
        stamp(&mut block, word);
        self.rewrite();
        assert!(is_stamped(&block, word), "{:?} lost what it held", block.pfn());
    }

    fn take_pages(&mut self) {
        let word = self.next_word();
        let frames = self.rng.u64(2..20);
        let Ok(mut pages) = self.arena.alloc_bytes((frames * PAGE_SIZE) as usize) else { return };
        stamp(&mut pages, word);
        let at = Frames(self.rng.u64(1..frames));
        let (one, two) = pages.split_at(at).map_err(drop).expect("both have frames");
        drop(one);
        self.make();
        assert!(is_stamped(&two, word), "{:?} lost what it held", two.pfn());
    }

    fn purge(&mut self) {
        let purged = self.arena.purge(Frames(64)).expect("the host takes frames back");
        self.did.purged += purged.0;
    }
}

/// Runs it until the plan ends it. The variant's threads register themselves; [`Naming::Own`](storm::Naming::Own) is
/// for threads that stay on a CPU each.
///
/// # Panics
/// Where a rule is broken.
pub fn run<P: PerCpu>(plan: &Plan, variant: &Variant<'_, P>) -> Handles {
    let Make::Pageyard(percpu) = variant.make else { unreachable!("handles are Pageyard's") };
    let (threads, enter) = (u64::from(variant.threads.unwrap_or(plan.threads)), variant.enter);
    storm::rounds(plan, variant.name, |turn, total: &mut Handles| {
        let bytes = BYTES[turn.number as usize % BYTES.len()];
        let arena = Arena::builder().size(bytes).build_with(percpu()).expect("an arena of a few MiB");
        let waiting = Mutex::new(Vec::new());
        std::thread::scope(|scope| {
            let running: Vec<_> = (0..threads)
                .map(|me| {
                    let (arena, waiting) = (&arena, &waiting);
                    scope.spawn(move || {
                        let _guard = enter();
                        let mut rng = Rng::with_seed(turn.seed ^ me);
                        let most = KEPT[rng.usize(..KEPT.len())];
                        let (held, did) = (Vec::new(), Handles::default());
                        Thread { arena, waiting, rng, held, most, word: me, did }.run()
                    })
                })
                .collect();
            let ended: Vec<_> = running.into_iter().map(|thread| thread.join()).collect();
            let did = ended.into_iter().map(|did| did.expect("no thread of the storm panics"));
            did.for_each(|did| *total += did);
        });
        let left = waiting.into_inner().expect("no thread panics while it has the lock");
        left.iter().for_each(Held::check);
        drop(left);
        let census = arena.audit().expect("the audit finds nothing wrong");
        assert_eq!(census.allocated, Frames::ZERO, "everything was dropped");
        assert_eq!(census.free + census.cached, census.managed, "no frame is lost");
        total.rounds += 1;
        false
    })
}
