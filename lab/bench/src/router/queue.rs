//! The calendar: which source of events is next. Each source (a port, a CPU) has one next event at most.
//!
//! A tournament over the sources: a change replays the matches on the way to the root, and the next event is at the
//! root. Of two events at the same time the one of the source with the lower number comes first, so a run has one
//! order.

use super::time::Time;

/// A source of events, by its number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Source(pub u32);

/// An event: its time above, its source below, so that one comparison of whole numbers orders both.
///
/// Three other calendars were tried with this model's calls: a binary heap, a scan of all sources, and this tournament
/// over pairs; each took more than twice as long.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Event(u64);

/// Bits of a source's number: more than eight ports and 64 CPUs need.
const SOURCE_BITS: u32 = 7;

/// The last moment that there is, some 40 hours: whatever comes later never comes.
const LAST: u64 = u64::MAX >> SOURCE_BITS;

impl Event {
    fn new(due: Time, source: Source) -> Event {
        Event((due.0.min(LAST) << SOURCE_BITS) | u64::from(source.0))
    }

    fn due(self) -> Time {
        match self.0 >> SOURCE_BITS {
            LAST => Time::NEVER,
            at => Time(at),
        }
    }

    fn source(self) -> Source {
        Source((self.0 & ((1 << SOURCE_BITS) - 1)) as u32)
    }
}

/// The next event of every source.
#[derive(Debug)]
pub(crate) struct Calendar {
    /// Sources, rounded up to a power of two.
    leaves: usize,
    /// The winner of each match; the root is at 1, the leaves are the upper half.
    nodes: Vec<Event>,
}

impl Calendar {
    /// Makes a calendar on which nothing is due, for 128 sources at most.
    pub fn new(sources: usize) -> Calendar {
        debug_assert!(sources <= 1 << SOURCE_BITS, "a source's number has {SOURCE_BITS} bits");
        let leaves = sources.next_power_of_two().max(2);
        let never = |n: usize| Event::new(Time::NEVER, Source(n as u32));
        let mut nodes = vec![never(0); 2 * leaves];
        for (n, leaf) in nodes[leaves..].iter_mut().enumerate() {
            *leaf = never(n);
        }
        for at in (1..leaves).rev() {
            nodes[at] = nodes[2 * at].min(nodes[2 * at + 1]);
        }
        Calendar { leaves, nodes }
    }

    /// Returns when a source is due.
    pub fn due(&self, source: Source) -> Time {
        self.nodes[self.leaves + source.0 as usize].due()
    }

    /// Sets when a source is due; [`Time::NEVER`] takes it off.
    ///
    /// # Complexity
    /// Logarithmic in the number of sources.
    pub fn set(&mut self, source: Source, due: Time) {
        let mut at = self.leaves + source.0 as usize;
        self.nodes[at] = Event::new(due, source);
        while at > 1 {
            let winner = self.nodes[at].min(self.nodes[at ^ 1]);
            at /= 2;
            self.nodes[at] = winner;
        }
    }

    /// Makes a source due no later than `due`.
    pub fn hasten(&mut self, source: Source, due: Time) {
        if due < self.due(source) {
            self.set(source, due);
        }
    }

    /// Returns the next event; [`Time::NEVER`] where there is none.
    pub fn next(&self) -> (Time, Source) {
        (self.nodes[1].due(), self.nodes[1].source())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_in_order_of_time_and_then_of_source() {
        let mut calendar = Calendar::new(5);
        assert_eq!(calendar.next().0, Time::NEVER);
        for (source, due) in [(3, 20), (1, 20), (4, 10), (0, 30)] {
            calendar.set(Source(source), Time(due));
        }
        let mut order = Vec::new();
        while calendar.next().0 != Time::NEVER {
            let (due, source) = calendar.next();
            order.push((due.0, source.0));
            calendar.set(source, Time::NEVER);
        }
        assert_eq!(order, [(10, 4), (20, 1), (20, 3), (30, 0)]);
    }

    #[test]
    fn it_agrees_with_a_scan_of_all_sources() {
        let mut rng = fastrand::Rng::with_seed(7);
        let (mut calendar, mut times) = (Calendar::new(61), vec![Time::NEVER; 61]);
        for _ in 0..10_000 {
            let (source, due) = (rng.usize(..61), Time(rng.u64(..1000)));
            match rng.bool() {
                true => {
                    calendar.set(Source(source as u32), due);
                    times[source] = due;
                }
                false => {
                    calendar.hasten(Source(source as u32), due);
                    times[source] = times[source].min(due);
                }
            }
            let least = times.iter().copied().zip((0..).map(Source)).min().unwrap();
            assert_eq!(calendar.next(), least);
        }
    }
}
