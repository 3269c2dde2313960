//! A thread's last operations: a ring to which its signal handlers write too.

use super::kinds::Kind;
use pageyard::{Order, PAGEBLOCK_ORDER, Pfn};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::time::Instant;

/// Operations that a ring holds.
const LENGTH: usize = 2048;
/// Stands for no frame.
const NOWHERE: u64 = u64::MAX;

/// How an operation ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(super) enum End {
    /// It has not.
    Open,
    /// It was done.
    Done,
    /// It was refused.
    Refused,
}

/// One operation: when it began and ended, what it was, and the frame that it was about.
#[derive(Default)]
struct Entry {
    begin: AtomicU64,
    end: AtomicU64,
    what: AtomicU64,
    pfn: AtomicU64,
}

/// The ring of one thread.
pub(super) struct Journal {
    start: Instant,
    next: AtomicU32,
    entries: Box<[Entry]>,
}

impl Journal {
    pub(super) fn new(start: Instant) -> Journal {
        Journal { start, next: AtomicU32::new(0), entries: (0..LENGTH).map(|_| Entry::default()).collect() }
    }

    fn now(&self) -> u64 {
        self.start.elapsed().as_nanos() as u64
    }

    /// Records that an operation begins; returns its place.
    // ORDER: Relaxed, here and below: it is read after its thread has ended.
    pub(super) fn begin(&self, kind: Kind, pfn: Option<Pfn>, order: Order, handler: bool) -> usize {
        let at = self.next.fetch_add(1, Relaxed) as usize % LENGTH;
        let entry = &self.entries[at];
        let what = kind as u64 | u64::from(order.get()) << 8 | u64::from(handler) << 24;
        entry.begin.store(self.now(), Relaxed);
        entry.end.store(0, Relaxed);
        entry.what.store(what, Relaxed);
        entry.pfn.store(pfn.map_or(NOWHERE, |p| p.0), Relaxed);
        at
    }

    /// Writes down how it ended, and where.
    pub(super) fn end(&self, at: usize, pfn: Option<Pfn>, end: End) {
        let entry = &self.entries[at];
        if let Some(pfn) = pfn {
            entry.pfn.store(pfn.0, Relaxed);
        }
        entry.what.store(entry.what.load(Relaxed) | (end as u64) << 16, Relaxed);
        entry.end.store(self.now(), Relaxed);
    }

    /// Writes down an operation that is over.
    pub(super) fn note(&self, kind: Kind, pfn: Pfn, order: Order, end: End) {
        let at = self.begin(kind, Some(pfn), order, false);
        self.end(at, None, end);
    }

    /// Returns what concerned the pageblock of a frame, or anything, with the time it began.
    pub(super) fn about(&self, thread: usize, pfn: Option<u64>) -> Vec<(u64, String)> {
        let size = PAGEBLOCK_ORDER.frames().0;
        let mut lines = Vec::new();
        for entry in &self.entries {
            let (begin, end) = (entry.begin.load(Relaxed), entry.end.load(Relaxed));
            let (what, at) = (entry.what.load(Relaxed), entry.pfn.load(Relaxed));
            let Some(kind) = Kind::of(what as u8).filter(|_| begin > 0) else { continue };
            let order = Order::of((what >> 8) as u8);
            let here = |pfn: u64| {
                at != NOWHERE && at / size <= pfn / size && pfn / size <= (at + order.frames().0 - 1) / size
            };
            let open = what >> 16 & 0xff == End::Open as u64;
            if pfn.is_some_and(|p| !here(p)) && !open {
                continue;
            }
            let frame = if at == NOWHERE { "-".to_owned() } else { format!("{at:#x}") };
            let how = match what >> 16 & 0xff {
                0 => "has not ended".to_owned(),
                1 => format!("done after {} ns", end.saturating_sub(begin)),
                _ => format!("refused after {} ns", end.saturating_sub(begin)),
            };
            let who = if what >> 24 & 1 != 0 { " (handler)" } else { "" };
            lines.push((
                begin,
                format!("{begin:>12} ns  thread {thread}{who}: {} {frame} order {order}: {how}", kind.name()),
            ));
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_journal_shows_the_pageblock_asked_for_and_what_is_still_open() {
        let journal = Journal::new(Instant::now());
        journal.note(Kind::Free, Pfn(513), Order::ZERO, End::Done);
        journal.note(Kind::Free, Pfn(7), Order::ZERO, End::Refused);
        journal.note(Kind::Alloc, Pfn(0), Order::of(10), End::Done);
        journal.begin(Kind::Compact, None, Order::ZERO, false);
        let lines: Vec<String> = journal.about(3, Some(600)).into_iter().map(|l| l.1).collect();
        assert_eq!(lines.len(), 3, "{lines:?}");
        assert!(lines[0].contains("free 0x201 order 0: done"), "{lines:?}");
        assert!(lines[2].contains("has not ended"), "{lines:?}");
    }
}
