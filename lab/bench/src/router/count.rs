//! Counters that run with a host, and levels over time.

use super::time::Time;
use std::ops::{Index, IndexMut, Sub};

/// Something that is counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(usize)]
pub(crate) enum Count {
    /// Packets that came over the wires.
    Offered,
    /// Their bytes.
    OfferedBytes,
    /// Packets that a receive ring accepted.
    Accepted,
    /// Bytes of those.
    AcceptedBytes,
    /// Packets whose transmission ended.
    Sent,
    /// Their bytes.
    SentBytes,
    /// Packets whose completion was looked at, and so whose frame was given up.
    Completed,
    /// Picoseconds that those spent in the host.
    Sojourn,
    /// Dropped by the card: its buffer was full, because the bus or memory lagged behind.
    DropCard,
    /// Dropped by the card: every descriptor held a packet.
    DropRxRing,
    /// Dropped by the card: descriptors lacked frames.
    DropNoFrame,
    /// Dropped by a VLAN whose queue was full.
    DropVlan,
    /// Dropped by a full qdisc.
    DropQdisc,
    /// Dropped by XDP: the transmit ring was full.
    DropTxRing,
    /// Interrupts.
    Interrupts,
    /// Polls.
    Polls,
    /// Packets handed to a card.
    Posted,
    /// Doorbells rung for them.
    Doorbells,
    /// Packets whose header was no longer in the cache.
    Misses,
    /// Packets that a CPU forwarded.
    Forwarded,
    /// Bytes read from memory.
    MemoryRead,
    /// Bytes written to memory.
    MemoryWritten,
    /// Times that the zone lock was taken.
    Locks,
    /// Picoseconds that CPUs waited for it.
    LockWait,
    /// Picoseconds that CPUs waited for memory, beside the time of an idle one.
    MemoryWait,
    /// Frames taken for packets.
    Taken,
    /// Of those, from a pool.
    Recycled,
    /// Requests for a frame that no one could serve.
    Refused,
}

const COUNTS: usize = Count::Refused as usize + 1;

/// Places where packets are dropped, in the order of a packet's way, with their names.
pub(crate) const DROPS: [(Count, &str); 6] = [
    (Count::DropCard, "card"),
    (Count::DropRxRing, "rx_ring"),
    (Count::DropNoFrame, "no_frame"),
    (Count::DropVlan, "vlan"),
    (Count::DropQdisc, "qdisc"),
    (Count::DropTxRing, "tx_ring"),
];

/// Counts, each from 0.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Counts([u64; COUNTS]);

impl Counts {
    /// Nothing counted.
    pub const NONE: Counts = Counts([0; COUNTS]);

    /// Returns the packets dropped after a receive ring had accepted them.
    pub fn dropped_inside(&self) -> u64 {
        self[Count::DropVlan] + self[Count::DropQdisc] + self[Count::DropTxRing]
    }

    /// Returns the packets dropped anywhere.
    pub fn dropped(&self) -> u64 {
        DROPS.iter().map(|(place, _)| self[*place]).sum()
    }
}

impl Index<Count> for Counts {
    type Output = u64;

    fn index(&self, count: Count) -> &u64 {
        &self.0[count as usize]
    }
}

impl IndexMut<Count> for Counts {
    fn index_mut(&mut self, count: Count) -> &mut u64 {
        &mut self.0[count as usize]
    }
}

impl Sub for Counts {
    type Output = Counts;

    fn sub(self, earlier: Counts) -> Counts {
        Counts(std::array::from_fn(|n| self.0[n] - earlier.0[n]))
    }
}

/// A level that changes over time: how much now, most, and on average.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Level {
    now: u64,
    most: u64,
    since: Time,
    begun: Time,
    area: u128,
}

impl Level {
    /// Sets it.
    pub fn set(&mut self, at: Time, level: u64) {
        self.area += u128::from(self.now) * u128::from(at.since(self.since).0);
        self.since = at;
        self.now = level;
        self.most = self.most.max(level);
    }

    /// Returns it.
    pub fn now(&self) -> u64 {
        self.now
    }

    /// Forgets what was, and goes on from here.
    pub fn restart(&mut self, at: Time) {
        *self = Level { now: self.now, most: self.now, since: at, begun: at, area: 0 };
    }

    /// Returns the most that it was.
    pub fn most(&self) -> u64 {
        self.most
    }

    /// Returns its mean until `at`.
    pub fn mean(mut self, at: Time) -> f64 {
        self.set(at, self.now);
        self.area as f64 / at.since(self.begun).0.max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_has_its_mean_over_time_and_its_most() {
        let mut level = Level::default();
        level.set(Time(0), 4);
        level.set(Time(10), 10);
        level.set(Time(20), 0);
        assert_eq!((level.mean(Time(40)), level.most()), ((40.0 + 100.0) / 40.0, 10));
        level.restart(Time(40));
        level.set(Time(50), 3);
        assert_eq!((level.mean(Time(60)), level.most(), level.now()), (1.5, 3, 3));
    }

    #[test]
    fn drops_are_all_counted_once() {
        let mut counts = Counts::NONE;
        for (n, (place, _)) in (1..).zip(DROPS) {
            counts[place] = n;
        }
        assert_eq!((counts.dropped(), counts.dropped_inside()), (21, 15));
        assert_eq!((counts - counts).dropped(), 0);
    }
}
