//! The engines, by name, and what the lab wants of one beyond allocating and freeing.

use crate::error::LabError;
use crate::yard;
use pageyard::Pageyard;
use pageyard::compaction::Knobs;
use pageyard::{
    CpuId, MapError, MemoryMap, Migratetype, Order, PageAllocator, PageblockId, Pfn, PressureAllocator,
    ZoneId,
};
use pageyard_arena::rseq::{Rseq, possible_cpus};
use pageyard_linux::{Config, LinuxAllocator};
use std::sync::OnceLock;

/// An engine that can be brought into a recorded state and given time.
pub trait LabEngine: PageAllocator {
    /// Gives a pageblock a migratetype, for an opening state.
    fn set_pageblock_migratetype(&self, block: PageblockId, m: Migratetype);

    /// Puts an allocated block into a CPU's list, in front of those already restored; `false` if it is to be freed
    /// instead.
    fn restore_cached(&self, cpu: CpuId, pfn: Pfn, order: Order, m: Migratetype) -> bool;

    /// Sets the spill limit of a CPU's lists, in frames.
    fn restore_pcp_high(&self, zone: ZoneId, cpu: CpuId, high: u64);

    /// Lets a woken background reclaimer run.
    fn kswapd_tick(&self);

    /// Does what background work does once a second.
    fn vmstat_tick(&self);

    /// Returns how often each requested type (first index) took from each other type; `None` where the engine counts
    /// fallbacks without their types.
    fn fallbacks(&self) -> Option<Fallbacks>;
}

/// Fallbacks by the type asked for and the type taken from.
pub type Fallbacks = [[u64; Migratetype::COUNT]; Migratetype::COUNT];

impl LabEngine for LinuxAllocator {
    fn set_pageblock_migratetype(&self, block: PageblockId, m: Migratetype) {
        LinuxAllocator::set_pageblock_migratetype(self, block, m);
    }

    fn restore_cached(&self, cpu: CpuId, pfn: Pfn, order: Order, m: Migratetype) -> bool {
        LinuxAllocator::restore_cached(self, cpu, pfn, order, m, true)
    }

    fn restore_pcp_high(&self, zone: ZoneId, cpu: CpuId, high: u64) {
        LinuxAllocator::restore_pcp_high(self, zone, cpu, high);
    }

    fn kswapd_tick(&self) {
        LinuxAllocator::kswapd_tick(self);
    }

    fn vmstat_tick(&self) {
        LinuxAllocator::vmstat_tick(self);
    }

    fn fallbacks(&self) -> Option<Fallbacks> {
        Some(LinuxAllocator::fallbacks(self))
    }
}

/// An engine with its knobs set, ready to be built over a memory map.
#[derive(Clone, Debug)]
pub enum EngineSpec {
    /// The reference.
    Linux(Box<Config>),
    /// The lock-free engine, one call at a time.
    Exclusive(Box<pageyard::Config>),
    /// The lock-free engine, its lists behind a lock that is tried once.
    TryLock(Box<pageyard::Config>),
    /// The lock-free engine, its lists used by restartable sequences on the CPU that a call really runs on; a try-lock
    /// where this host has none.
    Restartable(Box<pageyard::Config>),
}

impl EngineSpec {
    /// The engine that a replay uses beside the recorded kernel's when none is named: with the lists of the CPUs that
    /// the trace names, so that a replay can be repeated. Restartable sequences use those of the CPU they run on.
    pub const DEFAULT: [&'static str; 2] = ["pageyard-exclusive", "linux-6.18"];

    /// The same for a replay on several threads.
    pub const DEFAULT_THREADS: [&'static str; 2] = ["pageyard", "linux-6.18"];

    /// Returns the names of all engines.
    pub fn names() -> impl Iterator<Item = &'static str> {
        YARDS.into_iter().chain(Config::PRESETS)
    }

    /// Finds an engine and sets its knobs, each `(knob, value)`.
    ///
    /// # Errors
    /// [`LabError::NoSuchEngine`] or [`LabError::Knob`].
    pub fn parse(name: &str, knobs: &[(String, String)]) -> Result<EngineSpec, LabError> {
        let fail = |why: String| LabError::Knob { engine: name.to_owned(), why };
        let mut yard = Box::new(pageyard::Config::new(1));
        if YARDS.contains(&name) {
            for (knob, value) in knobs {
                set_yard(&mut yard, knob, value).map_err(fail)?;
            }
        }
        match name {
            "pageyard-exclusive" => return Ok(EngineSpec::Exclusive(yard)),
            "pageyard-trylock" => return Ok(EngineSpec::TryLock(yard)),
            "pageyard" => return Ok(EngineSpec::Restartable(yard)),
            _ => {}
        }
        let Some(mut config) = Config::preset(name) else {
            let known = EngineSpec::names().collect::<Vec<_>>().join(", ");
            return Err(LabError::NoSuchEngine { name: name.to_owned(), known });
        };
        for (knob, value) in knobs {
            config.set(knob, value).map_err(|why| fail(why.to_string()))?;
        }
        Ok(EngineSpec::Linux(Box::new(config)))
    }

    /// Finds engines and sets their knobs. A knob that only some of them have is set on those.
    ///
    /// # Errors
    /// As [`EngineSpec::parse`]; [`LabError::Knob`] also where no engine has a knob.
    pub fn parse_all(names: &[&str], knobs: &[(String, String)]) -> Result<Vec<EngineSpec>, LabError> {
        let has = |name: &str, knob: &str| EngineSpec::knobs(name).any(|k| k == knob);
        let orphan = knobs.iter().find(|(knob, _)| !names.iter().any(|name| has(name, knob)));
        if let (Some(orphan), Some(first)) = (orphan, names.first()) {
            EngineSpec::parse(first, std::slice::from_ref(orphan))?;
        }
        let spec = |name: &&str| {
            let its: Vec<_> = knobs.iter().filter(|(knob, _)| has(name, knob)).cloned().collect();
            EngineSpec::parse(name, &its)
        };
        names.iter().map(spec).collect()
    }

    /// Iterates over the knobs of an engine.
    fn knobs(name: &str) -> Box<dyn Iterator<Item = &'static str>> {
        match YARDS.contains(&name) {
            true => Box::new(yard_knobs()),
            false => Box::new(Config::KNOBS.into_iter().map(|(knob, _)| knob)),
        }
    }

    /// Returns the name.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            EngineSpec::Linux(config) => config.name,
            EngineSpec::Exclusive(_) => "pageyard-exclusive",
            EngineSpec::TryLock(_) => "pageyard-trylock",
            EngineSpec::Restartable(_) => "pageyard",
        }
    }

    /// Returns what the engine leaves out of what it is named after; empty where that is nothing.
    #[must_use]
    pub fn leaves_out(&self) -> &'static str {
        match self {
            EngineSpec::Linux(config) => config.leaves_out,
            EngineSpec::Exclusive(_) | EngineSpec::TryLock(_) => "",
            EngineSpec::Restartable(_) => without_sequences(),
        }
    }

    /// Sets `vm.min_free_kbytes`, unless a knob has set it already.
    #[must_use]
    pub fn with_min_free_kbytes(&self, kib: Option<u64>) -> EngineSpec {
        let mut spec = self.clone();
        let watermark = match &mut spec {
            EngineSpec::Linux(config) => &mut config.watermark,
            EngineSpec::Exclusive(config) | EngineSpec::TryLock(config) | EngineSpec::Restartable(config) => {
                &mut config.watermark
            }
        };
        watermark.min_free_kbytes = watermark.min_free_kbytes.or(kib);
        spec
    }

    /// Turns compaction off, whatever a knob has set.
    #[must_use]
    pub(crate) fn without_compaction(&self) -> EngineSpec {
        let mut spec = self.clone();
        match &mut spec {
            EngineSpec::Linux(config) => config.compaction.enabled = false,
            EngineSpec::Exclusive(config) | EngineSpec::TryLock(config) | EngineSpec::Restartable(config) => {
                config.compaction.enabled = false;
            }
        }
        spec
    }

    /// Builds the engine with everything free, for calls on one thread or, with `threads`, on several.
    ///
    /// The outer result says whether it can be used that way at all.
    pub(crate) fn build(
        &self,
        map: &MemoryMap<'_>,
        cpus: u32,
        threads: bool,
    ) -> Result<Result<Box<dyn LabEngine>, MapError>, LabError> {
        self.on(map, cpus, threads, Boxed)
    }

    /// Builds the engine as [`EngineSpec::build`] does, and hands it over as what it is.
    pub(crate) fn on<U: UseEngine>(
        &self,
        map: &MemoryMap<'_>,
        cpus: u32,
        threads: bool,
        user: U,
    ) -> Result<Result<U::Output, MapError>, LabError> {
        Ok(match self {
            EngineSpec::Linux(config) => {
                LinuxAllocator::new(map, &Config { cpus, ..(**config).clone() }).map(|e| user.with(e))
            }
            EngineSpec::TryLock(config) => {
                let config = pageyard::Config { cpus, ..**config };
                Pageyard::owned(map, config, pageyard::TryLock).map(|e| user.with(e))
            }
            EngineSpec::Restartable(config) => match Rseq::new() {
                Ok(rseq) => {
                    let cpus = cpus.max(possible_cpus());
                    Pageyard::owned(map, pageyard::Config { cpus, ..**config }, rseq).map(|e| user.with(e))
                }
                Err(_) => {
                    let config = pageyard::Config { cpus, ..**config };
                    Pageyard::owned(map, config, pageyard::TryLock).map(|e| user.with(e))
                }
            },
            EngineSpec::Exclusive(_) if threads => {
                return Err(LabError::OneThread { engine: self.name().to_owned() });
            }
            EngineSpec::Exclusive(config) => {
                let config = pageyard::Config { cpus, ..**config };
                yard::exclusive_on_one_thread(map, config).map(|e| user.with(e))
            }
        })
    }
}

/// What is done with an engine, whichever it is.
pub(crate) trait UseEngine {
    /// What comes of it.
    type Output;

    /// Does it.
    fn with<E: PressureAllocator + LabEngine + 'static>(self, engine: E) -> Self::Output;
}

/// Puts the engine into a box.
struct Boxed;

impl UseEngine for Boxed {
    type Output = Box<dyn LabEngine>;

    fn with<E: PressureAllocator + LabEngine + 'static>(self, engine: E) -> Box<dyn LabEngine> {
        Box::new(engine)
    }
}

/// The variants of the lock-free engine.
const YARDS: [&str; 3] = ["pageyard", "pageyard-exclusive", "pageyard-trylock"];

/// Says what this host lacks for restartable sequences; empty where that is nothing.
fn without_sequences() -> &'static str {
    static WHY: OnceLock<String> = OnceLock::new();
    WHY.get_or_init(|| {
        Rseq::new().err().map_or_else(String::new, |why| format!("restartable sequences: {why}"))
    })
}

/// The knobs of the lock-free engine, those of compaction apart.
const YARD_KNOBS: [&str; 5] = [
    "min_free_kbytes",
    "watermark_scale_factor",
    "watermark_boost_factor",
    "percpu_pagelist_high_fraction",
    "pcp",
];

/// What the names of compaction's knobs begin with.
const COMPACTION: &str = "compaction.";

/// Iterates over the knobs of the lock-free engine. Compaction's have the names that the reference gives them.
fn yard_knobs() -> impl Iterator<Item = &'static str> {
    let compaction =
        Config::KNOBS.into_iter().map(|(knob, _)| knob).filter(|knob| knob.starts_with(COMPACTION));
    YARD_KNOBS.into_iter().chain(compaction)
}

/// Sets a knob of the lock-free engine.
fn set_yard(config: &mut pageyard::Config, knob: &str, value: &str) -> Result<(), String> {
    if let Some((name, takes)) = knob
        .strip_prefix(COMPACTION)
        .and_then(|name| Knobs::NAMES.into_iter().find(|(known, _)| *known == name))
    {
        let wrong = |_| format!("`{knob}` takes {takes}, not `{value}`");
        return config.compaction.set(name, value).map_err(wrong);
    }
    let number = |range: std::ops::RangeInclusive<u64>| {
        let wrong =
            || format!("`{knob}` takes a number from {} to {}, not `{value}`", range.start(), range.end());
        value.parse::<u64>().ok().filter(|v| range.contains(v)).ok_or_else(wrong)
    };
    match knob {
        "min_free_kbytes" => config.watermark.min_free_kbytes = Some(number(0..=1 << 34)?),
        "watermark_scale_factor" => config.watermark.watermark_scale_factor = number(1..=3000)?,
        "watermark_boost_factor" => config.watermark.watermark_boost_factor = number(0..=100_000)?,
        "percpu_pagelist_high_fraction" => config.percpu_pagelist_high_fraction = number(8..=1 << 40)?,
        "pcp" => {
            config.pcp = value.parse().map_err(|_| format!("`pcp` takes true or false, not `{value}`"))?
        }
        _ => {
            let known = yard_knobs().collect::<Vec<_>>().join(", ");
            return Err(format!("there is no knob `{knob}`; there are {known}"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use pageyard::compaction::Scope;

    #[test]
    fn the_engine_takes_every_knob_of_compaction_and_refuses_what_is_out_of_range() {
        let set = |knob: &str, value: &str| {
            EngineSpec::parse("pageyard", &[(knob.to_owned(), value.to_owned())]).map_err(|e| e.to_string())
        };
        for (name, takes) in Knobs::NAMES {
            let knob = format!("compaction.{name}");
            let why = set(&knob, "-1").unwrap_err();
            assert_eq!(why, format!("pageyard: `{knob}` takes {takes}, not `-1`"));
        }
        let Ok(EngineSpec::Restartable(config)) = set("compaction.skip_on_failure", "all") else {
            panic!("the engine has this knob")
        };
        assert_eq!(config.compaction, Knobs { skip_on_failure: Scope::All, ..Knobs::engine() });
        assert!(set("compaction.speed", "1").unwrap_err().contains("there is no knob"));
    }
}
