//! Why restartable sequences are unavailable, and what interrupted them where they are available.

/// Why restartable sequences cannot be used. A try-lock does the same work.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Unavailable {
    /// The kernel has no such system call.
    #[error("this kernel has no restartable sequences (rseq, Linux 4.18); a try-lock does the same work")]
    NoRseq,
    /// The system call is refused.
    #[error(
        "the system call rseq is refused here (seccomp, error {0}): allow it; until then a try-lock does the same work"
    )]
    Filtered(i32),
    /// The thread is registered with an area that cannot be found.
    #[error(
        "another library has registered this thread for rseq, in a place of its own; a try-lock does the same work"
    )]
    Taken,
    /// The kernel cannot restart the sequences of other CPUs.
    #[error(
        "this kernel has no membarrier for restartable sequences (Linux 5.10); a try-lock does the same work"
    )]
    NoBarrier,
    /// The system call is refused.
    #[error(
        "the system call membarrier is refused here (seccomp, error {0}): allow it; until then a try-lock does the same work"
    )]
    BarrierFiltered(i32),
    /// Not the right platform.
    #[error("restartable sequences are for Linux on x86-64; elsewhere a try-lock does the same work")]
    Platform,
}

/// Counts of the events that interrupted an instance's sequences.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// Sequences that were interrupted: by a signal, by another thread, by a move to another CPU or by a drain.
    pub aborts: u64,
    /// Of those, the ones that restarted.
    pub restarts: u64,
    /// Of those, the ones that went to the zone, because they had been interrupted too often.
    pub fallbacks: u64,
    /// Calls that went to the zone because their thread is not registered or its CPU has no lists.
    pub strangers: u64,
    /// Lists of a CPU that were taken away to be drained.
    pub drains: u64,
}
