//! Every state that the rules can reach, of two small pageblocks, three threads and up to three lists.
//!
//! Threads make steps in any order, as many as they like: claims of single frames, pairs and whole pageblocks, steals,
//! refills, frees, splits, drains and isolations, begun and given up at any step, are all among what they can do. A
//! thread is kept from having more in hand than a call needs: two frames, claimed or reserved, or one pageblock.
//!
//! States that differ only in the names of threads, lists, pageblocks, or of frames that no rule tells apart, count as
//! one.

use crate::rules::{Fault, Frame, Holder, Machine, Mistakes, PAGEBLOCKS, Pageblock, Step, THREADS, Tag};
use std::collections::HashSet;
use std::hash::{BuildHasherDefault, Hasher};

/// The most lists.
const LISTS: usize = 3;
/// Frames in the hands of a call, unless it has a pageblock.
const HAND: usize = 2;
/// Frames that a list keeps, unless it keeps a pageblock.
const ROOM: usize = 2;

/// The calls that threads may make.
#[derive(Clone, Copy, Default)]
pub struct Calls {
    /// Requests of two types, so that pageblocks are stolen.
    pub steal: bool,
    /// Lists that there are, up to three, each under its lock; any thread may use or drain any of them.
    pub lists: usize,
    /// Pageblocks are isolated and restored.
    pub isolate: bool,
    pub mistakes: Mistakes,
    /// A mistake: a push asks whether its pageblock is isolated before it has the lock.
    pub asks_too_early: bool,
}

/// A machine, and the locks of its lists.
#[derive(Clone)]
struct State<const FRAMES: usize> {
    machine: Machine<FRAMES>,
    locked_by: [Option<u8>; LISTS],
    /// Pageblocks, a bit each, that the lock's holder has found not isolated.
    asked: [u8; LISTS],
}

/// An act of a thread: a step, or an act on a list's lock around steps.
#[derive(Clone, Copy, Debug)]
enum Act {
    Step(Step),
    Lock(usize),
    Unlock(usize),
    Ask(usize, usize),
}

/// The result of an exploration.
pub struct Explored {
    pub states: usize,
    pub steps: u64,
    /// How many kinds of steps were made.
    pub kinds: usize,
    /// The first step that breaks something, and where.
    pub broken: Option<String>,
}

/// A quick hash of keys that are spread already by being multiplied.
#[derive(Default)]
struct Spread(u64);

impl Hasher for Spread {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _: &[u8]) {
        unreachable!("keys are of one type");
    }

    fn write_u128(&mut self, key: u128) {
        let mixed = (key as u64 ^ (key >> 64) as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = mixed ^ mixed >> 29 ^ (key as u64).rotate_left(32).wrapping_mul(0xd6e8_feb8_6659_fd93);
    }
}

/// Visits every state that can be reached, or stops at the first step that breaks something.
pub fn explore<const FRAMES: usize>(calls: Calls) -> Explored {
    let mut machine = Machine::<FRAMES>::new(0);
    machine.mistakes = calls.mistakes;
    let first = State { machine, locked_by: [None; LISTS], asked: [0; LISTS] };
    let mut seen: HashSet<u128, BuildHasherDefault<Spread>> = HashSet::default();
    let mut edge = vec![first.key()];
    seen.insert(edge[0]);
    let (mut steps, mut kinds) = (0, HashSet::new());
    let mut acts = Vec::new();
    while let Some(key) = edge.pop() {
        let state = State::<FRAMES>::of_key(key, calls.mistakes);
        for thread in 0..THREADS {
            acts.clear();
            state.acts(thread, calls, &mut acts);
            for act in &acts {
                let mut next = state.clone();
                let made =
                    next.act(thread, *act, calls).and_then(|()| next.machine.check().map_err(Fault::Broken));
                match made {
                    Ok(()) => {}
                    Err(Fault::Refused(_)) => continue,
                    Err(fault) => {
                        let broken = Some(format!(
                            "thread {thread}, {act:?}: {fault}\n{}\n{}",
                            state.machine.describe(0),
                            state.machine.describe(FRAMES - 1)
                        ));
                        return Explored { states: seen.len(), steps, kinds: kinds.len(), broken };
                    }
                }
                steps += 1;
                let key = next.key();
                if seen.insert(key) {
                    edge.push(key);
                    if let Act::Step(step) = act {
                        kinds.insert(std::mem::discriminant(step));
                    }
                }
            }
        }
    }
    Explored { states: seen.len(), steps, kinds: kinds.len(), broken: None }
}

impl<const FRAMES: usize> State<FRAMES> {
    const PAGEBLOCK: usize = Machine::<FRAMES>::PAGEBLOCK;

    /// Makes what a thread does.
    fn act(&mut self, thread: usize, act: Act, calls: Calls) -> Result<(), Fault> {
        let holder = Some(thread as u8);
        let need = |holds: bool, why| if holds { Ok(()) } else { Err(Fault::Refused(why)) };
        match act {
            Act::Lock(list) => {
                need(self.locked_by[list].is_none(), "the list is in use")?;
                self.locked_by[list] = holder;
                for pageblock in 0..PAGEBLOCKS {
                    self.machine.sweep(pageblock, 1 << list);
                }
                Ok(())
            }
            Act::Unlock(list) => {
                self.locked_by[list] = None;
                self.asked[list] = 0;
                Ok(())
            }
            Act::Ask(list, pageblock) => {
                need(!self.machine.pageblocks[pageblock].is_isolated, "it is isolated")?;
                self.asked[list] |= 1 << pageblock;
                Ok(())
            }
            Act::Step(step) => {
                if let Step::Push { frame, list, .. } = step {
                    let asked = self.asked[usize::from(list)] >> (frame / Self::PAGEBLOCK) & 1 != 0;
                    need(asked || !calls.isolate, "whether it is isolated was not asked")?;
                }
                self.machine.apply(thread, step)
            }
        }
    }

    /// Adds what a thread may try.
    fn acts(&self, thread: usize, calls: Calls, acts: &mut Vec<Act>) {
        let machine = &self.machine;
        let frames = &machine.frames;
        let mine = Holder::Thread(thread as u8);
        let owed = machine.owed[thread];
        let held = |pageblock: usize| {
            let of = &frames[pageblock * Self::PAGEBLOCK..][..Self::PAGEBLOCK];
            of.iter().filter(|f| f.holder == mine).count()
        };
        let in_hand =
            (0..PAGEBLOCKS).map(held).sum::<usize>() + owed.iter().sum::<i16>().unsigned_abs() as usize;
        let whole = Machine::<FRAMES>::ORDER;
        let mut step = |step| acts.push(Act::Step(step));

        for pageblock in 0..PAGEBLOCKS {
            let ty = machine.pageblocks[pageblock].ty;
            for n in 1..=HAND.saturating_sub(in_hand) as i16 {
                step(Step::Reserve { pageblock, n, ty });
                if calls.steal {
                    step(Step::Reserve { pageblock, n, ty: 1 - ty });
                }
            }
            if calls.steal {
                step(Step::Convert { pageblock, ty: 1 - ty });
            }
            for n in 1..=HAND as i16 {
                step(Step::Count { pageblock, n });
            }
            if in_hand == 0 {
                step(Step::ClaimWhole { pageblock });
            }
            step(Step::ReleaseWhole { pageblock });
            step(Step::Shatter { pageblock });
            if calls.isolate {
                step(Step::Isolate { pageblock });
                step(Step::Restore { pageblock });
            }
        }
        for (frame, is) in frames.iter().enumerate() {
            if owed[frame / Self::PAGEBLOCK] > 0 || (calls.mistakes.takes_before_reserving && in_hand < HAND)
            {
                step(Step::Take { frame });
            }
            let is_free_again = calls.mistakes.gives_back_too_much && owed[frame / Self::PAGEBLOCK] > 0;
            if is.holder == mine || is_free_again {
                step(Step::Give { frame });
                step(Step::Mark { frame });
                for order in 0..=whole {
                    // A block that lies in one pageblock has its tag at any of its frames: rules cannot tell.
                    step(Step::HandOut { frame, order });
                }
            }
            if let Tag::Allocated(order) = is.tag {
                let fits = if order == whole { in_hand == 0 } else { in_hand + (1 << order) <= HAND };
                if fits {
                    step(Step::Win { frame });
                }
                if fits && order > 0 {
                    step(Step::BeginSplit { frame });
                }
            }
        }
        if calls.lists > 0 {
            self.list_acts(thread, calls, in_hand, acts);
        }
    }

    /// Adds what a thread may try with lists.
    fn list_acts(&self, thread: usize, calls: Calls, in_hand: usize, acts: &mut Vec<Act>) {
        let (machine, whole) = (&self.machine, Machine::<FRAMES>::ORDER);
        let has_lock = self.locked_by.contains(&Some(thread as u8));
        for list in 0..calls.lists {
            let is_mine = self.locked_by[list] == Some(thread as u8);
            if !has_lock {
                acts.push(Act::Lock(list));
            } else if is_mine {
                acts.push(Act::Unlock(list));
            }
            if calls.isolate && (is_mine || calls.asks_too_early) {
                (0..PAGEBLOCKS).for_each(|pageblock| acts.push(Act::Ask(list, pageblock)));
            }
            if !is_mine {
                continue;
            }
            let keeps = machine.frames.iter().filter(|f| f.holder == Holder::List(list as u8)).count();
            for frame in 0..FRAMES {
                for order in [0, whole] {
                    let frames = Machine::<FRAMES>::block(frame, order);
                    let is_huge = machine.pageblocks[frame / Self::PAGEBLOCK].is_huge;
                    if frames.start != frame || is_huge != (order == whole) {
                        continue;
                    }
                    let holder = machine.frames[frame].holder;
                    let block = frames.len();
                    let room = if order == whole { keeps == 0 } else { keeps + block <= ROOM };
                    let fits = if order == whole { in_hand == 0 } else { in_hand + block <= HAND };
                    let (order, list) = (order, list as u8);
                    if holder == Holder::Thread(thread as u8) && room {
                        acts.push(Act::Step(Step::Push { frame, order, list }));
                    }
                    if holder == Holder::List(list) && fits {
                        acts.push(Act::Step(Step::Pop { frame, order, list }));
                    }
                }
            }
        }
    }

    // A state as a number. States that differ in names have one.

    /// Returns the number of the state: the least of those under all names.
    fn key(&self) -> u128 {
        let idle = |thread: usize| {
            let holder = Holder::Thread(thread as u8);
            self.machine.owed[thread] == [0; PAGEBLOCKS]
                && self.machine.frames.iter().all(|f| f.holder != holder)
                && !self.locked_by.contains(&Some(thread as u8))
        };
        let unused = |list: usize| {
            let holder = Holder::List(list as u8);
            let is_swept = self.machine.pageblocks.iter().any(|p| p.swept >> list & 1 != 0);
            let is_empty = self.machine.frames.iter().all(|f| f.holder != holder);
            self.locked_by[list].is_none() && self.asked[list] == 0 && is_empty && !is_swept
        };
        let mut least = u128::MAX;
        for threads in names(std::array::from_fn(idle)) {
            for lists in names(std::array::from_fn(unused)) {
                least = least.min(self.named(threads, lists));
            }
        }
        least
    }

    /// Returns the number of the state under these names.
    fn named(&self, threads: [u8; THREADS], lists: [u8; LISTS]) -> u128 {
        let machine = &self.machine;
        let frame = |f: &Frame| {
            let holder = match f.holder {
                Holder::Nobody => 0,
                Holder::Thread(t) => 1 + threads[usize::from(t)],
                Holder::List(l) => 4 + lists[usize::from(l)],
                Holder::Caller => 7,
            };
            let tag = match f.tag {
                Tag::Free => 0,
                Tag::Splitting => 1,
                Tag::Allocated(order) => 2 + order,
            };
            u64::from(f.is_free) | u64::from(tag) << 1 | u64::from(holder) << 4
        };
        let sorted = |low: u64, high: u64, bits: u32| low.min(high) | low.max(high) << bits;
        let mut parts = [0u64; PAGEBLOCKS];
        for (number, part) in parts.iter_mut().enumerate() {
            let of = &machine.frames[number * Self::PAGEBLOCK..][..Self::PAGEBLOCK];
            let pair = |at: usize| sorted(frame(&of[at]), frame(&of[at + 1]), 7);
            let code = if Self::PAGEBLOCK == 4 { sorted(pair(0), pair(2), 14) } else { pair(0) };
            let state = &machine.pageblocks[number];
            let (mut swept, mut asked, mut owed) = (0, 0, 0);
            for (list, named) in lists.iter().enumerate() {
                swept |= (state.swept >> list & 1) << named;
                asked |= u64::from(self.asked[list] >> number & 1) << named;
            }
            for (thread, named) in threads.iter().enumerate() {
                owed |= ((machine.owed[thread][number] + 8) as u64) << (4 * named);
            }
            *part = code
                | ((state.counted + 4) as u64) << 28
                | u64::from(state.is_huge) << 32
                | u64::from(state.is_isolated) << 33
                | u64::from(state.ty) << 34
                | swept << 35
                | asked << 38
                | owed << 41;
        }
        let mut locks = 0;
        for (list, named) in lists.iter().enumerate() {
            let by = self.locked_by[list].map_or(0, |t| 1 + threads[usize::from(t)]);
            locks |= u128::from(by) << (2 * named);
        }
        let (low, high) = (parts[0].min(parts[1]), parts[0].max(parts[1]));
        u128::from(low) | u128::from(high) << 53 | locks << 106
    }

    /// Returns a state with this number.
    fn of_key(key: u128, mistakes: Mistakes) -> Self {
        let mut machine = Machine::<FRAMES>::new(0);
        machine.mistakes = mistakes;
        let mut asked = [0; LISTS];
        for number in 0..PAGEBLOCKS {
            let part = (key >> (53 * number)) as u64;
            for at in 0..Self::PAGEBLOCK {
                let code = part >> (7 * at);
                let holder = match code >> 4 & 7 {
                    0 => Holder::Nobody,
                    t @ 1..=3 => Holder::Thread(t as u8 - 1),
                    7 => Holder::Caller,
                    l => Holder::List(l as u8 - 4),
                };
                let tag = match code >> 1 & 7 {
                    0 => Tag::Free,
                    1 => Tag::Splitting,
                    order => Tag::Allocated(order as u8 - 2),
                };
                machine.frames[number * Self::PAGEBLOCK + at] = Frame { is_free: code & 1 != 0, tag, holder };
            }
            machine.pageblocks[number] = Pageblock {
                counted: (part >> 28 & 15) as i16 - 4,
                is_huge: part >> 32 & 1 != 0,
                is_isolated: part >> 33 & 1 != 0,
                ty: (part >> 34 & 1) as u8,
                swept: part >> 35 & 7,
            };
            for (list, asked) in asked.iter_mut().enumerate() {
                *asked |= ((part >> (38 + list) & 1) as u8) << number;
            }
            for (thread, owed) in machine.owed.iter_mut().enumerate() {
                owed[number] = (part >> (41 + 4 * thread) & 15) as i16 - 8;
            }
        }
        let locked_by = std::array::from_fn(|list| ((key >> (106 + 2 * list) & 3) as u8).checked_sub(1));
        State { machine, locked_by, asked }
    }
}

/// Returns the ways to name three things, of which those that are alike need no names of their own.
fn names(alike: [bool; 3]) -> impl Iterator<Item = [u8; 3]> {
    const ALL: [[u8; 3]; 6] = [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]];
    // Those that are alike get the last names, in their order.
    ALL.into_iter().filter(move |names| {
        let after = |i: usize, j: usize| !alike[i] || (names[i] > names[j]) == (!alike[j] || i > j);
        (0..3).all(|i| (0..3).all(|j| i == j || after(i, j)))
    })
}
