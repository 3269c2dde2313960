//! The replay's prediction of the host's end state, beside the recorded one.

use super::distance::{Distance, free_blocks};
use super::host::{Blocks, Host};
use crate::engine::ReplayEngine;
use crate::error::ReplayError;
use pageyard::proctext::LINUX_ORDERS;
use pageyard::{CpuId, PAGEBLOCK_ORDER, ZoneId, ZoneStats, metrics};
use pageyard_trace::Trace;
use pageyard_trace::document::as_map;
use pageyard_trace::proctext::Zoneinfo;
use serde::Serialize;

/// One CPU's lists of one zone at the end, in frames: predicted and recorded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ListPrediction {
    /// The zone's name.
    pub zone: String,
    /// The CPU.
    pub cpu: u32,
    /// The engine's lists at the end.
    pub predicted: ListFrames,
    /// The host's lists at the end.
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

/// Free blocks at the end by zone and order: predicted, and as the host had them.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Prediction {
    /// The engine's free blocks at the end, by zone.
    #[serde(serialize_with = "as_map")]
    #[cfg_attr(feature = "schema", schemars(with = "std::collections::BTreeMap<String, Blocks>"))]
    pub predicted: Vec<(String, Blocks)>,
    /// The host's free blocks at the end, by zone.
    #[serde(serialize_with = "as_map")]
    #[cfg_attr(feature = "schema", schemars(with = "std::collections::BTreeMap<String, Blocks>"))]
    pub recorded: Vec<(String, Blocks)>,
    /// How far the two are apart.
    #[serde(flatten)]
    pub distance: EndDistance,
    /// The same by free blocks, for each order alone.
    pub distance_by_order_pct: Vec<f64>,
    /// Free huge frames.
    pub free_huge_frames: PredictedAndRecorded,
    /// Per-CPU lists that held anything, here or there.
    #[serde(rename = "per_cpu_lists")]
    pub lists: Vec<ListPrediction>,
    /// How far the host's end is from its beginning, the prediction that nothing changes; left out where its beginning
    /// is not known. A prediction that is further off is worth less.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unchanged: Option<EndDistance>,
}

/// How far a prediction is from the host's end.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct EndDistance {
    /// By free blocks: 0 alike, 100 nothing in common.
    pub distance_pct: f64,
    /// By the frames in the blocks.
    pub distance_frames_pct: f64,
}

impl EndDistance {
    fn between(a: &[Blocks], b: &[Blocks]) -> EndDistance {
        let Distance { blocks_pct, frames_pct } = Distance::between(a, b);
        EndDistance { distance_pct: blocks_pct, distance_frames_pct: frames_pct }
    }
}

/// A count, predicted and recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PredictedAndRecorded {
    /// Of the engine.
    pub predicted: u64,
    /// Of the host.
    pub recorded: u64,
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
        let names: Vec<String> = zones.iter().map(name).collect();
        let lists = lists(trace, engine, zones, name)?;
        Ok(Some(Prediction::of(&names, &free_blocks(zones), recorded, host.before.as_deref(), lists)))
    }

    fn of(
        zones: &[String],
        predicted: &[Blocks],
        recorded: &[Blocks],
        before: Option<&[Blocks]>,
        lists: Vec<ListPrediction>,
    ) -> Prediction {
        let named = |rows: &[Blocks]| zones.iter().cloned().zip(rows.iter().copied()).collect();
        let huge = |rows: &[Blocks]| {
            rows.iter().map(|row| metrics::suitable_blocks(row, PAGEBLOCK_ORDER.index())).sum()
        };
        let of_order = |order: usize| {
            let pairs = predicted.iter().zip(recorded).map(|(p, r)| (p[order], r[order]));
            metrics::distance(pairs).unwrap_or(0.0) * 100.0
        };
        Prediction {
            predicted: named(predicted),
            recorded: named(recorded),
            distance: EndDistance::between(predicted, recorded),
            distance_by_order_pct: (0..LINUX_ORDERS).map(of_order).collect(),
            free_huge_frames: PredictedAndRecorded { predicted: huge(predicted), recorded: huge(recorded) },
            lists,
            unchanged: before.map(|before| EndDistance::between(before, recorded)),
        }
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
        let p = Prediction::of(&["Normal".into()], &[predicted], &[recorded], Some(&[predicted]), Vec::new());
        // Here the replay predicts what was there before.
        assert_eq!(p.unchanged, Some(p.distance));
        assert!((p.distance.distance_pct - 100.0 / 3.0).abs() < 1e-9);
        assert!(p.distance.distance_frames_pct < 0.1);
        assert_eq!(p.distance_by_order_pct[0], 100.0);
        assert_eq!(p.free_huge_frames, PredictedAndRecorded { predicted: 20, recorded: 20 });
    }
}
