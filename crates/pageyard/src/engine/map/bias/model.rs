//! Every interleaving of frees, of allocations and of CPUs that ask for a bias, over one tag of one pageblock.
//!
//! The words are the engine's, changed by its own transitions; what a thread does between two of them follows
//! `requests/win.rs`, one step for each access. Three threads run on two CPUs, some without sequences, and move
//! whenever they like. Stores wait in their CPU's buffer until they reach memory. Barriers reach one CPU after another,
//! or fail. A sequence starts over when another thread runs on its CPU, when its own moves, and when a barrier comes.
//!
//! What must hold: a free wins only a block that is live. Frees come at any time, from threads that have the block, had
//! it, or never had it.

extern crate std;

use super::{Bias, BiasState, GENERATION, GENERATIONS, STRANGERS};
use pageyard_core::units::CpuId;
use std::collections::HashSet;
use std::vec::Vec;
use std::{format, string::String, vec};

const THREADS: usize = 3;
const CPUS: usize = 2;
/// Stores that a CPU's buffer keeps.
const STORES: usize = 2;
/// The word's generation, and that of every copy that is older.
const CURRENT: u64 = 1;
const STALE: u64 = GENERATIONS;

/// Where a thread is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum At {
    Idle,
    /// It won the block, and nobody else has it.
    Has,
    /// A free reads the bias.
    Load,
    /// In a sequence: it reads the bias again; then it replaces the tag in one step.
    Shared,
    SharedSwap,
    /// In a sequence: it reads the bias again; then the tag; then it writes the tag.
    Biased,
    BiasedRead,
    BiasedStore,
    /// The bias that it read does not let it win in a sequence.
    Elsewhere,
    /// Admitted as a stranger: it replaces the tag; then it leaves.
    Stranger,
    StrangerLeaves {
        won: bool,
    },
    /// It issues a barrier for the CPU that a bias is taken from; then it ends the bias. A free tries again after that,
    /// and a CPU that wants the pageblock asks.
    Barrier {
        asks: bool,
    },
    Share {
        asks: bool,
    },
    /// A CPU asks for the pageblock: it reads the bias; takes it from another CPU; or begins.
    Ask,
    AskRevoke,
    AskArm,
    /// It issues a barrier for all CPUs, of which these are left; then it is biased.
    AskBarrier {
        left: u8,
    },
    AskSettle,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Thread {
    at: At,
    cpu: usize,
    /// The bias that it read; zero where it will not use it any more.
    copy: u64,
}

impl Thread {
    fn in_sequence(self) -> bool {
        matches!(self.at, At::Shared | At::SharedSwap | At::Biased | At::BiasedRead | At::BiasedStore)
    }
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct State {
    word: u64,
    /// Whether the tag in memory says that a block starts there.
    tag: bool,
    /// Stores to it that have not reached memory, by CPU, the oldest first.
    stores: [[Option<bool>; STORES]; CPUS],
    /// Whether somebody has the block.
    live: bool,
    threads: [Thread; THREADS],
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Mistake {
    ArmsWithoutBarrier,
    RevokesWithoutBarrier,
    FailedBarrierCounts,
    StrangersDoNotCount,
    NoGenerations,
    NotInASequence,
    RevokingIsShared,
}

/// The setting of an exploration.
#[derive(Clone, Copy)]
struct Ground {
    /// Which threads have sequences.
    sequences: [bool; THREADS],
    /// Whether threads move to other CPUs.
    moves: bool,
    mistake: Option<Mistake>,
}

impl Ground {
    fn with(sequences: [bool; THREADS]) -> Ground {
        Ground { sequences, moves: true, mistake: None }
    }

    fn has(self, mistake: Mistake) -> bool {
        self.mistake == Some(mistake)
    }

    /// Visits every state; returns how many there are, or the first that a step breaks.
    fn explore(self) -> Result<usize, String> {
        let thread = |n| Thread { at: At::Idle, cpu: n % CPUS, copy: 0 };
        let threads = core::array::from_fn(thread);
        let first = State {
            word: CURRENT * GENERATION,
            tag: true,
            stores: [[None; STORES]; CPUS],
            live: true,
            threads,
        };
        let mut seen = HashSet::from([first.clone()]);
        let mut edge = vec![first];
        while let Some(state) = edge.pop() {
            let mut next = Vec::new();
            for cpu in 0..CPUS {
                next.extend(state.clone().flushed(cpu, false));
            }
            for t in 0..THREADS {
                self.steps(&state, t, &mut next)?;
                for cpu in (0..CPUS).filter(|cpu| self.moves && *cpu != state.threads[t].cpu) {
                    next.extend(state.clone().moved(t, cpu));
                }
            }
            for mut new in next {
                new.rename(state.word);
                if seen.insert(new.clone()) {
                    edge.push(new);
                }
            }
        }
        Ok(seen.len())
    }

    /// Adds the states that a step of a thread can lead to.
    fn steps(self, state: &State, t: usize, next: &mut Vec<State>) -> Result<(), String> {
        let mut base = state.clone();
        let Thread { at, cpu, copy } = base.threads[t];
        // Sequences of others on this CPU are over: this thread runs.
        if !self.has(Mistake::NotInASequence) {
            for other in (0..THREADS).filter(|other| *other != t) {
                if base.threads[other].cpu == cpu {
                    base.interrupt(other);
                }
            }
        }
        let mut go = |change: &dyn Fn(&mut State)| {
            let mut new = base.clone();
            change(&mut new);
            next.push(new);
        };
        let to = |at: At| move |s: &mut State| (s.threads[t].at, s.threads[t].copy) = (at, 0);
        let kept = |at: At, copy: u64| move |s: &mut State| (s.threads[t].at, s.threads[t].copy) = (at, copy);
        let now = Bias::from_bits(copy);
        let whose = CpuId(cpu as u32);
        let is_shared = |bias: Bias| match bias.state() {
            BiasState::Shared => true,
            BiasState::Revoking(_) => self.has(Mistake::RevokingIsShared),
            _ => false,
        };
        // A compare-and-swap of the word, and where it leads if it succeeds or fails.
        let swap = |s: &mut State, to: Option<Bias>, done: (At, bool), failed: At| {
            let same = |a: u64, b: u64| {
                let mask = if self.has(Mistake::NoGenerations) { !(GENERATIONS << 32) } else { u64::MAX };
                (a ^ b) & mask == 0
            };
            s.flush_all(cpu);
            match to.filter(|_| same(s.word, copy)) {
                Some(to) => {
                    s.word = to.bits();
                    (s.threads[t].at, s.threads[t].copy) = (done.0, if done.1 { to.bits() } else { 0 });
                }
                None => (s.threads[t].at, s.threads[t].copy) = (failed, 0),
            }
        };
        let broken = || Err(format!("thread {t} wins a block that nobody has\n{state:#?}"));
        match at {
            At::Idle => {
                go(&to(At::Load));
                go(&to(At::Ask));
            }
            At::Has => {
                // Handed out again: a plain store.
                if base.stores[cpu][STORES - 1].is_none() {
                    go(&|s| {
                        s.store(cpu, true);
                        s.live = true;
                        s.threads[t].at = At::Idle;
                    });
                }
            }
            At::Load => {
                let read = base.word;
                let bias = Bias::from_bits(read);
                // Without sequences, or interrupted too often.
                go(&kept(At::Elsewhere, read));
                if self.sequences[t] {
                    match bias.state() {
                        BiasState::Biased(_) => go(&to(At::Biased)),
                        _ if is_shared(bias) => go(&to(At::Shared)),
                        _ => {}
                    }
                }
            }
            At::Shared if is_shared(Bias::from_bits(base.word)) => go(&to(At::SharedSwap)),
            At::Biased if Bias::from_bits(base.word).state() == BiasState::Biased(whose) => {
                go(&to(At::BiasedRead))
            }
            At::Shared | At::Biased => go(&to(At::Load)),
            At::SharedSwap | At::Stranger => {
                let mut new = base.clone();
                new.flush_all(cpu);
                let won = core::mem::replace(&mut new.tag, false);
                if won && !core::mem::replace(&mut new.live, false) {
                    return broken();
                }
                new.threads[t].at = match (at, won) {
                    (At::Stranger, won) => At::StrangerLeaves { won },
                    (_, true) => At::Has,
                    (_, false) => At::Idle,
                };
                next.push(new);
            }
            At::StrangerLeaves { won } => go(&|s| {
                s.flush_all(cpu);
                s.word = s.word.wrapping_sub(super::STRANGER);
                s.threads[t].at = if won { At::Has } else { At::Idle };
            }),
            At::BiasedRead => go(&to(if base.tag_seen_by(cpu) { At::BiasedStore } else { At::Idle })),
            At::BiasedStore => {
                if base.stores[cpu][STORES - 1].is_none() {
                    if !base.live {
                        return broken();
                    }
                    go(&|s| {
                        s.store(cpu, false);
                        s.live = false;
                        s.threads[t].at = At::Has;
                    });
                }
            }
            At::Elsewhere => match now.state() {
                BiasState::Shared => go(&|s| swap(s, now.admit(), (At::Stranger, false), At::Load)),
                BiasState::Arming(_) => go(&|s| swap(s, now.cancel(), (At::Load, false), At::Load)),
                BiasState::Biased(_) => go(&|s| swap(s, now.revoke(), (At::Load, false), At::Load)),
                BiasState::Revoking(_) => go(&kept(At::Barrier { asks: false }, copy)),
            },
            At::Barrier { asks } => {
                let BiasState::Revoking(CpuId(from)) = now.state() else { unreachable!("it was read") };
                let without = self.has(Mistake::RevokesWithoutBarrier);
                go(&|s| {
                    if !without {
                        s.barrier(from as usize);
                    }
                    kept(At::Share { asks }, copy)(s);
                });
                // A barrier that fails: the free is refused, and nothing is asked.
                go(&kept(
                    if self.has(Mistake::FailedBarrierCounts) { At::Share { asks } } else { At::Idle },
                    copy,
                ));
            }
            At::Share { asks } => {
                let then = if asks { At::AskArm } else { At::Load };
                go(&|s| {
                    swap(s, now.share(), (then, false), then);
                    s.threads[t].copy = if asks { s.word } else { 0 };
                });
            }
            At::Ask => {
                let read = base.word;
                match Bias::from_bits(read).state() {
                    BiasState::Biased(own) if own == whose => go(&to(At::Idle)),
                    BiasState::Biased(_) => go(&kept(At::AskRevoke, read)),
                    _ => go(&kept(At::AskArm, read)),
                }
            }
            At::AskRevoke => go(&|s| swap(s, now.revoke(), (At::Barrier { asks: true }, true), At::Idle)),
            At::AskArm => {
                let arming = if self.has(Mistake::StrangersDoNotCount) {
                    let alone = Bias::from_bits(copy & !STRANGERS).arm(whose);
                    alone.map(|bias| Bias::from_bits(bias.bits() | copy & STRANGERS))
                } else {
                    now.arm(whose)
                };
                let barrier = At::AskBarrier { left: (1 << CPUS) - 1 };
                let then = if self.has(Mistake::ArmsWithoutBarrier) { At::AskSettle } else { barrier };
                go(&|s| swap(s, arming, (then, true), At::Idle));
            }
            At::AskBarrier { left } => {
                for target in (0..CPUS).filter(|target| left >> target & 1 != 0) {
                    go(&|s| {
                        s.barrier(target);
                        let left = left & !(1 << target);
                        s.threads[t].at = if left == 0 { At::AskSettle } else { At::AskBarrier { left } };
                    });
                }
                go(&|s| swap(s, now.cancel(), (At::Idle, false), At::Idle));
            }
            At::AskSettle => go(&|s| swap(s, now.settle(), (At::Idle, false), At::Idle)),
        }
        Ok(())
    }
}

impl State {
    /// Ends the sequence that a thread is in: it starts over.
    fn interrupt(&mut self, t: usize) {
        if self.threads[t].in_sequence() {
            (self.threads[t].at, self.threads[t].copy) = (At::Load, 0);
        }
    }

    /// Reaches a CPU: its sequences start over, its stores are in memory.
    fn barrier(&mut self, cpu: usize) {
        for t in 0..THREADS {
            if self.threads[t].cpu == cpu {
                self.interrupt(t);
            }
        }
        self.flush_all(cpu);
    }

    fn store(&mut self, cpu: usize, tag: bool) {
        let room = self.stores[cpu].iter_mut().find(|store| store.is_none());
        *room.expect("there is room") = Some(tag);
    }

    fn flush_all(&mut self, cpu: usize) {
        for store in core::mem::take(&mut self.stores[cpu]).into_iter().flatten() {
            self.tag = store;
        }
    }

    /// Returns what is so when the oldest store of a CPU, or all of them, reached memory.
    fn flushed(mut self, cpu: usize, all: bool) -> Option<State> {
        self.stores[cpu][0]?;
        if all {
            self.flush_all(cpu);
        } else {
            self.tag = self.stores[cpu][0]?;
            self.stores[cpu].rotate_left(1);
            self.stores[cpu][STORES - 1] = None;
        }
        Some(self)
    }

    /// Returns what is so when a thread went to another CPU.
    fn moved(mut self, t: usize, cpu: usize) -> Option<State> {
        // A switch of threads is a barrier: the stores of the CPU that it leaves reach memory.
        self.flush_all(self.threads[t].cpu);
        self.interrupt(t);
        self.threads[t].cpu = cpu;
        Some(self)
    }

    /// Returns what a thread on a CPU reads: its own CPU's newest store, or memory.
    fn tag_seen_by(&self, cpu: usize) -> bool {
        self.stores[cpu].iter().flatten().next_back().copied().unwrap_or(self.tag)
    }

    /// Numbers generations anew. The word's is always the same. A copy of another one is stale, and stays so: it would
    /// take 2^24 changes for the word to have it again.
    fn rename(&mut self, before: u64) {
        let of = |bits: u64| bits >> 32 & GENERATIONS;
        let (old, new) = (of(before), of(self.word));
        let renamed = |bits: u64, to: u64| bits & !(GENERATIONS << 32) | (to * GENERATION);
        for thread in self.threads.iter_mut().filter(|thread| thread.copy != 0 && of(thread.copy) != new) {
            thread.copy = renamed(thread.copy, STALE);
        }
        if old != new {
            for thread in self.threads.iter_mut().filter(|thread| of(thread.copy) == new) {
                thread.copy = renamed(thread.copy, CURRENT);
            }
        }
        self.word = renamed(self.word, CURRENT);
    }
}

/// Explores without a mistake, which must break nothing.
fn whole(ground: Ground) {
    let states = ground.explore().unwrap_or_else(|broken| panic!("{broken}"));
    std::println!("sequences {:?}, moves {}: {states} states", ground.sequences, ground.moves);
    assert!(states > 10_000);
}

const SEQUENCES: [[bool; THREADS]; 3] = [[true, true, true], [true, true, false], [true, false, false]];

#[test]
fn of_all_frees_of_a_block_one_wins() {
    SEQUENCES.into_iter().for_each(|sequences| whole(Ground { moves: false, ..Ground::with(sequences) }));
}

#[test]
#[ignore = "takes a minute"]
fn of_all_frees_of_a_block_one_wins_where_threads_move() {
    SEQUENCES.into_iter().for_each(|sequences| whole(Ground::with(sequences)));
}

/// Explores with a mistake, which has to break something.
fn planted(mistake: Mistake, sequences: [bool; THREADS]) {
    let broken = Ground { mistake: Some(mistake), ..Ground::with(sequences) }.explore();
    assert!(broken.is_err(), "not found in {} states", broken.unwrap_or_default());
}

#[test]
fn a_bias_that_begins_without_a_barrier_is_found() {
    planted(Mistake::ArmsWithoutBarrier, [true; THREADS]);
}

#[test]
fn a_bias_that_ends_without_a_barrier_is_found() {
    planted(Mistake::RevokesWithoutBarrier, [true; THREADS]);
}

#[test]
fn a_failed_barrier_that_counts_is_found() {
    planted(Mistake::FailedBarrierCounts, [true; THREADS]);
}

#[test]
fn strangers_that_do_not_count_are_found() {
    planted(Mistake::StrangersDoNotCount, [true, true, false]);
}

#[test]
fn a_word_without_generations_is_found() {
    planted(Mistake::NoGenerations, [true; THREADS]);
}

#[test]
fn a_sequence_that_is_not_interrupted_is_found() {
    planted(Mistake::NotInASequence, [true; THREADS]);
}

#[test]
fn a_revoking_pageblock_taken_for_shared_is_found() {
    planted(Mistake::RevokingIsShared, [true; THREADS]);
}
