//! Any allocator of frames as a peer, from a shared library: `--peer LIBRARY`. `bench/llfree` is one.
//!
//! A library has four functions of C. `pageyard_peer_name` returns the name of its rows. `pageyard_peer_new` makes an
//! allocator of so many frames for so many CPUs, which is never freed, or returns null. `pageyard_peer_take` takes a
//! block of an order on a CPU and returns its first frame's number, or `u64::MAX`; `pageyard_peer_give` gives it back.
//! Each CPU number is one thread's at a time.
#![allow(unsafe_code, reason = "another allocator's functions are foreign")]

use crate::harness::allocator::Allocator;
use crate::harness::subject::{Shared, Subject};
use libloading::{Library, Symbol};
use pageyard::{Order, Pfn};
use pageyard_trace::shown;
use std::ffi::{CStr, c_char, c_void};
use std::path::Path;

/// The longest name, in bytes.
const LONGEST_NAME: usize = 64;

type Name = unsafe extern "C" fn() -> *const c_char;
type New = unsafe extern "C" fn(u64, u32) -> *mut c_void;
type Take = unsafe extern "C" fn(*mut c_void, u32, u32) -> u64;
type Give = unsafe extern "C" fn(*mut c_void, u32, u64, u32);

/// A library of a peer, loaded for as long as the process lives.
#[derive(Clone, Copy, Debug)]
pub struct PeerLibrary {
    name: &'static str,
    new: New,
    take: Take,
    give: Give,
}

impl PeerLibrary {
    /// Loads a library.
    ///
    /// # Errors
    /// Why it is none, in one sentence.
    pub fn load(path: &Path) -> Result<PeerLibrary, String> {
        let wrong = |why: String| {
            format!("{}: {why}; --peer takes a library as bench/llfree/build makes it", path.display())
        };
        // SAFETY: the user names the library, whose initialisers run as those of any program that he starts.
        let library = unsafe { Library::new(path) }.map_err(|e| wrong(e.to_string()))?;
        // It stays: its functions are called until the process ends.
        let library: &'static Library = Box::leak(Box::new(library));
        // SAFETY: a library of this kind has functions of these types under these names.
        let (name, new, take, give) = unsafe {
            (
                find::<Name>(library, c"pageyard_peer_name").map_err(wrong)?,
                find::<New>(library, c"pageyard_peer_new").map_err(wrong)?,
                find::<Take>(library, c"pageyard_peer_take").map_err(wrong)?,
                find::<Give>(library, c"pageyard_peer_give").map_err(wrong)?,
            )
        };
        // SAFETY: it returns a text that stays, and ends with a zero.
        let name: &'static CStr = unsafe { CStr::from_ptr(name()) };
        let name = name.to_str().map_err(|_| wrong("its name is not UTF-8".to_owned()))?;
        if name.is_empty() || name.len() > LONGEST_NAME || shown(name) != name {
            return Err(wrong(format!("its name is not 1 to {LONGEST_NAME} bytes that can be shown")));
        }
        Ok(PeerLibrary { name, new, take, give })
    }

    /// Returns the name of its rows.
    pub(crate) fn name(&self) -> &'static str {
        self.name
    }

    /// Makes an allocator over frames `0..n`, for blocks of `order` where none is named.
    pub(crate) fn subject(&self, frames: u64, cpus: usize, order: Order) -> Result<Box<dyn Subject>, String> {
        // SAFETY: any numbers may be passed.
        let peer = unsafe { (self.new)(frames, cpus as u32) };
        if peer.is_null() {
            return Err(format!("it has no allocator of {frames} frames for {cpus} CPUs"));
        }
        Ok(Box::new(Shared::new(self.name, Peer { library: *self, peer, order }, false)))
    }
}

/// Finds a function.
///
/// # Safety
/// The library's symbol of this name is a `T`.
unsafe fn find<T: Copy + 'static>(library: &'static Library, name: &CStr) -> Result<T, String> {
    // SAFETY: the caller's promise.
    let symbol: Result<Symbol<'static, T>, _> = unsafe { library.get(name.to_bytes_with_nul()) };
    symbol.map(|function| *function).map_err(|e| e.to_string())
}

/// An allocator of a library.
struct Peer {
    library: PeerLibrary,
    peer: *mut c_void,
    order: Order,
}

// SAFETY: functions of a library may be called by several threads, each with a CPU number of its own.
unsafe impl Send for Peer {}
// SAFETY: as above.
unsafe impl Sync for Peer {}

impl Allocator for Peer {
    #[inline(always)]
    fn take(&self, cpu: usize) -> Option<Pfn> {
        self.take_of(cpu, self.order)
    }

    #[inline(always)]
    fn give(&self, cpu: usize, block: Pfn) {
        self.give_of(cpu, block, self.order);
    }

    #[inline(always)]
    fn take_of(&self, cpu: usize, order: Order) -> Option<Pfn> {
        // SAFETY: the library made it, and it is never freed.
        let first = unsafe { (self.library.take)(self.peer, cpu as u32, order.get().into()) };
        (first != u64::MAX).then_some(Pfn(first))
    }

    #[inline(always)]
    fn give_of(&self, cpu: usize, block: Pfn, order: Order) {
        // SAFETY: as above; the block was taken from it.
        unsafe { (self.library.give)(self.peer, cpu as u32, block.0, order.get().into()) };
    }

    fn moves(&self) -> Option<(u64, u64)> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_peer_is_said() {
        let why = PeerLibrary::load(Path::new("/nowhere/peer.so")).unwrap_err();
        assert!(why.contains("/nowhere/peer.so") && why.contains("--peer takes"), "{why}");
        let why = PeerLibrary::load(Path::new("libc.so.6")).unwrap_err();
        assert!(why.contains("pageyard_peer_name"), "{why}");
    }
}
