//! `samples.parquet`: the host's free blocks, per-CPU lists and counters, read again and again while it was recorded.

pub(crate) mod check;
pub(crate) mod counters;
mod reader;

pub use counters::COUNTERS;
pub(crate) use counters::is_level;
pub use reader::SampleReader;

use pageyard::ZoneKind;

use crate::error::TraceError;
use crate::pq::{ColumnSpec, Kind, Names};
use crate::proctext::{Buddyinfo, Vmstat, Zoneinfo};

/// The file of a trace that holds them.
pub(crate) const SAMPLES: &str = "samples.parquet";

/// The most rows of one sample. A host of 64 nodes and 4,096 CPUs needs fewer than a million.
const MAX_ROWS: usize = 1 << 20;

/// The kinds of rows, in the order that they have in a sample.
pub(crate) const KINDS: [&str; 3] = ["free_blocks", "list", "counter"];

/// The names of zones; the first is for rows that have none.
pub(crate) const ZONES: [&str; 6] = [
    "",
    ZoneKind::Dma.name(),
    ZoneKind::Dma32.name(),
    ZoneKind::Normal.name(),
    ZoneKind::Movable.name(),
    ZoneKind::Device.name(),
];

/// The host at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostSample {
    /// Nanoseconds since the recording started, on the clock of the events.
    pub time_ns: u64,
    /// Free blocks by zone, in the order of nodes and zones.
    pub free_blocks: Vec<ZoneBlocks>,
    /// Per-CPU lists, in the order of nodes, zones and CPUs.
    pub lists: Vec<CpuLists>,
    /// Counters of `/proc/vmstat`, in the order of [`COUNTERS`], of which a kernel has some.
    pub counters: Vec<(&'static str, u64)>,
}

/// The free blocks of a zone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ZoneBlocks {
    /// The NUMA node.
    pub node: u8,
    /// The zone.
    pub zone: ZoneKind,
    /// Blocks by order, order 0 first.
    pub counts: Vec<u64>,
}

/// The frames in one CPU's lists of a zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuLists {
    /// The NUMA node.
    pub node: u8,
    /// The zone.
    pub zone: ZoneKind,
    /// The CPU.
    pub cpu: u32,
    /// Frames in the lists.
    pub frames: u64,
    /// Frames at which they spill.
    pub high: u64,
}

impl HostSample {
    /// Makes a sample of what Linux says of itself; a text that is empty says nothing. Zones and counters that a trace
    /// has no name for are left out.
    ///
    /// # Errors
    /// At the first line that cannot be read.
    pub fn of_texts(
        time_ns: u64,
        buddyinfo: &str,
        zoneinfo: &str,
        vmstat: &str,
    ) -> Result<HostSample, TraceError> {
        let named = |name: &str| ZoneKind::ALL.into_iter().find(|zone| zone.name() == name);
        let mut free_blocks: Vec<ZoneBlocks> = Vec::new();
        for z in Buddyinfo::parse(buddyinfo)?.zones {
            free_blocks.extend(named(&z.name).map(|zone| ZoneBlocks {
                node: z.node,
                zone,
                counts: z.counts,
            }));
        }
        let mut lists = Vec::new();
        for z in Zoneinfo::parse(zoneinfo)?.zones {
            let Some(zone) = named(&z.name) else { continue };
            let sets = z.pagesets.iter();
            lists.extend(sets.map(|set| CpuLists {
                node: z.node,
                zone,
                cpu: set.cpu,
                frames: set.count,
                high: set.high,
            }));
        }
        // As Linux prints them, but for zones of several nodes, whose order is its own affair.
        free_blocks.sort_by_key(|z| (z.node, z.zone.index()));
        lists.sort_by_key(|l| (l.node, l.zone.index(), l.cpu));
        let vmstat = Vmstat::parse(vmstat)?;
        let counters = COUNTERS.iter().filter_map(|name| Some((*name, vmstat.get(name)?))).collect();
        Ok(HostSample { time_ns, free_blocks, lists, counters })
    }

    /// Returns a counter, or `None` where the kernel has none with that name.
    #[must_use]
    pub fn counter(&self, name: &str) -> Option<u64> {
        self.counters.iter().find(|(n, _)| *n == name).map(|(_, value)| *value)
    }
}

impl HostSample {
    /// Returns which free blocks the sample counts: nodes, zones and numbers of orders. They are the same in all
    /// samples of a trace.
    pub(crate) fn shape(&self) -> Vec<(u8, usize, usize)> {
        self.free_blocks.iter().map(|z| (z.node, z.zone.index(), z.counts.len())).collect()
    }
}

/// One row. What a kind of row does not have is 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) time_ns: u64,
    pub(crate) kind: u8,
    pub(crate) node: u8,
    /// An index of [`ZONES`].
    pub(crate) zone: u8,
    pub(crate) cpu: u32,
    pub(crate) order: u8,
    /// 1 + an index of [`COUNTERS`].
    pub(crate) counter: u16,
    pub(crate) value: u64,
    pub(crate) high: u64,
}

pub(crate) const FREE_BLOCKS: u8 = 0;
pub(crate) const LIST: u8 = 1;
pub(crate) const COUNTER: u8 = 2;

/// Returns the columns.
pub(crate) fn columns() -> Vec<ColumnSpec> {
    let column = |name, kind| ColumnSpec { name, kind };
    vec![
        column("time_ns", Kind::Int(64, false)),
        column("kind", Kind::Names(Names::new(&KINDS))),
        column("node", Kind::Int(8, false)),
        column("zone", Kind::Names(Names::new(&ZONES))),
        column("cpu", Kind::Int(32, false)),
        column("order", Kind::Int(8, false)),
        column("counter", Kind::Names(Names::new(&counters::NAMES))),
        column("value", Kind::Int(64, false)),
        column("high", Kind::Int(64, false)),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_has_what_linux_says_and_a_trace_has_names_for() {
        let buddyinfo = "Node 0, zone Normal 7 8\nNode 0, zone DMA 1 0 2\nNode 1, zone Weird 4\n";
        let zoneinfo = "Node 0, zone   Normal\n  pages free     3840\n        protection: (0, 0)\n  pagesets\n\
            \x20   cpu: 1\n              count:    7\n              high:     14\n    cpu: 0\n              count:    5\n\
            \x20             high:     9\n  start_pfn:           1\n";
        let vmstat = "pgfree 9\nnr_zone_unevictable 4\nnr_free_pages 23\n";
        let sample = HostSample::of_texts(5, buddyinfo, zoneinfo, vmstat).unwrap();
        let zones: Vec<_> = sample.free_blocks.iter().map(|z| (z.zone.name(), z.counts.clone())).collect();
        assert_eq!(zones, [("DMA", vec![1, 0, 2]), ("Normal", vec![7, 8])]);
        let lists: Vec<_> = sample.lists.iter().map(|l| (l.cpu, l.frames, l.high)).collect();
        assert_eq!(lists, [(0, 5, 9), (1, 7, 14)]);
        assert_eq!(sample.counters, [("nr_free_pages", 23), ("pgfree", 9)]);
        assert_eq!((sample.counter("pgfree"), sample.counter("nr_zone_unevictable")), (Some(9), None));
        assert!(HostSample::of_texts(5, "hello", "", "").is_err());
        assert_eq!(
            HostSample::of_texts(5, "", "", "").unwrap(),
            HostSample { time_ns: 5, ..Default::default() }
        );
    }

    #[test]
    fn zones_have_the_names_that_linux_gives() {
        assert_eq!(ZONES[1..], ZoneKind::ALL.map(ZoneKind::name));
    }
}
