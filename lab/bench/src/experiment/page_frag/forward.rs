//! A host that forwards packets: one end receives, the other completes transmission. One CPU does both, or each has its
//! own.
//!
//! Between them a ring carries packets in groups, as a NAPI poll hands them on. Each packet's frame is real memory: the
//! receiver writes a header and the completion reads it. Both ends do a router's other work beside that, as look-ups in
//! a table larger than the caches, for a stated time: a CPU that did nothing but allocate would wait for the lock more
//! than any router does. With one CPU both ends take turns on it.

use super::buffers::{Buffers, Consumer, Fate};
use super::notes::{Notes, Stage};
use super::work::{Level, Work};
use crate::error::BenchError;
use crate::harness::team::{OVERLAP, Team};
use pageyard::{Counter, CpuId, Cx, PageAllocator};
use pageyard_packets::PoolStats;
use std::cell::Cell;
use std::collections::VecDeque;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Frames that the machine has: 256 MiB, so that their headers can be real.
pub(super) const MEMORY: u64 = 1 << 16;

/// Packets that are handed on together: NAPI's budget.
pub(super) const GROUP: usize = 64;

/// Packets on their way at most: a transmit ring of 1024.
const RING: usize = 1024;

/// Words of a header that are written and read: 128 bytes, the part of a frame that forwarding touches.
const HEADER: usize = 16;

/// The state shared by all hosts of the experiment, which take turns.
#[derive(Clone)]
pub(super) struct World {
    /// The memory of the frames, as far as packets touch it: the first cache lines of each.
    memory: Arc<Vec<[AtomicU64; HEADER]>>,
    work: Arc<Work>,
}

impl World {
    /// Makes it, and measures how long a look-up takes.
    pub fn new() -> World {
        let memory = (0..MEMORY).map(|_| [const { AtomicU64::new(0) }; HEADER]).collect();
        World { memory: Arc::new(memory), work: Arc::new(Work::new()) }
    }
}

impl World {
    /// Returns by how many percent the work of a packet takes longer now than it did at first.
    pub fn drifted(&self) -> f64 {
        self.work.drifted()
    }
}

/// The division of labour.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Shape {
    /// One CPU, both ends.
    One,
    /// One CPU receives, the other completes.
    Split,
    /// Two CPUs, both ends each.
    Both,
}

impl Shape {
    pub fn name(self) -> &'static str {
        match self {
            Shape::One => "one CPU",
            Shape::Split => "one receives, one completes",
            Shape::Both => "each does both",
        }
    }

    fn cpus(self) -> usize {
        if self == Shape::One { 1 } else { 2 }
    }
}

/// The settings of a pass.
#[derive(Clone, Copy, Debug)]
pub(super) struct Load {
    pub shape: Shape,
    pub level: Level,
    /// Groups of packets for each receiving CPU, at most: see [`Forwards::run`].
    pub groups: usize,
    /// Whether headers are written and read.
    pub headers: bool,
}

/// The results of a pass.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pass {
    /// Packets that were forwarded.
    pub packets: u64,
    /// Packets a second.
    pub rate: f64,
    /// The share of all CPUs' time spent waiting for the zone lock, in percent.
    pub waited: f64,
}

/// A host of any kind.
pub(super) trait Forwards {
    /// Forwards packets. Where each CPU does both ends, the first to have forwarded its groups ends the pass. `None`
    /// where the pass does not count: the threads ran apart, or something was refused.
    fn run(&self, load: Load, team: &Team) -> Option<Pass>;

    /// Returns the allocator behind it.
    fn engine(&self) -> &'static dyn PageAllocator;

    /// Returns what its pools have counted.
    fn pools(&self) -> PoolStats;

    /// Closes its pools; no pass follows. Returns how many pages are still out.
    fn close(&self) -> u64;
}

/// Makes a host over an allocator: `F` says what becomes of a packet's page, `notes` what a pass notes.
///
/// # Errors
/// As [`Buffers::over`].
pub(super) fn host<F: Fate, N: Notes, A: PageAllocator + Send + 'static>(
    allocator: A,
    world: &World,
    notes: Arc<N>,
) -> Result<Box<dyn Forwards>, BenchError> {
    let host: Host<A, F, N> =
        Host { buffers: Buffers::over(allocator)?, world: world.clone(), notes, fate: PhantomData };
    let host: &'static Host<A, F, N> = Box::leak(Box::new(host));
    Ok(Box::new(host))
}

struct Host<A: PageAllocator + 'static, F, N> {
    buffers: Buffers<A>,
    world: World,
    notes: Arc<N>,
    fate: PhantomData<fn() -> F>,
}

/// Packets that are handed on together; one that was not received leaves its place empty.
type Group<B> = VecDeque<Option<B>>;

/// The ring between the two ends: one writer, one reader. A group's lock is never waited for: the positions say whose
/// it is.
struct Ring<B> {
    groups: Vec<Mutex<Group<B>>>,
    written: Position,
    read: Position,
}

/// A number of packets, on cache lines of its own.
#[repr(align(128))]
struct Position(AtomicUsize);

impl Position {
    /// Looks at it; if it has not moved, after a pause.
    fn wait(&self, seen: usize) -> usize {
        // ORDER: Acquire pairs with the Release in `receive` and in `complete`.
        let now = self.0.load(Ordering::Acquire);
        if now == seen {
            std::hint::spin_loop();
        }
        now
    }
}

impl<B> Ring<B> {
    fn new() -> Ring<B> {
        let position = || Position(AtomicUsize::new(0));
        let group = |_| Mutex::new(Group::with_capacity(GROUP));
        Ring { groups: (0..RING / GROUP).map(group).collect(), written: position(), read: position() }
    }

    /// Returns the group of these packets.
    fn group(&self, at: usize) -> MutexGuard<'_, Group<B>> {
        // A thread that panicked ends its pass: no group is used after that.
        self.groups[at / GROUP % (RING / GROUP)].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An end of a host on one CPU.
struct End {
    cpu: usize,
    cx: Cx,
    load: Load,
    at_work: Cell<usize>,
}

impl End {
    fn on(cpu: usize, load: Load) -> End {
        End { cpu, cx: Cx::on(CpuId(cpu as u32)), load, at_work: Cell::new(cpu) }
    }
}

impl<A: PageAllocator + 'static, F: Fate, N: Notes> Host<A, F, N> {
    /// Receives a group: pages are taken and headers written. `false`: a page was refused.
    fn receive(
        &'static self,
        end: &End,
        pages: &mut Consumer<A>,
        ring: &Ring<F::Buffer<A>>,
        at: usize,
    ) -> bool {
        let (mut had, mut group) = (true, ring.group(at));
        for i in at..at + GROUP {
            let packet = pages.get(&end.cx).ok().and_then(|page| F::build(&self.buffers, page));
            had &= packet.is_some();
            if let Some(packet) = &packet {
                self.write(end, F::page::<A>(packet).0 as usize, i);
                self.notes.received(end.cpu, F::page::<A>(packet));
            }
            end.at_work.set(self.world.work.half(end.at_work.get() ^ i, end.load.level));
            group.push_back(packet);
        }
        drop(group);
        // ORDER: Release pairs with the Acquire in `wait`: the group lies in the ring.
        ring.written.0.store(at + GROUP, Ordering::Release);
        had
    }

    #[inline]
    fn write(&self, end: &End, frame: usize, i: usize) {
        if end.load.headers {
            // ORDER: Relaxed: the ring hands the header on.
            self.world.memory[frame].iter().for_each(|word| word.store(i as u64, Ordering::Relaxed));
        }
    }

    /// Completes a group: headers are read and buffers given back. `false`: a header was another packet's, or a buffer
    /// was refused.
    fn complete(&self, end: &End, ring: &Ring<F::Buffer<A>>, at: usize) -> bool {
        let (mut right, mut group) = (true, ring.group(at));
        for (i, packet) in (at..at + GROUP).zip(group.drain(..)) {
            let Some(packet) = packet else { continue };
            end.at_work.set(self.world.work.half(end.at_work.get() ^ i, end.load.level));
            let _consuming = self.notes.at(Stage::Consume);
            right &= !end.load.headers || self.is_of(F::page::<A>(&packet).0 as usize, i);
            let _freeing = self.notes.at(Stage::FragFree);
            right &= F::put::<A>(packet, &end.cx);
        }
        drop(group);
        // ORDER: Release pairs with the Acquire in `wait`: the places may be used again.
        ring.read.0.store(at + GROUP, Ordering::Release);
        right
    }

    #[inline]
    fn is_of(&self, frame: usize, i: usize) -> bool {
        let _releasing = self.notes.at(Stage::Release);
        // ORDER: Relaxed: the Acquire in `wait` has it.
        self.world.memory[frame].iter().all(|word| word.load(Ordering::Relaxed) == i as u64)
    }

    /// Forwards on one CPU; half a ring is on its way. Returns the groups that it forwarded: where another CPU does the
    /// same, the first to end ends both, so that all that counts was forwarded side by side.
    fn alone(&'static self, end: &End, ended: &AtomicBool) -> (bool, usize) {
        let Some(mut pages) = self.buffers.consumer(end.cpu) else { return (false, 0) };
        let (ring, lag) = (Ring::new(), RING / GROUP / 2);
        let (mut right, mut done) = (true, 0);
        // ORDER: Relaxed, twice: it orders nothing, and is seen a group later at worst.
        while done < end.load.groups && !ended.load(Ordering::Relaxed) {
            right &= self.receive(end, &mut pages, &ring, done * GROUP);
            right &= done < lag || self.complete(end, &ring, (done - lag) * GROUP);
            done += 1;
        }
        ended.store(true, Ordering::Relaxed);
        let left = done.saturating_sub(lag)..done;
        right &= left.fold(true, |right, group| right & self.complete(end, &ring, group * GROUP));
        (right, done)
    }

    /// Receives on this CPU what another completes.
    fn receives(&'static self, end: &End, ring: &Ring<F::Buffer<A>>) -> bool {
        let Some(mut pages) = self.buffers.consumer(end.cpu) else { return false };
        // The other end's position, looked up only when this end has caught up with it.
        let mut seen = 0;
        (0..end.load.groups).map(|group| group * GROUP).fold(true, |right, at| {
            while at + GROUP > seen + RING {
                seen = ring.read.wait(seen);
            }
            right & self.receive(end, &mut pages, ring, at)
        })
    }

    /// Completes on this CPU what another receives.
    fn completes(&self, end: &End, ring: &Ring<F::Buffer<A>>) -> bool {
        let mut seen = 0;
        (0..end.load.groups).map(|group| group * GROUP).fold(true, |right, at| {
            while at + GROUP > seen {
                seen = ring.written.wait(seen);
            }
            right & self.complete(end, ring, at)
        })
    }

    /// Does a CPU's part; says whether all went right, and how many groups were received in it.
    fn forward(&'static self, end: &End, ring: &Ring<F::Buffer<A>>, ended: &AtomicBool) -> (bool, usize) {
        let _noting = self.notes.begin(end.cpu);
        match (end.load.shape, end.cpu) {
            (Shape::Split, 0) => (self.receives(end, ring), end.load.groups),
            (Shape::Split, _) => (self.completes(end, ring), 0),
            (Shape::One | Shape::Both, _) => self.alone(end, ended),
        }
    }

    fn waited_ns(&self) -> u64 {
        self.buffers.allocator().stats()[Counter::ZoneLockWaitNs]
    }
}

impl<A: PageAllocator + Send, F: Fate, N: Notes> Forwards for &'static Host<A, F, N> {
    fn run(&self, load: Load, team: &Team) -> Option<Pass> {
        let (before, host, ring) = (self.waited_ns(), *self, Ring::new());
        let ended = AtomicBool::new(false);
        let all =
            team.together(load.shape.cpus(), move |cpu| host.forward(&End::on(cpu, load), &ring, &ended))?;
        let apart = load.shape.cpus() > 1 && all.overlap < OVERLAP;
        if apart || !all.threads.iter().all(|((right, _), _)| *right) {
            return None;
        }
        let longest = all.threads.iter().map(|(_, ns)| *ns).max()? as f64 / 1e9;
        let time: f64 = all.threads.iter().map(|(_, ns)| *ns as f64).sum();
        let waited = (self.waited_ns() - before) as f64 / time * 100.0;
        let packets = (all.threads.iter().map(|((_, groups), _)| groups).sum::<usize>() * GROUP) as u64;
        Some(Pass { packets, rate: packets as f64 / longest, waited })
    }

    fn engine(&self) -> &'static dyn PageAllocator {
        self.buffers.allocator()
    }

    fn pools(&self) -> PoolStats {
        self.buffers.stats()
    }

    fn close(&self) -> u64 {
        self.buffers.close()
    }
}
