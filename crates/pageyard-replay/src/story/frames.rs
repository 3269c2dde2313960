//! What holds each frame of a line of a story at its present moment, and what each pageblock comes to.

use super::class::{BLOCK, Class, LostBy, NOBODY, UNIT};
use super::layout::Layout;
use super::mark::{Held, Mark, NO_ORDER, Part};
use super::owners::{Owner, Owners};
use crate::bitmap::FrameSet;
use crate::machine::{Machine, Opening};
use crate::replay::merged;
use pageyard::{Frames, Migratetype, PAGEBLOCK_ORDER, Pfn, Region};
use pageyard_trace::{FrameKind, Snapshot};

/// A pageblock as a row of a story.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct State {
    /// Frames that nobody holds.
    pub free: u16,
    /// The largest order that they make, or 255.
    pub largest: u8,
    /// The pageblock's type, by [`Migratetype::ALL`].
    pub kind: u8,
    /// Frames by class: movable, unmovable, reclaimable, and pinned, those that are not there among the last.
    pub held: [u16; 4],
    /// Whose frame keeps it from becoming a huge frame; [`NOBODY`] where none does.
    pub owner: u32,
}

/// Free blocks in a pageblock, by order up to its own.
pub type Blocks = [u16; PAGEBLOCK_ORDER.get() as usize + 1];

/// Since when a pageblock is lost, where it is not.
const NOT_LOST: u32 = u32::MAX;

/// A pageblock's counts.
#[derive(Clone, Copy)]
struct Counts {
    held: [u16; 4],
    absent: u16,
    is_dirty: bool,
    kind: u8,
    opened_as: u8,
    /// Since when it is lost, in ticks, and why.
    lost: u32,
    lost_by: LostBy,
    /// The frame that has kept it from being whole for longest, from its start; `BLOCK` where that is to be looked for.
    spoiler: u16,
}

impl Counts {
    /// Says whether no frame keeps it from becoming a huge frame.
    fn can_be_whole(&self) -> bool {
        self.absent == 0 && self.held[1..] == [0; 3]
    }
}

/// What holds each frame.
pub struct FrameMap<'a> {
    layout: &'a Layout,
    marks: Vec<Mark>,
    /// For the first frame of each block: a [`Held`].
    heads: Vec<u64>,
    /// Frames that are held or absent.
    unfree: FrameSet,
    counts: Vec<Counts>,
    /// Pageblocks that changed since they were last looked at.
    dirty: Vec<u32>,
    /// Frames that are held.
    pub held_frames: u64,
    /// Frames that are there.
    pub managed: u64,
    /// Pageblocks that are lost.
    pub lost: u32,
    /// The owner of frames that are not there.
    nowhere: u32,
}

impl<'a> FrameMap<'a> {
    /// Begins with all frames of a machine free.
    pub fn new(
        layout: &'a Layout,
        regions: &[Region],
        opening: &Opening,
        owners: &mut Owners,
    ) -> FrameMap<'a> {
        let end = layout.end.next_multiple_of(UNIT);
        let mut marks = vec![Mark::ABSENT; end as usize];
        let mut unfree = FrameSet::new(Pfn(end));
        unfree.insert(Pfn(0), Frames(end));
        let none = Counts {
            held: [0; 4],
            absent: BLOCK as u16,
            is_dirty: false,
            kind: Migratetype::Movable as u8,
            opened_as: Migratetype::Movable as u8,
            lost: NOT_LOST,
            lost_by: LostBy::BeforeTheRecording,
            spoiler: BLOCK as u16,
        };
        let mut counts = vec![none; layout.len()];
        let mut managed = 0;
        for region in regions.iter().filter(|r| r.managed) {
            marks[region.start.0 as usize..region.end().0 as usize].fill(Mark::FREE);
            unfree.remove(region.start, region.frames);
            managed += region.frames.0;
            let mut at = region.start.0;
            while at < region.end().0 {
                let next = (at / BLOCK + 1) * BLOCK;
                if let Some(n) = layout.number(at) {
                    counts[n].absent -= (next.min(region.end().0) - at) as u16;
                }
                at = next;
            }
        }
        for (block, m) in &opening.types {
            if let Some(n) = layout.number(block.start().0) {
                (counts[n].kind, counts[n].opened_as) = (*m as u8, *m as u8);
            }
        }
        let heads = vec![0; end as usize];
        for counts in counts.iter_mut().filter(|c| c.absent > 0) {
            counts.lost = 0;
        }
        let lost = counts.iter().filter(|c| c.absent > 0).count() as u32;
        FrameMap {
            layout,
            marks,
            heads,
            unfree,
            counts,
            dirty: Vec::new(),
            held_frames: 0,
            managed,
            lost,
            nowhere: owners.number(Owner::Before(FrameKind::None, Class::Absent)),
        }
    }

    /// Says whether these frames are within memory.
    pub fn covers(&self, pfn: u64, frames: u64) -> bool {
        pfn.checked_add(frames).is_some_and(|end| end <= self.layout.end)
    }

    /// Returns how many of these frames are not free.
    pub fn taken(&self, pfn: u64, frames: u64) -> u64 {
        self.unfree.count(Pfn(pfn), Frames(frames))
    }

    /// Returns a pageblock's type, by [`Migratetype::ALL`].
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

    /// Returns since when a pageblock is lost, in ticks, and why; `None` where it is not.
    pub fn lost_since(&self, n: usize) -> Option<(u32, LostBy)> {
        let counts = &self.counts[n];
        (counts.lost != NOT_LOST).then_some((counts.lost, counts.lost_by))
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

    /// Notes that free frames are held from `now` on, in ticks. Frames that are not there are left out.
    pub fn hold(&mut self, part: Part, now: u32) {
        let end = part.pfn + part.frames;
        let mark = Mark::new(part.class, part.order);
        let mut at = part.pfn;
        while at < end {
            let next = ((at / BLOCK + 1) * BLOCK).min(end);
            if let Some(n) = self.layout.number(at) {
                let frames = next - at;
                let absent = match self.counts[n].absent {
                    0 => 0,
                    _ => self.fill_present(at, next, mark, part.held),
                };
                if absent == 0 {
                    self.marks[at as usize..next as usize].fill(mark);
                    self.unfree.insert(Pfn(at), Frames(frames));
                }
                let present = frames - absent;
                self.held_frames += present;
                self.counts[n].held[part.class as usize - 1] += present as u16;
                if present > 0 && part.class.spoils() {
                    self.spoil(n, at, part.class, now);
                }
                self.touch(n);
            }
            at = next;
        }
        let first = &mut self.marks[part.pfn as usize];
        if first.is_held() {
            first.0 |= Mark::FIRST;
            self.heads[part.pfn as usize] = part.held.packed();
        }
    }

    /// Fills those of some frames that are there, each a block of its own; returns how many are not.
    #[cold]
    fn fill_present(&mut self, from: u64, to: u64, mark: Mark, held: Held) -> u64 {
        let missing = (from..to).filter(|f| self.marks[*f as usize] == Mark::ABSENT).count() as u64;
        if missing > 0 {
            for f in from..to {
                if self.marks[f as usize] != Mark::ABSENT {
                    self.marks[f as usize] = Mark(mark.0 | Mark::FIRST);
                    self.heads[f as usize] = held.packed();
                    self.unfree.insert(Pfn(f), Frames(1));
                }
            }
        }
        missing
    }

    /// Notes that a frame that cannot be moved is in a pageblock.
    fn spoil(&mut self, n: usize, at: u64, class: Class, now: u32) {
        let counts = &mut self.counts[n];
        if counts.lost != NOT_LOST {
            return;
        }
        counts.lost = now;
        counts.spoiler = (at % BLOCK) as u16;
        counts.lost_by = match now {
            0 => LostBy::BeforeTheRecording,
            _ if !class.belongs(counts.kind) => LostBy::Fallback,
            _ if class.belongs(counts.opened_as) => LostBy::OwnType,
            _ => LostBy::Converted,
        };
        self.lost += 1;
    }

    /// Notes that nobody holds some frames any more; those that are free or not there stay so.
    pub fn release(&mut self, pfn: u64, frames: u64) {
        let end = pfn + frames;
        self.cut(end);
        let mut at = pfn;
        while at < end {
            let next = ((at / BLOCK + 1) * BLOCK).min(end);
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
            if mark.is_held() {
                counts.held[mark.class() as usize - 1] -= 1;
                released += 1;
                *mark = Mark::FREE;
            }
        }
        if released == 0 {
            return;
        }
        if counts.absent == 0 {
            self.unfree.remove(Pfn(from), Frames(to - from));
        } else {
            for f in from..to {
                if self.marks[f as usize] == Mark::FREE {
                    self.unfree.remove(Pfn(f), Frames(1));
                }
            }
        }
        self.held_frames -= released;
        if counts.lost != NOT_LOST {
            if counts.can_be_whole() {
                counts.lost = NOT_LOST;
                counts.spoiler = BLOCK as u16;
                self.lost -= 1;
            } else if (from % BLOCK..from % BLOCK + (to - from)).contains(&u64::from(counts.spoiler)) {
                counts.spoiler = BLOCK as u16;
            }
        }
        self.touch(n);
    }

    /// Makes a frame the first of its block, if a block reaches to it from before.
    fn cut(&mut self, at: u64) {
        if self.marks.get(at as usize).is_some_and(|m| m.is_held() && !m.is_first()) {
            self.heads[at as usize] = self.heads[self.head(at) as usize];
            self.marks[at as usize].0 |= Mark::FIRST;
        }
    }

    /// Returns who holds a frame that is held.
    fn held(&self, at: u64) -> Held {
        Held::unpacked(self.heads[self.head(at) as usize])
    }

    /// Returns the first frame of the block that a held frame is in.
    fn head(&self, mut at: u64) -> u64 {
        while at > 0 && !self.marks[at as usize].is_first() {
            at -= 1;
        }
        at
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
                held: self.held(start),
            });
        }
    }

    /// Notes what the snapshot says of the frames that were held when the recording began.
    pub fn open(&mut self, snapshot: &Snapshot, machine: &Machine, owners: &mut Owners) {
        for run in &snapshot.runs {
            let to = Pfn(run.end().min(self.layout.end));
            for (start, frames, held) in machine.runs(Pfn(run.pfn), to, |s| s.held_as().is_some()) {
                let (mut at, end) = (start.0, start.0 + frames.0);
                // A piece a pageblock: whose blocks the frames are is not known.
                while held && at < end {
                    let next = ((at / BLOCK + 1) * BLOCK).min(end);
                    let kind = self.layout.number(at).map(|n| self.kind(n));
                    let class = match run.kind {
                        FrameKind::Anon | FrameKind::File | FrameKind::HugeTlb => Class::Movable,
                        FrameKind::Slab if kind == Some(Migratetype::Reclaimable as u8) => Class::Reclaimable,
                        FrameKind::Slab | FrameKind::PageTable => Class::Unmovable,
                        _ => Class::Pinned,
                    };
                    let held = Held { owner: owners.number(Owner::Before(run.kind, class)), since: 0 };
                    self.hold(Part { pfn: at, frames: next - at, class, order: NO_ORDER, held }, 0);
                    at = next;
                }
            }
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
        let start = self.layout.starts[n];
        let mut words = [0; 16];
        for (word, i) in words.iter_mut().zip(start / 64..(start + BLOCK) / 64) {
            *word = !self.unfree.word(i as usize);
        }
        let free = words.iter().map(|w| w.count_ones()).sum::<u32>() as u16;
        let blocks = merged(&words);
        let largest = blocks.iter().rposition(|n| *n > 0).map_or(u8::MAX, |order| order as u8);
        let Counts { mut held, kind, absent, .. } = self.counts[n];
        held[3] += absent;
        let owner = self.spoiler(n).map_or(NOBODY, |held| held.owner);
        (State { free, largest, kind, held, owner }, std::array::from_fn(|order| blocks[order] as u16))
    }

    /// Returns who has kept a pageblock from being whole for longest.
    fn spoiler(&mut self, n: usize) -> Option<Held> {
        if self.counts[n].lost == NOT_LOST {
            return None;
        }
        if self.counts[n].absent > 0 {
            return Some(Held { owner: self.nowhere, since: 0 });
        }
        let start = self.layout.starts[n];
        let known = u64::from(self.counts[n].spoiler);
        if known < BLOCK {
            return Some(self.held(start + known));
        }
        let mut oldest: Option<Part> = None;
        self.parts(start, start + BLOCK, |part| {
            if part.class.spoils() && oldest.is_none_or(|o| part.held.since < o.held.since) {
                oldest = Some(part);
            }
        });
        let oldest = oldest?;
        self.counts[n].spoiler = (oldest.pfn % BLOCK) as u16;
        Some(oldest.held)
    }
}
