//! The clearer of the arena's frames, for its engine.

use crate::clear::{Clearer, Extent, Unit, clear_in};
use pageyard::{Caches, Clear, Order, PAGE_SIZE, Pfn};
use std::ptr::NonNull;

/// A clearer that knows where the arena's memory lies.
#[derive(Debug)]
pub struct Zeros {
    at: NonNull<u8>,
    clearer: Clearer,
}

// SAFETY: it is an address, of memory that any thread may write to as the engine says.
unsafe impl Send for Zeros {}
// SAFETY: as above.
unsafe impl Sync for Zeros {}

impl Zeros {
    /// Makes one for the engine of an arena.
    ///
    /// # Safety
    /// The memory at `at` is mapped as long as that engine lives, and has all of its frames.
    pub(super) unsafe fn new(at: NonNull<u8>, clearer: Clearer) -> Zeros {
        Zeros { at, clearer }
    }

    /// Returns what it clears with.
    #[must_use]
    pub fn clearer(&self) -> &Clearer {
        &self.clearer
    }
}

impl Clear for Zeros {
    fn clear(&self, pfn: Pfn, order: Order, caches: Caches) {
        // SAFETY: the engine clears its own frames only, while no one else uses them.
        let mut extent = unsafe { Extent::at(self.at.add((pfn.0 * PAGE_SIZE) as usize), order.frames()) };
        let primitive = self.clearer.choice(order.frames(), caches);
        let unit = Unit::of_linux(primitive, self.clearer.preemption());
        if order.frames() > unit.frames() && order > Order::ZERO {
            return clear_in(primitive, extent, unit, &mut std::thread::yield_now);
        }
        // SAFETY: the engine calls `fence` before it hands out or frees what was cleared.
        unsafe { primitive.write(&mut extent) };
    }

    fn fence(&self) {
        self.clearer.fence();
    }
}
