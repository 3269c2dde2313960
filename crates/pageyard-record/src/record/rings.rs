//! Perf's buffers of events, one for each CPU.

use std::io;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use perf_event::events::{Software, Tracepoint};
use perf_event::{Builder, Clock, Counter, ReadFormat, SampleFlag, Sampler};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use pageyard_trace::EventKind;
use pageyard_trace::source::reason;

use super::error::RecordError;
use super::fd;

/// The largest buffer of a CPU: at a million events a second it lasts more than a second.
const LARGEST: u64 = 64 << 20;

/// The smallest that is tried.
pub(super) const SMALLEST: u64 = 256 << 10;

/// The share of memory that all buffers together may take.
const SHARE: u64 = 64;

/// Records of the kernel, by its numbers.
const LOST: u32 = 2;
const SAMPLE: u32 = 9;

/// The events found in the buffers.
#[derive(Debug, Default)]
pub(super) struct Seen {
    pub(super) by_kind: [u64; EventKind::ALL.len()],
    pub(super) impossible: u64,
    pub(super) lost: u64,
}

struct Ring {
    cpu: u32,
    /// The first tracepoint, whose buffer holds the events of all.
    sampler: Sampler,
    others: Vec<Counter>,
}

/// All buffers.
pub(super) struct Rings {
    rings: Vec<Ring>,
    bytes: u64,
}

impl Rings {
    /// Asks the kernel for the tracepoints `ids` on each of `cpus`; nothing is recorded yet.
    pub(super) fn open(cpus: &[u32], ids: &[u64], memory: u64) -> Result<Rings, RecordError> {
        let mut bytes = size_of_each(memory, cpus.len());
        loop {
            match Rings::open_sized(cpus, ids, bytes) {
                Ok(rings) => return Ok(Rings { rings, bytes }),
                // The limit on locked memory, or memory itself: less will do.
                Err(Step::Buffer(_)) if bytes > SMALLEST => bytes /= 2,
                Err(Step::Buffer(e)) => {
                    return Err(refused("the kernel has no memory for a CPU's buffer of events", &e));
                }
                Err(Step::Event(e)) => return Err(refused("the kernel refuses to hand out its events", &e)),
            }
        }
    }

    fn open_sized(cpus: &[u32], ids: &[u64], bytes: u64) -> Result<Vec<Ring>, Step> {
        let mut rings = Vec::with_capacity(cpus.len());
        for &cpu in cpus {
            let mut events = Vec::with_capacity(ids.len());
            for &id in ids {
                let builder = Builder::new(Tracepoint::with_id(id));
                events.push(event(builder, cpu, bytes).map_err(Step::Event)?);
            }
            let mut events = events.into_iter();
            let Some(first) = events.next() else { continue };
            let sampler = first.sampled(bytes as usize).map_err(Step::Buffer)?;
            let others: Vec<Counter> = events.collect();
            for other in &others {
                fd::redirect(other, &sampler).map_err(Step::Event)?;
            }
            rings.push(Ring { cpu, sampler, others });
        }
        Ok(rings)
    }

    /// Makes buffers of `bytes` on each of `cpus` for what programs in the kernel write; nothing is recorded yet.
    pub(super) fn of_programs(cpus: &[u32], bytes: u64) -> Result<Rings, RecordError> {
        let open = |&cpu: &u32| {
            let event = event(Builder::new(Software::BPF_OUTPUT), cpu, bytes)
                .map_err(|e| refused("the kernel refuses a buffer for a program", &e))?;
            let sampler = event
                .sampled(bytes as usize)
                .map_err(|e| refused("the kernel has no memory for a program's buffer", &e))?;
            Ok(Ring { cpu, sampler, others: Vec::new() })
        };
        Ok(Rings { rings: cpus.iter().map(open).collect::<Result<_, RecordError>>()?, bytes })
    }

    /// Returns each CPU, and the descriptor of its buffer.
    pub(super) fn descriptors(&self) -> impl Iterator<Item = (u32, BorrowedFd<'_>)> {
        self.rings.iter().map(|r| (r.cpu, fd::of(&r.sampler)))
    }

    pub(super) fn cpus(&self) -> u32 {
        self.rings.len() as u32
    }

    pub(super) fn last_cpu(&self) -> u32 {
        self.rings.iter().map(|r| r.cpu).max().unwrap_or(0)
    }

    pub(super) fn buffer_bytes(&self) -> u64 {
        self.bytes
    }

    /// Starts recording.
    pub(super) fn enable(&mut self) -> Result<(), RecordError> {
        self.each(Counter::enable)
    }

    /// Stops it.
    pub(super) fn disable(&mut self) -> Result<(), RecordError> {
        self.each(Counter::disable)
    }

    fn each(&mut self, act: fn(&mut Counter) -> io::Result<()>) -> Result<(), RecordError> {
        for ring in &mut self.rings {
            for counter in std::iter::once(ring.sampler.as_counter_mut()).chain(&mut ring.others) {
                act(counter).map_err(|e| refused("the kernel refuses to start or stop its events", &e))?;
            }
        }
        Ok(())
    }

    /// Waits until a buffer is a quarter full, `wake` can be read, or `timeout` is over.
    pub(super) fn poll(&self, wake: BorrowedFd<'_>, timeout: Duration) -> Result<(), RecordError> {
        let mut fds: Vec<PollFd<'_>> = vec![PollFd::from_borrowed_fd(wake, PollFlags::IN)];
        fds.extend(self.rings.iter().map(|r| PollFd::from_borrowed_fd(fd::of(&r.sampler), PollFlags::IN)));
        let timeout = Timespec { tv_sec: timeout.as_secs() as i64, tv_nsec: timeout.subsec_nanos().into() };
        match poll(&mut fds, Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(e) => Err(refused("the kernel's buffers cannot be waited for", &e.into())),
        }
    }

    /// Empties each buffer of what was there at `until`, and hands over each event's bytes, time and CPU.
    pub(super) fn drain(
        &mut self,
        until: u64,
        seen: &mut Seen,
        out: &mut impl FnMut(&[u8], u64, u32, &mut Seen),
    ) {
        for ring in &mut self.rings {
            while let Some(record) = ring.sampler.next_record() {
                let body = record.to_contiguous();
                let long =
                    |at: usize| body.get(at..).and_then(|b| b.first_chunk()).map(|b| u64::from_le_bytes(*b));
                match record.ty() {
                    SAMPLE => {
                        let size = body
                            .get(8..12)
                            .map_or(0, |b| u32::from_le_bytes([b[0], b[1], b[2], b[3]]) as usize);
                        let (Some(time), Some(raw)) = (long(0), body.get(12..12 + size)) else {
                            seen.impossible += 1;
                            continue;
                        };
                        out(raw, time, ring.cpu, seen);
                        // A host that produces events faster than the recorder reads them would keep it here forever.
                        if time > until {
                            break;
                        }
                    }
                    LOST => seen.lost += long(8).unwrap_or(0),
                    _ => {}
                }
            }
        }
    }

    /// Returns how many events were lost by the kernel's own count, which kernels before 6.0 do not keep.
    pub(super) fn lost_for_certain(&mut self) -> u64 {
        let mut lost = 0;
        for ring in &mut self.rings {
            for counter in std::iter::once(ring.sampler.as_counter_mut()).chain(&mut ring.others) {
                lost += counter.read_full().ok().and_then(|c| c.lost()).unwrap_or(0);
            }
        }
        lost
    }
}

/// Returns how large each of `cpus` buffers should be on a host with `memory` bytes.
pub(super) fn size_of_each(memory: u64, cpus: usize) -> u64 {
    let share = memory / SHARE / cpus.max(1) as u64;
    LARGEST.min(share.next_power_of_two()).max(SMALLEST)
}

enum Step {
    Event(io::Error),
    Buffer(io::Error),
}

fn event(mut builder: Builder<'_>, cpu: u32, bytes: u64) -> io::Result<Counter> {
    builder
        .any_pid()
        .one_cpu(cpu as usize)
        .include_kernel()
        .include_hv()
        .sample_period(1)
        .sample(SampleFlag::TIME)
        .sample(SampleFlag::RAW)
        .clockid(Clock::MONOTONIC)
        .wakeup_watermark((bytes / 4) as usize)
        .read_format(ReadFormat::LOST);
    match builder.build() {
        Err(e) if e.raw_os_error() == Some(22) || e.kind() == io::ErrorKind::Unsupported => {
            builder.read_format(ReadFormat::empty());
            builder.build()
        }
        built => built,
    }
}

fn refused(what: &str, error: &io::Error) -> RecordError {
    match error.kind() {
        io::ErrorKind::PermissionDenied => RecordError::NotPermitted { what: what.to_owned() },
        _ => RecordError::Refused { what: what.to_owned(), why: reason(error) },
    }
}
