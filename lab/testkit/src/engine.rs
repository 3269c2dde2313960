//! The suite's view of an engine: how to build one, and its promises beyond the interface.

use pageyard::{MapError, MemoryMap, Order, PageAllocator};

/// The result of a check: a value, or the fault found.
pub type Verdict<T = ()> = Result<T, String>;

/// Builds one kind of engine, as often as the suite wants.
pub trait Build {
    /// The engine.
    type Engine: PageAllocator;

    /// Returns the name that failures carry.
    fn name(&self) -> String;

    /// Makes an instance in which every managed frame is free.
    ///
    /// # Errors
    /// [`MapError`] as the engine finds it.
    fn build(&self, map: &MemoryMap<'_>, cpus: u32) -> Result<Self::Engine, MapError>;

    /// Returns the largest order that the engine serves.
    fn largest_order(&self) -> Order;

    /// Returns the Rust expression that makes this value, for tests that print themselves.
    fn expression(&self) -> String {
        let path = core::any::type_name::<Self>();
        path.rsplit("::").next().unwrap_or(path).to_owned()
    }

    /// Returns whether the engine keeps watermarks; one that does not is not asked to refuse because of them.
    fn has_watermarks(&self) -> bool {
        true
    }

    /// Returns whether blocks of a pageblock that was once reserved for high-order requests may stay out of reach of
    /// others, as in Linux until 6.9.
    ///
    /// There a frame in a per-CPU list goes to the list of the type that its pageblock had when it was freed, and the
    /// blocks in the last pageblock of a zone that ends within it stay on their lists when its type changes
    /// (`free_pcppages_bulk`, `move_freepages_block`).
    fn strands_reserved_blocks(&self) -> bool {
        false
    }

    /// Returns whether the engine tracks migratetypes; one that does not is not asked to count fallbacks.
    fn has_migratetypes(&self) -> bool {
        true
    }
}
