//! The contestants: floors, the engine's variants, the reference's presets and the peers, each with its best settings.
//!
//! A new allocator is one line here, and an [`Allocator`](super::allocator::Allocator).

use super::Skipped;
use super::floors::{FloorArray, FloorRseq, FloorTrylock};
use super::paged::Paged;
use super::peers::{self, BuddyBare, BuddyLocked};
use super::subject::{Alone, Shared, Subject};
use crate::variants::{alone_on_one_thread, exclusive_on_one_thread};
use pageyard::OwnedPageyard;
use pageyard::Pageyard;
use pageyard::{Config, Frames, MemoryMap, NodeId, Order, Pfn, Region, TryLock, ZoneKind};
use pageyard_arena::rseq::{CpuStacks, Rseq, Unavailable, possible_cpus};
use pageyard_linux::LinuxAllocator;
use std::path::Path;

/// The memory that is managed, in frames: 16 GiB. No row holds more than a quarter of it.
pub(super) const MEMORY: u64 = 1 << 22;

/// Frames that a floor's array holds: more than any batch.
pub(super) const FLOOR: u32 = 1 << 18;

/// CPUs that each engine has lists for.
const CPUS: u32 = 2;

/// Presets of the reference that are measured, and the names of their rows.
const PRESETS: [(&str, &str); 3] = [
    ("pageyard-linux", "linux-6.18"),
    ("pageyard-linux-6.1", "linux-6.1"),
    ("pageyard-linux-4.10", "linux-4.10"),
];

/// Orders for which there are subjects: each has its own loops, compiled for it.
pub const ORDERS: [u8; 4] = [0, 3, 6, 9];

/// Who is for one thread only.
pub(super) const ALONE: [&str; 4] =
    ["floor-array", "pageyard-exclusive", "pageyard-alone", "buddy_system_allocator"];

/// The subjects for blocks of one order.
pub(super) struct Subjects {
    pub all: Vec<Box<dyn Subject>>,
    pub skipped: Vec<Skipped>,
}

impl Subjects {
    /// Makes the floors, engines and allocators that live in this process, for blocks of an order of [`ORDERS`].
    pub fn inside(order: Order) -> Subjects {
        match order.get() {
            0 => Subjects::of::<0>(),
            3 => Subjects::of::<3>(),
            6 => Subjects::of::<6>(),
            9 => Subjects::of::<9>(),
            _ => Subjects { all: Vec::new(), skipped: Vec::new() },
        }
    }

    fn of<const ORDER: u8>() -> Subjects {
        let regions = [Region::managed(Pfn(0), Frames(MEMORY), NodeId(0), ZoneKind::Normal)];
        let map = MemoryMap::new(&regions).expect("one region is a map");
        let (config, order, small) = (Config::new(CPUS), Order::of(ORDER), "the map is small enough");
        let exclusive = exclusive_on_one_thread(&map, config).expect(small);
        let alone = alone_on_one_thread(&map, config).expect(small);
        let trylock = Pageyard::owned(&map, config, TryLock).expect(small);
        let floor = FloorTrylock::new(CPUS as usize, FLOOR);
        let mut all: Vec<Box<dyn Subject>> = vec![
            Box::new(Alone { name: "floor-array", allocator: FloorArray::new(FLOOR), bulk: true }),
            Box::new(Shared::new("floor-trylock", floor, false)),
            Box::new(Alone {
                name: "pageyard-exclusive",
                allocator: Paged::<_, ORDER>(exclusive),
                bulk: true,
            }),
            Box::new(Alone { name: "pageyard-alone", allocator: Paged::<_, ORDER>(alone), bulk: true }),
            Box::new(Shared::new("pageyard-trylock", Paged::<_, ORDER>(trylock), true)),
        ];
        let mut skipped = Vec::new();
        match Subjects::restartable(&map) {
            Ok((floor, yard)) => {
                all.insert(1, Box::new(Shared::new("floor-rseq", FloorRseq(floor), false)));
                all.insert(3, Box::new(Shared::new("pageyard", Paged::<_, ORDER>(yard), true)));
            }
            Err(why) => {
                let skip = |allocator| Skipped { allocator, why: why.to_string() };
                skipped.extend(["floor-rseq", "pageyard"].map(skip));
            }
        }
        for (name, preset) in PRESETS {
            let config = pageyard_linux::Config::preset(preset).expect("it is one of the presets");
            let allocator = LinuxAllocator::new(&map, &config).expect(small);
            all.push(Box::new(Shared::new(name, Paged::<_, ORDER>(allocator), true)));
        }
        let bare = BuddyBare::new(MEMORY, order);
        all.push(Box::new(Alone { name: "buddy_system_allocator", allocator: bare, bulk: false }));
        let locked = BuddyLocked::new(MEMORY, order);
        all.push(Box::new(Shared::new("buddy_system_allocator-locked", locked, false)));
        Subjects { all, skipped }
    }

    /// Makes the floor and the engine of restartable sequences, with lists for every CPU a thread may be moved to.
    fn restartable(map: &MemoryMap<'_>) -> Result<(CpuStacks, OwnedPageyard<Rseq>), Unavailable> {
        let (cpus, rseq) = (possible_cpus(), Rseq::new()?);
        let floor = CpuStacks::new(cpus, 1 << 14)?;
        Ok((floor, Pageyard::owned(map, Config::new(cpus), rseq).expect("the map is small enough")))
    }

    /// Adds the peers that live in separate processes. `command` is what starts them; without it they are skipped.
    pub fn with_outside(mut self, order: Order, command: Option<&Path>, cpus: &[usize]) -> Subjects {
        if order == Order::ZERO {
            for (name, peer) in peers::outside(command, cpus) {
                match peer {
                    Ok(subject) => self.all.push(subject),
                    Err(why) => self.skipped.push(Skipped { allocator: name, why }),
                }
            }
        }
        self
    }
}
