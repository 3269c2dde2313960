//! The clock that times samples. All processes on this machine read the same one.

use super::samples::Samples;
use rustix::time::{ClockId, clock_gettime};

/// Returns nanoseconds since the machine started. Reading it takes about 20 ns, and it steps by 10.
#[inline]
pub(crate) fn now_ns() -> u64 {
    let t = clock_gettime(ClockId::Monotonic);
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}

/// Measures what reading the clock costs, in nanoseconds.
pub(crate) fn clock_cost() -> f64 {
    const READS: u64 = 20_000;
    let costs: Vec<f64> = (0..15)
        .map(|_| {
            let start = now_ns();
            for _ in 0..READS {
                std::hint::black_box(now_ns());
            }
            (now_ns() - start) as f64 / READS as f64
        })
        .collect();
    Samples::new(costs).median()
}

/// Returns nanoseconds of processor time that the calling thread has had.
pub(crate) fn thread_ns() -> u64 {
    let t = clock_gettime(ClockId::ThreadCPUTime);
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}
