//! The arena as the owner of movable frames: which it lets go, and how it moves them.

use super::slot::Slot;
use super::table::SlotId;
use crate::arena::Arena;
use pageyard::compaction::{Busy, Migrate, MigrateError, Mode, Outcome, Work};
use pageyard::reclaim::{Reclaimed, Shortage};
use pageyard::{
    AllocError, CpuSet, Cx, Frames, Migratetype, Order, PAGE_SIZE, PerCpu, Pfn, PressureAllocator, Reclaim,
    Request, ZoneId,
};

/// A handle whose frame a compaction has.
#[derive(Debug)]
pub struct Isolated {
    id: SlotId,
    pfn: Pfn,
}

// SAFETY: 1. The slot is the one reference to a handle's frame, and it names the new one before `migrate` returns `Ok`. 2. In every
//         other case the slot never named it. 3. What is pinned is not moved: `moved` succeeds only on the very word that `begin`
//         made, which a pin changes for good.
unsafe impl<P: PerCpu> Migrate for Arena<P> {
    type Isolated = Isolated;

    fn isolate(&self, pfn: Pfn, _: Mode) -> Result<Isolated, Busy> {
        // What no handle has is a block, whose owner knows its address.
        let id = self.table().owner(pfn).ok_or(Busy::Pinned)?;
        let taken = self.table().update(id, |slot| if slot.pfn() == pfn { slot.isolate() } else { None });
        match taken {
            Some(_) => Ok(Isolated { id, pfn }),
            None if self.table().get(id).pins() > 0 => Err(Busy::Locked),
            None => Err(Busy::Gone),
        }
    }

    fn migrate(&self, from: &mut Isolated, to: Pfn, _: Mode) -> Result<(), MigrateError> {
        let table = self.table();
        let Some(before) = table.update(from.id, Slot::begin) else {
            if table.get(from.id).is_live() {
                return Err(MigrateError::Again);
            }
            // The handle has gone, and its frame with it.
            self.forget(from.id);
            return Err(MigrateError::Gone);
        };
        // `begin` succeeded on this word, and no other compaction has it.
        let moving = Slot(before.0).begin().unwrap_or(before);
        // SAFETY: both frames are the arena's; `to` is this compaction's own.
        unsafe { copy(self.address(from.pfn).as_ptr(), self.address(to).as_ptr()) };
        table.set_owner(to, from.id);
        if let Some(moved) = moving.moved(to)
            && table.swap(from.id, moving, moved)
        {
            return Ok(());
        }
        if table.get(from.id).is_live() {
            return Err(MigrateError::Again);
        }
        self.forget(from.id);
        Err(MigrateError::Gone)
    }

    fn putback(&self, from: Isolated) {
        if let Some(before) = self.table().update(from.id, |slot| Some(slot.put_back()))
            && !before.is_live()
        {
            self.table().release(from.id);
        }
    }
}

impl<P: PerCpu> Arena<P> {
    /// Releases a slot whose handle went while a compaction had it.
    fn forget(&self, id: SlotId) {
        let _ = self.table().update(id, |slot| Some(slot.put_back()));
        self.table().release(id);
    }

    /// Moves the frames of handles together, as far as that makes larger free blocks. Returns how it ended, and what it did.
    ///
    /// Frames that are pinned stay, and so do blocks. It may run at any time, on any thread.
    pub fn compact(&self) -> (Outcome, Work) {
        if self.is_inert() {
            return (Outcome::Skipped, Work::default());
        }
        // What lists hold is neither free nor movable, and in a small arena it is much.
        self.yard().drain(CpuSet::All);
        let done = self.yard().compact_zone_with(&self.cx(), ZoneId(0), self);
        done.unwrap_or((Outcome::Skipped, Work::default()))
    }

    /// Allocates a block, and moves handles out of its way where that is needed.
    ///
    /// # Errors
    /// As [`PageAllocator::alloc`](pageyard::PageAllocator::alloc).
    pub fn alloc_compacting(&self, order: Order) -> Result<crate::Block<'_, P>, AllocError> {
        self.check_alive()?;
        let request = Request::new(order, Migratetype::Movable);
        let pfn = self.yard().alloc_with(&self.cx(), &request, self).map_err(AllocError::from)?;
        Ok(crate::Block::new(self, pfn, order))
    }
}

/// An arena gives nothing up on its own: what it holds is its callers'.
impl<P: PerCpu> Reclaim for Arena<P> {
    fn reclaim(&self, _: &Cx, _: &Shortage) -> Reclaimed {
        Reclaimed::default()
    }

    fn reclaimable(&self, _: ZoneId) -> Frames {
        Frames::ZERO
    }
}

/// Copies a frame that may be written to, freed and handed out again meanwhile: what was copied is then thrown away.
///
/// # Safety
/// Both are frames of mapped memory, and `to` is the caller's own.
unsafe fn copy(from: *const u8, to: *mut u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the caller's promise. In assembly, because a write at the same time would be a data race elsewhere.
    unsafe {
        std::arch::asm!(
            "rep movsb",
            inout("rsi") from => _, inout("rdi") to => _, inout("rcx") PAGE_SIZE => _,
            options(nostack, preserves_flags)
        );
    }
    #[cfg(not(target_arch = "x86_64"))]
    for word in 0..PAGE_SIZE as usize / 8 {
        // SAFETY: the caller's promise. Each word is read once, whatever is written meanwhile.
        unsafe { to.cast::<u64>().add(word).write(from.cast::<u64>().add(word).read_volatile()) };
    }
}
