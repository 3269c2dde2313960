//! Two recordings beside each other, for people.

use super::windows::WINDOWS;
use super::{Aspect, Beside, Compared, Content, Side, Unit};
use crate::compare::{Interval, figure, interval};
use crate::text::shown;
use pageyard_trace::text::Grid;
use pageyard_trace::{FrameKind, TrustLevel, grouped};
use std::fmt;

/// Rows of what holds pageblocks.
const SHOWN: usize = 6;

pub(super) fn unit(unit: Unit) -> &'static str {
    match unit {
        Unit::PerSecond => "/s",
        Unit::Percent => " %",
    }
}

impl Side {
    pub(super) fn words(&self) -> String {
        format!(
            "{}: {:.1} s of {}, {} CPUs, {} pageblocks (2 MiB)",
            shown(&self.name),
            self.seconds,
            shown(&self.kernel),
            self.cpus,
            grouped(self.pageblocks)
        )
    }
}

/// Names what memory holds.
pub(super) fn held(kind: FrameKind) -> &'static str {
    match kind {
        FrameKind::None | FrameKind::Reserved => "never the allocator's",
        FrameKind::Free => "free memory at the end",
        FrameKind::Anon => "anonymous memory",
        FrameKind::File => "page cache",
        FrameKind::Slab => "slab",
        FrameKind::PageTable => "page tables",
        FrameKind::HugeTlb => "huge pages set aside",
        FrameKind::Offline => "frames taken out of use",
        FrameKind::Other => "other kernel memory and per-CPU lists",
        _ => kind.name(),
    }
}

impl Beside {
    /// Returns the first sentence: what differs, and whether it matters.
    #[must_use]
    pub fn sentence(&self) -> String {
        let (all, differ) = (self.figures().len(), self.differences());
        let doubtful = [&self.before, &self.after].into_iter().find(|side| side.trust.is_low());
        if let Some(side) = doubtful {
            return format!("No conclusion is drawn: too much speaks against {}.", shown(&side.name));
        }
        let mut parts: Vec<String> = Vec::new();
        if self.loses_otherwise() {
            let change = self.lost_pct().unwrap_or_default();
            let more = if change > 0.0 { "more" } else { "fewer" };
            let most = self.losses().into_iter().find(|loss| (loss.after > loss.before) == (change > 0.0));
            let most = most.map_or_else(String::new, |loss| format!(", most to {}", loss.what));
            let change = change.abs();
            parts.push(format!("{change:.1} in a hundred pageblocks {more} are lost to huge frames{most}"));
        }
        let changed = |what: &str, unit: &str, before: f64, after: f64| {
            let more = if after > before { "more" } else { "less" };
            format!("{what} ({more}: {}{unit}, then {}{unit})", figure(before), figure(after))
        };
        let contents = self.contents().into_iter().filter(Content::differs);
        parts.extend(contents.take(2).map(|c| changed(held(c.kind), " %", c.before, c.after)));
        let words = |c: &Compared| changed(c.figure.name, unit(c.figure.unit), c.before, c.after);
        let urgent = |c: &&Compared| c.figure.aspect != Aspect::Work;
        parts.extend(differ.iter().filter(urgent).take(3).map(words));
        let rest = match differ.len() {
            0 => format!("no figure of {all} differs by more than each recording differs within itself"),
            n => format!("{} of {all} figures differ", grouped(n as u64)),
        };
        let settings = self.settings().into_iter().map(|(name, before, after)| {
            format!("The setting {} was {}, then {}. ", shown(name), shown(before), shown(after))
        });
        let settings: String = settings.collect();
        if !parts.is_empty() {
            return format!("{settings}It matters: {}; {rest}.", parts.join("; "));
        }
        if differ.is_empty() {
            let nothing = if settings.is_empty() { "Nothing differs" } else { "Nothing else differs" };
            return format!("{settings}{nothing}: {rest}.");
        }
        let work: Vec<String> = differ.iter().take(3).map(words).collect();
        format!("{settings}Only work differs, not failures or free memory: {}; {rest}.", work.join("; "))
    }
}

impl fmt::Display for Beside {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, side) in [("before", &self.before), ("after", &self.after)] {
            writeln!(f, "{at:>6}  {}", side.words())?;
            if side.trust.level > TrustLevel::High {
                write!(f, "        {}", side.trust)?;
            }
        }
        writeln!(f, "\n{}", self.sentence())?;
        let figures = self.figures();
        for aspect in Aspect::ALL {
            let of: Vec<&Compared> = figures.iter().filter(|c| c.figure.aspect == aspect).collect();
            let (differ, same): (Vec<&Compared>, Vec<&Compared>) = of.into_iter().partition(|c| c.differs());
            if differ.is_empty() && same.is_empty() {
                continue;
            }
            writeln!(f, "\n{}:", aspect.title())?;
            if !differ.is_empty() {
                let mut grid = Grid::new(["", "before", "after", "change"]);
                for c in differ {
                    let value = |v: f64| format!("{}{}", figure(v), unit(c.figure.unit));
                    let change = interval(Some(Interval { mean: c.change(), low: c.low, high: c.high }));
                    grid.row([c.figure.name.to_owned(), value(c.before), value(c.after), change]);
                }
                write!(f, "{grid}")?;
            }
            if !same.is_empty() {
                let names: Vec<&str> = same.iter().map(|c| c.figure.name).collect();
                writeln!(f, "  No difference: {}.", names.join(", "))?;
            }
        }
        if let Some(change) = self.lost_pct() {
            writeln!(
                f,
                "\nPageblocks lost to huge frames at the end: {} of {} before, {} of {} after{}",
                grouped(self.before.lost_pageblocks),
                grouped(self.before.pageblocks),
                grouped(self.after.lost_pageblocks),
                grouped(self.after.pageblocks),
                if self.loses_otherwise() {
                    format!(" ({change:+.1} in a hundred):")
                } else {
                    ", no difference:".to_owned()
                }
            )?;
            let mut grid = Grid::new(["", "before", "after"]);
            for loss in self.losses().into_iter().take(SHOWN) {
                grid.row([shown(&loss.what), grouped(loss.before), grouped(loss.after)]);
            }
            write!(f, "{grid}")?;
        }
        let contents = self.contents();
        if !contents.is_empty() {
            writeln!(f, "\nMemory at the end, in percent:")?;
            let mut grid = Grid::new(["", "before", "after", ""]);
            for c in contents.into_iter().take(SHOWN) {
                let differs = if c.differs() { "differs" } else { "" };
                grid.row([held(c.kind), &figure(c.before), &figure(c.after), differs].map(str::to_owned));
            }
            write!(f, "{grid}")?;
        }
        for what in &self.left_out {
            writeln!(f, "\nNot compared: {}.", shown(what))?;
        }
        writeln!(
            f,
            "\nMeans of {WINDOWS} windows each. In brackets the interval that holds the change 999 times of 1000 if other windows are\nlike these; another boot of one host can differ by more."
        )
    }
}
