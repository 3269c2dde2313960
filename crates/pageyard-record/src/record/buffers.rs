//! Where the kernel puts its events, and how they get here.

use std::os::fd::BorrowedFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::error::RecordError;
use super::instance::Instance;
use super::rings::{Rings, Seen};
use super::tracefs::Tracepoints;

/// Which of the kernel's buffers a recording uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Through {
    /// Those of its tracer where it hands them out, and perf's elsewhere.
    #[default]
    Cheapest,
    /// Perf's, in which an event costs about twice as much.
    Perf,
}

/// Events in a second on one CPU that the smallest buffers still hold until they are emptied; no kernel makes more.
const FASTEST: u64 = 4_000_000;

/// Bytes of an event in the tracer's buffer, at most: those of the tracepoints that are recorded.
const EVENT_BYTES: u64 = 64;

/// The buffers of all CPUs.
pub(super) enum Buffers {
    Tracer(Instance),
    /// Perf's, and why the tracer's could not be used if they were wanted.
    Perf(Rings, Option<String>),
}

impl Buffers {
    /// Asks the kernel for them; nothing is recorded yet.
    pub(super) fn open(
        cpus: &[u32],
        tracepoints: &Tracepoints,
        memory: u64,
        through: Through,
    ) -> Result<Buffers, RecordError> {
        let why = match through {
            Through::Perf => None,
            Through::Cheapest => {
                match Instance::open(tracepoints.root(), cpus, &tracepoints.names(), memory) {
                    Ok(instance) => return Ok(Buffers::Tracer(instance)),
                    Err(why) => Some(why),
                }
            }
        };
        Ok(Buffers::Perf(Rings::open(cpus, &tracepoints.ids(), memory)?, why))
    }

    /// Returns their name in a document, and why they are not the cheapest.
    pub(super) fn kind(&self) -> (&'static str, Option<String>) {
        match self {
            Buffers::Tracer(_) => ("tracefs", None),
            Buffers::Perf(_, why) => ("perf", why.clone()),
        }
    }

    pub(super) fn cpus(&self) -> u32 {
        match self {
            Buffers::Tracer(instance) => instance.cpus().count() as u32,
            Buffers::Perf(rings, _) => rings.cpus(),
        }
    }

    pub(super) fn last_cpu(&self) -> u32 {
        match self {
            Buffers::Tracer(instance) => instance.cpus().max().unwrap_or(0),
            Buffers::Perf(rings, _) => rings.last_cpu(),
        }
    }

    pub(super) fn buffer_bytes(&self) -> u64 {
        match self {
            Buffers::Tracer(instance) => instance.buffer_bytes(),
            Buffers::Perf(rings, _) => rings.buffer_bytes(),
        }
    }

    /// Starts recording.
    pub(super) fn enable(&mut self) -> Result<(), RecordError> {
        match self {
            Buffers::Tracer(instance) => instance.enable().map_err(refused),
            Buffers::Perf(rings, _) => rings.enable(),
        }
    }

    /// Stops it.
    pub(super) fn disable(&mut self) -> Result<(), RecordError> {
        match self {
            Buffers::Tracer(instance) => instance.disable().map_err(refused),
            Buffers::Perf(rings, _) => rings.disable(),
        }
    }

    /// Waits until a buffer may be partly full, `wake` can be read, or `timeout` is over.
    pub(super) fn poll(&self, wake: BorrowedFd<'_>, timeout: Duration) -> Result<(), RecordError> {
        match self {
            // The time is short enough for the buffers. Nothing waits in the kernel, which would have to look for a
            // waiter at every event.
            Buffers::Tracer(instance) => wait(wake, timeout.min(fills(instance.buffer_bytes()))),
            Buffers::Perf(rings, _) => rings.poll(wake, timeout),
        }
    }

    /// Empties each buffer of what was there at `until`, and hands over each event's bytes, time and CPU.
    pub(super) fn drain(
        &mut self,
        until: u64,
        seen: &mut Seen,
        out: &mut impl FnMut(&[u8], u64, u32, &mut Seen),
    ) {
        match self {
            Buffers::Tracer(instance) => instance.drain(until, seen, out),
            Buffers::Perf(rings, _) => rings.drain(until, seen, out),
        }
    }

    /// Returns how many events were lost by the kernel's own count, which perf does not keep before 6.0.
    pub(super) fn lost_for_certain(&mut self) -> u64 {
        match self {
            Buffers::Tracer(instance) => instance.lost(),
            Buffers::Perf(rings, _) => rings.lost_for_certain(),
        }
    }
}

/// Returns the time in which half of a buffer of `bytes` is full at the fastest.
fn fills(bytes: u64) -> Duration {
    Duration::from_nanos(bytes / 2 * 1_000_000_000 / (FASTEST * EVENT_BYTES))
}

/// Waits until `wake` can be read, or `timeout` is over.
pub(super) fn wait(wake: BorrowedFd<'_>, timeout: Duration) -> Result<(), RecordError> {
    let timeout = Timespec { tv_sec: timeout.as_secs() as i64, tv_nsec: timeout.subsec_nanos().into() };
    match poll(&mut [PollFd::from_borrowed_fd(wake, PollFlags::IN)], Some(&timeout)) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(e) => Err(RecordError::Refused {
            what: "the end of the recording cannot be waited for".to_owned(),
            why: pageyard_trace::source::reason(&e.into()),
        }),
    }
}

fn refused(said: String) -> RecordError {
    RecordError::Refused { what: "the kernel's tracer cannot be started or stopped".to_owned(), why: said }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_buffers_are_emptied_often() {
        assert_eq!(fills(64 << 20), Duration::from_nanos(131_072_000));
        assert_eq!(fills(256 << 10), Duration::from_micros(512));
    }
}
