//! A kernel's frames that are given range by range while it boots, and set up by the first allocation.

use crate::kernel::KernelFrames;
use core::alloc::Layout;
use core::cell::UnsafeCell;
use core::fmt;
use core::ops::Range;
// Not `pageyard-sync`'s atomics, which a static cannot hold under a model checker.
use core::sync::atomic::AtomicBool;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use pageyard_core::error::AllocError;
use pageyard_core::firmware::{FirmwareError, FirmwareMap, ZoneLimits};
use pageyard_core::range::RangeError;
use pageyard_core::units::{CpuId, PhysAddr};

/// Frames for a kernel that is told of its memory one range at a time, as several frameworks' traits require. Ranges
/// are collected until the first allocation, which sets up an instance and places its metadata in one of them. Later
/// ranges go straight to the instance through [`KernelFrames::add`], which also frees allocated frames.
///
/// A range that is given later lies between the lowest and the highest that were given before the first allocation.
///
/// # Concurrency
/// Until the instance is set up, calls take turns under a spin lock. Make them with interrupts off: a call from an
/// interrupt handler would spin forever on a lock that the interrupted call holds.
///
/// # Examples
/// ```
/// use core::alloc::Layout;
/// use pageyard::{BootFrames, CpuId, PhysAddr};
///
/// # static MEMORY: std::sync::OnceLock<usize> = std::sync::OnceLock::new();
/// # fn to_virt(at: PhysAddr) -> *mut u8 {
/// #     let base = MEMORY.get_or_init(|| Box::leak(vec![0_u8; 64 << 20].into_boxed_slice()).as_mut_ptr() as usize);
/// #     (*base + at.0 as usize) as *mut u8
/// # }
/// // SAFETY: all memory that is given below is mapped where `to_virt` says.
/// static FRAMES: BootFrames = unsafe { BootFrames::new(|| 4, to_virt) };
///
/// // SAFETY: the memory is free, and used by nothing else.
/// unsafe { FRAMES.give(CpuId(0), PhysAddr(0x10_0000), 32 << 20) }?;
/// let at = FRAMES.alloc_layout(CpuId(0), Layout::from_size_align(3 << 12, 1 << 12)?)?;
/// FRAMES.frames().free_bytes(CpuId(1), at, 3 << 12)?; // in any pieces
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct BootFrames<const N: usize = 64> {
    frames: KernelFrames,
    /// Whether a call has the map.
    held: AtomicBool,
    map: UnsafeCell<FirmwareMap<N>>,
    cpus: fn() -> u32,
    to_virt: fn(PhysAddr) -> *mut u8,
    below: u64,
}

// SAFETY: the map is used by the one call that has taken `held`; the rest is shared as its own types allow.
unsafe impl<const N: usize> Sync for BootFrames<N> {}

/// Why memory was not taken.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum GiveError {
    /// Before set-up: the range is empty or too high, or there are too many ranges.
    Map(FirmwareError),
    /// Afterwards: the range cannot be added.
    Range(RangeError),
}

impl fmt::Display for GiveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            GiveError::Map(why) => why.fmt(f),
            GiveError::Range(why) => why.fmt(f),
        }
    }
}

impl core::error::Error for GiveError {}

impl<const N: usize> BootFrames<N> {
    /// Makes an empty instance with a single zone. `cpus` returns the number of CPUs and is called at set-up; `to_virt`
    /// returns the address at which physical memory is mapped.
    ///
    /// # Safety
    /// Ranges given before set-up are mapped and writable at the addresses of `to_virt`, each in one piece, for good.
    /// `to_virt` makes no call on these frames.
    #[must_use]
    pub const unsafe fn new(cpus: fn() -> u32, to_virt: fn(PhysAddr) -> *mut u8) -> BootFrames<N> {
        let map = UnsafeCell::new(FirmwareMap::new(ZoneLimits::NONE));
        BootFrames {
            frames: KernelFrames::new(),
            held: AtomicBool::new(false),
            map,
            cpus,
            to_virt,
            below: u64::MAX,
        }
    }

    /// Has zones for devices that reach low addresses only.
    #[must_use]
    pub const fn zones(mut self, limits: ZoneLimits) -> BootFrames<N> {
        self.map = UnsafeCell::new(FirmwareMap::new(limits));
        self
    }

    /// Sets the physical address at or below which the metadata must end, such as the limit of the boot page tables.
    #[must_use]
    pub const fn metadata_below(mut self, address: u64) -> BootFrames<N> {
        self.below = address;
        self
    }

    /// Gives it free memory, or gives back what was allocated, in any pieces.
    ///
    /// # Errors
    /// [`GiveError`]: before it is set up, as [`FirmwareMap::usable`], afterwards, as [`KernelFrames::add`].
    ///
    /// # Safety
    /// As [`Pageyard::add_range`](crate::Pageyard::add_range).
    pub unsafe fn give(&self, cpu: CpuId, at: PhysAddr, bytes: u64) -> Result<(), GiveError> {
        if self.frames.yard().is_none() {
            let range = at.0..at.0.saturating_add(bytes);
            let early = self.with_map(|map| {
                let is_early = self.frames.yard().is_none();
                is_early.then(|| with_room_for_metadata(map, range))
            });
            if let Some(done) = early {
                return done.map_err(GiveError::Map);
            }
        }
        // SAFETY: the caller's promise.
        unsafe { self.frames.add(cpu, at, bytes) }.map_err(GiveError::Range)
    }

    /// Allocates as [`KernelFrames::alloc_layout`] does. The first call sets up the instance.
    ///
    /// # Errors
    /// As there; [`AllocError::OutOfMemory`] where setting it up fails.
    pub fn alloc_layout(&self, cpu: CpuId, layout: Layout) -> Result<PhysAddr, AllocError> {
        if self.frames.yard().is_none() {
            self.set_up().map_err(|_| AllocError::OutOfMemory)?;
        }
        self.frames.alloc_layout(cpu, layout)
    }

    /// Sets it up, if that was not done, so that a failure has a reason.
    ///
    /// # Errors
    /// As [`KernelFrames::place`] and [`KernelFrames::init`]. Where no range has room for the metadata, more memory can
    /// be given, and it can be tried again.
    pub fn set_up(&self) -> Result<(), FirmwareError> {
        if self.frames.yard().is_some() {
            return Ok(());
        }
        let cpus = (self.cpus)();
        self.with_map(|map| {
            if self.frames.yard().is_some() {
                return Ok(());
            }
            let place = KernelFrames::place(map, cpus, self.below)?;
            let (at, bytes) = (place.start.address(), (place.end - place.start).as_bytes());
            // SAFETY: 1. They were given, so they are mapped there, by the promise to `new`, and used by nothing else.
            //         2. The map has them as reserved from now on: no call hands them out.
            let memory = unsafe { core::slice::from_raw_parts_mut((self.to_virt)(at), bytes as usize) };
            self.frames.init(map, cpus, memory)
        })
    }

    /// Returns the frames: its calls are all there. They have no memory before it is set up.
    pub fn frames(&self) -> &KernelFrames {
        &self.frames
    }

    /// Runs `call` on the map, alone.
    fn with_map<R>(&self, call: impl FnOnce(&mut FirmwareMap<N>) -> R) -> R {
        /// Gives the map back, also where `call` panics.
        struct Held<'a>(&'a AtomicBool);
        impl Drop for Held<'_> {
            fn drop(&mut self) {
                // ORDER: Release pairs with the Acquire below.
                self.0.store(false, Release);
            }
        }
        // ORDER: Acquire pairs with the Release above: the map is as the last call left it.
        while self.held.compare_exchange_weak(false, true, Acquire, Relaxed).is_err() {
            core::hint::spin_loop();
        }
        let _held = Held(&self.held);
        // SAFETY: this call has taken `held`, and no other has it until it is dropped.
        call(unsafe { &mut *self.map.get() })
    }
}

/// Adds a range, unless no room is left then for where the metadata will lie.
fn with_room_for_metadata<const N: usize>(
    map: &mut FirmwareMap<N>,
    range: Range<u64>,
) -> Result<(), FirmwareError> {
    let mut more = map.clone();
    more.usable(range)?;
    // It may split a region in two.
    if more.regions()?.len() + 2 > N {
        return Err(FirmwareError::TooMany { room: N });
    }
    more.clone().reserved(0..1)?;
    *map = more;
    Ok(())
}
