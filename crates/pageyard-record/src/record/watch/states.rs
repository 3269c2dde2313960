//! The host's memory states over the last seconds.

use std::collections::VecDeque;
use std::time::Duration;

use pageyard_trace::{HostSample, ProcTexts};

use super::super::RecordError;
use super::super::host::now_ns;
use super::super::sampler::Texts;

/// Whole texts that are kept: a trace begins where one was read.
const TEXTS: usize = 16;

/// Texts and samples, the last of them only.
pub(super) struct States {
    texts: Texts,
    /// Nanoseconds from one sample to the next, between whole texts, and how long they are kept.
    every: u64,
    texts_every: u64,
    time: u64,
    due: u64,
    samples: VecDeque<HostSample>,
    whole: VecDeque<(u64, ProcTexts)>,
}

impl States {
    pub(super) fn open(every: Duration, time: Duration) -> Result<States, RecordError> {
        let nanos = |d: Duration| u64::try_from(d.as_nanos()).unwrap_or(u64::MAX);
        let time = nanos(time);
        Ok(States {
            texts: Texts::open()?,
            every: nanos(every).max(1),
            // So many that the oldest kept one is about as old as the oldest event.
            texts_every: time / (TEXTS as u64 - 1),
            time,
            due: 0,
            samples: VecDeque::new(),
            whole: VecDeque::new(),
        })
    }

    /// Returns how long can be waited, `timeout` at most, before the next sample is due.
    pub(super) fn wait(&self, timeout: Duration) -> Duration {
        timeout.min(Duration::from_nanos(self.due.saturating_sub(now_ns())))
    }

    /// Takes a sample if one is due, and returns its counters.
    pub(super) fn take_if_due(&mut self) -> Option<&[(&'static str, u64)]> {
        let now = now_ns();
        if now < self.due {
            return None;
        }
        self.due = now + self.every;
        self.take()
    }

    /// Takes a sample now.
    pub(super) fn take(&mut self) -> Option<&[(&'static str, u64)]> {
        let now = now_ns();
        let [buddyinfo, zoneinfo, vmstat] = self.texts.read()?;
        // By the clock of the events; a trace counts from its beginning.
        let sample = HostSample::of_texts(now, buddyinfo, zoneinfo, vmstat).ok()?;
        if self.whole.back().is_none_or(|(last, _)| now >= last + self.texts_every) {
            let texts = ProcTexts {
                buddyinfo: buddyinfo.to_owned(),
                zoneinfo: zoneinfo.to_owned(),
                vmstat: vmstat.to_owned(),
                // Making it walks every free list under the zone's lock.
                pagetypeinfo: String::new(),
            };
            self.whole.push_back((now, texts));
            if self.whole.len() > TEXTS {
                self.whole.pop_front();
            }
        }
        self.samples.push_back(sample);
        while self.samples.front().is_some_and(|s| s.time_ns.saturating_add(self.time) < now) {
            self.samples.pop_front();
        }
        self.samples.back().map(|s| &s.counters[..])
    }

    /// Returns the first whole texts from a time on, or else the last ones.
    pub(super) fn from(&self, time: u64) -> Option<&(u64, ProcTexts)> {
        self.whole.iter().find(|(at, _)| *at >= time).or_else(|| self.whole.back())
    }

    /// Iterates over the samples.
    pub(super) fn samples(&self) -> impl Iterator<Item = &HostSample> {
        self.samples.iter()
    }
}
