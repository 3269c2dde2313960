//! A host's summary as text for people.

use std::fmt;

use pageyard_trace::FrameKind;
use pageyard_trace::text::{Grid, grouped, percent, size};
use pageyard_trace::{ZoneFragmentation, fragmentation};

use super::answer::Answer;
use super::collect::HostSummary;
use super::kpageflags::BuddyMarks;
use super::pageblocks::Spoiler;

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
        if self.zones.is_empty() {
            return writeln!(f, "Free memory by order is not known.");
        }
        let zones: Vec<ZoneFragmentation> = self.zones.iter().map(|z| z.fragmentation.clone()).collect();
        let free: u64 = zones.iter().map(|z| z.free_frames).sum();
        write!(f, "Free now: {}", size(free))?;
        let managed: u64 = self.zones.iter().filter_map(|z| z.watermarks).map(|w| w.managed).sum();
        let pcp: u64 = self.zones.iter().filter_map(|z| z.watermarks).map(|w| w.pcp).sum();
        if managed > 0 {
            write!(f, " of {}, and {} in per-CPU lists", size(managed), size(pcp))?;
        }
        writeln!(f, ". {}", fragmentation::huge_sentence(&zones))?;
        writeln!(
            f,
            "\nFree memory by zone and order (unusable_index: share of it too scattered for an order;"
        )?;
        writeln!(
            f,
            "extfrag_index, where a request would fail: 0 for lack of memory, 1 because of fragmentation)"
        )?;
        write!(f, "{}", fragmentation::table(&zones))
    }

    fn orders(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = self.answers();
        if all.is_empty() {
            return Ok(());
        }
        writeln!(
            f,
            "\nAn ordinary request of each order would succeed at once (yes), need compaction (compact) or lack memory (no)"
        )?;
        writeln!(f, "({};", Answer::REQUEST)?;
        writeln!(
            f,
            "atomic requests may use part of the reserves, those of user space may be bound to a node)"
        )?;
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
            let mut grid = Grid::new(["", "frames", "size"]);
            for (kind, &n) in FrameKind::ALL.iter().zip(frames) {
                if n > 0 {
                    grid.row([kind.name().to_owned(), grouped(n), size(n)]);
                }
            }
            write!(f, "{grid}")?;
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
        let mut grid = Grid::new(["", "pageblocks", "share"]);
        for spoiler in Spoiler::ALL {
            let n = blocks.count(spoiler);
            if n > 0 {
                let share = n as f64 / blocks.total() as f64;
                grid.row([spoiler.meaning().to_owned(), grouped(n), percent(share)]);
            }
        }
        write!(f, "{grid}")
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
            "unaccounted: pipes, drivers, a hypervisor that does not say".to_owned(),
            grouped(culprits.unaccounted),
            size(culprits.unaccounted),
        ]);
        write!(f, "{grid}")
    }

    fn types(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(info) = self.pagetypes.as_ref().filter(|i| !i.zones.is_empty()) else { return Ok(()) };
        writeln!(f, "\nPageblocks by migratetype")?;
        let mut names: Vec<&String> = info.zones.iter().flat_map(|z| z.blocks.keys()).collect();
        names.sort();
        names.dedup();
        let mut grid = Grid::new([""].into_iter().chain(names.iter().map(|n| n.as_str())));
        for zone in &info.zones {
            let name = if zone.node == 0 {
                zone.name.clone()
            } else {
                format!("{} (node {})", zone.name, zone.node)
            };
            let counts = names.iter().map(|n| grouped(zone.blocks.get(*n).copied().unwrap_or(0)));
            grid.row([name].into_iter().chain(counts));
        }
        write!(f, "{grid}")
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
