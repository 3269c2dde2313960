//! Sorted pieces of a stream of entries in a file, and their merge.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::Path;

use pageyard_trace::TraceError;
use pageyard_trace::source::reason;

use super::entry::{BYTES, Entry};

/// Memory for reading the pieces back, shared by all of them.
const READ_BYTES: usize = 32 << 20;

/// The least that is read of a piece at a time.
const LEAST_BYTES: usize = 85 * BYTES;

/// Entries handed over at a time.
const BATCH: usize = 16 << 10;

/// The file's name, in messages.
const NAME: &str = "the file for sorting";

/// A file of sorted pieces. It has no name from the moment it is created, so nothing is left behind.
pub(super) struct Spill {
    file: File,
    /// Where each piece starts, and the end of the last.
    bounds: Vec<u64>,
    bytes: Vec<u8>,
}

impl Spill {
    pub(super) fn create(folder: &Path) -> Result<Spill, TraceError> {
        let path = folder.join("sorting");
        let make = || {
            let file = File::options().read(true).write(true).create_new(true).open(&path)?;
            fs::remove_file(&path)?;
            Ok(file)
        };
        let file = make().map_err(|e: std::io::Error| unwritable(&e))?;
        Ok(Spill { file, bounds: vec![0], bytes: Vec::new() })
    }

    /// Adds a sorted piece.
    pub(super) fn add(&mut self, entries: &[Entry]) -> Result<(), TraceError> {
        for batch in entries.chunks(BATCH) {
            self.bytes.clear();
            self.bytes.extend(batch.iter().flat_map(|e| e.to_bytes()));
            self.file.write_all(&self.bytes).map_err(|e| unwritable(&e))?;
        }
        let end = self.bounds.last().copied().unwrap_or(0);
        self.bounds.push(end + (entries.len() * BYTES) as u64);
        Ok(())
    }

    /// Hands over the entries of all pieces in order. Of equal ones the earlier piece's comes first.
    pub(super) fn merge(self, out: &mut impl FnMut(&[Entry])) -> Result<(), TraceError> {
        let count = self.bounds.len() - 1;
        let share = (READ_BYTES / count.max(1) / BYTES * BYTES).max(LEAST_BYTES);
        let mut pieces: Vec<Piece> = self
            .bounds
            .windows(2)
            .map(|w| Piece { at: w[0], end: w[1], bytes: Vec::new(), used: 0 })
            .collect();
        let mut heap = BinaryHeap::with_capacity(count);
        for (i, piece) in pieces.iter_mut().enumerate() {
            if let Some(entry) = piece.next(&self.file, share)? {
                heap.push(Reverse(Head { key: (entry.time, entry.cpu, i), entry }));
            }
        }
        let mut batch = Vec::with_capacity(BATCH);
        while let Some(mut head) = heap.peek_mut() {
            let Reverse(Head { key, entry }) = &mut *head;
            batch.push(*entry);
            match pieces[key.2].next(&self.file, share)? {
                Some(next) => {
                    *entry = next;
                    *key = (next.time, next.cpu, key.2);
                }
                None => {
                    std::collections::binary_heap::PeekMut::pop(head);
                }
            }
            if batch.len() == BATCH {
                out(&batch);
                batch.clear();
            }
        }
        out(&batch);
        Ok(())
    }
}

/// The first entry of a piece that is not merged yet; compared by its time, CPU and piece.
struct Head {
    key: (u64, u32, usize),
    entry: Entry,
}

impl PartialEq for Head {
    fn eq(&self, other: &Head) -> bool {
        self.key == other.key
    }
}

impl Eq for Head {}

impl PartialOrd for Head {
    fn partial_cmp(&self, other: &Head) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Head {
    fn cmp(&self, other: &Head) -> std::cmp::Ordering {
        self.key.cmp(&other.key)
    }
}

struct Piece {
    /// The start of the part that has not been read yet.
    at: u64,
    end: u64,
    bytes: Vec<u8>,
    used: usize,
}

impl Piece {
    fn next(&mut self, file: &File, share: usize) -> Result<Option<Entry>, TraceError> {
        if self.used == self.bytes.len() {
            let len = (self.end - self.at).min(share as u64) as usize;
            if len == 0 {
                self.bytes = Vec::new();
                self.used = 0;
                return Ok(None);
            }
            self.bytes.resize(len, 0);
            file.read_exact_at(&mut self.bytes, self.at)
                .map_err(|e| TraceError::Unreadable { file: NAME.to_owned(), why: reason(&e) })?;
            self.at += len as u64;
            self.used = 0;
        }
        let bytes = self.bytes[self.used..].first_chunk().expect("pieces hold whole entries");
        self.used += BYTES;
        Ok(Some(Entry::from_bytes(bytes)))
    }
}

fn unwritable(error: &std::io::Error) -> TraceError {
    TraceError::Unwritable { file: NAME.to_owned(), why: reason(error) }
}
