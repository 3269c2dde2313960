//! Memory that forked processes share with the one that forked them, at the same addresses.

use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};
use std::io;
use std::ptr::NonNull;

/// Types that are valid as zeros, and that processes may use at the same time: atomics, or memory behind a protocol.
///
/// # Safety
/// All zeros is a value of the type; it needs no drop; and shared references to it are sound across processes.
pub unsafe trait FromZeros: Sync {}

// SAFETY: atomics: zeros are a value, and every access is one.
unsafe impl FromZeros for std::sync::atomic::AtomicU32 {}
// SAFETY: as above.
unsafe impl FromZeros for std::sync::atomic::AtomicU64 {}
// SAFETY: as above.
unsafe impl FromZeros for std::sync::atomic::AtomicU8 {}

/// Maps zeroed memory for a value. It stays mapped until the process ends: everything shared lives as long as the
/// program.
///
/// # Errors
/// The kernel's error if there is no memory.
pub fn value<T: FromZeros>() -> io::Result<&'static T> {
    slice::<T>(1).map(|all| &all[0])
}

/// Maps zeroed memory for `count` values, for the rest of the program.
///
/// # Errors
/// As [`value`].
pub fn slice<T: FromZeros>(count: usize) -> io::Result<&'static [T]> {
    let at = bytes(count.max(1) * size_of::<T>())?.cast::<T>();
    // SAFETY: 1. The mapping is that large, page-aligned and never unmapped. 2. Its zeros are values, by the trait's
    // promise.
    Ok(unsafe { std::slice::from_raw_parts(at.as_ptr(), count) })
}

/// Maps `bytes` zeroed bytes, aligned to a page, for the rest of the program; who may touch them when is the caller's
/// rule.
///
/// # Errors
/// As [`value`].
pub fn bytes(bytes: usize) -> io::Result<NonNull<u8>> {
    let access = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a new mapping, at an address that the kernel chooses.
    let at = unsafe { mmap_anonymous(std::ptr::null_mut(), bytes, access, MapFlags::SHARED)? };
    NonNull::new(at.cast()).ok_or_else(|| io::ErrorKind::OutOfMemory.into())
}
