//! The engines that benchmarks measure, each a row by the name that a user gives it, and the machine that they manage.

use super::variants::by_cpu;
pub(crate) use super::variants::on;
use pageyard::{Frames, MapError, MemoryMap, NodeId, PageAllocator, Pfn, Region, ZoneId, ZoneKind};
use pageyard_linux::LinuxAllocator;
use pageyard_replay::engine::{Engine, EngineSpec, NotBuilt};

/// The engines that benchmarks measure, in the order of their rows, each with its best settings: its own.
pub(crate) const ROWS: [&str; 9] = [
    "pageyard",
    "pageyard-biased",
    "pageyard:pcp=false",
    "pageyard-exclusive",
    "pageyard-alone",
    "pageyard-trylock",
    "linux-6.18",
    "linux-6.1",
    "linux-4.10",
];

/// Returns the engine of a row, with lists for this many CPUs.
pub(crate) fn of_row(row: &str, cpus: u32) -> Option<Engine> {
    let [spec] = <[EngineSpec; 1]>::try_from(EngineSpec::parse_all(&[row], &[]).ok()?).ok()?;
    Some(spec.engine()?.clone().with_cpus(cpus))
}

/// Reason why an experiment does not use an engine.
#[derive(Clone, Copy, Debug, thiserror::Error)]
pub(crate) enum NotUsed {
    /// It was not built.
    #[error(transparent)]
    NotBuilt(#[from] NotBuilt),
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

impl From<MapError> for NotUsed {
    fn from(why: MapError) -> NotUsed {
        NotUsed::NotBuilt(why.into())
    }
}

/// Builds the reference with the protection of its lists that its configuration names, and no other: each CPU number is
/// one thread's at a time.
pub(crate) fn linux_by_cpu(
    map: &MemoryMap<'_>,
    config: &pageyard_linux::Config,
) -> Result<LinuxAllocator, NotUsed> {
    let engine = by_cpu(map, config)?;
    leaves_half(&engine)?;
    Ok(engine)
}

/// Checks that watermarks keep back less than half of the memory, so that what experiments ask for is never refused.
///
/// # Errors
/// [`NotUsed::Kept`].
pub(crate) fn leaves_half(engine: &impl PageAllocator) -> Result<(), NotUsed> {
    let zones = (0..).map(ZoneId).map_while(|zone| engine.zone_stats(zone));
    let (kept, managed) =
        zones.fold((0, 0), |(kept, all), z| (kept + z.watermarks.min.0, all + z.span.managed.0));
    if kept >= managed / 2 { Err(NotUsed::Kept { kept, managed }) } else { Ok(()) }
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
    use pageyard_replay::engine::{AnyEngine, Visit};

    struct Name;

    impl Visit for Name {
        type Output = String;

        fn visit<E: AnyEngine>(self, engine: E) -> String {
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
            match on(&of_row(row, 2).unwrap(), &map_of(&regions), Name) {
                Ok(name) => assert!(name.contains(part), "{row}: {name}"),
                Err(why) => assert!(matches!(why, NotBuilt::Unavailable(_)), "{row}: {why}"),
            }
        }
        let Some(Engine::Linux(config)) = of_row("linux-4.10", 3) else { panic!("a preset") };
        assert_eq!((config.name, config.cpus), ("linux-4.10", 3));
        assert!(of_row("linux-2.4", 2).is_none() && of_row("mimalloc", 2).is_none());
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
