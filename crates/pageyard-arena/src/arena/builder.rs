//! How an arena is made.

use super::error::ArenaError;
use super::memory::Arena;
use super::zeros::Zeros;
use crate::backing::{Backing, Mapping, Prefault};
use crate::clear::Clearer;
use crate::rseq::{Rseq, current_cpu, possible_cpus};
use pageyard::{Config, MemoryMap, NodeId, Pageyard, PerCpu, Pfn, Region, TryLock, ZoneKind};

impl Arena {
    /// Begins with the default settings.
    pub fn builder<'a>() -> ArenaBuilder<'a> {
        ArenaBuilder::default()
    }
}

/// Settings of an [`Arena`].
///
/// By default its memory is anonymous, with transparent huge pages where the host grants them; nothing is faulted in;
/// all of it can be allocated; and what clears frames is measured once for the process.
#[must_use]
#[derive(Default)]
pub struct ArenaBuilder<'a> {
    bytes: usize,
    backing: Backing,
    memory: Option<Mapping>,
    node: Option<u32>,
    prefault: Option<Prefault<'a>>,
    clearer: Option<Clearer>,
    config: Option<Config>,
}

impl<'a> ArenaBuilder<'a> {
    /// Sets the size in bytes; it is rounded up to the backing's pages.
    pub fn size(mut self, bytes: usize) -> Self {
        self.bytes = bytes;
        self
    }

    /// Sets what the memory is.
    pub fn backing(mut self, backing: Backing) -> Self {
        self.backing = backing;
        self
    }

    /// Uses memory that is mapped already: its size and backing replace those set here. Only memory that the arena maps
    /// itself is known to be zeros: anyone may have written to this, so what is to be zeros is cleared.
    pub fn memory(mut self, mapping: Mapping) -> Self {
        self.memory = Some(mapping);
        self
    }

    /// Has the host take the memory from one node.
    pub fn node(mut self, node: u32) -> Self {
        self.node = Some(node);
        self
    }

    /// Faults all memory in before the arena is used. Without it, the first write to each page waits for the kernel.
    pub fn prefault(mut self, how: Prefault<'a>) -> Self {
        self.prefault = Some(how);
        self
    }

    /// Sets what clears frames.
    pub fn clearer(mut self, clearer: Clearer) -> Self {
        self.clearer = Some(clearer);
        self
    }

    /// Sets the engine's configuration. By default it has lists for every CPU and keeps no reserve: a process has no
    /// interrupts to serve. A configuration for fewer CPUs than this host can have is one for all of them: any thread
    /// may call.
    pub fn config(mut self, config: Config) -> Self {
        self.config = Some(config);
        self
    }

    /// Builds an arena whose per-CPU lists are used by restartable sequences: no lock, and safe in signal handlers.
    ///
    /// # Errors
    /// [`ArenaError`]; [`ArenaError::Sequences`] where this host has none.
    pub fn build(self) -> Result<Arena<Rseq>, ArenaError> {
        self.build_with(Rseq::new().map_err(ArenaError::Sequences)?)
    }

    /// Builds an arena whose per-CPU lists stand behind a lock that is tried once: for every host.
    ///
    /// # Errors
    /// [`ArenaError`].
    pub fn build_locked(self) -> Result<Arena<TryLock>, ArenaError> {
        self.build_with(TryLock)
    }

    /// Builds an arena with the protection of its per-CPU lists that is given.
    ///
    /// # Errors
    /// [`ArenaError`].
    pub fn build_with<P: PerCpu>(self, percpu: P) -> Result<Arena<P>, ArenaError> {
        // The first call of the process finds out where threads have their CPU's number, once: not in a signal handler
        // that interrupts that.
        let _ = current_cpu();
        let (mut mapping, is_zeros) = match self.memory {
            Some(mapping) => (mapping, false),
            None if self.bytes == 0 => return Err(ArenaError::NoSize),
            None => (Mapping::new(self.bytes, self.backing)?, true),
        };
        if let Some(node) = self.node {
            mapping.bind(node)?;
        }
        let region = Region::managed(Pfn(0), mapping.frames(), NodeId(0), ZoneKind::Normal);
        // Zeros or not, the kernel's memory is not touched here.
        let regions = [if is_zeros { region.zeroed() } else { region }];
        let default = || Config { compaction: true, ..Config::pool(possible_cpus()) };
        let mut config = self.config.unwrap_or_else(default);
        config.cpus = config.cpus.max(possible_cpus());
        let clearer = self.clearer.unwrap_or_else(|| *Clearer::of_this_machine());
        // SAFETY: the arena drops its engine before its mapping, and the map below has the mapping's frames.
        let zeros = unsafe { Zeros::new(mapping.start(), clearer) };
        let yard = Pageyard::owned_with_clearer(&MemoryMap::new(&regions)?, config, percpu, (), zeros)?;
        if let Some(how) = &self.prefault {
            mapping.prefault(how)?;
        }
        Ok(Arena::new(yard, mapping)?)
    }
}
