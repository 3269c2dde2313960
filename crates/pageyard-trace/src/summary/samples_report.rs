//! Totals over the samples of the host, as a document and as text.

use std::collections::BTreeMap;
use std::fmt;

use pageyard::ZoneKind;
use serde::Serialize;

use crate::text::{Grid, count, grouped};

use super::{Sampled, Span, Summary};

/// Totals over the host's own texts while it was recorded.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SamplesDocument {
    /// How many samples there are.
    pub count: u64,
    /// When the first was taken, in nanoseconds from the start of the recording.
    pub first_ns: u64,
    /// When the last was taken.
    pub last_ns: u64,
    /// The mean time from one to the next; omitted if there are fewer than two.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mean_interval_ns: Option<u64>,
    /// Frames on the free lists, by zone.
    pub free_frames: Vec<SampledZoneDocument>,
    /// Frames in per-CPU lists, by zone, all CPUs together.
    pub cached_frames: Vec<SampledZoneDocument>,
    /// How much the counters of `/proc/vmstat` rose from the first sample to the last; those that did.
    pub counters_rose: BTreeMap<&'static str, u64>,
    /// The counters of `/proc/vmstat` that are levels.
    pub counters_between: BTreeMap<&'static str, Span>,
}

/// A number of a zone over all samples.
#[derive(Clone, Copy, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SampledZoneDocument {
    /// The NUMA node.
    pub node: u8,
    /// The zone's name.
    pub zone: &'static str,
    /// The least and the most of it.
    #[serde(flatten)]
    pub span: Span,
}

impl SamplesDocument {
    pub(super) fn of(sampled: &Sampled) -> SamplesDocument {
        let zones = |spans: &[(u8, ZoneKind, Span)]| {
            let zone = |&(node, zone, span): &(u8, ZoneKind, Span)| SampledZoneDocument {
                node,
                zone: zone.name(),
                span,
            };
            spans.iter().map(zone).collect()
        };
        SamplesDocument {
            count: sampled.samples,
            first_ns: sampled.first_ns,
            last_ns: sampled.last_ns,
            mean_interval_ns: sampled.interval_ns(),
            free_frames: zones(&sampled.free),
            cached_frames: zones(&sampled.in_lists),
            counters_rose: sampled.rose.clone(),
            counters_between: sampled.levels.clone(),
        }
    }
}

impl Summary {
    pub(super) fn samples(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Older recordings have none.
        let Some(sampled) = self.sampled.as_ref().filter(|sampled| sampled.samples > 0) else {
            return Ok(());
        };
        write!(f, "\nThe host meanwhile: {}", count(sampled.samples, "sample"))?;
        write!(f, " from {:.2} s to {:.2} s", sampled.first_ns as f64 / 1e9, sampled.last_ns as f64 / 1e9)?;
        match sampled.interval_ns() {
            Some(ns) => writeln!(f, ", on average one each {:.1} ms", ns as f64 / 1e6)?,
            None => writeln!(f)?,
        }
        let mut grid = Grid::new(["frames", "least", "most"]);
        for (what, spans) in [("free", &sampled.free), ("in per-CPU lists", &sampled.in_lists)] {
            for (node, zone, span) in spans {
                let name = format!("{what}, zone {} of node {node}", zone.name());
                grid.row([name, grouped(span.least), grouped(span.most)]);
            }
        }
        for (name, span) in &sampled.levels {
            grid.row([(*name).to_owned(), grouped(span.least), grouped(span.most)]);
        }
        write!(f, "{grid}")?;
        if sampled.rose.is_empty() {
            return Ok(());
        }
        let mut grid = Grid::new(["counters that rose", "by"]);
        for (name, rise) in &sampled.rose {
            grid.row([(*name).to_owned(), grouped(*rise)]);
        }
        write!(f, "{grid}")
    }
}
