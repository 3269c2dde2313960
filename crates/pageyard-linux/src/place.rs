//! Where a thread is while it frees a block: the functions that a profile of Linux shows. Layer: values.
//!
//! A caller that wants to know gives the free a [`FreeObserver`]. Every other free has `()` in its place: the code
//! compiled for it is the code without this file.

/// A function of Linux that a profile of its frees shows, by what stands for it here.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum FreeStage {
    /// `free_unref_page`: a free to the CPU's list, the list's own way back to the zone included.
    FreeUnrefPage,
    /// `__free_pages_ok`: a free past the lists.
    FreePagesOk,
    /// `free_one_page`: the part of it that needs the zone lock, the taking of the lock included.
    FreeOnePage,
    /// `_raw_spin_lock`: the taking of the zone lock, on whatever way to the zone.
    RawSpinLock,
    /// `queued_spin_lock_slowpath`: the part of it that waits.
    SpinLockSlowpath,
}

/// Told where a thread is.
pub trait FreeObserver: 'static {
    /// The stay in a place: it ends when this is dropped.
    type Stay;

    /// Says that the calling thread enters a place. It may do so within another.
    fn enter(place: FreeStage) -> Self::Stay;
}

/// Watches nothing.
impl FreeObserver for () {
    type Stay = ();

    #[inline(always)]
    fn enter(_: FreeStage) {}
}
