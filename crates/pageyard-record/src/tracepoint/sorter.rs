//! Putting events in order, in bounded memory.

use std::path::Path;

use pageyard_trace::TraceError;

use super::entry::Entry;
use super::spill::Spill;

/// Entries that wait in memory at most: 48 MiB, and as much again while they are sorted.
const MAX_WAITING: usize = 1 << 20;

/// Entries that must wait before it is worth checking whether some can go.
const WORTH: usize = 64 << 10;

/// Orders entries that arrive in rounds.
///
/// A round is one pass over all CPUs' buffers. An event of the round after next is never earlier than one of this
/// round: it was written after every buffer had been looked at. So everything up to the last event of the round before
/// can go. This is how `perf` orders its files; where rounds are missing or too long for memory, sorted pieces go to a
/// file and are merged at the end.
///
/// Events of the same time are ordered by CPU, and those of one CPU as they happened.
pub(crate) struct Sorter {
    waiting: Vec<Entry>,
    /// The latest event of the last complete round, and of all.
    last_round: u64,
    latest: u64,
    /// The bound of what can go: the latest event of the round before the last complete one.
    may_go: u64,
    /// The time of the last entry that went.
    gone: u64,
    /// Entries that came after later ones had gone.
    late: u64,
    spill: Option<Spill>,
    limit: usize,
}

impl Sorter {
    /// Makes a sorter.
    pub(crate) fn new() -> Sorter {
        Sorter::with_limit(MAX_WAITING)
    }

    fn with_limit(limit: usize) -> Sorter {
        Sorter {
            waiting: Vec::new(),
            last_round: 0,
            latest: 0,
            may_go: 0,
            gone: 0,
            late: 0,
            spill: None,
            limit,
        }
    }

    /// Returns how many entries came too late to be sorted in; they carry their successors' time.
    pub(crate) fn late(&self) -> u64 {
        self.late
    }

    /// Returns whether no more entries should be pushed before [`Sorter::relieve`] is called.
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.waiting.len() >= self.limit
    }

    /// Takes in an entry.
    #[inline]
    pub(crate) fn push(&mut self, mut entry: Entry) {
        if entry.time < self.gone {
            entry.time = self.gone;
            self.late += 1;
        }
        self.latest = self.latest.max(entry.time);
        self.waiting.push(entry);
    }

    /// Ends a round, and hands over what can go.
    pub(crate) fn end_round(&mut self, out: &mut impl FnMut(&[Entry])) {
        self.may_go = self.last_round;
        self.last_round = self.latest;
        if self.spill.is_none() && self.waiting.len() >= WORTH.min(self.limit) {
            self.let_go(out);
        }
    }

    fn let_go(&mut self, out: &mut impl FnMut(&[Entry])) {
        sort(&mut self.waiting);
        let end = self.waiting.partition_point(|e| e.time <= self.may_go);
        if let Some(last) = end.checked_sub(1) {
            self.gone = self.waiting[last].time;
            out(&self.waiting[..end]);
            self.waiting.drain(..end);
        }
    }

    /// Makes room: hands over what can go and, where that is not enough, moves a sorted piece to a file in `folder`.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub(crate) fn relieve(
        &mut self,
        folder: &Path,
        out: &mut impl FnMut(&[Entry]),
    ) -> Result<(), TraceError> {
        if self.spill.is_none() {
            self.let_go(out);
            if self.waiting.len() < self.limit / 2 {
                return Ok(());
            }
        }
        sort(&mut self.waiting);
        let spill = match &mut self.spill {
            Some(spill) => spill,
            none => none.insert(Spill::create(folder)?),
        };
        spill.add(&self.waiting)?;
        self.waiting.clear();
        Ok(())
    }

    /// Hands over all that is left.
    ///
    /// # Errors
    /// When the file of sorted pieces cannot be read.
    pub(crate) fn finish(&mut self, out: &mut impl FnMut(&[Entry])) -> Result<(), TraceError> {
        sort(&mut self.waiting);
        match self.spill.take() {
            None => out(&self.waiting),
            Some(mut spill) => {
                spill.add(&self.waiting)?;
                // Its memory is needed for merging.
                self.waiting = Vec::new();
                spill.merge(out)?;
            }
        }
        self.waiting = Vec::new();
        Ok(())
    }
}

/// Sorts entries; those of one time and CPU keep their order. Buffers are already sorted, and the sort of the
/// standard library takes runs as it finds them.
fn sort(entries: &mut [Entry]) {
    entries.sort_by_key(|e| (e.time, e.cpu));
}

#[cfg(test)]
mod tests {
    use super::super::known::Known;
    use super::*;

    fn entry(time: u64, cpu: u32, pfn: u64) -> Entry {
        Entry {
            time,
            pfn,
            to: 0,
            a: 0,
            b: 0,
            cpu,
            tid: 0,
            known: Known::Free,
            order: 0,
            migratetype: -1,
            flags: 0,
        }
    }

    fn times(entries: &[Entry]) -> Vec<u64> {
        entries.iter().map(|e| e.time).collect()
    }

    /// The example of perf's own documentation.
    #[test]
    fn rounds_let_go_what_nothing_can_precede_any_more() {
        let mut sorter = Sorter::with_limit(1);
        let mut gone = Vec::new();
        for (round, expected) in [
            (&[(1, 0), (2, 0), (2, 1), (3, 1), (4, 1)][..], &[][..]),
            (&[(3, 0), (4, 0), (5, 0), (5, 1), (6, 1), (7, 1)], &[1, 2, 2, 3, 3, 4, 4]),
            (&[(6, 0), (8, 1), (9, 1), (10, 1)], &[5, 5, 6, 6, 7]),
        ] {
            for &(time, cpu) in round {
                sorter.push(entry(time, cpu, 0));
            }
            gone.clear();
            sorter.end_round(&mut |e| gone.extend_from_slice(e));
            assert_eq!(times(&gone), expected);
        }
        gone.clear();
        sorter.finish(&mut |e| gone.extend_from_slice(e)).unwrap();
        assert_eq!(times(&gone), [8, 9, 10]);
        assert_eq!(sorter.late(), 0);
    }

    #[test]
    fn ties_keep_the_order_of_their_cpu() {
        let mut sorter = Sorter::new();
        for (pfn, cpu) in [(3, 1), (9, 0), (1, 1), (5, 0)] {
            sorter.push(entry(7, cpu, pfn));
        }
        let mut gone = Vec::new();
        sorter.finish(&mut |e| gone.extend(e.iter().map(|e| e.pfn))).unwrap();
        assert_eq!(gone, [9, 5, 3, 1]);
    }

    #[test]
    fn what_comes_too_late_is_counted_and_moved() {
        let mut sorter = Sorter::with_limit(1);
        let mut gone = Vec::new();
        for time in [10, 20, 30] {
            sorter.push(entry(time, 0, 0));
            sorter.end_round(&mut |e| gone.extend_from_slice(e));
        }
        sorter.push(entry(5, 0, 0));
        sorter.finish(&mut |e| gone.extend_from_slice(e)).unwrap();
        assert_eq!(times(&gone), [10, 20, 20, 30]);
        assert_eq!(sorter.late(), 1);
    }

    #[test]
    fn without_rounds_pieces_go_to_a_file_and_are_merged() {
        let folder = tempfile::tempdir().unwrap();
        let mut sorter = Sorter::with_limit(100);
        let mut gone = Vec::new();
        let mut random = 1u64;
        for i in 0..1050 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            if sorter.is_full() {
                sorter.relieve(folder.path(), &mut |e| gone.extend_from_slice(e)).unwrap();
            }
            sorter.push(entry(random >> 40, (i % 3) as u32, i));
        }
        assert!(gone.is_empty());
        sorter.finish(&mut |e| gone.extend_from_slice(e)).unwrap();
        assert_eq!(gone.len(), 1050);
        assert!(gone.is_sorted_by_key(|e| (e.time, e.cpu)));
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "the file has to be gone");
    }
}
