//! A page of the kernel's ring buffer.

use std::ops::Range;

use super::super::section::{long, word};

/// The header: the time of the first event, and how many bytes of events follow.
pub(super) const HEADER: usize = 16;

// Bits of the header's second word. # Linux: `RB_MISSED_EVENTS`, `RB_MISSED_STORED`.
const MISSED: u64 = 1 << 31;
const MISSED_STORED: u64 = 1 << 30;
const LENGTH: u64 = (1 << 27) - 1;

// Kinds of events; what is below says how many words of data there are.
const PADDING: u32 = 29;
const TIME_EXTEND: u32 = 30;
const TIME_STAMP: u32 = 31;

/// The bits of a time that an absolute one lacks: it has 59.
const TIME_TOP: u64 = 0x1f << 59;

/// Bytes that are no page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Broken;

/// A place in a page.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Page {
    at: usize,
    end: usize,
    time: u64,
    /// Events that are missing before this page; 1 where the kernel did not count them.
    pub(super) missed: u64,
}

impl Page {
    /// Reads the header of a page.
    pub(super) fn open(page: &[u8]) -> Result<Page, Broken> {
        let (Some(time), Some(commit)) = (long(page, 0), long(page, 8)) else { return Err(Broken) };
        let end = HEADER + (commit & LENGTH) as usize;
        if end > page.len() {
            return Err(Broken);
        }
        let missed = match (commit & MISSED != 0, commit & MISSED_STORED != 0) {
            (false, _) => 0,
            (true, false) => 1,
            (true, true) => long(page, end).unwrap_or(1).min(u32::MAX.into()),
        };
        Ok(Page { at: HEADER, end, time, missed })
    }

    /// Finds the next event: its time in nanoseconds, and where in the page its bytes are.
    ///
    /// # Linux
    /// `ring_buffer_event_length`, `rb_event_data`, `rb_update_event`.
    pub(super) fn next(&mut self, page: &[u8]) -> Result<Option<(u64, Range<usize>)>, Broken> {
        while self.at < self.end {
            let page = page.get(..self.end).ok_or(Broken)?;
            let header = word(page, self.at).ok_or(Broken)?;
            let (kind, delta) = (header & 31, u64::from(header >> 5));
            let first = word(page, self.at + 4);
            match kind {
                // What is left of the page was never written.
                PADDING if delta == 0 => self.at = self.end,
                PADDING => {
                    self.time = self.time.wrapping_add(delta);
                    self.pass(4 + first.ok_or(Broken)? as usize)?;
                }
                TIME_EXTEND => {
                    let more = u64::from(first.ok_or(Broken)?) << 27;
                    self.time = self.time.wrapping_add(more + delta);
                    self.pass(8)?;
                }
                TIME_STAMP => {
                    let low = u64::from(first.ok_or(Broken)?) << 27 | delta;
                    self.time = self.time & TIME_TOP | low & !TIME_TOP;
                    self.pass(8)?;
                }
                words => {
                    self.time = self.time.wrapping_add(delta);
                    let (skip, bytes) = match words {
                        0 => (8, (first.ok_or(Broken)? as usize).checked_sub(4).ok_or(Broken)?),
                        words => (4, words as usize * 4),
                    };
                    let from = self.at + skip;
                    self.pass(skip + bytes.next_multiple_of(4))?;
                    return Ok(Some((self.time, from..from + bytes)));
                }
            }
        }
        Ok(None)
    }

    fn pass(&mut self, bytes: usize) -> Result<(), Broken> {
        self.at = self.at.checked_add(bytes).filter(|&at| at <= self.end).ok_or(Broken)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(time: u64, commit: u64, words: &[u32]) -> Vec<u8> {
        let mut page = [time.to_le_bytes(), commit.to_le_bytes()].concat();
        page.extend(words.iter().flat_map(|w| w.to_le_bytes()));
        page
    }

    fn events(bytes: &[u8]) -> Result<Vec<(u64, Range<usize>)>, Broken> {
        let mut page = Page::open(bytes)?;
        let mut all = Vec::new();
        while let Some(event) = page.next(bytes)? {
            all.push(event);
        }
        Ok(all)
    }

    #[test]
    fn every_kind_of_event_is_passed_over_or_found() {
        let header = |kind: u32, delta: u32| kind | delta << 5;
        let words = [
            header(2, 7),
            1,
            2, // two words of data
            header(30, 3),
            2, // 2 * 2^27 + 3 more
            header(0, 1),
            12,
            8,
            9, // eight bytes of data, whose length is a word of its own
            header(29, 5),
            4, // discarded
            header(31, 11),
            1, // the time is 2^27 + 11
            header(1, 0),
            3,
            header(29, 0),
            0, // the rest was never written
        ];
        let bytes = page(100, words.len() as u64 * 4, &words);
        let after = 100 + 7 + (2 << 27) + 3 + 1;
        assert_eq!(events(&bytes), Ok(vec![(107, 20..28), (after, 44..52), ((1 << 27) + 11, 72..76)]));
    }

    #[test]
    fn missed_events_are_counted_where_the_kernel_did() {
        let mut bytes = page(1, 4 | 1 << 31 | 1 << 30, &[29]);
        bytes.extend(77u64.to_le_bytes());
        assert_eq!(Page::open(&bytes).unwrap().missed, 77);
        assert_eq!(Page::open(&page(1, 4 | 1 << 31, &[29])).unwrap().missed, 1);
        assert_eq!(Page::open(&page(1, 4, &[29])).unwrap().missed, 0);
    }

    #[test]
    fn what_reaches_beyond_its_page_is_broken() {
        assert_eq!(events(&page(1, 12, &[2, 0])), Err(Broken), "the length");
        assert_eq!(events(&page(1, 8, &[2, 0])), Err(Broken), "data");
        assert_eq!(events(&page(1, 4, &[30])), Err(Broken), "a time");
        assert_eq!(events(&page(1, 8, &[0, 3])), Err(Broken), "a length below its own");
        assert_eq!(events(&page(1, 8, &[0, u32::MAX])), Err(Broken), "a length");
        assert_eq!(events(&page(1, 8, &[29 | 32, u32::MAX])), Err(Broken), "padding");
        assert_eq!(events(&[0; 15]), Err(Broken), "a header");
        assert_eq!(events(&page(1, 0, &[])), Ok(Vec::new()));
    }
}
