//! The engines, by name, and what the lab wants of one beyond allocating and freeing.

use crate::error::LabError;
use pageyard::{CpuId, MapError, MemoryMap, Migratetype, Order, PageAllocator, PageblockId, Pfn, ZoneId};
use pageyard_linux::{Config, LinuxAllocator};

/// An engine that can be brought into a recorded state and given time.
pub trait LabEngine: PageAllocator {
    /// Gives a pageblock a migratetype, for an opening state.
    fn set_pageblock_migratetype(&self, block: PageblockId, m: Migratetype);

    /// Puts an allocated block into a CPU's list, the next one after those already restored; `false` if no list takes
    /// it.
    fn restore_cached(&self, cpu: CpuId, pfn: Pfn, order: Order, m: Migratetype) -> bool;

    /// Sets the spill limit of a CPU's lists, in frames.
    fn restore_pcp_high(&self, zone: ZoneId, cpu: CpuId, high: u64);

    /// Lets a woken background reclaimer run.
    fn kswapd_tick(&self);

    /// Does what background work does once a second.
    fn vmstat_tick(&self);

    /// Returns how often each requested type (first index) took from each other type.
    fn fallbacks(&self) -> [[u64; Migratetype::COUNT]; Migratetype::COUNT];
}

impl LabEngine for LinuxAllocator {
    fn set_pageblock_migratetype(&self, block: PageblockId, m: Migratetype) {
        LinuxAllocator::set_pageblock_migratetype(self, block, m);
    }

    fn restore_cached(&self, cpu: CpuId, pfn: Pfn, order: Order, m: Migratetype) -> bool {
        LinuxAllocator::restore_cached(self, cpu, pfn, order, m, false)
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

    fn fallbacks(&self) -> [[u64; Migratetype::COUNT]; Migratetype::COUNT] {
        LinuxAllocator::fallbacks(self)
    }
}

/// An engine with its knobs set, ready to be built over a memory map.
#[derive(Clone, Debug)]
pub enum EngineSpec {
    /// The reference.
    Linux(Box<Config>),
}

impl EngineSpec {
    /// The engine that a replay uses when none is named: the kernel of the shipped recordings.
    pub const DEFAULT: &'static str = "linux-6.18";

    /// Returns the names of all engines.
    pub fn names() -> impl Iterator<Item = &'static str> {
        Config::PRESETS.into_iter()
    }

    /// Finds an engine and sets its knobs, each `(knob, value)`.
    ///
    /// # Errors
    /// [`LabError::NoSuchEngine`] or [`LabError::Knob`].
    pub fn parse(name: &str, knobs: &[(String, String)]) -> Result<EngineSpec, LabError> {
        let Some(mut config) = Config::preset(name) else {
            let known = EngineSpec::names().collect::<Vec<_>>().join(", ");
            return Err(LabError::NoSuchEngine { name: name.to_owned(), known });
        };
        for (knob, value) in knobs {
            config.set(knob, value).map_err(|why| LabError::Knob { engine: name.to_owned(), why })?;
        }
        Ok(EngineSpec::Linux(Box::new(config)))
    }

    /// Returns the name.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            EngineSpec::Linux(config) => config.name,
        }
    }

    /// Returns what the engine leaves out of what it is named after; empty where that is nothing.
    #[must_use]
    pub fn leaves_out(&self) -> &'static str {
        match self {
            EngineSpec::Linux(config) => config.leaves_out,
        }
    }

    /// Sets `vm.min_free_kbytes`, unless a knob has set it already.
    #[must_use]
    pub fn with_min_free_kbytes(&self, kib: Option<u64>) -> EngineSpec {
        let mut spec = self.clone();
        match &mut spec {
            EngineSpec::Linux(config) => {
                config.watermark.min_free_kbytes = config.watermark.min_free_kbytes.or(kib);
            }
        }
        spec
    }

    /// Builds the engine with everything free.
    ///
    /// # Errors
    /// [`MapError`].
    pub fn build(&self, map: &MemoryMap<'_>, cpus: u32) -> Result<Box<dyn LabEngine>, MapError> {
        match self {
            EngineSpec::Linux(config) => {
                let config = Config { cpus, ..(**config).clone() };
                Ok(Box::new(LinuxAllocator::new(map, &config)?))
            }
        }
    }
}
