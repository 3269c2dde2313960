//! The parts of a file that an import needs, whichever recorder wrote it.

use pageyard_trace::TraceError;

use super::kernel::Kernel;

/// The parts of an event that an import needs.
pub(super) struct Sample<'a> {
    /// The tracepoint's bytes.
    pub(super) raw: &'a [u8],
    pub(super) time: u64,
    pub(super) cpu: u32,
}

/// The parts of a record that an import needs.
pub(super) enum Record<'a> {
    /// A tracepoint's event.
    Sample(Sample<'a>),
    /// An event of another kind.
    Skipped,
    /// All buffers have been looked at once.
    EndOfRound,
    /// This many events were lost, as was noticed where they are missing.
    Lost(u64),
    /// This many events were lost, as was counted at the end.
    LostSamples(u64),
}

/// A file's records, one after the other.
pub(super) trait Records {
    /// Returns the next record that matters.
    ///
    /// # Errors
    /// The damage, and the byte it is at.
    fn next(&mut self) -> Result<Option<Record<'_>>, TraceError>;

    /// Returns how many bytes of [`all`](Records::all) were read.
    fn done(&self) -> u64;

    /// Returns how many bytes there are to read.
    fn all(&self) -> u64;

    /// Returns what the file says of the kernel, as far as it was read.
    fn kernel(&self) -> &Kernel;
}
