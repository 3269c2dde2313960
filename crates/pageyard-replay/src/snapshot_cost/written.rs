//! The chunks that are written to, interval by interval.

use pageyard::PAGE_SIZE;
use pageyard_trace::contents::{CHUNKS, DirtiedDocument};
use std::collections::HashSet;
use std::time::Duration;

/// The chunks of each size that are written to.
pub(super) struct Written {
    /// Nanoseconds of an interval, and the number of the one under way.
    each: u64,
    at: u64,
    dirtied: [Dirtied; 3],
}

impl Written {
    /// Begins with the first interval of this length.
    pub(super) fn by(interval: Duration) -> Written {
        Written { each: interval.as_nanos().max(1) as u64, at: 0, dirtied: CHUNKS.map(Dirtied::of) }
    }

    /// Ends the interval under way if a time is after it.
    pub(super) fn until(&mut self, time_ns: u64) {
        let now = time_ns / self.each;
        if now != self.at {
            self.at = now;
            self.dirtied.iter_mut().for_each(Dirtied::end_interval);
        }
    }

    /// Notes that frames are written to: allocated, or moved to.
    pub(super) fn add(&mut self, pfn: u64, frames: u64, is_move: bool) {
        self.dirtied.iter_mut().for_each(|of| of.add(pfn, frames, is_move));
    }

    /// Ends the last interval of a recording of this length.
    pub(super) fn finish(mut self, duration_ns: u64) -> Vec<DirtiedDocument> {
        let intervals = duration_ns.max(1).div_ceil(self.each);
        self.dirtied.iter_mut().for_each(Dirtied::end_interval);
        self.dirtied.iter().map(|of| of.document(intervals)).collect()
    }
}

/// The chunks of one size that were written to.
struct Dirtied {
    frames: u64,
    allocated: HashSet<u64>,
    moved_to: HashSet<u64>,
    all: HashSet<u64>,
    /// Added up over intervals.
    by_allocations: u64,
    by_moves: u64,
}

impl Dirtied {
    fn of(frames: u64) -> Dirtied {
        let none = HashSet::new;
        Dirtied { frames, allocated: none(), moved_to: none(), all: none(), by_allocations: 0, by_moves: 0 }
    }

    fn add(&mut self, pfn: u64, frames: u64, is_move: bool) {
        let chunks = pfn / self.frames..=pfn.saturating_add(frames - 1) / self.frames;
        if is_move { self.moved_to.extend(chunks) } else { self.allocated.extend(chunks) }
    }

    fn end_interval(&mut self) {
        self.by_allocations += self.allocated.len() as u64;
        self.by_moves += self.moved_to.difference(&self.allocated).count() as u64;
        self.all.extend(self.allocated.drain());
        self.all.extend(self.moved_to.drain());
    }

    fn document(&self, intervals: u64) -> DirtiedDocument {
        DirtiedDocument {
            bytes: self.frames * PAGE_SIZE,
            by_allocations: self.by_allocations as f64 / intervals as f64,
            by_moves: self.by_moves as f64 / intervals as f64,
            in_all: self.all.len() as u64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chunk_counts_once_an_interval_and_for_moves_only_where_nothing_was_allocated() {
        let mut huge = Dirtied::of(512);
        huge.add(3, 1, false);
        huge.add(500, 16, false);
        huge.add(513, 1, true);
        huge.add(2048, 1, true);
        huge.end_interval();
        assert_eq!((huge.by_allocations, huge.by_moves), (2, 1));
        huge.add(4, 1, true);
        huge.end_interval();
        let document = huge.document(2);
        assert_eq!((document.by_allocations, document.by_moves, document.in_all), (1.0, 1.0, 3));
    }
}
