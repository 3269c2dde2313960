//! Every interleaving of threads that take slots from the list and put them back, on the transitions that ship.
//!
//! A step is one access to memory: the head is read or replaced, a slot's word is read or written.

use super::head::{Head, next_of};
use super::slot::Slot;
use std::collections::HashSet;

/// Slots, and the bits that one of their numbers takes.
const SLOTS: u64 = 2;
const BITS: u32 = Head::bits(SLOTS);

/// A thread that takes a slot and puts it back, some times.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum At {
    Idle,
    /// It has read the head.
    Read(u64),
    /// It knows the slot after the first.
    Knows(u64, u64),
    Has(u64),
    /// It puts a slot back, and has read the head.
    Puts(u64, u64),
    /// It has noted the next slot.
    Noted(u64, u64),
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct World {
    head: u64,
    words: [u64; SLOTS as usize + 1],
    threads: Vec<(At, u8)>,
}

/// Replaces a head as the table does, or without counting the change.
type Replace = fn(Head, u64) -> Head;

impl World {
    fn step(&self, at: usize, replace: Replace) -> Option<World> {
        let mut world = self.clone();
        let (state, left) = self.threads[at];
        world.threads[at] = match state {
            At::Idle if left == 0 => return None,
            At::Idle => (At::Read(self.head), left),
            At::Read(head) => {
                let first = Head(head).first(BITS);
                assert!(first <= SLOTS, "a slot is lost: {self:?}");
                (At::Knows(head, next_of(first, Slot(self.words[first as usize]))), left)
            }
            At::Knows(head, next) if head == self.head => {
                world.head = replace(Head(head), next & ((1 << BITS) - 1)).0;
                let first = Head(head).first(BITS);
                world.words[first as usize] = Slot::new(pageyard::Pfn(first), pageyard::Order::ZERO).0;
                (At::Has(first), left)
            }
            At::Has(slot) => (At::Puts(slot, self.head), left),
            At::Puts(slot, head) => {
                world.words[slot as usize] = Slot::free(Head(head).first(BITS)).0;
                (At::Noted(slot, head), left)
            }
            At::Noted(slot, head) if head == self.head => {
                world.head = replace(Head(head), slot).0;
                (At::Idle, left - 1)
            }
            At::Knows(..) => (At::Read(self.head), left),
            At::Noted(slot, _) => (At::Puts(slot, self.head), left),
        };
        Some(world)
    }

    /// Returns the slots that threads have.
    fn held(&self) -> Vec<u64> {
        let slot = |(at, _): &(At, u8)| match *at {
            At::Has(slot) | At::Puts(slot, _) | At::Noted(slot, _) => Some(slot),
            _ => None,
        };
        self.threads.iter().filter_map(slot).collect()
    }

    /// Returns the slots that are on the list, or none where it does not end.
    fn listed(&self) -> Option<Vec<u64>> {
        let (mut listed, mut slot) = (Vec::new(), Head(self.head).first(BITS));
        while slot <= SLOTS {
            if listed.contains(&slot) {
                return None;
            }
            listed.push(slot);
            slot = next_of(slot, Slot(self.words[slot as usize]));
        }
        Some(listed)
    }
}

/// Runs every interleaving; returns how many states there are, or the first in which a slot has two owners or none.
fn explore(threads: &[u8], replace: Replace) -> Result<usize, World> {
    let threads = threads.iter().map(|rounds| (At::Idle, *rounds)).collect();
    let first = World { head: Head::NEW.0, words: [0; SLOTS as usize + 1], threads };
    let (mut seen, mut todo) = (HashSet::new(), vec![first]);
    while let Some(world) = todo.pop() {
        let all = world.listed().map(|listed| [listed, world.held()].concat());
        let mut all = all.ok_or_else(|| world.clone())?;
        all.sort_unstable();
        if !all.iter().copied().eq(1..=SLOTS) {
            return Err(world);
        }
        let nexts = (0..world.threads.len()).filter_map(|at| world.step(at, replace));
        todo.extend(nexts.filter(|next| seen.insert(next.clone())));
    }
    Ok(seen.len())
}

#[test]
fn a_slot_has_one_owner_or_is_on_the_list() {
    for threads in [&[4_u8, 4][..], &[6, 2], &[1, 5]] {
        let states =
            explore(threads, |head, first| head.becomes(first, BITS)).unwrap_or_else(|w| panic!("{w:?}"));
        assert!(states > 100, "{states}");
    }
}

#[test]
fn without_the_count_a_head_that_comes_back_hands_a_slot_out_twice() {
    let uncounted: Replace = |_, first| Head(first);
    assert!(explore(&[4, 4], uncounted).is_err());
}
