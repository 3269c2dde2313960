//! A count of cache lines that go from one worker to another.

use crate::board::Worker;
use crate::shared;
use std::io;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU32, AtomicU64};

/// Who touched each line of an allocator last, and how often that was somebody else: in runs that count, which are not
/// timed.
#[derive(Clone, Copy)]
pub struct Lines(Option<Table>);

#[derive(Clone, Copy)]
struct Table {
    /// By line: the worker's number plus one; 0 where none has.
    last: &'static [AtomicU32],
    handed: &'static AtomicU64,
}

impl Lines {
    /// Makes a count for an allocator of so many lines, or one that counts nothing.
    pub fn new(lines: usize, counts: bool) -> io::Result<Lines> {
        let table = || Ok::<_, io::Error>(Table { last: shared::slice(lines)?, handed: shared::value()? });
        counts.then(table).transpose().map(Lines)
    }

    /// Returns whether it counts.
    pub fn counts(&self) -> bool {
        self.0.is_some()
    }

    /// Notes that a worker touched a line.
    #[inline]
    pub fn touch(&self, worker: Worker, line: usize) {
        if let Some(table) = &self.0 {
            let before = table.last[line].swap(worker.0 + 1, Relaxed);
            if before != 0 && before != worker.0 + 1 {
                table.handed.fetch_add(1, Relaxed);
            }
        }
    }

    /// Returns the lines that changed hands; none where nothing is counted.
    pub fn handed(&self) -> Option<u64> {
        self.0.map(|table| table.handed.load(Relaxed))
    }

    /// Begins anew.
    pub fn reset(&self) {
        if let Some(table) = &self.0 {
            table.last.iter().for_each(|last| last.store(0, Relaxed));
            table.handed.store(0, Relaxed);
        }
    }
}
