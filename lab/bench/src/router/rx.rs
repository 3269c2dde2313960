//! A receive queue: a ring of descriptors, each with a frame, with a packet, or empty.

use super::time::Time;
use pageyard::Pfn;
use std::collections::VecDeque;

/// A packet inside the host.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Packet {
    /// Its number, which is its header's contents.
    pub id: u64,
    /// Its frame.
    pub pfn: Pfn,
    /// When it was accepted.
    pub came: Time,
    /// Its size in bytes.
    pub bytes: u32,
    /// The VLAN that it leaves by.
    pub vlan: u16,
    /// The receive queue, among those of all ports and CPUs.
    pub queue: u16,
}

/// Why a packet that came found no descriptor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Full {
    /// Each one holds a packet that the CPU has not looked at.
    Packets,
    /// Some lack a frame: the allocator had none.
    NoFrame,
}

/// A receive ring.
#[derive(Debug)]
pub(crate) struct RxQueue {
    size: usize,
    /// Frames that wait for a packet, in the order in which the card uses them.
    posted: VecDeque<Pfn>,
    /// Packets that wait for the CPU, each with the moment from which it can be seen.
    filled: VecDeque<(Time, Packet)>,
}

impl RxQueue {
    /// Makes a ring without frames.
    pub fn new(size: usize) -> RxQueue {
        RxQueue { size, posted: VecDeque::with_capacity(size), filled: VecDeque::new() }
    }

    /// Returns how many descriptors lack a frame.
    pub fn missing(&self) -> usize {
        self.size - self.posted.len() - self.filled.len()
    }

    /// Returns whether no packet can come in and none waits, for want of frames.
    pub fn is_dry(&self) -> bool {
        self.missing() == self.size
    }

    /// Posts a frame.
    pub fn post(&mut self, pfn: Pfn) {
        debug_assert!(self.missing() > 0, "a descriptor for each frame");
        self.posted.push_back(pfn);
    }

    /// Takes the frame for a packet that comes.
    pub fn accept(&mut self) -> Result<Pfn, Full> {
        let full = if self.missing() > 0 { Full::NoFrame } else { Full::Packets };
        self.posted.pop_front().ok_or(full)
    }

    /// Adds a packet that can be seen from `visible` on.
    pub fn fill(&mut self, visible: Time, packet: Packet) {
        self.filled.push_back((visible, packet));
    }

    /// Takes the first packet, if it can be seen by now.
    pub fn poll(&mut self, now: Time) -> Option<Packet> {
        let (visible, packet) = *self.filled.front()?;
        (visible <= now).then(|| {
            self.filled.pop_front();
            packet
        })
    }

    /// Returns how many packets wait.
    pub fn waiting(&self) -> usize {
        self.filled.len()
    }

    /// Returns from when the packet at a place can be seen.
    pub fn visible(&self, place: usize) -> Time {
        self.filled[place].0
    }

    /// Empties it: all its frames.
    pub fn into_frames(self) -> impl Iterator<Item = Pfn> {
        self.posted.into_iter().chain(self.filled.into_iter().map(|(_, packet)| packet.pfn))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_descriptor_is_posted_filled_or_missing() {
        let mut ring = RxQueue::new(2);
        assert!(ring.is_dry());
        assert_eq!(ring.accept(), Err(Full::NoFrame));
        ring.post(Pfn(4));
        ring.post(Pfn(5));
        let packet = |pfn| Packet { id: 1, pfn, came: Time(0), bytes: 64, vlan: 0, queue: 0 };
        for (n, expected) in [(10, Pfn(4)), (20, Pfn(5))] {
            let pfn = ring.accept().unwrap();
            assert_eq!(pfn, expected, "in the order in which they were posted");
            ring.fill(Time(n), packet(pfn));
        }
        assert_eq!((ring.accept(), ring.missing(), ring.waiting()), (Err(Full::Packets), 0, 2));
        assert!(ring.poll(Time(9)).is_none());
        assert_eq!(ring.poll(Time(15)).map(|p| p.pfn), Some(Pfn(4)));
        assert_eq!((ring.accept(), ring.missing(), ring.visible(0)), (Err(Full::NoFrame), 1, Time(20)));
        assert!(ring.poll(Time(15)).is_none());
        assert_eq!(ring.into_frames().collect::<Vec<_>>(), [Pfn(5)]);
    }
}
