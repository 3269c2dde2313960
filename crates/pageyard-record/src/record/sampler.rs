//! The host's own texts about its memory, read again and again while it is recorded.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::time::Duration;

use pageyard_trace::HostSample;
use pageyard_trace::source::reason;

use super::error::RecordError;
use super::host::{self, now_ns, thread_ns};

/// The texts that a sample is made of.
const TEXTS: [&str; 3] = ["/proc/buddyinfo", "/proc/zoneinfo", "/proc/vmstat"];

/// The texts that samples are made of. Their files stay open: the kernel keeps its buffer for each, and reading one
/// again allocates nothing.
pub(super) struct Texts {
    /// Those that this kernel has.
    files: [Option<File>; 3],
    texts: [Vec<u8>; 3],
}

impl Texts {
    /// Opens them.
    pub(super) fn open() -> Result<Texts, RecordError> {
        let open = |path: &str| match File::open(path) {
            Ok(file) => Ok(Some(file)),
            // Some kernels are built without one of them.
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(RecordError::Refused { what: format!("{path} cannot be read"), why: reason(&e) }),
        };
        let [buddyinfo, zoneinfo, vmstat] = TEXTS;
        Ok(Texts { files: [open(buddyinfo)?, open(zoneinfo)?, open(vmstat)?], texts: Default::default() })
    }

    /// Reads them: `buddyinfo`, `zoneinfo`, `vmstat`.
    pub(super) fn read(&mut self) -> Option<[&str; 3]> {
        for (file, text) in self.files.iter().zip(&mut self.texts) {
            text.clear();
            if let Some(file) = file {
                read_again(file, text).ok()?;
            }
        }
        let [buddyinfo, zoneinfo, vmstat] = &self.texts;
        let text = |bytes| std::str::from_utf8(bytes).ok();
        Some([text(buddyinfo)?, text(zoneinfo)?, text(vmstat)?])
    }
}

/// Takes samples.
pub(super) struct Sampler {
    texts: Texts,
    /// Nanoseconds from one sample to the next.
    every: u64,
    /// When the recording started, and when the next sample is due, by the clock of the events.
    start: u64,
    due: u64,
    last: Option<u64>,
    found: Sampling,
}

/// The totals of sampling.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sampling {
    /// Samples in the trace.
    pub taken: u64,
    /// Samples left out, because the host's texts could not be read or no reader would accept them.
    pub left_out: u64,
    /// The time from one to the next that was asked for.
    pub every: Duration,
    /// The processor time that taking them took, in seconds; it is a part of the recorder's.
    pub cpu_seconds: f64,
}

impl Sampler {
    /// Opens the texts; the first sample is due at once.
    pub(super) fn open(every: Duration) -> Result<Sampler, RecordError> {
        Ok(Sampler {
            texts: Texts::open()?,
            every: u64::try_from(every.as_nanos()).unwrap_or(u64::MAX),
            start: 0,
            due: 0,
            last: None,
            found: Sampling { every, ..Sampling::default() },
        })
    }

    /// Notes when the recording started.
    pub(super) fn begin(&mut self, start: u64) {
        (self.start, self.due) = (start, start);
    }

    /// Returns how long can be waited, `timeout` at most, before the next sample is due.
    pub(super) fn wait(&self, timeout: Duration) -> Duration {
        timeout.min(Duration::from_nanos(self.due.saturating_sub(now_ns())))
    }

    /// Takes a sample if one is due.
    pub(super) fn take_if_due(&mut self) -> Option<HostSample> {
        let now = now_ns();
        if now < self.due {
            return None;
        }
        // Samples that were missed meanwhile are not made up for.
        let steps = (now - self.due) / self.every.max(1) + 1;
        self.due = self.due.saturating_add(steps.saturating_mul(self.every));
        self.take()
    }

    /// Takes a sample now.
    pub(super) fn take(&mut self) -> Option<HostSample> {
        let before = thread_ns();
        // The time of the free blocks, which are read first: they are what a replay is compared with.
        let time = now_ns() - self.start;
        let sample = self.read(time);
        self.found.cpu_seconds += (thread_ns() - before) as f64 / 1e9;
        if self.last.is_some_and(|last| last >= time) {
            return None;
        }
        self.last = Some(time);
        if sample.is_none() {
            self.found.left_out += 1;
        }
        sample
    }

    fn read(&mut self, time: u64) -> Option<HostSample> {
        let [buddyinfo, zoneinfo, vmstat] = self.texts.read()?;
        HostSample::of_texts(time, buddyinfo, zoneinfo, vmstat).ok()
    }

    /// Returns what sampling came to, given what the writer wrote and what it left out.
    pub(super) fn found(&self, written: u64, refused: u64) -> Sampling {
        Sampling { taken: written, left_out: self.found.left_out + refused, ..self.found }
    }
}

/// Reads a text of `/proc` from its beginning.
fn read_again(file: &File, text: &mut Vec<u8>) -> io::Result<()> {
    let (mut room, mut end) = (text.capacity().max(16 << 10), 0);
    loop {
        text.resize(room, 0);
        match file.read_at(&mut text[end..], end as u64) {
            Ok(0) => break,
            Ok(n) => end += n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
        if end == room {
            if room as u64 >= host::MAX_TEXT {
                return Err(io::Error::other("the text does not end"));
            }
            room *= 2;
        }
    }
    text.truncate(end);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_read_again_from_its_beginning() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let long = "x".repeat(100_000);
        std::fs::write(file.path(), &long).unwrap();
        let open = File::open(file.path()).unwrap();
        let mut text = Vec::new();
        for _ in 0..2 {
            text.clear();
            read_again(&open, &mut text).unwrap();
            assert!(text == long.as_bytes());
        }
        std::fs::write(file.path(), "short").unwrap();
        text.clear();
        read_again(&open, &mut text).unwrap();
        assert_eq!(text, b"short");
    }

    #[test]
    fn samples_are_due_at_their_times_and_missed_ones_are_not_made_up_for() {
        let mut sampler = Sampler::open(Duration::from_secs(40)).unwrap();
        let start = now_ns();
        sampler.begin(start);
        let first = sampler.take_if_due().expect("the first is due at once");
        assert!(
            !first.free_blocks.is_empty() && !first.lists.is_empty() && first.counter("pgfree") > Some(0)
        );
        assert_eq!(sampler.take_if_due(), None);
        assert_eq!(sampler.wait(Duration::from_secs(3)), Duration::from_secs(3));
        let left = sampler.wait(Duration::MAX);
        assert!(left <= Duration::from_secs(40) && left > Duration::from_secs(30), "{left:?}");
        // As if 100 s had passed. The clock counts from the machine's boot, which may have been a minute ago.
        sampler.due -= 100_000_000_000;
        let late = sampler.take_if_due().unwrap();
        assert!(late.time_ns > first.time_ns);
        let left = sampler.wait(Duration::MAX);
        assert!(left <= Duration::from_secs(20) && left > Duration::from_secs(10), "{left:?}");
        let found = sampler.found(2, 1);
        assert_eq!((found.taken, found.left_out), (2, 1));
        assert!(found.cpu_seconds > 0.0);
    }
}
