//! The replay's prediction of the host's end state, beside the recorded one.

use super::host::Host;
use crate::engine::ReplayEngine;
use crate::error::ReplayError;
use pageyard::proctext::{LINUX_ORDERS, linux_orders};
use pageyard::{CpuId, ZoneId, ZoneStats, metrics};
use pageyard_trace::Trace;
use pageyard_trace::proctext::Zoneinfo;
use serde::Serialize;

/// One zone's free blocks by order, predicted and recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ZonePrediction {
    /// The zone's name.
    pub zone: String,
    /// What the engine ended with.
    pub predicted: [u64; LINUX_ORDERS],
    /// What the host ended with.
    pub recorded: [u64; LINUX_ORDERS],
}

/// One CPU's lists of one zone at the end, in frames: predicted and recorded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ListPrediction {
    /// The zone's name.
    pub zone: String,
    /// The CPU.
    pub cpu: u32,
    /// What the engine ended with.
    pub predicted: ListFrames,
    /// What the host ended with.
    pub recorded: ListFrames,
}

/// Frames in a CPU's lists of a zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ListFrames {
    /// Frames in the lists.
    pub count: u64,
    /// Frames at which they spill.
    pub high: u64,
}

/// The prediction for a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prediction {
    /// Its zones.
    pub zones: Vec<ZonePrediction>,
    /// The host's beginning, zone by zone: the prediction that nothing changes.
    pub before: Option<Vec<[u64; LINUX_ORDERS]>>,
    /// Per-CPU lists that held anything, here or there.
    pub lists: Vec<ListPrediction>,
}

impl Prediction {
    /// Compares an engine's zones with the end of the trace, of whose host `host` is, if it has one.
    ///
    /// # Errors
    /// [`ReplayError::Trace`] where the trace's texts cannot be read.
    pub(super) fn new<E: ReplayEngine + ?Sized>(
        trace: &Trace,
        host: &Host,
        engine: &E,
        zones: &[ZoneStats],
        name: &dyn Fn(&ZoneStats) -> String,
    ) -> Result<Option<Prediction>, ReplayError> {
        let Some(recorded) = &host.after else { return Ok(None) };
        let rows = zones.iter().zip(recorded).map(|(z, recorded)| ZonePrediction {
            zone: name(z),
            predicted: linux_orders(&z.blocks_by_order()),
            recorded: *recorded,
        });
        let lists = lists(trace, engine, zones, name)?;
        Ok(Some(Prediction { zones: rows.collect(), before: host.before.clone(), lists }))
    }

    fn pairs(&self, weight: impl Fn(usize) -> u64 + Copy) -> impl Iterator<Item = (u64, u64)> {
        self.zones.iter().flat_map(move |z| {
            let rows = z.predicted.iter().zip(&z.recorded).enumerate();
            rows.map(move |(order, (p, r))| (p * weight(order), r * weight(order)))
        })
    }

    /// Returns how far the two are apart, counting free blocks, in percent: 0 alike, 100 nothing in common.
    #[must_use]
    pub fn distance_pct(&self) -> f64 {
        metrics::distance(self.pairs(|_| 1)).unwrap_or(0.0) * 100.0
    }

    /// Returns the same, counting the frames in the blocks.
    #[must_use]
    pub fn distance_frames_pct(&self) -> f64 {
        metrics::distance(self.pairs(|order| 1 << order)).unwrap_or(0.0) * 100.0
    }

    /// Returns how far the host's end is from its beginning, counting free blocks and counting their frames, in
    /// percent: the distance of a prediction that nothing changes. A prediction that is further off is worth less.
    #[must_use]
    pub fn unchanged_distance_pct(&self) -> Option<(f64, f64)> {
        let before = self.before.as_ref()?;
        let of = |weight: &dyn Fn(usize) -> u64| {
            let pairs = before.iter().zip(&self.zones).flat_map(|(b, z)| {
                b.iter().zip(z.recorded).enumerate().map(|(o, (b, r))| (b * weight(o), r * weight(o)))
            });
            metrics::distance(pairs).unwrap_or(0.0) * 100.0
        };
        Some((of(&|_| 1), of(&|order| 1 << order)))
    }

    /// Returns the same for one order, counting blocks.
    #[must_use]
    pub fn distance_of_order_pct(&self, order: usize) -> f64 {
        let pairs = self.zones.iter().map(|z| (z.predicted[order], z.recorded[order]));
        metrics::distance(pairs).unwrap_or(0.0) * 100.0
    }

    /// Returns the free huge frames, predicted and recorded.
    #[must_use]
    pub fn free_huge_frames(&self) -> (u64, u64) {
        let huge = |rows: &dyn Fn(&ZonePrediction) -> [u64; LINUX_ORDERS]| {
            self.zones.iter().map(|z| metrics::suitable_blocks(&rows(z), 9)).sum()
        };
        (huge(&|z| z.predicted), huge(&|z| z.recorded))
    }
}

/// Compares the per-CPU lists with those of the recorded `zoneinfo`.
fn lists<E: ReplayEngine + ?Sized>(
    trace: &Trace,
    engine: &E,
    zones: &[ZoneStats],
    name: &dyn Fn(&ZoneStats) -> String,
) -> Result<Vec<ListPrediction>, ReplayError> {
    let Some(texts) = &trace.meta().after else { return Ok(Vec::new()) };
    let info = Zoneinfo::parse(&texts.zoneinfo)?;
    let mut lists = Vec::new();
    for (id, zone) in (0..).map(ZoneId).zip(zones) {
        let record =
            info.zones.iter().find(|r| r.node == zone.span.node.0 && r.name == zone.span.kind.name());
        for set in record.map(|r| &r.pagesets[..]).unwrap_or_default() {
            let Some(ours) = engine.pcp_stats(id, CpuId(set.cpu)) else { continue };
            if ours.count + set.count > 0 {
                lists.push(ListPrediction {
                    zone: name(zone),
                    cpu: set.cpu,
                    predicted: ListFrames { count: ours.count, high: ours.high },
                    recorded: ListFrames { count: set.count, high: set.high },
                });
            }
        }
    }
    Ok(lists)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distance_counts_blocks_or_frames() {
        let mut predicted = [0; LINUX_ORDERS];
        let mut recorded = [0; LINUX_ORDERS];
        (predicted[0], recorded[0]) = (10, 0);
        (predicted[10], recorded[10]) = (10, 10);
        let p = Prediction {
            zones: vec![ZonePrediction { zone: "Normal".into(), predicted, recorded }],
            before: Some(vec![predicted]),
            lists: Vec::new(),
        };
        // Here the replay predicts what was there before.
        assert_eq!(p.unchanged_distance_pct(), Some((p.distance_pct(), p.distance_frames_pct())));
        assert!((p.distance_pct() - 100.0 / 3.0).abs() < 1e-9);
        assert!(p.distance_frames_pct() < 0.1);
        assert_eq!(p.distance_of_order_pct(0), 100.0);
        assert_eq!(p.free_huge_frames(), (20, 20));
    }
}
