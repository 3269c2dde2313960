//! LLFree as a peer of Pageyard's benchmarks: the four functions that `pageyard-lab bench --peer` asks a library for.
//!
//! Its own simple policy: a class for small frames and one for huge ones, a reservation of each for each CPU. With the
//! feature `lists`, per-CPU [lists] stand before it.

#[cfg(feature = "lists")]
mod lists;

use llfree::{Alloc, Class, Classing, FrameId, HUGE_ORDER, Init, LLFree, MetaData, Request};
use std::alloc::{Layout, alloc_zeroed};
use std::ffi::{c_char, c_void};

/// Bytes that buffers are aligned to: two cache lines.
const ALIGN: usize = 128;

/// Returns zeroed memory that stays until the process ends.
fn buffer(size: usize) -> &'static mut [u8] {
    let layout = Layout::from_size_align(size.max(1), ALIGN).expect("a size below isize::MAX");
    // SAFETY: the size is not zero.
    let start = unsafe { alloc_zeroed(layout) };
    assert!(!start.is_null(), "no memory for {size} bytes");
    // SAFETY: it was just allocated, with so many bytes that are initialised, and nothing else has it.
    unsafe { std::slice::from_raw_parts_mut(start, size) }
}

fn request(cpu: u32, order: u32) -> Request {
    let order = order as usize;
    Request::new(order, Class(u8::from(order >= HUGE_ORDER)), Some(cpu as usize))
}

/// LLFree by itself.
struct Alone(LLFree<'static>);

impl Alone {
    fn new(frames: u64, cpus: u32) -> Option<Alone> {
        let (classing, _) = Classing::simple(cpus as usize);
        let size = LLFree::metadata_size(&classing, frames as usize);
        let meta =
            MetaData { local: buffer(size.local), trees: buffer(size.trees), lower: buffer(size.lower) };
        LLFree::new(frames as usize, Init::FreeAll, &classing, meta).ok().map(Alone)
    }

    fn take(&self, cpu: u32, order: u32) -> Option<u64> {
        self.0.get(None, request(cpu, order)).ok().map(|(frame, _)| frame.0 as u64)
    }

    fn give(&self, cpu: u32, block: u64, order: u32) {
        let _ = self.0.put(FrameId(block as usize), request(cpu, order));
    }
}

#[cfg(not(feature = "lists"))]
type Peer = Alone;
#[cfg(feature = "lists")]
type Peer = lists::Listed;

/// Returns the name of the rows.
#[unsafe(no_mangle)]
pub extern "C" fn pageyard_peer_name() -> *const c_char {
    if cfg!(feature = "lists") { c"llfree-listed".as_ptr() } else { c"llfree".as_ptr() }
}

/// Makes an allocator of so many frames for so many CPUs; null where it cannot.
#[unsafe(no_mangle)]
pub extern "C" fn pageyard_peer_new(frames: u64, cpus: u32) -> *mut c_void {
    Peer::new(frames, cpus).map_or(std::ptr::null_mut(), |peer| Box::into_raw(Box::new(peer)).cast())
}

/// Takes a block; `u64::MAX` where there is none.
///
/// # Safety
/// The first argument came from [`pageyard_peer_new`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pageyard_peer_take(peer: *mut c_void, cpu: u32, order: u32) -> u64 {
    // SAFETY: the caller's promise; it is never freed.
    unsafe { &*peer.cast::<Peer>() }.take(cpu, order).unwrap_or(u64::MAX)
}

/// Gives a block back.
///
/// # Safety
/// As [`pageyard_peer_take`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pageyard_peer_give(peer: *mut c_void, cpu: u32, block: u64, order: u32) {
    // SAFETY: as above.
    unsafe { &*peer.cast::<Peer>() }.give(cpu, block, order);
}
