//! Two recordings beside each other, as a document.

use super::{Beside, Side, Unit};
use pageyard_trace::Trust;
use pageyard_trace::document::Document;
use serde::Serialize;

/// Two recordings compared.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BesideDocument<'a> {
    /// The first sentence of the text: the differences, and whether they matter.
    pub sentence: String,
    /// The first recording.
    pub before: SideDocument<'a>,
    /// The second.
    pub after: SideDocument<'a>,
    /// Settings of the kernels that differ.
    pub settings: Vec<SettingDocument<'a>>,
    /// Figures that both tell.
    pub figures: Vec<FigureDocument>,
    /// By how many more pageblocks in a hundred are lost to huge frames at the end of the second; left out where the
    /// ends cannot be compared.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lost_change_pct: Option<f64>,
    /// Whether that is enough to be worth a word.
    pub loses_otherwise: bool,
    /// Holders of lost pageblocks, the largest change first. A pageblock counts for each kind that holds a frame in it.
    pub losses: Vec<LossDocument>,
    /// Contents of memory at the end, the largest change first; empty where the ends cannot be compared.
    pub contents: Vec<ContentDocument>,
    /// Figures and parts that cannot be compared, and why.
    pub left_out: &'a [String],
}

impl Document for BesideDocument<'_> {
    const SCHEMA: &'static str = "pageyard.compare-recordings/1";
}

/// One recording.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SideDocument<'a> {
    /// The trace's name.
    pub trace: &'a str,
    /// The kernel that was recorded.
    pub kernel: &'a str,
    /// Its length.
    pub seconds: f64,
    /// CPUs.
    pub cpus: u32,
    /// Pageblocks with a frame for the allocator.
    pub pageblocks: u64,
    /// Those that are wholly free at the end.
    pub free_pageblocks: u64,
    /// Those with a frame that cannot be moved.
    pub lost_pageblocks: u64,
    /// How far it can be trusted.
    pub trust: &'a Trust,
}

/// A setting that differs.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SettingDocument<'a> {
    /// Its name below `/proc/sys`.
    pub name: &'a str,
    /// Its value before.
    pub before: &'a str,
    /// Its value after.
    pub after: &'a str,
}

/// A figure of both.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FigureDocument {
    /// The heading that it stands under.
    pub aspect: &'static str,
    /// Its name in words.
    pub figure: &'static str,
    /// `per_second` or `percent`.
    pub unit: &'static str,
    /// The mean of the first recording's windows.
    pub before: f64,
    /// The mean of the second's.
    pub after: f64,
    /// The change.
    pub change: f64,
    /// The lower end of the change's interval, 999 times of 1000.
    pub change_low: f64,
    /// The upper end.
    pub change_high: f64,
    /// Whether the recordings differ in it: the interval leaves out 0, and the change is worth a word.
    pub differs: bool,
}

/// A kind of holder of lost pageblocks.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LossDocument {
    /// Its name.
    pub what: String,
    /// Pageblocks at the end of the first recording.
    pub before_pageblocks: u64,
    /// Pageblocks at the end of the second.
    pub after_pageblocks: u64,
}

/// The memory of one kind at the end.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ContentDocument {
    /// The kind.
    pub kind: &'static str,
    /// Its share of memory at the end of the first recording.
    pub before_pct: f64,
    /// Its share at the end of the second.
    pub after_pct: f64,
    /// Whether that is enough to be worth a word; never of what changes from moment to moment.
    pub differs: bool,
}

impl Side {
    fn document(&self) -> SideDocument<'_> {
        SideDocument {
            trace: &self.name,
            kernel: &self.kernel,
            seconds: self.seconds,
            cpus: self.cpus,
            pageblocks: self.pageblocks,
            free_pageblocks: self.free_pageblocks,
            lost_pageblocks: self.lost_pageblocks,
            trust: &self.trust,
        }
    }
}

impl Beside {
    /// Returns it as a document.
    #[must_use]
    pub fn document(&self) -> BesideDocument<'_> {
        let figures = self.figures().into_iter().map(|c| FigureDocument {
            aspect: c.figure.aspect.title(),
            figure: c.figure.name,
            unit: match c.figure.unit {
                Unit::PerSecond => "per_second",
                Unit::Percent => "percent",
            },
            before: c.before,
            after: c.after,
            change: c.change(),
            change_low: c.low,
            change_high: c.high,
            differs: c.differs(),
        });
        let losses = self.losses().into_iter().map(|loss| LossDocument {
            what: loss.what,
            before_pageblocks: loss.before,
            after_pageblocks: loss.after,
        });
        let contents = self.contents().into_iter().map(|c| ContentDocument {
            kind: c.kind.name(),
            before_pct: c.before,
            after_pct: c.after,
            differs: c.differs(),
        });
        let settings = self.settings().into_iter();
        BesideDocument {
            sentence: self.sentence(),
            before: self.before.document(),
            after: self.after.document(),
            settings: settings.map(|(name, before, after)| SettingDocument { name, before, after }).collect(),
            figures: figures.collect(),
            lost_change_pct: self.lost_pct(),
            loses_otherwise: self.loses_otherwise(),
            losses: losses.collect(),
            contents: contents.collect(),
            left_out: &self.left_out,
        }
    }
}
