//! The CPUs that own pageblocks, with `pcp_owners`. Layer: parts of a zone.
//!
//! A CPU owns the pageblocks that it claimed whole from the zone, until every frame of them is back there. A pageblock
//! with a frame that somebody holds therefore keeps its owner, and so does one with a frame in a CPU's list.

use pageyard_core::{Order, PAGEBLOCK_ORDER, Pfn, ZoneSpan, block};
use std::sync::atomic::{AtomicU32, Ordering};

/// Returns the word of a pageblock that a CPU owns.
const fn owned_by(cpu: usize) -> u32 {
    cpu as u32 + 1
}

/// Set while the pageblock is among those of which its owner gave parts back to the zone.
const RETURNED: u32 = 1 << 31;

/// Who owns each pageblock of a zone. Every frame passed in must be of the zone.
pub struct Owners {
    /// The number of the zone's first pageblock.
    first: u64,
    /// For each pageblock its owner's number plus one, with [`RETURNED`]; 0 without an owner. Empty where `pcp_owners`
    /// is off.
    words: Vec<AtomicU32>,
}

// ORDER: Relaxed throughout: a word is written under the zone lock alone. A free reads it without, but then its owner
// does not change, and it was written before the frame was handed out.
impl Owners {
    /// Returns the table of a zone whose pageblocks never have owners.
    pub fn none() -> Owners {
        Owners { first: 0, words: Vec::new() }
    }

    /// Returns the table of a zone, without an owner yet.
    pub fn new(span: &ZoneSpan) -> Owners {
        let first = span.start.pageblock().0;
        let count = ((span.end().0 - 1) / PAGEBLOCK_ORDER.frames().0 + 1 - first) as usize;
        Owners { first, words: std::iter::repeat_with(AtomicU32::default).take(count).collect() }
    }

    /// Returns whether a pageblock can have an owner.
    #[inline]
    pub fn exist(&self) -> bool {
        !self.words.is_empty()
    }

    fn word(&self, pfn: Pfn) -> &AtomicU32 {
        &self.words[(pfn.pageblock().0 - self.first) as usize]
    }

    /// Returns the CPU that owns the frame's pageblock.
    #[cold]
    pub fn of(&self, pfn: Pfn) -> Option<usize> {
        if !self.exist() {
            return None;
        }
        (self.word(pfn).load(Ordering::Relaxed) & !RETURNED).checked_sub(1).map(|cpu| cpu as usize)
    }

    /// Returns the CPU to whose lists a frame is freed: the owner of its pageblock, or else the one that frees it.
    #[inline]
    pub fn lists_for(&self, pfn: Pfn, freeing: usize) -> usize {
        if self.exist() { self.of(pfn).unwrap_or(freeing) } else { freeing }
    }

    /// Returns the CPU to whose lists the first frame is freed, and how many from it on are of the zone and go there
    /// too.
    #[inline]
    pub fn run_for(&self, pfns: &[Pfn], span: &ZoneSpan, freeing: usize) -> (usize, usize) {
        if !self.exist() {
            return (freeing, pfns.len());
        }
        let cpu = self.lists_for(pfns[0], freeing);
        let go_there = |pfn: &&Pfn| span.spans(**pfn) && self.lists_for(**pfn, freeing) == cpu;
        (cpu, pfns.iter().take_while(go_there).count())
    }

    /// Gives a pageblock to a CPU. The zone lock is held, as below.
    pub fn own(&self, pfn: Pfn, cpu: usize) {
        self.word(pfn).store(owned_by(cpu), Ordering::Relaxed);
    }

    /// Ends the ownership of every pageblock of a free block.
    pub fn end(&self, pfn: Pfn, order: Order) {
        if self.exist() {
            for part in block::blocks(pfn, order.frames(), PAGEBLOCK_ORDER) {
                self.word(part.pfn).store(0, Ordering::Relaxed);
            }
        }
    }

    /// Ends the ownership of all pageblocks.
    pub fn end_all(&self) {
        self.words.iter().for_each(|word| word.store(0, Ordering::Relaxed));
    }

    /// Notes that a CPU gave a part of a pageblock back. Returns whether it owns the pageblock and that was not noted
    /// yet.
    pub fn note_returned(&self, pfn: Pfn, cpu: usize) -> bool {
        let notes = self.exist() && self.word(pfn).load(Ordering::Relaxed) == owned_by(cpu);
        if notes {
            self.word(pfn).store(owned_by(cpu) | RETURNED, Ordering::Relaxed);
        }
        notes
    }

    /// Returns whether a CPU owns the pageblock, and gave parts of it back.
    pub fn is_returned(&self, pfn: Pfn, cpu: usize) -> bool {
        self.exist() && self.word(pfn).load(Ordering::Relaxed) == owned_by(cpu) | RETURNED
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pageyard_core::{Frames, NodeId, ZoneKind};

    #[test]
    fn a_pageblock_is_noted_once_and_only_for_its_owner() {
        let span = ZoneSpan {
            node: NodeId(0),
            kind: ZoneKind::Normal,
            start: Pfn(1024),
            spanned: Frames(2048),
            present: Frames(2048),
            managed: Frames(2048),
        };
        let owners = Owners::new(&span);
        let (block, inside) = (Pfn(1536), Pfn(1600));
        assert_eq!((owners.of(inside), owners.lists_for(inside, 1)), (None, 1));
        owners.own(block, 0);
        assert_eq!((owners.of(inside), owners.lists_for(inside, 1)), (Some(0), 0));
        assert!(!owners.note_returned(inside, 1), "another CPU gave it back");
        assert!(owners.note_returned(inside, 0) && !owners.note_returned(inside, 0));
        assert!(owners.is_returned(block, 0) && !owners.is_returned(block, 1));
        assert_eq!(owners.of(inside), Some(0));
        owners.end(Pfn(1024), Order::of(10));
        assert_eq!(owners.of(inside), None);
        assert!(!owners.is_returned(block, 0));
    }
}
