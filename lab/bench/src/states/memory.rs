//! Frames, and what each holds.

use crate::error::BenchError;
use pageyard::{Frames, Migratetype, Order, PAGEBLOCK_ORDER, PageblockId, Pfn};
use pageyard_trace::contents::pageblocks::each;
use pageyard_trace::text::size;
use pageyard_trace::{FrameKind, Run, Snapshot, Spoiler};
use std::collections::BTreeSet;

/// Frames of a pageblock.
pub(super) const BLOCK: u64 = PAGEBLOCK_ORDER.frames().0;

/// The most frames of a state: 256 GiB. It is laid out frame by frame, in about 16 bytes each.
const MOST: u64 = 1 << 26;

/// The first frame of every state: 4 GiB. Its one zone is `Normal`, and a guest has room for its own kernel below.
pub(super) const FIRST: Pfn = Pfn(1 << 20);

/// The content of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Content {
    /// Its kind.
    pub kind: FrameKind,
    /// Whether it is locked, or pinned: a trace has one mark for both.
    pub locked: bool,
}

impl Content {
    /// Nothing.
    pub const FREE: Content = Content::of(FrameKind::Free);

    /// Returns content that is not locked.
    #[must_use]
    pub const fn of(kind: FrameKind) -> Content {
        Content { kind, locked: false }
    }

    /// Returns the type of the request that such a frame was allocated with, and none for a free one.
    #[must_use]
    pub fn requested_as(self) -> Option<Migratetype> {
        match self.kind {
            FrameKind::Free => None,
            FrameKind::Anon | FrameKind::File => Some(Migratetype::Movable),
            _ => Some(Migratetype::Unmovable),
        }
    }

    /// Returns whether compaction could move it.
    #[must_use]
    pub fn is_movable(self) -> bool {
        self.requested_as() == Some(Migratetype::Movable) && !self.locked
    }

    /// Returns whether it is held and cannot be moved.
    #[must_use]
    pub fn is_unmovable(self) -> bool {
        self.kind != FrameKind::Free && !self.is_movable()
    }
}

/// Whole pageblocks of memory, all of it managed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Memory {
    frames: Vec<Content>,
}

/// The places of a recorded host's whole pageblocks in the state taken from it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Places {
    /// Runs of frames on the host, the first and how many, side by side in the state.
    runs: Vec<(u64, u64)>,
}

impl Places {
    /// Finds the pageblocks that are there as a whole, and those that the recording names. Of the others, those that
    /// hold nothing with a flag are taken for memory that the host gave away, and left out.
    fn of(snapshot: &Snapshot, named: &BTreeSet<PageblockId>) -> Places {
        let mut runs = Vec::new();
        each(snapshot, |alike| {
            if !matches!(alike.spoiler, Spoiler::Absent | Spoiler::WhollyOther) {
                runs.push((alike.pfn, alike.blocks * BLOCK));
                return;
            }
            let pageblocks = (0..alike.blocks).map(|n| alike.pfn + n * BLOCK);
            runs.extend(pageblocks.filter(|p| named.contains(&Pfn(*p).pageblock())).map(|p| (p, BLOCK)));
        });
        Places { runs }
    }

    fn frames(&self) -> u64 {
        self.runs.iter().map(|(_, frames)| frames).sum()
    }

    /// Returns where a block of the host lies in the state; `None` where a part of it was left out.
    #[must_use]
    pub fn block(&self, pfn: u64, order: Order) -> Option<u64> {
        let frames = order.frames().0;
        let (first, end) = (self.border(pfn), self.border(pfn.checked_add(frames)?));
        (end - first == frames).then_some(first)
    }

    /// Returns how far into the state a place between the host's frames is: that many of its frames lie below.
    #[must_use]
    pub fn border(&self, pfn: u64) -> u64 {
        let below = |(first, frames): &(u64, u64)| pfn.saturating_sub(*first).min(*frames);
        FIRST.0 + self.runs.iter().map(below).sum::<u64>()
    }
}

impl Memory {
    /// Returns memory of this many bytes, every frame with this content.
    ///
    /// # Errors
    /// [`BenchError::State`] for a size that is no whole number of pageblocks, or is too large.
    pub fn filled(bytes: u64, content: Content) -> Result<Memory, BenchError> {
        let block = BLOCK * pageyard::PAGE_SIZE;
        if bytes == 0 || !bytes.is_multiple_of(block) {
            let why = format!("{bytes} bytes are no whole number of pageblocks; take a multiple of 2 MiB");
            return Err(BenchError::State { why });
        }
        let frames = bytes / pageyard::PAGE_SIZE;
        check(frames)?;
        Ok(Memory { frames: vec![content; frames as usize] })
    }

    /// Takes the pageblocks of a recorded host that are there as a whole, side by side, and says where each came to
    /// lie. Those that hold nothing with a flag are taken for memory that the host gave away, and left out. A pageblock
    /// that its events [name](super::Load::pageblocks) is taken in any case; a hole in it is memory that the kernel
    /// keeps.
    ///
    /// # Errors
    /// [`BenchError::State`] where there is no such pageblock, or too many.
    pub fn recorded(
        snapshot: &Snapshot,
        named: &BTreeSet<PageblockId>,
    ) -> Result<(Memory, Places), BenchError> {
        let places = Places::of(snapshot, named);
        let all = places.frames();
        if all == 0 {
            let why =
                "the snapshot has no whole pageblock; take a recording of a host with more memory".to_owned();
            return Err(BenchError::State { why });
        }
        check(all)?;
        let mut taken = Vec::with_capacity(all as usize);
        for &(first, frames) in &places.runs {
            // A gap between runs stays so.
            let start = taken.len();
            taken.resize(start + frames as usize, Content::of(FrameKind::Other));
            let here = &mut taken[start..];
            let from = snapshot.runs.partition_point(|run| run.end() <= first);
            for run in snapshot.runs[from..].iter().take_while(|run| run.pfn < first + frames) {
                let kind = match run.kind {
                    FrameKind::None | FrameKind::Reserved => FrameKind::Other,
                    kind => kind,
                };
                let (from, to) = (run.pfn.max(first) - first, run.end().min(first + frames) - first);
                here[from as usize..to as usize].fill(Content { kind, locked: run.unevictable });
            }
        }
        Ok((Memory { frames: taken }, places))
    }

    /// Returns how many frames there are.
    #[must_use]
    pub fn frames(&self) -> Frames {
        Frames(self.frames.len() as u64)
    }

    /// Iterates over the pageblocks, lowest first.
    pub fn pageblocks(&self) -> std::slice::Chunks<'_, Content> {
        self.frames.chunks(BLOCK as usize)
    }

    /// Returns a pageblock, counted from 0.
    pub(super) fn pageblock(&mut self, at: u64) -> &mut [Content] {
        let start = (at * BLOCK) as usize;
        &mut self.frames[start..start + BLOCK as usize]
    }

    /// Iterates over the longest runs of frames for which `class` says the same: the first, counted from 0, how many,
    /// and what it says.
    pub(super) fn runs<K: PartialEq>(
        &self,
        class: impl Fn(Content) -> K,
    ) -> impl Iterator<Item = (u64, u64, K)> {
        let mut at = 0;
        let alike = |class: &dyn Fn(Content) -> K, frames: &[Content]| {
            let first = frames.first().map(|frame| class(*frame))?;
            Some((frames.iter().take_while(|frame| class(**frame) == first).count() as u64, first))
        };
        std::iter::from_fn(move || {
            let (frames, says) = alike(&class, &self.frames[at as usize..])?;
            at += frames;
            Some((at - frames, frames, says))
        })
    }

    /// Returns it as a snapshot.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        let run = |(at, frames, content): (u64, u64, Content)| Run {
            pfn: FIRST.0 + at,
            frames,
            kind: content.kind,
            thp: false,
            unevictable: content.locked,
        };
        Snapshot { runs: self.runs(|content| content).map(run).collect() }
    }
}

/// Refuses memory that is too large to be laid out frame by frame.
fn check(frames: u64) -> Result<(), BenchError> {
    if frames <= MOST {
        return Ok(());
    }
    let why = format!("{} are more than a state can have; {} are the most", size(frames), size(MOST));
    Err(BenchError::State { why })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(pfn: u64, frames: u64, kind: FrameKind) -> Run {
        Run { pfn, frames, kind, thp: false, unevictable: false }
    }

    #[test]
    fn of_a_recording_whole_pageblocks_are_taken_side_by_side() {
        let runs = vec![
            run(1, 511, FrameKind::Free),
            run(512, 1, FrameKind::Slab),
            run(513, 1023, FrameKind::Free),
            run(1536, 1024, FrameKind::Other),
            run(2560, 500, FrameKind::Anon),
            run(3060, 12, FrameKind::PageTable),
            run(3072, 5, FrameKind::Reserved),
            run(3077, 3, FrameKind::Free),
            run(3084, 500, FrameKind::Free),
        ];
        let snapshot = Snapshot { runs };
        let (memory, places) = Memory::recorded(&snapshot, &BTreeSet::new()).unwrap();
        let kept: Vec<_> = memory.runs(|content| content.kind).collect();
        use FrameKind::{Anon, Free, PageTable, Slab};
        assert_eq!(kept, [(0, 1, Slab), (1, 1023, Free), (1024, 500, Anon), (1524, 12, PageTable)]);
        assert_eq!(memory.snapshot().end(), FIRST.0 + 3 * BLOCK);
        let at = |pfn, order| places.block(pfn, Order::of(order)).map(|frame| frame - FIRST.0);
        assert_eq!(
            [(512, 9), (1535, 0), (2560, 1), (3071, 0)].map(|(f, o)| at(f, o)),
            [0, 1023, 1024, 1535].map(Some)
        );
        let others = [(0, 0), (511, 0), (1024, 10), (1536, 0), (2559, 0), (3072, 0), (u64::MAX, 1)];
        assert_eq!(others.map(|(f, o)| at(f, o)), [None; 7]);
        // Nothing in the one has a flag, and the other has reserved frames, but both are in use.
        let (memory, places) =
            Memory::recorded(&snapshot, &BTreeSet::from([PageblockId(4), PageblockId(6)])).unwrap();
        assert_eq!(memory.frames(), Frames(5 * BLOCK));
        assert_eq!(
            [1535, 1536, 2048, 3072].map(|pfn| places.block(pfn, Order::ZERO).is_some()),
            [true, false, true, true]
        );
        let last: Vec<_> = memory.runs(|content| content.kind).skip(5).collect();
        use FrameKind::Other;
        assert_eq!(last, [(2048, 5, Other), (2053, 3, Free), (2056, 4, Other), (2060, 500, Free)]);
    }

    #[test]
    fn memory_that_cannot_be_is_refused_with_the_reason() {
        let refused = |why: BenchError| why.to_string();
        for bytes in [0, 4096, (2 << 20) + 4096] {
            assert!(
                refused(Memory::filled(bytes, Content::FREE).unwrap_err()).contains("multiple of 2 MiB"),
                "{bytes}"
            );
        }
        assert!(
            refused(Memory::filled(1 << 40, Content::FREE).unwrap_err()).contains("256.0 GiB are the most")
        );
        let huge = Snapshot { runs: vec![run(0, 1 << 36, FrameKind::Free)] };
        assert!(refused(Memory::recorded(&huge, &BTreeSet::new()).unwrap_err()).contains("are the most"));
        let none = Snapshot { runs: vec![run(0, 511, FrameKind::Free), run(512, 512, FrameKind::Other)] };
        assert!(
            refused(Memory::recorded(&none, &BTreeSet::new()).unwrap_err()).contains("no whole pageblock")
        );
    }
}
