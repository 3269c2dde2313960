//! The experiments' `unsafe` code: signal handlers, the program's break.
#![allow(unsafe_code, reason = "experiments interrupt themselves, and measure the kernel")]

use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, sigaction};

/// Handles a signal for as long as it lives.
pub(super) struct Handled(Signal, SigAction);

impl Handled {
    /// Handles `signal` with `handler`, with `blocked` signals blocked meanwhile.
    pub fn new(signal: Signal, blocked: SigSet, handler: extern "C" fn(i32)) -> nix::Result<Handled> {
        let action = SigAction::new(SigHandler::Handler(handler), SaFlags::SA_RESTART, blocked);
        // SAFETY: 1. The handler of `storm` calls allocators only, which spin and use no memory but their own.
        //         2. That of `profile` reads and writes cells of its thread, which need no destructor and so no memory.
        unsafe { sigaction(signal, &action) }.map(|before| Handled(signal, before))
    }
}

impl Drop for Handled {
    fn drop(&mut self) {
        // SAFETY: it puts back what was there.
        let _ = unsafe { sigaction(self.0, &self.1) };
    }
}

/// Moves the program's break up and down again `times` times, by `bytes`; says whether it could.
pub(super) fn grow_break(bytes: isize, times: usize) -> bool {
    let failed = usize::MAX as *mut libc::c_void;
    (0..times).all(|_| {
        // SAFETY: the break comes back before anything else happens on this thread, which is the only one that runs
        //         then, so no other memory lies above it.
        unsafe { libc::sbrk(bytes) != failed && libc::sbrk(-bytes) != failed }
    })
}

/// Maps `bytes` of fresh memory, writes one byte of each page and unmaps it, `times` times; says whether it could.
pub(super) fn touch_pages(bytes: usize, times: usize) -> bool {
    (0..times).all(|_| {
        let (read_write, private) =
            (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: a new mapping at an address of the kernel's choice touches no other memory.
        let at = unsafe { libc::mmap(std::ptr::null_mut(), bytes, read_write, private, -1, 0) };
        if at == libc::MAP_FAILED {
            return false;
        }
        // SAFETY: it is this mapping, of that size; huge pages would hide the faults, and refusing to go without is
        // fine.
        unsafe { libc::madvise(at, bytes, libc::MADV_NOHUGEPAGE) };
        for offset in (0..bytes).step_by(4096) {
            // SAFETY: the byte lies in the mapping, which is writable and ours alone.
            unsafe { at.cast::<u8>().add(offset).write_volatile(1) };
        }
        // SAFETY: the mapping is ours, and nothing refers to it.
        unsafe { libc::munmap(at, bytes) == 0 }
    })
}
