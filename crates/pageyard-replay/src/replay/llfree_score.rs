//! The score of LLFree's replay, by its own rule.

use crate::rows::Row;
use pageyard::metrics;
use pageyard_trace::EventKind;

/// Allocations and frees from one sample to the next. LLFree: the default of `--interval` in `eval/src/bin/replay.rs`.
const INTERVAL: u64 = 100_000;

/// The mean of free huge frames as a share of what the free memory could make.
#[derive(Debug, Default)]
pub struct LlfreeScore {
    rows: u64,
    samples: u64,
    sum: f64,
}

impl LlfreeScore {
    /// Counts a row that is about to be replayed; says whether a sample is due before it.
    #[inline]
    pub fn is_due(&mut self, row: Row<'_>) -> bool {
        // What LLFree's traces have records of.
        let Row::Event(event) = row else { return false };
        if !matches!(event.kind, EventKind::Alloc | EventKind::Free) || event.failed() {
            return false;
        }
        let is_due = self.rows.is_multiple_of(INTERVAL);
        self.rows += 1;
        is_due
    }

    /// Takes a sample of the blocks by order that the frames make which are not held. LLFree's score is no number from
    /// the first sample on at which they could make no huge frame; here such a sample is left out.
    pub fn sample(&mut self, blocks: &[u64]) {
        if let Some(share) = metrics::free_huge_share(blocks) {
            self.samples += 1;
            self.sum += 100.0 * share;
        }
    }

    /// Returns the score, from 0 to 100; `None` without a sample.
    pub fn mean(&self) -> Option<f64> {
        (self.samples > 0).then(|| self.sum / self.samples as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pageyard::Context;
    use pageyard_trace::{Event, FAILED};

    #[test]
    fn a_sample_is_due_before_each_hundred_thousandth_record() {
        let event = |kind, pfn| Event {
            time_ns: 0,
            pfn,
            gfp: 0,
            tid: 0,
            cpu: 0,
            kind,
            order: 0,
            migratetype: 0,
            context: Context::Task,
            irqs_off: false,
        };
        let mut score = LlfreeScore::default();
        // What no record of LLFree's is of is not counted.
        for other in [event(EventKind::Alloc, FAILED), event(EventKind::PcpuDrain, 1)] {
            assert!(!score.is_due(Row::Event(&other)));
        }
        let kinds = [EventKind::Alloc, EventKind::Free];
        let due: Vec<u64> =
            (0..250_000).filter(|i| score.is_due(Row::Event(&event(kinds[*i as usize % 2], 1)))).collect();
        assert_eq!(due, [0, 100_000, 200_000]);
    }

    #[test]
    fn the_score_is_the_mean_of_the_samples_that_have_one() {
        let mut score = LlfreeScore::default();
        assert_eq!(score.mean(), None);
        // 511 free frames could make no huge frame.
        score.sample(&[511, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(score.mean(), None);
        // All of it; and of 1,535 free frames one huge frame of two.
        score.sample(&[0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2]);
        score.sample(&[1023, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0]);
        assert_eq!(score.mean(), Some(75.0));
    }
}
