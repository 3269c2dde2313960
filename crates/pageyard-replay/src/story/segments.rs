//! Segments of a line: the state of every pageblock, and what changes until the next segment.

use super::changes::{Change, ChangeSink, halve_changes};
use super::chunk::{ChunkEntry, Chunks, Columns};
use super::pageblock::State;
use std::cell::RefCell;

/// Changes that a segment has at least before the next one begins, and how many for each pageblock: unpacking them
/// takes a browser about as long as a few times the pageblocks.
const LEAST_CHANGES: usize = 1 << 15;
const CHANGES_A_PAGEBLOCK: usize = 2;

/// A segment, by its chunks.
#[derive(Clone, Debug)]
pub struct Segment {
    /// The first moment: `base` is the state then.
    pub from: u32,
    /// The last moment.
    pub to: u32,
    /// The state of every pageblock.
    pub base: ChunkEntry,
    /// The changes after that.
    pub changes: ChunkEntry,
}

/// Packs changes in order.
struct Segments<'a> {
    chunks: &'a RefCell<Chunks>,
    base: ChunkEntry,
    from: u32,
    pending: Vec<Change>,
    last: u32,
    /// The packed segments.
    done: Vec<Segment>,
}

impl<'a> Segments<'a> {
    /// Begins with the opening state.
    fn begin(chunks: &'a RefCell<Chunks>, opening: &[State]) -> Segments<'a> {
        let base = add_base(chunks, opening);
        Segments { chunks, base, from: 0, pending: Vec::new(), last: 0, done: Vec::new() }
    }

    fn pack(&mut self) {
        let changes = add_changes(self.chunks, &self.pending);
        self.done.push(Segment { from: self.from, to: self.last, base: self.base.clone(), changes });
        self.pending.clear();
    }

    /// Packs the rest.
    fn finish(mut self) -> Vec<Segment> {
        self.pack();
        self.done
    }

    /// Takes the changes of a moment, and the rows of all pageblocks after them.
    fn take(&mut self, moment: u32, changes: &[Change], states: &[State]) {
        if self.pending.len() >= LEAST_CHANGES.max(CHANGES_A_PAGEBLOCK * states.len()) {
            self.pack();
            self.from = moment;
            self.base = add_base(self.chunks, states);
        } else {
            self.pending.extend_from_slice(changes);
        }
        self.last = moment;
    }
}

/// Gathers changes, so that their moments can still be halved.
pub struct Gathered {
    /// The rows of the opening.
    opening: Vec<State>,
    changes: Vec<Change>,
}

impl Gathered {
    /// Begins with the opening state.
    pub fn begin(opening: &[State]) -> Gathered {
        Gathered { opening: opening.to_vec(), changes: Vec::new() }
    }

    /// Returns how many there are.
    pub fn len(&self) -> usize {
        self.changes.len()
    }

    /// Drops every other moment.
    pub fn halve(&mut self) {
        halve_changes(&mut self.changes, self.opening.len());
    }

    /// Packs what was gathered; `last` is the last moment.
    pub fn pack(self, chunks: &RefCell<Chunks>, last: u32) -> Vec<Segment> {
        let mut states = self.opening;
        let mut segments = Segments::begin(chunks, &states);
        let mut rest = &self.changes[..];
        for moment in 1..=last {
            let n = rest.partition_point(|change| change.moment == moment);
            let (now, later) = rest.split_at(n);
            rest = later;
            now.iter().for_each(|change| states[change.pageblock as usize] = change.state);
            segments.take(moment, now, &states);
        }
        segments.finish()
    }
}

impl ChangeSink for Gathered {
    fn take(&mut self, changes: &[Change]) {
        self.changes.extend_from_slice(changes);
    }
}

fn add_base(chunks: &RefCell<Chunks>, states: &[State]) -> ChunkEntry {
    let chunks = &mut *chunks.borrow_mut();
    let columns = state_columns(chunks.columns(states.len()), chunks, states.iter());
    chunks.add(columns)
}

fn add_changes(chunks: &RefCell<Chunks>, changes: &[Change]) -> ChunkEntry {
    let chunks = &mut *chunks.borrow_mut();
    let columns = chunks
        .columns(changes.len())
        .u32("moment", changes.iter().map(|c| c.moment))
        .u32("pageblock", changes.iter().map(|c| c.pageblock));
    let columns = state_columns(columns, chunks, changes.iter().map(|c| &c.state));
    chunks.add(columns)
}

fn state_columns<'s>(
    columns: Columns,
    chunks: &mut Chunks,
    states: impl Iterator<Item = &'s State> + Clone,
) -> Columns {
    let held = |class: usize| states.clone().map(move |s| s.held[class]);
    columns
        .u16("free", states.clone().map(|s| s.free))
        .u8("largest", states.clone().map(|s| s.largest))
        .u8("type", states.clone().map(|s| s.kind))
        .u16("movable", held(0))
        .u16("unmovable", held(1))
        .u16("reclaimable", held(2))
        .u16("pinned", held(3))
        .u32("owner", states.clone().map(|s| chunks.shown(s.owner)))
}
