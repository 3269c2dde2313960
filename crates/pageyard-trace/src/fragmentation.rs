//! How fragmented free memory is, from a text of `/proc/buddyinfo`.

use std::fmt;

use pageyard::metrics;
use serde::Serialize;

use crate::document::as_map;
use crate::proctext::{Buddyinfo, BuddyinfoZone};
use crate::text::{Grid, grouped, percent};

/// The fragmentation of one zone's free memory.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ZoneFragmentation {
    /// The NUMA node.
    pub node: u8,
    /// The zone's name.
    pub zone: String,
    /// Free blocks by order, order 0 first.
    pub free_blocks: Vec<u64>,
    /// Free frames.
    pub free_frames: u64,
    /// The share of free memory that no request of an order can use, by order; empty where nothing is free.
    pub unusable_index: Vec<f64>,
    /// For each order at which a request would fail: whether for lack of memory (towards 0) or fragmentation (towards
    /// 1).
    #[serde(serialize_with = "as_map")]
    #[cfg_attr(feature = "schema", schemars(with = "std::collections::BTreeMap<String, f64>"))]
    pub extfrag_index: Vec<(usize, f64)>,
    /// Free huge frames as a share of those that the free memory could make, where it could make any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub free_huge_share: Option<f64>,
}

impl ZoneFragmentation {
    /// Measures one zone.
    #[must_use]
    pub fn of(zone: &BuddyinfoZone) -> ZoneFragmentation {
        let free = &zone.counts;
        let orders = 0..free.len();
        ZoneFragmentation {
            node: zone.node,
            zone: zone.name.clone(),
            free_blocks: free.clone(),
            free_frames: metrics::free_frames(free),
            unusable_index: orders.clone().filter_map(|o| metrics::unusable_index(free, o)).collect(),
            extfrag_index: orders.filter_map(|o| Some((o, metrics::extfrag_index(free, o)?))).collect(),
            free_huge_share: metrics::free_huge_share(free),
        }
    }

    /// Measures every zone of a text.
    #[must_use]
    pub fn all(info: &Buddyinfo) -> Vec<ZoneFragmentation> {
        info.zones.iter().map(ZoneFragmentation::of).collect()
    }

    /// Returns the zone's name, with its node where that is not the first.
    pub fn title(&self) -> String {
        if self.node == 0 { self.zone.clone() } else { format!("{} (node {})", self.zone, self.node) }
    }
}

/// Writes zones as a table with a column for each order.
pub fn table(zones: &[ZoneFragmentation]) -> Grid {
    let orders = zones.iter().map(|z| z.free_blocks.len()).max().unwrap_or(0);
    let heading = |words: &str| [words.to_owned()].into_iter().chain((0..orders).map(|o| o.to_string()));
    let mut grid = Grid::new(heading("order"));
    for zone in zones.iter().filter(|z| z.free_frames > 0) {
        let title = zone.title();
        grid.row(
            [format!("{title}: free blocks")].into_iter().chain(zone.free_blocks.iter().map(|&n| grouped(n))),
        );
        let unusable = zone.unusable_index.iter().map(|x| format!("{x:.3}"));
        grid.row([format!("{title}: unusable_index")].into_iter().chain(unusable));
        let extfrag = (0..orders).map(|o| {
            zone.extfrag_index
                .iter()
                .find(|(order, _)| *order == o)
                .map_or("-".to_owned(), |(_, x)| format!("{x:.3}"))
        });
        if !zone.extfrag_index.is_empty() {
            grid.row([format!("{title}: extfrag_index")].into_iter().chain(extfrag));
        }
    }
    grid
}

/// Free huge frames of all zones together.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HugeFrames {
    /// Those that there are.
    pub free: u64,
    /// Those that the free memory could make.
    pub possible: u64,
    /// The first as a percentage of the second; omitted if none could be made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pct: Option<f64>,
}

impl HugeFrames {
    /// Counts them.
    #[must_use]
    pub fn of(zones: &[ZoneFragmentation]) -> HugeFrames {
        let order = pageyard::PAGEBLOCK_ORDER;
        let free = zones.iter().map(|z| metrics::suitable_blocks(&z.free_blocks, order.index())).sum();
        let possible = zones.iter().map(|z| z.free_frames >> order.get()).sum();
        let pct = (possible > 0).then(|| free as f64 / possible as f64 * 100.0);
        HugeFrames { free, possible, pct }
    }
}

impl fmt::Display for HugeFrames {
    /// Says how near they are to the optimum.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(pct) = self.pct else { return f.write_str("Less than one huge frame (2 MiB) is free.") };
        write!(
            f,
            "Free huge frames (2 MiB): {} of the {} that the free memory could make, {}.",
            grouped(self.free),
            grouped(self.possible),
            percent(pct / 100.0)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_zone_without_free_memory_has_no_indexes_and_no_nulls() {
        let zone = BuddyinfoZone { node: 0, name: "DMA".into(), counts: vec![0; 11] };
        let measured = ZoneFragmentation::of(&zone);
        assert!(measured.unusable_index.is_empty() && measured.extfrag_index.is_empty());
        assert!(!serde_json::to_string(&measured).unwrap().contains("null"));
    }

    #[test]
    fn single_frames_cannot_serve_larger_orders() {
        let zone = BuddyinfoZone { node: 1, name: "Normal".into(), counts: vec![1000, 0, 0] };
        let measured = ZoneFragmentation::of(&zone);
        assert_eq!(measured.unusable_index, [0.0, 1.0, 1.0]);
        assert_eq!(measured.extfrag_index.iter().map(|(o, _)| *o).collect::<Vec<_>>(), [1, 2]);
        assert_eq!(measured.free_huge_share, Some(0.0));
        assert_eq!(measured.title(), "Normal (node 1)");
    }
}
