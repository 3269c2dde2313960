//! Moving the owners' frames: which can be moved, and the move itself, which here is a change of the table.
#![allow(unsafe_code, reason = "the owner of movable frames promises to have moved them")]

use super::ends;
use super::object::{Role, flag};
use super::owners::Owners;
use crate::engine::ReplayEngine;
use pageyard::compaction::{Busy, Migrate, MigrateError, Mode, Step};
use pageyard::{BlockId, Order, Pfn, PressureAllocator, ZoneId};

/// A frame that compaction has taken out of use, or a block of several.
#[derive(Debug)]
pub struct IsolatedFrame(u32);

// SAFETY: a frame is named by the table alone, and `FrameTable::moved` changes the one name there is before `migrate`
// returns `Ok`; in every other case the table does not know the new frame.
unsafe impl<E: PressureAllocator + ReplayEngine> Migrate for Owners<'_, E> {
    type Isolated = IsolatedFrame;

    fn isolate(&self, pfn: Pfn, mode: Mode) -> Result<IsolatedFrame, Busy> {
        self.isolate_block(BlockId { pfn, order: Order::ZERO }, mode)
    }

    fn isolate_block(&self, block: BlockId, mode: Mode) -> Result<IsolatedFrame, Busy> {
        let mut table = self.frames();
        let id = table.find(block.pfn).filter(|id| table.get(*id).order == block.order).ok_or(Busy::Gone)?;
        let object = table.get(id);
        if !object.role.is_movable() || object.is(flag::PINNED) {
            return Err(Busy::Pinned);
        }
        if object.is(flag::ISOLATED) || (object.is(flag::WRITEBACK) && mode == Mode::Async) {
            return Err(Busy::Locked);
        }
        let cache = object.role == Role::Cache;
        table.isolate(id);
        if cache && mode == Mode::Async && table.rng.f64() < self.shares().locked {
            table.set(id, flag::LOCKED, true);
        }
        Ok(IsolatedFrame(id))
    }

    fn migrate(&self, from: &mut IsolatedFrame, to: Pfn, mode: Mode) -> Result<(), MigrateError> {
        let mut table = self.frames();
        let object = table.get(from.0);
        if object.is(flag::GONE) {
            table.forget(from.0, flag::ISOLATED);
            return Err(MigrateError::Gone);
        }
        // A caller that may wait gets the lock in the end; only one that may wait for the disk gets a page that is
        // being written.
        if object.is(flag::LOCKED) && mode == Mode::Async {
            return Err(MigrateError::Again);
        }
        if object.is(flag::WRITEBACK) && mode != Mode::Sync {
            return Err(MigrateError::Refused);
        }
        table.moved(from.0, to);
        Ok(())
    }

    fn must_yield(&self) -> bool {
        self.is_cpu_wanted()
    }

    /// The table's lock stands for that of the lists.
    fn lists_are_locked(&self, _: ZoneId) -> bool {
        self.is_table_locked()
    }

    fn step(&self, step: Step) {
        ends::note(step);
    }

    fn putback(&self, from: IsolatedFrame) {
        let mut table = self.frames();
        match table.get(from.0).is(flag::GONE) {
            true => table.forget(from.0, flag::ISOLATED),
            false => table.put_back(from.0),
        }
    }
}
