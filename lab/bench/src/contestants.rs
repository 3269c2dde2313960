//! The contestants: floors, the engines, and the peers, each with its best settings.
//!
//! An engine is a line in the harness's list; anything else is one here, and an
//! [`Allocator`](crate::harness::allocator::Allocator).

use super::Skipped;
use super::peers::{self, BuddyBare, BuddyLocked, Peer};
use crate::harness::engines::{MEMORY, ROWS, map_of, of_row, on, one_zone};
use crate::harness::floors::{FLOOR, FloorArray, FloorRseq, FloorTrylock};
use crate::harness::paged::AsSubject;
use crate::harness::subject::{Alone, Shared, Subject};
use pageyard::Order;
use pageyard_arena::rseq::{CpuStacks, possible_cpus};
use std::path::Path;

/// The fewest CPUs that each engine has lists for: those of two threads, also where one is measured.
pub(super) const CPUS: usize = 2;

/// Orders for which there are subjects: each has its own loops, compiled for it.
pub const ORDERS: [u8; 4] = [0, 3, 6, 9];

/// Who is for one thread only.
pub(super) const ALONE: [&str; 4] =
    ["floor-array", "pageyard-exclusive", "pageyard-alone", "buddy_system_allocator"];

/// Returns whether a benchmark measures an allocator of this name itself.
pub(super) fn is_measured_here(name: &str) -> bool {
    name.starts_with("floor-") || ROWS.contains(&name) || peers::names().any(|peer| peer == name)
}

/// The subjects for blocks of one order.
pub(super) struct Subjects {
    pub all: Vec<Box<dyn Subject>>,
    pub skipped: Vec<Skipped>,
}

impl Subjects {
    /// Makes the floors, engines and allocators that live in this process, for blocks of an order of [`ORDERS`] and at
    /// most this many threads.
    pub fn inside(order: Order, threads: usize) -> Subjects {
        match order.get() {
            0 => Subjects::of::<0>(MEMORY, threads),
            3 => Subjects::of::<3>(MEMORY, threads),
            6 => Subjects::of::<6>(MEMORY, threads),
            9 => Subjects::of::<9>(MEMORY, threads),
            _ => Subjects { all: Vec::new(), skipped: Vec::new() },
        }
    }

    /// Makes those that serve blocks of several orders on at most this many threads: in this process over a zone of
    /// this many frames, and in separate ones.
    pub fn of_several_orders(
        frames: u64,
        threads: usize,
        command: Option<&Path>,
        cpus: &[usize],
    ) -> Subjects {
        let mut subjects = Subjects::of::<0>(frames, threads);
        subjects.all.retain(|s| !s.name().starts_with("floor"));
        subjects.skipped.retain(|s| !s.allocator.starts_with("floor"));
        subjects.add(peers::of_any_size(command, cpus));
        subjects
    }

    fn of<const ORDER: u8>(memory: u64, threads: usize) -> Subjects {
        let cpus = threads.max(CPUS);
        let mut subjects = Subjects { all: Vec::new(), skipped: Vec::new() };
        let floor = FloorArray::new(FLOOR);
        subjects.all.push(Box::new(Alone { name: "floor-array", allocator: floor, bulk: true }));
        match CpuStacks::new(possible_cpus(), 1 << 14) {
            Ok(floor) => subjects.all.push(Box::new(Shared::new("floor-rseq", FloorRseq(floor), false))),
            Err(why) => subjects.skip("floor-rseq", why.to_string()),
        }
        let floor = FloorTrylock::new(cpus, FLOOR);
        subjects.all.push(Box::new(Shared::new("floor-trylock", floor, false)));
        let regions = one_zone(memory);
        for row in ROWS {
            let engine = of_row(row, cpus as u32).expect("each row has an engine");
            let visit = AsSubject::<ORDER> { name: row, one_thread: engine.is_for_one_thread() };
            match on(&engine, &map_of(&regions), visit) {
                Ok(subject) => subjects.all.push(subject),
                Err(why) => subjects.skip(row, why.to_string()),
            }
        }
        let order = Order::of(ORDER);
        let bare = BuddyBare::new(memory, order);
        subjects.all.push(Box::new(Alone { name: "buddy_system_allocator", allocator: bare, bulk: false }));
        let locked = BuddyLocked::new(memory, order);
        subjects.all.push(Box::new(Shared::new("buddy_system_allocator-locked", locked, false)));
        subjects
    }

    fn skip(&mut self, allocator: &'static str, why: String) {
        self.skipped.push(Skipped { allocator, why });
    }

    /// Adds the peers that live in separate processes. `command` is what starts them; without it they are skipped.
    pub fn with_outside(mut self, order: Order, command: Option<&Path>, cpus: &[usize]) -> Subjects {
        if order == Order::ZERO {
            self.add(peers::outside(command, cpus));
        }
        self
    }

    fn add(&mut self, peers: Vec<Peer>) {
        for (name, peer) in peers {
            match peer {
                Ok(subject) => self.all.push(subject),
                Err(why) => self.skip(name, why),
            }
        }
    }
}
