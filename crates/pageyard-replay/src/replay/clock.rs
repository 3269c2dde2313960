//! Recorded time during a replay: when background work and samples are due.

use super::distance::{Comparison, DistanceAt};
use super::free_view::{FreeView, HeldFrames};
use super::host::Host;
use super::llfree_score::LlfreeScore;
use super::timeline::{Sample, sample};
use crate::engine::ReplayEngine;
use crate::machine::Emptying;
use crate::rows::Row;
use pageyard::{NodeId, ZoneStats};

/// How often the background reclaimer runs, in recorded time: about as soon as a woken task would.
const KSWAPD_TICK_NS: u64 = 1_000_000;

/// For how long a background reclaimer that is at work may free nothing: it looks for what it can free, in an emulated
/// guest too.
const RECLAIM_PAUSE_NS: u64 = 10_000_000;

/// How often per-CPU lists shrink, in recorded time: Linux's `vm.stat_interval`.
const VMSTAT_TICK_NS: u64 = 1_000_000_000;

/// Recorded time: what is due when.
pub struct Clock<'a> {
    engine: &'a dyn ReplayEngine,
    /// Whether the recorded host's reclaim is followed: its background reclaimer, and when it emptied the lists.
    pub follows_reclaim: bool,
    /// When the host emptied the lists of all CPUs: the times still to come.
    emptied: &'a [Emptying],
    view: &'a FreeView,
    samples: Vec<Sample>,
    /// The zones at each sample, if they are kept.
    zones: Option<Vec<Vec<ZoneStats>>>,
    score: LlfreeScore,
    /// The engine beside the host, at the times of the host's own samples.
    comparison: Comparison<'a>,
    sample_step: u64,
    next_sample: u64,
    next_kswapd: u64,
    next_vmstat: u64,
    /// When the first of all these is due.
    next: u64,
    last: u64,
    /// Until when each node's recorded background reclaimer is at work, by its last free.
    at_work: Vec<(NodeId, u64)>,
}

impl<'a> Clock<'a> {
    /// Makes a clock at time zero; a sample is due every `sample_step` nanoseconds, and `keeps_zones` says whether that
    /// of each zone is kept. The engine is compared with `host` at the times of its samples.
    pub fn new(
        engine: &'a dyn ReplayEngine,
        emptied: &'a [Emptying],
        view: &'a FreeView,
        host: &'a Host,
        sample_step: u64,
        keeps_zones: bool,
    ) -> Clock<'a> {
        Clock {
            engine,
            follows_reclaim: true,
            emptied,
            view,
            samples: Vec::new(),
            zones: keeps_zones.then(Vec::new),
            score: LlfreeScore::default(),
            comparison: Comparison::new(engine, host),
            sample_step,
            next_sample: sample_step,
            next_kswapd: KSWAPD_TICK_NS,
            next_vmstat: VMSTAT_TICK_NS,
            next: 0,
            last: 0,
            at_work: Vec::new(),
        }
    }

    /// Returns the samples, the zones at each (none where they were not kept), and the distances from the host. After
    /// the last row.
    pub fn into_samples(self) -> (Vec<Sample>, Vec<Vec<ZoneStats>>, Vec<DistanceAt>) {
        (self.samples, self.zones.unwrap_or_default(), self.comparison.finish())
    }

    /// Returns LLFree's score, where it was taken.
    pub fn llfree_score(&self) -> Option<f64> {
        self.score.mean()
    }

    /// Counts a row that is about to be replayed; says whether a sample for LLFree's score is due.
    #[inline]
    pub fn score_is_due(&mut self, row: Row<'_>) -> bool {
        self.score.is_due(row)
    }

    /// Takes a sample for LLFree's score.
    pub fn sample_score(&mut self, held: &dyn HeldFrames) {
        self.score.sample(&self.view.blocks(held));
    }

    /// Compares the engine with the host's samples that are due, and runs its background work that is; says whether it
    /// is time for a sample.
    #[inline]
    pub fn tick(&mut self, now: u64) -> bool {
        self.last = now;
        // At most rows nothing is.
        now >= self.next && self.catch_up(now)
    }

    fn catch_up(&mut self, now: u64) -> bool {
        self.comparison.until(now);
        while let Some((due, later)) =
            self.emptied.split_first().filter(|(due, _)| self.follows_reclaim && now >= due.at)
        {
            match due.after_reclaim {
                true => self.engine.reclaim_was_not_enough(),
                false => self.engine.empty_lists(),
            }
            self.emptied = later;
        }
        if self.follows_reclaim && now >= self.next_kswapd {
            self.engine.kswapd_tick(&|node| self.at_work.iter().any(|(n, until)| *n == node && now < *until));
            self.next_kswapd = now + KSWAPD_TICK_NS;
        }
        if now >= self.next_vmstat {
            self.engine.vmstat_tick();
            self.next_vmstat += VMSTAT_TICK_NS;
        }
        let due = now >= self.next_sample;
        if due {
            self.next_sample += self.sample_step;
        }
        let background = match self.follows_reclaim {
            true => self
                .next_kswapd
                .min(self.next_vmstat)
                .min(self.emptied.first().map_or(u64::MAX, |due| due.at)),
            false => self.next_vmstat,
        };
        self.next = background.min(self.next_sample).min(self.comparison.next());
        due
    }

    /// Notes that the host's background reclaimer of a node frees something now.
    pub fn reclaims(&mut self, node: NodeId, now: u64) {
        let until = now + RECLAIM_PAUSE_NS;
        match self.at_work.iter_mut().find(|(n, _)| *n == node) {
            Some((_, at)) => *at = until,
            None => self.at_work.push((node, until)),
        }
    }

    /// Takes a sample, while these of the engine's frames are held.
    pub fn sample(&mut self, now: u64, held: &dyn HeldFrames) {
        let (sample, zones) = sample(self.engine, now, self.view, held);
        self.samples.push(sample);
        if let Some(kept) = &mut self.zones {
            kept.push(zones);
        }
    }

    /// Takes the sample of the end.
    pub fn sample_last(&mut self, held: &dyn HeldFrames) {
        self.sample(self.last, held);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bitmap::FrameSet;
    use crate::engine::yard::counting::Counting;
    use pageyard::Pfn;
    use pageyard::memmap::MAX_ZONES;
    use std::sync::atomic::Ordering::Relaxed;

    /// A tick once asked which zones there are, and so counted all free blocks in every recorded millisecond.
    #[test]
    fn background_work_asks_for_nothing_that_counts_free_blocks() {
        let (engine, view, host) = (Counting::new(), FreeView::of_nothing(), Host::default());
        let ticks = 3 * VMSTAT_TICK_NS / KSWAPD_TICK_NS;
        let mut clock = Clock::new(&engine, &[], &view, &host, VMSTAT_TICK_NS, false);
        let due = (1..=ticks).filter(|ms| clock.tick(ms * KSWAPD_TICK_NS)).count();
        assert_eq!(due, 3, "a sample is due once in its step");
        assert_eq!(engine.asked.load(Relaxed), 0, "asked of the engine in {ticks} ticks");
        assert_eq!(engine.told.load(Relaxed), ticks * MAX_ZONES as u64);
        // What is counted can be counted: a sample asks for each zone.
        clock.sample(ticks * KSWAPD_TICK_NS, &FrameSet::new(Pfn(0)));
        assert_eq!(engine.asked.load(Relaxed), 2, "one zone, and that there is no second one");
    }
}
