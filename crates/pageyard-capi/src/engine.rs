//! Pages of the caller's memory, by their addresses: for a kernel, or a hypervisor.

use crate::error::Error;
use crate::table::Table;
use crate::usage::Usage;
use pageyard::{
    Config, CpuId, Cx, FirmwareError, FirmwareMap, FrameRange, Frames, Metadata, Order, OwnedPageyard,
    PAGE_SIZE, Pageyard, PhysAddr, RangeError, Request, TryLock, ZoneLimits,
};
use std::ffi::c_void;
use std::ops::Deref;
use std::ptr::NonNull;

/// An engine: page frames by their addresses. Nothing is stored in the memory that they name, and nothing touches it.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct EngineHandle {
    /// Its number. No engine has number 0.
    pub handle: u64,
}

/// A range of addresses.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct MemoryRange {
    /// The first byte.
    pub start: u64,
    /// How many there are.
    pub bytes: u64,
}

/// An engine whose metadata lie in memory from malloc, or in the caller's.
enum Engine {
    Owned(OwnedPageyard<TryLock>),
    Placed(Pageyard<'static, TryLock>),
}

impl Deref for Engine {
    type Target = Pageyard<'static, TryLock>;

    #[inline(always)]
    fn deref(&self) -> &Self::Target {
        match self {
            Engine::Owned(engine) => engine,
            Engine::Placed(engine) => engine,
        }
    }
}

static ENGINES: Table<Engine, 1024> = Table::new();

/// The most ranges that an engine is made of.
const RANGES: usize = 64;

/// Makes an engine for `cpus` CPUs that manages up to 64 memory ranges. Memory in the gaps between them can be added
/// later. The engine has no watermark reserve, and allocates its metadata with malloc.
///
/// # Safety
/// `ranges` is null, or has `count` of them; `out` is null, or has room for a handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pageyard_engine_new(
    cpus: u32,
    ranges: *const MemoryRange,
    count: usize,
    out: *mut EngineHandle,
) -> Error {
    let Some(out) = NonNull::new(out) else { return Error::Null };
    // SAFETY: the caller's promise.
    let engine = unsafe { map_of(ranges, count) }.and_then(|map| {
        let regions = map.regions().map_err(Error::from)?;
        let engine = Pageyard::owned(&regions.map(), Config::kernel(cpus), TryLock);
        engine.map(Engine::Owned).map_err(|why| FirmwareError::from(why).into())
    });
    // SAFETY: the caller's promise.
    unsafe { kept(engine, out) }
}

/// Writes how many bytes of metadata an engine needs, for pageyard_engine_new_in.
///
/// # Safety
/// As for pageyard_engine_new; `out` has room for a size.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pageyard_engine_metadata(
    cpus: u32,
    ranges: *const MemoryRange,
    count: usize,
    out: *mut usize,
) -> Error {
    let Some(out) = NonNull::new(out) else { return Error::Null };
    // SAFETY: the caller's promise.
    let bytes = unsafe { map_of(ranges, count) }.and_then(|map| {
        let regions = map.regions().map_err(Error::from)?;
        let layout = Pageyard::<TryLock>::layout(&regions.map(), &Config::kernel(cpus));
        layout.map(|layout| layout.layout.size()).map_err(|why| FirmwareError::from(why).into())
    });
    bytes.map_or_else(
        |why| why,
        |bytes| {
            // SAFETY: the caller's promise.
            unsafe { out.write(bytes) };
            Error::Ok
        },
    )
}

/// Makes an engine as pageyard_engine_new does, with its metadata in the caller's memory, of any alignment. It is
/// overwritten.
///
/// # Safety
/// As for pageyard_engine_new; `metadata` is null, or has `bytes` bytes outside the ranges that nothing else uses until
/// the engine is deleted.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pageyard_engine_new_in(
    cpus: u32,
    ranges: *const MemoryRange,
    count: usize,
    metadata: *mut c_void,
    bytes: usize,
    out: *mut EngineHandle,
) -> Error {
    let (Some(out), Some(metadata)) = (NonNull::new(out), NonNull::new(metadata)) else { return Error::Null };
    if isize::try_from(bytes).is_err() {
        return Error::Size;
    }
    // SAFETY: the caller's promise.
    let engine = unsafe { map_of(ranges, count) }.and_then(|map| {
        let regions = map.regions().map_err(Error::from)?;
        let layout = Pageyard::<TryLock>::layout(&regions.map(), &Config::kernel(cpus));
        let needed = layout.map_err(|why| Error::from(FirmwareError::from(why)))?.layout.size();
        if bytes < needed {
            return Err(Error::Size);
        }
        // SAFETY: the caller's promise; written here, so that all of it is initialised.
        let metadata = unsafe {
            metadata.cast::<u8>().write_bytes(0, needed);
            Metadata::assume_zeroed(std::slice::from_raw_parts_mut(metadata.cast().as_ptr(), needed))
        };
        let engine = Pageyard::new(&regions.map(), Config::kernel(cpus), TryLock, metadata);
        engine.map(Engine::Placed).map_err(|why| FirmwareError::from(why).into())
    });
    // SAFETY: the caller's promise.
    unsafe { kept(engine, out) }
}

/// Reads the ranges that an engine manages.
///
/// # Safety
/// `ranges` is null, or has `count` of them.
unsafe fn map_of(ranges: *const MemoryRange, count: usize) -> Result<FirmwareMap<RANGES>, Error> {
    if ranges.is_null() {
        return Err(Error::Null);
    }
    let mut map = FirmwareMap::<RANGES>::new(ZoneLimits::NONE);
    for nth in 0..count {
        // SAFETY: the caller's promise.
        let MemoryRange { start, bytes } = unsafe { ranges.add(nth).read() };
        map.usable(start..start.saturating_add(bytes)).map_err(Error::from)?;
    }
    Ok(map)
}

/// Keeps an engine that was made, and writes its handle.
///
/// # Safety
/// There is room for a handle.
unsafe fn kept(engine: Result<Engine, Error>, out: NonNull<EngineHandle>) -> Error {
    match engine.and_then(|engine| ENGINES.insert(engine).ok_or(Error::TooMany)) {
        Ok(handle) => {
            // SAFETY: the caller's promise.
            unsafe { out.write(EngineHandle { handle }) };
            Error::Ok
        }
        Err(why) => why,
    }
}

/// Ends an engine.
///
/// # Safety
/// No other call uses it meanwhile.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pageyard_engine_delete(engine: EngineHandle) -> Error {
    if ENGINES.remove(engine.handle).is_some() { Error::Ok } else { Error::Handle }
}

/// Allocates `pages` contiguous pages for `cpu`, and writes the address of the first.
///
/// # Safety
/// `out` is null, or has room for a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pageyard_palloc(engine: EngineHandle, cpu: u32, pages: u64, out: *mut u64) -> Error {
    let Some(out) = NonNull::new(out) else { return Error::Null };
    let got = on(engine, |engine| {
        let (cx, request) = (Cx::on(CpuId(cpu)), Request::of(Order::ZERO).waiting());
        let order = if pages.is_power_of_two() { Order::new(pages.trailing_zeros() as u8) } else { None };
        let got = match order {
            Some(order) => engine.alloc(&cx, &Request { order, ..request }),
            None => engine.alloc_exact(&cx, Frames(pages), Order::ZERO, &request),
        };
        got.map_err(Error::from)
    });
    got.map_or_else(
        |why| why,
        |first| {
            // SAFETY: the caller's promise.
            unsafe { out.write(first.address().0) };
            Error::Ok
        },
    )
}

/// Frees pages on a CPU: what one call allocated, or any part of it, in any order. Where a page is not allocated, those
/// in front of it are free.
#[unsafe(no_mangle)]
pub extern "C" fn pageyard_pfree(engine: EngineHandle, cpu: u32, at: u64, pages: u64) -> Error {
    Error::of(on(engine, |engine| {
        let cx = Cx::on(CpuId(cpu));
        repeat(PhysAddr(at), Frames(pages), |part| engine.free_range(&cx, part.first, part.frames))
    }))
}

/// Adds free memory in whole pages, through the lists of `cpu`. It must lie within the span of the engine's ranges.
///
/// # Safety
/// It is memory that nothing uses: its pages are allocated from now on.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pageyard_addmem(engine: EngineHandle, cpu: u32, at: u64, bytes: u64) -> Error {
    if !bytes.is_multiple_of(PAGE_SIZE) {
        return Error::Misaligned;
    }
    Error::of(on(engine, |engine| {
        let cx = Cx::on(CpuId(cpu));
        // SAFETY: the caller's promise.
        let add = |part: FrameRange| unsafe { engine.add_range(&cx, part.first, part.frames) };
        repeat(PhysAddr(at), Frames(bytes / PAGE_SIZE), add)
    }))
}

/// Writes how much memory there is, and how much is free.
///
/// # Safety
/// `out` is null, or has room for it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pageyard_engine_usage(engine: EngineHandle, out: *mut Usage) -> Error {
    let Some(out) = NonNull::new(out) else { return Error::Null };
    let usage = on(engine, |engine| Ok(Usage::of(&**engine)));
    // SAFETY: the caller's promise.
    usage.map_or_else(|why| why, |usage| unsafe { usage.write(out) })
}

/// Runs a call on the engine of a handle.
fn on<T>(handle: EngineHandle, call: impl FnOnce(&Engine) -> Result<T, Error>) -> Result<T, Error> {
    // SAFETY: the header's contract: nothing deletes an engine while it is used.
    unsafe { ENGINES.get(handle.handle) }.ok_or(Error::Handle).and_then(call)
}

/// Calls with the pages from an address on, and again as long as another call keeps them busy.
fn repeat(
    at: PhysAddr,
    frames: Frames,
    call: impl Fn(FrameRange) -> Result<(), RangeError>,
) -> Result<(), Error> {
    if at.offset() != 0 {
        return Err(Error::Misaligned);
    }
    FrameRange::new(at.pfn(), frames).while_busy(call).map_err(|error| error.why.into())
}
