//! What comes back from other CPUs: pages one by one, and in batches.

use crate::batch_ring::{BATCH, BatchRing};
use crate::ring::Ring;
use pageyard_sync::Carver;

/// The two rings of a pool.
pub(crate) struct Returns<'m> {
    pub pages: Ring<'m>,
    pub batches: BatchRing<'m>,
}

impl<'m> Returns<'m> {
    /// Makes rings of so many slots each: a power of two.
    pub fn carve(slots: usize, carver: &mut Carver<'m>) -> Returns<'m> {
        Returns { pages: Ring::new(carver.zeroed(slots)), batches: BatchRing::carve(slots, carver) }
    }

    /// Takes numbers from where the hints lead; returns how many. For the one reader.
    pub fn take(&self, out: &mut [u32; BATCH]) -> usize {
        match self.batches.take(out) {
            0 => self.pages.take(out),
            got => got,
        }
    }

    /// Takes numbers, wherever they lie. For the one reader.
    pub fn take_anywhere(&self, out: &mut [u32; BATCH]) -> usize {
        match self.batches.take_anywhere(out) {
            0 => self.pages.take_anywhere(out),
            got => got,
        }
    }

    /// Takes every number there is, for the consumer that has closed the pool, while others may write.
    pub fn sweep(&self, mut each: impl FnMut(&[u32])) {
        self.batches.seal(&mut each);
        // Last: a writer whose batch finds no group goes page by page.
        self.pages.sweep(|number| each(&[number]));
    }

    /// Returns whether a number is there. No one writes meanwhile.
    pub fn holds(&self, number: u32) -> bool {
        self.pages.holds(number) || self.batches.holds(number)
    }

    /// Counts what is there.
    pub fn count(&self) -> usize {
        self.pages.count() + self.batches.count()
    }
}
