//! A zone's state for each pageblock: its type, whether it holds memory, compaction's hints and leases. Layer: parts of
//! a zone.

use pageyard_core::{Migratetype, PAGEBLOCK_ORDER, PageblockId, Pfn, ZoneSpan};
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering};

/// The pageblocks of one zone. Every frame passed in must be of the zone.
pub struct Pageblocks {
    /// The number of the zone's first pageblock.
    first: u64,
    types: Vec<AtomicU8>,
    /// Whether each holds a managed frame.
    populated: Vec<bool>,
    /// Whether the first and the last frame of each are there, managed or not.
    present: Vec<[bool; 2]>,
    /// Behind the last frame.
    end: Pfn,
    /// Whether an earlier scan found nothing to do in it.
    skips: Vec<AtomicBool>,
    /// The compactor that uses it, plus one, and for which end; 0 for none.
    leases: Vec<AtomicU32>,
}

impl Pageblocks {
    /// Makes the pageblocks of a zone: movable, and without memory.
    pub fn new(span: &ZoneSpan) -> Pageblocks {
        let first = span.start.pageblock().0;
        let count = ((span.end().0 - 1) / PAGEBLOCK_ORDER.frames().0 + 1 - first) as usize;
        Pageblocks {
            first,
            types: std::iter::repeat_with(|| AtomicU8::new(Migratetype::Movable as u8)).take(count).collect(),
            populated: vec![false; count],
            present: vec![[false; 2]; count],
            end: span.end(),
            skips: std::iter::repeat_with(AtomicBool::default).take(count).collect(),
            leases: std::iter::repeat_with(AtomicU32::default).take(count).collect(),
        }
    }

    /// Notes that the pageblocks of a range of frames hold memory, and whether it is managed.
    pub fn populate(&mut self, frames: RangeInclusive<Pfn>, managed: bool) {
        let (first, last) = (self.index(*frames.start()), self.index(*frames.end()));
        for n in first..=last {
            let start = (self.first + n as u64) * PAGEBLOCK_ORDER.frames().0;
            let end = (start + PAGEBLOCK_ORDER.frames().0).min(self.end.0);
            // The first frame of a zone that begins within a pageblock is not that of the pageblock.
            self.present[n][0] |= frames.contains(&Pfn(start)) || n == 0;
            self.present[n][1] |= frames.contains(&Pfn(end - 1));
        }
        if managed {
            self.populated[first..=last].fill(true);
        }
    }

    /// Returns the number in the zone of the pageblock that holds the frame.
    #[inline]
    fn index(&self, pfn: Pfn) -> usize {
        (pfn.pageblock().0 - self.first) as usize
    }

    /// Returns the number in the zone of the pageblock that holds the frame.
    pub fn number(&self, pfn: Pfn) -> u64 {
        self.index(pfn) as u64
    }

    /// Returns the first frame of the zone's `n`th pageblock, which may lie before the zone's.
    pub fn start_of(&self, n: u64) -> Pfn {
        Pfn((self.first + n) * PAGEBLOCK_ORDER.frames().0)
    }

    /// Returns the migratetype of the pageblock that holds the frame.
    #[inline]
    pub fn type_of(&self, pfn: Pfn) -> Migratetype {
        // ORDER: Relaxed: a free that reads an old type puts its block on the list of that type, as can happen in
        // Linux.
        let raw = self.types[self.index(pfn)].load(Ordering::Relaxed);
        Migratetype::ALL[raw as usize]
    }

    /// Sets the migratetype of the pageblock that holds the frame; its free blocks stay where they are.
    pub fn set_type(&self, pfn: Pfn, m: Migratetype) {
        // ORDER: Relaxed: see `type_of`.
        self.types[self.index(pfn)].store(m as u8, Ordering::Relaxed);
    }

    /// Iterates over the migratetypes of all pageblocks, in order.
    pub fn types(&self) -> impl Iterator<Item = Migratetype> + '_ {
        // ORDER: Relaxed: see `type_of`.
        self.types.iter().map(|t| Migratetype::ALL[t.load(Ordering::Relaxed) as usize])
    }

    /// Returns whether the superpageblock of `size` pageblocks that holds the frame also holds, in this zone, a
    /// pageblock of what stays where it is.
    pub fn is_tainted(&self, pfn: Pfn, size: u64) -> bool {
        let start = pfn.pageblock().0 / size * size;
        let end = start.saturating_add(size).saturating_sub(self.first).min(self.types.len() as u64);
        // ORDER: Relaxed: see `type_of`.
        let mut types = self.types[start.saturating_sub(self.first) as usize..end as usize].iter();
        types.any(|t| {
            let m = Migratetype::ALL[t.load(Ordering::Relaxed) as usize];
            matches!(m, Migratetype::Unmovable | Migratetype::Reclaimable | Migratetype::HighAtomic)
        })
    }

    /// Sets the migratetype of the zone's `n`th pageblock.
    pub fn set_nth_type(&self, n: usize, m: Migratetype) {
        // ORDER: Relaxed: see `type_of`.
        self.types[n].store(m as u8, Ordering::Relaxed);
    }

    /// Returns whether an earlier scan found nothing to do in the pageblock.
    pub fn is_skipped(&self, pfn: Pfn) -> bool {
        // ORDER: Relaxed: a hint.
        self.skips[self.index(pfn)].load(Ordering::Relaxed)
    }

    /// Notes that a scan found nothing to do in the pageblock, or forgets it.
    pub fn set_skipped(&self, pfn: Pfn, skip: bool) {
        // ORDER: Relaxed: a hint.
        self.skips[self.index(pfn)].store(skip, Ordering::Relaxed);
    }

    /// Returns the word that says who uses the pageblock.
    pub fn lease(&self, pfn: Pfn) -> Option<&AtomicU32> {
        self.leases.get(self.index(pfn))
    }

    /// Returns whether the first and the last frame of the pageblock are there, managed or not.
    ///
    /// # Linux
    /// `pageblock_pfn_to_page`: a scanner goes through a pageblock of which every frame is reserved, and not through
    /// one that begins or ends with a hole.
    pub fn is_present(&self, pfn: Pfn) -> bool {
        self.present[self.index(pfn)] == [true; 2]
    }

    /// Iterates over those that hold a managed frame.
    pub fn managed(&self) -> impl Iterator<Item = PageblockId> + '_ {
        (self.first..).zip(&self.populated).filter(|(_, populated)| **populated).map(|(b, _)| PageblockId(b))
    }
}
