//! Causes, and the settings that would change them.

use serde::Serialize;

/// Why a request failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Cause {
    /// The request keeps to nodes that have nothing, and others have.
    NodeLimit,
    /// The request can use low zones alone, and they are small or full.
    LowZone,
    /// A zone protects its memory from requests that could use higher zones.
    LowmemReserve,
    /// Memory is set aside for urgent requests of several frames.
    HighatomicReserve,
    /// Memory is set aside for contiguous areas.
    ContiguousAreas,
    /// The free memory lies in per-CPU lists.
    PerCpuLists,
    /// Memory is held by processes and the kernel, and nothing can be reclaimed.
    OutOfMemory,
    /// The hypervisor has taken memory back.
    Ballooned,
    /// The reserve for requests that cannot wait is smaller than what they ask for at once.
    LowReserve,
    /// Requests may not mix types, and no pageblock of this one's type has a free block.
    DefragMode,
    /// Huge pages that are set aside hold memory.
    HugePagesReserved,
    /// Free memory is scattered among frames that cannot be moved.
    UnmovableScattered,
    /// Free memory is scattered among frames that compaction could move.
    MovableScattered,
    /// Free memory is scattered, among what is not known.
    Scattered,
    /// A memory control group is at its limit.
    GroupLimit,
    /// The range of virtual addresses for large requests has no gap of that size.
    VmallocSpace,
    /// Something in a contiguous area could not be moved away.
    AreaBusy,
    /// A pool of huge pages could not be filled.
    PoolShort,
    /// Reclaim made progress, slower than the request asked.
    SlowReclaim,
}

impl Cause {
    /// Every cause.
    pub const ALL: [Cause; 19] = [
        Cause::NodeLimit,
        Cause::LowZone,
        Cause::LowmemReserve,
        Cause::HighatomicReserve,
        Cause::ContiguousAreas,
        Cause::PerCpuLists,
        Cause::OutOfMemory,
        Cause::Ballooned,
        Cause::LowReserve,
        Cause::DefragMode,
        Cause::HugePagesReserved,
        Cause::UnmovableScattered,
        Cause::MovableScattered,
        Cause::Scattered,
        Cause::GroupLimit,
        Cause::VmallocSpace,
        Cause::AreaBusy,
        Cause::PoolShort,
        Cause::SlowReclaim,
    ];

    /// Says what it is, as the beginning of a paragraph.
    #[must_use]
    pub const fn title(self) -> &'static str {
        match self {
            Cause::NodeLimit => "The request keeps to one node or a few",
            Cause::LowZone => "The request can use only the low zones",
            Cause::LowmemReserve => "A low zone protects its memory (lowmem_reserve)",
            Cause::HighatomicReserve => "Memory is set aside for urgent requests of several frames",
            Cause::ContiguousAreas => "Memory is set aside for contiguous areas (CMA)",
            Cause::PerCpuLists => "Free memory lies in per-CPU lists",
            Cause::OutOfMemory => "Memory is used up",
            Cause::Ballooned => "The hypervisor has taken memory back (balloon)",
            Cause::LowReserve => "Too little was free for a request that cannot wait",
            Cause::DefragMode => "defrag_mode keeps types apart",
            Cause::HugePagesReserved => "Reserved huge pages hold memory",
            Cause::UnmovableScattered => "Free memory is scattered among frames that cannot be moved",
            Cause::MovableScattered => "Free memory is scattered among movable frames",
            Cause::Scattered => "Free memory is scattered: no block of that order is there",
            Cause::GroupLimit => "A memory control group is at its limit",
            Cause::VmallocSpace => "The range of virtual addresses has no room (vmalloc)",
            Cause::AreaBusy => "Something in the contiguous area could not be moved away",
            Cause::PoolShort => "The pool of huge pages could not be filled",
            Cause::SlowReclaim => "Reclaim was slower than the request needed",
        }
    }
}

/// A setting that would change a cause.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Setting {
    /// Its name: of a sysctl, `vm.min_free_kbytes`; of the kernel's command line, `cma=`.
    pub name: &'static str,
    /// Its current value; omitted if unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub now: Option<String>,
    /// The value to try; omitted if it depends on the host's purpose.
    #[serde(rename = "try", skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// Its effect and its cost.
    pub note: &'static str,
    /// The knob that is the same in the reference.
    #[serde(skip)]
    pub knob: Option<&'static str>,
}

/// A cause of one failure.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// The cause.
    pub cause: Cause,
    /// How much speaks for it, from 0 to 1.
    pub weight: f64,
    /// The numbers that do, in a sentence.
    pub evidence: String,
    /// The setting that would change it.
    pub setting: Option<Setting>,
}
