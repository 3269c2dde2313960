//! What holds of every firmware map.
//!
//! Tests call each property with all small maps and with random ones of any size; Kani with all maps of two ranges in
//! four frames (`bench/kani`).

use super::{Entry, FirmwareError, FirmwareMap, Regions, Said, ZoneLimits};
use crate::memmap::{Region, ZoneKind};
use crate::units::{Frames, NodeId, PAGE_SIZE, Pfn};
use core::ops::Range;

/// The description of a frame that is no hole: its node, its zone, whether it is managed, and whether it holds zeros.
type Described = (NodeId, ZoneKind, bool, bool);

/// Returns what a frame is, read from the ranges as they were declared: none is joined or rounded.
fn declared(limits: ZoneLimits, ranges: &[Entry], frame: u64) -> Option<Described> {
    let (start, end) = (frame * PAGE_SIZE, (frame + 1) * PAGE_SIZE);
    let of = |said| ranges.iter().filter(move |e| e.said == said);
    // Whether ranges of a kind fill the frame: one that holds the first byte that is left leaves fewer.
    let fill = |said| {
        let mut at = start;
        while at < end {
            match of(said).filter(|e| e.start <= at && at < e.end).map(|e| e.end).max() {
                Some(next) => at = next,
                None => return false,
            }
        }
        true
    };
    let node = ranges.iter().find_map(|e| match e.said {
        Said::Node(node) if e.start <= start && start < e.end => Some(node),
        _ => None,
    });
    let zone = match () {
        () if end <= limits.dma => ZoneKind::Dma,
        () if end <= limits.dma32 => ZoneKind::Dma32,
        () => ZoneKind::Normal,
    };
    let managed = !of(Said::Reserved).any(|e| e.start < end && start < e.end);
    fill(Said::Usable).then(|| (node.unwrap_or_default(), zone, managed, managed && fill(Said::Zeroed)))
}

/// Declares ranges, each of which has bytes and finds room.
fn map_of<const N: usize>(limits: ZoneLimits, ranges: &[Entry]) -> FirmwareMap<N> {
    let mut map = FirmwareMap::new(limits);
    for &Entry { start, end, said } in ranges {
        let declared = match said {
            Said::Usable => map.usable(start..end),
            Said::Reserved => map.reserved(start..end),
            Said::Zeroed => map.zeroed(start..end),
            Said::Node(node) => map.node(start..end, node),
        };
        assert!(declared.is_ok());
    }
    map
}

/// The regions say of a frame what was declared. A map without regions has no frame to hand out.
fn says_what_was_declared<const N: usize>(
    made: &Result<Regions<N>, FirmwareError>,
    declared: Option<Described>,
    frame: u64,
) {
    match made {
        Ok(regions) => {
            let mut holding = regions.iter().filter(|r| r.start.0 <= frame && frame < r.end().0);
            let described = holding.next().map(|r| (r.node, r.zone, r.managed, r.zeroed));
            assert_eq!(described, declared);
            assert!(holding.next().is_none());
        }
        Err(why) => {
            assert_eq!(*why, FirmwareError::NothingUsable);
            assert!(declared.is_none_or(|(.., managed, _)| !managed));
        }
    }
}

/// Regions rise, and each differs from its neighbour or lies apart from it.
fn are_joined(regions: &[Region]) {
    let like = |r: &Region| (r.node, r.zone, r.managed, r.zeroed);
    for pair in regions.windows(2) {
        assert!(pair[0].end() <= pair[1].start);
        assert!(pair[0].end() < pair[1].start || like(&pair[0]) != like(&pair[1]));
    }
    assert!(regions.iter().all(|r| r.frames > Frames::ZERO));
}

/// Leaving frames out makes the regions that reserving them would.
fn leaves_out_what_it_would_reserve<const N: usize>(map: &FirmwareMap<N>, frames: Range<Pfn>) {
    let mut without = Regions::none();
    let left_out = map.regions_without(frames.clone(), &mut without);
    let mut map = map.clone();
    assert!(map.reserve_frames(frames).is_ok());
    match (map.regions(), left_out) {
        (Ok(regions), Ok(())) => assert!(*regions == *without),
        (Err(why), Err(other)) => assert_eq!(why, other),
        _ => panic!("one of the two has regions"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::BYTE_LIMIT;
    use super::*;
    use crate::drawn::{each, sized};
    use crate::memmap::PFN_LIMIT;
    use proptest::collection::vec;
    use proptest::prelude::{Just, Strategy, any, prop_oneof};
    use proptest::sample::{Index, select};
    use std::vec::Vec;

    const SAID: [Said; 3] = [Said::Usable, Said::Reserved, Said::Zeroed];

    #[test]
    fn every_three_ranges_in_two_frames() {
        let edges = [0, 1, 4096, 6000, 8192];
        let limits = ZoneLimits { dma: 4096, dma32: 0 };
        let mut ranges = Vec::new();
        for said in SAID {
            for (n, &start) in edges.iter().enumerate() {
                ranges.extend(edges[n + 1..].iter().map(|&end| Entry { start, end, said }));
            }
        }
        for a in &ranges {
            for b in &ranges {
                for c in &ranges {
                    let three = [*a, *b, *c];
                    let made = map_of::<8>(limits, &three).regions();
                    for frame in 0..3 {
                        says_what_was_declared(&made, declared(limits, &three, frame), frame);
                    }
                }
            }
        }
    }

    /// Ranges of any length; most begin within a few frames of one of a few places, so that they overlap and touch.
    fn ranges() -> impl Strategy<Value = Vec<Entry>> {
        let length = prop_oneof![12 => sized(15), 1 => sized(53)];
        let said = prop_oneof![1 => Just(Said::Usable), 3 => select(&SAID[..])];
        let range = (said, any::<Index>(), 0..32_768_u64, length, any::<bool>());
        (vec(sized(53), 1..8), vec(range, 1..48)).prop_map(|(places, ranges): (Vec<u64>, Vec<_>)| {
            let entry = |(said, place, by, length, aligned): (Said, Index, u64, u64, bool)| {
                let mask = if aligned { !(PAGE_SIZE - 1) } else { u64::MAX };
                let limit = if said == Said::Usable { BYTE_LIMIT } else { u64::MAX };
                let start = ((place.get(&places) + by) & mask).min(limit - 1);
                Entry { start, end: (start + (length & mask).max(1)).min(limit), said }
            };
            ranges.into_iter().map(entry).collect()
        })
    }

    #[test]
    fn maps_of_any_size_say_what_was_declared() {
        let limits = (sized(52), sized(52)).prop_map(|(dma, dma32)| ZoneLimits { dma, dma32 });
        each(5_000, &(ranges(), limits, sized(52)), |(mut ranges, limits, border)| {
            let nodes = [(0, border.max(1), NodeId(0)), (border.max(1), u64::MAX, NodeId(1))];
            ranges.extend(nodes.map(|(start, end, node)| Entry { start, end, said: Said::Node(node) }));
            let made = map_of::<256>(limits, &ranges).regions();
            let mut edges: Vec<u64> = ranges.iter().flat_map(|e| [e.start, e.end]).collect();
            edges.extend([limits.dma, limits.dma32]);
            edges.iter_mut().for_each(|byte| *byte /= PAGE_SIZE);
            if let Ok(regions) = &made {
                are_joined(regions);
                edges.extend(regions.iter().flat_map(|r| [r.start.0, r.end().0]));
            }
            // Between these frames neither the regions nor what was declared changes.
            let mut frames: Vec<u64> = edges.iter().flat_map(|e| [e.saturating_sub(1), *e, e + 1]).collect();
            frames.retain(|frame| *frame < PFN_LIMIT.0);
            frames.sort_unstable();
            frames.dedup();
            for frame in frames {
                says_what_was_declared(&made, declared(limits, &ranges, frame), frame);
            }
        });
    }

    #[test]
    fn leaving_frames_out_of_any_map_is_reserving_them() {
        each(5_000, &(ranges(), sized(40), sized(40)), |(ranges, a, b)| {
            let map = map_of::<256>(ZoneLimits::X86_64, &ranges);
            leaves_out_what_it_would_reserve(&map, Pfn(a.min(b))..Pfn(a.max(b) + 1));
        });
    }
}

#[cfg(kani)]
mod proofs {
    use super::*;

    /// A byte of four frames.
    fn any_byte() -> u64 {
        kani::any::<u64>() % (4 * PAGE_SIZE)
    }

    fn any_range() -> Entry {
        let (start, end) = (any_byte(), any_byte());
        kani::assume(start < end);
        let said = match (kani::any(), kani::any()) {
            (true, _) => Said::Usable,
            (false, true) => Said::Reserved,
            (false, false) => Said::Zeroed,
        };
        Entry { start, end, said }
    }

    fn any_limits() -> ZoneLimits {
        ZoneLimits { dma: any_byte(), dma32: any_byte() }
    }

    /// Two ranges, two limits and the end of memory are at most seven edges.
    #[kani::proof]
    #[kani::unwind(12)]
    fn maps_say_what_was_declared() {
        let (limits, ranges) = (any_limits(), [any_range(), any_range()]);
        let frame = any_byte() / PAGE_SIZE;
        let made = map_of::<7>(limits, &ranges).regions();
        if let Ok(regions) = &made {
            are_joined(regions);
        }
        says_what_was_declared(&made, declared(limits, &ranges, frame), frame);
    }

    #[kani::proof]
    #[kani::unwind(16)]
    fn maps_leave_out_what_they_would_reserve() {
        let map = map_of::<9>(any_limits(), &[any_range(), any_range()]);
        let (from, to) = (any_byte() / PAGE_SIZE, any_byte() / PAGE_SIZE);
        kani::assume(from < to);
        leaves_out_what_it_would_reserve(&map, Pfn(from)..Pfn(to));
    }
}
