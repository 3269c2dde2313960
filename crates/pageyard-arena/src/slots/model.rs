//! Every interleaving of owners and compactions over one handle, on the transitions that ship. The list of free slots
//! has a model of its own: `head_model`.
//!
//! The protocol is one word that only read-modify-write operations change, so their order is all there is to vary; each
//! step below is one such operation, or one half of a copy or of an owner's write.

use super::slot::Slot;
use pageyard::{Order, Pfn};
use std::collections::HashSet;

/// A call of an owner on its handle.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Call {
    Write(u8),
    Read,
    Drop,
}

/// A thread: an owner with its calls, or a compaction that found the handle's frame and may move it to another.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Thread {
    Owner { calls: &'static [Call], step: u8, pfn: u8, saw: u8 },
    Compaction { from: u8, to: u8, step: u8, word: u64, first: u8, retried: bool },
    Done,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct World {
    slot: u64,
    /// The halves of each frame.
    frames: [[u8; 2]; 3],
    /// How often each frame was freed, and the slot released.
    freed: [u8; 3],
    released: u8,
    /// The last value written.
    latest: u8,
    threads: Vec<Thread>,
}

impl World {
    fn update(&mut self, change: impl Fn(Slot) -> Option<Slot>) -> Option<Slot> {
        let before = Slot(self.slot);
        self.slot = change(before)?.0;
        Some(before)
    }

    /// Frees the slot and the frame of a handle that is gone.
    fn free(&mut self, pfn: u8) {
        self.released += 1;
        self.freed[usize::from(pfn)] += 1;
    }

    /// Lets a thread take one step, if it has one left.
    fn step(&self, at: usize) -> Option<World> {
        let mut world = self.clone();
        let next = match self.threads[at] {
            Thread::Done => return None,
            Thread::Owner { calls, step, pfn, saw } => world.owner(calls, step, pfn, saw),
            Thread::Compaction { from, to, step, word, first, retried } => {
                world.compaction(from, to, step, word, first, retried)
            }
        };
        world.threads[at] = next;
        Some(world)
    }

    fn owner(&mut self, calls: &'static [Call], step: u8, pfn: u8, saw: u8) -> Thread {
        let Some((call, rest)) = calls.split_first() else { return Thread::Done };
        let on = |step, pfn, saw| Thread::Owner { calls, step, pfn, saw };
        let next = Thread::Owner { calls: rest, step: 0, pfn: 0, saw: 0 };
        match (*call, step) {
            (Call::Write(_) | Call::Read, 0) => {
                let before = self.update(Slot::pin).expect("few pins");
                on(1, before.pfn().0 as u8, 0)
            }
            (Call::Write(value), 1 | 2) => {
                self.frames[usize::from(pfn)][usize::from(step - 1)] = value;
                self.latest = value;
                on(step + 1, pfn, 0)
            }
            (Call::Read, 1) => on(2, pfn, self.frames[usize::from(pfn)][0]),
            (Call::Read, 2) => {
                let second = self.frames[usize::from(pfn)][1];
                assert_eq!((saw, second), (self.latest, self.latest), "{self:?}");
                on(3, pfn, saw)
            }
            (Call::Write(_) | Call::Read, _) => {
                self.update(|s| Some(s.unpin()));
                next
            }
            (Call::Drop, 0) => {
                let before = self.update(|s| Some(s.dropped())).expect("it is always possible");
                if before.is_isolated() { next } else { on(1, before.pfn().0 as u8, 0) }
            }
            (Call::Drop, _) => {
                self.free(pfn);
                next
            }
        }
    }

    fn compaction(&mut self, from: u8, to: u8, step: u8, word: u64, first: u8, retried: bool) -> Thread {
        let on = |step, word, first, retried| Thread::Compaction { from, to, step, word, first, retried };
        match step {
            0 => {
                let mine = |s: Slot| if s.pfn() == Pfn(u64::from(from)) { s.isolate() } else { None };
                if self.update(mine).is_some() { on(1, 0, 0, retried) } else { Thread::Done }
            }
            1 => match self.update(Slot::begin) {
                Some(before) => on(2, before.begin().expect("it was possible").0, 0, retried),
                None if Slot(self.slot).is_live() => on(5, 0, 0, retried),
                None => {
                    self.free(from);
                    Thread::Done
                }
            },
            2 => on(3, word, self.frames[usize::from(from)][0], retried),
            3 => {
                self.frames[usize::from(to)] = [first, self.frames[usize::from(from)][1]];
                on(4, word, 0, retried)
            }
            4 => {
                let moved = Slot(word).moved(Pfn(u64::from(to)));
                if let Some(moved) = moved
                    && self.slot == word
                {
                    self.slot = moved.0;
                    self.freed[usize::from(from)] += 1;
                    return Thread::Done;
                }
                match Slot(self.slot).is_live() {
                    true if retried => on(5, 0, 0, true),
                    true => on(1, 0, 0, true),
                    false => {
                        self.free(from);
                        Thread::Done
                    }
                }
            }
            _ => {
                let before = self.update(|s| Some(s.put_back())).expect("it is always possible");
                if !before.is_live() {
                    self.free(from);
                }
                Thread::Done
            }
        }
    }
}

/// Runs every interleaving; returns how many states there are, and whether some ended with the frame moved.
fn explore(threads: &[Thread], dropped: bool) -> (usize, bool) {
    let first = World {
        slot: Slot::new(Pfn(0), Order::ZERO).0,
        frames: [[9; 2], [0; 2], [0; 2]],
        freed: [0; 3],
        released: 0,
        latest: 9,
        threads: threads.to_vec(),
    };
    let (mut seen, mut todo, mut moved) = (HashSet::new(), vec![first], false);
    while let Some(world) = todo.pop() {
        let nexts: Vec<World> = (0..threads.len()).filter_map(|at| world.step(at)).collect();
        if nexts.is_empty() {
            let slot = Slot(world.slot);
            if dropped {
                assert!(!slot.is_live() && world.released == 1, "{world:?}");
                // The frame that the slot named last was freed, and each that it was moved from.
                let freed = &world.freed[..=slot.pfn().0 as usize];
                assert!(freed.iter().all(|n| *n == 1), "{world:?}");
            } else {
                assert!(
                    slot.is_live() && !slot.is_isolated() && slot.pins() == 0 && world.released == 0,
                    "{world:?}"
                );
                assert_eq!(world.frames[slot.pfn().0 as usize], [world.latest; 2], "{world:?}");
            }
            moved |= Slot(world.slot).pfn() != Pfn(0);
            assert!(world.freed.iter().all(|n| *n <= 1), "{world:?}");
        }
        todo.extend(nexts.into_iter().filter(|next| seen.insert(next.clone())));
    }
    (seen.len(), moved)
}

const fn owner(calls: &'static [Call]) -> Thread {
    Thread::Owner { calls, step: 0, pfn: 0, saw: 0 }
}

const fn compaction(from: u8, to: u8) -> Thread {
    Thread::Compaction { from, to, step: 0, word: 0, first: 0, retried: false }
}

#[test]
fn an_owner_sees_what_it_wrote_whatever_moves() {
    use Call::{Read, Write};
    let calls: &[Call] = &[Write(1), Read, Write(2), Read];
    let (states, moved) = explore(&[owner(calls), compaction(0, 1), compaction(1, 2)], false);
    assert!(moved && states > 300, "{states}");
}

#[test]
fn two_readers_see_the_same() {
    use Call::Read;
    let (states, moved) = explore(&[owner(&[Read, Read]), owner(&[Read, Read]), compaction(0, 1)], false);
    assert!(moved && states > 300, "{states}");
}

#[test]
fn a_handle_that_goes_gives_its_frame_and_its_slot_back_once() {
    use Call::{Drop, Read, Write};
    let calls: &[Call] = &[Write(1), Read, Drop];
    let (states, moved) = explore(&[owner(calls), compaction(0, 1), compaction(1, 2)], true);
    assert!(moved && states > 300, "{states}");
}
