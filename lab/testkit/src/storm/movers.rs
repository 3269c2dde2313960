//! The shared owner: single frames that any thread may free, compaction may move, and reclaim may take.
//!
//! A slot is one content. The frame that holds it has the slot's number as its owner, so that a content that is lost or
//! in two places shows.

use pageyard::Pfn;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::SeqCst};

/// The state of a slot's content: at rest, isolated by compaction, or being changed by a thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u64)]
pub(super) enum Content {
    /// It can be freed and isolated.
    Rests = 1,
    /// Compaction has it.
    Isolated = 2,
    /// A thread puts it in, or takes it out.
    Busy = 3,
}

const EMPTY: u64 = 0;

fn word(pfn: Pfn, content: Content) -> u64 {
    pfn.0 << 2 | content as u64
}

/// The slots.
pub(super) struct Movers {
    slots: Box<[AtomicU64]>,
    /// The slot that last held each frame.
    of_frame: Box<[AtomicU32]>,
}

impl Movers {
    pub(super) fn new(slots: usize, frames: u64) -> Movers {
        Movers {
            slots: (0..slots).map(|_| AtomicU64::new(EMPTY)).collect(),
            of_frame: (0..frames).map(|_| AtomicU32::new(u32::MAX)).collect(),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.slots.len()
    }

    /// Looks for an empty slot from `start`, and holds it for `pfn`.
    pub(super) fn reserve(&self, start: usize, pfn: Pfn) -> Option<u32> {
        (0..16).map(|n| (start + n) % self.slots.len()).find_map(|at| {
            let slot = &self.slots[at];
            let won = slot.compare_exchange(EMPTY, word(pfn, Content::Busy), SeqCst, SeqCst).is_ok();
            won.then_some(at as u32)
        })
    }

    /// Shows what a reserved slot holds, from now on at rest.
    pub(super) fn settle(&self, at: u32, pfn: Pfn) {
        self.of_frame[pfn.0 as usize].store(at, SeqCst);
        self.slots[at as usize].store(word(pfn, Content::Rests), SeqCst);
    }

    /// Takes a content that rests, from `start` on; the slot stays busy until [`Movers::clear`].
    pub(super) fn take(&self, start: usize, wanted: impl Fn(Pfn) -> bool) -> Option<(u32, Pfn)> {
        (0..16).map(|n| (start + n) % self.slots.len()).find_map(|at| {
            let old = self.slots[at].load(SeqCst);
            let pfn = Pfn(old >> 2);
            if old & 3 != Content::Rests as u64 || !wanted(pfn) {
                return None;
            }
            let busy = word(pfn, Content::Busy);
            self.slots[at].compare_exchange(old, busy, SeqCst, SeqCst).is_ok().then_some((at as u32, pfn))
        })
    }

    /// Empties a slot.
    pub(super) fn clear(&self, at: u32) {
        self.slots[at as usize].store(EMPTY, SeqCst);
    }

    /// Isolates a frame, if a slot has it and it rests.
    pub(super) fn isolate(&self, pfn: Pfn) -> Option<u32> {
        let at = self.of_frame.get(pfn.0 as usize)?.load(SeqCst);
        let slot = self.slots.get(at as usize)?;
        let (from, to) = (word(pfn, Content::Rests), word(pfn, Content::Isolated));
        slot.compare_exchange(from, to, SeqCst, SeqCst).is_ok().then_some(at)
    }

    /// Puts an isolated frame back; `false` where it is not isolated.
    pub(super) fn put_back(&self, at: u32, pfn: Pfn) -> bool {
        let (from, to) = (word(pfn, Content::Isolated), word(pfn, Content::Rests));
        self.slots[at as usize].compare_exchange(from, to, SeqCst, SeqCst).is_ok()
    }

    /// Returns what the slots hold, while nothing runs.
    pub(super) fn contents(&self) -> Vec<(u32, Pfn, bool)> {
        let full = self.slots.iter().enumerate().filter_map(|(at, slot)| {
            let old = slot.load(SeqCst);
            (old != EMPTY).then_some((at as u32, Pfn(old >> 2), old & 3 == Content::Rests as u64))
        });
        full.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_content_is_isolated_or_taken_but_not_both() {
        let movers = Movers::new(20, 8);
        let at = movers.reserve(3, Pfn(5)).unwrap();
        assert_eq!(movers.isolate(Pfn(5)), None);
        movers.settle(at, Pfn(5));
        assert_eq!(movers.isolate(Pfn(5)), Some(at));
        assert_eq!(movers.take(3, |_| true), None);
        assert!(movers.put_back(at, Pfn(5)) && !movers.put_back(at, Pfn(5)));
        assert_eq!(movers.take(0, |pfn| pfn == Pfn(5)), Some((at, Pfn(5))));
        assert_eq!(movers.isolate(Pfn(5)), None);
        movers.clear(at);
        assert!(movers.contents().is_empty());
    }
}
