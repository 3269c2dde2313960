//! The count of a zone's free frames: a sum, and each CPU's changes not yet added to it, each on its own cache line.

use super::cpu_words::{CpuGroups, CpuWords};
use crate::engine::geometry::LINE_WORDS;
use pageyard_core::units::Frames;
use pageyard_sync::{A64, Acquire, Carver, Relaxed, Release};

/// The frames that all CPUs together may withhold from the sum: the zone's frames divided by this.
const KEPT: u64 = if cfg!(pageyard_loom) { u64::MAX } else { 64 };
/// The most frames that one CPU withholds.
const MOST: u64 = 1 << 16;
/// Times that a count is read again because frames moved to the sum meanwhile.
const TRIES: usize = 8;

/// A change of a count, in frames.
#[must_use]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct FrameDelta(i64);

impl FrameDelta {
    /// No change.
    pub(crate) const ZERO: FrameDelta = FrameDelta(0);

    /// Makes the change where so many frames were claimed.
    #[inline(always)]
    pub(crate) fn claimed(n: u32) -> FrameDelta {
        FrameDelta(-i64::from(n))
    }

    /// Makes the change where so many frames were released.
    #[inline(always)]
    pub(crate) fn released(n: u32) -> FrameDelta {
        FrameDelta(i64::from(n))
    }

    /// Makes the change from one number of frames to another.
    #[inline(always)]
    pub(crate) fn between(old: u32, new: u32) -> FrameDelta {
        FrameDelta(i64::from(new) - i64::from(old))
    }

    /// Returns the value to add to a word that wraps around.
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

/// A count that CPUs change without sharing a cache line.
///
/// # Concurrency
/// Exact while nothing runs. While frames are in transit it can be off by their number, and too high by what one CPU
/// keeps for each CPU that is adding its share to the sum.
///
/// # Linux
/// `zone_page_state`, `zone_page_state_snapshot` and `percpu_drift_mark`.
pub(crate) struct FreeCount<'m> {
    /// Each CPU's withheld change, a line each, then the sum.
    words: CpuGroups<'m>,
    /// The first of these parts, and the second.
    kept: &'m [A64],
    sum: &'m [A64],
    /// The most frames that a CPU withholds.
    most: u64,
}

// ORDER: Release where what is kept and the sum are changed one after the other, and Acquire where they are read: a
// reading that finds the second change finds the first one too, and so too much rather than too little; unless other
// CPUs' changes bring the sum back to what it was, or frames move from a CPU that is yet to be read to one that was:
// then one reading is off by those in transit. Relaxed elsewhere: a count orders nothing.
impl<'m> FreeCount<'m> {
    /// Carves the count of a zone.
    pub(crate) fn carve(carver: &mut Carver<'m>, managed: Frames, cpus: usize) -> FreeCount<'m> {
        let words = carver.zeroed((cpus + 1) * LINE_WORDS);
        let (kept, sum) = words.split_at(words.len().saturating_sub(LINE_WORDS));
        FreeCount {
            words: CpuGroups::of(words, LINE_WORDS),
            kept,
            sum,
            most: (managed.0 / KEPT / cpus as u64).min(MOST),
        }
    }

    /// Sets the count, before the zone is published.
    pub(crate) fn set(&self, frames: Frames) {
        self.sum[0].store(frames.0, Relaxed);
    }

    /// Sets it while nothing else runs, and discards the CPUs' withheld changes.
    #[cfg(not(pageyard_loom))]
    pub(crate) fn reset(&self, frames: Frames) {
        self.kept.iter().for_each(|word| word.store(0, Relaxed));
        self.set(frames);
    }

    /// Adds frames to the sum.
    #[inline]
    pub(crate) fn add(&self, FrameDelta(n): FrameDelta) {
        if n != 0 {
            self.sum[0].fetch_add(n as u64, Release);
        }
    }

    /// Returns the words of what CPUs withhold, to which a change is added on a CPU; `None` where they withhold
    /// nothing, and every change goes to the sum.
    #[inline(always)]
    pub(crate) fn withheld(&self) -> Option<CpuWords<'_>> {
        if self.most > 0 { Some(self.words.at(0)) } else { None }
    }

    /// Returns whether a CPU withholds too much: it then has to be [folded](FreeCount::fold).
    #[inline(always)]
    pub(crate) fn is_too_much(&self, withheld: u64) -> bool {
        withheld.wrapping_add(self.most) > 2 * self.most
    }

    /// Moves a CPU's withheld frames to the sum. `own` adds to the CPU's word and returns the new value, or adds to the
    /// word that CPUs share.
    pub(crate) fn fold(&self, now: u64, kept: CpuWords<'_>, own: impl Fn(CpuWords<'_>, u64) -> Option<u64>) {
        // Frames in transit are counted twice rather than not at all: too low a count would refuse a request for
        // frames that have long been free. Which CPU's word they leave is all the same; where the thread has moved
        // meanwhile, that one may keep too much then, and is next.
        let mut now = now as i64;
        for _ in 0..TRIES {
            let left = if now > 0 {
                self.sum[0].fetch_add(now as u64, Release);
                own(kept, now.wrapping_neg() as u64)
            } else {
                let left = own(kept, now.wrapping_neg() as u64);
                self.sum[0].fetch_add(now as u64, Release);
                left
            };
            match left {
                Some(left) if self.is_too_much(left) => now = left as i64,
                _ => return,
            }
        }
    }

    /// Returns the count. Frames in transit can make it negative, which counts as zero.
    pub(crate) fn get(&self) -> u64 {
        let mut sum = self.sum[0].load(Acquire);
        if self.most == 0 {
            return (sum as i64).max(0) as u64;
        }
        let mut largest = i64::MIN;
        for _ in 0..TRIES {
            // By hand: the compiler's code for an iterator with steps costs a walk over eight zones up to 6 % more.
            let (mut kept, mut at) = (0u64, 0);
            while let Some(one) = self.kept.get(at) {
                kept = kept.wrapping_add(one.load(Acquire));
                at += LINE_WORDS;
            }
            largest = largest.max(sum.wrapping_add(kept) as i64);
            // A sum that stayed the same belongs to what was kept meanwhile.
            let now = self.sum[0].load(Acquire);
            if now == sum {
                return (sum.wrapping_add(kept) as i64).max(0) as u64;
            }
            sum = now;
        }
        largest.max(0) as u64
    }

    /// Returns how many frames there are above `mark`: exactly, or, if at least `enough` are certain from the sum
    /// alone, a lower bound of at least `enough`.
    #[inline(always)]
    pub(crate) fn above(&self, mark: u64, enough: u64) -> u64 {
        let drift = self.most * u64::from(self.words.cpus());
        let sure = (self.sum[0].load(Relaxed) as i64).max(0) as u64;
        let sure = sure.saturating_sub(drift).saturating_sub(mark);
        if sure >= enough { sure } else { self.get().saturating_sub(mark) }
    }
}

#[cfg(all(test, not(pageyard_loom)))]
mod tests {
    use super::*;
    use pageyard_core::units::CpuId;

    #[test]
    fn what_cpus_keep_counts_and_is_never_taken_for_more_than_it_is() {
        let mut memory = [0u8; 1024];
        let mut carver = Carver::of(&mut memory);
        let count = FreeCount::carve(&mut carver, Frames(2048), 2);
        assert!(carver.fits() && count.most == 16);
        count.set(Frames(2048));
        let mut is = 2048;
        for (cpu, n) in [(0, -16), (1, -16), (0, -1), (1, 32), (1, 40), (1, -500), (0, 7)] {
            let words = count.withheld().expect("two CPUs withhold up to 16 frames");
            if let Some(now) = words.add_locked(CpuId(cpu), n as u64)
                && count.is_too_much(now)
            {
                count.fold(now, words, |words, n| words.add_locked(CpuId(cpu), n));
            }
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

    #[test]
    fn a_cpu_withholds_its_share_and_no_more() {
        let mut memory = [0u8; 1024];
        let count = FreeCount::carve(&mut Carver::of(&mut memory), Frames(2048), 2);
        let is = |n: i64| count.is_too_much(n as u64);
        assert_eq!([-17, -16, 0, 16, 17].map(is), [true, false, false, false, true]);
    }
}
