//! A kernel's frames: an instance in a static, set up once.

use crate::engine::{Accept, Config, Metadata, Pageyard, TryLock};
use core::alloc::Layout;
use core::cell::UnsafeCell;
use core::mem::MaybeUninit;
use core::ops::Range;
// Not `pageyard-sync`'s atomics, which a static cannot hold under a model checker.
use core::sync::atomic::AtomicU8;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use pageyard_core::allocator::Cx;
use pageyard_core::cpu::Cpu;
use pageyard_core::error::{AllocError, BadRequest, FreeError};
use pageyard_core::firmware::{FirmwareError, FirmwareMap};
use pageyard_core::range::{FrameRange, RangeError, RangeFault};
use pageyard_core::request::Request;
use pageyard_core::units::{CpuId, Frames, Order, PAGE_SIZE, Pfn, PhysAddr};

/// Nothing was set up.
const EMPTY: u8 = 0;
/// A call sets it up, or failed to.
const BEGUN: u8 = 1;
/// It is set up.
const READY: u8 = 2;

/// The frames of a kernel, for a static.
///
/// Before it is set up, and where setting it up failed, it has no memory: requests are refused with
/// [`AllocError::OutOfMemory`]. It keeps nothing back ([`Config::kernel`]), and allocations may run in an interrupt
/// ([`TryLock`]). So may frees, except that one which waits for a call that splits the same block must not have
/// interrupted it.
///
/// # Examples
/// ```
/// use core::alloc::Layout;
/// use pageyard::{CpuId, FirmwareMap, KernelFrames, PAGE_SIZE, ZoneLimits};
///
/// static FRAMES: KernelFrames = KernelFrames::new();
///
/// let mut firmware = FirmwareMap::<32>::new(ZoneLimits::X86_64);
/// firmware.usable(0..0x9_fc00)?.usable(0x10_0000..0x4000_0000)?.reserved(0x100_0000..0x180_0000)?;
/// // Boot page tables reach 1 GiB.
/// let place = KernelFrames::place(&mut firmware, 2, 0x4000_0000)?;
/// # let memory = Box::leak(vec![0; ((place.end.0 - place.start.0) * PAGE_SIZE) as usize].into_boxed_slice());
/// FRAMES.init(&firmware, 2, memory)?; // the place, as the kernel reaches it
///
/// let layout = Layout::from_size_align(3 << 12, 1 << 12)?;
/// let at = FRAMES.alloc_layout(CpuId(0), layout)?;
/// FRAMES.free_bytes(CpuId(1), at, 3 << 12)?; // in any pieces
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct KernelFrames {
    state: AtomicU8,
    accept: Option<Accept>,
    yard: UnsafeCell<MaybeUninit<Pageyard<'static, TryLock>>>,
}

// SAFETY: the cell is written once, by the one call that took the state from `EMPTY`, before it says `READY`; after
// that it is only read, and an instance may be used by any thread.
unsafe impl Sync for KernelFrames {}

impl KernelFrames {
    /// Makes it, without memory.
    #[must_use]
    #[allow(clippy::new_without_default, reason = "it is for statics")]
    pub const fn new() -> KernelFrames {
        KernelFrames {
            state: AtomicU8::new(EMPTY),
            accept: None,
            yard: UnsafeCell::new(MaybeUninit::uninit()),
        }
    }

    /// Makes it for a guest of a confidential machine: `accept` makes memory usable that was
    /// [added unaccepted](KernelFrames::add_unaccepted). See [`Config::accept`].
    #[must_use]
    pub const fn accepting(accept: fn(FrameRange) -> bool) -> KernelFrames {
        KernelFrames { accept: Some(Accept(accept)), ..KernelFrames::new() }
    }

    /// Finds frames for the metadata that end at or below an address, and reserves them: see
    /// [`Pageyard::place_metadata`].
    ///
    /// # Errors
    /// As there.
    pub fn place<const N: usize>(
        firmware: &mut FirmwareMap<N>,
        cpus: u32,
        below: u64,
    ) -> Result<Range<Pfn>, FirmwareError> {
        // Lists are larger where memory is accepted later.
        let config = Config { accept: Some(Accept(|_| false)), ..Config::kernel(cpus) };
        Pageyard::<TryLock>::place_metadata_below(firmware, &config, below)
    }

    /// Sets it up, with metadata in `memory`, which is [placed](KernelFrames::place) in the map or lies elsewhere. It
    /// is filled with zeros first.
    ///
    /// # Errors
    /// As [`FirmwareMap::regions`] and [`Pageyard::new`]. [`FirmwareError::SetUpTwice`] where another call has set it
    /// up, is about to, or has failed to.
    pub fn init<const N: usize>(
        &self,
        firmware: &FirmwareMap<N>,
        cpus: u32,
        memory: &'static mut [u8],
    ) -> Result<(), FirmwareError> {
        // ORDER: Relaxed: the winner is the first to write the cell.
        if self.state.compare_exchange(EMPTY, BEGUN, Relaxed, Relaxed).is_err() {
            return Err(FirmwareError::SetUpTwice);
        }
        let regions = firmware.regions()?;
        let config = Config { accept: self.accept, ..Config::kernel(cpus) };
        let yard = Pageyard::new(&regions.map(), config, TryLock, Metadata::zeroed(memory))?;
        // SAFETY: this call took the state from `EMPTY`, and nothing reads the cell before the store below.
        unsafe { (*self.yard.get()).write(yard) };
        // ORDER: Release pairs with the Acquire in `yard`.
        self.state.store(READY, Release);
        Ok(())
    }

    /// Returns the instance, once it is set up: its calls are all there.
    #[inline]
    pub fn yard(&self) -> Option<&Pageyard<'static, TryLock>> {
        // ORDER: Acquire pairs with the Release in `init`.
        // SAFETY: it says that the cell was written, and nothing writes it again.
        (self.state.load(Acquire) == READY).then(|| unsafe { (*self.yard.get()).assume_init_ref() })
    }

    /// Returns the handle of a CPU.
    ///
    /// # Errors
    /// [`BadRequest::NoSuchCpu`], also before it is set up.
    #[inline]
    pub fn cpu(&self, cpu: CpuId) -> Result<Cpu<'_, Pageyard<'static, TryLock>>, BadRequest> {
        self.yard().ok_or(BadRequest::NoSuchCpu)?.cpu(cpu.0)
    }

    /// Allocates as many whole frames as a layout takes, aligned as it asks: not more than one block could be.
    ///
    /// # Errors
    /// As [`alloc_exact`](Pageyard::alloc_exact); [`AllocError::OutOfMemory`] before it is set up, and where no block
    /// is aligned like that.
    pub fn alloc_layout(&self, cpu: CpuId, layout: Layout) -> Result<PhysAddr, AllocError> {
        let yard = self.yard().ok_or(AllocError::OutOfMemory)?;
        let frames = Frames((layout.size() as u64).div_ceil(PAGE_SIZE).max(1));
        let aligned = (layout.align() as u64 / PAGE_SIZE).max(1).trailing_zeros() as u8;
        let align = Order::new(aligned).ok_or(AllocError::OutOfMemory)?;
        let request = Request::of(Order::ZERO).waiting();
        Ok(yard.alloc_exact(&Cx::on(cpu), frames, align, &request)?.address())
    }

    /// Frees the frames of a range of bytes, which begins and ends at frames: what one call allocated, or any part of
    /// it, in any order. A range that another call is splitting is freed as soon as that has ended.
    ///
    /// # Errors
    /// As [`free_range`](Pageyard::free_range), but for `Busy`; [`FreeError::Misaligned`].
    pub fn free_bytes(&self, cpu: CpuId, at: PhysAddr, bytes: u64) -> Result<(), RangeError> {
        self.repeat(at, bytes, |yard, part| yard.free_range(&Cx::on(cpu), part.first, part.frames))
    }

    /// Adds free memory at any time, in whole frames: see [`Pageyard::add_range`].
    ///
    /// # Errors
    /// As there, but for `Busy`; [`FreeError::Misaligned`]. [`FreeError::OutsideArena`] also before it is set up.
    ///
    /// # Safety
    /// As [`Pageyard::add_range`].
    pub unsafe fn add(&self, cpu: CpuId, at: PhysAddr, bytes: u64) -> Result<(), RangeError> {
        // SAFETY: the caller's promise.
        self.repeat(at, bytes, |yard, part| unsafe { yard.add_range(&Cx::on(cpu), part.first, part.frames) })
    }

    /// Adds memory that is accepted when it is needed: see [`Pageyard::add_unaccepted`]. In the firmware's map it is
    /// usable and [reserved](FirmwareMap::reserved): memory that is there, and not managed yet.
    ///
    /// # Errors
    /// As there; [`FreeError::Misaligned`]. [`FreeError::OutsideArena`] also before it is set up.
    ///
    /// # Safety
    /// As [`Pageyard::add_unaccepted`].
    pub unsafe fn add_unaccepted(&self, cpu: CpuId, at: PhysAddr, bytes: u64) -> Result<(), RangeError> {
        // SAFETY: the caller's promise.
        self.repeat(at, bytes, |yard, part| unsafe {
            yard.add_unaccepted(&Cx::on(cpu), part.first, part.frames)
        })
    }

    /// Calls with a range, and with what is left of it as long as that is busy.
    fn repeat(
        &self,
        at: PhysAddr,
        bytes: u64,
        call: impl Fn(&Pageyard<'static, TryLock>, FrameRange) -> Result<(), RangeError>,
    ) -> Result<(), RangeError> {
        let refused = |why| RangeError { at: at.pfn(), freed: Frames::ZERO, why: RangeFault::Free(why) };
        let yard = self.yard().ok_or(refused(FreeError::OutsideArena))?;
        if at.offset() != 0 || !bytes.is_multiple_of(PAGE_SIZE) {
            return Err(refused(FreeError::Misaligned));
        }
        FrameRange::new(at.pfn(), Frames(bytes / PAGE_SIZE)).while_busy(|part| call(yard, part))
    }
}
