//! Several traces side by side.

use serde::Serialize;

use super::Summary;
use crate::document::Document;
use crate::error::TraceError;
use crate::event::EventKind;
use crate::failures::GfpNames;
use crate::text::{Grid, grouped, shown};
use crate::trust::{Trust, TrustLevel};

/// Several traces, in the order of their names.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SeveralDocument {
    /// The traces.
    pub traces: Vec<OneOfSeveral>,
    /// Beside them, what recordings that were killed or still go on have so far: `NAME.trace.partial`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unfinished: Vec<String>,
}

/// One of several traces.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct OneOfSeveral {
    /// Its name.
    pub name: String,
    /// Why it cannot be read; omitted if it can.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unreadable: Option<String>,
    /// What it holds; omitted if it cannot be read.
    #[serde(flatten)]
    pub totals: Option<TotalsOfOne>,
}

/// The totals of one of several traces.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TotalsOfOne {
    /// How far they can be trusted.
    pub trust: Trust,
    /// The kernel.
    pub kernel: String,
    /// CPUs.
    pub cpus: u32,
    /// Seconds that were recorded.
    pub seconds: f64,
    /// Events.
    pub events: u64,
    /// Events that were lost.
    pub lost: u64,
    /// Requests that got nothing.
    pub failures: u64,
    /// The most frequent kind of those: order and flags; omitted if there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub most_frequent: Option<String>,
    /// Blocks taken from a pageblock of another type.
    pub fallbacks: u64,
    /// Free huge frames at the end as a share of those that the free memory could make; omitted if that is not
    /// known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub free_huge_pct: Option<f64>,
}

impl Document for SeveralDocument {
    const SCHEMA: &'static str = "pageyard.summaries/2";
}

impl OneOfSeveral {
    /// Takes the row out of a summary.
    #[must_use]
    pub fn of(summary: &Summary) -> OneOfSeveral {
        let kind = summary.failures.kinds.most_frequent(1);
        let words = |order: u8, gfp: u32| format!("order {order}, {}", GfpNames::new(gfp, &summary.gfp_map));
        let totals = TotalsOfOne {
            trust: summary.trust.clone(),
            kernel: summary.kernel.clone(),
            cpus: summary.cpus,
            seconds: summary.duration_ns as f64 / 1e9,
            events: summary.events(),
            lost: summary.lost,
            failures: summary.failed.count,
            most_frequent: kind.first().map(|(kind, _)| words(kind.order, kind.gfp)),
            fallbacks: summary.by_kind[EventKind::AllocExtfrag.index()],
            free_huge_pct: crate::fragmentation::HugeFrames::of(&summary.after).pct,
        };
        OneOfSeveral { name: summary.name.clone(), unreadable: None, totals: Some(totals) }
    }

    /// Says that a trace cannot be read.
    #[must_use]
    pub fn unreadable(name: &str, why: &TraceError) -> OneOfSeveral {
        OneOfSeveral { name: shown(name), unreadable: Some(why.to_string()), totals: None }
    }
}

impl SeveralDocument {
    /// Returns how many cannot be read.
    #[must_use]
    pub fn unreadable(&self) -> usize {
        self.traces.iter().filter(|t| t.unreadable.is_some()).count()
    }

    /// Writes a table, and below it what cannot be read.
    #[must_use]
    pub fn text(&self) -> String {
        let mut grid = Grid::new([
            "trace",
            "trust",
            "kernel",
            "CPUs",
            "seconds",
            "events",
            "lost",
            "failures",
            "fallbacks",
            "free huge",
        ]);
        let read: Vec<(&str, &TotalsOfOne)> =
            self.traces.iter().filter_map(|t| Some((&t.name[..], t.totals.as_ref()?))).collect();
        for (name, t) in &read {
            grid.row([
                (*name).to_owned(),
                t.trust.level.name().to_owned(),
                t.kernel.clone(),
                t.cpus.to_string(),
                format!("{:.1}", t.seconds),
                grouped(t.events),
                grouped(t.lost),
                grouped(t.failures),
                grouped(t.fallbacks),
                t.free_huge_pct.map_or_else(|| "-".to_owned(), |pct| format!("{pct:.1} %")),
            ]);
        }
        let mut text = if read.is_empty() { String::new() } else { grid.to_string() };
        for (name, t) in read.iter().filter(|(_, t)| t.trust.level > TrustLevel::High) {
            text += &format!("{name}, trust {}: {}\n", t.trust.level.name(), t.trust.reasons.join("; "));
        }
        for (name, t) in read.iter().filter(|(_, t)| t.failures > 0) {
            let least = if t.lost > 0 { "at least " } else { "" };
            let kind = t.most_frequent.as_deref().unwrap_or("-");
            text += &format!(
                "{name}: {least}{} requests got nothing, most of them {kind}\n",
                grouped(t.failures)
            );
        }
        for (name, why) in self.traces.iter().filter_map(|t| Some((&t.name, t.unreadable.as_ref()?))) {
            text += &format!("{name} cannot be read: {why}\n");
        }
        for name in &self.unfinished {
            text += &format!(
                "{name} is unfinished: if nothing writes it any more, `pageyard import {name}` makes a trace of what it has\n"
            );
        }
        text
    }
}
