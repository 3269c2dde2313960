//! Two threads that share a clock: one repeats a recording at a stated pace, the other makes requests when they are due.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The recording goes on by at most this much at a time, so that the other thread's requests come when they are due.
const SLICE_NS: u64 = 20_000;

/// How far a recording fell behind its pace.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Lag {
    /// At most, in nanoseconds of the recording.
    pub most_ns: u64,
    /// At the end of the phase.
    pub last_ns: u64,
}

/// The recording's time, as far as it has come.
pub(super) struct Clock {
    begin: u64,
    now: AtomicU64,
    /// Whether the requests have all been made.
    done: AtomicBool,
}

/// Says that the requests are over, also where they end in a panic.
struct Done<'a>(&'a AtomicBool);

impl Drop for Done<'_> {
    fn drop(&mut self) {
        // ORDER: Release pairs with the Acquire in `Clock::run`.
        self.0.store(true, Ordering::Release);
    }
}

/// Says that the recording stands still for good, also where it ends in a panic: no request waits for it any longer.
struct Stopped<'a>(&'a AtomicU64);

impl Drop for Stopped<'_> {
    fn drop(&mut self) {
        // ORDER: Release pairs with the Acquire in `Clock::wait`.
        self.0.store(u64::MAX, Ordering::Release);
    }
}

impl Clock {
    /// Makes a clock that stands at `begin`, in nanoseconds.
    pub fn new(begin: u64) -> Clock {
        Clock { begin, now: AtomicU64::new(begin), done: AtomicBool::new(false) }
    }

    /// Waits until the recording has come to `due`; returns how far it has come.
    pub fn wait(&self, due: u64) -> u64 {
        loop {
            // ORDER: Acquire pairs with the Release in `run` and `Stopped`: rows up to this time have been executed.
            match self.now.load(Ordering::Acquire) {
                u64::MAX => return due,
                now if now >= due => return now,
                _ => std::thread::yield_now(),
            }
        }
    }

    /// Lets `until` execute the recording on this thread, `pace` times as fast as it was recorded, until `requests`, which run
    /// on another, have all been made.
    ///
    /// # Panics
    /// If one of the two panics.
    pub fn run<T: Send>(
        &self,
        pace: f64,
        mut until: impl FnMut(u64),
        requests: impl FnOnce() -> T + Send,
    ) -> (T, Lag) {
        std::thread::scope(|scope| {
            let other = scope.spawn(|| {
                let _done = Done(&self.done);
                requests()
            });
            let (start, mut now, mut lag) = (Instant::now(), self.begin, Lag::default());
            let stopped = Stopped(&self.now);
            // ORDER: Acquire pairs with the Release in `Done`.
            while !self.done.load(Ordering::Acquire) {
                let target = self.begin + (start.elapsed().as_nanos() as f64 * pace) as u64;
                lag.last_ns = target.saturating_sub(now);
                lag.most_ns = lag.most_ns.max(lag.last_ns);
                if target <= now {
                    std::thread::sleep(Duration::from_nanos(SLICE_NS));
                    continue;
                }
                now = target.min(now + SLICE_NS);
                until(now);
                // ORDER: Release pairs with the Acquire in `wait`.
                self.now.store(now, Ordering::Release);
            }
            drop(stopped);
            let made = other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            (made, lag)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_request_is_made_before_it_is_due_and_the_recording_goes_on_meanwhile() {
        let clock = Clock::new(1_000);
        let mut executed = Vec::new();
        let (times, _) = clock.run(
            100.0,
            |now| executed.push(now),
            || (1..=50).map(|n| (n * 30_000, clock.wait(n * 30_000))).collect::<Vec<_>>(),
        );
        assert!(times.iter().all(|(due, now)| now >= due), "{times:?}");
        assert!(
            executed.windows(2).all(|w| w[0] < w[1] && w[1] - w[0] <= SLICE_NS),
            "in slices, and never back"
        );
        assert!(executed.last() >= Some(&1_500_000));
    }

    #[test]
    fn a_panic_on_either_side_reaches_the_caller_and_leaves_no_thread_waiting() {
        for panics_in_load in [true, false] {
            let clock = Clock::new(0);
            let run = std::panic::AssertUnwindSafe(|| {
                clock.run(
                    1.0,
                    |_| assert!(!panics_in_load),
                    || assert!(panics_in_load && clock.wait(u64::MAX - 1) > 0),
                )
            });
            assert!(std::panic::catch_unwind(run).is_err());
        }
    }
}
