//! Maps by hand, and random ones against an array with an entry a frame.

use super::*;
use std::{vec, vec::Vec};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

fn one_zone() -> FirmwareMap<16> {
    FirmwareMap::new(ZoneLimits::NONE)
}

/// First frame, end, zone and whether it is managed, for each region.
fn shape<const N: usize>(map: &FirmwareMap<N>) -> Vec<(u64, u64, ZoneKind, bool)> {
    map.regions().unwrap().iter().map(|r| (r.start.0, r.end().0, r.zone, r.managed)).collect()
}

#[test]
fn a_pc_with_ten_gib() -> Result<(), FirmwareError> {
    use ZoneKind::{Dma, Dma32, Normal};
    // What the BIOS of a PC says: memory around its own data, the frame buffer's hole, ACPI tables, devices below 4
    // GiB.
    let mut map = FirmwareMap::<32>::new(ZoneLimits::X86_64);
    map.usable(0..0x9_fc00)?
        .reserved(0x9_fc00..0xa_0000)?
        .reserved(0xf_0000..0x10_0000)?
        .usable(0x10_0000..0xbff0_0000)?
        .reserved(0xbff0_0000..0xc000_0000)?
        .reserved(0xfeff_c000..0xff00_0000)?
        .usable(4 * GIB..10 * GIB)?;
    // The kernel's image, which lies in usable memory.
    map.reserved(0x100_0000..0x2c1_2345)?;
    let expected = vec![
        (0, 0x9f, Dma, true),
        (0x100, 0x1000, Dma, true),
        (0x1000, 0x2c13, Dma32, false),
        (0x2c13, 0xb_ff00, Dma32, true),
        (0x10_0000, 0x28_0000, Normal, true),
    ];
    assert_eq!(shape(&map), expected);
    let regions = map.regions()?;
    assert_eq!(regions.map().zone_count(), 3);
    Ok(())
}

#[test]
fn order_and_overlap_do_not_matter() -> Result<(), FirmwareError> {
    let mut tidy = one_zone();
    tidy.usable(0..64 * KIB)?.reserved(16 * KIB..32 * KIB)?;
    let mut untidy = one_zone();
    untidy
        .reserved(20 * KIB..32 * KIB)?
        .usable(32 * KIB..64 * KIB)?
        .usable(8 * KIB..40 * KIB)?
        .reserved(16 * KIB..24 * KIB)?
        .usable(0..12 * KIB)?
        .usable(0..12 * KIB)?;
    assert_eq!(shape(&untidy), shape(&tidy));
    assert_eq!(
        shape(&tidy),
        vec![
            (0, 4, ZoneKind::Normal, true),
            (4, 8, ZoneKind::Normal, false),
            (8, 16, ZoneKind::Normal, true)
        ]
    );
    Ok(())
}

#[test]
fn usable_memory_rounds_inward_and_reserved_memory_outward() -> Result<(), FirmwareError> {
    let mut map = one_zone();
    map.usable(1..10 * 4096 - 1)?.reserved(5 * 4096 - 1..5 * 4096 + 1)?;
    let normal = ZoneKind::Normal;
    assert_eq!(shape(&map), vec![(1, 4, normal, true), (4, 6, normal, false), (6, 9, normal, true)]);
    Ok(())
}

#[test]
fn a_frame_that_two_usable_ranges_fill_together_is_usable() -> Result<(), FirmwareError> {
    let mut map = one_zone();
    map.usable(0..0x1800)?.usable(0x1800..0x3000)?;
    assert_eq!(shape(&map), vec![(0, 3, ZoneKind::Normal, true)]);
    Ok(())
}

#[test]
fn ranges_below_a_page_are_no_memory_but_reserve() -> Result<(), FirmwareError> {
    let mut map = one_zone();
    map.usable(100..4095)?;
    assert_eq!(map.regions().unwrap_err(), FirmwareError::NothingUsable);
    map.usable(0x4000..0x6000)?.reserved(0x5fff..0x6000)?;
    assert_eq!(shape(&map), vec![(4, 5, ZoneKind::Normal, true), (5, 6, ZoneKind::Normal, false)]);
    Ok(())
}

#[test]
fn frame_0_alone_is_a_map() -> Result<(), FirmwareError> {
    let mut map = FirmwareMap::<1>::new(ZoneLimits::X86_64);
    map.usable(0..4096)?;
    assert_eq!(shape(&map), vec![(0, 1, ZoneKind::Dma, true)]);
    Ok(())
}

#[test]
fn ranges_without_bytes_are_refused() {
    let mut map = one_zone();
    assert_eq!(map.usable(0..0).unwrap_err(), FirmwareError::EmptyRange { start: 0, end: 0 });
    let backwards = Range { start: 9, end: 3 };
    assert_eq!(map.reserved(backwards).unwrap_err(), FirmwareError::EmptyRange { start: 9, end: 3 });
    assert_eq!(
        map.usable(u64::MAX..u64::MAX).unwrap_err(),
        FirmwareError::EmptyRange { start: u64::MAX, end: u64::MAX }
    );
}

#[test]
fn the_end_of_the_number_space_does_not_wrap() -> Result<(), FirmwareError> {
    let mut map = one_zone();
    let beyond = FirmwareError::BeyondLimit { end: u64::MAX };
    assert_eq!(map.usable(0..u64::MAX).unwrap_err(), beyond);
    assert_eq!(map.usable(u64::MAX - 1..u64::MAX).unwrap_err(), beyond);
    // Reserved ranges can lie anywhere: firmware names device memory that no processor here can reach.
    map.reserved(u64::MAX - 1..u64::MAX)?.reserved(BYTE_LIMIT - 1..u64::MAX)?.node(0..u64::MAX, NodeId(3))?;
    map.usable(BYTE_LIMIT - 8192..BYTE_LIMIT)?;
    let last = PFN_LIMIT.0;
    let normal = ZoneKind::Normal;
    assert_eq!(shape(&map), vec![(last - 2, last - 1, normal, true), (last - 1, last, normal, false)]);
    assert_eq!(map.regions()?[0].node, NodeId(3));
    assert_eq!(
        map.usable(BYTE_LIMIT..BYTE_LIMIT + 1).unwrap_err(),
        FirmwareError::BeyondLimit { end: BYTE_LIMIT + 1 }
    );
    Ok(())
}

#[test]
fn room_for_ranges_and_for_regions_is_said() -> Result<(), FirmwareError> {
    let mut map = FirmwareMap::<2>::new(ZoneLimits::NONE);
    map.usable(0..MIB)?.reserved(64 * KIB..128 * KIB)?;
    assert_eq!(map.reserved(0..4096).unwrap_err(), FirmwareError::TooMany { room: 2 });
    // Two ranges make three regions.
    assert_eq!(map.regions().unwrap_err(), FirmwareError::TooMany { room: 2 });
    // A range that joins others needs no room, and here leaves two regions.
    map.reserved(0..64 * KIB)?;
    assert_eq!(map.regions()?.len(), 2);
    assert_eq!(
        FirmwareMap::<0>::new(ZoneLimits::NONE).usable(0..4096).unwrap_err(),
        FirmwareError::TooMany { room: 0 }
    );
    Ok(())
}

#[test]
fn nothing_left_is_said() -> Result<(), FirmwareError> {
    let mut map = one_zone();
    assert_eq!(map.regions().unwrap_err(), FirmwareError::NothingUsable);
    map.usable(0..MIB)?.reserved(0..MIB)?;
    assert_eq!(map.regions().unwrap_err(), FirmwareError::NothingUsable);
    Ok(())
}

#[test]
fn nodes_split_regions_and_may_not_overlap_or_interleave() -> Result<(), FirmwareError> {
    let mut map = one_zone();
    map.usable(0..16 * KIB)?.node(0..8 * KIB, NodeId(0))?.node(8 * KIB..16 * KIB, NodeId(1))?;
    let regions = map.regions()?;
    assert_eq!(regions.iter().map(|r| (r.start.0, r.node.0)).collect::<Vec<_>>(), [(0, 0), (2, 1)]);
    assert_eq!(
        map.node(15 * KIB..20 * KIB, NodeId(0)).unwrap_err(),
        FirmwareError::TwoNodes { at: 15 * KIB, nodes: [NodeId(1), NodeId(0)] }
    );
    map.usable(16 * KIB..20 * KIB)?.node(16 * KIB..20 * KIB, NodeId(0))?;
    assert_eq!(map.regions().unwrap_err(), FirmwareError::Map(MapError::SplitZone { region: 2 }));
    Ok(())
}

#[test]
fn zeros_split_managed_regions_only() -> Result<(), FirmwareError> {
    let mut map = one_zone();
    map.usable(0..64 * KIB)?
        .zeroed(16 * KIB..64 * KIB)?
        .reserved(40 * KIB..48 * KIB)?
        .reserved(0..8 * KIB)?;
    let regions = map.regions()?;
    let zeroed: Vec<_> = regions.iter().map(|r| (r.start.0, r.managed, r.zeroed)).collect();
    let expected =
        [(0, false, false), (2, true, false), (4, true, true), (10, false, false), (12, true, true)];
    assert_eq!(zeroed, expected);
    Ok(())
}

#[test]
fn a_zone_limit_inside_a_frame_leaves_the_frame_above() -> Result<(), FirmwareError> {
    let mut map = FirmwareMap::<4>::new(ZoneLimits { dma: 0x1800, dma32: 0 });
    map.usable(0..0x3000)?;
    assert_eq!(shape(&map), vec![(0, 1, ZoneKind::Dma, true), (1, 3, ZoneKind::Normal, true)]);
    Ok(())
}

/// A generator whose numbers are the same on every run.
struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        (self.0 >> 33) % n
    }
}

#[test]
fn random_maps_equal_an_array_of_bytes() {
    /// Frames of the small machine.
    const FRAMES: usize = 24;
    const BYTES: u64 = FRAMES as u64 * PAGE_SIZE;
    let mut random = Random(7);
    let mut with_memory = 0;
    for round in 0..400 {
        let limits = ZoneLimits { dma: random.below(BYTES), dma32: random.below(BYTES) };
        let mut map = FirmwareMap::<64>::new(limits);
        let mut bytes = vec![[false; 3]; BYTES as usize];
        let mut said = Vec::new();
        for _ in 0..random.below(14) {
            let start = random.below(BYTES - 1);
            let end = start + 1 + random.below((BYTES - start).min(1 + BYTES / 3));
            // Half of the ranges end at frames.
            let (start, end) =
                if random.below(2) == 0 { (start & !4095, end.next_multiple_of(4096)) } else { (start, end) };
            let kind = random.below(3) as usize;
            match kind {
                0 => map.usable(start..end),
                1 => map.reserved(start..end),
                _ => map.zeroed(start..end),
            }
            .unwrap();
            said.push((kind, start, end));
            bytes[start as usize..end as usize].iter_mut().for_each(|b| b[kind] = true);
        }
        let node_limit = random.below(FRAMES as u64);
        map.node(0..(node_limit * PAGE_SIZE).max(1), NodeId(0)).unwrap();
        map.node((node_limit * PAGE_SIZE).max(1)..BYTES, NodeId(1)).unwrap();

        // Of each frame: the node, the zone, whether it is managed, and whether it is zero.
        let naive: Vec<Option<(u8, ZoneKind, bool, bool)>> = bytes
            .chunks(PAGE_SIZE as usize)
            .enumerate()
            .map(|(frame, bytes)| {
                let end = (frame as u64 + 1) * PAGE_SIZE;
                let zone = match () {
                    () if end <= limits.dma => ZoneKind::Dma,
                    () if end <= limits.dma32 => ZoneKind::Dma32,
                    () => ZoneKind::Normal,
                };
                let managed = !bytes.iter().any(|b| b[1]);
                let zeroed = managed && bytes.iter().all(|b| b[2]);
                let node = u8::from(frame as u64 >= node_limit && frame > 0);
                bytes.iter().all(|b| b[0]).then_some((node, zone, managed, zeroed))
            })
            .collect();
        let managed = naive.iter().flatten().any(|f| f.2);
        let regions = match map.regions() {
            Ok(regions) => regions,
            Err(why) => {
                assert_eq!((why, managed), (FirmwareError::NothingUsable, false), "{round}: {said:x?}");
                continue;
            }
        };
        with_memory += 1;
        let mut found = vec![None; FRAMES];
        for r in regions.iter() {
            for frame in r.start.0..r.end().0 {
                found[frame as usize] = Some((r.node.0, r.zone, r.managed, r.zeroed));
            }
        }
        assert_eq!(found, naive, "{round}: {limits:x?} {said:x?}");
        for pair in regions.windows(2) {
            let same = |r: &Region| (r.node, r.zone, r.managed, r.zeroed);
            assert!(pair[0].end() < pair[1].start || same(&pair[0]) != same(&pair[1]), "{round}: not joined");
        }
    }
    assert!(with_memory > 200, "{with_memory}");
}
