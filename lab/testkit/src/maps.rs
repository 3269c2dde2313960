//! Memory maps: the plain ones, and the ones that engines get wrong.

use pageyard::{Frames, MemoryMap, NodeId, Pfn, Region, ZoneKind};

/// A named memory map.
#[derive(Clone, Debug)]
pub struct Map {
    /// The name.
    pub name: &'static str,
    /// Its regions.
    pub regions: Vec<Region>,
}

/// Makes a managed region of the normal zone of node 0.
#[must_use]
pub const fn normal(start: u64, frames: u64) -> Region {
    Region::managed(Pfn(start), Frames(frames), NodeId(0), ZoneKind::Normal)
}

const fn unmanaged(region: Region) -> Region {
    Region { managed: false, ..region }
}

const fn in_zone(start: u64, frames: u64, node: u8, zone: ZoneKind) -> Region {
    Region::managed(Pfn(start), Frames(frames), NodeId(node), zone)
}

/// Takes regions as a memory map.
///
/// # Panics
/// When they are none.
#[must_use]
pub fn checked(regions: &[Region]) -> MemoryMap<'_> {
    MemoryMap::new(regions).unwrap_or_else(|e| panic!("not a memory map: {e}: {regions:?}"))
}

/// Returns one zone from frame 0, without holes.
#[must_use]
pub fn plain(frames: u64) -> Map {
    Map { name: "plain", regions: vec![normal(0, frames)] }
}

/// Returns a machine with every kind of zone on node 0 and a normal zone on node 1.
#[must_use]
pub fn numa() -> Map {
    let regions = vec![
        in_zone(0, 1024, 0, ZoneKind::Dma),
        in_zone(1024, 3072, 0, ZoneKind::Dma32),
        in_zone(4096, 4096, 0, ZoneKind::Normal),
        in_zone(8192, 2048, 0, ZoneKind::Movable),
        in_zone(10_240, 4096, 1, ZoneKind::Normal),
    ];
    Map { name: "numa", regions }
}

/// Returns memory that starts and ends unaligned, with holes smaller and larger than a pageblock, and one in between
/// that is a single frame.
#[must_use]
pub fn ragged() -> Map {
    let regions =
        vec![normal(37, 1000), normal(1100, 900), normal(2001, 47), normal(2048, 512), normal(4200, 3001)];
    Map { name: "ragged", regions }
}

/// Returns memory with unmanaged regions inside, at borders of pageblocks and away from them, and a zone that has
/// no managed frame.
#[must_use]
pub fn firmware() -> Map {
    let regions = vec![
        unmanaged(in_zone(0, 256, 0, ZoneKind::Dma)),
        unmanaged(in_zone(1024, 512, 0, ZoneKind::Dma32)),
        normal(2048, 1536),
        unmanaged(normal(3584, 512)),
        normal(4096, 700),
        unmanaged(normal(4796, 3)),
        normal(4799, 2345),
    ];
    Map { name: "firmware", regions }
}

/// Returns the small maps of hand-written cases.
#[must_use]
pub fn corners() -> Vec<Map> {
    let map = |name, regions: &[Region]| Map { name, regions: regions.to_vec() };
    vec![
        map("one frame at 0", &[normal(0, 1)]),
        map("one odd frame", &[normal(4095, 1)]),
        map("two frames that are no buddies", &[normal(511, 2)]),
        map("one pageblock", &[normal(0, 512)]),
        map("less than a pageblock", &[normal(512, 511)]),
        map("unaligned end", &[normal(0, 1025)]),
        map("unaligned start", &[normal(1, 1023)]),
        map("high up", &[normal((1 << 39) + 512, 1024)]),
        map(
            "empty regions",
            &[normal(0, 0), normal(0, 64), normal(64, 0), normal(64, 64), normal(1 << 30, 0)],
        ),
        map("every other frame", &(0..64).map(|n| normal(2 * n, 1)).collect::<Vec<_>>()),
        map("zones that share a pageblock", &[in_zone(0, 300, 0, ZoneKind::Dma), normal(300, 724)]),
        map("nodes far apart", &[normal(0, 600), in_zone(1 << 24, 1111, 1, ZoneKind::Normal)]),
        ragged(),
        firmware(),
        numa(),
    ]
}

/// Returns the maps of random runs.
#[must_use]
pub fn random() -> Vec<Map> {
    let small = Map { name: "small", regions: vec![normal(0, 2048)] };
    let uneven = Map { name: "uneven", regions: vec![normal(1536, 65_536 + 77)] };
    vec![small, plain(16_384), uneven, ragged(), firmware(), numa()]
}
