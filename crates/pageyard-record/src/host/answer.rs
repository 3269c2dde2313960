//! What a zone would answer to a request now.

use pageyard::metrics;
use serde::Serialize;

use pageyard_trace::proctext::{Buddyinfo, Zoneinfo, ZoneinfoZone};

/// What a request would meet with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// It would be granted.
    Succeeds,
    /// There is enough memory, but no block that large: compaction must make one.
    NeedsCompaction,
    /// Memory is below the reserve: something must be reclaimed first.
    LacksMemory,
}

impl Answer {
    /// The kind of request that an answer is for.
    pub const REQUEST: &str =
        "GFP_KERNEL: any zone of any node, no reserves, before anything is reclaimed or compacted";

    /// Returns one word for people.
    pub(super) const fn word(self) -> &'static str {
        match self {
            Answer::Succeeds => "yes",
            Answer::NeedsCompaction => "compact",
            Answer::LacksMemory => "no",
        }
    }
}

/// Says, for each order, what the zone would answer to a request that may use any zone.
///
/// Such a request must leave a zone its `min` watermark and what it protects from requests that could use better zones.
///
/// # Linux
/// `__zone_watermark_ok` with the `min` watermark, without the reserves for urgent requests and without the memory of
/// contiguous areas, which only movable requests may use.
pub(super) fn answers(free_blocks: &[u64], zone: &ZoneinfoZone, protection: u64) -> Vec<Answer> {
    let free = zone.free.min(metrics::free_frames(free_blocks));
    (0..free_blocks.len())
        .map(|order| {
            let left = free.saturating_sub((1u64 << order) - 1);
            if left <= zone.min + zone.boost + protection {
                Answer::LacksMemory
            } else if metrics::suitable_blocks(free_blocks, order) == 0 {
                Answer::NeedsCompaction
            } else {
                Answer::Succeeds
            }
        })
        .collect()
}

/// Returns what a zone keeps from requests that may use the highest zone of its node.
pub(super) fn protection(info: &Zoneinfo, zone: &ZoneinfoZone) -> u64 {
    let mut node = info.zones.iter().filter(|z| z.node == zone.node);
    let highest = node.clone().count() - node.clone().rev().position(|z| z.managed > 0).unwrap_or(0);
    let position = node.position(|z| z.name == zone.name).unwrap_or(0);
    let highest = highest.saturating_sub(1).max(position);
    zone.protection.get(highest).copied().unwrap_or(0)
}

/// Finds the zone that a line of `buddyinfo` is about.
pub(super) fn zone_of<'a>(info: &'a Zoneinfo, buddy: &Buddyinfo, index: usize) -> Option<&'a ZoneinfoZone> {
    let line = buddy.zones.get(index)?;
    info.zones.iter().find(|z| z.node == line.node && z.name == line.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn zone(name: &str, managed: u64, protection: &[u64]) -> ZoneinfoZone {
        ZoneinfoZone {
            name: name.into(),
            free: 1000,
            min: 100,
            managed,
            protection: protection.to_vec(),
            ..ZoneinfoZone::default()
        }
    }

    #[test]
    fn the_reason_is_memory_or_its_shape() {
        let zone = zone("Normal", 5000, &[]);
        let row = [200, 0, 200, 0, 0, 0, 0, 0, 0, 0, 0];
        let answers = answers(&row, &zone, 0);
        assert_eq!(&answers[..3], [Answer::Succeeds; 3]);
        assert_eq!(&answers[3..=9], [Answer::NeedsCompaction; 7]);
        assert_eq!(answers[10], Answer::LacksMemory, "1000 - 1023 frames are not above the watermark");
    }

    #[test]
    fn what_a_lower_zone_protects_is_not_for_everyone() {
        let info = Zoneinfo {
            zones: vec![
                zone("DMA", 100, &[0, 30, 950, 950]),
                zone("DMA32", 100, &[0, 0, 20, 20]),
                zone("Normal", 100, &[0, 0, 0, 0]),
                zone("Movable", 0, &[0, 0, 0, 0]),
            ],
        };
        assert_eq!(protection(&info, &info.zones[0]), 950);
        assert_eq!(protection(&info, &info.zones[1]), 20);
        assert_eq!(protection(&info, &info.zones[2]), 0);
        assert_eq!(answers(&[1000], &info.zones[0], 950), [Answer::LacksMemory]);
        assert_eq!(answers(&[1000], &info.zones[0], 0), [Answer::Succeeds]);
    }
}
