//! The parameters of the test: the machine, what fills it, what is asked for, and who asks.

use crate::workload::fragment::State;
use crate::workload::load::Shape;
use crate::workload::owners::Shares;
use pageyard::{Frames, NodeId, Order, PAGE_SIZE, Pfn, Region, ZoneKind};
use std::time::Duration;

/// The parameters of the test.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Settings {
    /// Memory of the machine, in bytes.
    pub memory: u64,
    /// The order of the blocks asked for.
    pub order: Order,
    /// Which share of memory a phase asks for.
    pub share: f64,
    /// How long a phase lasts, in rounds of the load.
    pub rounds: f64,
    /// For how many rounds the load goes on, once memory has run short, before phase 1.
    pub settle: f64,
    /// The share of memory that the kernel holds as slab, half of it reclaimable by type. It grows as memory fills.
    pub slab: f64,
    /// The share of memory in page tables that outlive the load.
    pub tables: f64,
    /// How the load departs from its recording.
    pub shape: Shape,
    /// The shares of the movable frames that cannot be moved.
    pub shares: Shares,
    /// The state of memory before the load begins; all free if none.
    pub start: Option<State>,
    /// Who makes the requests.
    pub turns: Turns,
    /// After how much time another task wants the CPU of a request or of the load; never if none. Counts depend on it
    /// by the clock.
    pub cpu_wanted_after: Option<Duration>,
}

/// How the requests of a phase go together with the load.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Turns {
    /// One thread makes both, each at its time of the recording: every count repeats, no lock is contended, and
    /// whatever a request freed is still there when it looks.
    One,
    /// The requests have a thread of their own beside the load's. While one is served, the recording goes on, this many
    /// nanoseconds for each nanosecond of processor time that the request takes. Counts differ from run to run.
    Beside(f64),
}

impl Settings {
    /// The study's: 4 GiB, order 4, nine tenths of memory in each phase.
    #[must_use]
    pub const fn study() -> Settings {
        Settings {
            memory: 4 << 30,
            order: Order::of(4),
            share: 0.9,
            rounds: 1.0,
            settle: 0.5,
            slab: 0.1,
            tables: 0.01,
            shape: Shape { jobs: 8, large_blocks: false, compactor_ns: 100_000_000 },
            shares: Shares::STUDY,
            start: None,
            turns: Turns::One,
            cpu_wanted_after: None,
        }
    }

    /// Returns the machine's memory map: three quarters of memory, and at most 3 GiB, in zone DMA32, the rest in zone
    /// Normal from 4 GiB on.
    #[must_use]
    pub fn regions(&self) -> [Region; 2] {
        let frames = self.memory / PAGE_SIZE;
        // The first MiB is firmware's, as on any PC.
        let low = (frames * 3 / 4).min(3 << 18) - FIRST;
        [
            Region::managed(Pfn(FIRST), Frames(low), NodeId(0), ZoneKind::Dma32),
            Region::managed(Pfn(1 << 20), Frames(frames - low), NodeId(0), ZoneKind::Normal),
        ]
    }

    /// Returns how many blocks a phase asks for.
    #[must_use]
    pub fn attempts(&self) -> u64 {
        (self.share * (self.memory / PAGE_SIZE) as f64) as u64 >> self.order.get()
    }
}

const FIRST: u64 = 256;

#[cfg(test)]
mod tests {
    use super::*;
    use pageyard::MemoryMap;

    #[test]
    fn machines_of_every_size_have_all_their_memory_in_two_zones() {
        for gib in [1, 2, 4, 16, 64] {
            let regions = Settings { memory: gib << 30, ..Settings::study() }.regions();
            let map = MemoryMap::new(&regions).expect("the regions do not overlap");
            assert_eq!(map.zones().map(|(_, z)| z.managed.as_bytes()).sum::<u64>(), gib << 30);
        }
    }
}
