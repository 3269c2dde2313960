//! The machines of a storm: small ones that are near the end of their memory, and roomy ones.

use crate::maps::{self, normal};
use pageyard::watermark::WatermarkKnobs;
use pageyard::{
    BlockId, Config, Frames, MemoryMap, NodeId, Order, PAGEBLOCK_ORDER, PageblockId, Pfn, Region, Request,
    Topology, ZoneId, ZoneKind, ZoneSpan,
};

/// A machine's memory, and the facts about it that a storm looks up constantly.
pub(super) struct Machine {
    pub(super) name: &'static str,
    pub(super) regions: Vec<Region>,
    topology: Topology<'static>,
    pub(super) zones: Vec<(ZoneId, ZoneSpan)>,
    /// Whether each frame is managed.
    managed: Vec<bool>,
    /// Of each pageblock, the zone that calls by its number reach.
    zone_of_block: Vec<Option<usize>>,
}

fn in_zone(start: u64, end: u64, node: u8, zone: ZoneKind) -> Region {
    Region::managed(Pfn(start), Frames(end - start), NodeId(node), zone)
}

/// Three nodes whose CPUs take turns: of the first two, of which the second is near the third, which has none.
const THREE_NODES: Topology<'static> = {
    const HERE: NodeId = NodeId(0);
    const THERE: NodeId = NodeId(1);
    Topology {
        cpus: &[HERE, THERE, HERE, THERE, HERE, THERE, HERE, THERE, HERE],
        distances: &[&[10, 20, 40], &[20, 10, 15], &[40, 15, 10]],
    }
};

impl Machine {
    fn new(name: &'static str, regions: Vec<Region>) -> Machine {
        let map = maps::checked(&regions);
        let zones: Vec<_> = map.zones().collect();
        let mut managed = vec![false; map.end().0 as usize];
        for r in map.regions().filter(|r| r.managed) {
            managed[r.start.0 as usize..r.end().0 as usize].fill(true);
        }
        let blocks = map.end().0.div_ceil(PAGEBLOCK_ORDER.frames().0);
        let has = |zone: &ZoneSpan, block: u64| {
            (zone.start.pageblock().0..=Pfn(zone.end().0 - 1).pageblock().0).contains(&block)
        };
        let zone_of_block =
            (0..blocks).map(|block| zones.iter().position(|(_, zone)| has(zone, block))).collect();
        Machine { name, regions, topology: Topology::default(), zones, managed, zone_of_block }
    }

    /// Says where its CPUs are, and how far its nodes are from each other.
    fn with_topology(self, topology: Topology<'static>) -> Machine {
        Machine { topology, ..self }
    }

    /// Returns machines of a few thousand frames.
    pub(super) fn small() -> Vec<Machine> {
        let shared = vec![
            in_zone(0, 300, 0, ZoneKind::Dma),
            in_zone(300, 1000, 0, ZoneKind::Dma32),
            in_zone(1007, 1900, 0, ZoneKind::Dma32),
            in_zone(1900, 3500, 0, ZoneKind::Normal),
            in_zone(3600, 5200, 1, ZoneKind::Normal),
        ];
        let four = vec![normal(100, 200), normal(340, 1708)];
        let three = (0..3).map(|n| in_zone(1700 * n, 1700 * (n + 1), n as u8, ZoneKind::Normal)).collect();
        vec![
            Machine::new("zones that share pageblocks, on two nodes", shared),
            Machine::new("four pageblocks", four),
            Machine::new("ragged", maps::ragged().regions),
            Machine::new("four whole pageblocks", maps::plain(2048).regions),
            Machine::new("firmware", maps::firmware().regions),
            Machine::new("five zones on two nodes", maps::numa().regions),
            Machine::new("three nodes, one without CPUs", three).with_topology(THREE_NODES),
        ]
    }

    /// Returns machines on which lists fill, and on which the largest blocks exist.
    pub(super) fn roomy() -> Vec<Machine> {
        let two = vec![
            in_zone(0, 5000, 0, ZoneKind::Dma),
            in_zone(5000, 40_000, 0, ZoneKind::Normal),
            in_zone(40_003, 50_000, 0, ZoneKind::Normal),
            in_zone(50_100, 90_001, 1, ZoneKind::Normal),
            in_zone(90_001, 100_000, 1, ZoneKind::Movable),
        ];
        let huge = vec![normal(0, (1 << 18) + 1000), in_zone(2 << 18, 3 << 18, 1, ZoneKind::Normal)];
        vec![
            Machine::new("256 MiB", maps::plain(65_536 + 77).regions),
            Machine::new("two uneven nodes", two),
            Machine::new("128 MiB from frame 1536", vec![normal(1536, 32_768)]),
            Machine::new("two blocks of order 18", huge),
        ]
    }

    pub(super) fn map(&self) -> MemoryMap<'_> {
        maps::checked(&self.regions).with_topology(self.topology)
    }

    /// Returns how many frame numbers there are.
    pub(super) fn frames(&self) -> u64 {
        self.managed.len() as u64
    }

    pub(super) fn pageblocks(&self) -> usize {
        self.zone_of_block.len()
    }

    pub(super) fn managed(&self) -> u64 {
        self.zones.iter().map(|(_, zone)| zone.managed.0).sum()
    }

    /// Returns the largest order that fits into a zone, as far as its size says.
    pub(super) fn largest(&self) -> Order {
        let most = self.zones.iter().map(|(_, zone)| zone.spanned.0.max(1).ilog2()).max().unwrap_or(0);
        Order::of((most as u8).min(Order::MAX.get()))
    }

    /// Returns the index of the zone of a frame.
    pub(super) fn zone(&self, pfn: Pfn) -> Option<usize> {
        self.zones.iter().position(|(_, zone)| zone.spans(pfn))
    }

    /// Returns the zone whose part of a pageblock is meant by a call with the pageblock's number.
    pub(super) fn zone_of_block(&self, block: PageblockId) -> Option<usize> {
        self.zone_of_block.get(block.index()).copied().flatten()
    }

    pub(super) fn is_managed(&self, pfn: Pfn) -> bool {
        self.managed.get(pfn.0 as usize).copied().unwrap_or(false)
    }

    /// Says why a request must not be served with a block.
    pub(super) fn forbids(&self, block: BlockId, request: Option<&Request>) -> Option<&'static str> {
        if !block.pfn.is_aligned(block.order) {
            return Some("it is not aligned");
        }
        let last = Pfn(block.pfn.0 + block.order.frames().0 - 1);
        let Some(zone) = self.zone(block.pfn) else { return Some("it lies in no zone") };
        if self.zone(last) != Some(zone) {
            return Some("it reaches into another zone");
        }
        if !self.managed[block.pfn.0 as usize..=last.0 as usize].iter().all(|m| *m) {
            return Some("it has a frame that is not managed");
        }
        let (request, span) = (request?, &self.zones[zone].1);
        let fits = span.kind <= request.highest_zone && request.nodes.allows(span.node);
        (!fits).then_some("the request does not allow its zone")
    }
}

/// Returns the settings of a round's engine.
pub(super) fn config(rng: &mut fastrand::Rng, cpus: u32) -> Config {
    let mut config = Config::new(cpus);
    if rng.bool() {
        config.watermark = WatermarkKnobs { min_free_kbytes: Some(0), ..config.watermark };
    }
    config.pcp = rng.u8(..8) != 0;
    config.percpu_pagelist_high_fraction = [0, 8, 8, 16][rng.usize(..4)];
    config.compaction_proactiveness = [0, 0, 20, 100][rng.usize(..4)];
    config
}

#[cfg(test)]
mod tests {
    use super::*;
    use pageyard::Migratetype::Movable;

    #[test]
    fn a_block_is_forbidden_for_the_right_reason() {
        let m = &Machine::small()[0];
        let block = |pfn, order| BlockId { pfn: Pfn(pfn), order: Order::of(order) };
        assert_eq!(m.forbids(block(256, 5), None), None);
        assert_eq!(m.forbids(block(256, 6), None), Some("it reaches into another zone"));
        assert_eq!(m.forbids(block(1001, 0), None), Some("it has a frame that is not managed"));
        let low = Request { highest_zone: ZoneKind::Dma, ..Request::new(Order::ZERO, Movable) };
        assert_eq!(m.forbids(block(400, 0), Some(&low)), Some("the request does not allow its zone"));
        assert_eq!((m.zone_of_block(PageblockId(0)), m.zone_of_block(PageblockId(4))), (Some(0), Some(2)));
    }

    #[test]
    fn machines_are_maps_and_one_has_the_largest_blocks() {
        let all = Machine::small().into_iter().chain(Machine::roomy());
        assert_eq!(all.map(|m| m.largest()).max(), Some(Order::MAX));
    }
}
