//! A transmit queue: a qdisc of limited length, and a ring whose descriptors are free again when completions are looked
//! at.

use super::rx::Packet;
use super::time::Time;
use pageyard::Pfn;
use std::collections::VecDeque;

/// Where a packet that is to be sent goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum To {
    /// Into the ring.
    Ring,
    /// Into the qdisc: the ring is full, or others wait there.
    Qdisc,
    /// Nowhere: the qdisc is full.
    Nowhere,
}

/// A transmit queue of one CPU at one port.
#[derive(Debug)]
pub(crate) struct TxQueue {
    size: usize,
    limit: usize,
    /// Posted packets, each with the moment at which the card is done with it.
    ring: VecDeque<(Time, Packet)>,
    backlog: VecDeque<Packet>,
}

impl TxQueue {
    /// Makes an empty one: a ring of `size`, and a qdisc of `limit` packets.
    pub fn new(size: usize, limit: usize) -> TxQueue {
        TxQueue { size, limit, ring: VecDeque::with_capacity(size), backlog: VecDeque::new() }
    }

    /// Says where the next packet goes.
    pub fn next(&self) -> To {
        match (self.backlog.len(), self.room()) {
            (0, 1..) => To::Ring,
            (waiting, _) if waiting < self.limit => To::Qdisc,
            _ => To::Nowhere,
        }
    }

    /// Returns how many descriptors are free.
    pub fn room(&self) -> usize {
        self.size - self.ring.len()
    }

    /// Returns how many packets wait in the qdisc.
    pub fn backlog(&self) -> usize {
        self.backlog.len()
    }

    /// Puts a packet into the qdisc.
    pub fn queue(&mut self, packet: Packet) {
        self.backlog.push_back(packet);
    }

    /// Takes the next packet out of the qdisc.
    pub fn dequeue(&mut self) -> Option<Packet> {
        self.backlog.pop_front()
    }

    /// Puts a packet into the ring; the card is done with it at `done`.
    pub fn post(&mut self, done: Time, packet: Packet) {
        debug_assert!(self.room() > 0, "a descriptor for each packet");
        self.ring.push_back((done, packet));
    }

    /// Returns whether the card is done with the first packet of the ring.
    pub fn is_done(&self, now: Time) -> bool {
        self.ring.front().is_some_and(|(done, _)| *done <= now)
    }

    /// Takes the first packet out of the ring, if the card is done with it.
    pub fn complete(&mut self, now: Time) -> Option<Packet> {
        let (done, packet) = *self.ring.front()?;
        (done <= now).then(|| {
            self.ring.pop_front();
            packet
        })
    }

    /// Returns how many packets are in the ring.
    pub fn posted(&self) -> usize {
        self.ring.len()
    }

    /// Returns when the card is done with the packet at a place.
    pub fn done(&self, place: usize) -> Time {
        self.ring[place].0
    }

    /// Empties it: all its packets' frames.
    pub fn into_frames(self) -> impl Iterator<Item = Pfn> {
        self.backlog
            .into_iter()
            .chain(self.ring.into_iter().map(|(_, packet)| packet))
            .map(|packet| packet.pfn)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_wait_in_the_qdisc_while_the_ring_is_full_and_keep_their_order() {
        let mut queue = TxQueue::new(2, 1);
        let packet = |id| Packet { id, pfn: Pfn(id), came: Time(0), bytes: 64, vlan: 0, queue: 0 };
        assert_eq!(queue.next(), To::Ring);
        queue.post(Time(10), packet(0));
        queue.post(Time(20), packet(1));
        assert_eq!(queue.next(), To::Qdisc);
        queue.queue(packet(2));
        assert_eq!(queue.next(), To::Nowhere);
        assert!(!queue.is_done(Time(9)) && queue.complete(Time(9)).is_none());
        assert_eq!(queue.complete(Time(10)).unwrap().id, 0);
        assert_eq!((queue.next(), queue.room()), (To::Nowhere, 1), "others wait: no packet overtakes them");
        let next = queue.dequeue().unwrap();
        queue.post(Time(30), next);
        assert_eq!((queue.posted(), queue.done(1), queue.backlog()), (2, Time(30), 0));
        assert_eq!(queue.into_frames().collect::<Vec<_>>(), [Pfn(1), Pfn(2)]);
    }
}
