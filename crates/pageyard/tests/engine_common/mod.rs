//! An engine that owns its metadata, for tests.

#![allow(dead_code, reason = "each test file uses its part")]

#[cfg(not(loom))]
use pageyard::forward_pressure_allocator;
use pageyard::{Config, MapError, MemoryMap, OwnedPageyard, Pageyard, PerCpu, forward_page_allocator};

/// An engine and its metadata.
pub struct Owned<P: PerCpu> {
    pub yard: OwnedPageyard<P>,
}

impl<P: PerCpu> Owned<P> {
    pub fn new(map: &MemoryMap<'_>, config: Config, percpu: P) -> Result<Owned<P>, MapError> {
        Ok(Owned { yard: Pageyard::owned(map, config, percpu)? })
    }
}

forward_page_allocator! { unsafe [P: PerCpu] Owned<P>, this => this.yard }
#[cfg(not(loom))]
forward_pressure_allocator! { [P: PerCpu] Owned<P>, this => this.yard }
