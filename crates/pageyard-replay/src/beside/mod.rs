//! Two recordings beside each other: before and after a change, or host A and host B.
//!
//! Each recording is cut into windows of equal length, and a figure is called different if its means differ by more
//! than windows of one recording do, and by enough to be worth a word. What only the end of a recording tells (who
//! keeps pageblocks from becoming huge frames) has no windows, and a bound of its own.

mod document;
mod figures;
mod page;
mod text;
mod windows;

pub use document::{
    BesideDocument, ContentDocument, FigureDocument, LossDocument, SettingDocument, SideDocument,
};
pub use figures::{Aspect, FIGURES, Figure, Unit};
pub use windows::Windows;

use crate::error::ReplayError;
use crate::replay::Progress;
use crate::story::{Share, blame};
use pageyard_trace::{Contents, FrameKind, Snapshot, Trace, Trust};
use std::collections::BTreeMap;

/// The least change of a mean, as a share of the larger one, that is worth a word.
const WORTH: f64 = 0.25;

/// The least change of lost pageblocks that is worth a word: of all pageblocks, in percent.
const WORTH_PCT: f64 = 3.0;

/// The least change of what memory holds at the end that is worth a word: of all memory, in percent.
const WORTH_OF_MEMORY_PCT: f64 = 5.0;

/// How many times what chance alone would make of it, were each pageblock lost by itself. Frames that cannot be moved
/// lie together, and scatter otherwise with each boot: in 171 pairs of one job it was up to 5.9 times.
const SCATTER: f64 = 8.0;

/// A recording that is so many times longer than the other has had another time to lose pageblocks.
const LONGER: f64 = 2.0;

/// One recording.
#[derive(Clone, Debug)]
pub struct Side {
    /// The trace's name.
    pub name: String,
    /// The kernel that was recorded.
    pub kernel: String,
    /// Seconds.
    pub seconds: f64,
    /// CPUs.
    pub cpus: u32,
    /// Pageblocks with a frame for the allocator.
    pub pageblocks: u64,
    /// Those that are wholly free at the end.
    pub free_pageblocks: u64,
    /// Those in which a frame cannot be moved at the end.
    pub lost_pageblocks: u64,
    /// How far it can be trusted.
    pub trust: Trust,
    /// Holders of lost pageblocks.
    pub holders: Vec<Share>,
    /// Contents of memory at the end, in percent of it; empty where the recording has no second snapshot.
    pub contents: Vec<(FrameKind, f64)>,
    /// Settings of the kernel.
    pub settings: BTreeMap<String, String>,
    /// By figure.
    windows: Vec<Option<Windows>>,
}

/// A figure of both.
#[derive(Clone, Copy)]
pub struct Compared {
    /// The figure.
    pub figure: &'static Figure,
    /// Its mean before.
    pub before: f64,
    /// Its mean after.
    pub after: f64,
    /// The interval of the change, 999 times of 1000.
    pub low: f64,
    /// Its upper end.
    pub high: f64,
}

impl Compared {
    /// Returns the change.
    #[must_use]
    pub fn change(&self) -> f64 {
        self.after - self.before
    }

    /// Returns whether the recordings differ in it, by more than windows of one do and by enough to be worth a word.
    #[must_use]
    pub fn differs(&self) -> bool {
        (self.low > 0.0 || self.high < 0.0) && self.weight() >= 1.0
    }

    /// Returns how many times the change is the least that is worth a word.
    fn weight(&self) -> f64 {
        self.change().abs() / self.figure.floor.max(WORTH * self.before.max(self.after))
    }
}

/// Two recordings beside each other.
#[derive(Clone, Debug)]
pub struct Beside {
    /// The first.
    pub before: Side,
    /// The second.
    pub after: Side,
    /// Figures and parts that cannot be compared, and why.
    pub left_out: Vec<String>,
    /// Whether rates can be compared, and the ends.
    rates: bool,
    ends: bool,
}

/// Reads two recordings. `progress` is told what is being done, and how many of how many rows are done.
///
/// # Errors
/// [`ReplayError`] where one cannot be read.
pub fn beside(
    before: &Trace,
    after: &Trace,
    progress: &mut dyn FnMut(&str, u64, u64),
) -> Result<Beside, ReplayError> {
    Ok(Beside::of(side(before, progress)?, side(after, progress)?))
}

/// Reads one.
fn side(trace: &Trace, progress: &mut dyn FnMut(&str, u64, u64)) -> Result<Side, ReplayError> {
    let report = blame(trace, &mut |doing, done, all| match doing {
        Progress::Opening => progress("finding the opening state", done, all),
        _ => progress("following the recording", done, all),
    })?;
    let blame = report.document();
    let frames = blame.pageblocks * pageyard::PAGEBLOCK_ORDER.frames().0;
    let meta = trace.meta();
    Ok(Side {
        name: trace.name().to_owned(),
        kernel: meta.kernel.clone(),
        seconds: meta.duration_ns as f64 / 1e9,
        cpus: meta.cpus,
        pageblocks: blame.pageblocks,
        free_pageblocks: blame.free_pageblocks,
        lost_pageblocks: blame.lost_pageblocks,
        trust: blame.trust.clone(),
        holders: blame.by.content.clone(),
        contents: trace.after()?.map_or_else(Vec::new, |after| contents(&after)),
        settings: meta.settings.iter().map(|(name, value)| (name.clone(), value.to_string())).collect(),
        windows: windows::read(trace, frames, &mut |done, all| progress("counting", done, all))?,
    })
}

/// Adds up what memory holds, in percent of what the allocator ever had.
fn contents(snapshot: &Snapshot) -> Vec<(FrameKind, f64)> {
    let never = [FrameKind::None, FrameKind::Reserved];
    let kinds = FrameKind::ALL.into_iter().zip(Contents::of(snapshot, None).frames);
    let held = kinds.filter(|(kind, _)| !never.contains(kind));
    let held: Vec<(FrameKind, f64)> = held.map(|(kind, frames)| (kind, frames as f64)).collect();
    let all: f64 = held.iter().map(|(_, frames)| frames).sum();
    held.into_iter().map(|(kind, frames)| (kind, 100.0 * frames / all.max(1.0))).collect()
}

/// Memory of one kind at the end, in percent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Content {
    /// The kind.
    pub kind: FrameKind,
    /// Its share before.
    pub before: f64,
    /// Its share after.
    pub after: f64,
}

impl Content {
    /// Returns whether it changed by enough to be worth a word. Free memory, page cache and per-CPU lists turn into
    /// each other from moment to moment, so one moment of them says nothing.
    #[must_use]
    pub fn differs(&self) -> bool {
        let fleeting = [FrameKind::Free, FrameKind::File, FrameKind::Other].contains(&self.kind);
        !fleeting && (self.after - self.before).abs() >= WORTH_OF_MEMORY_PCT
    }
}

/// A kind of holder of lost pageblocks, on both sides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loss {
    /// Its name.
    pub what: String,
    /// Pageblocks before.
    pub before: u64,
    /// Pageblocks after.
    pub after: u64,
}

impl Beside {
    /// Finds out what can be compared.
    fn of(before: Side, after: Side) -> Beside {
        let mut left_out = Vec::new();
        let rates = before.cpus == after.cpus;
        if !rates {
            left_out
                .push(format!("what happens a second: {} CPUs before, {} after", before.cpus, after.cpus));
        }
        let lengths = [before.seconds, after.seconds];
        let blind = [&before, &after].into_iter().find(|side| side.trust.snapshot == Some(false));
        let why = match blind {
            Some(side) => Some(format!("{} has no picture of memory when it began", side.name)),
            None if lengths[0].max(lengths[1]) > LONGER * lengths[0].min(lengths[1]) => {
                Some(format!("{:.1} s were recorded before, {:.1} s after", lengths[0], lengths[1]))
            }
            None => None,
        };
        let ends = why.is_none();
        left_out.extend(why.map(|why| format!("pageblocks at the end: {why}")));
        for (n, figure) in FIGURES.iter().enumerate() {
            let known = [&before, &after].map(|side| side.windows[n].is_some());
            let lacking = match known {
                [true, true] | [false, false] => continue,
                [false, true] => &before,
                [true, false] => &after,
            };
            left_out.push(format!("{}: {} does not tell it", figure.name, lacking.name));
        }
        Beside { before, after, left_out, rates, ends }
    }

    /// Returns the figures that both tell and that can be compared.
    #[must_use]
    pub fn figures(&self) -> Vec<Compared> {
        let of = FIGURES.iter().zip(self.before.windows.iter().zip(&self.after.windows));
        let comparable = of.filter(|(figure, _)| self.rates || figure.unit == Unit::Percent);
        let figures = comparable.filter_map(|(figure, (before, after))| {
            let (before, after) = (before.as_ref()?, after.as_ref()?);
            let (low, high) = after.change_from(before);
            Some(Compared { figure, before: before.mean(), after: after.mean(), low, high })
        });
        figures.collect()
    }

    /// Returns those in which the recordings differ: the most urgent aspect first, and of one the largest.
    #[must_use]
    pub fn differences(&self) -> Vec<Compared> {
        let mut found: Vec<Compared> = self.figures().into_iter().filter(Compared::differs).collect();
        found.sort_by(|a, b| a.figure.aspect.cmp(&b.figure.aspect).then(b.weight().total_cmp(&a.weight())));
        found
    }

    /// Returns the settings that differ, with the values before and after.
    #[must_use]
    pub fn settings(&self) -> Vec<(&str, &str, &str)> {
        let (before, after) = (&self.before.settings, &self.after.settings);
        let both = before
            .iter()
            .filter_map(|(name, value)| Some((name.as_str(), value.as_str(), after.get(name)?.as_str())));
        both.filter(|(_, before, after)| before != after).collect()
    }

    /// Returns what memory holds at the end, where both tell it and the ends can be compared; the largest change first.
    #[must_use]
    pub fn contents(&self) -> Vec<Content> {
        let both = self.before.contents.iter().zip(&self.after.contents).filter(|_| self.ends);
        let mut all: Vec<Content> = both
            .map(|(before, after)| Content { kind: before.0, before: before.1, after: after.1 })
            .collect();
        all.sort_by(|a, b| (b.after - b.before).abs().total_cmp(&(a.after - a.before).abs()));
        all
    }

    /// Returns by how many more pageblocks in a hundred are lost at the end of the second; `None` where the ends cannot
    /// be compared.
    #[must_use]
    pub fn lost_pct(&self) -> Option<f64> {
        let share = |side: &Side| 100.0 * side.lost_pageblocks as f64 / side.pageblocks.max(1) as f64;
        self.ends.then(|| share(&self.after) - share(&self.before))
    }

    /// Returns whether the second lost so many more or fewer that it is worth a word.
    #[must_use]
    pub fn loses_otherwise(&self) -> bool {
        let sides = [&self.before, &self.after];
        let lost: u64 = sides.iter().map(|side| side.lost_pageblocks).sum();
        let all: u64 = sides.iter().map(|side| side.pageblocks).sum();
        let share = lost as f64 / all.max(1) as f64;
        let each: f64 = sides.iter().map(|side| 1.0 / side.pageblocks.max(1) as f64).sum();
        let chance = 100.0 * (share * (1.0 - share) * each).sqrt();
        self.lost_pct().is_some_and(|change| change.abs() >= WORTH_PCT.max(SCATTER * chance))
    }

    /// Returns what holds lost pageblocks, the largest change first.
    #[must_use]
    pub fn losses(&self) -> Vec<Loss> {
        let mut by: BTreeMap<&str, [u64; 2]> = BTreeMap::new();
        for (n, side) in [&self.before, &self.after].into_iter().enumerate() {
            side.holders.iter().for_each(|share| by.entry(&share.name).or_default()[n] += share.pageblocks);
        }
        let loss = |(what, [before, after]): (&str, [u64; 2])| Loss { what: what.to_owned(), before, after };
        let mut losses: Vec<Loss> = by.into_iter().map(loss).collect();
        losses.sort_by_key(|loss| std::cmp::Reverse((loss.after.abs_diff(loss.before), loss.after)));
        losses
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pageyard_trace::Meta;

    /// Makes a recording in whose windows a figure, by its name, has these values in turn, and any other is 1.
    fn side(name: &str, of: &[(&str, [f64; 2])]) -> Side {
        let windows = FIGURES.iter().map(|figure| {
            let named =
                of.iter().find(|(name, _)| *name == figure.name).map_or([1.0; 2], |(_, values)| *values);
            Some(Windows((0..windows::WINDOWS).map(|n| named[n % 2]).collect()))
        });
        let share = |name: &str, pageblocks| Share { name: name.to_owned(), pageblocks, ..Share::default() };
        Side {
            name: name.to_owned(),
            kernel: "Linux".to_owned(),
            seconds: 60.0,
            cpus: 2,
            pageblocks: 8000,
            free_pageblocks: 1000,
            lost_pageblocks: 800,
            trust: Trust::of(&Meta::new(2), 1_000_000),
            holders: vec![share("slab", 500), share("page tables", 400)],
            contents: vec![(FrameKind::Free, 20.0), (FrameKind::HugeTlb, 0.0)],
            settings: BTreeMap::from([("vm/defrag_mode".to_owned(), "0".to_owned())]),
            windows: windows.collect(),
        }
    }

    #[test]
    fn what_is_urgent_is_named_before_what_changed_more() {
        let before = side("a", &[]);
        let changed = [
            ("frames moved", [90.0, 110.0]),
            ("requests that failed", [4.0, 6.0]),
            ("free memory", [1.0, 1.3]),
        ];
        let found = Beside::of(before.clone(), side("b", &changed));
        let names: Vec<&str> = found.differences().iter().map(|c| c.figure.name).collect();
        assert_eq!(names, ["requests that failed", "frames moved"], "a third of a point is not worth a word");
        let sentence = found.sentence();
        assert!(
            sentence.starts_with("It matters: requests that failed (more: 1/s, then 5/s); 2 of 21"),
            "{sentence}"
        );
        let found = Beside::of(before.clone(), side("b", &changed[..1]));
        assert!(found.sentence().starts_with("Only work differs"), "{}", found.sentence());
        let same = Beside::of(before.clone(), before);
        assert!(same.sentence().starts_with("Nothing differs: no figure of 21"), "{}", same.sentence());
    }

    #[test]
    fn settings_losses_and_contents_are_named_first() {
        let (before, mut after) = (side("a", &[]), side("b", &[]));
        after.settings.insert("vm/defrag_mode".to_owned(), "1".to_owned());
        after.contents = vec![(FrameKind::Free, 8.0), (FrameKind::HugeTlb, 12.0)];
        // 400 more are 5 in a hundred, and 8 times what chance makes of them is 3.9.
        after.lost_pageblocks = 1200;
        after.holders[0].pageblocks = 880;
        let found = Beside::of(before, after);
        let sentence = found.sentence();
        let first = "The setting vm/defrag_mode was 0, then 1. It matters: 5.0 in a hundred pageblocks more are lost to huge \
                     frames, most to slab; huge pages set aside (more: 0 %, then 12 %); no figure";
        assert!(sentence.starts_with(first), "{sentence}");
        let mut few = found;
        few.after.lost_pageblocks = 1080;
        assert!(!few.loses_otherwise(), "3.5 in a hundred can be chance");
    }

    #[test]
    fn what_cannot_be_compared_is_left_out_and_named() {
        let (before, mut after) = (side("a", &[]), side("b", &[("requests that failed", [50.0, 60.0])]));
        (after.cpus, after.seconds, after.lost_pageblocks) = (4, 121.0, 4000);
        let free = FIGURES.iter().position(|figure| figure.name == "free memory").unwrap();
        after.windows[free] = None;
        let found = Beside::of(before.clone(), after);
        assert_eq!(found.left_out.len(), 3, "{:?}", found.left_out);
        assert_eq!(found.figures().len(), 3, "shares that both tell");
        assert_eq!((found.lost_pct(), found.contents().len()), (None, 0));
        let blind = Side { trust: before.trust.clone().opened(false), ..before.clone() };
        let found = Beside::of(before.clone(), blind);
        assert!(
            found.left_out[0].ends_with("a has no picture of memory when it began"),
            "{:?}",
            found.left_out
        );
        assert_eq!((found.lost_pct(), found.contents().len()), (None, 0));
        let mut doubtful = before.clone();
        doubtful.trust.lower(pageyard_trace::TrustLevel::Low, "half of all events were lost".to_owned());
        let sentence = Beside::of(before, doubtful).sentence();
        assert!(sentence.starts_with("No conclusion is drawn"), "{sentence}");
    }
}
