//! The contestants: floors, the engines, and the peers, each with its best settings.
//!
//! An engine is a line in the harness's list; anything else is one here, and an
//! [`Allocator`](crate::harness::allocator::Allocator).

use super::Skipped;
use super::peers::{self, BuddyBare, BuddyLocked, LockedBitmap, LockedList, Peer, PeerLibrary, Queue};
use crate::harness::engines::{MEMORY, ROWS, map_of, of_row, on, one_zone};
use crate::harness::floors::{FLOOR, FloorArray, FloorRseq, FloorTrylock};
use crate::harness::paged::{AsCalled, AsSubject};
use crate::harness::subject::{Alone, Shared, Subject};
use pageyard::Order;
use pageyard_arena::rseq::{CpuStacks, possible_cpus};
use pageyard_replay::engine::NotBuilt;
use std::path::PathBuf;

/// The fewest CPUs that each engine has lists for: those of two threads, also where one is measured.
pub(super) const CPUS: usize = 2;

/// The largest order for which there are subjects.
pub const LARGEST: Order = Order::HUGE;

/// Rows of engines whose calls are not inlined, beside those of the same engine that are, and the engine.
const CALLED: [(&str, &str); 2] =
    [("pageyard-called", "pageyard"), ("pageyard-called:pcp=false", "pageyard:pcp=false")];

/// Who is for one thread only.
pub(super) const ALONE: [&str; 4] =
    ["floor-array", "pageyard-exclusive", "pageyard-alone", "buddy_system_allocator"];

/// Returns whether a benchmark measures an allocator of this name itself.
pub(super) fn is_measured_here(name: &str) -> bool {
    name.starts_with("floor-")
        || ROWS.contains(&name)
        || CALLED.iter().any(|(row, _)| *row == name)
        || peers::names().any(|peer| peer == name)
}

/// Where peers are beside those of this process.
#[derive(Clone, Debug, Default)]
pub struct Outside {
    /// The command that starts peers in processes of their own; without it they are skipped.
    pub command: Option<PathBuf>,
    /// Libraries of peers.
    pub libraries: Vec<PeerLibrary>,
}

impl Outside {
    /// Loads libraries of peers.
    ///
    /// # Errors
    /// Why one of them cannot be measured, in one sentence.
    pub fn load(command: Option<PathBuf>, libraries: &[PathBuf]) -> Result<Outside, String> {
        let mut loaded: Vec<PeerLibrary> = Vec::new();
        for path in libraries {
            let library = PeerLibrary::load(path)?;
            let name = library.name();
            if is_measured_here(name) || loaded.iter().any(|other| other.name() == name) {
                return Err(format!(
                    "{}: {name} has rows already; give the library another name",
                    path.display()
                ));
            }
            loaded.push(library);
        }
        Ok(Outside { command, libraries: loaded })
    }
}

/// The subjects for blocks of one order.
pub(super) struct Subjects {
    pub all: Vec<Box<dyn Subject>>,
    pub skipped: Vec<Skipped>,
}

impl Subjects {
    /// Makes the floors, engines and allocators that live in this process, for blocks of an order up to [`LARGEST`] and
    /// at most this many threads.
    pub fn inside(order: Order, threads: usize) -> Subjects {
        match order {
            Order::ZERO => Subjects::of::<true>(MEMORY, threads, order).with_single(),
            _ => Subjects::of::<false>(MEMORY, threads, order),
        }
    }

    /// Makes those that serve blocks of several orders on at most this many threads: in this process over a zone of
    /// this many frames, and in separate ones.
    pub fn of_several_orders(frames: u64, threads: usize, outside: &Outside, cpus: &[usize]) -> Subjects {
        let mut subjects = Subjects::of::<true>(frames, threads, Order::ZERO);
        subjects.all.retain(|s| !s.name().starts_with("floor"));
        subjects.skipped.retain(|s| !s.allocator.starts_with("floor"));
        subjects.add(peers::of_any_size(outside.command.as_deref(), cpus));
        subjects.add_libraries(frames, threads, Order::ZERO, &outside.libraries);
        subjects
    }

    fn of<const SINGLE: bool>(memory: u64, threads: usize, order: Order) -> Subjects {
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
            let visit = AsSubject::<SINGLE> { name: row, order, one_thread: engine.is_for_one_thread() };
            subjects.add_built(row, on(&engine, &map_of(&regions), visit));
        }
        for (row, engine) in CALLED.iter().filter(|_| SINGLE) {
            let engine = of_row(engine, cpus as u32).expect("each row has an engine");
            subjects.add_built(row, on(&engine, &map_of(&regions), AsCalled(row)));
        }
        let bare = BuddyBare::new(memory, order);
        subjects.all.push(Box::new(Alone { name: "buddy_system_allocator", allocator: bare, bulk: false }));
        let locked = BuddyLocked::new(memory, order);
        subjects.all.push(Box::new(Shared::new("buddy_system_allocator-locked", locked, false)));
        let bitmap = LockedBitmap::new(memory, order);
        subjects.all.push(Box::new(Shared::new("bitmap-allocator-locked", bitmap, false)));
        subjects
    }

    /// Adds the peers in this process that have blocks of one order only.
    fn with_single(mut self) -> Subjects {
        self.all.push(Box::new(Shared::new("list-locked", LockedList::new(FLOOR), false)));
        self.all.push(Box::new(Shared::new("array-queue", Queue::new(FLOOR), false)));
        self
    }

    fn add_built(&mut self, row: &'static str, built: Result<Box<dyn Subject>, NotBuilt>) {
        match built {
            Ok(subject) => self.all.push(subject),
            Err(why) => self.skip(row, why.to_string()),
        }
    }

    /// Adds the allocators of libraries, over so many frames.
    fn add_libraries(&mut self, frames: u64, threads: usize, order: Order, libraries: &[PeerLibrary]) {
        let cpus = threads.max(CPUS);
        let peers = libraries.iter().map(|library| (library.name(), library.subject(frames, cpus, order)));
        self.add(peers.collect());
    }

    fn skip(&mut self, allocator: &'static str, why: String) {
        self.skipped.push(Skipped { allocator, why });
    }

    /// Adds the peers that live in separate processes, and those of libraries, for blocks of an order.
    pub fn with_outside(
        mut self,
        order: Order,
        threads: usize,
        outside: &Outside,
        cpus: &[usize],
    ) -> Subjects {
        if order == Order::ZERO {
            self.add(peers::outside(outside.command.as_deref(), cpus));
        }
        self.add_libraries(MEMORY, threads, order, &outside.libraries);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::load::Load;
    use crate::harness::team::Team;
    use std::path::Path;
    use std::process::Command;

    /// Compiles a peer that counts up, of 100 frames.
    fn library(folder: &Path, name: &str) -> PathBuf {
        let (source, library) = (folder.join("peer.c"), folder.join(format!("{name}.so")));
        let code = "static unsigned long next; \
            const char *pageyard_peer_name(void) { return NAME; } \
            void *pageyard_peer_new(unsigned long frames, unsigned cpus) { return frames >= cpus ? &next : 0; } \
            unsigned long pageyard_peer_take(void *p, unsigned cpu, unsigned order) \
            { return next < 100 ? next++ : ~0ul; } \
            void pageyard_peer_give(void *p, unsigned cpu, unsigned long frame, unsigned order) { next--; }";
        std::fs::write(&source, code).unwrap();
        let mut cc = Command::new("cc");
        cc.args(["-shared", "-fPIC", "-o"]).arg(&library).arg(format!("-DNAME=\"{name}\"")).arg(&source);
        assert!(cc.status().unwrap().success());
        library
    }

    #[test]
    fn a_library_is_measured_under_a_name_that_no_other_row_has() {
        let folder = tempfile::tempdir().unwrap();
        let (mine, taken) = (library(folder.path(), "mine"), library(folder.path(), "pageyard"));
        for twice in [vec![mine.clone(), taken], vec![mine.clone(), mine.clone()]] {
            let why = Outside::load(None, &twice).unwrap_err();
            assert!(why.contains("has rows already"), "{why}");
        }
        let outside = Outside::load(None, &[mine]).unwrap();
        let mut subjects = Subjects { all: Vec::new(), skipped: Vec::new() };
        subjects.add_libraries(1 << 10, 1, Order::ZERO, &outside.libraries);
        let peer = &subjects.all[0];
        let sample = |blocks: u32| {
            let load = Load::of_rounds((0..blocks).collect::<Vec<_>>().into(), false, 3);
            peer.sample(&Team::new(&[]), 1, &load).unwrap().remove(0)
        };
        assert_eq!((peer.name(), sample(100).missing), ("mine", 0));
        assert!(sample(101).missing > 0, "it has 100 frames");
        subjects.add_libraries(1, 4, Order::ZERO, &outside.libraries);
        assert!(subjects.skipped[0].why.contains("no allocator of 1 frames"), "{:?}", subjects.skipped);
    }
}
