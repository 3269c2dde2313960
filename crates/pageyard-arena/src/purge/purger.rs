//! A thread that purges.

use super::pass::PurgeLimits;
use super::pressure::Pressure;
use crate::arena::Arena;
use crate::backing::BackingError;
use crate::own_thread::OwnThread;
use pageyard::{Frames, Observer, Order, PAGE_SIZE, PerCpu};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

impl<P: PerCpu + Send + Sync + 'static, O: Observer + Send + 'static> Arena<P, O> {
    /// Begins a thread that gives free memory back to the host: each second all that is free, until [`PurgerBuilder`]
    /// is told otherwise.
    pub fn purger(self: &Arc<Self>) -> PurgerBuilder<P, O> {
        PurgerBuilder {
            arena: self.clone(),
            every: Duration::from_secs(1),
            limits: PurgeLimits::default(),
            pressure: None,
        }
    }
}

/// Settings of a [`Purger`].
#[must_use]
pub struct PurgerBuilder<P: PerCpu, O: Observer = ()> {
    arena: Arc<Arena<P, O>>,
    every: Duration,
    limits: PurgeLimits,
    pressure: Option<Box<dyn Pressure>>,
}

impl<P: PerCpu + Send + Sync + 'static, O: Observer + Send + 'static> PurgerBuilder<P, O> {
    /// Sets how often it purges; not more often than each millisecond.
    pub fn every(mut self, interval: Duration) -> Self {
        self.every = interval.max(Duration::from_millis(1));
        self
    }

    /// Sets how many bytes of free memory stay in memory, rounded up to whole pageblocks, so that what is allocated
    /// next is there. When memory is short, none do.
    pub fn reserve(mut self, bytes: u64) -> Self {
        self.limits.reserve = Frames(bytes.div_ceil(PAGE_SIZE));
        self
    }

    /// Sets how many bytes an interval gives back at most, rounded up to whole pageblocks. When memory is short, all
    /// go.
    pub fn at_most(mut self, bytes: u64) -> Self {
        self.limits.most = Frames(bytes.div_ceil(PAGE_SIZE));
        self
    }

    /// Sets the smallest free blocks that go back: see [`PurgeLimits::least`].
    pub fn least(mut self, order: Order) -> Self {
        self.limits.least = order;
        self
    }

    /// Sets what says that memory is short: it wakes the thread, which then gives back all that is free.
    pub fn on_pressure(mut self, pressure: impl Pressure) -> Self {
        self.pressure = Some(Box::new(pressure));
        self
    }

    /// Starts the thread.
    ///
    /// # Errors
    /// Those of starting a thread, and of the descriptor that stops it.
    pub fn start(self) -> io::Result<Purger> {
        let shared = Arc::new(Shared {
            wake: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
            stop: AtomicBool::new(false),
            report: Mutex::new(PurgeReport::default()),
        });
        let of_thread = shared.clone();
        let work = move || {
            // Where glibc has not done it; without it, the zone serves the thread.
            let _registered = crate::rseq::register_thread();
            run(self, &of_thread);
        };
        let thread = std::thread::Builder::new().name("pageyard-purge".into()).spawn(work)?;
        Ok(Purger { shared, thread: OwnThread::new(thread) })
    }
}

/// The totals of a [`Purger`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PurgeReport {
    /// How often it purged.
    pub rounds: u64,
    /// How often because memory was short.
    pub pressed: u64,
    /// Frames that it gave back.
    pub given: Frames,
    /// How often the host refused, or what says that memory is short failed.
    pub failed: u64,
    /// How often a purge, or what says that memory is short, panicked.
    pub panicked: u64,
    /// The last refusal.
    pub last_error: Option<BackingError>,
}

/// A thread that gives free memory of an arena back to the host while this lives.
///
/// A failure or panic in the thread is recorded in [`Purger::report`], and the thread goes on. A pressure source that
/// fails or panics is not asked again.
#[derive(Debug)]
pub struct Purger {
    shared: Arc<Shared>,
    thread: OwnThread,
}

#[derive(Debug)]
struct Shared {
    /// Ends a wait.
    wake: OwnedFd,
    stop: AtomicBool,
    report: Mutex<PurgeReport>,
}

impl Shared {
    fn is_stopped(&self) -> bool {
        // ORDER: Relaxed: the flag says nothing of other memory, and its thread is joined.
        self.stop.load(Ordering::Relaxed)
    }

    fn note(&self, change: impl FnOnce(&mut PurgeReport)) {
        change(&mut self.report.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

impl Purger {
    /// Returns what it did so far; nothing in a child of a fork, where there is no such thread.
    #[must_use]
    pub fn report(&self) -> PurgeReport {
        if !self.thread.is_here() {
            return PurgeReport::default();
        }
        self.shared.report.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Stops it, and waits until it has ended: within one pageblock.
    #[must_use = "dropping the purger stops it, too"]
    pub fn stop(mut self) -> PurgeReport {
        self.end();
        self.report()
    }

    fn end(&mut self) {
        let shared = &self.shared;
        self.thread.end(|| {
            // ORDER: Relaxed: the write below wakes the thread, and joining it orders all that it did.
            shared.stop.store(true, Ordering::Relaxed);
            // It is full only where a wake-up is on its way already.
            let _ = rustix::io::write(&shared.wake, &1_u64.to_ne_bytes());
        });
    }
}

impl Drop for Purger {
    fn drop(&mut self) {
        self.end();
    }
}

/// Why a wait ended.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Woken {
    Interval,
    Pressure,
    /// The descriptor of the pressure is of no use any more: its control group is gone.
    Gone,
}

/// Waits for the interval to pass, for pressure, or for the end.
fn wait(shared: &Shared, pressure: Option<&dyn Pressure>, every: Duration) -> Woken {
    let stop = PollFd::new(&shared.wake, PollFlags::IN);
    let timeout = Timespec::try_from(every).ok();
    let watched = pressure.and_then(Pressure::descriptor);
    // A signal ends the wait early: one more look harms nothing.
    let Some(descriptor) = watched else {
        let _ = poll(&mut [stop], timeout.as_ref());
        return Woken::Interval;
    };
    let mut both = [stop, PollFd::from_borrowed_fd(descriptor.as_fd(), PollFlags::PRI)];
    let ready = poll(&mut both, timeout.as_ref()).is_ok_and(|ready| ready > 0);
    let events = both[1].revents();
    match ready {
        true if events.intersects(PollFlags::ERR | PollFlags::HUP | PollFlags::NVAL) => Woken::Gone,
        true if events.contains(PollFlags::PRI) => Woken::Pressure,
        _ => Woken::Interval,
    }
}

fn run<P: PerCpu, O: Observer>(mut settings: PurgerBuilder<P, O>, shared: &Shared) {
    loop {
        let woken = wait(shared, settings.pressure.as_deref(), settings.every);
        if shared.is_stopped() {
            return;
        }
        let short = is_short(&mut settings.pressure, woken, shared);
        let all = PurgeLimits { least: settings.limits.least, ..PurgeLimits::default() };
        let limits = if short { all } else { settings.limits };
        let mut given = Frames::ZERO;
        let purge = || settings.arena.purge_while(&limits, &mut given, &|| !shared.is_stopped());
        let purged = catch_unwind(AssertUnwindSafe(purge));
        shared.note(|report| {
            report.rounds += 1;
            report.pressed += u64::from(short);
            report.given += given;
            match purged {
                Ok(Ok(())) => {}
                Ok(Err(why)) => {
                    report.failed += 1;
                    report.last_error = Some(why);
                }
                Err(_) => report.panicked += 1,
            }
        });
    }
}

/// Asks whether memory is short. What fails or panics is dropped.
fn is_short(pressure: &mut Option<Box<dyn Pressure>>, woken: Woken, shared: &Shared) -> bool {
    let Some(source) = pressure else { return false };
    let answer = match woken {
        Woken::Gone => Ok(Err(BackingError::Refused {
            what: "to watch for memory pressure any longer",
            why: "its file is gone".into(),
            setting: "start another purger, which watches this process's control group of now",
        })),
        _ => catch_unwind(AssertUnwindSafe(|| source.is_short(woken == Woken::Pressure))),
    };
    match answer {
        Ok(Ok(short)) => return short,
        Ok(Err(why)) => shared.note(|report| {
            report.failed += 1;
            report.last_error = Some(why);
        }),
        Err(_) => shared.note(|report| report.panicked += 1),
    }
    // Dropping what panicked may panic again.
    let source = pressure.take();
    if catch_unwind(AssertUnwindSafe(|| drop(source))).is_err() {
        shared.note(|report| report.panicked += 1);
    }
    false
}
