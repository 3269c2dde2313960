//! The count of a zone's free frames: a sum, and what each CPU has not added to it yet, each on its own cache line.

use crate::engine::geometry::LINE_WORDS;
use crate::engine::sync::{A64, Carver, Relaxed, SeqCst};
use crate::units::{CpuId, Frames};

/// What all CPUs together may keep from the sum: the zone's frames divided by this.
const KEPT: u64 = if cfg!(loom) { u64::MAX } else { 64 };
/// The most frames that one CPU keeps from it.
const MOST: u64 = 1 << 16;
/// Times that a count is read again because frames moved to the sum meanwhile.
const TRIES: usize = 8;

/// By how many frames a count changes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct FrameDelta(i64);

impl FrameDelta {
    /// No change.
    pub(crate) const ZERO: FrameDelta = FrameDelta(0);

    /// Makes the change from one number of frames to another.
    #[inline(always)]
    pub(crate) fn between(old: u32, new: u32) -> FrameDelta {
        FrameDelta(i64::from(new) - i64::from(old))
    }

    /// Returns what to add to a word that wraps around.
    #[inline(always)]
    pub(crate) fn wrapping(self) -> u64 {
        self.0 as u64
    }
}

impl core::ops::AddAssign for FrameDelta {
    #[inline(always)]
    fn add_assign(&mut self, other: FrameDelta) {
        self.0 += other.0;
    }
}

/// A count that CPUs change without meeting each other.
///
/// # Concurrency
/// Exact while nothing runs. While frames are in transit it can be off by their number, and too high by what one CPU
/// keeps for each CPU that is adding its share to the sum.
///
/// # Linux
/// `zone_page_state`, `zone_page_state_snapshot` and `percpu_drift_mark`.
pub(crate) struct FreeCount<'m> {
    sum: &'m [A64],
    kept: &'m [A64],
    /// Frames that a CPU keeps at most.
    most: u64,
}

// ORDER: SeqCst where what is kept and the sum are changed and read together: the order of the two writes is what makes
// a reading that finds one of them find too much rather than too little. Relaxed elsewhere: a count orders nothing.
impl<'m> FreeCount<'m> {
    /// Carves the count of a zone.
    pub(crate) fn carve(carver: &mut Carver<'m>, managed: Frames, cpus: usize) -> FreeCount<'m> {
        FreeCount {
            sum: carver.zeroed(LINE_WORDS),
            kept: carver.zeroed(cpus * LINE_WORDS),
            most: (managed.0 / KEPT / cpus as u64).min(MOST),
        }
    }

    /// Sets the count, before the zone is published.
    pub(crate) fn set(&self, frames: Frames) {
        self.sum[0].store(frames.0, Relaxed);
    }

    /// Adds frames on behalf of a CPU.
    #[inline]
    pub(crate) fn add(&self, cpu: CpuId, delta: FrameDelta) {
        let FrameDelta(n) = delta;
        if n == 0 {
            return;
        }
        if self.most == 0 {
            self.sum[0].fetch_add(n as u64, Relaxed);
            return;
        }
        let kept = &self.kept[cpu.index() * LINE_WORDS];
        let now = kept.fetch_add(n as u64, SeqCst).wrapping_add(n as u64) as i64;
        if now.unsigned_abs() > self.most {
            // Frames in transit are counted twice rather than not at all: too low a count would refuse a request for
            // frames that have long been free.
            if now > 0 {
                self.sum[0].fetch_add(now as u64, SeqCst);
                kept.fetch_add(now.wrapping_neg() as u64, SeqCst);
            } else {
                kept.fetch_add(now.wrapping_neg() as u64, SeqCst);
                self.sum[0].fetch_add(now as u64, SeqCst);
            }
        }
    }

    /// Returns the count. While some frames have not arrived it can be below zero, which counts as none.
    pub(crate) fn get(&self) -> u64 {
        let mut sum = self.sum[0].load(SeqCst);
        if self.most == 0 {
            return (sum as i64).max(0) as u64;
        }
        let mut largest = i64::MIN;
        for _ in 0..TRIES {
            // By hand: the compiler's code for an iterator with steps costs a walk over eight zones up to 6 % more.
            let (mut kept, mut at) = (0u64, 0);
            while let Some(one) = self.kept.get(at) {
                kept = kept.wrapping_add(one.load(SeqCst));
                at += LINE_WORDS;
            }
            largest = largest.max(sum.wrapping_add(kept) as i64);
            // A sum that stayed the same belongs to what was kept meanwhile.
            let now = self.sum[0].load(SeqCst);
            if now == sum {
                return (sum.wrapping_add(kept) as i64).max(0) as u64;
            }
            sum = now;
        }
        largest.max(0) as u64
    }

    /// Returns how many frames there are above `mark`: all of them, or, where `enough` are there for sure, no fewer than
    /// that, from the sum alone.
    #[inline]
    pub(crate) fn above(&self, mark: u64, enough: u64) -> u64 {
        let drift = self.most * (self.kept.len() / LINE_WORDS) as u64;
        let sure = (self.sum[0].load(Relaxed) as i64).max(0) as u64;
        let sure = sure.saturating_sub(drift).saturating_sub(mark);
        if sure >= enough { sure } else { self.get().saturating_sub(mark) }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn what_cpus_keep_counts_and_is_never_taken_for_more_than_it_is() {
        let mut memory = [0u8; 1024];
        let mut carver = Carver::of(&mut memory);
        let count = FreeCount::carve(&mut carver, Frames(2048), 2);
        assert!(carver.fits() && count.most == 16);
        count.set(Frames(2048));
        let mut is = 2048;
        for (cpu, n) in [(0, -16), (1, -16), (0, -1), (1, 32), (1, -500), (0, 7)] {
            count.add(CpuId(cpu), FrameDelta(n));
            is += n;
            assert_eq!(count.get(), is as u64);
            for mark in [0, 1500, is as u64 - 10, is as u64, 5000] {
                for enough in [0, 1, 8, 11, 4000] {
                    let above = count.above(mark, enough);
                    let all = (is as u64).saturating_sub(mark);
                    assert!(above <= all && (above == all || above >= enough), "{above} of {all}");
                }
            }
        }
    }
}
