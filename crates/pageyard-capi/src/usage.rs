//! How much memory is free.

use crate::error::Error;
use pageyard::{PageAllocator, ZoneId};
use std::ptr::NonNull;

/// How much memory there is, and how much of it is free.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Bytes in all.
    pub bytes: u64,
    /// Free bytes, those in the lists of CPUs included.
    pub free_bytes: u64,
}

impl Usage {
    /// Adds up what an allocator has.
    pub(crate) fn of(allocator: &impl PageAllocator) -> Usage {
        let stats = allocator.stats();
        let mut usage = Usage::default();
        for zone in (0..stats.zones).filter_map(|n| allocator.zone_stats(ZoneId(n as u16))) {
            usage.bytes += zone.span.managed.as_bytes();
            usage.free_bytes += (zone.free + zone.cached).as_bytes();
        }
        usage
    }

    /// Writes it where the caller has room for it.
    ///
    /// # Safety
    /// There is room.
    pub(crate) unsafe fn write(self, out: NonNull<Usage>) -> Error {
        // SAFETY: the caller's promise.
        unsafe { out.write(self) };
        Error::Ok
    }
}
