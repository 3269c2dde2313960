//! Memory: what is still in the last-level cache when it is touched again, and how much memory carries.
//!
//! A card writes packets into the part of the last-level cache that is set aside for it (DDIO), and pushes out what has
//! lain there longest. So a frame is still there as long as no more than that part was received since it was last
//! touched: its *distance*. The frames are real: which one a queue gets back, and so how warm it is, is the allocator's
//! doing.

use super::time::{Server, Speed, Time};
use pageyard::Pfn;

/// A cache line, in bytes.
pub(crate) const LINE: u64 = 64;

/// The bytes of a packet that forwarding reads: two lines of header.
pub(crate) const HEADER: u64 = 2 * LINE;

/// The part of the last-level cache that cards write to.
#[derive(Debug)]
pub(crate) struct Cache {
    /// Its size in bytes.
    room: u64,
    /// Bytes received so far.
    received: u64,
    /// For each frame, `received` when it was last touched.
    touched: Vec<u64>,
}

impl Cache {
    /// Makes a cache that holds nothing of any frame.
    pub fn new(room: u64, frames: u64) -> Cache {
        Cache { room, received: room + 1, touched: vec![0; frames as usize] }
    }

    /// Returns whether a frame has been pushed out.
    pub fn is_cold(&self, pfn: Pfn) -> bool {
        self.room == 0 || self.received - self.touched[pfn.0 as usize] > self.room
    }

    /// Receives a packet into a frame. Says whether lines of others had to be written to memory for it.
    pub fn receive(&mut self, pfn: Pfn, bytes: u64) -> bool {
        let cold = self.is_cold(pfn);
        self.received += lines(bytes);
        self.touched[pfn.0 as usize] = self.received;
        cold
    }
}

/// Returns the bytes of the lines that a packet lies in.
pub(crate) fn lines(bytes: u64) -> u64 {
    bytes.next_multiple_of(LINE)
}

/// The memory behind the cache: so many bytes a second, one transfer after another.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bandwidth {
    speed: Speed,
    server: Server,
}

impl Bandwidth {
    /// Makes an idle memory.
    pub fn new(gigabytes: f64) -> Bandwidth {
        Bandwidth { speed: Speed::of_bits(gigabytes * 8e9), server: Server::new() }
    }

    /// Transfers so many bytes. Returns when that is done.
    pub fn transfer(&mut self, now: Time, bytes: u64) -> Time {
        if bytes == 0 {
            return now;
        }
        self.server.serve(now, self.speed.time(bytes))
    }

    /// Transfers so many bytes. Returns how long it waited for others.
    pub fn wait(&mut self, now: Time, bytes: u64) -> Time {
        self.transfer(now, bytes).since(now + self.speed.time(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_cold_once_more_than_the_cache_was_received_since() {
        let mut cache = Cache::new(10 * LINE, 16);
        assert!(cache.receive(Pfn(0), 60), "nothing is warm at first");
        for pfn in 1..=10 {
            assert!(!cache.is_cold(Pfn(0)), "after {} others", pfn - 1);
            cache.receive(Pfn(pfn), 64);
        }
        assert!(!cache.is_cold(Pfn(0)), "ten lines were received since, and ten fit");
        cache.receive(Pfn(11), 64);
        assert!(cache.is_cold(Pfn(0)) && !cache.is_cold(Pfn(1)));
        assert!(!cache.receive(Pfn(11), 640), "a warm frame pushes nothing out");
        assert!(Cache::new(0, 1).is_cold(Pfn(0)));
    }

    #[test]
    fn memory_carries_so_many_bytes_a_second() {
        let mut memory = Bandwidth::new(20.0);
        let mut done = Time::ZERO;
        for _ in 0..1000 {
            done = memory.transfer(Time::ZERO, 20_000);
        }
        assert_eq!(done, Time::from_us(1000), "20 MB at 20 GB/s");
        assert_eq!(memory.wait(Time::from_us(999), 20), Time::from_us(1));
        assert_eq!(memory.transfer(Time(5), 0), Time(5));
    }
}
