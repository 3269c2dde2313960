//! A line of a story: one host's or engine's memory at every moment, as changes of pageblocks, with figures and markers.

use super::class::{LostBy, NOBODY};
use super::frames::{Blocks, FrameMap, State};
use super::layout::Layout;
use pageyard::PAGEBLOCK_ORDER;
use pageyard::proctext::LINUX_ORDERS;
use pageyard_trace::FailureReason;

/// The order of a pageblock, as an index.
const HUGE: usize = PAGEBLOCK_ORDER.get() as usize;

/// Markers of one kind that are kept of one moment.
const MARKERS_A_MOMENT: u8 = 2;

/// How time is cut into moments. Moment `i` is the state at the end of `i * step` nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moments {
    /// Nanoseconds from one to the next.
    pub step: u64,
    /// How many there are, the opening's included.
    pub count: u32,
}

impl Moments {
    /// Cuts a recording into at most `most` moments.
    pub fn of(duration_ns: u64, most: u32) -> Moments {
        let step = duration_ns.div_ceil(u64::from(most.max(2)) - 1).max(1);
        Moments { step, count: duration_ns.div_ceil(step) as u32 + 1 }
    }

    /// Halves them: every other one goes away.
    fn halve(&mut self) {
        self.step *= 2;
        self.count = self.count.div_euclid(2) + 1;
    }
}

/// A pageblock's new row at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    /// When.
    pub moment: u32,
    /// Which.
    pub pageblock: u32,
    /// What it became.
    pub state: State,
}

/// What is counted from the start of a recording.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Frames that nobody holds, by the engine's own count.
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
    /// What is counted.
    pub counters: Counters,
    /// Blocks that the free frames make, lists drained.
    pub blocks: [u64; LINUX_ORDERS],
    /// Pageblocks that are wholly free.
    pub huge: u64,
    /// Pageblocks that are lost.
    pub lost: u32,
}

/// What a marker marks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum MarkerKind {
    /// A request got nothing.
    Failure = 0,
    /// A block came from a pageblock of another type.
    Fallback = 1,
    /// A pageblock was converted to another type.
    Steal = 2,
    /// Compaction began.
    Compaction = 3,
}

impl MarkerKind {
    /// The names, in order.
    pub const NAMES: [&'static str; 4] = ["failure", "fallback", "steal", "compaction"];
}

/// The words of reasons: those of failures, then those for which pageblocks are lost.
pub fn reasons() -> Vec<&'static str> {
    let failures = FAILURES.iter().map(|reason| reason.words());
    failures.chain(LostBy::ALL.iter().map(|reason| reason.words())).collect()
}

const FAILURES: [FailureReason; 5] = [
    FailureReason::OutOfMemory,
    FailureReason::BelowWatermark,
    FailureReason::Fragmented,
    FailureReason::Unexplained,
    FailureReason::BadRequest,
];

/// Returns the number of a failure's reason in [`reasons`].
pub fn failure_reason(reason: FailureReason) -> u32 {
    FAILURES.iter().position(|r| *r == reason).map_or(NOBODY, |at| at as u32)
}

/// Returns the number of the reason for which a pageblock is lost.
pub fn lost_reason(by: LostBy) -> u32 {
    FAILURES.len() as u32 + by as u32
}

/// Something that happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Marker {
    /// When, in nanoseconds.
    pub time_ns: u64,
    /// What.
    pub kind: MarkerKind,
    /// The order of the request, or 255.
    pub order: u8,
    /// The pageblock, or [`NOBODY`].
    pub pageblock: u32,
    /// The thread, or [`NOBODY`].
    pub thread: u32,
    /// Why, by [`reasons`], or [`NOBODY`].
    pub reason: u32,
}

/// Where changes go.
pub trait ChangeSink {
    /// Takes the changes of a moment, and the rows of all pageblocks after them.
    fn take(&mut self, moment: u32, changes: &[Change], states: &[State]);
}

impl ChangeSink for () {
    fn take(&mut self, _: u32, _: &[Change], _: &[State]) {}
}

/// A line under way.
pub struct Line<'a> {
    layout: &'a Layout,
    /// What holds each frame.
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
        let duration = moments.step.saturating_mul(u64::from(moments.count));
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

    /// Says whether a moment ends before a time.
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
        sink.take(self.over, &self.fresh, &self.states);
        self.over += 1;
        self.due += self.moments.step;
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
        self.due = u64::from(self.over) * self.moments.step;
    }

    /// Returns the pageblocks' numbers and frames.
    pub fn layout(&self) -> &'a Layout {
        self.layout
    }
}

/// Drops every other moment of some changes, which ascend by moment.
pub fn halve_changes(changes: &mut Vec<Change>, pageblocks: usize) {
    // From the last to the first: the later of two rows of a pageblock stays.
    let mut seen = vec![u32::MAX; pageblocks];
    let mut kept: Vec<Change> = Vec::with_capacity(changes.len());
    for change in changes.iter().rev() {
        let moment = change.moment.div_ceil(2);
        if std::mem::replace(&mut seen[change.pageblock as usize], moment) != moment {
            kept.push(Change { moment, ..*change });
        }
    }
    kept.reverse();
    kept.sort_by_key(|change| (change.moment, change.pageblock));
    *changes = kept;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_is_cut_to_its_end() {
        for duration in [0, 1, 2046, 2047, 2048, 12_004_615_756] {
            let moments = Moments::of(duration, 2048);
            let last = u64::from(moments.count - 1);
            assert!((1..=2048).contains(&moments.count), "{duration}");
            assert!(last * moments.step >= duration && last.saturating_sub(1) * moments.step <= duration);
        }
    }

    #[test]
    fn halved_changes_come_to_the_same_states() {
        const PAGEBLOCKS: usize = 20;
        let mut rng = fastrand::Rng::with_seed(3);
        let state = |free| State { free, largest: 0, kind: 1, held: [0; 4], owner: NOBODY };
        let mut changes = Vec::new();
        for moment in 1..=64 {
            for pageblock in 0..PAGEBLOCKS as u32 {
                if rng.u8(0..4) == 0 {
                    changes.push(Change { moment, pageblock, state: state(rng.u16(0..512)) });
                }
            }
        }
        let at = |changes: &[Change], moment: u32| {
            let mut states = [state(0); PAGEBLOCKS];
            changes
                .iter()
                .filter(|c| c.moment <= moment)
                .for_each(|c| states[c.pageblock as usize] = c.state);
            states
        };
        let mut halved = changes.clone();
        halve_changes(&mut halved, PAGEBLOCKS);
        assert!(halved.len() < changes.len() && halved.is_sorted_by_key(|c| (c.moment, c.pageblock)));
        for moment in 0..=32 {
            assert_eq!(at(&halved, moment), at(&changes, 2 * moment), "moment {moment}");
        }
    }
}
