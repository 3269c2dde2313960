//! Events that the first reading of a recording keeps for several more, about six bytes each.
//!
//! Most of an event repeats: a CPU runs one thread for many rows, and its requests are of few kinds. So all of an event
//! but its time and its frame, its *rest*, lies in one of a few places, and the event names the place. Its time and its
//! frame are kept as differences from the event before, in a little-endian word of four to seven bytes:
//!
//! | bits | |
//! |---|---|
//! | 0 | [`LATE`]: the difference of time does not fit the word; 8 bytes with it follow |
//! | 1 | [`NEW`]: the place has another rest from now on; 16 bytes with it follow |
//! | 2 to 3 | bytes of the difference of frames, less one |
//! | 4 to 7 | the place |
//! | 8 to 23 | nanoseconds since the event before |
//! | 24 on | the difference of frames, its sign in the lowest bit |

use crate::limits;
use pageyard::Context;
use pageyard_trace::{Event, EventKind, FAILED};
use std::sync::Arc;

/// The most bytes of events that are kept: of about ten million.
const MOST_BYTES: u64 = 64 << 20;

/// The part of the memory beside a replay's tables that its events may take: one in so many bytes.
const SHARE: u64 = 8;

/// Bytes of a piece: a list that was reallocated as it grew would take up to three times its size.
const PIECE: usize = 256 << 10;

/// The most bytes that an event takes.
const LARGEST: usize = 7 + 8 + 16;

/// Places of rests: as many as four bits name.
const PLACES: usize = 16;

const LATE: u64 = 1;
const NEW: u64 = 2;

/// Events that are handed over at a time: they stay in a core's fastest cache.
const BATCH: usize = 512;

/// The frame that stands for [`FAILED`]: no machine that is replayed has it.
const NO_FRAME: u32 = u32::MAX;

/// How often the events of a recording are read again once the opening state was found in them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Readings {
    /// Once: the time that keeping them saves is not worth the memory.
    One,
    /// Several times: decoding them takes several times longer than reading what was kept.
    Several,
}

impl Readings {
    /// Returns how often so many engines read them.
    pub(crate) fn by(engines: usize) -> Readings {
        if engines > 1 { Readings::Several } else { Readings::One }
    }
}

/// All of an event but its time and its frame, in two numbers: what was asked for and by whom, and how and where.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Rest(u64, u64);

impl Rest {
    #[inline]
    fn of(event: &Event) -> Rest {
        let Event { time_ns: _, pfn: _, gfp, tid, cpu, kind, order, migratetype, context, irqs_off } = *event;
        let how = u32::from_le_bytes([
            kind as u8,
            order,
            migratetype as u8,
            (context as u8) << 1 | u8::from(irqs_off),
        ]);
        Rest(u64::from(gfp) << 32 | u64::from(tid), u64::from(how) << 32 | u64::from(cpu))
    }

    /// Returns an event with it.
    fn event(self) -> Event {
        let Rest(asked, how) = self;
        let [kind, order, migratetype, context] = ((how >> 32) as u32).to_le_bytes();
        Event {
            time_ns: 0,
            pfn: 0,
            gfp: (asked >> 32) as u32,
            tid: asked as u32,
            cpu: how as u32,
            kind: EventKind::ALL.get(usize::from(kind)).copied().unwrap_or(EventKind::Alloc),
            order,
            migratetype: migratetype as i8,
            context: Context::ALL.get(usize::from(context >> 1)).copied().unwrap_or_default(),
            irqs_off: context & 1 != 0,
        }
    }

    /// Returns the only place that it can have.
    #[inline]
    fn place(self) -> usize {
        // Fibonacci hashing: the highest bits of a product depend on all of the number.
        let mixed = self.0 ^ self.1.wrapping_mul(0xd6e8_feb8_6659_fd93);
        (mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - PLACES.ilog2())) as usize
    }
}

/// Some events, in order.
#[derive(Debug)]
struct Piece {
    bytes: Vec<u8>,
    /// Where the last event ends.
    end: usize,
}

impl Piece {
    fn new() -> Piece {
        Piece { bytes: vec![0; PIECE], end: 0 }
    }

    fn is_full(&self) -> bool {
        self.bytes.len() - self.end < LARGEST
    }

    /// Writes a number, of which `bytes` count.
    #[inline]
    fn put(&mut self, number: u64, bytes: usize) {
        self.bytes[self.end..self.end + 8].copy_from_slice(&number.to_le_bytes());
        self.end += bytes;
    }

    /// Reads the number at `at`.
    #[inline]
    fn number(&self, at: usize) -> u64 {
        self.bytes[at..].first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes))
    }
}

/// Keeps events while they fit.
pub(crate) struct Keeping {
    /// The event before, as far as the next one depends on it.
    time_ns: u64,
    frame: u32,
    rests: [Rest; PLACES],
    /// The pieces, the last of which is being filled; none once the events do not fit.
    pieces: Option<Vec<Piece>>,
    events: u64,
    /// Bytes that more pieces may take.
    room: u64,
}

impl Keeping {
    /// Begins with no events, for replays whose tables take `tables` bytes. Events that are read again only once are
    /// not kept.
    pub(crate) fn new(tables: u64, again: Readings) -> Keeping {
        match again {
            Readings::One => Keeping { pieces: None, ..Keeping::in_room(0) },
            Readings::Several => Keeping::in_room(MOST_BYTES.min(limits::left_beside(tables) / SHARE)),
        }
    }

    fn in_room(room: u64) -> Keeping {
        let (rests, pieces) = ([Rest::default(); PLACES], Some(Vec::new()));
        Keeping { time_ns: 0, frame: 0, rests, pieces, events: 0, room }
    }

    /// Keeps the next event.
    #[inline]
    pub(crate) fn event(&mut self, event: &Event) {
        let Some(pieces) = &mut self.pieces else { return };
        let frame = match event.pfn {
            FAILED => Some(NO_FRAME),
            pfn => u32::try_from(pfn).ok().filter(|frame| *frame != NO_FRAME),
        };
        let piece = match pieces.last_mut() {
            Some(last) if !last.is_full() => Some(last),
            _ => another(pieces, &mut self.room),
        };
        let (Some(frame), Some(piece)) = (frame, piece) else {
            self.pieces = None;
            return;
        };
        let rest = Rest::of(event);
        let place = rest.place();
        let time = event.time_ns.wrapping_sub(self.time_ns);
        let moved = frame.wrapping_sub(self.frame) as i32;
        let moved = (moved << 1 ^ moved >> 31) as u32;
        let width = 1 + (moved | 1).ilog2() / 8;
        let late = time > u64::from(u16::MAX);
        let new = self.rests[place] != rest;
        let announced = if late { LATE } else { 0 } | if new { NEW } else { 0 };
        let word = announced
            | u64::from(width - 1) << 2
            | (place as u64) << 4
            | (time & 0xffff) << 8
            | u64::from(moved) << 24;
        piece.put(word, 3 + width as usize);
        if late {
            piece.put(time, 8);
        }
        if new {
            piece.put(rest.0, 8);
            piece.put(rest.1, 8);
            self.rests[place] = rest;
        }
        (self.time_ns, self.frame) = (event.time_ns, frame);
        self.events += 1;
    }

    /// Returns the events; `None` where they did not fit.
    pub(crate) fn kept(self) -> Option<KeptEvents> {
        Some(KeptEvents { pieces: self.pieces?.into(), events: self.events })
    }
}

/// Adds a piece, if there is room for it.
#[cold]
fn another<'p>(pieces: &'p mut Vec<Piece>, room: &mut u64) -> Option<&'p mut Piece> {
    *room = room.checked_sub(PIECE as u64)?;
    pieces.push(Piece::new());
    pieces.last_mut()
}

/// All events of a recording. Clones share their memory.
#[derive(Clone, Debug)]
pub(crate) struct KeptEvents {
    pieces: Arc<[Piece]>,
    events: u64,
}

impl KeptEvents {
    /// Returns how many there are.
    pub(crate) fn len(&self) -> u64 {
        self.events
    }

    /// Begins to read them.
    pub(crate) fn read(&self) -> KeptReader<'_> {
        let rests = [Rest::default().event(); PLACES];
        KeptReader { time_ns: 0, frame: 0, rests, pieces: &self.pieces, at: 0 }
    }
}

/// Reads events that were kept.
pub(crate) struct KeptReader<'k> {
    /// The event before, as far as the next one depends on it; each rest is an event's.
    time_ns: u64,
    frame: u32,
    rests: [Event; PLACES],
    /// The pieces that are left, and how much of the first has been read.
    pieces: &'k [Piece],
    at: usize,
}

impl KeptReader<'_> {
    /// Replaces `out` by the next events; `false` when there are none left.
    pub(crate) fn next_batch(&mut self, out: &mut Vec<Event>) -> bool {
        out.clear();
        let Some((piece, others)) = self.pieces.split_first() else { return false };
        let mut at = self.at;
        while at < piece.end && out.len() < BATCH {
            let word = piece.number(at);
            let width = 1 + (word >> 2 & 3) as usize;
            let place = (word >> 4) as usize % PLACES;
            at += 3 + width;
            let mut time = word >> 8 & 0xffff;
            if word & LATE != 0 {
                time = piece.number(at);
                at += 8;
            }
            if word & NEW != 0 {
                self.rests[place] = Rest(piece.number(at), piece.number(at + 8)).event();
                at += 16;
            }
            let moved = (word >> 24 & u64::MAX >> (64 - 8 * width)) as u32;
            self.frame = self.frame.wrapping_add(moved >> 1 ^ (moved & 1).wrapping_neg());
            self.time_ns = self.time_ns.wrapping_add(time);
            let pfn = if self.frame == NO_FRAME { FAILED } else { u64::from(self.frame) };
            out.push(Event { time_ns: self.time_ns, pfn, ..self.rests[place] });
        }
        (self.pieces, self.at) = if at < piece.end { (self.pieces, at) } else { (others, 0) };
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(events: &[Event], room: u64) -> Option<KeptEvents> {
        let mut keeping = Keeping::in_room(room);
        events.iter().for_each(|event| keeping.event(event));
        keeping.kept()
    }

    fn read(kept: &KeptEvents) -> Vec<Event> {
        let (mut all, mut batch, mut reader) = (Vec::new(), Vec::new(), kept.read());
        while reader.next_batch(&mut batch) {
            assert!(!batch.is_empty() && batch.len() <= BATCH);
            all.extend_from_slice(&batch);
        }
        assert!(batch.is_empty() && !reader.next_batch(&mut batch));
        all
    }

    /// Events with every size of difference, and with many rests and with few.
    fn events(count: usize) -> Vec<Event> {
        let mut random = fastrand::Rng::with_seed(9);
        let mut time_ns = 0u64;
        let mut event = |i: usize| {
            time_ns += random.u64(..) >> random.u32(40..64);
            let few = (i / 1000).is_multiple_of(2);
            let rest = |random: &mut fastrand::Rng, most: u32| random.u32(..if few { 2 } else { most });
            Event {
                time_ns,
                pfn: if random.u8(..) == 0 {
                    FAILED
                } else {
                    u64::from(random.u32(..u32::MAX) >> random.u32(..32))
                },
                gfp: rest(&mut random, u32::MAX),
                tid: rest(&mut random, u32::MAX),
                cpu: rest(&mut random, 512),
                kind: EventKind::ALL[rest(&mut random, 5) as usize],
                order: rest(&mut random, 11) as u8,
                migratetype: rest(&mut random, 7) as i8 - 1,
                context: Context::ALL[rest(&mut random, 4) as usize],
                irqs_off: random.bool(),
            }
        };
        (0..count).map(&mut event).collect()
    }

    #[test]
    fn events_come_back_as_they_were() {
        let mut all = events(100_000);
        // The extremes, from one to the other and back.
        let last = all[all.len() - 1];
        for (time_ns, pfn) in
            [(u64::MAX, 0), (u64::MAX, FAILED), (u64::MAX, u64::from(NO_FRAME) - 1), (u64::MAX, 0)]
        {
            all.push(Event { time_ns, pfn, ..last });
        }
        let kept = kept(&all, MOST_BYTES).unwrap();
        assert!(kept.pieces.len() > 3 && kept.len() == all.len() as u64, "{} pieces", kept.pieces.len());
        assert_eq!(read(&kept), all);
        assert_eq!(read(&kept), all);
    }

    #[test]
    fn no_events_are_kept_too() {
        assert_eq!(read(&kept(&[], MOST_BYTES).unwrap()), []);
        assert_eq!(read(&kept(&events(1), PIECE as u64).unwrap()), events(1));
    }

    #[test]
    fn events_that_do_not_fit_are_not_kept() {
        let all = events(100_000);
        let size = (kept(&all, MOST_BYTES).unwrap().pieces.len() * PIECE) as u64;
        assert_eq!(read(&kept(&all, size).unwrap()), all);
        for room in [size - 1, PIECE as u64, PIECE as u64 - 1, 0] {
            assert!(kept(&all, room).is_none(), "{room} bytes of {size}");
        }
        // A frame that no replay has.
        assert!(kept(&[Event { pfn: u64::from(NO_FRAME), ..all[0] }], MOST_BYTES).is_none());
    }

    #[test]
    fn events_that_are_read_once_more_are_not_kept() {
        for (engines, is_kept) in [(0, false), (1, false), (2, true), (9, true)] {
            let mut keeping = Keeping::new(0, Readings::by(engines));
            events(1).iter().for_each(|event| keeping.event(event));
            assert_eq!(keeping.kept().is_some(), is_kept, "{engines} engines");
        }
    }
}
