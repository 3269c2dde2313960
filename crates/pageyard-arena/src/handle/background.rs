//! A thread that compacts now and then.

use crate::arena::Arena;
use pageyard::{PAGEBLOCK_ORDER, PerCpu, ZoneId, metrics};
use std::io;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// A thread that compacts an arena while this lives.
#[derive(Debug)]
pub struct Background {
    stop: Arc<(Mutex<bool>, Condvar)>,
    thread: Option<JoinHandle<()>>,
    /// The process whose thread it is: a child of a fork has a copy of this, and no thread.
    process: u32,
}

/// Free memory of which more than this share is too scattered for a huge frame is compacted.
const SCATTERED: f64 = 0.1;

impl Background {
    /// Starts the thread. It looks `every` so often, and compacts where more than a tenth of the free memory is too
    /// scattered for a block of 2 MiB.
    ///
    /// # Errors
    /// Those of starting a thread.
    pub fn start<P: PerCpu + Send + Sync + 'static>(
        arena: Arc<Arena<P>>,
        every: Duration,
    ) -> io::Result<Background> {
        let stop = Arc::new((Mutex::new(false), Condvar::new()));
        let stopped = stop.clone();
        let look = move || {
            // Where glibc has not done it; without it, the zone serves the thread.
            let _registered = crate::rseq::register_thread();
            loop {
                let guard = stopped.0.lock().unwrap_or_else(PoisonError::into_inner);
                let (guard, _) = stopped
                    .1
                    .wait_timeout_while(guard, every, |stop| !*stop)
                    .unwrap_or_else(PoisonError::into_inner);
                if *guard {
                    return;
                }
                drop(guard);
                if is_scattered(&arena) {
                    arena.compact();
                }
            }
        };
        let thread = std::thread::Builder::new().name("pageyard-compact".into()).spawn(look)?;
        Ok(Background { stop, thread: Some(thread), process: std::process::id() })
    }

    /// Stops it, and waits until it has ended.
    pub fn stop(self) {}
}

impl Drop for Background {
    fn drop(&mut self) {
        if self.process != std::process::id() {
            std::mem::forget(self.thread.take());
            return;
        }
        *self.stop.0.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.stop.1.notify_all();
        if let Some(thread) = self.thread.take() {
            // A thread that panicked has said so.
            let _ = thread.join();
        }
    }
}

fn is_scattered<P: PerCpu>(arena: &Arena<P>) -> bool {
    let Some(zone) = arena.yard().zone_stats(ZoneId(0)) else { return false };
    let share = metrics::unusable_index(&zone.blocks_by_order(), PAGEBLOCK_ORDER.index());
    share.is_some_and(|share| share > SCATTERED)
}
