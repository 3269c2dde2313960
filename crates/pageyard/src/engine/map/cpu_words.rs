//! A word for each CPU, which only that CPU adds to, and a shared word after them. The count is the sum of all.
//!
//! A CPU adds to its own word without a locked instruction, if calls on one CPU never overlap, or in a restartable
//! sequence.

use pageyard_core::units::CpuId;
use pageyard_sync::{A64, Acquire, Relaxed, Release};

/// A group of words for each CPU, and one that all CPUs share after them.
#[derive(Clone, Copy)]
pub(crate) struct CpuGroups<'m> {
    words: &'m [A64],
    each: usize,
    /// Bytes of each.
    step: usize,
    cpus: u32,
}

impl<'m> CpuGroups<'m> {
    /// Divides words into groups of `each`: one for every CPU, and the last.
    pub(crate) fn of(words: &'m [A64], each: usize) -> CpuGroups<'m> {
        let cpus = (words.len() / each).saturating_sub(1) as u32;
        CpuGroups { words, each, step: each * size_of::<A64>(), cpus }
    }

    /// Returns how many CPUs have a group.
    #[inline(always)]
    pub(crate) fn cpus(&self) -> u32 {
        self.cpus
    }

    /// Selects the word at `at` of every group.
    #[inline(always)]
    pub(crate) fn at(&self, at: usize) -> CpuWords<'_> {
        CpuWords { groups: self, at }
    }
}

/// A word of each CPU's group, and of the group that all CPUs share. Passed in two registers.
#[derive(Clone, Copy)]
pub struct CpuWords<'m> {
    groups: &'m CpuGroups<'m>,
    at: usize,
}

/// Their addresses, for a [`PerCpu`](crate::PerCpu) that is written in assembly.
#[derive(Clone, Copy, Debug)]
pub struct RawCpuWords {
    /// The word of CPU 0.
    pub first: *const u64,
    /// Bytes from one CPU's to the next one's.
    pub each: usize,
    /// How many CPUs have one.
    pub cpus: u32,
}

impl<'m> CpuWords<'m> {
    #[inline(always)]
    fn of(self, cpu: CpuId) -> Option<&'m A64> {
        let CpuGroups { words, each, cpus, .. } = *self.groups;
        if cpu.0 < cpus { words.get(cpu.index() * each + self.at) } else { None }
    }

    /// Returns their addresses.
    #[inline(always)]
    #[must_use]
    pub fn raw(self) -> RawCpuWords {
        let CpuGroups { words, step, cpus, .. } = *self.groups;
        RawCpuWords { first: words.as_ptr().wrapping_add(self.at).cast(), each: step, cpus }
    }

    /// Adds to a CPU's word by a locked instruction, safe against any other call, and returns the new value. Adds to
    /// the shared word if the CPU does not exist.
    #[must_use]
    pub fn add_locked(self, cpu: CpuId, n: u64) -> Option<u64> {
        let Some(word) = self.of(cpu) else {
            self.add_shared(n);
            return None;
        };
        // ORDER: Release pairs with the Acquire in `CpuWords::sum`.
        Some(word.fetch_add(n, Release).wrapping_add(n))
    }

    /// Adds without a locked instruction: no other call may add to that CPU's word meanwhile. If one does, a count is
    /// lost, and debug assertions panic.
    #[inline(always)]
    #[must_use]
    pub fn add_alone(self, cpu: CpuId, n: u64) -> Option<u64> {
        let Some(word) = self.of(cpu) else {
            self.add_shared(n);
            return None;
        };
        // ORDER: Relaxed: only this call writes it.
        Some(write_alone(word, word.load(Relaxed), n, cpu))
    }

    /// Adds to the shared word.
    pub fn add_shared(self, n: u64) {
        if let Some(word) = self.shared() {
            // ORDER: Release, as in `add_locked`.
            word.fetch_add(n, Release);
        }
    }

    fn shared(self) -> Option<&'m A64> {
        self.groups.words.get(self.groups.cpus as usize * self.groups.each + self.at)
    }

    /// Returns the sum of all.
    pub(crate) fn sum(self) -> u64 {
        // ORDER: Acquire pairs with the Release of the additions.
        let of = |words: &[A64]| words[self.at].load(Acquire);
        self.groups.words.chunks_exact(self.groups.each).map(of).fold(0, u64::wrapping_add)
    }

    /// Adds to a CPU's word in two steps, for a modelled [`PerCpu`](crate::PerCpu): reads it, then writes it if `last`,
    /// asked in the same step, allows it. Returns the new value, or `None` if nothing was added.
    #[cfg(pageyard_shuttle)]
    pub fn add_if(self, cpu: CpuId, n: u64, last: impl Fn() -> bool) -> Option<u64> {
        let word = self.of(cpu)?;
        // ORDER: Relaxed: the model is of steps, which shuttle takes one after the other.
        let now = word.load(Relaxed).wrapping_add(n);
        // Not what is there now is added to: an addition that came in between would be lost.
        word.update_if(|_| last().then_some(now)).ok().map(|_| now)
    }
}

/// Writes a CPU's word that was read as `was`, and returns its new value.
#[inline(always)]
fn write_alone(word: &A64, was: u64, n: u64, cpu: CpuId) -> u64 {
    let now = was.wrapping_add(n);
    // ORDER: Release, as in `CpuWords::add_locked`; Relaxed where it failed and nothing is read.
    if cfg!(debug_assertions) {
        let alone = word.compare_exchange(was, now, Release, Relaxed).is_ok();
        assert!(
            alone,
            "two calls that are both on CPU {cpu} overlap, which their `PerCpu` was promised not to happen"
        );
    } else {
        word.store(now, Release);
    }
    now
}

#[cfg(all(test, debug_assertions, not(any(pageyard_loom, pageyard_shuttle))))]
mod tests {
    extern crate std;

    use super::*;
    use std::panic::catch_unwind;

    /// Under `Exclusive` and `Alone` that loses counts, which nothing else would notice.
    #[test]
    fn two_calls_at_once_that_add_for_one_cpu_are_noticed() {
        let words = [A64::new(0), A64::new(0)];
        let groups = CpuGroups::of(&words, 1);
        assert_eq!(groups.at(0).add_alone(CpuId(0), 2), Some(2));
        // Another call adds between the read of this one and its write.
        let was = words[0].load(Relaxed);
        assert_eq!(groups.at(0).add_alone(CpuId(0), 1), Some(3));
        let panic = catch_unwind(|| write_alone(&words[0], was, 1, CpuId(0))).unwrap_err();
        assert!(panic.downcast_ref::<std::string::String>().unwrap().contains("on CPU 0 overlap"));
        assert_eq!(words[0].load(Relaxed), 3);
    }
}
