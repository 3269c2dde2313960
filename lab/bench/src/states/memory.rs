//! Frames, and what each holds.

use crate::error::BenchError;
use pageyard::{Frames, Migratetype, PAGEBLOCK_ORDER, Pfn};
use pageyard_trace::contents::pageblocks::each;
use pageyard_trace::text::size;
use pageyard_trace::{FrameKind, Run, Snapshot, Spoiler};

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

    /// Takes the pageblocks of a recorded host that are there as a whole, side by side. Those that hold nothing with a
    /// flag are taken for memory that the host gave away, and left out.
    ///
    /// # Errors
    /// [`BenchError::State`] where there is no such pageblock, or too many.
    pub fn recorded(snapshot: &Snapshot) -> Result<Memory, BenchError> {
        let mut whole = Vec::new();
        each(snapshot, |alike| {
            if !matches!(alike.spoiler, Spoiler::Absent | Spoiler::WhollyOther) {
                whole.push((alike.pfn, alike.blocks * BLOCK));
            }
        });
        let all = whole.iter().map(|(_, frames)| frames).sum();
        if all == 0 {
            let why =
                "the snapshot has no whole pageblock; take a recording of a host with more memory".to_owned();
            return Err(BenchError::State { why });
        }
        check(all)?;
        let mut taken = Vec::with_capacity(all as usize);
        for (first, frames) in whole {
            let from = snapshot.runs.partition_point(|run| run.end() <= first);
            let here = snapshot.runs[from..].iter().take_while(|run| run.pfn < first + frames);
            for run in here {
                let frames = run.end().min(first + frames) - run.pfn.max(first);
                let content = Content { kind: run.kind, locked: run.unevictable };
                taken.extend(std::iter::repeat_n(content, frames as usize));
            }
        }
        Ok(Memory { frames: taken })
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
            run(3077, 507, FrameKind::Free),
        ];
        let memory = Memory::recorded(&Snapshot { runs }).unwrap();
        let kept: Vec<_> = memory.runs(|content| content.kind).collect();
        use FrameKind::{Anon, Free, PageTable, Slab};
        assert_eq!(kept, [(0, 1, Slab), (1, 1023, Free), (1024, 500, Anon), (1524, 12, PageTable)]);
        assert_eq!(memory.snapshot().end(), FIRST.0 + 3 * BLOCK);
    }

    #[test]
    fn memory_that_cannot_be_is_refused_with_the_reason() {
        let refused = |memory: Result<Memory, BenchError>| memory.unwrap_err().to_string();
        for bytes in [0, 4096, (2 << 20) + 4096] {
            assert!(refused(Memory::filled(bytes, Content::FREE)).contains("multiple of 2 MiB"), "{bytes}");
        }
        assert!(refused(Memory::filled(1 << 40, Content::FREE)).contains("256.0 GiB are the most"));
        let huge = Snapshot { runs: vec![run(0, 1 << 36, FrameKind::Free)] };
        assert!(refused(Memory::recorded(&huge)).contains("are the most"));
        let none = Snapshot { runs: vec![run(0, 511, FrameKind::Free), run(512, 512, FrameKind::Other)] };
        assert!(refused(Memory::recorded(&none)).contains("no whole pageblock"));
    }
}
