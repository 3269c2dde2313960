//! The interfaces through which frames are moved: what compaction sees of an engine, and of the owner of the frames.

use crate::migratetype::Migratetype;
use crate::units::{BlockId, CompactorId, Frames, Order, PageblockId, Pfn, ZoneId};

/// How much a migration may cost its caller.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Mode {
    /// Never waits, and gives up where it would.
    Async,
    /// Waits for locks, not for writeback.
    SyncLight,
    /// Waits for everything.
    Sync,
}

/// What a frame is at the moment: a hint, unless the caller holds a lease on its pageblock.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum FrameState {
    /// Not managed: a hole, or reserved.
    Hole,
    /// The first frame of a free block.
    Free(Order),
    /// Free inside a larger free block, or in a per-CPU list.
    Inside,
    /// The first frame of an allocated block.
    Allocated(Order),
    /// A later frame of an allocated block.
    Tail,
}

/// What compaction wants to know of a pageblock before it scans it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct PageblockInfo {
    /// The zone it lies in.
    pub zone: ZoneId,
    /// Its migratetype.
    pub migratetype: Migratetype,
    /// Free frames in it.
    pub free: Frames,
    /// Whether an earlier scan found nothing to do in it.
    pub skip: bool,
    /// The compactor that holds a lease on it.
    pub owner: Option<CompactorId>,
}

/// Which end of a migration a pageblock serves.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Role {
    /// Its contents move away.
    Source,
    /// Contents move into its free frames.
    Target,
}

/// The right to scan a pageblock in one role, given back when dropped.
///
/// While it is held no other compactor gets a lease on the pageblock, so that two of them never use it for opposite
/// ends.
pub struct Lease<'a> {
    map: &'a dyn Leases,
    /// The pageblock.
    pub block: PageblockId,
    /// What it is used for.
    pub role: Role,
}

/// Where a [`Lease`] goes back to.
pub trait Leases: Sync {
    /// Gives the pageblock back.
    fn release(&self, block: PageblockId);
}

impl<'a> Lease<'a> {
    /// Makes the lease that a [`FrameMap`] has just granted.
    #[must_use]
    pub fn granted(map: &'a dyn Leases, block: PageblockId, role: Role) -> Lease<'a> {
        Lease { map, block, role }
    }
}

impl Drop for Lease<'_> {
    fn drop(&mut self) {
        self.map.release(self.block);
    }
}

/// Free frames held by a compactor, in memory that its caller provides.
pub struct FreeStock<'a> {
    slots: &'a mut [Pfn],
    len: usize,
}

impl<'a> FreeStock<'a> {
    /// Makes an empty stock that holds at most `slots.len()` frames.
    #[must_use]
    pub fn new(slots: &'a mut [Pfn]) -> FreeStock<'a> {
        FreeStock { slots, len: 0 }
    }

    /// Adds a frame; `false` where there is no room.
    #[must_use = "a frame that did not fit is still the caller's"]
    pub fn push(&mut self, pfn: Pfn) -> bool {
        let Some(slot) = self.slots.get_mut(self.len) else { return false };
        *slot = pfn;
        self.len += 1;
        true
    }

    /// Takes the frame that was added last.
    pub fn pop(&mut self) -> Option<Pfn> {
        self.len = self.len.checked_sub(1)?;
        Some(self.slots[self.len])
    }

    /// Returns how many frames it holds.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Says whether it holds none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

/// Frames whose state a step examined.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Scanned(pub u64);

/// Compaction's view of an engine.
pub trait FrameMap: Leases {
    /// Describes a pageblock.
    fn pageblock(&self, block: PageblockId) -> PageblockInfo;

    /// Describes a frame: a hint.
    fn frame(&self, pfn: Pfn) -> FrameState;

    /// Reserves a pageblock for one compactor in one role, or `None` where another one holds it.
    fn lease(&self, block: PageblockId, role: Role, by: CompactorId) -> Option<Lease<'_>>;

    /// Takes up to `want` free frames out of the leased pageblock.
    fn isolate_free(&self, lease: &Lease<'_>, want: Frames, out: &mut FreeStock<'_>) -> Scanned;

    /// Takes one frame straight from a zone's free memory, while more than `mark` frames stay free.
    fn take_direct(&self, zone: ZoneId, mark: Frames) -> Option<Pfn>;

    /// Returns all frames of a stock to their zones.
    fn give_back(&self, stock: &mut FreeStock<'_>);

    /// Takes a block that has just become free as a whole, before anybody else does.
    fn capture(&self, block: BlockId) -> Option<Pfn>;
}

/// Why a frame could not be isolated.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Busy {
    /// It was freed meanwhile.
    Gone,
    /// It is not movable, or pinned.
    Pinned,
    /// A lock that the mode may not wait for is held.
    Locked,
}

/// Why a migration failed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum MigrateError {
    /// It may succeed later.
    Again,
    /// It will not.
    Refused,
}

/// Implemented by the owner of movable frames.
///
/// # Safety
/// `migrate` that returns `Ok` must have moved every reference from the old frame to the new one: the old one is freed.
pub unsafe trait Migrate {
    /// A frame taken out of use.
    type Isolated;

    /// Takes a frame out of use, so that it can be moved.
    ///
    /// # Errors
    /// [`Busy`] says why not; [`Busy::Gone`] where it was freed under us.
    fn isolate(&self, pfn: Pfn, mode: Mode) -> Result<Self::Isolated, Busy>;

    /// Moves the contents to `to`.
    ///
    /// # Errors
    /// Hands the frame back with the reason; `to` was not used.
    fn migrate(
        &self,
        from: Self::Isolated,
        to: Pfn,
        mode: Mode,
    ) -> Result<(), (Self::Isolated, MigrateError)>;

    /// Puts an isolated frame back into use.
    fn putback(&self, from: Self::Isolated);
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::sync::atomic::{AtomicU64, Ordering::SeqCst};

    struct Book(AtomicU64);

    impl Leases for Book {
        fn release(&self, block: PageblockId) {
            self.0.store(block.0, SeqCst);
        }
    }

    #[test]
    fn a_dropped_lease_goes_back() {
        let book = Book(AtomicU64::new(0));
        let lease = Lease::granted(&book, PageblockId(7), Role::Source);
        assert_eq!(book.0.load(SeqCst), 0);
        drop(lease);
        assert_eq!(book.0.load(SeqCst), 7);
    }

    #[test]
    fn a_full_stock_refuses_and_hands_out_the_last_first() {
        let mut slots = [Pfn(0); 2];
        let mut stock = FreeStock::new(&mut slots);
        assert!(stock.push(Pfn(1)) && stock.push(Pfn(2)) && !stock.push(Pfn(3)));
        assert_eq!((stock.pop(), stock.pop(), stock.pop()), (Some(Pfn(2)), Some(Pfn(1)), None));
    }
}
