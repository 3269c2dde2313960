//! The content of each frame when a recording begins.

use super::class::{BLOCK, Class, UNIT};
use super::frames::FrameMap;
use super::layout::Layout;
use super::mark::{Mark, NO_ORDER, Part, Tenure};
use super::owners::{Owner, Owners};
use super::pageblock::Counts;
use crate::bitmap::FrameSet;
use crate::machine::{Machine, Opening};
use pageyard::{Frames, Migratetype, Pfn, Region};
use pageyard_trace::{FrameKind, Snapshot};

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
        let mut counts = vec![Counts::NONE; layout.len()];
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
        let lost = counts.iter_mut().map(|counts| u32::from(counts.open())).sum();
        FrameMap {
            layout,
            marks,
            heads: vec![0; end as usize],
            unfree,
            counts,
            dirty: Vec::new(),
            held_frames: 0,
            managed,
            lost,
            nowhere: owners.number(Owner::Before(FrameKind::None, Class::Absent)),
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
                    let held = Tenure { owner: owners.number(Owner::Before(run.kind, class)), since: 0 };
                    self.hold(Part { pfn: at, frames: next - at, class, order: NO_ORDER, held }, 0);
                    at = next;
                }
            }
        }
    }
}
