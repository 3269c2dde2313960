//! The one system call by which programs are loaded into the kernel.
#![allow(unsafe_code)]

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use super::program::Instruction;

// Commands, kinds and places. # Linux: `include/uapi/linux/bpf.h`
const MAP_CREATE: libc::c_int = 0;
const MAP_UPDATE_ELEM: libc::c_int = 2;
const PROG_LOAD: libc::c_int = 5;
const OBJ_GET_INFO_BY_FD: libc::c_int = 15;
const RAW_TRACEPOINT_OPEN: libc::c_int = 17;
const PERF_EVENT_ARRAY: u64 = 4;
const TRACING: u64 = 26;
const TRACE_FENTRY: u64 = 24;
const TRACE_FEXIT: u64 = 25;

/// The arguments of a command, in units of eight bytes; what is not set is 0.
type Arguments = [u64; 20];

/// Two numbers of four bytes.
const fn pair(low: u64, high: u64) -> u64 {
    low | high << 32
}

/// Makes the map that has a perf buffer for each of `cpus` CPUs.
pub(super) fn buffers(cpus: u32) -> io::Result<OwnedFd> {
    let mut arguments: Arguments = [0; 20];
    // The kind; the sizes of a key and a value; how many.
    arguments[0] = pair(PERF_EVENT_ARRAY, 4);
    arguments[1] = pair(4, cpus.into());
    descriptor(MAP_CREATE, &mut arguments)
}

/// Puts the buffer of the event `of` into a map, for `cpu`.
pub(super) fn set_buffer(map: &OwnedFd, cpu: u32, of: BorrowedFd<'_>) -> io::Result<()> {
    let value = of.as_raw_fd();
    let mut arguments: Arguments = [0; 20];
    arguments[0] = map.as_raw_fd() as u64;
    arguments[1] = (&raw const cpu).expose_provenance() as u64;
    arguments[2] = (&raw const value).expose_provenance() as u64;
    call(MAP_UPDATE_ELEM, &mut arguments).map(|_| ())
}

/// Loads a program that runs when function `id` is called, or when it returns.
pub(super) fn load(program: &[Instruction], id: u32, at_exit: bool) -> io::Result<OwnedFd> {
    // What the kernel asks of programs that write records. The program's source is under either licence.
    const LICENCE: &CStr = c"Dual MIT/GPL";
    let mut arguments: Arguments = [0; 20];
    arguments[0] = pair(TRACING, program.len() as u64);
    arguments[1] = program.as_ptr().expose_provenance() as u64;
    arguments[2] = LICENCE.as_ptr().expose_provenance() as u64;
    arguments[8] = pair(0, if at_exit { TRACE_FEXIT } else { TRACE_FENTRY });
    arguments[13] = pair(0, id.into());
    descriptor(PROG_LOAD, &mut arguments)
}

/// Attaches a program to the function that it was loaded for, until the result is closed.
pub(super) fn attach(program: &OwnedFd) -> io::Result<OwnedFd> {
    let mut arguments: Arguments = [0; 20];
    arguments[1] = program.as_raw_fd() as u64;
    descriptor(RAW_TRACEPOINT_OPEN, &mut arguments)
}

/// Returns how often a program did not run because it was running already on the same CPU; 0 on kernels before 5.12.
pub(super) fn misses(program: &OwnedFd) -> io::Result<u64> {
    // Where `recursion_misses` is in `struct bpf_prog_info`, in units of eight bytes, and bytes enough to reach beyond
    // it.
    const MISSES: usize = 26;
    let mut info = [0u64; MISSES + 1];
    let mut arguments: Arguments = [0; 20];
    arguments[0] = pair(program.as_raw_fd() as u64, size_of_val(&info) as u64);
    arguments[1] = info.as_mut_ptr().expose_provenance() as u64;
    call(OBJ_GET_INFO_BY_FD, &mut arguments)?;
    Ok(info[MISSES])
}

fn descriptor(command: libc::c_int, arguments: &mut Arguments) -> io::Result<OwnedFd> {
    let fd = call(command, arguments)?;
    // SAFETY: The kernel has just made this descriptor for the caller, and no one else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn call(command: libc::c_int, arguments: &mut Arguments) -> io::Result<RawFd> {
    let size = size_of::<Arguments>();
    // SAFETY: 1. The kernel reads and writes the arguments, whose size it is told.
    //         2. Each address among them is of memory that the callers above keep alive until this returns, with the
    //            length that the command is told or that it always has, and exposed where the kernel writes.
    let result = unsafe { libc::syscall(libc::SYS_bpf, command, arguments.as_mut_ptr(), size) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result as RawFd) }
}
