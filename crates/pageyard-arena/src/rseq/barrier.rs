//! `membarrier`: what makes the sequences of another CPU restart.

use super::answers::Unavailable;
use pageyard::CpuId;

// Of `linux/membarrier.h`.
const PRIVATE_EXPEDITED_RSEQ: libc::c_int = 1 << 7;
const REGISTER_PRIVATE_EXPEDITED_RSEQ: libc::c_int = 1 << 8;
/// Only the CPU that is named.
const FLAG_CPU: libc::c_uint = 1;

fn membarrier(command: libc::c_int, flags: libc::c_uint, cpu: libc::c_int) -> Result<(), i32> {
    // SAFETY: it takes no pointer.
    let answer = unsafe { libc::syscall(libc::SYS_membarrier, command, flags, cpu) };
    if answer == 0 { Ok(()) } else { Err(std::io::Error::last_os_error().raw_os_error().unwrap_or(0)) }
}

/// Tells the kernel that this process will ask for barriers.
pub(super) fn register() -> Result<(), Unavailable> {
    membarrier(REGISTER_PRIVATE_EXPEDITED_RSEQ, 0, 0).map_err(|error| match error {
        libc::ENOSYS | libc::EINVAL => Unavailable::NoBarrier,
        other => Unavailable::BarrierFiltered(other),
    })
}

/// Waits until every sequence of this process that ran on `cpu` has ended, or will restart. Returns whether it did.
///
/// Stores of such a sequence are visible afterwards, and the caller's earlier stores are visible to later sequences.
pub(super) fn restart(cpu: CpuId) -> bool {
    issue(FLAG_CPU, cpu.0 as libc::c_int)
}

/// The same for every CPU.
pub(super) fn restart_all() -> bool {
    issue(0, 0)
}

fn issue(flags: libc::c_uint, cpu: libc::c_int) -> bool {
    match membarrier(PRIVATE_EXPEDITED_RSEQ, flags, cpu) {
        // A child of a fork may have to register again.
        Err(libc::EPERM) => register().is_ok() && membarrier(PRIVATE_EXPEDITED_RSEQ, flags, cpu).is_ok(),
        answer => answer.is_ok(),
    }
}
