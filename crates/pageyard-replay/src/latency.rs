//! Latencies: a sample of calls, timed one by one.

use hdrhistogram::Histogram;
use serde::Serialize;
use std::time::Instant;

/// One call in this many is timed: reading the clock twice costs more than most calls. A prime, so that the sample does
/// not beat with a workload's own rhythm.
pub const SAMPLE: u64 = 17;

/// The latencies of one kind of call.
pub struct Latencies {
    histogram: Histogram<u64>,
    calls: u64,
    clock_ns: u64,
}

/// The summary of some [`Latencies`], in nanoseconds.
#[derive(Clone, Copy, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LatencySummary {
    /// Calls that were timed.
    pub timed: u64,
    /// Their mean.
    pub mean: f64,
    /// Half of them were faster.
    pub p50: u64,
    /// 99 of 100 were faster.
    pub p99: u64,
    /// The slowest.
    pub max: u64,
}

impl Latencies {
    /// Makes an empty record. `clock_ns` is what reading the clock costs: it is taken off each latency.
    pub fn new(clock_ns: u64) -> Latencies {
        // Up to ten seconds, to three digits: anything above is recorded as ten seconds.
        let histogram =
            Histogram::new_with_bounds(1, 10_000_000_000, 3).expect("the bounds are valid constants");
        Latencies { histogram, calls: 0, clock_ns }
    }

    /// Makes a call, and times it if its turn has come.
    pub fn time<R>(&mut self, call: impl FnOnce() -> R) -> R {
        self.calls += 1;
        if !self.calls.is_multiple_of(SAMPLE) {
            return call();
        }
        let start = Instant::now();
        let result = call();
        let ns = start.elapsed().as_nanos() as u64;
        self.histogram.saturating_record(ns.saturating_sub(self.clock_ns).max(1));
        result
    }

    /// Adds what another thread recorded.
    pub fn add(&mut self, other: &Latencies) {
        self.calls += other.calls;
        self.histogram.add(&other.histogram).expect("all have the same bounds");
    }

    /// Sums up; `None` where no call was timed.
    pub fn summary(&self) -> Option<LatencySummary> {
        let h = &self.histogram;
        (!h.is_empty()).then(|| LatencySummary {
            timed: h.len(),
            mean: h.mean(),
            p50: h.value_at_quantile(0.5),
            p99: h.value_at_quantile(0.99),
            max: h.max(),
        })
    }
}

/// Measures what reading the clock costs: the median of many pairs of reads with nothing between.
pub fn clock_cost_ns() -> u64 {
    let mut costs: Vec<u64> = (0..1001)
        .map(|_| {
            let start = Instant::now();
            start.elapsed().as_nanos() as u64
        })
        .collect();
    costs.sort_unstable();
    costs[costs.len() / 2]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_call_in_seventeen_is_timed_and_all_are_made() {
        let mut l = Latencies::new(0);
        let mut made = 0;
        for _ in 1..SAMPLE {
            l.time(|| made += 1);
        }
        assert!(l.summary().is_none(), "none of {made} calls was timed");
        for _ in SAMPLE..=170 {
            l.time(|| made += 1);
        }
        let summary = l.summary().unwrap();
        assert_eq!((made, summary.timed), (170, 10));
        assert!(summary.max >= summary.p50);
    }
}
