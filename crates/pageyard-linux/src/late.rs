//! Blocks that were freed while the zone lock was held by another, by a caller that may not wait for it. Layer: parts
//! of a zone.
//!
//! Such a block is tagged [`Late`](crate::tag::Tag::Late), and its pageblock is marked here. The next free that takes
//! the zone lock for itself looks through the marked pageblocks and gives their late blocks to the free lists. Nothing
//! is linked, so a free in the middle of anything costs two atomic instructions and no memory beyond a bit a pageblock.

use pageyard_core::PAGEBLOCK_ORDER;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Which pageblocks of a zone have late blocks.
pub struct Late {
    /// Whether any has, or had a moment ago.
    any: AtomicBool,
    /// A bit for each pageblock from the zone's first on.
    marks: Vec<AtomicU64>,
}

impl Late {
    /// Makes the marks of a zone with so many frames from the start of its first pageblock on.
    pub fn new(frames: u64) -> Late {
        let words = frames.div_ceil(PAGEBLOCK_ORDER.frames().0).div_ceil(64) as usize;
        Late {
            any: AtomicBool::new(false),
            marks: std::iter::repeat_with(AtomicU64::default).take(words).collect(),
        }
    }

    /// Marks the zone's `n`th pageblock. The block is tagged already.
    pub fn mark(&self, n: u64) {
        // ORDER: Release pairs with the Acquire of `take`: who takes the mark sees the tag that was written before it.
        self.marks[(n / 64) as usize].fetch_or(1 << (n % 64), Ordering::Release);
        // ORDER: Release pairs with the Acquire of `any`: who sees that there are marks sees this one.
        self.any.store(true, Ordering::Release);
    }

    /// Returns whether a pageblock may be marked.
    #[inline]
    pub fn any(&self) -> bool {
        // ORDER: Acquire: see `mark`. A mark that is seen late waits for the next free.
        self.any.load(Ordering::Acquire)
    }

    /// Takes all marks: calls `each` with the number of every pageblock that had one.
    pub fn take(&self, mut each: impl FnMut(u64)) {
        // ORDER: AcqRel: a mark that is set after this sets `any` again; one that was set before is seen below.
        self.any.swap(false, Ordering::AcqRel);
        for (word, at) in self.marks.iter().zip(0u64..) {
            // ORDER: Relaxed: most words are empty; what counts is the swap.
            if word.load(Ordering::Relaxed) == 0 {
                continue;
            }
            // ORDER: Acquire pairs with the Release of `mark`.
            let mut left = word.swap(0, Ordering::Acquire);
            while left != 0 {
                each(at * 64 + u64::from(left.trailing_zeros()));
                left &= left - 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(late: &Late) -> Vec<u64> {
        let mut all = Vec::new();
        late.take(|n| all.push(n));
        all
    }

    #[test]
    fn marks_are_taken_once_whatever_their_word() {
        let late = Late::new(130 * 512);
        assert!(!late.any());
        [129, 0, 63, 64, 0].into_iter().for_each(|n| late.mark(n));
        assert!(late.any());
        assert_eq!(taken(&late), [0, 63, 64, 129]);
        assert!(!late.any());
        assert_eq!(taken(&late), []);
    }

    #[test]
    fn a_mark_set_while_marks_are_taken_is_not_lost() {
        let late = Late::new(512 * 64);
        let (mut seen, rounds) = (0u64, 20_000u64);
        // One mark at a time is out: the next is set when it was seen.
        let acknowledged = AtomicU64::new(0);
        std::thread::scope(|s| {
            let (late, acknowledged) = (&late, &acknowledged);
            s.spawn(move || {
                for round in 0..rounds {
                    late.mark(round % 64);
                    while acknowledged.load(Ordering::Acquire) <= round {
                        std::thread::yield_now();
                    }
                }
            });
            while seen < rounds {
                if late.any() {
                    late.take(|n| {
                        assert_eq!(n, seen % 64);
                        seen += 1;
                        acknowledged.store(seen, Ordering::Release);
                    });
                }
                std::thread::yield_now();
            }
        });
        assert!(taken(&late).is_empty());
    }
}
