//! A snapshot of physical memory: what every frame held at one moment.

use crate::error::TraceError;
use crate::pq::{ColumnSpec, Kind, Names, Table};
use crate::source::Input;

/// The most frames that a snapshot can span: 256 TiB.
pub const MAX_FRAMES: u64 = 1 << 36;

/// Rows decoded at a time.
const BATCH: u64 = 16 << 10;

/// The content of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
#[non_exhaustive]
pub enum FrameKind {
    /// No memory at all.
    None = 0,
    /// Memory that the kernel never hands out.
    Reserved = 1,
    /// Free, in the buddy lists.
    Free = 2,
    /// Anonymous memory of processes.
    Anon = 3,
    /// The page cache.
    File = 4,
    /// The kernel's object caches.
    Slab = 5,
    /// Page tables.
    PageTable = 6,
    /// Huge pages set aside for `hugetlbfs`.
    HugeTlb = 7,
    /// Taken out of use.
    Offline = 8,
    /// Everything without a flag of its own: other kernel memory, per-CPU lists, and frames the host took away.
    Other = 9,
}

impl FrameKind {
    /// Every kind, in the order of their numbers.
    pub const ALL: [FrameKind; 10] = [
        FrameKind::None,
        FrameKind::Reserved,
        FrameKind::Free,
        FrameKind::Anon,
        FrameKind::File,
        FrameKind::Slab,
        FrameKind::PageTable,
        FrameKind::HugeTlb,
        FrameKind::Offline,
        FrameKind::Other,
    ];

    /// Returns the name that the trace format uses.
    #[must_use]
    pub const fn name(self) -> &'static str {
        NAMES[self as usize]
    }

    /// Returns the kind as an index.
    #[must_use]
    pub const fn index(self) -> usize {
        self as usize
    }
}

/// The names, in the order of the numbers.
const NAMES: [&str; 10] =
    ["none", "reserved", "free", "anon", "file", "slab", "pagetable", "hugetlb", "offline", "other"];

/// Neighbouring frames that hold the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// The first frame.
    pub pfn: u64,
    /// How many frames there are; never 0 in a [`Snapshot`] that was read.
    pub frames: u64,
    /// Their content.
    pub kind: FrameKind,
    /// Whether they are part of a transparent huge page.
    pub thp: bool,
    /// Whether they are locked in memory.
    pub unevictable: bool,
}

impl Run {
    /// Returns the first frame number past the run.
    #[must_use]
    pub const fn end(&self) -> u64 {
        self.pfn.saturating_add(self.frames)
    }
}

/// The content of every frame at one moment, as runs in ascending order that do not overlap. Gaps are frames that do
/// not exist.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// The runs.
    pub runs: Vec<Run>,
}

impl Snapshot {
    /// Returns the first frame number past the last run, or 0.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.runs.last().map_or(0, Run::end)
    }

    /// Returns how many frames hold `kind`.
    #[must_use]
    pub fn frames(&self, kind: FrameKind) -> u64 {
        self.runs.iter().filter(|r| r.kind == kind).map(|r| r.frames).sum()
    }

    /// Adds a run at the end, joined to the last one where they touch and are of the same kind.
    pub fn push(&mut self, run: Run) {
        match self.runs.last_mut() {
            Some(last)
                if last.end() == run.pfn
                    && (last.kind, last.thp, last.unevictable) == (run.kind, run.thp, run.unevictable) =>
            {
                last.frames += run.frames;
            }
            _ => self.runs.push(run),
        }
    }

    pub(crate) fn columns() -> Vec<ColumnSpec> {
        vec![
            ColumnSpec { name: "pfn", kind: Kind::Int(64, false) },
            ColumnSpec { name: "frames", kind: Kind::Int(64, false) },
            ColumnSpec { name: "kind", kind: Kind::Names(Names::new(&NAMES)) },
            ColumnSpec { name: "thp", kind: Kind::Bool },
            ColumnSpec { name: "unevictable", kind: Kind::Bool },
        ]
    }

    pub(crate) fn read(input: Input) -> Result<Snapshot, TraceError> {
        let specs = Snapshot::columns();
        let Kind::Names(names) = specs[2].kind.clone() else { unreachable!("the third column is the kind") };
        let table = Table::open(input, specs)?;
        let mut snapshot = Snapshot::default();
        let mut row = 0;
        let mut index = 0;
        while let Some(group) = table.group(index) {
            index += 1;
            let mut chunks: [_; 5] = std::array::from_fn(|i| table.chunk(group, i));
            let end = row + group.rows;
            while row < end {
                let n = (end - row).min(BATCH) as usize;
                for (i, chunk) in chunks.iter_mut().enumerate() {
                    chunk.read(n, table.label(), row, table.column_name(i))?;
                }
                let [pfn, frames, kind, thp, unevictable] = &chunks;
                let (pfn, frames, kind) = (pfn.as_i64(), frames.as_i64(), kind.as_i32());
                let (thp, unevictable) = (thp.as_bool(), unevictable.as_bool());
                for i in 0..n {
                    let inconsistent = |what| TraceError::Inconsistent {
                        file: table.label().to_owned(),
                        row: Some(row + i as u64),
                        what,
                    };
                    let Some(&kind) = FrameKind::ALL.get(kind[i] as usize) else {
                        return Err(inconsistent(format!(
                            "there is no kind of frame called `{}`",
                            names.unknown(kind[i])
                        )));
                    };
                    let run = Run {
                        pfn: pfn[i] as u64,
                        frames: frames[i] as u64,
                        kind,
                        thp: thp[i],
                        unevictable: unevictable[i],
                    };
                    snapshot.check_next(&run).map_err(inconsistent)?;
                    snapshot.runs.push(run);
                }
                row += n as u64;
            }
        }
        Ok(snapshot)
    }

    /// Checks that `run` may follow the runs so far.
    pub(crate) fn check_next(&self, run: &Run) -> Result<(), String> {
        if run.frames == 0 {
            return Err(format!("the run at frame {} is empty", run.pfn));
        }
        if run.pfn.checked_add(run.frames).is_none_or(|end| end > MAX_FRAMES) {
            return Err(format!(
                "the run of {} frames at frame {} ends beyond 256 TiB of memory",
                run.frames, run.pfn
            ));
        }
        match self.runs.last() {
            Some(last) if run.pfn < last.pfn => Err(format!(
                "the run at frame {} comes after the one at frame {}: runs must ascend",
                run.pfn, last.pfn
            )),
            Some(last) if run.pfn < last.end() => Err(format!(
                "the run at frame {} overlaps the one before, which ends at {}",
                run.pfn,
                last.end()
            )),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(pfn: u64, frames: u64) -> Run {
        Run { pfn, frames, kind: FrameKind::Free, thp: false, unevictable: false }
    }

    #[test]
    fn names_and_numbers_agree() {
        for (i, kind) in FrameKind::ALL.into_iter().enumerate() {
            assert_eq!(kind.index(), i);
            assert_eq!(kind.name(), format!("{kind:?}").to_lowercase());
        }
    }

    #[test]
    fn runs_that_cannot_be_are_refused() {
        let snapshot = Snapshot { runs: vec![run(8, 8)] };
        assert!(snapshot.check_next(&run(16, 1)).is_ok());
        assert!(snapshot.check_next(&run(16, 0)).unwrap_err().contains("is empty"));
        assert!(snapshot.check_next(&run(15, 1)).unwrap_err().contains("overlaps"));
        assert!(snapshot.check_next(&run(0, 1)).unwrap_err().contains("must ascend"));
        assert!(snapshot.check_next(&run(u64::MAX, 2)).unwrap_err().contains("256 TiB"));
        assert!(snapshot.check_next(&run(MAX_FRAMES, 1)).unwrap_err().contains("256 TiB"));
    }

    #[test]
    fn alike_neighbours_join() {
        let mut snapshot = Snapshot::default();
        snapshot.push(run(0, 4));
        snapshot.push(run(4, 4));
        snapshot.push(run(9, 1));
        assert_eq!(snapshot.runs, [run(0, 8), run(9, 1)]);
        assert_eq!(snapshot.frames(FrameKind::Free), 9);
    }
}
