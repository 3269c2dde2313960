//! What is compared: of the host alone, whatever an engine would do.

use pageyard::{Order, PAGEBLOCK_ORDER, metrics};
use pageyard_trace::fleet::FleetNumber;
use pageyard_trace::{Event, EventKind, HostSample};

/// The subject of a figure, the most urgent first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Aspect {
    /// Requests that fail or wait.
    Failures,
    /// Memory for huge pages.
    HugePages,
    /// Free memory.
    Free,
    /// Requests of the host, and work of the kernel for them.
    Work,
}

impl Aspect {
    /// Every aspect, in the order in which they are shown.
    pub const ALL: [Aspect; 4] = [Aspect::Failures, Aspect::HugePages, Aspect::Free, Aspect::Work];

    /// Returns its heading.
    #[must_use]
    pub const fn title(self) -> &'static str {
        match self {
            Aspect::Failures => "Requests that fail or wait",
            Aspect::HugePages => "Memory for huge pages",
            Aspect::Free => "Free memory",
            Aspect::Work => "Work",
        }
    }
}

/// The unit of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// So many a second.
    PerSecond,
    /// A share in percent.
    Percent,
}

/// Where a figure comes from.
#[derive(Clone, Copy)]
pub(super) enum Source {
    /// Rows, by what each counts for.
    Rows(fn(&Event) -> u64),
    /// The rise of counters of `/proc/vmstat`, added up; those that a kernel lacks count nothing, unless it lacks all.
    Counters(&'static [&'static str]),
    /// The state of a host of so many frames.
    State(fn(&HostSample, u64) -> Option<f64>),
}

/// A figure of a recording.
#[derive(Clone, Copy)]
pub struct Figure {
    /// Its subject.
    pub aspect: Aspect,
    /// Its name in words.
    pub name: &'static str,
    /// Its unit.
    pub unit: Unit,
    /// The least change that is worth a word, in its unit.
    pub(super) floor: f64,
    pub(super) source: Source,
}

const fn rows(aspect: Aspect, name: &'static str, count: fn(&Event) -> u64) -> Figure {
    Figure { aspect, name, unit: Unit::PerSecond, floor: 1.0, source: Source::Rows(count) }
}

const fn counters(aspect: Aspect, name: &'static str, names: &'static [&'static str]) -> Figure {
    Figure { aspect, name, unit: Unit::PerSecond, floor: 1.0, source: Source::Counters(names) }
}

const fn state(aspect: Aspect, name: &'static str, of: fn(&HostSample, u64) -> Option<f64>) -> Figure {
    Figure { aspect, name, unit: Unit::Percent, floor: 2.0, source: Source::State(of) }
}

/// Every figure, in the order in which they are shown.
pub static FIGURES: [Figure; 21] = [
    rows(Aspect::Failures, "requests that failed", |e| {
        u64::from(e.kind == EventKind::Alloc && e.pfn == u64::MAX)
    }),
    counters(Aspect::Failures, "requests that reclaimed", FleetNumber::DirectReclaims.counters()),
    counters(Aspect::Failures, "requests that compacted", FleetNumber::Compactions.counters()),
    counters(Aspect::HugePages, "faults that got no huge page", FleetNumber::HugeFallbacks.counters()),
    counters(Aspect::HugePages, "faults that got a huge page", FleetNumber::HugeFaults.counters()),
    state(Aspect::HugePages, "share of free memory in huge frames", |host, _| {
        Some(100.0 * metrics::free_huge_share(&blocks(host))?)
    }),
    state(Aspect::HugePages, "share of free memory in blocks of 8 frames or more", |host, _| {
        Some(100.0 * (1.0 - metrics::unusable_index(&blocks(host), 3)?))
    }),
    state(Aspect::Free, "free memory", |host, frames| {
        Some(100.0 * metrics::free_frames(&blocks(host)) as f64 / frames as f64)
    }),
    state(Aspect::Free, "memory in per-CPU lists", |host, frames| {
        Some(100.0 * host.lists.iter().map(|list| list.frames as f64).sum::<f64>() / frames as f64)
    }),
    rows(Aspect::Work, "requests for single frames", |e| asked(e, 0, 0)),
    rows(Aspect::Work, "requests for 2 to 8 frames", |e| asked(e, 1, 3)),
    rows(Aspect::Work, "requests for 16 to 256 frames", |e| asked(e, 4, PAGEBLOCK_ORDER.get() - 1)),
    rows(Aspect::Work, "requests for 512 frames or more", |e| asked(e, PAGEBLOCK_ORDER.get(), u8::MAX)),
    rows(Aspect::Work, "frames asked for that cannot be moved", |e| of_type(e, 0)),
    rows(Aspect::Work, "frames asked for that can be reclaimed", |e| of_type(e, 2)),
    rows(Aspect::Work, "requests served by another type's pageblock", |e| {
        u64::from(e.kind == EventKind::AllocExtfrag)
    }),
    rows(Aspect::Work, "blocks drained from per-CPU lists", |e| u64::from(e.kind == EventKind::PcpuDrain)),
    counters(
        Aspect::Work,
        "frames reclaimed in the background",
        FleetNumber::ReclaimedInBackground.counters(),
    ),
    counters(Aspect::Work, "frames reclaimed by requests", FleetNumber::ReclaimedByRequests.counters()),
    counters(Aspect::Work, "frames moved", FleetNumber::Moved.counters()),
    counters(Aspect::Work, "frames that compaction looked at", FleetNumber::CompactionScanned.counters()),
];

/// Counts a served request of these orders.
fn asked(event: &Event, least: u8, most: u8) -> u64 {
    let is_one = event.kind == EventKind::Alloc && event.pfn != u64::MAX;
    u64::from(is_one && (least..=most).contains(&event.order))
}

/// Counts the frames of a served request of this type, by the kernel's number.
fn of_type(event: &Event, migratetype: i8) -> u64 {
    let is_one = event.kind == EventKind::Alloc && event.pfn != u64::MAX && event.migratetype == migratetype;
    if is_one { Order::new(event.order).map_or(0, |order| order.frames().0) } else { 0 }
}

/// Adds up the free blocks of all zones by order.
fn blocks(host: &HostSample) -> Vec<u64> {
    let orders = host.free_blocks.iter().map(|zone| zone.counts.len()).max().unwrap_or(0);
    let of = |order| host.free_blocks.iter().filter_map(|zone| zone.counts.get(order)).sum();
    (0..orders).map(of).collect()
}
