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

/// Measures by how much the clock steps, in nanoseconds: the least time between two readings that differ. Where a step
/// is shorter than a reading takes, that is what a reading takes.
pub(crate) fn clock_step() -> u64 {
    const STEPS: usize = 1000;
    let step = || {
        let start = now_ns();
        std::iter::repeat_with(now_ns).map(|now| now.saturating_sub(start)).find(|step| *step > 0)
    };
    (0..STEPS).filter_map(|_| step()).min().unwrap_or(1)
}

/// Returns nanoseconds of processor time that the calling thread has had.
pub(crate) fn thread_ns() -> u64 {
    let t = clock_gettime(ClockId::ThreadCPUTime);
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_steps_and_by_less_than_a_benchmark_takes() {
        assert!((1..100_000_000).contains(&clock_step()), "{}", clock_step());
    }
}
