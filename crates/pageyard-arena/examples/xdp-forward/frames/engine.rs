//! Pageyard's engine by number, over metadata in shared memory: a CPU of it for each worker, whose lists need no lock.
//!
//! The engine has no state but its metadata, and asks for no promise but that calls which name one CPU do not overlap:
//! here a CPU is a worker's number, which passes on only after the worker before has been waited for.

use super::lines::Lines;
use super::{Frames, Store, User};
use crate::board::Worker;
use crate::shared;
use pageyard::{
    Config, Counter, CpuId, CpuSet, Cx, Exclusive, Frames as Count, MapError, MemoryMap, Metadata,
    Migratetype, NodeId, Order, Pageyard, Pfn, Region, Request, RequestFlags, ZoneKind,
};
use std::io;
use std::ptr::NonNull;

/// An instance, whose lists are the workers' own.
pub(super) type Yard = Pageyard<'static, Exclusive>;

/// Frames whose tags, a byte each, are one cache line.
const TAGS: usize = 64;
/// Lines that a trip to the zone touches: a pageblock's descriptor, a word of its bits, its bin. An estimate, not a
/// count.
const ZONE_LINES: u64 = 3;

/// The engine.
#[derive(Clone, Copy)]
pub struct Engine {
    /// Where the instance lies, in shared memory: made anew while no one uses it.
    yard: NonNull<Yard>,
    metadata: NonNull<u8>,
    metadata_bytes: usize,
    frames: u32,
    /// As many CPUs; the supervisor has the next one.
    workers: u32,
    lines: Lines,
}

/// `vm.percpu_pagelist_high_fraction`, the smallest that Linux takes: an eighth of the frames may be on lists. By
/// default Linux sizes lists by the zone, and for one of a few thousand frames they hold eight frames each.
const LISTS_FRACTION: u64 = 8;

/// Returns the request for a frame.
pub(super) fn request() -> Request {
    // Down to the last frame: there is nothing to keep a reserve for.
    Request::new(Order::ZERO, Migratetype::Movable).with(RequestFlags::MEMALLOC)
}

fn refused(why: MapError) -> io::Error {
    io::Error::other(why.to_string())
}

impl Engine {
    /// Makes it for so many frames, all of them taken.
    ///
    /// # Errors
    /// Where there is no memory for it.
    pub fn new(frames: u32, workers: u32, counts: bool) -> io::Result<Engine> {
        let region = [Engine::region(frames)];
        let map = MemoryMap::new(&region).map_err(refused)?;
        let bytes = Yard::layout(&map, &Engine::config(workers)).map_err(refused)?.layout.size();
        let engine = Engine {
            yard: shared::bytes(size_of::<Yard>())?.cast(),
            metadata: shared::bytes(bytes)?,
            metadata_bytes: bytes,
            frames,
            workers,
            lines: Lines::new((frames as usize).div_ceil(TAGS), counts)?,
        };
        engine.make()?;
        Ok(engine)
    }

    fn config(workers: u32) -> Config {
        let mut config = Config::new(workers + 1);
        config.watermark.min_free_kbytes = Some(0);
        config.percpu_pagelist_high_fraction = LISTS_FRACTION;
        config
    }

    /// Returns the supervisor's CPU.
    pub(super) fn supervisor(&self) -> Cx {
        Cx::on(CpuId(self.workers))
    }

    fn region(frames: u32) -> Region {
        Region::managed(Pfn(0), Count(u64::from(frames)), NodeId(0), ZoneKind::Normal)
    }

    /// Makes the instance anew, with every frame free; no one uses it.
    pub(super) fn make(&self) -> io::Result<()> {
        let region = [Engine::region(self.frames)];
        let map = MemoryMap::new(&region).map_err(refused)?;
        // SAFETY: 1. The memory is mapped for the rest of the program. 2. Only the instance uses it, and the last one
        //         is not used any more: workers stand still, and look it up again when they go on.
        let memory = unsafe { std::slice::from_raw_parts_mut(self.metadata.as_ptr(), self.metadata_bytes) };
        // SAFETY: calls that name one CPU do not overlap: see the module. All lists are drained while workers stand
        // still only.
        let percpu = unsafe { Exclusive::by_cpu() };
        let yard = Pageyard::new(&map, Engine::config(self.workers), percpu, Metadata::zeroed(memory))
            .map_err(refused)?;
        // SAFETY: the memory is large enough and aligned to a page, and nothing in the last instance needs a drop.
        unsafe { self.yard.write(yard) };
        Ok(())
    }

    /// Takes this very frame, which is free in a new instance.
    pub(super) fn claim(&self, frame: Pfn) {
        let claimed = self.yard().claim_exact(&self.supervisor(), frame, Order::ZERO, Migratetype::Movable);
        claimed.expect("every frame of a new instance is free");
    }

    /// Returns the instance. It lies where it lies for good; what is there is made anew by [`Engine::make`].
    pub(super) fn yard(&self) -> &'static Yard {
        // SAFETY: `make` wrote it, and it stays mapped; a worker that holds on to it while it is made anew stands
        // still.
        unsafe { self.yard.as_ref() }
    }
}

impl Store for Engine {
    fn rebuild(&self, users: &[User]) {
        self.make().expect("it was made with this size before");
        for (_, frame) in users.iter().zip(0..).filter(|(user, _)| user.is_some()) {
            self.claim(Pfn(frame));
        }
        self.lines.reset();
    }

    fn drain(&self) -> Vec<Pfn> {
        let _ = self.yard().drain(CpuSet::All);
        std::iter::from_fn(|| self.yard().alloc(&self.supervisor(), &request()).ok()).collect()
    }

    fn open(&self, worker: Worker) -> Box<dyn Frames> {
        Box::new(Side { yard: self.yard(), cx: Cx::on(CpuId(worker.0)), worker, lines: self.lines })
    }

    fn lines(&self) -> Option<u64> {
        let stats = self.yard().stats();
        let trips = stats[Counter::PcpRefill] + stats[Counter::PcpDrain];
        self.lines.handed().map(|tags| tags + trips * ZONE_LINES)
    }
}

/// A worker's side: its CPU.
struct Side {
    yard: &'static Yard,
    cx: Cx,
    worker: Worker,
    lines: Lines,
}

impl Side {
    fn count(&self, frames: &[Pfn]) {
        if self.lines.counts() {
            frames.iter().for_each(|frame| self.lines.touch(self.worker, frame.0 as usize / TAGS));
        }
    }
}

impl Frames for Side {
    fn get(&mut self, out: &mut [Pfn]) -> usize {
        let got = self.yard.alloc_bulk(&self.cx, &request(), out);
        self.count(&out[..got]);
        got
    }

    fn put(&mut self, frames: &[Pfn]) {
        // A frame that is not its to free is refused, and shows in the count of frames.
        self.yard.free_bulk(&self.cx, frames, Order::ZERO, &mut |_, _| ());
        self.count(frames);
    }
}
