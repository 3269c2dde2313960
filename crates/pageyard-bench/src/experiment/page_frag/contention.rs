//! A CPU that receives takes a frame for each packet, one that completes transmission frees it as a fragment. A router's CPUs
//! do both, each for its own queues: that is the first table. With two CPUs, each end can also be on its own CPU.
//!
//! Between them a ring carries packets in groups, as a NAPI poll hands them on. Each packet's frame is real memory: the
//! receiver writes a header and the completion reads it. Both ends do a router's other work beside that, as look-ups in a
//! table larger than the caches, for a stated time: a CPU that did nothing but allocate would wait for the lock more than
//! any router does. With one CPU both ends take turns on it.

use super::work::{Level, Work};
use super::{BUDDY, ENGINE, ONE, PCP, SHARE, TWO};
use crate::error::BenchError;
use crate::experiment::samples::{OVERLAP, Samples, in_turn, together};
use crate::experiment::subject::{Engine, reference, single, sound};
use crate::experiment::{Rows, Run};
use core_affinity::CoreId;
use pageyard::OwnedPageyard;
use pageyard::{CpuId, Cx, Frames, NodeId, Order, PageAllocator, PerCpu, Pfn, Region, ZoneKind};
use pageyard_linux::{Config, LinuxAllocator};
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

const SECTION: &str = "Contention";

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

impl<P: PerCpu> Packets for OwnedPageyard<P> {
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

/// One of the subjects with the memory of its frames.
struct Router<'a, P> {
    packets: &'a P,
    memory: Memory,
    work: &'a Work,
}

impl<'a, P: Packets> Router<'a, P> {
    fn new(packets: &'a P, work: &'a Work) -> Router<'a, P> {
        let memory = (0..MEMORY).map(|_| [const { AtomicU64::new(0) }; HEADER]).collect();
        Router { packets, memory: Memory(memory), work }
    }

    /// Receives a group: frames are taken and headers written. `false`: an allocation failed.
    fn receive(&self, cx: &Cx, ring: &Ring, at: usize, level: Level, at_work: &Cell<usize>) -> bool {
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
            at_work.set(self.work.half(at_work.get() ^ i, level));
            ring.slots[i % RING].store(pfn.map_or(u64::MAX, |p| p.0), Ordering::Relaxed);
        }
        // ORDER: Release pairs with the Acquire in `two`: the group lies in the ring.
        ring.written.0.store(at + GROUP, Ordering::Release);
        had
    }

    /// Completes a group: headers are read and frames freed. `false`: a header was another packet's.
    fn complete(&self, cx: &Cx, ring: &Ring, at: usize, level: Level, at_work: &Cell<usize>) -> bool {
        let mut right = true;
        for i in at..at + GROUP {
            // ORDER: Relaxed: the Acquire in `two` has it.
            let pfn = ring.slots[i % RING].load(Ordering::Relaxed);
            if pfn == u64::MAX {
                continue;
            }
            at_work.set(self.work.half(at_work.get() ^ i, level));
            let header = &self.memory.0[pfn as usize];
            right &= header.iter().all(|word| word.load(Ordering::Relaxed) == i as u64);
            self.packets.complete(cx, Pfn(pfn));
        }
        // ORDER: Release pairs with the Acquire in `two`: the places may be used again.
        ring.read.0.store(at + GROUP, Ordering::Release);
        right
    }

    /// Forwards `groups` groups on one CPU; half a ring is on its way.
    fn alone(&self, cpu: usize, groups: usize, level: Level) -> bool {
        let (ring, cx, at_work) = (Ring::new(), Cx::on(CpuId(cpu as u32)), Cell::new(cpu));
        let lag = RING / GROUP / 2;
        (0..groups + lag).all(|group| {
            let received = group >= groups || self.receive(&cx, &ring, group * GROUP, level, &at_work);
            received && (group < lag || self.complete(&cx, &ring, (group - lag) * GROUP, level, &at_work))
        })
    }

    /// Forwards `groups` groups from one CPU to the other.
    fn handed_over(&self, cpu: usize, ring: &Ring, groups: usize, level: Level) -> bool {
        let (cx, at_work) = (Cx::on(CpuId(cpu as u32)), Cell::new(cpu));
        // The other end's position, looked up only when this end has caught up with it.
        let mut seen = 0;
        (0..groups).all(|group| {
            let at = group * GROUP;
            if cpu == 0 {
                while at + GROUP > seen + RING {
                    seen = wait(&ring.read.0, seen);
                }
                self.receive(&cx, ring, at, level, &at_work)
            } else {
                while at + GROUP > seen {
                    seen = wait(&ring.written.0, seen);
                }
                self.complete(&cx, ring, at, level, &at_work)
            }
        })
    }
}

/// Looks at a position; if it has not moved, after a pause.
fn wait(position: &AtomicUsize, seen: usize) -> usize {
    // ORDER: Acquire pairs with the Release in `receive` and in `complete`.
    let now = position.load(Ordering::Acquire);
    if now == seen {
        std::hint::spin_loop();
    }
    now
}

/// The division of labour.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shape {
    /// One CPU, both ends.
    One,
    /// One CPU receives, the other completes.
    Split,
    /// Two CPUs, both ends each.
    Both,
}

/// A router of any kind.
trait Forwards {
    /// Forwards packets. Returns packets a second and the share of all CPUs' time spent waiting for the zone lock, in
    /// percent; `None` where the sample does not count.
    fn run(&self, shape: Shape, groups: usize, level: Level, cores: &[CoreId]) -> Option<[f64; 2]>;
}

impl<P: Packets> Forwards for Router<'_, P> {
    fn run(&self, shape: Shape, groups: usize, level: Level, cores: &[CoreId]) -> Option<[f64; 2]> {
        let before = self.packets.waited_ns();
        let ring = Ring::new();
        let cpus = if shape == Shape::One { 1 } else { 2 };
        let all = together(&cores[..cpus], |cpu| match shape {
            Shape::Split => self.handed_over(cpu, &ring, groups, level),
            Shape::One | Shape::Both => self.alone(cpu, groups, level),
        });
        if !all.threads.iter().all(|(right, _)| *right) || (cpus > 1 && all.overlap < OVERLAP) {
            return None;
        }
        let longest = all.threads.iter().map(|(_, took)| *took).max()?.as_secs_f64();
        let time: f64 = all.threads.iter().map(|(_, took)| took.as_nanos() as f64).sum();
        let packets = groups * GROUP * if shape == Shape::Both { 2 } else { 1 };
        let waited = (self.packets.waited_ns() - before) as f64;
        Some([packets as f64 / longest, waited / time * 100.0])
    }
}

fn machine(frag_free: &str) -> Result<LinuxAllocator, BenchError> {
    let regions = memory();
    let mut config = Config::linux_4_10();
    let fail = |e: pageyard_linux::KnobError| BenchError::Experiment { why: e.to_string() };
    for (knob, value) in [("frag_free", frag_free), ("interrupts", "soft_flag")] {
        config.set(knob, value).map_err(fail)?;
    }
    reference(&regions, &config)
}

fn memory() -> [Region; 1] {
    [Region::managed(Pfn(0), Frames(MEMORY), NodeId(0), ZoneKind::Normal)]
}

pub(super) fn measure(run: &mut Run<'_>, rows: &mut Rows) -> Result<(), BenchError> {
    let groups = if run.quick { 256 } else { 2048 };
    let cores = core_affinity::get_core_ids().unwrap_or_default();
    let work = Work::new();
    let (buddy, pcp, again) = (machine("buddy")?, machine("pcp")?, machine("buddy")?);
    let engine = Engine::new(&memory())?;
    run.note(engine.protection());
    let router: Box<dyn Forwards + '_> = match &engine {
        Engine::Restartable(yard) => Box::new(Router::new(yard, &work)),
        Engine::Locked(yard) => Box::new(Router::new(yard, &work)),
    };
    let routers: [(&str, Box<dyn Forwards + '_>); 4] = [
        (BUDDY, Box::new(Router::new(&buddy, &work))),
        (PCP, Box::new(Router::new(&pcp, &work))),
        (ENGINE, router),
        ("again", Box::new(Router::new(&again, &work))),
    ];
    let mut subjects: Vec<&(&str, Box<dyn Forwards + '_>)> = routers.iter().collect();
    let (mut done, mut dropped) = (0, 0);
    let mut forward = |run: &mut Run<'_>, shape, level: Level| {
        run.at("contention", done, 2 + 2 * Level::ALL.len());
        done += 1;
        let series = in_turn(&mut subjects, |(_, r)| {
            let sample = r.run(shape, groups, level, &cores);
            dropped += u64::from(sample.is_none());
            sample
        });
        run.check_pair("the contention table", rates(&series[0][0], &series[3][0]));
        series
    };
    let one = forward(run, Shape::One, Level::Scaled);
    rows.section(SECTION);
    for ((column, _), [rate, _]) in routers[..3].iter().zip(&one) {
        rows.add(ONE, *column, rate.median(), "1/s");
    }
    if cores.len() < 2 {
        run.note("two CPUs were not measured: this process may use one");
    } else {
        for level in Level::ALL {
            let split = forward(run, Shape::Split, level);
            let both = forward(run, Shape::Both, level);
            if level == Level::Scaled {
                two(rows, SECTION, [TWO, SHARE, GAIN].map(str::to_owned), &both);
            }
            let metrics = |shape: &str| {
                ["packets per second", "zone lock wait share", "gain over buddy"]
                    .map(|m| format!("{m}, {shape}, {}", level.name()))
            };
            two(rows, "By work for a packet, 2 CPUs", metrics("one receives, one completes"), &split);
            two(rows, "By work for a packet, 2 CPUs", metrics("each does both"), &both);
        }
        if dropped > 0 {
            run.note(format!("{dropped} samples on two CPUs were dropped: the threads ran apart"));
        }
    }
    drop(routers);
    sound(&[&buddy, &pcp, &again, engine.allocator()])
}

/// Returns by how many percent `after` forwards more, turn by turn, or by medians where samples were dropped.
fn rates(before: &Samples, after: &Samples) -> f64 {
    let less = after.paired_gain(before);
    if less.is_nan() { (after.median() / before.median() - 1.0) * 100.0 } else { less / (1.0 - less / 100.0) }
}

/// Adds rates, shares and gains of a run on two CPUs.
fn two(rows: &mut Rows, section: &'static str, [rate, share, gain]: [String; 3], series: &[[Samples; 2]]) {
    rows.section(section);
    for (column, [rates, shares]) in [BUDDY, PCP, ENGINE].into_iter().zip(series) {
        rows.add(&rate, column, rates.median(), "1/s");
        rows.add(&share, column, shares.median(), "%");
    }
    for (column, [after, _]) in [PCP, ENGINE].into_iter().zip(&series[1..]) {
        rows.add(&gain, column, rates(&series[0][0], after), "%");
    }
}
