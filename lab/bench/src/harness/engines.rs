//! The engines: one list by the names of their rows, and one way to build each.
//!
//! A new engine is a line in [`Engine::listed`] and one in [`ROWS`].

use super::variants::{alone_on_one_thread, by_cpu, exclusive_on_one_thread};
use pageyard::{
    Frames, MapError, MemoryMap, NodeId, OwnedPageyard, PageAllocator, Pageyard, Pfn, PressureAllocator,
    Region, TryLock, ZoneId, ZoneKind,
};
use pageyard_arena::rseq::{Rseq, Unavailable, possible_cpus};
use pageyard_linux::LinuxAllocator;
use pageyard_replay::engine::ReplayEngine;

/// The engines that benchmarks measure, in the order of their rows, each with its best settings: its own.
pub(crate) const ROWS: [&str; 9] = [
    "pageyard",
    "pageyard-biased",
    "pageyard-no-lists",
    "pageyard-exclusive",
    "pageyard-alone",
    "pageyard-trylock",
    "pageyard-linux",
    "pageyard-linux-6.1",
    "pageyard-linux-4.10",
];

/// An engine that is measured, and its settings. Its per-CPU lists are kept to one user at a time as the name says.
#[derive(Clone, Debug)]
pub(crate) enum Engine {
    /// The lock-free engine, by restartable sequences.
    Restartable(pageyard::Config),
    /// The same with pageblocks biased to CPUs.
    Biased(pageyard::Config),
    /// The same, by a lock that is tried once.
    TryLock(pageyard::Config),
    /// The same, by its owner: for one thread.
    Exclusive(pageyard::Config),
    /// The same, checks without locked instructions: for one thread.
    Alone(pageyard::Config),
    /// The reference, each CPU's lists behind a lock that is tried.
    Linux(Box<pageyard_linux::Config>),
}

/// Why an engine was not built.
#[derive(Clone, Copy, Debug, thiserror::Error)]
pub(crate) enum NotBuilt {
    /// The map is not one.
    #[error("{0}")]
    Map(MapError),
    /// This host lacks what it needs.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
    /// Watermarks leave too little.
    #[error(
        "watermarks keep back {kept} of {managed} frames, and the experiment needs half of them; set a smaller \
         min_free_kbytes"
    )]
    Kept {
        /// Frames that watermarks keep back.
        kept: u64,
        /// Frames that there are.
        managed: u64,
    },
}

impl From<MapError> for NotBuilt {
    fn from(why: MapError) -> NotBuilt {
        NotBuilt::Map(why)
    }
}

/// What a measurement needs of an engine.
pub(crate) trait Measurable: PressureAllocator + ReplayEngine + Send + 'static {}

impl<E: PressureAllocator + ReplayEngine + Send + 'static> Measurable for E {}

/// What is done with an engine, whichever it is.
pub(crate) trait Visit {
    /// What comes of it.
    type Output;

    /// Does it.
    fn visit<E: Measurable>(self, engine: E) -> Self::Output;
}

impl Engine {
    /// Finds an engine by the name of its row, with lists for this many CPUs.
    pub fn listed(row: &str, cpus: u32) -> Option<Engine> {
        let own = pageyard::Config::new(cpus);
        Some(match row {
            "pageyard" => Engine::Restartable(own),
            "pageyard-biased" => Engine::Biased(own),
            "pageyard-no-lists" => Engine::Restartable(pageyard::Config { pcp: false, ..own }),
            "pageyard-exclusive" => Engine::Exclusive(own),
            "pageyard-alone" => Engine::Alone(own),
            "pageyard-trylock" => Engine::TryLock(own),
            "pageyard-linux" => Engine::preset("linux-6.18", cpus)?,
            _ => Engine::preset(row.strip_prefix("pageyard-")?, cpus)?,
        })
    }

    /// Returns a preset of the reference.
    pub fn preset(name: &str, cpus: u32) -> Option<Engine> {
        let config = pageyard_linux::Config::preset(name)?;
        Some(Engine::Linux(Box::new(pageyard_linux::Config { cpus, ..config })))
    }

    /// Returns the lock-free engine for several threads: by restartable sequences where this host has them, and by a
    /// lock that is tried elsewhere.
    pub fn on_this_host(config: pageyard::Config) -> Engine {
        if Rseq::new().is_ok() { Engine::Restartable(config) } else { Engine::TryLock(config) }
    }

    /// Says whether only one thread can use it.
    pub fn is_for_one_thread(&self) -> bool {
        matches!(self, Engine::Exclusive(_) | Engine::Alone(_))
    }

    /// Builds it with everything free, and hands it over.
    pub fn on<V: Visit>(&self, map: &MemoryMap<'_>, visit: V) -> Result<V::Output, NotBuilt> {
        Ok(match self {
            Engine::Restartable(config) => {
                // A thread may be moved to any CPU.
                let config = pageyard::Config { cpus: possible_cpus(), ..*config };
                visit.visit(Pageyard::owned(map, config, Rseq::new()?)?)
            }
            Engine::Biased(config) => {
                let config = pageyard::Config { cpus: possible_cpus(), ..*config };
                visit.visit(Pageyard::owned(map, config, Rseq::new()?.biased())?)
            }
            Engine::TryLock(config) => visit.visit(trylock(map, *config)?),
            Engine::Exclusive(config) => visit.visit(exclusive_on_one_thread(map, *config)?),
            Engine::Alone(config) => visit.visit(alone_on_one_thread(map, *config)?),
            Engine::Linux(config) => visit.visit(LinuxAllocator::new(map, config)?),
        })
    }
}

/// Builds the lock-free engine behind a lock that is tried.
pub(crate) fn trylock(
    map: &MemoryMap<'_>,
    config: pageyard::Config,
) -> Result<OwnedPageyard<TryLock>, MapError> {
    Pageyard::owned(map, config, TryLock)
}

/// Builds the reference with the protection of its lists that its configuration names, and no other: each CPU number is
/// one thread's at a time.
pub(crate) fn linux_by_cpu(
    map: &MemoryMap<'_>,
    config: &pageyard_linux::Config,
) -> Result<LinuxAllocator, NotBuilt> {
    let engine = by_cpu(map, config)?;
    leaves_half(&engine)?;
    Ok(engine)
}

/// Checks that watermarks keep back less than half of the memory, so that what experiments ask for is never refused.
///
/// # Errors
/// [`NotBuilt::Kept`].
pub(crate) fn leaves_half(engine: &impl PageAllocator) -> Result<(), NotBuilt> {
    let zones = (0..).map(ZoneId).map_while(|zone| engine.zone_stats(zone));
    let (kept, managed) =
        zones.fold((0, 0), |(kept, all), z| (kept + z.watermarks.min.0, all + z.span.managed.0));
    if kept >= managed / 2 { Err(NotBuilt::Kept { kept, managed }) } else { Ok(()) }
}

/// The memory that is managed, in frames: 16 GiB. No row holds more than a quarter of it.
pub(crate) const MEMORY: u64 = 1 << 22;

/// The regions of a machine of one node and one zone, from frame 0 on.
pub(crate) const fn one_zone(frames: u64) -> [Region; 1] {
    [Region::managed(Pfn(0), Frames(frames), NodeId(0), ZoneKind::Normal)]
}

/// Returns the map of such a machine.
pub(crate) fn map_of(regions: &[Region]) -> MemoryMap<'_> {
    MemoryMap::new(regions).expect("regions of a benchmark are a map")
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Name;

    impl Visit for Name {
        type Output = String;

        fn visit<E: Measurable>(self, engine: E) -> String {
            let _ = engine;
            std::any::type_name::<E>().to_owned()
        }
    }

    #[test]
    fn every_row_has_the_engine_that_it_is_named_after() {
        let regions = one_zone(1 << 15);
        let types = [
            "Rseq",
            "Rseq",
            "Rseq",
            "Exclusive",
            "Alone",
            "TryLock",
            "LinuxAllocator",
            "LinuxAllocator",
            "LinuxAllocator",
        ];
        for (row, part) in ROWS.into_iter().zip(types) {
            match Engine::listed(row, 2).unwrap().on(&map_of(&regions), Name) {
                Ok(name) => assert!(name.contains(part), "{row}: {name}"),
                Err(why) => assert!(matches!(why, NotBuilt::Unavailable(_)), "{row}: {why}"),
            }
        }
        let Some(Engine::Linux(config)) = Engine::listed("pageyard-linux-4.10", 3) else {
            panic!("a preset")
        };
        assert_eq!((config.name, config.cpus), ("linux-4.10", 3));
        assert!(Engine::listed("pageyard-linux-2.4", 2).is_none() && Engine::listed("mimalloc", 2).is_none());
    }

    #[test]
    fn a_reference_whose_watermarks_leave_too_little_is_refused() {
        let regions = one_zone(1 << 15);
        let mut config = pageyard_linux::Config::linux_4_10();
        assert!(linux_by_cpu(&map_of(&regions), &config).is_ok());
        config.set("min_free_kbytes", "100000").unwrap();
        let why = linux_by_cpu(&map_of(&regions), &config).err().unwrap().to_string();
        assert!(why.contains("min_free_kbytes"), "{why}");
    }
}
