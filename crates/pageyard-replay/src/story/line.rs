//! A line of a story: one host's or engine's memory at every moment, as changes of pageblocks, with figures and
//! markers.

use super::changes::{Change, ChangeSink};
use super::frames::FrameMap;
use super::layout::Layout;
use super::mark::{Part, Tenure};
use super::marker::Marker;
use super::moments::Moments;
use super::owners::{Owner, Owners};
use super::pageblock::{Blocks, State};
use pageyard::proctext::LINUX_ORDERS;
use pageyard::{Order, PAGEBLOCK_ORDER};

/// The order of a pageblock, as an index.
const HUGE: usize = PAGEBLOCK_ORDER.get() as usize;

/// Markers of one kind that are kept of one moment.
const MARKERS_A_MOMENT: u8 = 2;

/// The counts since the start of a recording.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Frames that are not held, by the engine's own count.
    pub free: u64,
    /// Of those, the ones in per-CPU lists; 0 where that is not known.
    pub cached: u64,
    /// Requests that got nothing.
    pub failures: u64,
    /// Blocks taken from a pageblock of another type.
    pub fallbacks: u64,
    /// Pageblocks converted to another type.
    pub steals: u64,
    /// Runs of compaction.
    pub compactions: u64,
}

/// Figures of a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Figures {
    /// The counts.
    pub counters: Counters,
    /// Blocks that the free frames make, lists drained.
    pub blocks: [u64; LINUX_ORDERS],
    /// Pageblocks that are wholly free.
    pub huge: u64,
    /// Pageblocks that are lost.
    pub lost: u32,
}

/// A line under way.
pub struct Line<'a> {
    layout: &'a Layout,
    /// The holder of each frame.
    pub frames: FrameMap<'a>,
    /// The rows at the last moment.
    pub states: Vec<State>,
    /// Free blocks in each pageblock, and in all.
    blocks: Vec<Blocks>,
    sums: [u64; LINUX_ORDERS - 1],
    /// Pairs of buddies that are both whole.
    pairs: u64,
    dirty: Vec<u32>,
    /// The moments, and how many are over.
    pub moments: Moments,
    over: u32,
    /// When the next one is due.
    due: u64,
    fresh: Vec<Change>,
    /// Figures, a row a moment.
    pub figures: Vec<Figures>,
    /// Markers, in order of time; of each kind the first few of a moment.
    pub markers: Vec<Marker>,
    marked: [u8; 4],
    /// Markers that were left out.
    pub unmarked: u64,
    /// Nanoseconds of a tick.
    tick: u64,
}

impl<'a> Line<'a> {
    /// Begins with the opening state, which is moment 0.
    pub fn begin(layout: &'a Layout, frames: FrameMap<'a>, moments: Moments, counters: Counters) -> Line<'a> {
        // A tick is the least time that 32 bits can count to the end in.
        let duration = moments.end(moments.count - 1);
        let mut line = Line {
            layout,
            frames,
            states: Vec::new(),
            blocks: vec![Blocks::default(); layout.len()],
            sums: [0; LINUX_ORDERS - 1],
            pairs: 0,
            dirty: Vec::new(),
            moments,
            over: 1,
            due: moments.step,
            fresh: Vec::new(),
            figures: Vec::new(),
            markers: Vec::new(),
            marked: [0; 4],
            unmarked: 0,
            tick: duration.div_ceil(u64::from(u32::MAX) - 2).max(1),
        };
        line.frames.take_dirty(&mut line.dirty);
        for n in 0..layout.len() {
            let (state, blocks) = line.frames.state(n);
            line.states.push(state);
            line.count(n, blocks);
        }
        line.figure(counters);
        line
    }

    /// Returns a time as ticks, which are 0 only before the recording.
    #[inline]
    pub fn ticks(&self, time_ns: u64) -> u32 {
        (time_ns / self.tick).min(u64::from(u32::MAX) - 2) as u32 + 1
    }

    /// Returns ticks as nanoseconds from the start; `None` for before the recording.
    pub fn time_ns(&self, ticks: u32) -> Option<u64> {
        Some(u64::from(ticks.checked_sub(1)?) * self.tick)
    }

    /// Notes that a block is held from a time on, by `owner`, who asked for it.
    pub fn hold(&mut self, pfn: u64, order: Order, owner: Owner, time_ns: u64, owners: &mut Owners) {
        let class = owner.class();
        let held = if class.spoils() {
            Tenure { owner: owners.number(owner), since: self.ticks(time_ns) }
        } else {
            Tenure::NONE
        };
        let part = Part { pfn, frames: order.frames().0, class, order: order.get(), held };
        self.frames.hold(part, held.since);
    }

    /// Returns whether a moment ends before a time.
    #[inline]
    pub fn is_due(&self, time_ns: u64) -> bool {
        time_ns > self.due && self.over < self.moments.count
    }

    /// Returns when the moment under way ends.
    pub fn due(&self) -> u64 {
        self.due
    }

    /// Returns the number of the moment under way.
    pub fn moment(&self) -> u32 {
        self.over
    }

    /// Ends a moment.
    pub fn end(&mut self, counters: Counters, sink: &mut dyn ChangeSink) {
        let mut dirty = std::mem::take(&mut self.dirty);
        self.frames.take_dirty(&mut dirty);
        self.fresh.clear();
        for n in &dirty {
            let at = *n as usize;
            let (state, blocks) = self.frames.state(at);
            if state != self.states[at] {
                self.states[at] = state;
                self.fresh.push(Change { moment: self.over, pageblock: *n, state });
            }
            self.count(at, blocks);
        }
        self.dirty = dirty;
        self.figure(counters);
        sink.take(&self.fresh);
        self.over += 1;
        self.due = self.moments.end(self.over);
        self.marked = [0; 4];
    }

    /// Counts the free blocks in a pageblock anew.
    fn count(&mut self, n: usize, now: Blocks) {
        let before = std::mem::replace(&mut self.blocks[n], now);
        for ((sum, old), new) in self.sums.iter_mut().zip(before).zip(now) {
            *sum = *sum + u64::from(new) - u64::from(old);
        }
        // Two whole buddies are one block of the largest order.
        let is_whole = |blocks: &Blocks| blocks[HUGE] == 1;
        if self.layout.buddy(n).is_some_and(|buddy| is_whole(&self.blocks[buddy])) {
            self.pairs += u64::from(is_whole(&now));
            self.pairs -= u64::from(is_whole(&before));
        }
    }

    fn figure(&mut self, counters: Counters) {
        let huge = self.sums[HUGE];
        let mut blocks = [0; LINUX_ORDERS];
        blocks[..HUGE].copy_from_slice(&self.sums[..HUGE]);
        (blocks[HUGE], blocks[HUGE + 1]) = (huge - 2 * self.pairs, self.pairs);
        self.figures.push(Figures { counters, blocks, huge, lost: self.frames.lost });
    }

    /// Notes that something happened.
    pub fn mark(&mut self, marker: Marker) {
        let marked = &mut self.marked[marker.kind as usize];
        if *marked < MARKERS_A_MOMENT {
            *marked += 1;
            self.markers.push(marker);
        } else {
            self.unmarked += 1;
        }
    }

    /// Drops every other moment of those that are over; an even number of them after the opening.
    pub fn halve(&mut self) {
        debug_assert!(self.over % 2 == 1, "the last moment stays");
        self.moments.halve();
        let mut n = 0;
        self.figures.retain(|_| {
            n += 1;
            n % 2 == 1
        });
        self.over = self.over / 2 + 1;
        self.due = self.moments.end(self.over);
    }

    /// Returns the pageblocks' numbers and frames.
    pub fn layout(&self) -> &'a Layout {
        self.layout
    }
}
