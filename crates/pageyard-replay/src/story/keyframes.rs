//! Moments of which every frame is kept.

use super::chunk::{ChunkEntry, Chunks, Columns};
use super::class::BLOCK;
use super::line::Line;
use std::cell::RefCell;

/// The most of a line.
pub const MOST: u64 = 64;

/// Moments that can be halved into one while keyframes stay as far apart as they are.
const HALVINGS: u64 = 1 << 5;

/// Bytes that those of a line may take, compressed, as far as the opening foretells it.
const BUDGET: u64 = 336 << 10;

/// If fewer fit, only the opening and the end are taken: a step's length is rounded, so that some more are than fit.
const LEAST: u64 = 4;

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
        let opening = frames(&chunks.borrow(), line);
        let (opening, packed) = chunks.borrow_mut().add_now(opening);
        let every = every(line.moments.count, BUDGET / packed.max(1));
        Keyframes { chunks, every, taken: vec![(0, opening)] }
    }

    /// Begins those of another line, which has the same opening.
    pub fn of_another(&self) -> Keyframes<'a> {
        Keyframes { chunks: self.chunks, every: self.every, taken: self.taken[..1].to_vec() }
    }

    /// Takes the moment that has just ended, if it is one of those to be kept.
    pub fn see(&mut self, line: &Line<'_>) {
        let moment = line.moment() - 1;
        let is_last = line.moment() == line.moments.count;
        let is_due = self.every.is_some_and(|every| moment.is_multiple_of(every));
        // The end is one more.
        if is_last || is_due && (self.taken.len() as u64) < MOST - 1 {
            let frames = frames(&self.chunks.borrow(), line);
            let chunk = self.chunks.borrow_mut().add(frames);
            self.taken.push((moment, chunk));
        }
    }

    /// Follows moments that were halved.
    pub fn halve(&mut self) {
        self.every = self.every.map(|every| (every / 2).max(1));
        self.taken.retain(|(moment, _)| moment.is_multiple_of(2));
        self.taken.iter_mut().for_each(|(moment, _)| *moment /= 2);
    }
}

/// Returns how far apart keyframes are, so that about as many are taken as fit; `None` where there is room for little
/// more than the opening and the end.
fn every(moments: u32, fits: u64) -> Option<u32> {
    // Moments may still be halved: what is taken should be there then, too.
    let step = u64::from(moments).div_ceil(fits.clamp(1, MOST)).next_multiple_of(HALVINGS);
    (fits >= LEAST).then_some(step as u32)
}

/// Returns what the frames of all pageblocks are.
fn frames(chunks: &Chunks, line: &Line<'_>) -> Columns {
    let pageblocks = line.layout().len();
    chunks.columns(pageblocks * BLOCK as usize).runs("class", |into| {
        (0..pageblocks).for_each(|n| line.frames.classes(n, into));
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keyframes_are_about_as_many_as_fit() {
        for moments in [1, 2, 3, 63, 64, 65, 1000, 2047, 2048] {
            for fits in [0, 1, 3, 4, 9, 10, 33, 63, 64, 65, u64::MAX] {
                let Some(every) = every(moments, fits) else {
                    assert!(fits < LEAST);
                    continue;
                };
                assert!(every > 0 && u64::from(every).is_multiple_of(HALVINGS));
                let taken = (0..moments).filter(|m| m.is_multiple_of(every)).count() as u64;
                assert!(taken <= fits.min(MOST), "{taken} of {moments} where {fits} fit");
            }
        }
    }
}
