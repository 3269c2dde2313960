//! Moments of which every frame is kept.

use super::chunk::{ChunkEntry, Chunks, Columns};
use super::line::Line;
use std::cell::RefCell;

/// The most of a line.
pub const MOST: u64 = 64;

/// Bytes that those of a line may take, compressed.
pub const BUDGET: u64 = 320 << 10;

/// The moments of a line of which every frame is kept: its opening, its end, and as many between as fit.
pub struct Keyframes<'a> {
    chunks: &'a RefCell<Chunks>,
    /// Moments from one to the next; none between opening and end where there is none.
    every: Option<u32>,
    /// Each moment and its chunk.
    pub taken: Vec<(u32, ChunkEntry)>,
}

impl<'a> Keyframes<'a> {
    /// Takes the opening.
    pub fn begin(chunks: &'a RefCell<Chunks>, line: &Line<'_>) -> Keyframes<'a> {
        let (opening, packed) = chunks.borrow_mut().add_now(frames(line));
        // Moments may still be halved: what is taken must be there then, too.
        let fits = (BUDGET / packed.max(1)).clamp(2, MOST);
        let every = u64::from(line.moments.count).div_ceil(fits).next_multiple_of(32) as u32;
        Keyframes { chunks, every: (fits > 2).then_some(every), taken: vec![(0, opening)] }
    }

    /// Begins those of another line, which has the same opening.
    pub fn of_another(&self) -> Keyframes<'a> {
        Keyframes { chunks: self.chunks, every: self.every, taken: self.taken[..1].to_vec() }
    }

    /// Takes the moment that has just ended, if it is one of those to be kept.
    pub fn see(&mut self, line: &Line<'_>) {
        let moment = line.moment() - 1;
        let is_last = line.moment() == line.moments.count;
        if is_last || self.every.is_some_and(|every| moment.is_multiple_of(every)) {
            let chunk = self.chunks.borrow_mut().add(frames(line));
            self.taken.push((moment, chunk));
        }
    }

    /// Follows moments that were halved.
    pub fn halve(&mut self) {
        self.every = self.every.map(|every| every / 2);
        self.taken.iter_mut().for_each(|(moment, _)| *moment /= 2);
    }
}

/// Returns what the frames of all pageblocks are.
fn frames(line: &Line<'_>) -> Columns {
    let pageblocks = 0..line.layout().len();
    let mut classes = Vec::with_capacity(pageblocks.len() * super::class::BLOCK as usize);
    pageblocks.for_each(|n| line.frames.classes(n, &mut classes));
    Columns::new(classes.len()).bytes("class", &classes)
}
