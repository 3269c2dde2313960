//! Traces of LLFree, made up: for tests, and as seeds for fuzzing.

use pageyard_trace::{Event, EventKind};

use crate::llfree::{FIRST_RECORD, Header, PAGE_BYTES, RECORDS, Record};

/// A made-up file.
#[derive(Clone, Debug)]
pub(crate) struct Made {
    header: Header,
    pages: Vec<Vec<u8>>,
    /// The page of each CPU that is being filled.
    filling: Vec<Vec<u8>>,
}

impl Made {
    /// Starts a file of a machine with `cores` CPUs whose last frame is `max_pfn`.
    pub(crate) fn new(cores: u32, max_pfn: u32) -> Made {
        let header = Header { pages: 1, cores, max_pfn };
        Made { header, pages: Vec::new(), filling: vec![Vec::new(); cores as usize] }
    }

    /// Adds an allocation, or a free; times are microseconds here.
    pub(crate) fn event(&mut self, event: &Event) {
        let record = Record {
            time_us: event.time_ns,
            pfn: event.pfn,
            is_alloc: event.kind == EventKind::Alloc,
            order: event.order,
            gfp: event.gfp,
            pid: event.tid,
        };
        let bytes = record.to_bytes().expect("numbers that fit");
        let page = &mut self.filling[event.cpu as usize];
        if page.is_empty() {
            page.extend(event.cpu.to_le_bytes());
            page.resize(FIRST_RECORD, 0);
        }
        page.extend(bytes);
        if page.len() == FIRST_RECORD + RECORDS * bytes.len() {
            let full = std::mem::take(page);
            self.page(full);
        }
    }

    /// Adds a page.
    pub(crate) fn page(&mut self, mut page: Vec<u8>) {
        page.resize(PAGE_BYTES, 0);
        self.header.pages += 1;
        self.pages.push(page);
    }

    /// Returns the file.
    pub(crate) fn finish(mut self) -> Vec<u8> {
        for page in std::mem::take(&mut self.filling) {
            if !page.is_empty() {
                self.page(page);
            }
        }
        let mut out = self.header.to_start().to_vec();
        out.resize(PAGE_BYTES, 0);
        out.extend(self.pages.concat());
        out
    }
}
