//! A thread that compacts now and then.

use crate::arena::Arena;
use crate::own_thread::OwnThread;
use pageyard::{Frames, Observer, PAGEBLOCK_ORDER, PerCpu, ZoneId, metrics};
use std::io;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

impl<P: PerCpu + Send + Sync + 'static, O: Observer + Send + 'static> Arena<P, O> {
    /// Begins a thread that compacts: it looks each second, and compacts where more than a tenth of the free memory is
    /// too scattered for a block of 2 MiB, until [`BackgroundBuilder`] is told otherwise.
    pub fn compactor(self: &Arc<Self>) -> BackgroundBuilder<P, O> {
        BackgroundBuilder { arena: self.clone(), every: Duration::from_secs(1), scattered: 0.1 }
    }
}

/// Settings of a [`Background`].
#[must_use]
pub struct BackgroundBuilder<P: PerCpu, O: Observer = ()> {
    arena: Arc<Arena<P, O>>,
    every: Duration,
    scattered: f64,
}

impl<P: PerCpu + Send + Sync + 'static, O: Observer + Send + 'static> BackgroundBuilder<P, O> {
    /// Sets how often it looks; not more often than each millisecond.
    pub fn every(mut self, interval: Duration) -> Self {
        self.every = interval.max(Duration::from_millis(1));
        self
    }

    /// Sets the share of free memory, 0 to 1, that may stay too scattered for a block of 2 MiB. It compacts while the
    /// share is larger: at 0 as far as pins and blocks allow, at 1 never.
    pub fn down_to(mut self, scattered: f64) -> Self {
        self.scattered = scattered;
        self
    }

    /// Starts the thread.
    ///
    /// # Errors
    /// Those of starting a thread.
    pub fn start(self) -> io::Result<Background> {
        let shared = Arc::new(Shared::default());
        let of_thread = shared.clone();
        let work = move || {
            // Where glibc has not done it; without it, the zone serves the thread.
            let _registered = crate::rseq::register_thread();
            while of_thread.wait(self.every) {
                self.look(&of_thread);
            }
        };
        let thread = std::thread::Builder::new().name("pageyard-compact".into()).spawn(work)?;
        Ok(Background { shared, thread: OwnThread::new(thread) })
    }

    /// Compacts, if memory is too scattered, and notes what came of it.
    fn look(&self, shared: &Shared) {
        let Some(before) = scattered(&self.arena) else { return };
        let moved = if before > self.scattered { Some(self.arena.compact().1.moved) } else { None };
        let after = scattered(&self.arena).unwrap_or(before);
        let mut state = shared.lock();
        state.report.scattered = after;
        state.report.stuck = moved == Some(0) && after > self.scattered;
        if let Some(moved) = moved {
            state.report.passes += 1;
            state.report.moved += Frames(moved);
        }
    }
}

/// How far a [`Background`] has come.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct BackgroundReport {
    /// How often it compacted.
    pub passes: u64,
    /// Frames that it moved.
    pub moved: Frames,
    /// The share of the free memory that was too scattered for a block of 2 MiB when it last looked.
    pub scattered: f64,
    /// Whether the last look compacted without moving a frame, and `scattered` is still above the limit: pinned handles
    /// or blocks are in the way.
    pub stuck: bool,
}

/// A thread that compacts an arena while this lives.
#[derive(Debug)]
pub struct Background {
    shared: Arc<Shared>,
    thread: OwnThread,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    ended: Condvar,
}

#[derive(Debug, Default)]
struct State {
    stop: bool,
    report: BackgroundReport,
}

impl Shared {
    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the interval to pass, or for the end; returns whether it passed.
    fn wait(&self, every: Duration) -> bool {
        let waited = self.ended.wait_timeout_while(self.lock(), every, |state| !state.stop);
        !waited.unwrap_or_else(PoisonError::into_inner).0.stop
    }
}

impl Background {
    /// Returns what it did so far; nothing in a child of a fork, where there is no such thread.
    #[must_use]
    pub fn report(&self) -> BackgroundReport {
        if !self.thread.is_here() {
            return BackgroundReport::default();
        }
        self.shared.lock().report
    }

    /// Stops it, and waits until it has ended.
    #[must_use = "dropping it stops it, too"]
    pub fn stop(mut self) -> BackgroundReport {
        self.end();
        self.report()
    }

    fn end(&mut self) {
        let shared = &self.shared;
        self.thread.end(|| {
            shared.lock().stop = true;
            shared.ended.notify_all();
        });
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        self.end();
    }
}

/// Returns the share of the free memory that is too scattered for a block of 2 MiB; none where nothing is free.
fn scattered<P: PerCpu, O: Observer>(arena: &Arena<P, O>) -> Option<f64> {
    let zone = arena.yard().zone_stats(ZoneId(0))?;
    metrics::unusable_index(&zone.blocks_by_order(), PAGEBLOCK_ORDER.index())
}
