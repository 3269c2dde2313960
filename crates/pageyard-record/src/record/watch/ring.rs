//! Pages of events as the kernel wrote them, the last of them only.

use std::collections::VecDeque;
use std::time::Duration;

/// Bytes that a page takes beside its events.
const BESIDE: u64 = 64;

/// A page of one CPU's events.
struct Page {
    cpu: u32,
    last: u64,
    bytes: Box<[u8]>,
}

/// The last pages, in the order in which they were fetched.
pub(super) struct Ring {
    pages: VecDeque<Page>,
    bytes: u64,
    most: u64,
    time: u64,
    /// From when on everything is kept: after the latest event that was given up, since what is kept of other CPUs from
    /// before that is not whole.
    whole_from: u64,
    /// How many events the kernel had replaced before they were fetched, each time that was looked at and had changed.
    lost: VecDeque<(u64, u64)>,
}

impl Ring {
    /// Makes a ring of at most so many bytes and nanoseconds, of events from `now` on.
    pub(super) fn new(most: u64, time: Duration, now: u64) -> Ring {
        let time = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        Ring {
            pages: VecDeque::new(),
            bytes: 0,
            most,
            time,
            whole_from: now,
            lost: VecDeque::from([(now, 0)]),
        }
    }

    /// Keeps a page; older ones go where it does not fit.
    pub(super) fn push(&mut self, cpu: u32, last: u64, bytes: &[u8]) {
        self.bytes += bytes.len() as u64 + BESIDE;
        self.pages.push_back(Page { cpu, last, bytes: bytes.into() });
        while self.bytes > self.most && self.pages.len() > 1 {
            self.give_up();
        }
    }

    /// Gives up what is too old.
    pub(super) fn forget(&mut self, now: u64) {
        while self.pages.front().is_some_and(|page| page.last.saturating_add(self.time) < now) {
            self.give_up();
        }
        // What was known before the oldest time that can be asked for stays: one entry.
        while self.lost.get(1).is_some_and(|(at, _)| at.saturating_add(self.time) < now) {
            self.lost.pop_front();
        }
    }

    /// Notes how many events were replaced before they were fetched, since the beginning.
    pub(super) fn note_lost(&mut self, now: u64, total: u64) {
        if self.lost.back().is_none_or(|(_, last)| *last < total) {
            self.lost.push_back((now, total));
        }
    }

    /// Returns how many of them may be missing from `since` on. Some can be from before: it is known between which two
    /// looks they were replaced, and no more.
    pub(super) fn lost_since(&self, since: u64) -> u64 {
        let total = |at: Option<&(u64, u64)>| at.map_or(0, |(_, total)| *total);
        let before = self.lost.iter().take_while(|(at, _)| *at <= since).last();
        total(self.lost.back()) - total(before)
    }

    fn give_up(&mut self) {
        if let Some(page) = self.pages.pop_front() {
            self.bytes -= page.bytes.len() as u64 + BESIDE;
            self.whole_from = self.whole_from.max(page.last + 1);
        }
    }

    /// Returns the time from which on everything is kept.
    pub(super) fn whole_from(&self) -> u64 {
        self.whole_from
    }

    /// Iterates over the pages, each with its CPU.
    pub(super) fn pages(&self) -> impl Iterator<Item = (u32, &[u8])> {
        self.pages.iter().map(|page| (page.cpu, &page.bytes[..]))
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(super) fn most(&self) -> u64 {
        self.most
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_go_first_by_size_and_by_time() {
        let mut ring = Ring::new(4 * (100 + BESIDE), Duration::from_nanos(1000), 3);
        assert_eq!(ring.whole_from(), 3, "nothing was given up yet");
        for n in 0..10u64 {
            ring.push((n % 2) as u32, n * 10 + 5, &[0; 100]);
            assert!(ring.bytes() <= ring.most());
        }
        assert_eq!(ring.pages().count(), 4);
        assert_eq!(ring.whole_from(), 56, "the page of 50 to 55 was given up");
        ring.forget(1080);
        assert_eq!(ring.whole_from(), 76);
        ring.forget(100_000);
        assert_eq!((ring.whole_from(), ring.bytes()), (96, 0));
    }

    #[test]
    fn what_was_replaced_is_known_from_any_kept_time_on() {
        let mut ring = Ring::new(1 << 20, Duration::from_nanos(1000), 0);
        for (now, total) in [(100, 0), (200, 5), (300, 5), (400, 12), (500, 12)] {
            ring.note_lost(now, total);
            ring.forget(now);
        }
        let since = |ring: &Ring| [0, 150, 200, 350, 400, 900].map(|at| ring.lost_since(at));
        assert_eq!(since(&ring), [12, 12, 7, 7, 0, 0]);
        ring.forget(1300);
        assert_eq!(ring.lost_since(300), 7, "the entry at 200 is what was known at 300");
        for n in 0..10_000u64 {
            ring.note_lost(2000 + n, 13 + n);
            ring.forget(2000 + n);
        }
        assert!(ring.lost.len() <= 1002, "{}", ring.lost.len());
    }
}
