//! The same names where there are no restartable sequences: none of these types can be made.

use super::answers::{Counts, Unavailable};
use pageyard::engine::{CpuLists, DescriptorWatch, ListIdx, Pushed, Unchanged};
use pageyard::{CpuId, PerCpu};

/// Nothing: restartable sequences are for Linux on x86-64.
#[derive(Debug)]
pub enum Rseq<const BIASED: bool = false> {}

/// Nothing either.
pub type BiasedRseq = Rseq<true>;

/// Nothing: threads are registered on Linux.
#[derive(Debug)]
pub enum Registered {}

/// Nothing: restartable sequences are for Linux on x86-64.
#[derive(Debug)]
pub enum CpuStacks {}

/// Returns none: the CPU is not known.
#[must_use]
pub fn current_cpu() -> Option<CpuId> {
    None
}

/// Returns how many CPUs this process may use.
#[must_use]
pub fn possible_cpus() -> u32 {
    std::thread::available_parallelism().map_or(1, |n| n.get() as u32)
}

/// Registers nothing.
///
/// # Errors
/// [`Unavailable::Platform`].
pub fn register_thread() -> Result<Registered, Unavailable> {
    Err(Unavailable::Platform)
}

impl Rseq {
    /// Makes nothing.
    ///
    /// # Errors
    /// [`Unavailable::Platform`].
    pub fn new() -> Result<Rseq, Unavailable> {
        Err(Unavailable::Platform)
    }

    /// Makes it one that biases pageblocks to CPUs.
    #[must_use]
    pub fn biased(self) -> BiasedRseq {
        match self {}
    }
}

impl<const BIASED: bool> Rseq<BIASED> {
    /// Returns what interrupted it.
    #[must_use]
    pub fn counts(&self) -> Counts {
        match *self {}
    }
}

impl CpuStacks {
    /// Items that a stack holds.
    pub const PLACES: usize = 0;

    /// Makes nothing.
    ///
    /// # Errors
    /// [`Unavailable::Platform`].
    pub fn new(_: u32, _: usize) -> Result<CpuStacks, Unavailable> {
        Err(Unavailable::Platform)
    }

    /// Takes the newest word.
    #[must_use]
    pub fn pop(&self) -> Option<u64> {
        match *self {}
    }

    /// Adds a word.
    pub fn push(&self, _: u64) -> bool {
        match *self {}
    }
}

// SAFETY: there is none.
unsafe impl<const BIASED: bool> PerCpu for Rseq<BIASED> {
    const NAME: &'static str = "pageyard";

    fn pop(&self, _: CpuLists<'_>, _: CpuId, _: ListIdx) -> Option<u32> {
        match *self {}
    }

    fn push(
        &self,
        _: CpuLists<'_>,
        _: CpuId,
        _: ListIdx,
        _: u32,
        _: DescriptorWatch<'_>,
        _: impl FnOnce() -> bool,
    ) -> Pushed {
        match *self {}
    }

    fn pop_many(&self, _: CpuLists<'_>, _: CpuId, _: ListIdx, _: &mut [u32]) -> usize {
        match *self {}
    }

    fn push_many(&self, _: CpuLists<'_>, _: CpuId, _: ListIdx, _: &[u32], _: Unchanged<'_>) -> usize {
        match *self {}
    }

    fn refill(&self, _: CpuLists<'_>, _: CpuId, _: ListIdx, _: &[u32], _: Unchanged<'_>) -> usize {
        match *self {}
    }

    fn spill(&self, _: CpuLists<'_>, _: CpuId, _: ListIdx, _: &mut [u32]) -> usize {
        match *self {}
    }

    fn reaches_others(&self) -> bool {
        match *self {}
    }
}
