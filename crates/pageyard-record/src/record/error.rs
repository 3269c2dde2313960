//! Why a host cannot be recorded.

use pageyard_trace::TraceError;

/// Why a host cannot be recorded; its text says what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RecordError {
    /// The kernel's list of tracepoints is not where it should be.
    #[error(
        "the kernel's tracepoints cannot be seen: run `mount -t tracefs tracefs /sys/kernel/tracing` as root, and try again"
    )]
    NoTracefs,
    /// The caller lacks the permission.
    #[error("recording needs root: run it with sudo ({what})")]
    NotPermitted {
        /// The refused operation.
        what: String,
    },
    /// The kernel lacks what a trace needs.
    #[error("{kernel} cannot be recorded: {what}")]
    Kernel {
        /// The kernel.
        kernel: String,
        /// The missing feature.
        what: String,
    },
    /// The operating system refused something else.
    #[error("{what}: {why}")]
    Refused {
        /// The attempted operation.
        what: String,
        /// The operating system's reason.
        why: String,
    },
    /// The trace could not be written.
    #[error(transparent)]
    Trace(#[from] TraceError),
}
