//! Recorded time during a replay: when background work and samples are due.

use super::free_view::{FreeView, HeldFrames};
use super::timeline::{Sample, sample};
use crate::engine::ReplayEngine;

/// How often the background reclaimer runs, in recorded time: about as soon as a woken task would.
const KSWAPD_TICK_NS: u64 = 1_000_000;

/// How often per-CPU lists shrink, in recorded time: Linux's `vm.stat_interval`.
const VMSTAT_TICK_NS: u64 = 1_000_000_000;

/// Recorded time: what is due when.
pub struct Clock<'a> {
    engine: &'a dyn ReplayEngine,
    /// Whether the background reclaimer runs by this clock.
    pub kswapd: bool,
    view: &'a FreeView,
    samples: Vec<Sample>,
    sample_step: u64,
    next_sample: u64,
    next_kswapd: u64,
    next_vmstat: u64,
    last: u64,
}

impl<'a> Clock<'a> {
    /// Makes a clock at time zero; a sample is due every `sample_step` nanoseconds.
    pub fn new(engine: &'a dyn ReplayEngine, view: &'a FreeView, sample_step: u64) -> Clock<'a> {
        Clock {
            engine,
            kswapd: true,
            view,
            samples: Vec::new(),
            sample_step,
            next_sample: sample_step,
            next_kswapd: KSWAPD_TICK_NS,
            next_vmstat: VMSTAT_TICK_NS,
            last: 0,
        }
    }

    /// Returns the samples.
    pub fn into_samples(self) -> Vec<Sample> {
        self.samples
    }

    /// Runs the engine's background work that is due; says whether it is time for a sample.
    pub fn tick(&mut self, now: u64) -> bool {
        self.last = now;
        if self.kswapd && now >= self.next_kswapd {
            self.engine.kswapd_tick();
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
        due
    }

    /// Takes a sample, while these of the engine's frames are held.
    pub fn sample(&mut self, now: u64, held: &dyn HeldFrames) {
        self.samples.push(sample(self.engine, now, self.view, held));
    }

    /// Takes the sample of the end.
    pub fn sample_last(&mut self, held: &dyn HeldFrames) {
        self.sample(self.last, held);
    }
}
