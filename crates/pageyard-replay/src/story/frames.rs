//! The holder of each frame of a line of a story at its present moment, and the totals of each pageblock.

use super::class::{BLOCK, Class, LostBy, NONE};
use super::layout::Layout;
use super::mark::{Mark, Part, Tenure};
use super::pageblock::{Blocks, Counts, State};
use crate::bitmap::FrameSet;
use crate::replay::{WORDS, merged};
use pageyard::{Frames, Pfn};

/// The holder of each frame.
pub struct FrameMap<'a> {
    pub(super) layout: &'a Layout,
    pub(super) marks: Vec<Mark>,
    /// For the first frame of each block that cannot be moved: a [`Tenure`].
    pub(super) heads: Vec<u64>,
    /// Frames that are held or absent.
    pub(super) unfree: FrameSet,
    pub(super) counts: Vec<Counts>,
    /// Pageblocks that changed since they were last looked at.
    pub(super) dirty: Vec<u32>,
    /// Frames that are held.
    pub held_frames: u64,
    /// Frames that are there.
    pub managed: u64,
    /// Pageblocks that are lost.
    pub lost: u32,
    /// The owner of frames that are not there.
    pub(super) nowhere: u32,
}

/// Returns the end of the pageblock that a frame is in, or `end` if that comes before.
fn piece(at: u64, end: u64) -> u64 {
    ((at / BLOCK + 1) * BLOCK).min(end)
}

impl FrameMap<'_> {
    /// Returns whether these frames are within memory.
    pub fn covers(&self, pfn: u64, frames: u64) -> bool {
        pfn.checked_add(frames).is_some_and(|end| end <= self.layout.end)
    }

    /// Returns a pageblock's type, by [`Migratetype::ALL`](pageyard::Migratetype::ALL).
    pub fn kind(&self, n: usize) -> u8 {
        self.counts[n].kind
    }

    /// Gives a pageblock a type; says whether it had another.
    pub fn set_kind(&mut self, n: usize, kind: u8) -> bool {
        let changed = self.counts[n].kind != kind;
        if changed {
            self.counts[n].kind = kind;
            self.touch(n);
        }
        changed
    }

    /// Returns how many frames of a pageblock are not there, and whose they count as.
    pub fn absent(&self, n: usize) -> (u16, u32) {
        (self.counts[n].absent, self.nowhere)
    }

    /// Returns whether a frame is not there.
    #[cfg(test)]
    pub fn is_absent(&self, pfn: u64) -> bool {
        self.marks[pfn as usize] == Mark::ABSENT
    }

    /// Returns since when a pageblock is lost, in ticks, and why; `None` where it is not.
    pub fn lost_since(&self, n: usize) -> Option<(u32, LostBy)> {
        self.counts[n].lost_since()
    }

    /// Hands the pageblocks over that changed since the last call, in ascending order.
    pub fn take_dirty(&mut self, into: &mut Vec<u32>) {
        into.clear();
        std::mem::swap(into, &mut self.dirty);
        into.sort_unstable();
        into.iter().for_each(|n| self.counts[*n as usize].is_dirty = false);
    }

    /// Adds what the frames of a pageblock are, and which are the first of their blocks (bit 7).
    pub fn classes(&self, n: usize, into: &mut Vec<u8>) {
        let start = self.layout.starts[n] as usize;
        into.extend(self.marks[start..start + BLOCK as usize].iter().map(|m| m.0 & (Mark::FIRST | 7)));
    }

    fn touch(&mut self, n: usize) {
        let counts = &mut self.counts[n];
        if !counts.is_dirty {
            counts.is_dirty = true;
            self.dirty.push(n as u32);
        }
    }

    /// Notes that frames are held from `now` on, in ticks. Those that held any of them gave it up. Frames that are not
    /// there are left out.
    pub fn hold(&mut self, part: Part, now: u32) {
        let end = part.pfn + part.frames;
        let mark = Mark::new(part.class, part.order);
        // Whether the frame before is of this block, too.
        let mut goes_on = false;
        let mut at = part.pfn;
        while at < end {
            let next = piece(at, end);
            let Some(n) = self.layout.number(at) else {
                (at, goes_on) = (next, false);
                continue;
            };
            let missing = match self.unfree.insert(Pfn(at), Frames(next - at)) {
                0 => 0,
                _ => self.make_room(at, next),
            };
            if missing == 0 {
                self.marks[at as usize..next as usize].fill(mark);
                if !goes_on {
                    self.begin(at, mark, part.held);
                }
                goes_on = true;
            } else {
                self.fill_present(at, next, mark, part.held);
                goes_on = self.marks[next as usize - 1].is_held();
            }
            let present = next - at - missing;
            self.held_frames += present;
            let counts = &mut self.counts[n];
            counts.held[part.class as usize - 1] += present as u16;
            if present > 0 && part.class.spoils() {
                self.lost += u32::from(counts.spoil(at, part.class, part.held, now));
            }
            self.touch(n);
            at = next;
        }
    }

    /// Marks the first frame of a block.
    fn begin(&mut self, at: u64, mark: Mark, held: Tenure) {
        self.marks[at as usize] = Mark(mark.0 | Mark::FIRST);
        if mark.class().spoils() {
            self.heads[at as usize] = held.packed();
        }
    }

    /// Frees what is held of some frames of a pageblock, which then count as taken; returns how many are not there.
    #[cold]
    fn make_room(&mut self, from: u64, to: u64) -> u64 {
        self.release(from, to - from);
        self.unfree.insert(Pfn(from), Frames(to - from));
        (from..to).filter(|f| self.marks[*f as usize] == Mark::ABSENT).count() as u64
    }

    /// Fills those of some frames that are there, each a block of its own.
    #[cold]
    fn fill_present(&mut self, from: u64, to: u64, mark: Mark, held: Tenure) {
        for f in from..to {
            if self.marks[f as usize] != Mark::ABSENT {
                self.begin(f, mark, held);
            }
        }
    }

    /// Notes that some frames are not held any more; those that are free or not there stay so.
    pub fn release(&mut self, pfn: u64, frames: u64) {
        let end = pfn + frames;
        self.cut(end);
        let mut at = pfn;
        while at < end {
            let next = piece(at, end);
            if let Some(n) = self.layout.number(at) {
                self.release_in(n, at, next);
            }
            at = next;
        }
    }

    fn release_in(&mut self, n: usize, from: u64, to: u64) {
        let counts = &mut self.counts[n];
        let mut released = 0;
        for mark in &mut self.marks[from as usize..to as usize] {
            if let Some(held) = counts.held.get_mut((mark.class() as usize).wrapping_sub(1)) {
                *held -= 1;
                released += 1;
                *mark = Mark::FREE;
            }
        }
        if released == 0 {
            return;
        }
        self.held_frames -= released;
        self.lost -= u32::from(counts.unspoil(from, to - from));
        if counts.absent == 0 {
            self.unfree.remove(Pfn(from), Frames(to - from));
        } else {
            for f in from..to {
                if self.marks[f as usize] == Mark::FREE {
                    self.unfree.remove(Pfn(f), Frames(1));
                }
            }
        }
        self.touch(n);
    }

    /// Makes a frame the first of its block, if a block reaches to it from before.
    fn cut(&mut self, at: u64) {
        if let Some(&mark) = self.marks.get(at as usize)
            && mark.is_held()
            && !mark.is_first()
        {
            self.begin(at, mark, self.held(at, mark));
        }
    }

    /// Returns who holds a frame that is held.
    fn held(&self, at: u64, mark: Mark) -> Tenure {
        if !mark.class().spoils() {
            return Tenure::NONE;
        }
        let mut head = at;
        while head > 0 && !self.marks[head as usize].is_first() {
            head -= 1;
        }
        Tenure::unpacked(self.heads[head as usize])
    }

    /// Calls `each` with the blocks that are held between two frames, cut to them.
    pub fn parts(&self, from: u64, to: u64, mut each: impl FnMut(Part)) {
        let mut at = from;
        while at < to {
            let mark = self.marks[at as usize];
            let start = at;
            at += 1;
            if !mark.is_held() {
                continue;
            }
            while at < to && self.marks[at as usize].0 == mark.0 & !Mark::FIRST {
                at += 1;
            }
            each(Part {
                pfn: start,
                frames: at - start,
                class: mark.class(),
                order: mark.order(),
                held: self.held(start, mark),
            });
        }
    }

    /// Moves what is held in some frames to others; what moves can be moved, whatever it was thought to be.
    pub fn relocate(&mut self, from: u64, to: u64, frames: u64, now: u32) {
        let mut moving = Vec::new();
        self.parts(from, from + frames, |part| moving.push(part));
        self.release(to, frames);
        self.release(from, frames);
        for part in moving {
            let class = if part.class == Class::Pinned { Class::Movable } else { part.class };
            self.hold(Part { pfn: part.pfn - from + to, class, ..part }, now);
        }
    }

    /// Returns a pageblock's row, and how many blocks of each order its free frames make.
    pub fn state(&mut self, n: usize) -> (State, Blocks) {
        let word = self.layout.starts[n] as usize / 64;
        let mut words = [0; WORDS];
        for (free, word) in words.iter_mut().zip(word..) {
            *free = !self.unfree.word(word);
        }
        let free = words.iter().map(|w| w.count_ones()).sum::<u32>() as u16;
        let blocks = merged(&words);
        let largest = blocks.iter().rposition(|n| *n > 0).map_or(u8::MAX, |order| order as u8);
        let owner = self.spoiler(n).unwrap_or(NONE);
        let Counts { mut held, kind, absent, .. } = self.counts[n];
        if self.counts[n].is_there() {
            held[3] += absent;
        }
        (State { free, largest, kind, held, owner }, blocks)
    }

    /// Returns who has kept a pageblock from being whole for longest.
    fn spoiler(&mut self, n: usize) -> Option<u32> {
        let counts = &self.counts[n];
        if !counts.is_lost() {
            return None;
        }
        if counts.absent > 0 {
            return Some(self.nowhere);
        }
        if let Some(known) = counts.spoiler() {
            return Some(known);
        }
        let start = self.layout.starts[n];
        let mut oldest: Option<Part> = None;
        self.parts(start, start + BLOCK, |part| {
            if part.class.spoils() && oldest.is_none_or(|o| part.held.since < o.held.since) {
                oldest = Some(part);
            }
        });
        let oldest = oldest?;
        self.counts[n].found_spoiler(oldest.pfn, oldest.held);
        Some(oldest.held.owner)
    }
}
