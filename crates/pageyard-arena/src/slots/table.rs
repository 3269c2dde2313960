//! The slots of an arena's handles, and whose frame is whose.

use super::head::{Head, next_of};
use super::slot::Slot;
use crate::backing::{Backing, BackingError, Mapping};
use pageyard::{BlockId, Frames, PAGE_SIZE, Pfn};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// A handle's number. Slot 0 is none.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct SlotId(pub u32);

/// The slots: twelve bytes for each frame of the arena, of which the host gives memory as handles are made.
///
/// There is a slot for each frame, which is enough: a slot in use has an allocated frame of its own. It is taken after
/// the frame was allocated, and is back on the list before the frame is freed.
#[derive(Debug)]
pub(crate) struct Table {
    memory: Mapping,
    frames: Frames,
    /// The free slots: a [`Head`].
    free: AtomicU64,
}

impl Table {
    /// Makes a table for an arena of so many frames.
    pub(crate) fn new(frames: Frames) -> Result<Table, BackingError> {
        // A slot names frames and slots in 32 bits.
        if frames.0 >= u64::from(u32::MAX) {
            return Err(BackingError::TooLarge { bytes: frames.0.saturating_mul(PAGE_SIZE) as usize });
        }
        // Number 0 is none.
        let slots = frames.0 as usize + 1;
        let memory = Mapping::new(slots * 12, Backing::AnonymousBase)?;
        Ok(Table { memory, frames, free: AtomicU64::new(Head::NEW.0) })
    }

    fn slots(&self) -> &[AtomicU64] {
        // SAFETY: 1. The mapping begins with that many words, aligned to a page, zero at first. 2. Only this type uses
        // it, as atomics.
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

    /// Takes a free slot for a new handle on a block whose first frame has none; none where every slot is in use, which
    /// takes as many handles as frames.
    ///
    /// # Concurrency
    /// Lock-free, and callable in a signal handler.
    pub(crate) fn insert(&self, block: BlockId) -> Option<SlotId> {
        let bits = Head::bits(self.frames.0);
        // ORDER: Acquire pairs with the Release in `release`: the slot's word notes the next one.
        let mut head = Head(self.free.load(Ordering::Acquire));
        let id = loop {
            let first = head.first(bits);
            let word = self.slots().get(first as usize)?;
            // ORDER: Relaxed: if another thread has taken the slot meanwhile, the word is its own, and the head has
            // changed.
            let next = next_of(first, Slot(word.load(Ordering::Relaxed)));
            let after = head.becomes(next & ((1 << bits) - 1), bits);
            // ORDER: Acquire as above, for the next round and for what the slot's last owner did.
            match self.free.compare_exchange_weak(head.0, after.0, Ordering::Acquire, Ordering::Acquire) {
                Ok(_) => break SlotId(first as u32),
                Err(seen) => head = Head(seen),
            }
        };
        // ORDER: Release pairs with the Acquire in `owner`: a thread that finds the number finds the slot in use.
        self.slots()[id.0 as usize].store(Slot::new(block.pfn, block.order).0, Ordering::Release);
        self.set_owner(block.pfn, id);
        Some(id)
    }

    /// Puts a slot on the list that is in no use any more. The frame that it named is freed after this, so that whoever
    /// allocates it finds a slot.
    ///
    /// # Concurrency
    /// Lock-free, and callable in a signal handler.
    pub(crate) fn release(&self, id: SlotId) {
        let bits = Head::bits(self.frames.0);
        // ORDER: Relaxed: only the number of the first free slot is used, and the exchange below checks it.
        let mut head = Head(self.free.load(Ordering::Relaxed));
        loop {
            // ORDER: Relaxed: the exchange below hands it on.
            self.slots()[id.0 as usize].store(Slot::free(head.first(bits)).0, Ordering::Relaxed);
            let after = head.becomes(u64::from(id.0), bits);
            // ORDER: Release pairs with the Acquire in `insert`.
            match self.free.compare_exchange_weak(head.0, after.0, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return,
                Err(seen) => head = Head(seen),
            }
        }
    }

    /// Returns the slot that last said that a frame is its own; the slot says whether it still is.
    pub(crate) fn owner(&self, pfn: Pfn) -> Option<SlotId> {
        // ORDER: Acquire pairs with the Release in `set_owner`.
        let id = self.owners().get(pfn.0 as usize)?.load(Ordering::Acquire);
        (id != 0).then_some(SlotId(id))
    }

    pub(crate) fn set_owner(&self, pfn: Pfn, id: SlotId) {
        // ORDER: Release pairs with the Acquire in `owner`.
        self.owners()[pfn.0 as usize].store(id.0, Ordering::Release);
    }

    pub(crate) fn get(&self, id: SlotId) -> Slot {
        // ORDER: Acquire pairs with the Release half of `update`.
        Slot(self.slots()[id.0 as usize].load(Ordering::Acquire))
    }

    /// Changes a slot by a transition; none, and nothing changed, where the transition is not possible. Returns what it
    /// was.
    pub(crate) fn update(&self, id: SlotId, change: impl Fn(Slot) -> Option<Slot>) -> Option<Slot> {
        let slot = &self.slots()[id.0 as usize];
        // ORDER: AcqRel: the Release half hands on what was written to the frame, or copied to the new one; the Acquire
        // half takes it over from the thread that changed the slot before. Acquire on failure: the caller acts on what
        // it saw.
        slot.fetch_update(Ordering::AcqRel, Ordering::Acquire, |word| change(Slot(word)).map(|new| new.0))
            .ok()
            .map(Slot)
    }

    /// Changes a slot that is exactly this one.
    pub(crate) fn swap(&self, id: SlotId, from: Slot, to: Slot) -> bool {
        // ORDER: AcqRel as above.
        self.slots()[id.0 as usize]
            .compare_exchange(from.0, to.0, Ordering::AcqRel, Ordering::Acquire)
            .is_ok()
    }
}
