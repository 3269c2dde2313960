//! The arena: which frame is which memory, and who may touch it.

use super::alive::Alive;
use super::zeros::Zeros;
use crate::backing::{BackingError, Mapping};
use crate::clear::Clearer;
use crate::rseq::{Rseq, current_cpu};
use crate::slots::Table;
use pageyard::{
    AllocError, AuditError, Census, CpuId, Cx, Frames, Observer, OwnedPageyard, PAGE_SIZE, PerCpu, Pfn, Stats,
};
use std::ops::Range;
use std::ptr::NonNull;

/// Memory of the host in frames, with the engine over it.
///
/// Its blocks are bytes that the caller owns until they are dropped. Frame 0 is the first of the mapping; a block of 2
/// MiB or less is aligned to its size in memory, too.
pub struct Arena<P: PerCpu = Rseq, O: Observer = ()> {
    // Declared first, so dropped first: it manages the mapping's frames.
    yard: OwnedPageyard<P, O, Zeros>,
    mapping: Mapping,
    table: Table,
    /// Zero in a child of a fork.
    alive: Alive,
    /// Tells the observer that the host takes frames.
    forget: Forget<O>,
}

/// Tells an observer that what it wrote to frames is gone.
pub(crate) type Forget<O> = fn(&O, Pfn, Frames);

impl<P: PerCpu, O: Observer> Arena<P, O> {
    pub(super) fn new(
        yard: OwnedPageyard<P, O, Zeros>,
        mapping: Mapping,
        forget: Forget<O>,
    ) -> Result<Arena<P, O>, BackingError> {
        let table = Table::new(mapping.frames())?;
        Ok(Arena { yard, mapping, table, alive: Alive::new()?, forget })
    }

    /// Tells the observer that the host takes free frames: what it wrote there is gone.
    pub(crate) fn forget(&self, first: Pfn, frames: Frames) {
        (self.forget)(self.yard.observer(), first, frames);
    }

    /// Returns whether this is a copy of an arena in a child of a fork: it hands nothing out, and takes nothing back.
    #[must_use]
    #[inline]
    pub fn is_inert(&self) -> bool {
        !self.alive.is()
    }

    /// Refuses in a child of a fork, whose memory may be shared with its parent.
    #[inline]
    pub(crate) fn check_alive(&self) -> Result<(), AllocError> {
        if self.is_inert() { Err(AllocError::OutOfMemory) } else { Ok(()) }
    }

    pub(crate) fn table(&self) -> &Table {
        &self.table
    }

    /// Returns the engine, whose frames are this memory, for what this interface lacks. What is allocated there is the
    /// caller's to touch, by [`Arena::address_of`].
    ///
    /// # Safety
    /// Only blocks that were allocated through it are freed, split or moved through it, a block is called zeros only if
    /// it is, its clearer clears such blocks only, and its observer is called by the engine alone. Otherwise a
    /// [`Block`](super::Block) could share its bytes with another one.
    #[must_use]
    pub unsafe fn engine(&self) -> &OwnedPageyard<P, O, Zeros> {
        &self.yard
    }

    /// Returns the engine, for the blocks of this crate.
    pub(crate) fn yard(&self) -> &OwnedPageyard<P, O, Zeros> {
        &self.yard
    }

    /// Returns the engine's counters.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.yard.stats()
    }

    /// Checks all that the engine's metadata say of each other; nothing else may use the arena meanwhile.
    ///
    /// # Errors
    /// [`AuditError`], the first disagreement.
    pub fn audit(&self) -> Result<Census, AuditError> {
        self.yard.audit()
    }

    /// Returns the memory.
    #[must_use]
    pub fn mapping(&self) -> &Mapping {
        &self.mapping
    }

    /// Returns what clears frames.
    #[must_use]
    pub fn clearer(&self) -> &Clearer {
        self.yard.clearer().clearer()
    }

    /// Returns where a frame lies in memory; none where it is not the arena's.
    #[must_use]
    #[inline]
    pub fn address_of(&self, pfn: Pfn) -> Option<NonNull<u8>> {
        // SAFETY: within the mapping.
        (pfn.0 < self.mapping.frames().0).then(|| unsafe { self.address(pfn) })
    }

    /// Returns where a frame of the arena lies.
    ///
    /// # Safety
    /// It is the arena's.
    #[inline]
    pub(crate) unsafe fn address(&self, pfn: Pfn) -> NonNull<u8> {
        // SAFETY: the caller's promise.
        unsafe { self.mapping.start().add((pfn.0 * PAGE_SIZE) as usize) }
    }

    /// Returns which frame of the arena begins at an address; none where there is none.
    #[must_use]
    #[inline]
    pub fn frame_at(&self, at: NonNull<u8>) -> Option<Pfn> {
        let offset = (at.addr().get() as u64).checked_sub(self.mapping.start().addr().get() as u64)?;
        let is_frame = offset.is_multiple_of(PAGE_SIZE) && offset < self.mapping.bytes() as u64;
        is_frame.then_some(Pfn(offset / PAGE_SIZE))
    }

    /// Zeroes `range` of an owner's `bytes`, which begin at frame `first`, and returns its whole pages to the host.
    /// Returns how many frames the host took.
    ///
    /// # Errors
    /// Those of the host: the bytes are zeros all the same.
    pub(super) fn discard(
        &self,
        first: Pfn,
        bytes: &mut [u8],
        range: Range<usize>,
    ) -> Result<Frames, BackingError> {
        let end = range.end.min(bytes.len());
        let start = range.start.min(end);
        let page = PAGE_SIZE as usize;
        let whole = Frames((end / page).saturating_sub(start.div_ceil(page)) as u64);
        let pages = self.mapping.whole_pages(first + Frames(start.div_ceil(page) as u64), whole);
        let given = match pages.frames {
            Frames::ZERO => Ok(Frames::ZERO),
            _ if self.is_inert() => Ok(Frames::ZERO),
            // SAFETY: the bytes are borrowed by this alone; zeros are what they are to hold.
            _ => unsafe { self.mapping.purge(pages.first, pages.frames) },
        };
        match given {
            Ok(frames) if frames > Frames::ZERO => {
                let from = ((pages.first - first).0 * PAGE_SIZE) as usize;
                bytes[start..from].fill(0);
                bytes[from + (frames.0 * PAGE_SIZE) as usize..end].fill(0);
            }
            _ => bytes[start..end].fill(0),
        }
        given
    }

    /// Names the CPU that the thread is on, as far as it is known: for restartable sequences it matters where a list
    /// fails.
    #[inline]
    pub(crate) fn cx(&self) -> Cx {
        Cx::on(current_cpu().unwrap_or(CpuId(0)))
    }
}
