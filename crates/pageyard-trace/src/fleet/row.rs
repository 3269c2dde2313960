//! A row, and its columns.

use std::ops::{Index, IndexMut};

/// A number of a row; its name is that of its column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FleetNumber {
    /// When the window began, in seconds since 1970 (UTC).
    StartS,
    /// How long it was, in milliseconds.
    WindowMs,
    /// CPUs of the host.
    Cpus,
    /// Frames that the allocator has.
    Frames,
    /// Events that were lost: then what is counted by events is too low.
    LostEvents,
    /// Requests that got nothing, by events.
    Failures,
    /// Requests served by another type's pageblock, by events.
    Fallbacks,
    /// The time between the samples of the kernel's texts that the numbers below are of; 0 where there are none.
    SampledMs,
    /// Free frames, the mean.
    FreeFrames,
    /// Of those, in blocks of a pageblock or more.
    FreeHugeFrames,
    /// Frames in per-CPU lists, the mean.
    ListedFrames,
    /// Requests that reclaimed.
    DirectReclaims,
    /// Requests that compacted.
    Compactions,
    /// Those for which that failed.
    CompactionFailures,
    /// Faults that got a huge page.
    HugeFaults,
    /// Faults that got none.
    HugeFallbacks,
    /// Frames reclaimed in the background.
    ReclaimedInBackground,
    /// Frames reclaimed by requests.
    ReclaimedByRequests,
    /// Frames moved.
    Moved,
    /// Frames that compaction looked at.
    CompactionScanned,
    /// Pageblocks that were looked at, without those that are no memory of the host and huge pages set aside; 0 where
    /// that may not be read.
    Pageblocks,
    /// Of those, with a frame of the kernel's in them that compaction cannot move.
    PinnedPageblocks,
}

use FleetNumber as N;

impl FleetNumber {
    /// Every number, in the order of the columns.
    pub const ALL: [FleetNumber; 22] = [
        N::StartS,
        N::WindowMs,
        N::Cpus,
        N::Frames,
        N::LostEvents,
        N::Failures,
        N::Fallbacks,
        N::SampledMs,
        N::FreeFrames,
        N::FreeHugeFrames,
        N::ListedFrames,
        N::DirectReclaims,
        N::Compactions,
        N::CompactionFailures,
        N::HugeFaults,
        N::HugeFallbacks,
        N::ReclaimedInBackground,
        N::ReclaimedByRequests,
        N::Moved,
        N::CompactionScanned,
        N::Pageblocks,
        N::PinnedPageblocks,
    ];

    /// Returns the name of its column.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            N::StartS => "start_s",
            N::WindowMs => "window_ms",
            N::Cpus => "cpus",
            N::Frames => "frames",
            N::LostEvents => "lost_events",
            N::Failures => "failures",
            N::Fallbacks => "fallbacks",
            N::SampledMs => "sampled_ms",
            N::FreeFrames => "free_frames",
            N::FreeHugeFrames => "free_huge_frames",
            N::ListedFrames => "listed_frames",
            N::DirectReclaims => "direct_reclaims",
            N::Compactions => "compactions",
            N::CompactionFailures => "compaction_failures",
            N::HugeFaults => "huge_faults",
            N::HugeFallbacks => "huge_fallbacks",
            N::ReclaimedInBackground => "reclaimed_in_background",
            N::ReclaimedByRequests => "reclaimed_by_requests",
            N::Moved => "moved",
            N::CompactionScanned => "compaction_scanned",
            N::Pageblocks => "pageblocks",
            N::PinnedPageblocks => "pinned_pageblocks",
        }
    }

    /// Returns the counters of `/proc/vmstat` whose rise it is, added up; none for what is no such rise.
    #[must_use]
    pub const fn counters(self) -> &'static [&'static str] {
        match self {
            N::DirectReclaims => &[
                "allocstall",
                "allocstall_dma",
                "allocstall_dma32",
                "allocstall_normal",
                "allocstall_movable",
                "allocstall_device",
            ],
            N::Compactions => &["compact_stall"],
            N::CompactionFailures => &["compact_fail"],
            N::HugeFaults => &["thp_fault_alloc"],
            N::HugeFallbacks => &["thp_fault_fallback"],
            N::ReclaimedInBackground => &["pgsteal_kswapd"],
            N::ReclaimedByRequests => &["pgsteal_direct"],
            N::Moved => &["pgmigrate_success"],
            N::CompactionScanned => &["compact_migrate_scanned", "compact_free_scanned"],
            _ => &[],
        }
    }
}

/// What happened on a host in a window.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FleetRow {
    /// The kernel that ran, for people: `Linux 6.18.44`.
    pub kernel: String,
    numbers: [u64; FleetNumber::ALL.len()],
}

impl FleetRow {
    /// Makes a row of a kernel whose numbers are all 0.
    #[must_use]
    pub fn of(kernel: &str) -> FleetRow {
        FleetRow { kernel: kernel.to_owned(), ..FleetRow::default() }
    }
}

impl Index<FleetNumber> for FleetRow {
    type Output = u64;

    fn index(&self, number: FleetNumber) -> &u64 {
        &self.numbers[number as usize]
    }
}

impl IndexMut<FleetNumber> for FleetRow {
    fn index_mut(&mut self, number: FleetNumber) -> &mut u64 {
        &mut self.numbers[number as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_number_has_a_place_and_its_counters_are_sampled() {
        for (at, number) in FleetNumber::ALL.into_iter().enumerate() {
            assert_eq!(number as usize, at, "{}", number.name());
            for counter in number.counters() {
                assert!(crate::COUNTERS.contains(counter), "{counter}");
            }
        }
    }
}
