//! The summary as text for people.

use std::fmt;

use pageyard::{Context, Migratetype};

use crate::contents::{self, Contents};
use crate::event::EventKind;
use crate::failures::{FAILURE_HEADINGS, FAILURES_SHOWN, KIND_HEADINGS, ORDERS};
use crate::fragmentation::{self, HugeFrames};
use crate::moves::MoveKind;
use crate::text::{Grid, count, grouped, percent};

use super::{Requests, Summary, TYPES, type_index, type_name};

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.trust)?;
        self.heading(f)?;
        self.requests(f)?;
        self.orders_and_types(f)?;
        self.contexts(f)?;
        self.events_by_kind(f)?;
        self.fallbacks(f)?;
        self.failures(f)?;
        self.moves(f)?;
        self.samples(f)?;
        self.quality(f)?;
        self.contents(f)?;
        for (when, zones) in [("before", &self.before), ("after", &self.after)] {
            if zones.is_empty() {
                writeln!(f, "\nFragmentation {when} the recording: not recorded.")?;
                continue;
            }
            writeln!(
                f,
                "\nFragmentation {when} the recording (unusable_index: share of free memory too scattered for an order;"
            )?;
            writeln!(
                f,
                "extfrag_index, where a request would fail: 0 for lack of memory, 1 because of fragmentation)"
            )?;
            write!(f, "{}", fragmentation::table(zones))?;
            writeln!(f, "  {}", HugeFrames::of(zones))?;
        }
        Ok(())
    }
}

impl Summary {
    fn heading(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}{}", self.name, count(self.events(), "event"), self.seen())?;
        write!(f, " in {:.1} s on {}", self.duration_ns as f64 / 1e9, count(self.cpus.into(), "CPU"))?;
        if !self.kernel.is_empty() {
            write!(f, ", {}", self.kernel)?;
        }
        writeln!(f)
    }

    /// Returns what qualifies a count where events were lost: it is of those that were seen.
    fn seen(&self) -> &'static str {
        if self.lost > 0 { " seen" } else { "" }
    }

    /// Writes a table's title.
    fn title(&self, f: &mut fmt::Formatter<'_>, title: &str) -> fmt::Result {
        match self.lost {
            0 => writeln!(f, "\n{title}"),
            _ => writeln!(f, "\n{title} (of the events seen)"),
        }
    }

    fn requests(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.title(f, "Requests, as `perf kmem stat --page` counts them")?;
        let mut grid = Grid::new(["", "requests", "KB"]);
        let rows: [(&str, Requests); 6] = [
            ("allocated", self.allocs),
            ("freed", self.frees),
            ("allocated and freed while recording", self.allocated_and_freed()),
            ("allocated only (failed ones included)", self.allocated_only()),
            ("freed only", self.frees_without_allocation),
            ("failed", self.failed),
        ];
        for (name, requests) in rows {
            grid.row([name.to_owned(), grouped(requests.count), grouped(requests.bytes / 1024)]);
        }
        write!(f, "{grid}")
    }

    fn orders_and_types(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.title(
            f,
            "Allocations that succeeded, by order and migratetype, and failures and frees by order",
        )?;
        // The three types that requests have, and any other that occurs.
        let shown: Vec<usize> = (0..TYPES)
            .filter(|&t| t < Migratetype::REQUESTED.len() || self.granted.iter().any(|row| row[t] > 0))
            .collect();
        let headings = ["order"].into_iter().chain(shown.iter().map(|&t| type_name(t)));
        let mut grid = Grid::new(headings.chain(["failed", "freed"]));
        let last =
            (0..ORDERS).rev().find(|&o| self.allocs_by_order[o] + self.frees_by_order[o] > 0).unwrap_or(0);
        for order in 0..=last {
            let granted = &self.granted[order];
            let failed = self.allocs_by_order[order] - granted.iter().sum::<u64>();
            let counts = shown.iter().map(|&t| granted[t]).chain([failed, self.frees_by_order[order]]);
            grid.row(
                [order.to_string()]
                    .into_iter()
                    .chain(counts.map(|n| if n == 0 { ".".to_owned() } else { grouped(n) })),
            );
        }
        write!(f, "{grid}")
    }

    fn contexts(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.title(f, "By what the CPU was doing")?;
        let mut grid = Grid::new(["", "allocated", "freed"]);
        for context in Context::ALL {
            let (allocs, frees) =
                (self.allocs_by_context[context as usize], self.frees_by_context[context as usize]);
            if allocs + frees > 0 || context == Context::Task {
                grid.row([context.name().to_owned(), grouped(allocs), grouped(frees)]);
            }
        }
        write!(f, "{grid}")?;
        match self.softirq_share() {
            Some(share) => writeln!(f, "  In softirq context: {} of both.", percent(share)),
            None => Ok(()),
        }
    }

    fn events_by_kind(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.title(f, "Events by kind")?;
        let mut grid = Grid::new(["", "events"]);
        for kind in EventKind::ALL {
            grid.row([kind.name().to_owned(), grouped(self.by_kind[kind.index()])]);
        }
        write!(f, "{grid}")
    }

    fn fallbacks(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.fallbacks.is_empty() {
            return match self.lost {
                0 => writeln!(f, "\nFallbacks: no request took from a block of another migratetype."),
                lost => writeln!(f, "\nFallbacks: none was seen; the {} may hold some.", lost_events(lost)),
            };
        }
        self.title(f, "Fallbacks: requests that took from a block of another migratetype")?;
        let mut grid = Grid::new(["wanted", "order", "taken from", "order", "events"]);
        for (fallback, n) in &self.fallbacks {
            grid.row([
                type_name(type_index(fallback.migratetype)).to_owned(),
                fallback.order.to_string(),
                type_name(usize::from(fallback.fallback_migratetype)).to_owned(),
                fallback.fallback_order.to_string(),
                grouped(*n),
            ]);
        }
        write!(f, "{grid}")
    }

    fn failures(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.failed.count == 0 {
            return match self.lost {
                0 => writeln!(f, "\nFailures: every request got what it asked for."),
                lost => writeln!(f, "\nFailures: none was seen; the {} may hold some.", lost_events(lost)),
            };
        }
        let shown = self.failures.first.len() as u64;
        let least = if self.lost > 0 { "at least " } else { "" };
        write!(f, "\nFailures: {least}{} got nothing", count(self.failed.count, "request"))?;
        if shown < self.failed.count {
            write!(f, "; the first {shown} of them, {} left out", grouped(self.failed.count - shown))?;
        }
        writeln!(f)?;
        let mut grid = Grid::new(FAILURE_HEADINGS);
        for failure in &self.failures.first {
            grid.row(failure.cells(&self.gfp_map));
        }
        write!(f, "{grid}")?;
        writeln!(
            f,
            "  free: in the zones that the request may use, by the opening snapshot and the events since, per-CPU lists included;"
        )?;
        writeln!(
            f,
            "  blocks: how many blocks of its order that makes; largest: the order of the largest one."
        )?;
        self.title(f, "Failures by kind")?;
        let mut grid = Grid::new(KIND_HEADINGS.into_iter().chain(["times"]));
        let most = self.failures.kinds.most_frequent(FAILURES_SHOWN / 2);
        let told: u64 = most.iter().map(|(_, n)| n).sum();
        for (kind, n) in &most {
            grid.row(kind.cells(&self.gfp_map).into_iter().chain([grouped(*n)]));
        }
        write!(f, "{grid}")?;
        if told < self.failed.count {
            writeln!(f, "  {} of other kinds are left out.", grouped(self.failed.count - told))?;
        }
        Ok(())
    }

    /// Says what memory held before and after.
    fn contents(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let moments: Vec<(&str, &Contents)> = [("before", &self.held_before), ("after", &self.held_after)]
            .into_iter()
            .filter_map(|(when, held)| Some((when, held.as_ref()?)))
            .collect();
        if moments.is_empty() {
            return writeln!(f, "\nWhat memory held: not recorded.");
        }
        writeln!(f, "\nFrames by what they hold")?;
        let frames: Vec<_> = moments.iter().map(|(when, held)| (*when, &held.frames)).collect();
        write!(f, "{}", contents::frames_table(&frames))?;
        writeln!(f, "\nPageblocks (2 MiB) by the content that is hardest to move away")?;
        let blocks: Vec<_> = moments.iter().map(|(when, held)| (*when, &held.pageblocks)).collect();
        write!(f, "{}", contents::pageblocks_table(&blocks))?;
        let types: Vec<_> =
            moments.iter().filter_map(|(when, held)| Some((*when, held.types.as_ref()?))).collect();
        if types.iter().all(|(_, info)| info.zones.is_empty()) {
            return Ok(());
        }
        writeln!(f, "\nPageblocks by migratetype")?;
        write!(f, "{}", contents::types_table(&types))
    }

    fn moves(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(moved) = &self.moved else {
            return writeln!(f, "\nMoves: the recording does not say what compaction and migration did.");
        };
        if moved.by_kind.iter().sum::<u64>() == 0 {
            return match self.lost {
                0 => writeln!(f, "\nMoves: compaction and migration did nothing."),
                lost => writeln!(f, "\nMoves: none was seen; the {} may hold some.", lost_events(lost)),
            };
        }
        self.title(f, "Moves by compaction and migration")?;
        let mut grid = Grid::new(["", ""]);
        for (name, n) in [
            ("compactions of a zone", moved.rows(MoveKind::CompactBegin)),
            ("frames looked at for something to move", moved.migrate_scanned),
            ("  of these, taken", moved.migrate_isolated),
            ("frames looked at for room to move to", moved.free_scanned),
            ("  of these, taken", moved.free_isolated),
            ("frames moved", moved.migrated),
            ("frames that could not be moved", moved.failed),
            ("moves of which both frames are known", moved.rows(MoveKind::Move)),
            ("  frames of these", moved.frames),
        ] {
            grid.row([name.to_owned(), grouped(n)]);
        }
        write!(f, "{grid}")
    }

    fn quality(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "\nTrace quality")?;
        let mut grid = Grid::new(["", "events"]);
        for (name, n) in [
            ("frees without a recorded allocation", self.frees_without_allocation.count),
            ("allocations of a frame still held", self.reallocations),
            ("frees of another order than allocated", self.partial_frees),
            ("allocated and still held at the end", self.held_at_end),
            ("lost by the recorder", self.lost),
        ] {
            grid.row([name.to_owned(), grouped(n)]);
        }
        write!(f, "{grid}")
    }
}

fn lost_events(lost: u64) -> String {
    match lost {
        1 => "lost event".to_owned(),
        n => format!("{} lost events", grouped(n)),
    }
}
