//! A recorded mix whose calls are made on the CPUs that the recording names, at the same time.
//!
//! The recording is cut into chunks. Within a chunk each CPU's thread makes its calls in their order, and between
//! chunks they wait for each other. A free of a frame that another CPU allocates in the same chunk is made at the
//! beginning of the next, so no call waits for another: what is timed is calls.

use super::allocator::Allocator;
use super::clock::now_ns;
use super::load::{Busy, Call};
use super::loops::MISSING;
use pageyard::{Context, Pfn};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Recorded calls in a chunk, of all CPUs together: a free is late by no more than this.
const CHUNK: usize = 1024;

/// One recorded call of order 0, on a block that has a number of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Raw {
    pub cpu: usize,
    pub context: Context,
    pub free: bool,
    pub block: u32,
}

/// One CPU's calls.
#[derive(Clone, Debug, Default)]
struct Part {
    calls: Vec<Call>,
    /// Where each chunk ends.
    ends: Vec<usize>,
}

/// A mix, divided.
#[derive(Debug)]
pub(crate) struct Divided {
    parts: Vec<Part>,
    places: usize,
    repeat: usize,
    /// Frees that had to wait for the next chunk.
    pub late: u64,
    /// Frees of frames that another CPU allocated.
    pub across: u64,
}

impl Divided {
    /// Divides calls among CPUs; a sample makes them `repeat` times.
    pub fn new(raw: &[Raw], repeat: usize) -> Divided {
        let cpus = raw.iter().map(|r| r.cpu + 1).max().unwrap_or(0);
        let mut made = Divided { parts: vec![Part::default(); cpus], places: 0, repeat, late: 0, across: 0 };
        // Of each block that is held: its place, who allocated it, and in which chunk.
        let mut held: HashMap<u32, (u32, usize, usize)> = HashMap::new();
        let (mut spare, mut deferred): (Vec<u32>, Vec<Raw>) = Default::default();
        let mut chunks = raw.chunks(CHUNK);
        for number in 0.. {
            let Some(chunk) = chunks.next().or((!deferred.is_empty()).then_some(&[])) else { break };
            // A place is used again in the next chunk at the earliest, so that no two threads use it in one.
            let mut parted = Vec::new();
            for call in std::mem::take(&mut deferred).into_iter().chain(chunk.iter().copied()) {
                let place = match (call.free, held.get(&call.block).copied()) {
                    (true, Some((_, by, when))) if by != call.cpu && when == number => {
                        made.late += 1;
                        deferred.push(call);
                        continue;
                    }
                    (true, Some((place, by, _))) => {
                        held.remove(&call.block);
                        made.across += u64::from(by != call.cpu);
                        parted.push(place);
                        place
                    }
                    (true, None) => continue,
                    (false, _) => {
                        let place = spare.pop().unwrap_or(made.places as u32);
                        made.places = made.places.max(place as usize + 1);
                        held.insert(call.block, (place, call.cpu, number));
                        place
                    }
                };
                made.parts[call.cpu].calls.push(Call { place, context: call.context, free: call.free });
            }
            spare.append(&mut parted);
            made.parts.iter_mut().for_each(|part| part.ends.push(part.calls.len()));
        }
        made
    }

    /// Returns how many CPUs take part.
    pub fn cpus(&self) -> usize {
        self.parts.len()
    }

    /// Returns how many calls all CPUs together make in a sample.
    pub fn calls_a_sample(&self) -> u64 {
        self.parts.iter().map(|p| p.calls.len() as u64).sum::<u64>() * self.repeat as u64
    }
}

/// The state that the threads of a sample share.
pub(crate) struct Meeting {
    held: Box<[AtomicU64]>,
    arrived: AtomicUsize,
}

impl Meeting {
    /// Makes what a sample of this mix needs.
    pub fn new(mix: &Divided) -> Meeting {
        let held = (0..mix.places).map(|_| AtomicU64::new(MISSING.0)).collect();
        Meeting { held, arrived: AtomicUsize::new(0) }
    }

    /// Waits until all threads have come here for the n-th time.
    fn wait(&self, threads: usize, n: &mut usize) {
        *n += 1;
        // ORDER: Release and Acquire: what the others did before they came is seen by all who leave.
        self.arrived.fetch_add(1, Ordering::AcqRel);
        let mut spins = 0u32;
        while self.arrived.load(Ordering::Acquire) < *n * threads {
            spins += 1;
            if spins.is_multiple_of(1 << 14) {
                std::thread::yield_now();
            }
            std::hint::spin_loop();
        }
    }
}

/// The work of one CPU's thread.
#[derive(Clone, Debug)]
pub(crate) struct Share {
    /// All of it; waiting for the other threads is not part of `ns`.
    pub busy: Busy,
    /// Nanoseconds of each chunk.
    pub chunks: Vec<u32>,
}

/// Makes one CPU's calls.
pub(super) fn run<A: Allocator>(a: &A, cpu: usize, mix: &Divided, meeting: &Meeting) -> Share {
    let (part, threads, mut met) = (&mix.parts[cpu], mix.cpus(), 0);
    let mut made = Share { busy: Busy { ns: 0, start: now_ns(), end: 0, missing: 0 }, chunks: Vec::new() };
    for _ in 0..mix.repeat {
        let mut from = 0;
        for end in &part.ends {
            meeting.wait(threads, &mut met);
            let start = now_ns();
            for call in &part.calls[from..*end] {
                let slot = &meeting.held[call.place as usize];
                // ORDER: Relaxed: one thread uses a place in a chunk, and `wait` orders the chunks.
                if !call.free {
                    let got = a.take_in(cpu, call.context).unwrap_or(MISSING);
                    made.busy.missing += u64::from(got == MISSING);
                    slot.store(got.0, Ordering::Relaxed);
                } else if let block @ Pfn(0..) = Pfn(slot.load(Ordering::Relaxed))
                    && block != MISSING
                {
                    a.give_in(cpu, call.context, block);
                    slot.store(MISSING.0, Ordering::Relaxed);
                }
            }
            let ns = now_ns() - start;
            made.busy.ns += ns;
            made.chunks.push(u32::try_from(ns).unwrap_or(u32::MAX));
            from = *end;
        }
        meeting.wait(threads, &mut met);
        for slot in meeting.held.iter().skip(cpu).step_by(threads) {
            // ORDER: Relaxed: each thread has its own places, and `wait` stands before and after.
            let block = Pfn(slot.swap(MISSING.0, Ordering::Relaxed));
            if block != MISSING {
                a.give(cpu, block);
            }
        }
        meeting.wait(threads, &mut met);
    }
    made.busy.end = now_ns();
    made
}

/// Returns the share of the threads' time in which all of them were in calls: they begin each chunk together.
pub(crate) fn together(parts: &[Share]) -> f64 {
    let of_chunk = |n: usize| parts.iter().filter_map(move |p| p.chunks.get(n)).map(|ns| u64::from(*ns));
    let chunks = 0..parts.iter().map(|p| p.chunks.len()).max().unwrap_or(0);
    let (all, longest) = chunks.fold((0, 0), |(all, longest), n| {
        (all + of_chunk(n).min().unwrap_or(0), longest + of_chunk(n).max().unwrap_or(0))
    });
    all as f64 / (longest as f64).max(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(cpu: usize, free: bool, block: u32) -> Raw {
        Raw { cpu, context: Context::Task, free, block }
    }

    #[test]
    fn a_frame_that_another_cpu_frees_in_the_same_chunk_is_freed_in_the_next() {
        let mix = Divided::new(&[raw(0, false, 1), raw(1, true, 1), raw(0, false, 2), raw(0, true, 2)], 1);
        assert_eq!((mix.late, mix.across, mix.places), (1, 1, 2));
        let free: Vec<Vec<bool>> =
            mix.parts.iter().map(|p| p.calls.iter().map(|c| c.free).collect()).collect();
        assert_eq!(free, [vec![false, false, true], vec![true]]);
        assert_eq!(mix.parts[0].ends, [3, 3]);
        assert_eq!(mix.parts[1].ends, [0, 1]);
    }

    #[test]
    fn no_place_has_two_users_in_a_chunk_unless_one_thread_is_both() {
        let mut rng = fastrand::Rng::with_seed(7);
        let (mut held, mut calls) = (Vec::new(), Vec::new());
        for block in 0..20_000 {
            calls.push(raw(rng.usize(0..2), false, block));
            held.push(block);
            if rng.bool() {
                let block = held.swap_remove(rng.usize(0..held.len()));
                calls.push(raw(rng.usize(0..2), true, block));
            }
        }
        let mix = Divided::new(&calls, 1);
        assert_eq!(mix.calls_a_sample(), calls.len() as u64, "no call is left out");
        let chunks = mix.parts[0].ends.len();
        assert!(chunks > 20 && mix.across > 1000 && mix.late > 10);
        for n in 0..chunks {
            let of = |p: &Part| {
                let from = n.checked_sub(1).map_or(0, |n| p.ends[n]);
                p.calls[from..p.ends[n]].iter().map(|c| c.place).collect::<std::collections::HashSet<_>>()
            };
            assert!(of(&mix.parts[0]).is_disjoint(&of(&mix.parts[1])), "chunk {n}");
        }
    }

    #[test]
    fn threads_that_begin_together_share_the_shorter_time() {
        let part = |chunks: &[u32]| Share {
            busy: Busy { ns: 0, start: 0, end: 0, missing: 0 },
            chunks: chunks.to_vec(),
        };
        assert_eq!(together(&[part(&[10, 40]), part(&[40, 10])]), 0.25);
        assert_eq!(together(&[part(&[10]), part(&[10])]), 1.0);
    }
}
