//! Anonymous memory of a load: mapped, touched page by page, and given back in pieces.
#![allow(unsafe_code, reason = "a load maps memory and advises the kernel about it")]

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};
use std::ffi::c_void;
use std::io;

/// Bytes of a page.
pub(super) const PAGE: usize = 4096;

/// A private mapping, unmapped when it is dropped.
pub(super) struct Mapped {
    at: *mut c_void,
    bytes: usize,
}

impl Mapped {
    /// Maps `bytes`, with huge pages or without any.
    pub(super) fn new(bytes: usize, huge: bool) -> io::Result<Mapped> {
        let (access, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
        // SAFETY: a new mapping at an address of the kernel's choice touches no other memory.
        let at = unsafe { mmap_anonymous(std::ptr::null_mut(), bytes, access, flags) }?;
        let mapped = Mapped { at, bytes };
        let advice = if huge { Advice::LinuxHugepage } else { Advice::LinuxNoHugepage };
        // SAFETY: the range is this mapping. A kernel without huge pages refuses, and small ones are what it has then.
        let _ = unsafe { madvise(at, bytes, advice) };
        Ok(mapped)
    }

    /// Returns how many pages it has.
    pub(super) fn pages(&self) -> usize {
        self.bytes / PAGE
    }

    /// Writes a byte of each page.
    pub(super) fn touch(&mut self) {
        for page in 0..self.pages() {
            // SAFETY: the byte lies in the mapping, which is writable and ours alone.
            unsafe { self.at.cast::<u8>().add(page * PAGE).write_volatile(1) };
        }
    }

    /// Gives pages back to the kernel; reading them gives zeroes afterwards.
    pub(super) fn give_back(&mut self, page: usize, pages: usize) -> io::Result<()> {
        let pages = pages.min(self.pages().saturating_sub(page));
        if pages == 0 {
            return Ok(());
        }
        // SAFETY: 1. The range lies in the mapping. 2. Nothing refers to its contents: they are written, never read.
        Ok(unsafe {
            madvise(self.at.cast::<u8>().add(page * PAGE).cast(), pages * PAGE, Advice::LinuxDontNeed)
        }?)
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and nothing refers to it.
        let _ = unsafe { munmap(self.at, self.bytes) };
    }
}
