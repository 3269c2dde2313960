//! Metadata inside the memory that it describes, for a kernel that has no other memory.

use crate::engine::{Config, Pageyard, PerCpu};
use core::ops::Range;
use pageyard_core::firmware::{FirmwareError, FirmwareMap};
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
        let mut needed = Self::frames_of_metadata(firmware, config)?;
        loop {
            let range = room(&firmware.regions()?, needed)
                .ok_or(FirmwareError::NoRoom { needed: needed.as_bytes() })?;
            let mut trial = firmware.clone();
            trial.reserve_frames(range.clone())?;
            // Fewer managed frames mean other watermarks and lists, and so other metadata.
            let with_placement = match Self::frames_of_metadata(&trial, config) {
                Err(FirmwareError::NothingUsable) => {
                    return Err(FirmwareError::NoRoom { needed: needed.as_bytes() });
                }
                size => size?,
            };
            if with_placement <= needed {
                *firmware = trial;
                return Ok(range);
            }
            needed = with_placement;
        }
    }

    /// Returns the size of an instance's metadata in whole frames.
    fn frames_of_metadata<const N: usize>(
        firmware: &FirmwareMap<N>,
        config: &Config,
    ) -> Result<Frames, FirmwareError> {
        let layout = Self::layout(&firmware.regions()?.map(), config)?.layout;
        Ok(Frames((layout.size() as u64).div_ceil(PAGE_SIZE)))
    }
}

/// Returns frames at the end of the largest region that has room, above the zone for DMA if there is one.
fn room(regions: &[Region], needed: Frames) -> Option<Range<Pfn>> {
    let fits = regions.iter().filter(|r| r.managed && r.frames >= needed);
    let region = fits.max_by_key(|r| (r.zone != ZoneKind::Dma, r.frames))?;
    Some(Pfn(region.end().0 - needed.0)..region.end())
}
