//! Descriptors of perf events as the standard library's types, and one call.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use perf_event::{Counter, Sampler};
use rustix::ioctl::{IntegerSetter, ioctl, opcode};

/// `PERF_EVENT_IOC_SET_OUTPUT`. # Linux: `include/uapi/linux/perf_event.h`
const SET_OUTPUT: rustix::ioctl::Opcode = opcode::none(b'$', 5);

/// Borrows the descriptor of an event that has a buffer.
pub(super) fn of(sampler: &Sampler) -> BorrowedFd<'_> {
    // SAFETY: The event owns its descriptor, and outlives the borrow.
    unsafe { BorrowedFd::borrow_raw(sampler.as_raw_fd()) }
}

/// Has the kernel write the events of `from` into the buffer of `to`.
pub(super) fn redirect(from: &Counter, to: &Sampler) -> io::Result<()> {
    // SAFETY: The event owns its descriptor, and outlives the borrow.
    let fd = unsafe { BorrowedFd::borrow_raw(from.as_raw_fd()) };
    let target = to.as_raw_fd() as usize;
    // SAFETY: 1. This call takes a descriptor by value and touches no memory of ours.
    //         2. Both descriptors are open: their owners are borrowed.
    unsafe { ioctl(fd, IntegerSetter::<SET_OUTPUT>::new_usize(target)) }.map_err(io::Error::from)
}
