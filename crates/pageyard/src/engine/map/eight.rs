//! Eight tags at once, where they lie in one aligned word.
//!
//! The processor reads and writes the word in one step. Callers may rely on no more than eight separate steps of one
//! tag each: loads, stores, or compare-and-swaps that may fail spuriously. On a target without a known instruction for
//! this, and under a checker that looks at each tag, [`Eight`] is unavailable and callers go tag by tag.

use crate::engine::geometry::FrameIdx;
use pageyard_sync::A8;

/// Tags in a word.
pub(crate) const EIGHT: usize = 8;

/// Whether the target has such an instruction.
pub(crate) const AT_ONCE: bool = cfg!(any(
    pageyard_shuttle,
    all(target_arch = "x86_64", not(any(pageyard_loom, miri, feature = "step-hook")))
));

/// Eight tags in one word.
#[derive(Clone, Copy)]
pub(crate) struct Eight<'m>(
    #[cfg_attr(
        any(not(target_arch = "x86_64"), pageyard_loom, pageyard_shuttle),
        allow(dead_code, reason = "there is none")
    )]
    &'m [A8; EIGHT],
);

impl<'m> Eight<'m> {
    /// Returns the tags from `first`, a multiple of eight. Tags begin at a cache line.
    #[inline(always)]
    pub(crate) fn at(tags: &'m [A8], first: usize) -> Option<Eight<'m>> {
        debug_assert!(first.is_multiple_of(EIGHT) && (tags.as_ptr() as usize).is_multiple_of(EIGHT));
        if AT_ONCE { tags.get(first..)?.first_chunk().map(Eight) } else { None }
    }

    /// Replaces all eight by a compare-and-swap if all are `from`. Returns whether they were.
    #[inline(always)]
    #[cfg(all(target_arch = "x86_64", not(any(pageyard_loom, pageyard_shuttle, miri))))]
    pub(crate) fn swap(self, from: u8, to: u8) -> bool {
        let from = u64::from_ne_bytes([from; EIGHT]);
        let was: u64;
        // SAFETY: it reads and writes eight bytes that are borrowed, aligned, and allow changes through shared
        //         references. Other threads use single ones of them, by instructions of their own, which the processor
        //         orders with this one. ORDER: the instruction is a full barrier, so as AcqRel in `FrameMap::win`.
        unsafe {
            core::arch::asm!(
                "lock cmpxchg qword ptr [{tags}], {to}",
                tags = in(reg) self.0.as_ptr(),
                to = in(reg) u64::from_ne_bytes([to; EIGHT]),
                inout("rax") from => was,
                options(nostack),
            );
        }
        was == from
    }

    /// Replaces all eight by a load and a store if all are `from`, while no other thread writes one. Returns whether
    /// they were.
    #[inline(always)]
    #[cfg(all(target_arch = "x86_64", not(any(pageyard_loom, pageyard_shuttle, miri))))]
    pub(crate) fn replace(self, from: u8, to: u8) -> bool {
        let tags = self.0.as_ptr();
        let now: u64;
        // SAFETY: as in `swap`.
        unsafe {
            core::arch::asm!("mov {now}, qword ptr [{tags}]", tags = in(reg) tags, now = out(reg) now,
                options(nostack, readonly, preserves_flags));
        }
        if now != u64::from_ne_bytes([from; EIGHT]) {
            return false;
        }
        let to = u64::from_ne_bytes([to; EIGHT]);
        // SAFETY: as in `swap`.
        // ORDER: a store of this processor is a release one, as in `FrameMap::set_tag`.
        unsafe {
            core::arch::asm!("mov qword ptr [{tags}], {to}", tags = in(reg) tags, to = in(reg) to,
                options(nostack, preserves_flags));
        }
        true
    }

    /// Model version of the above: one step of the scheduler.
    #[cfg(pageyard_shuttle)]
    pub(crate) fn swap(self, from: u8, to: u8) -> bool {
        self.swap_if(from, to, || true).unwrap_or(false)
    }

    #[cfg(pageyard_shuttle)]
    pub(crate) fn replace(self, from: u8, to: u8) -> bool {
        self.swap(from, to)
    }

    /// Swaps as above if `last`, asked in the same step, allows it; `None` if it refuses.
    #[cfg(pageyard_shuttle)]
    pub(crate) fn swap_if(self, from: u8, to: u8, last: impl Fn() -> bool) -> Option<bool> {
        A8::update_all_if(self.0, last, |now| (now == from).then_some(to))
    }

    /// Writes all eight if `last`, asked in the same step, allows it. Returns whether it did.
    #[cfg(pageyard_shuttle)]
    pub(crate) fn write_if(self, to: u8, last: impl FnOnce() -> bool) -> bool {
        A8::update_all_if(self.0, last, |_| Some(to)).is_some()
    }

    /// Returns whether all are `from`, in one step.
    #[cfg(pageyard_shuttle)]
    pub(crate) fn are(self, from: u8) -> bool {
        A8::update_all_if(self.0, || true, |now| (now == from).then_some(from)).unwrap_or(false)
    }

    #[cfg(not(any(pageyard_shuttle, all(target_arch = "x86_64", not(any(pageyard_loom, miri))))))]
    pub(crate) fn swap(self, _: u8, _: u8) -> bool {
        false
    }

    #[cfg(not(any(pageyard_shuttle, all(target_arch = "x86_64", not(any(pageyard_loom, miri))))))]
    pub(crate) fn replace(self, _: u8, _: u8) -> bool {
        false
    }
}

/// Returns the lowest of eight frames (numbered by `frame`) if they are neighbours, ascending or descending, whose tags
/// share one word.
#[inline(always)]
pub(crate) fn lowest_of(frame: impl Fn(usize) -> u64) -> Option<u64> {
    let first = frame(0);
    let up = first & 1 == 0;
    let (lowest, step) = if up { (first, 1) } else { (frame(EIGHT - 1), u64::MAX) };
    let mut in_a_row = begins_eight(first);
    for i in 1..EIGHT {
        in_a_row &= frame(i) == first.wrapping_add(step.wrapping_mul(i as u64));
    }
    in_a_row.then_some(lowest)
}

/// Returns whether a frame's tag is the first of a word of eight.
#[inline(always)]
pub(crate) fn begins_word(frame: FrameIdx) -> bool {
    AT_ONCE && frame.get().is_multiple_of(EIGHT)
}

/// Returns whether a frame can be at either end of such a run: three frames of four are neither the first nor the last
/// of a word.
#[inline(always)]
pub(crate) fn begins_eight(frame: u64) -> bool {
    AT_ONCE && frame.wrapping_add(1) & 6 == 0
}

#[cfg(all(test, not(any(pageyard_loom, pageyard_shuttle))))]
mod tests {
    use super::*;
    use pageyard_sync::{Carver, Relaxed};

    #[test]
    fn neighbours_are_seen_in_both_directions_and_nothing_else_is_taken_for_them() {
        let row = |first: u64, step: u64| -> [u64; EIGHT] {
            core::array::from_fn(|i| first.wrapping_add(step.wrapping_mul(i as u64)))
        };
        let down = u64::MAX;
        if AT_ONCE {
            assert_eq!(lowest_of(|i| row(16, 1)[i]), Some(16));
            assert_eq!(lowest_of(|i| row(23, down)[i]), Some(16));
        }
        assert_eq!(lowest_of(|i| row(17, 1)[i]), None, "in two words");
        assert_eq!(lowest_of(|i| row(22, down)[i]), None, "in two words");
        assert_eq!(lowest_of(|i| row(16, 0)[i]), None);
        assert_eq!(lowest_of(|i| row(16, down)[i]), None);
        for (i, wrong) in (0..EIGHT).flat_map(|i| [(i, 16 + (i as u64 ^ 1)), (i, u64::MAX)]) {
            let mut eight = row(16, 1);
            eight[i] = wrong;
            assert_eq!(lowest_of(|i| eight[i]), None, "{eight:?}");
        }
    }

    #[test]
    fn eight_are_replaced_together_or_not_at_all() {
        let mut memory = [0u8; 256];
        let mut carver = Carver::of(&mut memory);
        let tags: &[A8] = carver.zeroed(24);
        let bytes = || -> [u8; 24] { core::array::from_fn(|i| tags[i].load(Relaxed)) };
        let Some(eight) = Eight::at(tags, 8) else { return };
        assert!(!eight.swap(1, 2) && !eight.replace(1, 2) && bytes() == [0; 24]);
        assert!(eight.swap(0, 5));
        assert_eq!((&bytes()[..8], &bytes()[8..16], &bytes()[16..]), (&[0; 8][..], &[5; 8][..], &[0; 8][..]));
        tags[15].store(6, Relaxed);
        assert!(!eight.swap(5, 2) && !eight.replace(5, 2));
        tags[15].store(5, Relaxed);
        assert!(eight.replace(5, 9) && bytes()[8..16] == [9; 8] && bytes()[16] == 0);
        assert!(Eight::at(tags, 24).is_none());
    }
}
