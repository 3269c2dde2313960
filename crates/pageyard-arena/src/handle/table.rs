//! The slots of an arena's handles, and whose frame is whose.

use super::slot::Slot;
use crate::backing::{Backing, BackingError, Mapping};
use pageyard::{Frames, Pfn};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// A handle's number. Slot 0 is none.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct SlotId(pub u32);

/// The slots: twelve bytes for each frame of the arena, of which the host gives memory as handles are made.
#[derive(Debug)]
pub(crate) struct Table {
    memory: Mapping,
    frames: Frames,
    free: Mutex<Free>,
}

/// Numbers that are in no use.
#[derive(Debug)]
struct Free {
    /// Given back.
    back: Vec<u32>,
    /// Never used from here on.
    next: u32,
}

impl Table {
    /// Makes a table for an arena of so many frames.
    pub(crate) fn new(frames: Frames) -> Result<Table, BackingError> {
        // A handle has a frame, so there are no more of them; and number 0.
        let slots = frames.0 as usize + 1;
        let memory = Mapping::new(slots * 12, Backing::AnonymousBase)?;
        Ok(Table { memory, frames, free: Mutex::new(Free { back: Vec::new(), next: 1 }) })
    }

    fn slots(&self) -> &[AtomicU64] {
        // SAFETY: 1. The mapping begins with that many words, aligned to a page, zero at first. 2. Only this type uses it, as atomics.
        unsafe { std::slice::from_raw_parts(self.memory.start().as_ptr().cast(), self.frames.0 as usize + 1) }
    }

    fn owners(&self) -> &[AtomicU32] {
        let slots = self.frames.0 as usize + 1;
        // SAFETY: as above; they lie behind the slots.
        unsafe {
            let at = self.memory.start().as_ptr().add(slots * 8).cast();
            std::slice::from_raw_parts(at, self.frames.0 as usize)
        }
    }

    /// Makes the slot of a new handle.
    pub(super) fn insert(&self, pfn: Pfn) -> SlotId {
        let id = {
            let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
            free.back.pop().unwrap_or_else(|| {
                free.next += 1;
                free.next - 1
            })
        };
        // ORDER: Release pairs with the Acquire in `owner`: a thread that finds the number finds the slot in use.
        self.slots()[id as usize].store(Slot::new(pfn).0, Ordering::Release);
        self.set_owner(pfn, SlotId(id));
        SlotId(id)
    }

    /// Says that a slot is in no use.
    pub(super) fn release(&self, id: SlotId) {
        self.free.lock().unwrap_or_else(PoisonError::into_inner).back.push(id.0);
    }

    /// Returns the slot that last said that a frame is its own; the slot says whether it still is.
    pub(super) fn owner(&self, pfn: Pfn) -> Option<SlotId> {
        // ORDER: Acquire pairs with the Release in `set_owner`.
        let id = self.owners().get(pfn.0 as usize)?.load(Ordering::Acquire);
        (id != 0).then_some(SlotId(id))
    }

    pub(super) fn set_owner(&self, pfn: Pfn, id: SlotId) {
        // ORDER: Release pairs with the Acquire in `owner`.
        self.owners()[pfn.0 as usize].store(id.0, Ordering::Release);
    }

    pub(super) fn get(&self, id: SlotId) -> Slot {
        // ORDER: Acquire pairs with the Release half of `update`.
        Slot(self.slots()[id.0 as usize].load(Ordering::Acquire))
    }

    /// Changes a slot by a transition; none, and nothing changed, where the transition is not possible. Returns what it was.
    pub(super) fn update(&self, id: SlotId, change: impl Fn(Slot) -> Option<Slot>) -> Option<Slot> {
        let slot = &self.slots()[id.0 as usize];
        // ORDER: AcqRel: the Release half hands on what was written to the frame, or copied to the new one; the Acquire half takes it
        // over from the thread that changed the slot before. Acquire on failure: the caller acts on what it saw.
        slot.fetch_update(Ordering::AcqRel, Ordering::Acquire, |word| change(Slot(word)).map(|new| new.0))
            .ok()
            .map(Slot)
    }

    /// Changes a slot that is exactly this one.
    pub(super) fn swap(&self, id: SlotId, from: Slot, to: Slot) -> bool {
        // ORDER: AcqRel as above.
        self.slots()[id.0 as usize]
            .compare_exchange(from.0, to.0, Ordering::AcqRel, Ordering::Acquire)
            .is_ok()
    }
}
