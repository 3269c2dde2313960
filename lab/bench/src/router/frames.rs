//! The real part of the model: frames of an actual allocator, and the headers in them.
//!
//! Each packet's frame is taken from an allocator and freed to it, through the calls that its CPU would make. A header
//! is written where the card would write it, read and changed where the CPU forwards, and checked when transmission
//! completes: a frame that two packets had at once is found. How often the zone lock was taken is what the allocator
//! itself counted.

use super::settings::{Column, Recycling, RouterSettings};
use crate::error::BenchError;
use crate::harness::engines::{leaves_half, one_zone};
use pageyard::{
    CpuId, Cx, MemoryMap, Migratetype, Order, OwnedPageyard, PageAllocator, Pageyard, Pfn, Request, TryLock,
};
use pageyard_linux::LinuxAllocator;

/// An allocator, and how it frees a packet's frame.
pub(crate) trait Packets {
    /// Takes a frame for a packet.
    fn take(&self, cx: &Cx) -> Option<Pfn>;

    /// Frees a packet's frame. `false`: it was refused.
    fn free(&self, cx: &Cx, pfn: Pfn) -> bool;

    /// Returns how often the zone lock was taken so far; 0 where there is none.
    fn sections(&self) -> u64;

    /// Returns the allocator.
    fn engine(&self) -> &dyn PageAllocator;
}

fn single() -> Request {
    Request::new(Order::ZERO, Migratetype::Unmovable)
}

impl Packets for LinuxAllocator {
    fn take(&self, cx: &Cx) -> Option<Pfn> {
        self.alloc(cx, &single()).ok()
    }

    fn free(&self, cx: &Cx, pfn: Pfn) -> bool {
        self.free_frag(cx, pfn, Order::ZERO).is_ok()
    }

    fn sections(&self) -> u64 {
        self.lock_stats().taken
    }

    fn engine(&self) -> &dyn PageAllocator {
        self
    }
}

impl Packets for OwnedPageyard<TryLock> {
    fn take(&self, cx: &Cx) -> Option<Pfn> {
        self.alloc(cx, &single()).ok()
    }

    fn free(&self, cx: &Cx, pfn: Pfn) -> bool {
        PageAllocator::free(self, cx, pfn, Order::ZERO).is_ok()
    }

    fn sections(&self) -> u64 {
        0
    }

    fn engine(&self) -> &dyn PageAllocator {
        self
    }
}

/// Makes the reference with frames of packets freed as a column says.
///
/// # Errors
/// [`BenchError::Settings`] where the memory is too small for it.
pub(crate) fn reference(settings: &RouterSettings) -> Result<LinuxAllocator, BenchError> {
    let wrong = |why: String| BenchError::Experiment { why };
    let mut config = pageyard_linux::Config::preset("linux-4.10")
        .ok_or_else(|| wrong("there is no preset linux-4.10".into()))?;
    let frees = if settings.column == Column::Buddy { "buddy" } else { "pcp" };
    for (knob, value) in [("frag_free", frees), ("interrupts", "soft_flag")] {
        config.set(knob, value).map_err(|e| wrong(e.to_string()))?;
    }
    config.cpus = settings.cpus as u32;
    let regions = one_zone(settings.machine_frames());
    let map = MemoryMap::new(&regions).map_err(|e| wrong(e.to_string()))?;
    let engine = LinuxAllocator::new(&map, &config).map_err(|e| wrong(e.to_string()))?;
    enough(&engine).map(|()| engine)
}

/// Makes the engine.
///
/// # Errors
/// As [`reference`].
pub(crate) fn pageyard(settings: &RouterSettings) -> Result<OwnedPageyard<TryLock>, BenchError> {
    let wrong = |why: String| BenchError::Experiment { why };
    let regions = one_zone(settings.machine_frames());
    let map = MemoryMap::new(&regions).map_err(|e| wrong(e.to_string()))?;
    let config = pageyard::Config::new(settings.cpus as u32);
    let engine = Pageyard::owned(&map, config, TryLock).map_err(|e| wrong(e.to_string()))?;
    enough(&engine).map(|()| engine)
}

fn enough(engine: &impl PageAllocator) -> Result<(), BenchError> {
    leaves_half(engine).map_err(|_| BenchError::Settings {
        why: "`frames` is too small: watermarks keep back half of so little memory; ask for more, or for 0, which is enough"
            .into(),
    })
}

/// A place where a queue keeps frames for its next packets. `pageyard`'s page pool fits behind it.
pub(crate) trait FramePool {
    /// Takes a frame, if one is kept.
    fn take(&mut self) -> Option<Pfn>;

    /// Keeps a frame. `false`: it is full, and the frame stays the caller's.
    fn keep(&mut self, pfn: Pfn) -> bool;
}

/// The plain pool: the frame that came last goes first, up to a limit.
pub(crate) struct Stack {
    frames: Vec<Pfn>,
    limit: usize,
}

impl Stack {
    /// Makes an empty one.
    pub fn new(limit: usize) -> Stack {
        Stack { frames: Vec::new(), limit }
    }
}

impl FramePool for Stack {
    fn take(&mut self) -> Option<Pfn> {
        self.frames.pop()
    }

    fn keep(&mut self, pfn: Pfn) -> bool {
        let room = self.frames.len() < self.limit;
        if room {
            self.frames.push(pfn);
        }
        room
    }
}

/// The path of a frame, in terms that the model puts a time to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Way {
    /// A pool had it, or took it.
    Pooled,
    /// The allocator did, without the zone lock.
    Listed,
    /// The allocator did, and took the zone lock so often.
    Locked(u64),
}

/// The counts of frames taken, recycled, refused and held.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Traded {
    /// Frames taken, from anywhere.
    pub taken: u64,
    /// Of those, from a pool.
    pub recycled: u64,
    /// Requests that no one could serve.
    pub refused: u64,
    /// Frames that the allocator does not have: in rings, queues and pools.
    pub held: u64,
}

/// Words of a header that are written and read: 128 bytes, the part of a frame that forwarding touches.
const HEADER: usize = 16;

/// The frames of a simulated host.
pub(crate) struct Frames<P> {
    packets: P,
    /// The first cache lines of each frame.
    headers: Vec<[u64; HEADER]>,
    pools: Vec<Stack>,
    recycling: Recycling,
    /// The counts so far.
    pub traded: Traded,
    wrong: u64,
}

impl<P: Packets> Frames<P> {
    /// Makes the frames of a host; everything is free.
    pub fn new(packets: P, settings: &RouterSettings) -> Frames<P> {
        let pool = || Stack::new(settings.pool_frames as usize);
        Frames {
            packets,
            headers: vec![[0; HEADER]; settings.machine_frames() as usize],
            pools: (0..settings.queues()).map(|_| pool()).collect(),
            recycling: settings.recycling,
            traded: Traded::default(),
            wrong: 0,
        }
    }

    /// Takes a frame on a CPU for a receive queue.
    pub fn take(&mut self, cpu: usize, queue: usize) -> Option<(Pfn, Way)> {
        if let Some(pfn) = self.pools[queue].take() {
            self.traded.taken += 1;
            self.traded.recycled += 1;
            return Some((pfn, Way::Pooled));
        }
        let before = self.packets.sections();
        let Some(pfn) = self.packets.take(&Cx::on(CpuId(cpu as u32))) else {
            self.traded.refused += 1;
            return None;
        };
        self.traded.taken += 1;
        self.traded.held += 1;
        Some((pfn, self.way(before)))
    }

    /// Gives back a frame on a CPU; `queue` is the receive queue that it came through.
    pub fn give(&mut self, cpu: usize, queue: usize, pfn: Pfn) -> Way {
        if self.recycling == Recycling::Pool && self.pools[queue].keep(pfn) {
            return Way::Pooled;
        }
        let before = self.packets.sections();
        self.free(cpu, pfn);
        self.way(before)
    }

    fn way(&self, before: u64) -> Way {
        match self.packets.sections() - before {
            0 => Way::Listed,
            times => Way::Locked(times),
        }
    }

    fn free(&mut self, cpu: usize, pfn: Pfn) {
        match self.packets.free(&Cx::on(CpuId(cpu as u32)), pfn) {
            true => self.traded.held -= 1,
            false => self.wrong += 1,
        }
    }

    /// Writes a packet's header, as the card does.
    pub fn write(&mut self, pfn: Pfn, packet: u64) {
        self.headers[pfn.0 as usize] = [packet; HEADER];
    }

    /// Reads a packet's header and changes it, as forwarding does.
    pub fn forward(&mut self, pfn: Pfn, packet: u64) {
        let header = &mut self.headers[pfn.0 as usize];
        let right = header.iter().all(|word| *word == packet);
        header[0] = !packet;
        self.wrong += u64::from(!right);
    }

    /// Reads a forwarded packet's header once more, when its frame is given up.
    pub fn check(&mut self, pfn: Pfn, packet: u64) {
        let header = &self.headers[pfn.0 as usize];
        self.wrong += u64::from(header[0] != !packet || header[HEADER - 1] != packet);
    }

    /// Takes back every frame, those in pools and `others`, and checks that none is lost.
    ///
    /// # Errors
    /// [`BenchError::Experiment`] where a frame was lost, or two packets had the same one.
    pub fn close(mut self, others: impl Iterator<Item = Pfn>) -> Result<(), BenchError> {
        for pfn in others {
            self.free(0, pfn);
        }
        for queue in 0..self.pools.len() {
            while let Some(pfn) = self.pools[queue].take() {
                self.free(0, pfn);
            }
        }
        let failed = |why: String| Err(BenchError::Experiment { why });
        let (held, wrong) = (self.traded.held, self.wrong);
        if held > 0 || wrong > 0 {
            return failed(format!("{held} frames were lost, and {wrong} had another packet's header"));
        }
        match self.packets.engine().audit() {
            Ok(census) if census.allocated.0 == 0 && census.is_conserved() => Ok(()),
            Ok(census) => failed(format!("frames were lost: {census:?}")),
            Err(why) => failed(format!("an audit failed: {why}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(column: Column, recycling: Recycling) -> RouterSettings {
        RouterSettings { cpus: 2, ports: 1, column, recycling, frames: 1 << 14, ..Default::default() }
    }

    #[test]
    fn a_pool_keeps_up_to_its_limit_and_hands_out_the_last_one_first() {
        let mut pool = Stack::new(2);
        assert!(pool.take().is_none());
        assert_eq!([1, 2, 3].map(|n| pool.keep(Pfn(n))), [true, true, false]);
        assert_eq!([pool.take(), pool.take(), pool.take()], [Some(Pfn(2)), Some(Pfn(1)), None]);
    }

    #[test]
    fn a_frame_freed_to_the_zone_takes_its_lock_and_one_freed_to_the_list_does_not() {
        for (column, locked) in [(Column::Buddy, true), (Column::Pcp, false)] {
            let settings = settings(column, Recycling::None);
            let mut frames = Frames::new(reference(&settings).unwrap(), &settings);
            let (pfn, way) = frames.take(0, 0).unwrap();
            assert!(matches!(way, Way::Locked(_)), "the first one fills the list");
            assert_eq!(frames.give(0, 0, pfn) == Way::Locked(1), locked, "{column:?}");
            frames.close(std::iter::empty()).unwrap();
        }
    }

    #[test]
    fn frames_are_conserved_and_a_lost_one_is_found() {
        let settings = settings(Column::Pageyard, Recycling::Pool);
        let make = || Frames::new(pageyard(&settings).unwrap(), &settings);
        let mut frames = make();
        let kept: Vec<Pfn> = (0..100).map(|_| frames.take(1, 1).unwrap().0).collect();
        assert_eq!(frames.give(1, 1, kept[0]), Way::Pooled);
        assert_eq!((frames.traded.taken, frames.traded.held), (100, 100));
        frames.close(kept[1..].iter().copied()).unwrap();
        let mut frames = make();
        frames.take(0, 0).unwrap();
        assert!(frames.close(std::iter::empty()).unwrap_err().to_string().contains("1 frames were lost"));
    }

    #[test]
    fn a_header_that_is_another_packets_is_found() {
        let settings = settings(Column::Pcp, Recycling::None);
        let mut frames = Frames::new(reference(&settings).unwrap(), &settings);
        let (pfn, _) = frames.take(0, 0).unwrap();
        frames.write(pfn, 1);
        frames.forward(pfn, 1);
        frames.check(pfn, 1);
        frames.write(pfn, 2);
        frames.forward(pfn, 1);
        assert!(frames.close([pfn].into_iter()).unwrap_err().to_string().contains("another packet's header"));
    }
}
