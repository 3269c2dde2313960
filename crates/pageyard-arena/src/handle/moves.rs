//! Moving the frames of handles: which a compaction gets, how they move, and the calls that compact.

use crate::arena::Arena;
use crate::slots::{Slot, SlotId};
use pageyard::compaction::{Busy, Migrate, MigrateError, Mode, Outcome, Work};
use pageyard::reclaim::{Reclaimed, Shortage};
use pageyard::{
    AllocError, BlockId, Cx, Frames, Migratetype, Observer, Order, PAGE_SIZE, PageAllocator, PerCpu, Pfn,
    PressureAllocator, Reclaim, Request, ZoneId,
};

/// The owner of the frames of an arena's handles, for compactions by that arena's own engine.
///
/// It is private, because [`Migrate`] can be called by anyone who has it: a compaction by another engine would move
/// handles onto frames that are somebody's blocks here.
pub(super) struct Mover<'a, P: PerCpu, O: Observer>(pub(super) &'a Arena<P, O>);

/// A handle whose frames a compaction has.
#[derive(Debug)]
pub(super) struct IsolatedHandle {
    id: SlotId,
    block: BlockId,
}

// SAFETY: 1. The slot is the one reference to a handle's frame, and it names the new one before `migrate` returns `Ok`.
//         2. In every other case the slot never named it. 3. What is pinned is not moved: `moved` succeeds only on the
//         very word that `begin` made, which a pin changes for good.
unsafe impl<P: PerCpu, O: Observer> Migrate for Mover<'_, P, O> {
    type Isolated = IsolatedHandle;

    const MOVES_BLOCKS: bool = true;

    fn isolate(&self, pfn: Pfn, mode: Mode) -> Result<IsolatedHandle, Busy> {
        self.isolate_block(BlockId { pfn, order: Order::ZERO }, mode)
    }

    fn isolate_block(&self, block: BlockId, _: Mode) -> Result<IsolatedHandle, Busy> {
        let table = self.0.table();
        // What no handle has is a block, whose owner knows its address.
        let id = table.owner(block.pfn).ok_or(Busy::Pinned)?;
        let is_it = |slot: Slot| slot.pfn() == block.pfn && slot.order() == block.order;
        let taken = table.update(id, |slot| if is_it(slot) { slot.isolate() } else { None });
        match taken {
            Some(_) => Ok(IsolatedHandle { id, block }),
            None if table.get(id).pins() > 0 => Err(Busy::Locked),
            None => Err(Busy::Gone),
        }
    }

    fn migrate(&self, from: &mut IsolatedHandle, to: Pfn, _: Mode) -> Result<(), MigrateError> {
        if !self.is_target(BlockId { pfn: to, order: from.block.order }) {
            return Err(MigrateError::Refused);
        }
        let table = self.0.table();
        let Some(before) = table.update(from.id, Slot::begin) else { return Err(self.failed(from)) };
        let bytes = (from.block.order.frames().0 * PAGE_SIZE) as usize;
        // `begin` succeeded on this word, and no other compaction has it.
        let moving = Slot(before.0).begin().unwrap_or(before);
        // SAFETY: 1. Both are the arena's frames: a handle's, and a block of as many that was checked above.
        //         2. `to` is this compaction's own.
        //         3. `from` is not freed meanwhile: a handle that is dropped leaves its frames to the compaction that
        //            isolated it.
        unsafe {
            let (from, to) = (self.0.address(from.block.pfn).as_ptr(), self.0.address(to).as_ptr());
            copy(from, to, bytes);
        }
        table.set_owner(to, from.id);
        if let Some(moved) = moving.moved(to)
            && table.swap(from.id, moving, moved)
        {
            return Ok(());
        }
        Err(self.failed(from))
    }

    fn putback(&self, from: IsolatedHandle) {
        if let Some(before) = self.0.table().update(from.id, |slot| Some(slot.put_back()))
            && !before.is_live()
        {
            self.0.free_handle(from.id, from.block);
        }
    }
}

impl<P: PerCpu, O: Observer> Mover<'_, P, O> {
    /// Returns whether a block can be a compaction's target: it is allocated, in the arena, and no handle has it. A
    /// caller's own block passes, too, but the engine gives each block to one owner, so it offers none of those.
    fn is_target(&self, to: BlockId) -> bool {
        let table = self.0.table();
        let is_handles = |id| {
            let slot = table.get(id);
            slot.next_free().is_none() && slot.pfn() == to.pfn && (slot.is_live() || slot.is_isolated())
        };
        self.0.address_of(to.pfn).is_some()
            && self.0.yard().order_of(to.pfn) == Some(to.order)
            && !table.owner(to.pfn).is_some_and(is_handles)
    }

    /// Tells why a move failed: the handle was pinned, or dropped. A dropped one is freed here.
    fn failed(&self, from: &IsolatedHandle) -> MigrateError {
        if self.0.table().get(from.id).is_live() {
            return MigrateError::Again;
        }
        self.0.free_handle(from.id, from.block);
        MigrateError::Gone
    }
}

/// An arena gives nothing up on its own: what it holds is its callers'.
impl<P: PerCpu, O: Observer> Reclaim for Mover<'_, P, O> {
    fn reclaim(&self, _: &Cx, _: &Shortage) -> Reclaimed {
        Reclaimed::default()
    }

    fn reclaimable(&self, _: ZoneId) -> Frames {
        Frames::ZERO
    }
}

/// Moving frames is the arena's alone: it is no owner that a compaction by hand, or by another engine, could be given.
///
/// ```compile_fail,E0277
/// use pageyard::compaction::Migrate;
/// fn owner(_: &impl Migrate) {}
/// let arena = pageyard_arena::Arena::builder().size(4 << 20).build_locked().unwrap();
/// owner(&arena);
/// ```
impl<P: PerCpu, O: Observer> Arena<P, O> {
    /// Frees the slot of a handle that was dropped, and then its frames: the next owner of the frames must find a free
    /// slot.
    pub(super) fn free_handle(&self, id: SlotId, block: BlockId) {
        self.table().release(id);
        let freed = self.yard().free(&self.cx(), block.pfn, block.order);
        debug_assert_eq!(freed, Ok(()), "a frame has one handle");
    }

    /// Moves the frames of handles together, as far as that makes larger free blocks. Returns how it ended, and what it
    /// did.
    ///
    /// Frames that are pinned stay, and so do blocks. It may run at any time, on any thread.
    pub fn compact(&self) -> (Outcome, Work) {
        if self.is_inert() {
            return (Outcome::Skipped, Work::default());
        }
        // What lists hold is neither free nor movable, and in a small arena it is much.
        self.yard().drain_reached(self.cx().cpu);
        let done = self.yard().compact_zone_with(&self.cx(), ZoneId(0), &Mover(self));
        done.unwrap_or((Outcome::Skipped, Work::default()))
    }

    /// Allocates a block, and moves handles out of its way where that is needed.
    ///
    /// # Errors
    /// As [`PageAllocator::alloc`].
    pub fn alloc_compacting(&self, order: Order) -> Result<crate::arena::Block<&Self>, AllocError> {
        self.check_alive()?;
        let request = Request::new(order, Migratetype::Movable);
        let pfn = self.yard().alloc_with(&self.cx(), &request, &Mover(self)).map_err(AllocError::from)?;
        Ok(crate::arena::Block::new(self, pfn, order))
    }
}

/// Copies frames that their owner may pin and write to meanwhile: what was copied is then thrown away.
///
/// # Safety
/// Both are so many bytes of mapped memory, whole frames, and `to` is the caller's own.
unsafe fn copy(from: *const u8, to: *mut u8, bytes: usize) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the caller's promise. In assembly, because a write at the same time would be a data race elsewhere.
    unsafe {
        std::arch::asm!(
            "rep movsb",
            inout("rsi") from => _, inout("rdi") to => _, inout("rcx") bytes => _,
            options(nostack, preserves_flags)
        );
    }
    #[cfg(not(target_arch = "x86_64"))]
    for word in 0..bytes / 8 {
        // SAFETY: the caller's promise. Each word is read once, whatever is written meanwhile.
        unsafe { to.cast::<u64>().add(word).write(from.cast::<u64>().add(word).read_volatile()) };
    }
}
