//! The clock that calls of an allocator are timed with: the processor's counter, where it has one.

use std::hint::black_box;
use std::time::{Duration, Instant};

/// Reads the clock, in ticks; what was begun before has ended.
#[inline(always)]
pub fn ticks() -> u64 {
    #[cfg(target_arch = "x86_64")]
    {
        // SAFETY: every x86-64 processor has both instructions.
        unsafe {
            core::arch::x86_64::_mm_lfence();
            core::arch::x86_64::_rdtsc()
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        use std::sync::LazyLock;
        static BEGAN: LazyLock<Instant> = LazyLock::new(Instant::now);
        BEGAN.elapsed().as_nanos() as u64
    }
}

/// The clock's rate and its own cost.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    /// Ticks in a nanosecond.
    pub ticks_per_ns: f64,
    /// Ticks between two readings with nothing in between: the median of many.
    pub cost: u64,
}

impl Clock {
    /// Measures the clock: its rate over 50 ms, and what reading it twice costs.
    pub fn measure() -> Clock {
        let (began, first) = (Instant::now(), ticks());
        std::thread::sleep(Duration::from_millis(50));
        let passed = ticks().wrapping_sub(first) as f64;
        let ticks_per_ns = passed / began.elapsed().as_nanos().max(1) as f64;
        let mut costs: Vec<u64> = (0..10_001)
            .map(|_| {
                let before = black_box(ticks());
                black_box(ticks()).wrapping_sub(before)
            })
            .collect();
        costs.sort_unstable();
        Clock { ticks_per_ns, cost: costs[costs.len() / 2] }
    }

    /// Returns how many ticks a time has.
    pub fn ticks_of(&self, time: Duration) -> u64 {
        (time.as_nanos() as f64 * self.ticks_per_ns) as u64
    }
}
