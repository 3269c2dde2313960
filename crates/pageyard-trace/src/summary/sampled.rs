//! Totals over the samples of the host: how far its free memory moved, and how much its counters rose.

use std::collections::BTreeMap;

use pageyard::{ZoneKind, metrics};
use serde::Serialize;

use crate::error::TraceError;
use crate::samples::{HostSample, SampleReader, is_level};

/// The least and the most of a number over all samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Span {
    /// The least.
    pub least: u64,
    /// The most.
    pub most: u64,
}

impl Span {
    fn add(span: Option<Span>, n: u64) -> Span {
        span.map_or(Span { least: n, most: n }, |s| Span { least: s.least.min(n), most: s.most.max(n) })
    }
}

/// Totals over the samples of the host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sampled {
    /// How many there are.
    pub samples: u64,
    /// The time of the first, in nanoseconds.
    pub first_ns: u64,
    /// The time of the last.
    pub last_ns: u64,
    /// Frames on the free lists, by node and zone.
    pub free: Vec<(u8, ZoneKind, Span)>,
    /// Frames in per-CPU lists, by node and zone, all CPUs together.
    pub in_lists: Vec<(u8, ZoneKind, Span)>,
    /// How much each counter of events rose from the first sample to the last; those that did.
    pub rose: BTreeMap<&'static str, u64>,
    /// Counters that are levels.
    pub levels: BTreeMap<&'static str, Span>,
}

impl Sampled {
    /// Reads to the end of the file.
    pub(super) fn of(mut reader: SampleReader) -> Result<Sampled, TraceError> {
        let mut sampled = Sampled::default();
        let mut first: Option<HostSample> = None;
        let mut last = None;
        while let Some(sample) = reader.next_sample()? {
            sampled.add(&sample);
            first.get_or_insert_with(|| sample.clone());
            last = Some(sample);
        }
        let (Some(first), Some(last)) = (first, last) else { return Ok(sampled) };
        (sampled.first_ns, sampled.last_ns) = (first.time_ns, last.time_ns);
        for (name, end) in last.counters.into_iter().filter(|(name, _)| !is_level(name)) {
            let rise = end.saturating_sub(first.counter(name).unwrap_or(end));
            if rise > 0 {
                sampled.rose.insert(name, rise);
            }
        }
        Ok(sampled)
    }

    fn add(&mut self, sample: &HostSample) {
        self.samples += 1;
        for z in &sample.free_blocks {
            note(&mut self.free, z.node, z.zone, metrics::free_frames(&z.counts));
        }
        // The lists of a zone follow each other.
        for lists in sample.lists.chunk_by(|a, b| (a.node, a.zone) == (b.node, b.zone)) {
            let frames = lists.iter().fold(0, |sum: u64, l| sum.saturating_add(l.frames));
            note(&mut self.in_lists, lists[0].node, lists[0].zone, frames);
        }
        for &(name, value) in sample.counters.iter().filter(|(name, _)| is_level(name)) {
            let span = Span::add(self.levels.get(name).copied(), value);
            self.levels.insert(name, span);
        }
    }

    /// Returns the mean time from one sample to the next, in nanoseconds; `None` where there are fewer than two.
    #[must_use]
    pub fn interval_ns(&self) -> Option<u64> {
        (self.samples > 1).then(|| (self.last_ns - self.first_ns) / (self.samples - 1))
    }
}

fn note(spans: &mut Vec<(u8, ZoneKind, Span)>, node: u8, zone: ZoneKind, n: u64) {
    match spans.iter_mut().find(|(at, kind, _)| (*at, *kind) == (node, zone)) {
        Some((.., span)) => *span = Span::add(Some(*span), n),
        None => spans.push((node, zone, Span::add(None, n))),
    }
}
