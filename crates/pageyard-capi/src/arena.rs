//! Memory of the host, allocated and freed by size, and its pages by their offsets.

use crate::error::Error;
use crate::table::Table;
use crate::usage::Usage;
use pageyard::{
    AllocError, CpuId, Cx, FrameRange, Frames, Migratetype, Observer, Order, PAGE_SIZE, PerCpu, Pfn, Request,
    RequestFlags, TryLock,
};
use pageyard_arena::backing::{Backing, BackingError, Mapping, PageSize};
use pageyard_arena::purge::PurgeLimits;
use pageyard_arena::rseq::{Rseq, current_cpu};
use pageyard_arena::{Arena, ArenaBuilder, ArenaError, Block, Pages};
use pageyard_debug::{FaultKnobs, Faults};
use std::ffi::c_void;
use std::mem::ManuallyDrop;
use std::ptr::NonNull;
use std::sync::Arc;

/// An arena: memory of the host, in pages of 4,096 bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ArenaHandle {
    /// Its number. No arena has number 0.
    pub handle: u64,
}

/// Transparent huge pages, where the host grants them.
pub const PAGEYARD_BACKING_TRANSPARENT: u32 = 0;
/// Pages of 4 KiB.
pub const PAGEYARD_BACKING_BASE: u32 = 1;
/// Reserved huge pages of 2 MiB.
pub const PAGEYARD_BACKING_HUGE_2M: u32 = 2;
/// Reserved huge pages of 1 GiB.
pub const PAGEYARD_BACKING_HUGE_1G: u32 = 3;
/// A sealed file in memory.
pub const PAGEYARD_BACKING_FILE: u32 = 4;
/// The same with transparent huge pages, where the host grants them to files.
pub const PAGEYARD_BACKING_FILE_TRANSPARENT: u32 = 5;

/// An arena with per-CPU lists by restartable sequences, or, where this process has none, behind locks.
#[allow(clippy::large_enum_variant, reason = "both are as large")]
enum Any {
    Sequences(Arena<Rseq>),
    Locked(Arena<TryLock>),
    /// Behind locks, and with requests that fail on purpose.
    Failing(Arena<TryLock, Arc<Faults>>, Arc<Faults>),
}

static ARENAS: Table<Any, 1024> = Table::new();

/// Runs a call on the arena of a handle, whatever its lists.
macro_rules! on {
    ($handle:expr, $arena:ident => $call:expr) => {
        // SAFETY: the header's contract: nothing deletes an arena while it is used.
        match unsafe { ARENAS.get($handle.handle) } {
            Some(Any::Sequences($arena)) => $call,
            Some(Any::Locked($arena)) => apart(|| $call),
            Some(Any::Failing($arena, _)) => apart(|| $call),
            None => Err(Error::Handle),
        }
    };
}

/// Runs a call on an arena with locks: a function of its own, so that the usual one is as short as in Rust.
#[cold]
#[inline(never)]
fn apart<T>(call: impl FnOnce() -> T) -> T {
    call()
}

/// Most pages that move at a time.
const BATCH: usize = 64;

/// Makes an arena of so many bytes, rounded up to pages. Nothing is touched: the first write to each page waits for the
/// host.
///
/// # Safety
/// `out` is null, or has room for a handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pageyard_arena_new(bytes: usize, backing: u32, out: *mut ArenaHandle) -> Error {
    let build = |builder: &dyn Fn() -> ArenaBuilder<'static>| match builder().build() {
        Err(ArenaError::Sequences(_)) => builder().build_locked().map(Any::Locked),
        built => built.map(Any::Sequences),
    };
    // SAFETY: the caller's promise.
    unsafe { new_arena(bytes, backing, out, build) }
}

/// Makes an arena as pageyard_arena_new does, in which requests can be made to fail (pageyard_fail_alloc), for tests of
/// what a program does then. Its calls are slower. None fails until it is told to.
///
/// # Safety
/// As pageyard_arena_new.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pageyard_arena_new_failing(
    bytes: usize,
    backing: u32,
    out: *mut ArenaHandle,
) -> Error {
    let build = |builder: &dyn Fn() -> ArenaBuilder<'static>| {
        let faults = Arc::new(Faults::off());
        let built = builder().observer(faults.clone()).build_locked();
        built.map(|arena| Any::Failing(arena, faults))
    };
    // SAFETY: the caller's promise.
    unsafe { new_arena(bytes, backing, out, build) }
}

/// Which requests fail; fail_page_alloc of Linux's fault injection has the same knobs. `{ .interval = 1, .probability =
/// 100, .times = -1 }` fails all.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct FailKnobs {
    /// Requests for less than this many bytes pass.
    pub least_bytes: u64,
    /// How many bytes are handed out first: a request passes as long as it is smaller than what is left of them.
    pub space: u64,
    /// How often requests fail at most; -1 for any number.
    pub times: i64,
    /// Where the random numbers begin.
    pub seed: u64,
    /// Only every so many requests that get this far may fail; 0 is 1.
    pub interval: u32,
    /// Of those, how many in a hundred do.
    pub probability: u32,
}

/// Sets which requests of an arena fail from now on, unless `knobs` is null, and writes how many did since they were
/// set before, unless `failed` is null. They fail as if there were no memory. PAGEYARD_ERROR_ARGUMENT for an arena that
/// pageyard_arena_new made, for a probability of more than 100, and for times below -1.
///
/// # Safety
/// `knobs` is null or points to knobs; `failed` is null, or has room for a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pageyard_fail_alloc(
    arena: ArenaHandle,
    knobs: *const FailKnobs,
    failed: *mut u64,
) -> Error {
    // SAFETY: the header's contract: nothing deletes an arena while it is used.
    let faults = match unsafe { ARENAS.get(arena.handle) } {
        Some(Any::Failing(_, faults)) => faults,
        Some(_) => return Error::Argument,
        None => return Error::Handle,
    };
    // SAFETY: the caller's promise.
    let knobs = (!knobs.is_null()).then(|| unsafe { knobs.read() });
    if knobs.is_some_and(|knobs| knobs.probability > 100 || knobs.times < -1) {
        return Error::Argument;
    }
    if let Some(failed) = NonNull::new(failed) {
        // SAFETY: the caller's promise.
        unsafe { failed.write(faults.failed()) };
    }
    if let Some(knobs) = knobs {
        let least = knobs.least_bytes.div_ceil(PAGE_SIZE).max(1).checked_next_power_of_two();
        let order = least.and_then(|frames| Order::new(frames.trailing_zeros() as u8));
        faults.set(FaultKnobs {
            // No request is larger than the largest order.
            min_order: order.unwrap_or(Order::MAX),
            space: Frames(knobs.space.div_ceil(PAGE_SIZE)),
            times: u64::try_from(knobs.times).ok(),
            seed: knobs.seed,
            interval: knobs.interval,
            probability: knobs.probability,
            ..FaultKnobs::default()
        });
    }
    Error::Ok
}

/// # Safety
/// `out` is null, or has room for a handle.
unsafe fn new_arena(
    bytes: usize,
    backing: u32,
    out: *mut ArenaHandle,
    build: impl FnOnce(&dyn Fn() -> ArenaBuilder<'static>) -> Result<Any, ArenaError>,
) -> Error {
    let Some(out) = NonNull::new(out) else { return Error::Null };
    let backing = match backing {
        PAGEYARD_BACKING_TRANSPARENT => Backing::Anonymous,
        PAGEYARD_BACKING_BASE => Backing::AnonymousBase,
        PAGEYARD_BACKING_HUGE_2M => Backing::HugeTlb(PageSize::Huge2M),
        PAGEYARD_BACKING_HUGE_1G => Backing::HugeTlb(PageSize::Huge1G),
        PAGEYARD_BACKING_FILE => Backing::Memfd(PageSize::Base),
        PAGEYARD_BACKING_FILE_TRANSPARENT => Backing::MemfdTransparent,
        _ => return Error::Argument,
    };
    match build(&|| Arena::builder().size(bytes).backing(backing)) {
        Ok(arena) => match ARENAS.insert(arena) {
            Some(handle) => {
                // SAFETY: the caller's promise.
                unsafe { out.write(ArenaHandle { handle }) };
                Error::Ok
            }
            None => Error::TooMany,
        },
        Err(why @ (ArenaError::NoSize | ArenaError::Backing(BackingError::TooLarge { .. }))) => {
            Error::Size.refused(why)
        }
        Err(why) => Error::Refused.refused(why),
    }
}

/// Ends an arena: its memory is unmapped, allocated or not.
///
/// # Safety
/// No other call uses it meanwhile, and nothing uses its memory any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pageyard_arena_delete(arena: ArenaHandle) -> Error {
    if ARENAS.remove(arena.handle).is_some() { Error::Ok } else { Error::Handle }
}

/// Allocates `bytes` contiguous bytes, rounded up to whole pages but not to a power of two: 13 pages take 13. The
/// memory holds zeros or what its last owner wrote.
///
/// # Safety
/// `out` is null, or has room for a pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pageyard_alloc(arena: ArenaHandle, bytes: usize, out: *mut *mut c_void) -> Error {
    // SAFETY: the caller's promise.
    unsafe { alloc_to(arena, bytes, Order::ZERO, RequestFlags::default(), out) }
}

/// Allocates zeros. What is known to be zeros is not cleared again.
///
/// # Safety
/// As pageyard_alloc.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pageyard_alloc_zeroed(
    arena: ArenaHandle,
    bytes: usize,
    out: *mut *mut c_void,
) -> Error {
    // SAFETY: the caller's promise.
    unsafe { alloc_to(arena, bytes, Order::ZERO, RequestFlags::ZERO, out) }
}

/// Allocates at a multiple of `align`, a power of two of at most 2 MiB.
///
/// # Safety
/// As pageyard_alloc.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pageyard_alloc_aligned(
    arena: ArenaHandle,
    bytes: usize,
    align: usize,
    out: *mut *mut c_void,
) -> Error {
    if !align.is_power_of_two() || align as u64 > Order::HUGE.frames().as_bytes() {
        return Error::Misaligned;
    }
    let order = Order::of((align as u64 / PAGE_SIZE).max(1).trailing_zeros() as u8);
    // SAFETY: the caller's promise.
    unsafe { alloc_to(arena, bytes, order, RequestFlags::default(), out) }
}

/// Frees memory by its size: what one call allocated, or any pages of it, in any order. Where a page is not allocated,
/// those in front of it are free.
///
/// # Safety
/// Nothing uses it any more, and what is allocated there is the caller's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pageyard_free(arena: ArenaHandle, at: *mut c_void, bytes: usize) -> Error {
    let Some(at) = NonNull::new(at) else { return Error::Null };
    Error::of(on!(arena, arena => free(arena, at.cast(), bytes)))
}

/// Allocates up to `count` pieces of `bytes` bytes each, and writes their addresses; returns how many it allocated.
///
/// # Safety
/// `out` is null, or has room for `count` pointers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pageyard_alloc_bulk(
    arena: ArenaHandle,
    bytes: usize,
    out: *mut *mut c_void,
    count: usize,
) -> usize {
    if out.is_null() {
        return 0;
    }
    let Some(order) = order_of(bytes) else {
        let one = |nth: usize| {
            // SAFETY: the caller's promise: there is room for `count` of them.
            unsafe { alloc_to(arena, bytes, Order::ZERO, RequestFlags::default(), out.add(nth)) == Error::Ok }
        };
        return (0..count).take_while(|nth| one(*nth)).count();
    };
    bulk(arena, order, count, |memory, nth, offset| {
        let at = memory.start().as_ptr().wrapping_add(offset);
        // SAFETY: as above.
        unsafe { out.add(nth).write(at.cast()) };
    })
}

/// Frees `count` pieces of `bytes` bytes each; returns how many it freed. Null and invalid pointers are skipped. A
/// piece that is allocated in part is freed up to its first page that is not, and not counted.
///
/// # Safety
/// `at` is null, or has `count` pointers; of each, as pageyard_free.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pageyard_free_bulk(
    arena: ArenaHandle,
    at: *const *mut c_void,
    count: usize,
    bytes: usize,
) -> usize {
    if at.is_null() {
        return 0;
    }
    let freed = on!(arena, arena => Ok((0..count).filter(|nth| {
        // SAFETY: the caller's promise.
        let at = NonNull::new(unsafe { at.add(*nth).read() });
        at.is_some_and(|at| free(arena, at.cast(), bytes).is_ok())
    }).count()));
    freed.unwrap_or(0)
}

/// Zeroes a range and returns its whole pages to the host. The range stays allocated to the caller. Writes how many
/// bytes went back to the host, unless `given` is null.
///
/// # Safety
/// The bytes are the caller's, allocated in one piece or in several. `given` is null, or has room for a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pageyard_discard(
    arena: ArenaHandle,
    at: *mut c_void,
    bytes: usize,
    given: *mut usize,
) -> Error {
    let Some(at) = NonNull::new(at.cast::<u8>()) else { return Error::Null };
    if bytes == 0 {
        return Error::Size;
    }
    // SAFETY: the caller's promise.
    let done = on!(arena, arena => unsafe { discard(arena, at, bytes) });
    // SAFETY: the caller's promise.
    done.map_or_else(|why| why, |frames| unsafe { tell(given, frames) })
}

/// Gives free memory back to the host, in pieces of at least `least` bytes, a power of two of 4,096 to 2 MiB: up to
/// `most` bytes. Writes how many that were, unless `given` is null.
///
/// # Safety
/// `given` is null, or has room for a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pageyard_purge(
    arena: ArenaHandle,
    least: usize,
    most: usize,
    given: *mut usize,
) -> Error {
    let Some(least) = order_of(least).filter(|order| *order <= Order::HUGE) else { return Error::Misaligned };
    let limits =
        PurgeLimits { least, most: Frames((most as u64).div_ceil(PAGE_SIZE)), ..PurgeLimits::default() };
    let purged = on!(arena, arena => match arena.is_inert() {
        true => Err(Error::Forked),
        false => arena.purge_as(&limits).map_err(|why| Error::Refused.refused(why)),
    });
    // SAFETY: the caller's promise.
    purged.map_or_else(|why| why, |frames| unsafe { tell(given, frames) })
}

/// Writes the arena's first address and its size in bytes, for registering it with `AF_XDP`.
///
/// # Safety
/// Each pointer is null, or has room for what is written there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pageyard_area(
    arena: ArenaHandle,
    start: *mut *mut c_void,
    bytes: *mut usize,
) -> Error {
    if start.is_null() || bytes.is_null() {
        return Error::Null;
    }
    let area = on!(arena, arena => Ok((arena.mapping().start(), arena.mapping().bytes())));
    area.map_or_else(
        |why| why,
        |(at, size)| {
            // SAFETY: the caller's promise.
            unsafe {
                start.write(at.as_ptr().cast());
                bytes.write(size);
            }
            Error::Ok
        },
    )
}

/// Allocates single pages by their offsets in the arena; returns how many of `count` it could.
///
/// # Safety
/// `offsets` is null, or has room for `count` numbers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pageyard_reserve(arena: ArenaHandle, offsets: *mut u64, count: usize) -> usize {
    if offsets.is_null() {
        return 0;
    }
    bulk(arena, Order::ZERO, count, |_, nth, offset| {
        // SAFETY: the caller's promise.
        unsafe { offsets.add(nth).write(offset as u64) };
    })
}

/// Frees single pages, each named by the arena offset of any byte in it; returns how many it freed. Offsets of pages
/// that are not allocated are skipped.
///
/// # Safety
/// `offsets` is null, or has `count` numbers. Nothing uses these pages any more, and those that are allocated are the
/// caller's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pageyard_release(arena: ArenaHandle, offsets: *const u64, count: usize) -> usize {
    if offsets.is_null() {
        return 0;
    }
    let freed = on!(arena, arena => {
        let (mut freed, mut at) = (0, 0);
        while at < count && !arena.is_inert() {
            let n = BATCH.min(count - at);
            let pfns: [Pfn; BATCH] = std::array::from_fn(|i| {
                // SAFETY: the caller's promise, for the first `n`.
                let offset = if i < n { unsafe { offsets.add(at + i).read() } } else { 0 };
                Pfn(offset / PAGE_SIZE)
            });
            let mut wrong = 0;
            // SAFETY: the caller's promise.
            unsafe { arena.engine() }.free_bulk(&here(), &pfns[..n], Order::ZERO, &mut |_, _| wrong += 1);
            (freed, at) = (freed + n - wrong, at + n);
        }
        Ok(freed)
    });
    freed.unwrap_or(0)
}

/// Writes how much memory there is, and how much is free.
///
/// # Safety
/// `out` is null, or has room for it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pageyard_arena_usage(arena: ArenaHandle, out: *mut Usage) -> Error {
    let Some(out) = NonNull::new(out) else { return Error::Null };
    // SAFETY: the engine is read only.
    let usage = on!(arena, arena => Ok(Usage::of(&**unsafe { arena.engine() })));
    // SAFETY: the caller's promise.
    usage.map_or_else(|why| why, |usage| unsafe { usage.write(out) })
}

/// Returns the order of `bytes`, rounded up to pages, if that is a power of two of pages.
fn order_of(bytes: usize) -> Option<Order> {
    let frames = (bytes as u64).div_ceil(PAGE_SIZE);
    if frames.is_power_of_two() { Order::new(frames.trailing_zeros() as u8) } else { None }
}

/// Names the CPU that the thread is on.
fn here() -> Cx {
    Cx::on(current_cpu().unwrap_or(CpuId(0)))
}

/// # Safety
/// `out` is null, or has room for a pointer.
#[inline(always)]
unsafe fn alloc_to(
    arena: ArenaHandle,
    bytes: usize,
    align: Order,
    flags: RequestFlags,
    out: *mut *mut c_void,
) -> Error {
    let Some(out) = NonNull::new(out) else { return Error::Null };
    match on!(arena, arena => alloc(arena, bytes, align, flags)) {
        Ok(at) => {
            // SAFETY: the caller's promise.
            unsafe { out.write(at.as_ptr().cast()) };
            Error::Ok
        }
        Err(why) => why,
    }
}

#[inline(always)]
fn alloc<P: PerCpu, O: Observer>(
    arena: &Arena<P, O>,
    bytes: usize,
    align: Order,
    flags: RequestFlags,
) -> Result<NonNull<u8>, Error> {
    // One page is asked for most often, and costs what it costs in Rust.
    if bytes.wrapping_sub(1) < PAGE_SIZE as usize && align == Order::ZERO {
        let request = Request::new(Order::ZERO, Migratetype::Movable).with(flags);
        return match arena.alloc_as(&request) {
            Ok(page) => Ok(page.into_raw()),
            Err(why) => Err(refusal(arena, why)),
        };
    }
    alloc_pages(arena, bytes, align, flags)
}

#[inline(never)]
fn alloc_pages<P: PerCpu, O: Observer>(
    arena: &Arena<P, O>,
    bytes: usize,
    align: Order,
    flags: RequestFlags,
) -> Result<NonNull<u8>, Error> {
    if bytes == 0 {
        return Err(Error::Size);
    }
    let request = Request::new(Order::ZERO, Migratetype::Movable).with(flags);
    let got = match order_of(bytes).filter(|order| *order >= align) {
        Some(order) => arena.alloc_as(&Request { order, ..request }).map(Block::into_raw),
        None => arena.alloc_bytes_as(bytes, align, &request).map(|pages| pages.into_raw().0),
    };
    got.map_err(|why| refusal(arena, why))
}

#[cold]
fn refusal<P: PerCpu, O: Observer>(arena: &Arena<P, O>, why: AllocError) -> Error {
    if arena.is_inert() { Error::Forked } else { why.into() }
}

#[inline(always)]
fn free<P: PerCpu, O: Observer>(arena: &Arena<P, O>, at: NonNull<u8>, bytes: usize) -> Result<(), Error> {
    if bytes.wrapping_sub(1) < PAGE_SIZE as usize
        && let Some(first) = arena.frame_at(at)
        && !arena.is_inert()
        // SAFETY: the caller of the C function owns what is allocated there.
        && unsafe { arena.engine() }.free(&here(), first, Order::ZERO).is_ok()
    {
        return Ok(());
    }
    free_pages(arena, at, bytes)
}

#[inline(never)]
fn free_pages<P: PerCpu, O: Observer>(
    arena: &Arena<P, O>,
    at: NonNull<u8>,
    bytes: usize,
) -> Result<(), Error> {
    if bytes == 0 {
        return Err(Error::Size);
    }
    if arena.is_inert() {
        return Err(Error::Forked);
    }
    let is_aligned = at.addr().get().is_multiple_of(PAGE_SIZE as usize);
    let first = arena.frame_at(at).ok_or(if is_aligned { Error::Outside } else { Error::Misaligned })?;
    // SAFETY: as above.
    let (engine, cx) = (unsafe { arena.engine() }, here());
    if let Some(order) = order_of(bytes)
        && engine.free(&cx, first, order).is_ok()
    {
        return Ok(());
    }
    // Pieces: not what one call allocated, or no block.
    let all = FrameRange::new(first, Frames((bytes as u64).div_ceil(PAGE_SIZE)));
    all.while_busy(|part| engine.free_range(&cx, part.first, part.frames)).map_err(|error| error.why.into())
}

/// # Safety
/// The bytes are the caller's.
unsafe fn discard<P: PerCpu, O: Observer>(
    arena: &Arena<P, O>,
    at: NonNull<u8>,
    bytes: usize,
) -> Result<Frames, Error> {
    if arena.is_inert() {
        return Err(Error::Forked);
    }
    let page = PAGE_SIZE as usize;
    let offset = at.addr().get() % page;
    let first = NonNull::new(at.as_ptr().wrapping_sub(offset)).ok_or(Error::Outside)?;
    let whole = bytes.saturating_add(offset).checked_next_multiple_of(page).ok_or(Error::Size)?;
    // SAFETY: the caller's promise. They are not dropped, so they stay the caller's.
    let pages = unsafe { Pages::from_raw_in(arena, first, whole) };
    let mut pages = ManuallyDrop::new(pages.ok_or(Error::Outside)?);
    pages.discard(offset..offset + bytes).map_err(|why| Error::Refused.refused(why))
}

/// Allocates up to `count` blocks of an order, and calls `keep` with the number of each, and the offset of its first
/// byte in the arena.
fn bulk(
    arena: ArenaHandle,
    order: Order,
    count: usize,
    mut keep: impl FnMut(&Mapping, usize, usize),
) -> usize {
    let request = Request::new(order, Migratetype::Movable);
    let got = on!(arena, arena => {
        let (mut got, mut pfns) = (0, [Pfn(0); BATCH]);
        while got < count && !arena.is_inert() {
            let most = BATCH.min(count - got);
            // SAFETY: the blocks are the caller's of the C function from now on.
            let n = unsafe { arena.engine() }.alloc_bulk(&here(), &request, &mut pfns[..most]);
            for (i, pfn) in pfns[..n].iter().enumerate() {
                keep(arena.mapping(), got + i, (pfn.0 * PAGE_SIZE) as usize);
            }
            got += n;
            if n < most {
                break;
            }
        }
        Ok(got)
    });
    got.unwrap_or(0)
}

/// # Safety
/// `given` is null, or has room for a number.
unsafe fn tell(given: *mut usize, frames: Frames) -> Error {
    if let Some(given) = NonNull::new(given) {
        // SAFETY: the caller's promise.
        unsafe { given.write(frames.as_bytes() as usize) };
    }
    Error::Ok
}
