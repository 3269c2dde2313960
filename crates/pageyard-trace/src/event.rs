//! One row of a trace.

use pageyard::Context;

/// The frame number of an allocation that failed.
pub const FAILED: u64 = u64::MAX;

/// The largest order that Linux's page allocator serves.
///
/// # Linux
/// `MAX_PAGE_ORDER` of x86-64.
pub const MAX_ORDER: u8 = 10;

/// The kind of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EventKind {
    /// A request was answered. Linux: `mm_page_alloc`.
    Alloc,
    /// A block was given back. Linux: `mm_page_free`.
    Free,
    /// A request took a block of another migratetype. Linux: `mm_page_alloc_extfrag`.
    AllocExtfrag,
    /// A frame went from a per-CPU list back to the free lists. Linux: `mm_page_pcpu_drain`.
    PcpuDrain,
    /// A block came from the free lists, under the zone's lock. Linux: `mm_page_alloc_zone_locked`.
    AllocZoneLocked,
}

impl EventKind {
    /// Every kind, in the order of their numbers.
    pub const ALL: [EventKind; 5] = [
        EventKind::Alloc,
        EventKind::Free,
        EventKind::AllocExtfrag,
        EventKind::PcpuDrain,
        EventKind::AllocZoneLocked,
    ];

    /// Returns the name that `events.parquet` uses.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            EventKind::Alloc => "alloc",
            EventKind::Free => "free",
            EventKind::AllocExtfrag => "alloc_extfrag",
            EventKind::PcpuDrain => "pcpu_drain",
            EventKind::AllocZoneLocked => "alloc_zone_locked",
        }
    }

    /// Returns the kind as an index.
    #[must_use]
    pub const fn index(self) -> usize {
        self as usize
    }
}

/// One recorded event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// Nanoseconds since the recording started.
    pub time_ns: u64,
    /// The first frame of the block, or [`FAILED`].
    pub pfn: u64,
    /// The kernel's gfp bits; for [`EventKind::AllocExtfrag`] see [`Event::fallback`].
    pub gfp: u32,
    /// The thread, renumbered from 0.
    pub tid: u32,
    /// The CPU on which it happened.
    pub cpu: u32,
    /// The kind of the event.
    pub kind: EventKind,
    /// The order of the block.
    pub order: u8,
    /// The migratetype's number, or -1 where it is not known.
    pub migratetype: i8,
    /// The context that the CPU was in.
    pub context: Context,
    /// Whether interrupts were off.
    pub irqs_off: bool,
}

impl Event {
    /// Returns whether this is an allocation that got nothing.
    #[must_use]
    pub const fn failed(&self) -> bool {
        self.pfn == FAILED
    }

    /// Returns the order and the migratetype of the block that an [`EventKind::AllocExtfrag`] event took from.
    #[must_use]
    pub const fn fallback(&self) -> (u32, u8) {
        (self.gfp >> 8, self.gfp as u8)
    }
}

/// Which columns to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Columns {
    /// Every column.
    All,
    /// The columns needed to re-execute a trace: all but `tid` and `irqs_off`, which read as 0 and `false`.
    Replay,
}
