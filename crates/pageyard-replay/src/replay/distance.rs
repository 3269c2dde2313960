//! How far a replay is from the host, at its end and at each of the host's samples, beside what that is worth: the
//! distance of a prediction that nothing changes, and of the host from itself in another recording of the same job.

use super::host::{Blocks, Host};
use crate::engine::{ReplayEngine, zones};
use crate::error::ReplayError;
use pageyard::proctext::linux_orders;
use pageyard::{ZoneSpan, ZoneStats, metrics};
use pageyard_trace::Trace;
use pageyard_trace::proctext::Buddyinfo;
use serde::Serialize;

/// How far two states of free memory are apart, in percent: 0 alike, 100 nothing in common.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Distance {
    /// By free blocks of each order and zone.
    pub blocks_pct: f64,
    /// By the frames in them.
    pub frames_pct: f64,
}

impl Distance {
    /// Compares two states, zone by zone.
    #[must_use]
    pub fn between(a: &[Blocks], b: &[Blocks]) -> Distance {
        let of = |shift: fn(usize) -> usize| {
            let pairs = a.iter().zip(b).flat_map(|(a, b)| {
                a.iter().zip(b).enumerate().map(move |(order, (a, b))| (a << shift(order), b << shift(order)))
            });
            metrics::distance(pairs).unwrap_or(0.0) * 100.0
        };
        Distance { blocks_pct: of(|_| 0), frames_pct: of(|order| order) }
    }
}

/// A distance at the time of a sample.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DistanceAt {
    /// Nanoseconds from the start of the recording.
    pub time_ns: u64,
    /// How far it was then.
    #[serde(flatten)]
    pub distance: Distance,
}

/// How far a prediction is from the host.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Distances {
    /// At the end of the recording; left out where the trace or the prediction has no end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub end: Option<Distance>,
    /// At each of the host's samples; empty where there are none.
    pub over_time: Vec<DistanceAt>,
}

/// The distances of simpler predictions, to compare a replay with.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Baselines {
    /// The host's beginning, taken as the prediction of everything later: nothing changes. Left out where it is not
    /// known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub no_change: Option<Distances>,
    /// The host itself, in another recording of the same job (`--repeat`). Left out where there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host_repeat: Option<Distances>,
}

/// How far an engine is from the host, and what other predictions come to.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ComparedWithHost {
    /// The engine.
    #[serde(flatten)]
    pub engine: Distances,
    /// Other predictions of the same.
    pub baselines: Baselines,
}

impl Baselines {
    /// Reads the host's baselines: `repeat` is another recording of the same job.
    ///
    /// # Errors
    /// [`ReplayError::Repeat`] where `repeat` is of a host with other zones, or has nothing to compare with.
    pub(super) fn read(
        trace: &Trace,
        host: &Host,
        repeat: Option<&Trace>,
        spans: &[ZoneSpan],
    ) -> Result<Baselines, ReplayError> {
        let no_change = host.before.as_ref().map(|before| host.apart(Some(before), |_| Some(before)));
        let host_repeat = repeat.map(|repeat| {
            let fail =
                |why: &str| ReplayError::Repeat { trace: repeat.name().to_owned(), why: why.to_owned() };
            if zone_names(trace)? != zone_names(repeat)? {
                return Err(fail("its host has other zones; record the same job on the same host again"));
            }
            let again = Host::read(repeat, spans)?;
            if !again.is_known() {
                return Err(fail("it has neither samples nor an end; record the job again, to its end"));
            }
            Ok(host.apart(again.after.as_deref(), |time| again.near(time)))
        });
        Ok(Baselines { no_change, host_repeat: host_repeat.transpose()? })
    }
}

impl Host {
    /// Compares the host with a prediction of its end and of its samples. Those that the prediction lacks are left out.
    fn apart<'a>(&self, end: Option<&[Blocks]>, at: impl Fn(u64) -> Option<&'a [Blocks]>) -> Distances {
        let end =
            end.zip(self.after.as_deref()).map(|(predicted, after)| Distance::between(predicted, after));
        let over_time = self.samples.iter().filter_map(|(time_ns, sample)| {
            Some(DistanceAt { time_ns: *time_ns, distance: Distance::between(at(*time_ns)?, sample) })
        });
        Distances { end, over_time: over_time.collect() }
    }
}

/// Returns the nodes and names of a host's zones, as far as its `buddyinfo` says.
fn zone_names(trace: &Trace) -> Result<Vec<(u8, String)>, ReplayError> {
    let meta = trace.meta();
    let texts = [&meta.before, &meta.after].into_iter().flatten();
    let Some(text) = texts.map(|t| &t.buddyinfo).find(|text| !text.is_empty()) else { return Ok(Vec::new()) };
    Ok(Buddyinfo::parse(text)?.zones.into_iter().map(|z| (z.node, z.name)).collect())
}

/// An engine, compared with each of the host's samples when the replay comes to its time.
pub(super) struct Comparison<'a> {
    engine: &'a dyn ReplayEngine,
    host: &'a Host,
    /// When the next sample is due; never, once there is none.
    due: u64,
    found: Vec<DistanceAt>,
}

impl<'a> Comparison<'a> {
    pub(super) fn new(engine: &'a dyn ReplayEngine, host: &'a Host) -> Comparison<'a> {
        let mut this = Comparison { engine, host, due: 0, found: Vec::new() };
        this.look();
        this
    }

    /// Notes the time of the next sample.
    fn look(&mut self) {
        self.due = self.host.samples.get(self.found.len()).map_or(u64::MAX, |(time, _)| *time);
    }

    /// Returns the first time from which on [`Comparison::until`] has something to compare.
    pub(super) fn next(&self) -> u64 {
        self.due.saturating_add(1)
    }

    /// Compares with the samples from before `now`, to whose rows the replay has come.
    pub(super) fn until(&mut self, now: u64) {
        if self.due >= now {
            return;
        }
        let state = free_blocks(&zones(self.engine));
        while self.due < now
            && let Some((time_ns, sample)) = self.host.samples.get(self.found.len())
        {
            self.found.push(DistanceAt { time_ns: *time_ns, distance: Distance::between(&state, sample) });
            self.look();
        }
    }

    /// Compares with the samples after the last row, and returns what was found.
    pub(super) fn finish(mut self) -> Vec<DistanceAt> {
        self.until(u64::MAX);
        self.found
    }
}

/// Returns the zones' free blocks, in the columns of `/proc/buddyinfo`.
pub(super) fn free_blocks(zones: &[ZoneStats]) -> Vec<Blocks> {
    zones.iter().map(|z| linux_orders(&z.blocks_by_order())).collect()
}

/// Puts together an engine's distances: `over_time` as [`Comparison`] found them, `end` its state at the end. `None`
/// where there is nothing to compare with.
pub(super) fn compared(
    host: &Host,
    baselines: &Baselines,
    over_time: Vec<DistanceAt>,
    end: &[Blocks],
) -> Option<ComparedWithHost> {
    let end = host.after.as_ref().map(|after| Distance::between(end, after));
    host.is_known()
        .then(|| ComparedWithHost { engine: Distances { end, over_time }, baselines: baselines.clone() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::yard::counting::Counting;
    use pageyard::proctext::LINUX_ORDERS;

    fn row(order: usize, n: u64) -> Vec<Blocks> {
        let mut row = [0; LINUX_ORDERS];
        row[order] = n;
        vec![row]
    }

    #[test]
    fn distances_count_blocks_or_frames() {
        let (mut a, b) = (row(10, 10), row(10, 10));
        a[0][0] = 10;
        let d = Distance::between(&a, &b);
        assert!((d.blocks_pct - 100.0 / 3.0).abs() < 1e-9 && d.frames_pct < 0.1, "{d:?}");
        assert_eq!(Distance::between(&a, &a), Distance { blocks_pct: 0.0, frames_pct: 0.0 });
        assert_eq!(Distance::between(&row(0, 0), &row(0, 0)).blocks_pct, 0.0, "nothing is free in either");
        assert_eq!(
            Distance::between(&row(0, 1), &row(1, 7)),
            Distance { blocks_pct: 100.0, frames_pct: 100.0 }
        );
    }

    #[test]
    fn each_sample_is_compared_once_when_its_rows_are_done() {
        let engine = Counting::new();
        let samples = vec![(0, row(0, 1)), (10, row(0, 1)), (20, row(0, 1)), (90, row(0, 1))];
        let host = Host { samples, ..Host::default() };
        let mut comparison = Comparison::new(&engine, &host);
        let times = |c: &Comparison<'_>| c.found.iter().map(|d| d.time_ns).collect::<Vec<_>>();
        comparison.until(0);
        assert!(times(&comparison).is_empty(), "rows of that time are still to come");
        comparison.until(10);
        assert_eq!(times(&comparison), [0]);
        comparison.until(25);
        comparison.until(26);
        assert_eq!(times(&comparison), [0, 10, 20]);
        assert_eq!(comparison.finish().len(), 4);
    }

    #[test]
    fn what_a_prediction_lacks_is_left_out() {
        let host = Host {
            before: Some(row(0, 4)),
            after: Some(row(0, 8)),
            samples: vec![(5, row(0, 4)), (9, row(0, 12))],
        };
        let before = host.before.clone().unwrap();
        let same = host.apart(Some(&before), |_| Some(&before));
        assert_eq!(same.end.map(|d| d.blocks_pct), Some(1.0 / 3.0 * 100.0));
        assert_eq!(same.over_time.iter().map(|d| d.distance.blocks_pct).collect::<Vec<_>>(), [0.0, 50.0]);
        let shorter = Host { samples: vec![(6, row(0, 4))], ..Host::default() };
        let repeat = host.apart(shorter.after.as_deref(), |time| shorter.near(time));
        assert_eq!((repeat.end, repeat.over_time.len()), (None, 1));
    }
}
