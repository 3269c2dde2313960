//! Two threads that share a clock: one repeats a recording, the other makes requests when they are due.
//!
//! While no request is served, the recording goes on to the time at which the next one is due. While one is served, it
//! goes on beside it, by as much as the request's processor time comes to, times a stated pace. So what a request meets
//! depends on how much work it does, and not on what else the machine is busy with.
#![allow(unsafe_code, reason = "the standard library cannot read another thread's processor time")]

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The recording goes on by at most this much at a time, so that the other thread's requests come when they are due.
const SLICE_NS: u64 = 20_000;

/// How far a recording fell behind a request that was being served, because its thread had to wait for a processor.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Lag {
    /// At most, in nanoseconds of the recording. It catches up before the next request.
    pub most_ns: u64,
}

/// A thread's processor time, which other threads can read.
#[derive(Clone, Copy)]
struct ThreadClock(libc::clockid_t);

impl ThreadClock {
    fn of_this_thread() -> ThreadClock {
        let mut clock = 0;
        // SAFETY: the calling thread exists, and `clock` can be written.
        match unsafe { libc::pthread_getcpuclockid(libc::pthread_self(), &mut clock) } {
            0 => ThreadClock(clock),
            _ => ThreadClock(libc::CLOCK_MONOTONIC),
        }
    }

    /// Returns nanoseconds; 0 if the thread has ended.
    fn ns(self) -> u64 {
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: `time` can be written; a clock that is gone is an error and not a fault.
        match unsafe { libc::clock_gettime(self.0, &mut time) } {
            0 => time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64,
            _ => 0,
        }
    }
}

/// The state of the thread that makes the requests.
#[derive(Clone, Copy)]
enum State {
    /// It waits until the recording has come to this time.
    Waiting(u64),
    /// It serves a request that began when the recording was at `from`, and the thread's own clock at `since`.
    Serving { from: u64, clock: ThreadClock, since: u64 },
    /// It has made all of them.
    Done,
}

/// The recording's time, and how far it may go.
pub(super) struct Clock {
    pace: f64,
    now: AtomicU64,
    state: Mutex<State>,
}

/// Says that the requests are over, also where they end in a panic.
struct Done<'a>(&'a Clock);

impl Drop for Done<'_> {
    fn drop(&mut self) {
        *self.0.state() = State::Done;
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
    /// Makes a clock that stands at `begin`, in nanoseconds. `pace` nanoseconds of the recording pass in one of a
    /// request's.
    pub fn new(begin: u64, pace: f64) -> Clock {
        Clock { pace, now: AtomicU64::new(begin), state: Mutex::new(State::Waiting(begin)) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns how far the recording may go, or none if the requests are over.
    fn target(&self) -> Option<u64> {
        match *self.state() {
            State::Waiting(until) => Some(until),
            State::Serving { from, clock, since } => Some(from + self.passed(clock, since)),
            State::Done => None,
        }
    }

    fn passed(&self, clock: ThreadClock, since: u64) -> u64 {
        (clock.ns().saturating_sub(since) as f64 * self.pace) as u64
    }

    /// Ends the request that was being served, waits until the next one is due and the recording has come so far, and
    /// returns how far it has come.
    pub fn wait(&self, due: u64) -> u64 {
        let until = self.target().unwrap_or(0).max(due);
        *self.state() = State::Waiting(until);
        let now = loop {
            // ORDER: Acquire pairs with the Release in `run` and `Stopped`: rows up to this time have been executed.
            match self.now.load(Ordering::Acquire) {
                u64::MAX => break until,
                now if now >= until => break now,
                _ => std::thread::yield_now(),
            }
        };
        let clock = ThreadClock::of_this_thread();
        *self.state() = State::Serving { from: now, clock, since: clock.ns() };
        now
    }

    /// Lets `until` execute the recording on this thread, as far as `requests`, which run on another, let it; until all
    /// of these have been made.
    ///
    /// # Panics
    /// If one of the two panics.
    pub fn run<T: Send>(&self, mut until: impl FnMut(u64), requests: impl FnOnce() -> T + Send) -> (T, Lag) {
        std::thread::scope(|scope| {
            let other = scope.spawn(|| {
                let _done = Done(self);
                requests()
            });
            // ORDER: Relaxed: only this thread writes it.
            let (mut now, mut lag) = (self.now.load(Ordering::Relaxed), Lag::default());
            let stopped = Stopped(&self.now);
            while let Some(target) = self.target() {
                if target <= now {
                    std::thread::yield_now();
                    continue;
                }
                if matches!(*self.state(), State::Serving { .. }) {
                    lag.most_ns = lag.most_ns.max(target - now);
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
    use std::hint::black_box;

    #[test]
    fn no_request_is_made_before_it_is_due_and_the_recording_goes_on_while_one_is_served() {
        let clock = Clock::new(1_000, 100.0);
        let mut executed = Vec::new();
        let served = || {
            let mut times = Vec::new();
            for n in 1..=50 {
                times.push((n * 30_000, clock.wait(n * 30_000)));
                (0..10_000u64).for_each(|i| _ = black_box(i));
            }
            times
        };
        let (times, _) = clock.run(|now| executed.push(now), served);
        assert!(times.iter().all(|(due, now)| now >= due), "{times:?}");
        assert!(
            executed.windows(2).all(|w| w[0] < w[1] && w[1] - w[0] <= SLICE_NS),
            "in slices, and never back"
        );
        let late = times.iter().filter(|(due, now)| now > &(due + 30_000)).count();
        assert!(late > 10, "requests take more time at this pace than there is between them: {late}");
    }

    #[test]
    fn a_request_that_takes_no_time_leaves_the_recording_where_it_is() {
        let clock = Clock::new(0, 0.0);
        let (times, lag) = clock.run(|_| (), || [10, 20, 20].map(|due| clock.wait(due)));
        assert_eq!((times, lag), ([10, 20, 20], Lag::default()));
    }

    #[test]
    fn a_panic_on_either_side_reaches_the_caller_and_leaves_no_thread_waiting() {
        for panics_in_load in [true, false] {
            let clock = Clock::new(0, 1.0);
            let run = std::panic::AssertUnwindSafe(|| {
                clock.run(|_| assert!(!panics_in_load), || assert!(panics_in_load && clock.wait(1 << 40) > 0))
            });
            assert!(std::panic::catch_unwind(run).is_err());
        }
    }
}
