//! A recorder that keeps the last seconds, and writes them down when something fails.
//!
//! The kernel writes events into buffers in which new ones replace the oldest; a [`Watcher`] fetches their pages a few
//! times a second, looks for failures in them, and keeps the pages as they are, in a ring of bounded size and time.
//! Beside it lie samples of the host, and its texts every few seconds. A snapshot makes a trace of all that; the ring
//! goes on meanwhile.

mod document;
mod level;
mod metrics;
mod ring;
mod snapshot;
mod states;
mod window;

use std::collections::BTreeMap;
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::time::Duration;

use pageyard_trace::FAILED;
use pageyard_trace::fleet::FleetRow;

use super::instance::Instance;
use super::tracefs::Tracepoints;
use super::{RecordError, buffer_page, cost, host};
use crate::host::{Pageblocks, pageblocks_now};
use crate::tracepoint::{Decoder, Known};

pub use document::{SnapshotDocument, WatchDocument};
pub use level::Level;
pub(in crate::record) use metrics::{COUNTER, head, one};
pub use metrics::{Metrics, write as write_metrics};
pub use snapshot::Snapshot;

use ring::Ring;
use states::States;
use window::{ByEvents, Window};

/// How often it is read what pageblocks hold, which takes an eighth of a second at most.
const PAGEBLOCKS_EVERY_NS: u64 = 300_000_000_000;

/// Orders that are told apart.
const MAX_ORDER: usize = 11;

/// The limits on what is kept, in bytes and time.
#[derive(Clone, Copy, Debug)]
pub struct Kept {
    /// Bytes of events, the kernel's buffers included.
    pub bytes: u64,
    /// How long events are kept at most.
    pub time: Duration,
    /// How often the host's texts are read.
    pub sample_every: Duration,
}

/// The events that trigger a snapshot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Triggers {
    /// A refused request that the kernel would log: one without `__GFP_NOWARN`.
    pub failure: bool,
    /// Any refused request.
    pub any_failure: bool,
    /// A request for which compaction failed (`compact_fail` of `vmstat`).
    pub compaction: bool,
}

/// The counts since a watch began.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Counts {
    /// Refused requests by order.
    pub failures: [u64; MAX_ORDER],
    /// Of those, the ones that have something to fall back to (`__GFP_NOWARN`), by order.
    pub quiet_failures: [u64; MAX_ORDER],
    /// Blocks taken from a pageblock of another type.
    pub fallbacks: u64,
    /// Requests that compacted, by `vmstat`.
    pub compact_stalls: u64,
    /// Those of them that failed, by `vmstat`.
    pub compact_fails: u64,
    /// Events that were read.
    pub events: u64,
    /// Events that were replaced before they were read.
    pub overwritten: u64,
    /// Bytes that could not be understood, by page.
    pub impossible: u64,
}

/// The result of a look.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// Why a snapshot should be taken; `None` where nothing happened.
    pub reason: Option<String>,
    /// When that was, by the clock of the events.
    pub at_ns: u64,
}

/// A watch on this host.
pub struct Watcher {
    kernel: String,
    level: Level,
    instance: Instance,
    tracepoints: Tracepoints,
    /// Numbers the threads that it meets, so it is made anew now and then.
    decoder: Decoder,
    gfp_bits: BTreeMap<String, u8>,
    nowarn: u32,
    ring: Ring,
    states: States,
    triggers: Triggers,
    counts: Counts,
    began: u64,
    own: u64,
    /// `compact_fail` and `compact_stall` when the watch began, and the first at the last look.
    first_compact: Option<(u64, u64)>,
    last_fails: u64,
    /// The extra time that allocating and freeing a frame takes.
    frame_ns: Option<f64>,
    /// Frames that the host allocated, at the first look and at the last.
    allocated: Option<(u64, u64)>,
    /// Pageblocks by their contents, where those may be read, and when they are read again.
    pageblocks: Option<Pageblocks>,
    pageblocks_due: u64,
    /// The open window of a fleet's rows, where those are asked for.
    window: Option<Window>,
}

impl Watcher {
    /// Arms a watch.
    ///
    /// # Errors
    /// Any [`RecordError`]; nothing is left behind.
    pub fn arm(level: Level, kept: Kept, triggers: Triggers) -> Result<Watcher, RecordError> {
        let kernel = host::kernel();
        let tracepoints = Tracepoints::find(&kernel)?;
        let cpus = host::online_cpus()?;
        let names = tracepoints.names();
        let events = level.events(&names);
        // A quarter of the memory lies in the kernel; what is kept has the rest.
        let each = (kept.bytes / 4 / cpus.len().max(1) as u64).min(level.most_in_kernel());
        let refused =
            |why: String| RecordError::Refused { what: "the kernel's tracer cannot be used".to_owned(), why };
        let mut instance =
            Instance::overwriting(tracepoints.root(), &cpus, &events, each).map_err(refused)?;
        let in_kernel = instance.buffer_bytes() * cpus.len() as u64;
        let ring = Ring::new(kept.bytes.saturating_sub(in_kernel), kept.time, host::now_ns());
        let states = States::open(kept.sample_every, kept.time)?;
        let gfp_bits = tracepoints.gfp_bits();
        let nowarn =
            gfp_bits.get("__GFP_NOWARN").map_or(0, |bit| 1u32.checked_shl(u32::from(*bit)).unwrap_or(0));
        let frame_ns = cost::of_a_frame(&mut instance);
        instance.enable().map_err(refused)?;
        let mut watcher = Watcher {
            kernel,
            level,
            instance,
            decoder: tracepoints.decoder(),
            tracepoints,
            gfp_bits,
            nowarn,
            ring,
            states,
            triggers,
            counts: Counts::default(),
            began: host::now_ns(),
            own: host::own_ns(),
            first_compact: None,
            last_fails: 0,
            frame_ns,
            allocated: None,
            pageblocks: None,
            pageblocks_due: 0,
            window: None,
        };
        watcher.sample();
        Ok(watcher)
    }

    /// Waits until it is time to look, or `wake` can be read; then fetches what there is.
    ///
    /// # Errors
    /// When the operating system does not let it wait.
    pub fn look(&mut self, wake: BorrowedFd<'_>, timeout: Duration) -> Result<Found, RecordError> {
        super::buffers::wait(wake, self.states.wait(timeout))?;
        let mut found = self.fetch();
        if let Some(fails) = self.sample()
            && self.triggers.compaction
            && found.reason.is_none()
        {
            found = Found { reason: Some(fails), at_ns: host::now_ns() };
        }
        Ok(found)
    }

    /// Fetches the kernel's pages.
    fn fetch(&mut self) -> Found {
        let now = host::now_ns();
        let Watcher { instance, decoder, ring, counts, triggers, nowarn, .. } = self;
        let mut found = Found::default();
        instance.pages(now, &mut |cpu, page| {
            let page = buffer_page::used(page);
            let mut last = 0;
            let whole = buffer_page::events(page, |time, raw| {
                last = time;
                counts.events += 1;
                let Ok(entry) = decoder.decode(raw, time, cpu) else { return };
                match entry.known {
                    Known::AllocExtfrag => counts.fallbacks += 1,
                    Known::Alloc if entry.pfn == FAILED => {
                        let order = usize::from(entry.order).min(MAX_ORDER - 1);
                        counts.failures[order] += 1;
                        let quiet = entry.a & *nowarn != 0;
                        counts.quiet_failures[order] += u64::from(quiet);
                        let wanted = triggers.any_failure || triggers.failure && !quiet;
                        if wanted && found.reason.is_none() {
                            found.reason = Some(format!("a request of order {order} failed"));
                            found.at_ns = time;
                        }
                    }
                    _ => {}
                }
            });
            counts.impossible += u64::from(!whole);
            // A page without events has no time.
            if last > 0 {
                ring.push(cpu, last, page);
            }
            last
        });
        ring.forget(now);
        found
    }

    /// Takes a sample if one is due, and returns whether compaction has failed since the last one.
    fn sample(&mut self) -> Option<String> {
        let vmstat = self.states.take_if_due()?;
        self.decoder = self.tracepoints.decoder();
        let counter = |name: &str| vmstat.iter().find(|(n, _)| *n == name).map_or(0, |(_, value)| *value);
        let allocated = vmstat.iter().filter(|(n, _)| n.starts_with("pgalloc_")).map(|(_, n)| n).sum::<u64>();
        let first_allocated = self.allocated.map_or(allocated, |(first, _)| first);
        let (fails, stalls) = (counter("compact_fail"), counter("compact_stall"));
        self.allocated = Some((first_allocated, allocated));
        let (first_fails, first_stalls) = *self.first_compact.get_or_insert((fails, stalls));
        let since = fails - self.last_fails.min(fails);
        let is_first = std::mem::replace(&mut self.last_fails, fails) == 0 && first_fails == fails;
        self.counts.compact_fails = fails.saturating_sub(first_fails);
        self.counts.compact_stalls = stalls.saturating_sub(first_stalls);
        self.count_overwritten();
        self.count_sample();
        if host::now_ns() >= self.pageblocks_due {
            self.pageblocks = pageblocks_now();
            self.pageblocks_due = host::now_ns() + PAGEBLOCKS_EVERY_NS;
        }
        (since > 0 && !is_first).then(|| format!("compaction failed for {since} requests"))
    }

    /// Asks the kernel how many events it replaced before they were fetched.
    fn count_overwritten(&mut self) {
        self.counts.overwritten = self.instance.lost();
        self.ring.note_lost(host::now_ns(), self.counts.overwritten);
    }

    /// Begins to count what happens in windows of time.
    pub fn count_windows(&mut self) {
        let zoneinfo = self.states.from(u64::MAX).map_or("", |(_, texts)| &texts.zoneinfo);
        let cpus = self.instance.cpus().count() as u64;
        self.window = Some(Window::new(&self.kernel, cpus, zoneinfo, self.by_events()));
        self.count_sample();
    }

    /// Ends the window, and begins the next one; `None` where none was begun.
    pub fn end_window(&mut self) -> Option<FleetRow> {
        // What happened up to now.
        self.fetch();
        self.count_overwritten();
        let counts = self.by_events();
        Some(self.window.as_mut()?.end(counts, self.pageblocks.as_ref()))
    }

    /// Counts the newest sample.
    fn count_sample(&mut self) {
        if let (Some(window), Some(sample)) = (&mut self.window, self.states.samples().last()) {
            window.sample(sample);
        }
    }

    fn by_events(&self) -> ByEvents {
        [self.counts.failures.iter().sum(), self.counts.fallbacks, self.counts.overwritten]
    }

    /// Makes a trace of what is kept, in the folder `output`.
    ///
    /// # Errors
    /// When it cannot be written; nothing is left then.
    pub fn snapshot(&mut self, output: &Path, picture: bool) -> Result<Snapshot, RecordError> {
        // What happened up to now, the cause included.
        self.fetch();
        self.count_overwritten();
        self.states.take();
        snapshot::write(self, output, picture)
    }

    /// Returns what pageblocks held within the last five minutes, where that may be read.
    #[must_use]
    pub fn pageblocks(&self) -> Option<&Pageblocks> {
        self.pageblocks.as_ref()
    }

    /// Returns what happened so far.
    #[must_use]
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Returns the processor time that this process has taken since the watch began, and how long that is, in seconds.
    #[must_use]
    pub fn own_seconds(&self) -> (f64, f64) {
        let seconds = |ns: u64| ns as f64 / 1e9;
        (seconds(host::own_ns() - self.own), seconds(host::now_ns() - self.began))
    }

    /// Returns what a frame's allocation and free take longer while this watches, in nanoseconds, and the processor
    /// time that this comes to for the frames that the host has allocated since, in seconds. An upper bound: a block of
    /// several frames has one event.
    #[must_use]
    pub fn kernel_seconds(&self) -> Option<(f64, f64)> {
        let (first, last) = self.allocated?;
        let ns = self.frame_ns?;
        Some((ns, ns * last.saturating_sub(first) as f64 / 1e9))
    }

    /// Returns the bytes that the kernel's buffers take, and those that are kept here now and at most.
    #[must_use]
    pub fn memory(&self) -> (u64, u64, u64) {
        let in_kernel = self.instance.buffer_bytes() * self.instance.cpus().count() as u64;
        (in_kernel, self.ring.bytes(), self.ring.most())
    }

    /// Returns the number of kept seconds.
    #[must_use]
    pub fn kept_seconds(&self) -> f64 {
        host::now_ns().saturating_sub(self.ring.whole_from()) as f64 / 1e9
    }
}
