//! The content that keeps pageblocks from being free huge frames.

use std::collections::BTreeMap;

use crate::snapshot::{FrameKind, Snapshot};

/// Frames of a pageblock.
pub const BLOCK: u64 = pageyard::PAGEBLOCK_ORDER.frames().0;

/// The content of a pageblock, named after what is hardest to move away.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Spoiler {
    /// Nothing: it is a free huge frame.
    Free,
    /// Only contents that can be moved: processes' memory and page cache.
    Movable,
    /// Memory that is locked in place.
    Unevictable,
    /// The kernel's object caches.
    Slab,
    /// Page tables.
    PageTable,
    /// Some frames without a flag: other kernel memory, or frames in per-CPU lists.
    Other,
    /// Only frames without a flag: memory that the host has taken away, a hole, or a large kernel buffer.
    WhollyOther,
    /// Huge pages set aside.
    HugeTlb,
    /// Frames that do not exist or that the kernel never hands out.
    Absent,
}

impl Spoiler {
    /// Every kind, the easiest to move first.
    pub const ALL: [Spoiler; 9] = [
        Spoiler::Free,
        Spoiler::Movable,
        Spoiler::Unevictable,
        Spoiler::Slab,
        Spoiler::PageTable,
        Spoiler::Other,
        Spoiler::WhollyOther,
        Spoiler::HugeTlb,
        Spoiler::Absent,
    ];

    /// Returns the name that JSON uses.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Spoiler::Free => "free",
            Spoiler::Movable => "movable",
            Spoiler::Unevictable => "unevictable",
            Spoiler::Slab => "slab",
            Spoiler::PageTable => "pagetable",
            Spoiler::Other => "other",
            Spoiler::WhollyOther => "wholly_other",
            Spoiler::HugeTlb => "hugetlb",
            Spoiler::Absent => "absent",
        }
    }

    /// Says what it is, for people.
    #[must_use]
    pub const fn meaning(self) -> &'static str {
        match self {
            Spoiler::Free => "free, a huge frame as it is",
            Spoiler::Movable => "only contents that compaction can move",
            Spoiler::Unevictable => "locked memory",
            Spoiler::Slab => "slab: the kernel's object caches",
            Spoiler::PageTable => "page tables",
            Spoiler::Other => "other kernel memory, or frames in per-CPU lists",
            Spoiler::WhollyOther => "nothing that has a flag: taken away by the host, or a hole",
            Spoiler::HugeTlb => "huge pages set aside (hugetlb)",
            Spoiler::Absent => "frames that do not exist or are reserved",
        }
    }
}

/// Pageblocks by what they hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pageblocks {
    counts: [u64; Spoiler::ALL.len()],
}

impl Pageblocks {
    /// Counts the pageblocks of a snapshot. One that the snapshot covers only in part counts as absent.
    #[must_use]
    pub fn of(snapshot: &Snapshot) -> Pageblocks {
        let mut result = Pageblocks::default();
        each(snapshot, |alike| result.counts[alike.spoiler as usize] += alike.blocks);
        result
    }

    /// Returns how many pageblocks hold `spoiler`.
    #[must_use]
    pub fn count(&self, spoiler: Spoiler) -> u64 {
        self.counts[spoiler as usize]
    }

    /// Returns the pageblocks that hold `spoiler` as a share of all, or 0.
    #[must_use]
    pub fn share(&self, spoiler: Spoiler) -> f64 {
        self.count(spoiler) as f64 / self.total().max(1) as f64
    }

    /// Returns how many pageblocks there are.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Returns the counts by name.
    #[must_use]
    pub fn by_name(&self) -> BTreeMap<&'static str, u64> {
        Spoiler::ALL.iter().map(|spoiler| (spoiler.name(), self.count(*spoiler))).collect()
    }

    /// Returns the shares by name, in percent.
    #[must_use]
    pub fn pct_by_name(&self) -> BTreeMap<&'static str, f64> {
        Spoiler::ALL.iter().map(|spoiler| (spoiler.name(), self.share(*spoiler) * 100.0)).collect()
    }
}

/// Neighbouring pageblocks that hold the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Alike {
    /// The first frame.
    pub pfn: u64,
    /// How many pageblocks there are.
    pub blocks: u64,
    /// The content of each.
    pub spoiler: Spoiler,
    /// Frames that are free in each.
    pub free: u64,
}

/// Calls `see` with the pageblocks of a snapshot in ascending order, those that it covers in part included.
pub fn each(snapshot: &Snapshot, see: impl FnMut(Alike)) {
    let mut walk = Walk { see, frames: [0; FrameKind::ALL.len()], unevictable: 0, block: 0 };
    for run in &snapshot.runs {
        walk.run(run.pfn, run.frames, run.kind, run.unevictable);
    }
    walk.end_block();
}

struct Walk<F> {
    see: F,
    /// Frames of the open pageblock by kind, and those that are locked.
    frames: [u64; FrameKind::ALL.len()],
    unevictable: u64,
    block: u64,
}

impl<F: FnMut(Alike)> Walk<F> {
    fn run(&mut self, mut pfn: u64, mut frames: u64, kind: FrameKind, unevictable: bool) {
        while frames > 0 {
            if pfn / BLOCK != self.block {
                self.end_block();
                self.block = pfn / BLOCK;
            }
            let here = frames.min(BLOCK - pfn % BLOCK);
            // A long run covers many whole pageblocks of one kind: count them at once.
            if here == BLOCK && frames >= 2 * BLOCK {
                let blocks = frames / BLOCK;
                let mut one = [0; FrameKind::ALL.len()];
                one[kind.index()] = BLOCK;
                self.tell(pfn, blocks, &one, if unevictable { BLOCK } else { 0 });
                pfn += blocks * BLOCK;
                frames -= blocks * BLOCK;
                continue;
            }
            self.frames[kind.index()] += here;
            if unevictable {
                self.unevictable += here;
            }
            pfn += here;
            frames -= here;
        }
    }

    fn end_block(&mut self) {
        if self.frames.iter().any(|&n| n > 0) {
            let frames = std::mem::take(&mut self.frames);
            self.tell(self.block * BLOCK, 1, &frames, self.unevictable);
        }
        self.unevictable = 0;
    }

    fn tell(&mut self, pfn: u64, blocks: u64, frames: &[u64; FrameKind::ALL.len()], unevictable: u64) {
        let spoiler = judge(frames, unevictable);
        (self.see)(Alike { pfn, blocks, spoiler, free: frames[FrameKind::Free.index()] });
    }
}

/// Says what a pageblock holds, from its frames by kind.
fn judge(frames: &[u64; FrameKind::ALL.len()], unevictable: u64) -> Spoiler {
    let of = |kind: FrameKind| frames[kind.index()];
    let total: u64 = frames.iter().sum();
    if of(FrameKind::Free) == BLOCK {
        Spoiler::Free
    } else if total < BLOCK || of(FrameKind::None) + of(FrameKind::Reserved) + of(FrameKind::Offline) > 0 {
        Spoiler::Absent
    } else if of(FrameKind::HugeTlb) > 0 {
        Spoiler::HugeTlb
    } else if of(FrameKind::Other) == total {
        Spoiler::WhollyOther
    } else if of(FrameKind::Other) > 0 {
        Spoiler::Other
    } else if of(FrameKind::PageTable) > 0 {
        Spoiler::PageTable
    } else if of(FrameKind::Slab) > 0 {
        Spoiler::Slab
    } else if unevictable > 0 {
        Spoiler::Unevictable
    } else {
        Spoiler::Movable
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
    fn the_content_that_is_hardest_to_move_counts() {
        let mut locked = run(2048, 1, FrameKind::File);
        locked.unevictable = true;
        let snapshot = Snapshot {
            runs: vec![
                run(0, 511, FrameKind::Free),
                run(511, 1, FrameKind::Slab),
                run(512, 1024, FrameKind::Free),
                run(1536, 500, FrameKind::Anon),
                run(2036, 12, FrameKind::Free),
                locked,
                run(2049, 511, FrameKind::Free),
                run(2560, 1, FrameKind::Slab),
                run(2561, 1, FrameKind::PageTable),
                run(2562, 510, FrameKind::Free),
                run(3072, 5 * 512, FrameKind::Other),
                run(5632, 1, FrameKind::Other),
                run(5633, 511, FrameKind::Anon),
                run(6144, 10, FrameKind::Free),
            ],
        };
        let blocks = Pageblocks::of(&snapshot);
        for (spoiler, n) in [
            (Spoiler::Free, 2),
            (Spoiler::Movable, 1),
            (Spoiler::Unevictable, 1),
            (Spoiler::Slab, 1),
            (Spoiler::PageTable, 1),
            (Spoiler::Other, 1),
            (Spoiler::WhollyOther, 5),
            (Spoiler::HugeTlb, 0),
            (Spoiler::Absent, 1),
        ] {
            assert_eq!(blocks.count(spoiler), n, "{spoiler:?}");
        }
        assert_eq!(blocks.total(), 13);
    }

    #[test]
    fn a_terabyte_in_one_run_is_counted_at_once() {
        let snapshot = Snapshot { runs: vec![run(0, 1 << 36, FrameKind::Free)] };
        assert_eq!(Pageblocks::of(&snapshot).count(Spoiler::Free), 1 << 27);
    }

    #[test]
    fn pageblocks_in_gaps_do_not_count() {
        let snapshot = Snapshot { runs: vec![run(0, 512, FrameKind::Free), run(5120, 512, FrameKind::Free)] };
        assert_eq!(Pageblocks::of(&snapshot).total(), 2);
    }
}
