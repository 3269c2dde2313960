//! A zone's answer to a request at this moment.

use pageyard::metrics;
use serde::Serialize;

use pageyard_trace::proctext::{Buddyinfo, Zoneinfo, ZoneinfoZone};

use super::asked::AskedFor;

/// The answer that a request would get.
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
    /// Such a request may not use the zone.
    NotAllowed,
}

impl Answer {
    /// Returns one word for people.
    pub(super) const fn word(self) -> &'static str {
        match self {
            Answer::Succeeds => "yes",
            Answer::NeedsCompaction => "compact",
            Answer::LacksMemory => "no",
            Answer::NotAllowed => "-",
        }
    }
}

/// Says, for each order, what the zone would answer to such a request.
///
/// It must leave a zone its share of the `min` watermark and what the zone protects from requests that could use better
/// zones.
///
/// # Linux
/// `__zone_watermark_ok` with the `min` watermark, without the reserves for urgent requests and without the memory of
/// contiguous areas, which only movable requests may use. The `min` of `zoneinfo` has the boost in it.
pub(super) fn answers(
    asked: AskedFor,
    free_blocks: &[u64],
    zone: &ZoneinfoZone,
    protection: u64,
) -> Vec<Answer> {
    if !asked.may_use(&zone.name) {
        return vec![Answer::NotAllowed; free_blocks.len()];
    }
    let free = zone.free.min(metrics::free_frames(free_blocks));
    (0..free_blocks.len())
        .map(|order| {
            let left = free.saturating_sub((1u64 << order) - 1);
            if left <= asked.floor(zone.min) + protection {
                Answer::LacksMemory
            } else if metrics::suitable_blocks(free_blocks, order) == 0 {
                Answer::NeedsCompaction
            } else {
                Answer::Succeeds
            }
        })
        .collect()
}

/// Returns what a zone keeps from such requests, which may use higher zones of its node.
///
/// # Linux
/// `lowmem_reserve` at the highest zone that the request may use.
pub(super) fn protection(asked: AskedFor, info: &Zoneinfo, zone: &ZoneinfoZone) -> u64 {
    let node: Vec<_> = info.zones.iter().filter(|z| z.node == zone.node).collect();
    let position = node.iter().position(|z| z.name == zone.name).unwrap_or(0);
    let highest = node.iter().rposition(|z| z.managed > 0 && asked.may_use(&z.name));
    let highest = highest.unwrap_or(0).max(position);
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

    const KERNEL: AskedFor = AskedFor::Kernel;

    #[test]
    fn the_reason_is_memory_or_its_shape() {
        let zone = zone("Normal", 5000, &[]);
        let row = [200, 0, 200, 0, 0, 0, 0, 0, 0, 0, 0];
        let answers = answers(KERNEL, &row, &zone, 0);
        assert_eq!(&answers[..3], [Answer::Succeeds; 3]);
        assert_eq!(&answers[3..=9], [Answer::NeedsCompaction; 7]);
        assert_eq!(answers[10], Answer::LacksMemory, "1000 - 1023 frames are not above the watermark");
    }

    #[test]
    fn the_boost_is_in_the_watermark_already() {
        let boosted = ZoneinfoZone { boost: 60, ..zone("Normal", 5000, &[]) };
        assert_eq!(answers(KERNEL, &[101], &boosted, 0), [Answer::Succeeds]);
        assert_eq!(answers(KERNEL, &[100], &boosted, 0), [Answer::LacksMemory]);
    }

    #[test]
    fn a_request_that_cannot_wait_passes_a_lower_mark() {
        let zone = zone("Normal", 5000, &[]);
        assert_eq!(answers(AskedFor::Atomic, &[39], &zone, 0), [Answer::Succeeds]);
        assert_eq!(answers(AskedFor::Atomic, &[38], &zone, 0), [Answer::LacksMemory]);
        assert_eq!(answers(KERNEL, &[39], &zone, 0), [Answer::LacksMemory]);
    }

    #[test]
    fn what_a_lower_zone_protects_is_not_for_everyone() {
        let mut info = Zoneinfo {
            zones: vec![
                zone("DMA", 100, &[0, 30, 950, 990]),
                zone("DMA32", 100, &[0, 0, 20, 20]),
                zone("Normal", 100, &[0, 0, 0, 40]),
                zone("Movable", 0, &[0, 0, 0, 0]),
            ],
        };
        let of = |info: &Zoneinfo, asked, zone: usize| protection(asked, info, &info.zones[zone]);
        assert_eq!([0, 1, 2].map(|z| of(&info, KERNEL, z)), [950, 20, 0]);
        assert_eq!(answers(KERNEL, &[1000], &info.zones[0], 950), [Answer::LacksMemory]);
        assert_eq!(answers(KERNEL, &[1000], &info.zones[0], 0), [Answer::Succeeds]);
        // With memory in the highest zone, only those that may use it meet with what is protected from them.
        info.zones[3].managed = 100;
        assert_eq!([0, 2].map(|z| of(&info, KERNEL, z)), [950, 0]);
        assert_eq!([0, 2].map(|z| of(&info, AskedFor::HighuserMovable, z)), [990, 40]);
        assert_eq!(answers(KERNEL, &[1000, 1], &info.zones[3], 0), [Answer::NotAllowed; 2]);
        assert_eq!(answers(AskedFor::HighuserMovable, &[1000], &info.zones[3], 0), [Answer::Succeeds]);
    }
}
