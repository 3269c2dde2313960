//! Memory in chunks of equal size. A hypervisor that saves or backs memory in chunks keeps one with a live frame whole.

use crate::snapshot::{FrameKind, Snapshot};

/// The chunks of a snapshot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Chunks {
    /// Frames of a chunk.
    pub frames: u64,
    /// Chunks that have memory.
    pub all: u64,
    /// Those with a live frame: one that is neither free nor taken out of use.
    pub live: u64,
    /// Of those, with one live frame alone.
    pub kept_by_one: u64,
    /// Of those, with live frames in an eighth of it at most.
    pub kept_by_few: u64,
    /// Those without a live frame, but with a free one that is not zero: they are kept, too, unless somebody tells that
    /// they are free.
    pub unclean: u64,
}

impl Chunks {
    /// Counts the chunks of so many frames in a snapshot; `is_zero` says whether a free frame holds nothing but zeros.
    ///
    /// # Panics
    /// When a chunk has no frames.
    #[must_use]
    pub fn of(snapshot: &Snapshot, frames: u64, mut is_zero: impl FnMut(u64) -> bool) -> Chunks {
        let mut chunks = Chunks { frames, ..Chunks::default() };
        // The open chunk: its number, live frames, and whether a free one is not zero.
        let mut open: Option<(u64, u64, bool)> = None;
        for run in &snapshot.runs {
            let is_free = run.kind == FrameKind::Free;
            if matches!(run.kind, FrameKind::None | FrameKind::Offline) {
                continue;
            }
            let mut pfn = run.pfn;
            while pfn < run.end() {
                let number = pfn / frames;
                let end = run.end().min((number + 1).saturating_mul(frames));
                if open.is_none_or(|(at, ..)| at != number) {
                    open.replace((number, 0, false)).into_iter().for_each(|chunk| chunks.count(chunk));
                }
                if let Some((_, live, unclean)) = &mut open {
                    if is_free {
                        *unclean = *unclean || !(pfn..end).all(&mut is_zero);
                    } else {
                        *live += end - pfn;
                    }
                }
                pfn = end;
            }
        }
        open.into_iter().for_each(|chunk| chunks.count(chunk));
        chunks
    }

    fn count(&mut self, (_, live, unclean): (u64, u64, bool)) {
        self.all += 1;
        self.live += u64::from(live > 0);
        self.kept_by_one += u64::from(live == 1);
        self.kept_by_few += u64::from((1..=self.frames / 8).contains(&live));
        self.unclean += u64::from(live == 0 && unclean);
    }

    /// Returns the chunks without anything to keep.
    #[must_use]
    pub fn clean(&self) -> u64 {
        self.all - self.live - self.unclean
    }

    /// Returns the frames that are kept with the live ones.
    #[must_use]
    pub fn kept_frames(&self) -> u64 {
        (self.live + self.unclean) * self.frames
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::Run;

    fn run(pfn: u64, frames: u64, kind: FrameKind) -> Run {
        Run { pfn, frames, kind, thp: false, unevictable: false }
    }

    #[test]
    fn one_live_frame_keeps_a_chunk() {
        let runs = vec![
            run(0, 7, FrameKind::Free),
            run(7, 1, FrameKind::Slab),
            run(8, 16, FrameKind::Free),
            run(24, 3, FrameKind::Anon),
            run(40, 8, FrameKind::None),
            run(48, 8, FrameKind::Offline),
            run(56, 9, FrameKind::File),
        ];
        let snapshot = Snapshot { runs };
        let zero = |_| true;
        let eight = Chunks::of(&snapshot, 8, zero);
        let expected = Chunks { frames: 8, all: 6, live: 4, kept_by_one: 2, kept_by_few: 2, unclean: 0 };
        assert_eq!((eight, eight.clean(), eight.kept_frames()), (expected, 2, 32));
        let one = Chunks::of(&snapshot, 1, zero);
        assert_eq!((one.all, one.live, one.kept_by_one), (36, 13, 13));
        // Frame 9 is not zero, and neither is frame 2, whose chunk is kept anyway.
        let unclean = Chunks::of(&snapshot, 8, |pfn| pfn != 9 && pfn != 2);
        assert_eq!((unclean.unclean, unclean.clean()), (1, 1));
        assert_eq!(Chunks::of(&Snapshot::default(), 8, zero).all, 0);
    }
}
