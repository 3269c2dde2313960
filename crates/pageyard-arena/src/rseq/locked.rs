//! The cost of a locked instruction on this machine: whether avoiding it pays.

use std::hint::black_box;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, Ordering::AcqRel, Ordering::Relaxed};
use std::time::Instant;

/// Nanoseconds from which it is dear: between the 3 of Zen 3, where a biased pair was measured to be dearer, and the
/// 4.9 of Zen 5, where it takes 0.57 to 0.75 times as long.
const DEAR_NS: f64 = 4.0;
/// Compare-and-swaps of a sample, and samples, of which the fastest counts: 0.2 ms at most, once a process.
const TIMES: u32 = 4096;
const SAMPLES: u32 = 9;

/// Returns whether a locked instruction is so dear on this machine that a free is cheaper without one, on its own CPU:
/// [`BiasedRseq`] or [`Rseq`](super::Rseq). It times one, once a process, 0.2 ms at most; the answer stays the same.
///
/// Measured on Zen 4 and Zen 3, where one takes 2.3 and 3 ns: a biased pair is 5 % dearer on the one, and up to 22 % on
/// the other. On Zen 5 one takes 4.9 ns, and a biased pair is 25 to 43 % cheaper.
///
/// [`BiasedRseq`]: super::BiasedRseq
#[must_use]
pub fn bias_pays() -> bool {
    static DEAR: OnceLock<bool> = OnceLock::new();
    *DEAR.get_or_init(|| nanoseconds() >= DEAR_NS)
}

fn nanoseconds() -> f64 {
    let tag = black_box(AtomicU8::new(0));
    let sample = |_| {
        let start = Instant::now();
        for n in 0..TIMES {
            // ORDER: as a free's check; only this thread uses it.
            let _ = black_box(tag.compare_exchange(n as u8 & 1, n as u8 & 1 ^ 1, AcqRel, Relaxed));
        }
        start.elapsed().as_nanos() as f64 / f64::from(TIMES)
    };
    (0..SAMPLES).map(sample).fold(f64::INFINITY, f64::min)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_locked_instruction_takes_time() {
        let taken = nanoseconds();
        assert!(taken > 0.0 && taken.is_finite(), "{taken} ns");
    }
}
