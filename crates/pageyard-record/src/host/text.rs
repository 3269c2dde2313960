//! A host's summary as text for people.

use std::fmt;

use pageyard_trace::text::{Grid, grouped, size};
use pageyard_trace::{contents, fragmentation};

use super::answer::Answer;
use super::collect::HostSummary;
use super::compactable::{ASSUMPTIONS, Compactable};
use super::counted::NOT_COUNTED;
use super::kpageflags::BuddyMarks;

/// The counters of `/proc/vmstat` that show whether large blocks were hard to get, and what each means.
pub(super) const COUNTERS: [(&str, &str); 6] = [
    ("allocstall_normal", "requests that had to reclaim"),
    ("compact_stall", "requests that had to compact"),
    ("compact_success", "of these, successful"),
    ("compact_fail", "of these, failed"),
    ("thp_fault_alloc", "huge pages given to processes"),
    ("thp_fault_fallback", "small pages given instead"),
];

impl fmt::Display for HostSummary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.free(f)?;
        self.orders(f)?;
        self.blocks(f)?;
        self.compactable(f)?;
        self.largest(f)?;
        self.types(f)?;
        self.counters(f)?;
        if !self.not_read.is_empty() {
            writeln!(f, "\nNot read")?;
            for sentence in &self.not_read {
                writeln!(f, "  {sentence}")?;
            }
        }
        Ok(())
    }
}

impl HostSummary {
    fn free(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(totals) = self.totals() else {
            return writeln!(f, "Free memory by order is not known.");
        };
        write!(f, "Free now: {}", size(totals.free_frames))?;
        if let (Some(managed @ 1..), Some(pcp)) = (totals.managed_frames, totals.pcp_frames) {
            write!(f, " of {}, and {} in per-CPU lists", size(managed), size(pcp))?;
        }
        writeln!(f, ". {}", totals.free_huge_frames)?;
        writeln!(
            f,
            "\nFree memory by zone and order (unusable_index: share of it too scattered for an order;"
        )?;
        writeln!(
            f,
            "extfrag_index, where a request would fail: 0 for lack of memory, 1 because of fragmentation)"
        )?;
        write!(f, "{}", fragmentation::table(&self.fragmentation()))
    }

    fn orders(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = self.answers();
        if all.is_empty() {
            return Ok(());
        }
        writeln!(
            f,
            "\nA request of each order would succeed at once (yes), need compaction (compact) or lack memory (no)"
        )?;
        writeln!(f, "({};", self.asked.meaning())?;
        writeln!(f, "a request that is bound to a node, a cpuset or a memory limit may find less)")?;
        let headings = ["order".to_owned()].into_iter().chain((0..all.len()).map(|o| o.to_string()));
        let mut grid = Grid::new(headings);
        let words = |answers: &[Answer]| answers.iter().map(|a| a.word().to_owned()).collect::<Vec<_>>();
        for zone in self.zones.iter().filter(|z| !z.answers.is_empty()) {
            grid.row([zone.fragmentation.title()].into_iter().chain(words(&zone.answers)));
        }
        grid.row(["any zone".to_owned()].into_iter().chain(words(&all)));
        write!(f, "{grid}")
    }

    fn blocks(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let (Some(frames), Some(marks)) = (&self.frames, self.marks) {
            writeln!(f, "\nFrames by what they hold")?;
            write!(f, "{}", contents::frames_table(&[("frames", frames)]))?;
            self.culprits(f)?;
            if marks == BuddyMarks::FirstFrame {
                writeln!(
                    f,
                    "  This kernel marks only the first frame of a free block, so `free` and `other` are estimates."
                )?;
            }
        }
        let Some(blocks) = &self.pageblocks else { return Ok(()) };
        writeln!(f, "\nPageblocks (2 MiB) by the content that is hardest to move away")?;
        write!(f, "{}", contents::pageblocks_table(&[("pageblocks", blocks)]))
    }

    /// Says what the frames without a mark hold.
    fn culprits(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(culprits) = &self.culprits else { return Ok(()) };
        writeln!(f, "\nWhat `other` holds, by the kernel's own counters")?;
        let mut grid = Grid::new(["", "frames", "size"]);
        for culprit in &culprits.known {
            grid.row([culprit.meaning.to_owned(), grouped(culprit.frames), size(culprit.frames)]);
        }
        grid.row([
            "unaccounted: pipes, and what drivers and file systems took".to_owned(),
            grouped(culprits.unaccounted),
            size(culprits.unaccounted),
        ]);
        write!(f, "{grid}")
    }

    /// Says what compaction could win.
    fn compactable(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(zones) = self.compactable.as_ref().filter(|zones| !zones.is_empty()) else { return Ok(()) };
        writeln!(f, "\nHuge frames (2 MiB) that compaction could make")?;
        let mut grid = Grid::new([
            "",
            "free now",
            "movable pageblocks",
            "could become free",
            "frames to move",
            "free then",
        ]);
        let total = (zones.len() > 1).then(|| Compactable::total(zones));
        for zone in zones.iter().chain(&total) {
            let counts = [
                zone.free_pageblocks,
                zone.movable_pageblocks,
                zone.won_pageblocks,
                zone.moved_frames,
                zone.then_free_pageblocks,
            ];
            grid.row([zone.title()].into_iter().chain(counts.map(grouped)));
        }
        write!(f, "{grid}")?;
        wrapped(f, ASSUMPTIONS)
    }

    /// Names those that hold most.
    fn largest(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(slab) = self.slab.as_ref().filter(|slab| !slab.largest.is_empty()) {
            writeln!(f, "\nThe largest object caches (slab)")?;
            let mut grid = Grid::new(["", "frames", "size", "objects", "in use", "bytes each"]);
            for cache in &slab.largest {
                grid.row([
                    cache.name.clone(),
                    grouped(cache.frames),
                    size(cache.frames),
                    grouped(cache.objects),
                    grouped(cache.objects_in_use),
                    grouped(cache.object_bytes),
                ]);
            }
            others(&mut grid, slab.others, slab.other_frames);
            write!(f, "{grid}")?;
        }
        if let Some(vmalloc) = self.vmalloc.as_ref().filter(|vmalloc| !vmalloc.largest.is_empty()) {
            writeln!(f, "\nThe largest callers of vmalloc (kernel_clone and its like: stacks of threads)")?;
            let mut grid = Grid::new(["", "frames", "size", "areas"]);
            for caller in &vmalloc.largest {
                let name = caller.caller.clone();
                grid.row([name, grouped(caller.frames), size(caller.frames), grouped(caller.areas)]);
            }
            others(&mut grid, vmalloc.others, vmalloc.other_frames);
            write!(f, "{grid}")?;
        }
        if let Some(sites) = self.sites.as_ref().filter(|sites| !sites.largest.is_empty()) {
            writeln!(f, "\nThe places in the kernel's source that hold most (allocation profiling)")?;
            let mut grid = Grid::new(["", "frames", "size", "allocations"]);
            for site in &sites.largest {
                let name = site.site.clone();
                grid.row([name, grouped(site.frames), size(site.frames), grouped(site.allocations)]);
            }
            others(&mut grid, sites.others, sites.other_frames);
            write!(f, "{grid}")?;
        }
        let counted: Vec<_> = self.counted.iter().filter(|counted| counted.frames > 0).collect();
        if !counted.is_empty() {
            writeln!(f, "\nMemory by use, as far as the kernel counts (contained in the kinds above)")?;
            let mut grid = Grid::new(["", "frames", "size"]);
            for counted in counted {
                grid.row([counted.meaning.to_owned(), grouped(counted.frames), size(counted.frames)]);
            }
            write!(f, "{grid}")?;
            wrapped(f, NOT_COUNTED)?;
        }
        Ok(())
    }

    fn types(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(info) = self.pagetypes.as_ref().filter(|i| !i.zones.is_empty()) else { return Ok(()) };
        writeln!(f, "\nPageblocks by migratetype")?;
        write!(f, "{}", contents::types_table(&[("", info)]))
    }

    fn counters(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(vmstat) = &self.vmstat else { return Ok(()) };
        writeln!(f, "\nSince the host started")?;
        let mut grid = Grid::new(["", "times"]);
        for (name, meaning) in COUNTERS {
            if let Some(n) = vmstat.get(name) {
                grid.row([format!("{name}: {meaning}"), grouped(n)]);
            }
        }
        write!(f, "{grid}")
    }
}

/// Adds a row for those that are not named.
fn others(grid: &mut Grid, others: u64, frames: u64) {
    if others > 0 {
        grid.row([format!("{} others", grouped(others)), grouped(frames), size(frames)]);
    }
}

/// Writes sentences in lines that fit beside the tables.
fn wrapped(f: &mut fmt::Formatter<'_>, text: &str) -> fmt::Result {
    const WIDTH: usize = 110;
    let mut column = 0;
    for word in text.split_whitespace() {
        if column == 0 || column + 1 + word.len() > WIDTH {
            write!(f, "{}  {word}", if column == 0 { "" } else { "\n" })?;
            column = 2 + word.len();
        } else {
            write!(f, " {word}")?;
            column += 1 + word.len();
        }
    }
    writeln!(f)
}
