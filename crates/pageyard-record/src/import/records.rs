//! What an import needs of a file, whichever recorder wrote it.

use pageyard_trace::TraceError;

use super::kernel::Kernel;

/// What is needed of an event.
pub(super) struct Sample<'a> {
    /// The tracepoint's bytes.
    pub(super) raw: &'a [u8],
    pub(super) time: u64,
    pub(super) cpu: u32,
}

/// What an import needs to know of a record.
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
    /// What is damaged, and at which byte.
    fn next(&mut self) -> Result<Option<Record<'_>>, TraceError>;

    /// Returns how many bytes of [`all`](Records::all) were read.
    fn done(&self) -> u64;

    /// Returns how many bytes there are to read.
    fn all(&self) -> u64;

    /// Returns what the file says of the kernel, as far as it was read.
    fn kernel(&self) -> &Kernel;
}
