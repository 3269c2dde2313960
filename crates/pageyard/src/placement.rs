//! Metadata inside the memory that it describes, for a kernel that has no other memory.

use crate::engine::{Config, Pageyard, PerCpu};
use core::ops::Range;
use pageyard_core::firmware::{FirmwareError, FirmwareMap, Regions};
use pageyard_core::memmap::{Region, ZoneKind};
use pageyard_core::units::{Frames, PAGE_SIZE, Pfn};

impl<P: PerCpu> Pageyard<'_, P> {
    /// Finds frames for an instance's metadata in the firmware's usable memory, and reserves them there. The regions
    /// made afterwards are the instance's, and its metadata fits into the frames.
    ///
    /// It takes the end of the largest usable region, and memory below the limit of [`ZoneKind::Dma`] only where no
    /// other has room. The caller maps the frames and hands them to [`Pageyard::new`], with the same configuration.
    ///
    /// # Errors
    /// As [`FirmwareMap::regions`] and [`Pageyard::layout`]; [`FirmwareError::NoRoom`]. The map is unchanged on every
    /// error.
    ///
    /// # Examples
    /// ```
    /// use pageyard::{Config, FirmwareMap, PAGE_SIZE, Pageyard, TryLock, ZoneLimits};
    ///
    /// let mut firmware = FirmwareMap::<16>::new(ZoneLimits::X86_64);
    /// firmware.usable(0x1000..0x9_fc00)?.usable(0x10_0000..0x4000_0000)?;
    /// let config = Config::new(4);
    /// let frames = Pageyard::<TryLock>::place_metadata(&mut firmware, &config)?;
    /// let regions = firmware.regions()?;
    /// let layout = Pageyard::<TryLock>::layout(&regions.map(), &config)?;
    /// assert!((frames.end - frames.start).as_bytes() >= layout.layout.size() as u64);
    /// # Ok::<(), pageyard::FirmwareError>(())
    /// ```
    pub fn place_metadata<const N: usize>(
        firmware: &mut FirmwareMap<N>,
        config: &Config,
    ) -> Result<Range<Pfn>, FirmwareError> {
        Self::place_metadata_below(firmware, config, u64::MAX)
    }

    /// The same, with frames that end at or below an address: where a kernel's first page tables end.
    ///
    /// # Errors
    /// As [`Pageyard::place_metadata`].
    pub fn place_metadata_below<const N: usize>(
        firmware: &mut FirmwareMap<N>,
        config: &Config,
        below: u64,
    ) -> Result<Range<Pfn>, FirmwareError> {
        // Without metadata at first. Fewer managed frames mean other watermarks and lists, and so other metadata.
        let mut placed = Pfn(0)..Pfn(0);
        let mut regions = Regions::none();
        loop {
            let room = placed.end - placed.start;
            let no_room = |needed: Frames| FirmwareError::NoRoom { needed: needed.as_bytes() };
            match firmware.regions_without(placed.clone(), &mut regions) {
                Err(FirmwareError::NothingUsable) if room > Frames::ZERO => return Err(no_room(room)),
                made => made?,
            }
            let layout = Self::layout(&regions.map(), config)?.layout;
            let needed = Frames((layout.size() as u64).div_ceil(PAGE_SIZE));
            if needed <= room {
                firmware.reserve_frames(placed.clone())?;
                return Ok(placed);
            }
            firmware.regions_without(Pfn(0)..Pfn(0), &mut regions)?;
            placed =
                end_of_largest(&regions, needed, Pfn(below / PAGE_SIZE)).ok_or_else(|| no_room(needed))?;
        }
    }
}

/// Returns frames at the end of the largest region that has room below a frame, above the zone for DMA if there is one.
fn end_of_largest(regions: &[Region], needed: Frames, below: Pfn) -> Option<Range<Pfn>> {
    let room = |r: &Region| Frames(r.end().min(below).0.saturating_sub(r.start.0));
    let fits = regions.iter().filter(|r| r.managed && room(r) >= needed);
    let end = fits.max_by_key(|r| (r.zone != ZoneKind::Dma, room(r)))?.end().min(below);
    Some(Pfn(end.0 - needed.0)..end)
}
