//! Metadata placed inside the memory that it describes.

use pageyard::{
    Config, CpuId, Cx, FirmwareError, FirmwareMap, Frames, Metadata, Migratetype, Order, PAGE_SIZE, Pageyard,
    Pfn, Region, Request, RequestFlags, TryLock, ZoneKind, ZoneLimits,
};
use std::ops::Range;

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

type Yard<'m> = Pageyard<'m, TryLock>;

/// Returns whether a range lies in one region that the allocator may not hand out.
fn is_unmanaged(regions: &[Region], range: &Range<Pfn>) -> bool {
    regions.iter().any(|r| !r.managed && r.start <= range.start && range.end <= r.end())
}

/// Places metadata, and checks that it is unmanaged and large enough, for a map of at most 32 ranges.
fn place(firmware: &mut FirmwareMap<32>, config: &Config) -> Result<Range<Pfn>, FirmwareError> {
    let range = Yard::place_metadata(firmware, config)?;
    let regions = firmware.regions()?;
    assert!(is_unmanaged(&regions, &range), "{range:?} in {regions:?}");
    let size = Yard::layout(&regions.map(), config)?.layout.size();
    assert!((range.end - range.start).as_bytes() >= size as u64, "{range:?} has less than {size}");
    Ok(range)
}

#[test]
fn it_lies_at_the_end_of_the_largest_usable_range() -> Result<(), FirmwareError> {
    let mut firmware = FirmwareMap::<32>::new(ZoneLimits::X86_64);
    firmware.usable(0..0x9_fc00)?.usable(MIB..3 * GIB)?.usable(4 * GIB..6 * GIB)?;
    let range = place(&mut firmware, &Config::new(4))?;
    assert_eq!(range.end, Pfn(3 * GIB / PAGE_SIZE));
    Ok(())
}

#[test]
fn memory_for_dma_is_taken_last() -> Result<(), FirmwareError> {
    let config = Config::new(1);
    let mut firmware = FirmwareMap::<32>::new(ZoneLimits::X86_64);
    firmware.usable(0..16 * MIB)?.usable(64 * MIB..66 * MIB)?;
    assert_eq!(place(&mut firmware, &config)?.end, Pfn(66 * MIB / PAGE_SIZE));
    // Where no other has room, it has to be.
    let mut firmware = FirmwareMap::<32>::new(ZoneLimits::X86_64);
    firmware.usable(0..16 * MIB)?.usable(64 * MIB..64 * MIB + 4 * PAGE_SIZE)?;
    assert_eq!(place(&mut firmware, &config)?.end, Pfn(16 * MIB / PAGE_SIZE));
    Ok(())
}

#[test]
fn it_fits_for_any_size_of_machine_and_any_number_of_cpus() -> Result<(), FirmwareError> {
    for cpus in [1, 2, 5, 64] {
        for frames in (0..20).map(|shift| (1 << 13 << shift) - 5 * shift) {
            let mut firmware = FirmwareMap::<32>::new(ZoneLimits::X86_64);
            firmware.usable(PAGE_SIZE..frames * PAGE_SIZE)?.zeroed(17 * MIB..frames * PAGE_SIZE)?;
            place(&mut firmware, &Config::new(cpus))?;
        }
    }
    Ok(())
}

#[test]
fn a_machine_too_small_for_its_metadata_is_left_as_it_was() -> Result<(), FirmwareError> {
    let mut firmware = FirmwareMap::<32>::new(ZoneLimits::X86_64);
    firmware.usable(0..8 * PAGE_SIZE)?;
    let error = Yard::place_metadata(&mut firmware, &Config::new(64)).unwrap_err();
    assert!(matches!(error, FirmwareError::NoRoom { needed } if needed > 8 * PAGE_SIZE), "{error}");
    assert_eq!(firmware.regions()?.map().end(), Pfn(8));
    assert!(firmware.regions()?.iter().all(|r| r.managed));
    Ok(())
}

#[test]
fn an_instance_in_its_own_memory_never_hands_out_its_metadata() -> Result<(), Box<dyn std::error::Error>> {
    // The memory of the machine, whose frame 0 is the first page here.
    let mut memory = vec![0u8; 32 << 20];
    let mut firmware = FirmwareMap::<32>::new(ZoneLimits::NONE);
    firmware.usable(0..memory.len() as u64)?.reserved(0..PAGE_SIZE)?;
    let config = Config::new(2);
    let range = place(&mut firmware, &config)?;
    let bytes = |pfn: Pfn| (pfn.0 * PAGE_SIZE) as usize;
    let metadata = Metadata::zeroed(&mut memory[bytes(range.start)..bytes(range.end)]);
    let regions = firmware.regions()?;
    let yard = Pageyard::new(&regions.map(), config, TryLock, metadata)?;

    let request = Request::new(Order::ZERO, Migratetype::Movable).with(RequestFlags::MEMALLOC);
    let mut handed_out = 0;
    while let Ok(pfn) = yard.alloc(&Cx::on(CpuId(1)), &request) {
        assert!(pfn != Pfn(0) && !range.contains(&pfn), "{pfn}");
        handed_out += 1;
    }
    let managed: Frames = regions.iter().filter(|r| r.managed).map(|r| r.frames).sum();
    assert_eq!(handed_out, managed.0);
    assert_eq!(regions[0].zone, ZoneKind::Normal);
    assert!(yard.audit()?.is_conserved());
    Ok(())
}
