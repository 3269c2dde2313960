//! The pages of one CPU, one after the other.

use std::ops::Range;

use bytes::Bytes;

use pageyard_trace::TraceError;
use pageyard_trace::source::Input;

use super::super::section::word;
use super::super::unpack::Compression;
use super::container::Pages;
use super::page::{Broken, Page};

/// Bytes that are read at a time, where memory allows.
const CHUNK: usize = 256 << 10;

/// Bytes of pages that are in memory at most, those of all CPUs together.
const MAX_MEMORY: usize = 512 << 20;

/// A place in the pages of a CPU, at an event.
pub(super) struct CpuPages {
    pub(super) pages: Pages,
    /// The most bytes of pages that this CPU may have in memory.
    most: usize,
    /// Where in the file the next chunk begins; compressed chunks are also counted.
    next: u64,
    left: Option<u32>,
    chunk: Bytes,
    /// Where in the chunk the page begins.
    at: usize,
    page: Page,
    event: Range<usize>,
    /// The event's time.
    pub(super) time: u64,
    /// Events that are missing before this one, and were not reported.
    pub(super) missed: u64,
}

impl CpuPages {
    /// Starts before the first event; one of `cpus`.
    pub(super) fn new(pages: Pages, cpus: usize) -> CpuPages {
        CpuPages {
            most: (MAX_MEMORY / cpus.max(1)).max(64 << 10),
            next: pages.at,
            pages,
            left: None,
            chunk: Bytes::new(),
            at: 0,
            page: Page::default(),
            event: 0..0,
            time: 0,
            missed: 0,
        }
    }

    /// Returns how many bytes of the file were read.
    pub(super) fn done(&self) -> u64 {
        self.next - self.pages.at
    }

    /// Returns the event's bytes.
    pub(super) fn raw(&self) -> &[u8] {
        self.chunk.get(self.at..).and_then(|page| page.get(self.event.clone())).unwrap_or_default()
    }

    /// Goes on to the next event; false at the end.
    pub(super) fn advance(&mut self, input: &Input) -> Result<bool, TraceError> {
        loop {
            let end = (self.at + self.pages.page_bytes).min(self.chunk.len());
            let page = &self.chunk[self.at..end];
            if let Some((time, event)) = self.page.next(page).map_err(|e| self.broken(input, e))? {
                (self.time, self.event) = (time, event);
                return Ok(true);
            }
            self.at = end;
            if self.at == self.chunk.len() && !self.refill(input)? {
                return Ok(false);
            }
            let end = (self.at + self.pages.page_bytes).min(self.chunk.len());
            self.page = Page::open(&self.chunk[self.at..end]).map_err(|e| self.broken(input, e))?;
            self.missed += self.page.missed;
        }
    }

    /// Reads more pages; false at the end.
    fn refill(&mut self, input: &Input) -> Result<bool, TraceError> {
        let left = (self.pages.at + self.pages.len).saturating_sub(self.next);
        (self.at, self.chunk) = (0, Bytes::new());
        if self.pages.compression == Compression::None {
            let pages = (CHUNK.min(self.most) / self.pages.page_bytes).max(1);
            let bytes = left.min((pages * self.pages.page_bytes) as u64);
            self.chunk = input.read(self.next, bytes as usize)?;
            self.next += bytes;
            return Ok(bytes > 0);
        }
        if left == 0 && self.left.is_none() {
            return Ok(false);
        }
        let chunks = match self.left {
            Some(n) => n,
            None => {
                let count = word(&self.read(input, 4)?, 0).unwrap_or(0);
                *self.left.insert(count)
            }
        };
        let Some(fewer) = chunks.checked_sub(1) else {
            self.next = self.pages.at + self.pages.len;
            return Ok(false);
        };
        self.left = Some(fewer);
        let sizes = self.read(input, 8)?;
        let packed = word(&sizes, 0).unwrap_or(0) as usize;
        let bytes = self.read(input, packed)?;
        match self.pages.compression.unpack(&bytes, self.most) {
            Some(unpacked) => {
                self.chunk = Bytes::from(unpacked);
                // An empty chunk would be taken for the end.
                if self.chunk.is_empty() { Err(self.broken(input, Broken)) } else { Ok(true) }
            }
            None => Err(self.damaged(input, "pages cannot be decompressed")),
        }
    }

    fn read(&mut self, input: &Input, bytes: usize) -> Result<Bytes, TraceError> {
        // trace-cmd 3.1 writes a length that leaves out a few bytes: how many chunks there are says where the pages
        // end.
        let read = input.read(self.next, bytes)?;
        self.next += bytes as u64;
        Ok(read)
    }

    fn broken(&self, input: &Input, Broken: Broken) -> TraceError {
        self.damaged(input, "a page of the kernel's buffer is damaged")
    }

    fn damaged(&self, input: &Input, what: &str) -> TraceError {
        let what = format!("before byte {}, of CPU {}, {what}", self.next, self.pages.cpu);
        TraceError::Damaged { file: input.label().to_owned(), row: None, what }
    }
}
