//! A CPU that receives takes a frame for each packet, one that completes transmission frees it as a fragment. A router's CPUs
//! do both, each for its own queues: that is the first table. With two CPUs, each end can also be on its own CPU.
//!
//! Between them a ring carries packets in groups, as a NAPI poll hands them on. Each packet's frame is real memory: the
//! receiver writes a header and the completion reads it. Both ends do a router's other work beside that, as look-ups in a
//! table larger than the caches, for a stated time: a CPU that did nothing but allocate would wait for the lock more than
//! any router does. With one CPU both ends take turns on it.

use super::work::{Level, Work};
use super::{BUDDY, ENGINE, ONE, PCP, POINT, PRESET, SHARE, TWO};
use crate::error::BenchError;
use crate::experiment::machines::{engine, protection, reference, single, sound};
use crate::experiment::{Rows, Run, Settings};
use crate::harness::engines::{Measurable, Visit, one_zone};
use crate::harness::sampler::Sample;
use crate::harness::samples::Samples;
use crate::harness::team::{OVERLAP, Team, cpus};
use pageyard::{CpuId, Cx, Order, PageAllocator, Pfn};
use pageyard_linux::LinuxAllocator;
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

const SECTION: &str = "Contention";

pub(super) const GAIN: &str = "gain over buddy, 2 CPUs";

/// By how much the same variant, measured twice, differs.
pub(super) const APART: &str = "A/A packets per second, 2 CPUs";

/// Frames that the machine has: 256 MiB, so that their headers can be real.
const MEMORY: u64 = 1 << 16;

/// Packets that are handed on together: NAPI's budget.
const GROUP: usize = 64;

/// Packets on their way at most: a transmit ring of 1024.
const RING: usize = 1024;

/// Words of a header that are written and read: 128 bytes, the part of a frame that forwarding touches.
const HEADER: usize = 16;

/// An allocator that frees a packet's frame as its subject does.
trait Packets: Send + Sync + 'static {
    fn take(&self, cx: &Cx) -> Option<Pfn>;
    fn complete(&self, cx: &Cx, pfn: Pfn);
    fn waited_ns(&self) -> u64;
    fn engine(&self) -> &dyn PageAllocator;
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

    fn engine(&self) -> &dyn PageAllocator {
        self
    }
}

/// An engine that frees a fragment's frame as any other, and has no zone lock.
struct Plain<E>(E);

impl<E: Measurable> Packets for Plain<E> {
    fn take(&self, cx: &Cx) -> Option<Pfn> {
        self.0.alloc(cx, &single()).ok()
    }

    fn complete(&self, cx: &Cx, pfn: Pfn) {
        let _ = self.0.free(cx, pfn, Order::ZERO);
    }

    /// There is no zone lock to wait for.
    fn waited_ns(&self) -> u64 {
        0
    }

    fn engine(&self) -> &dyn PageAllocator {
        &self.0
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
struct Router<P> {
    packets: P,
    memory: Memory,
    work: Arc<Work>,
}

/// Makes a router that frees packets' frames as its engine does.
fn router<P: Packets>(packets: P, work: &Arc<Work>) -> Box<dyn Forwards> {
    let memory = (0..MEMORY).map(|_| [const { AtomicU64::new(0) }; HEADER]).collect();
    Box::new(Arc::new(Router { packets, memory: Memory(memory), work: work.clone() }))
}

impl<P: Packets> Router<P> {
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
    fn run(&self, shape: Shape, groups: usize, level: Level, team: &Team) -> Option<[f64; 2]>;

    /// Returns the engine behind it.
    fn engine(&self) -> &dyn PageAllocator;
}

impl<P: Packets> Forwards for Arc<Router<P>> {
    fn run(&self, shape: Shape, groups: usize, level: Level, team: &Team) -> Option<[f64; 2]> {
        let before = self.packets.waited_ns();
        let (router, ring) = (self.clone(), Ring::new());
        let cpus = if shape == Shape::One { 1 } else { 2 };
        let all = team.together(cpus, move |cpu| match shape {
            Shape::Split => router.handed_over(cpu, &ring, groups, level),
            Shape::One | Shape::Both => router.alone(cpu, groups, level),
        })?;
        if !all.threads.iter().all(|(right, _)| *right) || (cpus > 1 && all.overlap < OVERLAP) {
            return None;
        }
        let longest = all.threads.iter().map(|(_, ns)| *ns).max()? as f64 / 1e9;
        let time: f64 = all.threads.iter().map(|(_, ns)| *ns as f64).sum();
        let packets = groups * GROUP * if shape == Shape::Both { 2 } else { 1 };
        let waited = (self.packets.waited_ns() - before) as f64;
        Some([packets as f64 / longest, waited / time * 100.0])
    }

    fn engine(&self) -> &dyn PageAllocator {
        self.packets.engine()
    }
}

/// The engine as a router.
struct AsRouter<'a>(&'a Arc<Work>);

impl Visit for AsRouter<'_> {
    type Output = Box<dyn Forwards>;

    fn visit<E: Measurable>(self, engine: E) -> Box<dyn Forwards> {
        router(Plain(engine), self.0)
    }
}

fn machine(frag_free: &str, settings: &Settings) -> Result<LinuxAllocator, BenchError> {
    let config = settings.linux(PRESET, &[(POINT, frag_free), ("interrupts", "soft_flag")])?;
    reference(&one_zone(MEMORY), &config)
}

pub(super) fn measure(run: &mut Run<'_>, rows: &mut Rows) -> Result<(), BenchError> {
    let groups = if run.quick { 256 } else { 2048 };
    let team = Team::new(&cpus());
    let work = Arc::new(Work::new());
    let reference = |frag_free| Ok::<_, BenchError>(router(machine(frag_free, &run.settings)?, &work));
    let routers: [(&str, Box<dyn Forwards>); 4] = [
        (BUDDY, reference("buddy")?),
        (PCP, reference("pcp")?),
        (ENGINE, engine(&one_zone(MEMORY), &run.settings, AsRouter(&work))?),
        ("again", reference("buddy")?),
    ];
    run.note(protection(&run.settings));
    let mut subjects: Vec<&(&str, Box<dyn Forwards>)> = routers.iter().collect();
    let (mut done, mut dropped) = (0, 0);
    let mut forward = |run: &mut Run<'_>, shape, level: Level| {
        run.at("contention", done, 2 + 2 * Level::ALL.len());
        done += 1;
        let series = run.sampler().run(&mut subjects, |(_, r)| {
            let sample = r.run(shape, groups, level, &team);
            dropped += u64::from(sample.is_none());
            Sample::from(sample)
        });
        run.check_pair("the contention table", rates(&series[0][0], &series[3][0]));
        series
    };
    let one = forward(run, Shape::One, Level::Scaled);
    rows.section(SECTION);
    for ((column, _), [rate, _]) in routers[..3].iter().zip(&one) {
        rows.add(ONE, *column, rate.median(), "1/s");
    }
    if team.len() < 2 {
        run.note("two CPUs were not measured: this process may use one");
    } else {
        for level in Level::ALL {
            let split = forward(run, Shape::Split, level);
            let both = forward(run, Shape::Both, level);
            if level == Level::Scaled {
                two(rows, SECTION, [TWO, SHARE, GAIN].map(str::to_owned), &both);
                rows.add(APART, BUDDY, rates(&both[0][0], &both[3][0]), "% apart");
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
    sound(routers.iter().map(|(_, r)| r.engine()))
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
