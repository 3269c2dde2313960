//! A receive CPU takes a frame for each packet, a transmit-completion CPU frees it as a fragment.
//!
//! Between them a ring carries packets in groups, as a NAPI poll hands them on. Each packet's frame is real memory: the
//! receiver writes a header and the completion reads it, because a CPU that did nothing but allocate would wait for the lock
//! more than any router does. With one CPU both ends take turns on it.

use super::{BUDDY, ENGINE, ONE, PCP, SHARE, TWO};
use crate::error::LabError;
use crate::experiment::samples::{OVERLAP, in_turn, together};
use crate::experiment::subject::{engine, reference, single, sound};
use crate::experiment::{Rows, Run};
use crate::yard::Yard;
use pageyard::{CpuId, Cx, Frames, NodeId, Order, PageAllocator, Pfn, Region, TryLock, ZoneKind};
use pageyard_linux::{Config, LinuxAllocator};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Instant;

pub(super) const GAIN: &str = "gain over buddy, 2 CPUs";

/// Frames that the machine has: 256 MiB, so that their headers can be real.
const MEMORY: u64 = 1 << 16;

/// Packets that are handed on together: NAPI's budget.
const GROUP: usize = 64;

/// Packets on their way at most: a transmit ring of 1024.
const RING: usize = 1024;

/// Words of a header that are written and read: 128 bytes, the part of a frame that forwarding touches.
const HEADER: usize = 16;

/// An allocator that frees a packet's frame as its subject does.
trait Packets: Sync {
    fn take(&self, cx: &Cx) -> Option<Pfn>;
    fn complete(&self, cx: &Cx, pfn: Pfn);
    fn waited_ns(&self) -> u64;
}

impl Packets for LinuxAllocator {
    fn take(&self, cx: &Cx) -> Option<Pfn> {
        self.alloc(cx, &single()).ok()
    }

    fn complete(&self, cx: &Cx, pfn: Pfn) {
        let _ = self.free_frag(cx, pfn, Order::ZERO);
    }

    fn waited_ns(&self) -> u64 {
        self.lock_stats().wait_ns
    }
}

impl Packets for Yard<TryLock> {
    fn take(&self, cx: &Cx) -> Option<Pfn> {
        self.alloc(cx, &single()).ok()
    }

    fn complete(&self, cx: &Cx, pfn: Pfn) {
        let _ = self.free(cx, pfn, Order::ZERO);
    }

    /// There is no zone lock to wait for.
    fn waited_ns(&self) -> u64 {
        0
    }
}

/// The memory of the frames, as far as packets touch it: the first cache lines of each.
struct Memory(Vec<[AtomicU64; HEADER]>);

/// The ring between the two ends: one writer, one reader.
struct Ring {
    slots: Vec<AtomicU64>,
    written: Padded,
    read: Padded,
}

#[repr(align(128))]
struct Padded(AtomicUsize);

impl Ring {
    fn new() -> Ring {
        let position = || Padded(AtomicUsize::new(0));
        Ring { slots: (0..RING).map(|_| AtomicU64::new(0)).collect(), written: position(), read: position() }
    }
}

/// One of the subjects with its ring and memory.
struct Router<'a, P> {
    packets: &'a P,
    memory: Memory,
    ring: Ring,
}

impl<'a, P: Packets> Router<'a, P> {
    fn new(packets: &'a P) -> Router<'a, P> {
        let memory = (0..MEMORY).map(|_| [const { AtomicU64::new(0) }; HEADER]).collect();
        Router { packets, memory: Memory(memory), ring: Ring::new() }
    }

    /// Receives a group: frames are taken and headers written. `false`: a frame could not be had.
    fn receive(&self, cx: &Cx, at: usize) -> bool {
        let mut had = true;
        for i in at..at + GROUP {
            let pfn = self.packets.take(cx);
            had &= pfn.is_some();
            if let Some(pfn) = pfn {
                // ORDER: Relaxed: the ring's Release hands header and slot on.
                for word in &self.memory.0[pfn.0 as usize] {
                    word.store(i as u64, Ordering::Relaxed);
                }
            }
            self.ring.slots[i % RING].store(pfn.map_or(u64::MAX, |p| p.0), Ordering::Relaxed);
        }
        // ORDER: Release pairs with the Acquire in `two`: the group lies in the ring.
        self.ring.written.0.store(at + GROUP, Ordering::Release);
        had
    }

    /// Completes a group: headers are read and frames freed. `false`: a header was another packet's.
    fn complete(&self, cx: &Cx, at: usize) -> bool {
        let mut right = true;
        for i in at..at + GROUP {
            // ORDER: Relaxed: the Acquire in `two` has it.
            let pfn = self.ring.slots[i % RING].load(Ordering::Relaxed);
            if pfn == u64::MAX {
                continue;
            }
            let header = &self.memory.0[pfn as usize];
            right &= header.iter().all(|word| word.load(Ordering::Relaxed) == i as u64);
            self.packets.complete(cx, Pfn(pfn));
        }
        // ORDER: Release pairs with the Acquire in `two`: the places may be used again.
        self.ring.read.0.store(at + GROUP, Ordering::Release);
        right
    }

    fn reset(&self) {
        // ORDER: Relaxed: no thread runs.
        self.ring.written.0.store(0, Ordering::Relaxed);
        self.ring.read.0.store(0, Ordering::Relaxed);
    }

    /// Forwards `groups` groups on one CPU; a ring's worth is on its way at a time.
    fn one(&self, groups: usize) -> Option<f64> {
        self.reset();
        let cx = Cx::on(CpuId(0));
        let mut right = true;
        let start = Instant::now();
        for ring in (0..groups * GROUP).step_by(RING / 2) {
            (ring..ring + RING / 2).step_by(GROUP).for_each(|at| right &= self.receive(&cx, at));
            (ring..ring + RING / 2).step_by(GROUP).for_each(|at| right &= self.complete(&cx, at));
        }
        let packets = (groups * GROUP).next_multiple_of(RING / 2) as f64;
        right.then(|| packets / start.elapsed().as_secs_f64())
    }

    /// Forwards `groups` groups from one CPU to the other. Returns packets a second and the share of both CPUs' time
    /// that was spent waiting for the zone lock, in percent.
    fn two(&self, groups: usize, cores: &[core_affinity::CoreId]) -> Option<[f64; 2]> {
        self.reset();
        let before = self.packets.waited_ns();
        let both = together(cores, |cpu| {
            let cx = Cx::on(CpuId(cpu as u32));
            // The other end's position, looked up only when this end has caught up with it.
            let mut seen = 0;
            (0..groups).all(|group| {
                let at = group * GROUP;
                if cpu == 0 {
                    // ORDER: Acquire pairs with the Release in `complete`.
                    while at + GROUP > seen + RING {
                        seen = wait(&self.ring.read.0, seen);
                    }
                    self.receive(&cx, at)
                } else {
                    // ORDER: Acquire pairs with the Release in `receive`.
                    while at + GROUP > seen {
                        seen = wait(&self.ring.written.0, seen);
                    }
                    self.complete(&cx, at)
                }
            })
        });
        let right = both.threads.iter().all(|(right, _)| *right);
        if !right || both.overlap < OVERLAP {
            return None;
        }
        let longest = both.threads.iter().map(|(_, took)| *took).max()?.as_secs_f64();
        let all: f64 = both.threads.iter().map(|(_, took)| took.as_nanos() as f64).sum();
        let waited = (self.packets.waited_ns() - before) as f64;
        Some([(groups * GROUP) as f64 / longest, waited / all * 100.0])
    }
}

/// Looks at a position; where it has not moved, after a breath.
fn wait(position: &AtomicUsize, seen: usize) -> usize {
    // ORDER: Acquire: see the callers.
    let now = position.load(Ordering::Acquire);
    if now == seen {
        std::hint::spin_loop();
    }
    now
}

/// A router of any kind.
trait Forwards {
    fn one(&self, groups: usize) -> Option<f64>;
    fn two(&self, groups: usize, cores: &[core_affinity::CoreId]) -> Option<[f64; 2]>;
}

impl<P: Packets> Forwards for Router<'_, P> {
    fn one(&self, groups: usize) -> Option<f64> {
        Router::one(self, groups)
    }

    fn two(&self, groups: usize, cores: &[core_affinity::CoreId]) -> Option<[f64; 2]> {
        Router::two(self, groups, cores)
    }
}

fn machine(frag_free: &str) -> Result<LinuxAllocator, LabError> {
    let regions = memory();
    let mut config = Config::linux_4_10();
    let fail = |e: pageyard_linux::KnobError| LabError::Experiment { why: e.to_string() };
    for (knob, value) in [("frag_free", frag_free), ("interrupts", "soft_flag")] {
        config.set(knob, value).map_err(fail)?;
    }
    reference(&regions, &config)
}

fn memory() -> [Region; 1] {
    [Region::managed(Pfn(0), Frames(MEMORY), NodeId(0), ZoneKind::Normal)]
}

pub(super) fn measure(run: &mut Run<'_>, rows: &mut Rows) -> Result<(), LabError> {
    let groups = if run.quick { 2048 } else { 16_384 };
    let cores = core_affinity::get_core_ids().unwrap_or_default();
    let (buddy, pcp, again) = (machine("buddy")?, machine("pcp")?, machine("buddy")?);
    let engine = engine(&memory())?;
    let routers: [(&str, Box<dyn Forwards + '_>); 4] = [
        (BUDDY, Box::new(Router::new(&buddy))),
        (PCP, Box::new(Router::new(&pcp))),
        (ENGINE, Box::new(Router::new(&engine))),
        ("again", Box::new(Router::new(&again))),
    ];
    let mut turns: Vec<&(&str, Box<dyn Forwards + '_>)> = routers.iter().collect();
    rows.section("Contention");
    run.at("one CPU", 0, 2);
    let one = in_turn(&mut turns, |(_, r)| r.one(groups).map(|rate| [rate]));
    for ((column, _), [rate]) in routers[..3].iter().zip(&one) {
        rows.add(ONE, *column, rate.median(), "1/s");
    }
    run.check_pair("one CPU", crate::experiment::gain(one[0][0].median(), one[3][0].median()));
    if cores.len() < 2 {
        run.note("two CPUs were not measured: this process may use one");
    } else {
        run.at("two CPUs", 1, 2);
        let mut dropped = 0;
        let two = in_turn(&mut turns, |(_, r)| {
            let sample = r.two(groups, &cores[..2]);
            dropped += u64::from(sample.is_none());
            sample
        });
        for ((column, _), [rate, share]) in routers[..3].iter().zip(&two) {
            rows.add(TWO, *column, rate.median(), "1/s");
            rows.add(SHARE, *column, share.median(), "%");
        }
        for (column, [rate, _]) in [PCP, ENGINE].into_iter().zip(&two[1..]) {
            rows.add(GAIN, column, (rate.median() / two[0][0].median() - 1.0) * 100.0, "%");
        }
        run.check_pair("two CPUs", crate::experiment::gain(two[0][0].median(), two[3][0].median()));
        if dropped > 0 {
            run.note(format!("{dropped} samples on two CPUs were dropped: the threads ran apart"));
        }
    }
    drop(routers);
    sound(&[&buddy, &pcp, &again, &engine])
}
