//! Eight tags at once, where they lie in one aligned word.
//!
//! The processor reads and writes the word in one step. Callers may rely on no more than eight separate steps of one
//! tag each: loads, stores, or compare-and-swaps that may fail spuriously. On a target without a known instruction for
//! this, and under a checker that looks at each tag, [`Eight`] is unavailable and callers go tag by tag.

use crate::atomics::A8;

/// Tags in a word.
pub const EIGHT: usize = 8;

/// Whether the target has such an instruction.
pub const AT_ONCE: bool = cfg!(any(
    pageyard_shuttle,
    all(target_arch = "x86_64", not(any(pageyard_loom, miri, feature = "step-hook")))
));

/// Eight tags in one word.
#[derive(Clone, Copy)]
pub struct Eight<'m>(
    #[cfg_attr(
        any(not(target_arch = "x86_64"), pageyard_loom, pageyard_shuttle),
        allow(dead_code, reason = "there is none")
    )]
    &'m [A8; EIGHT],
);

impl<'m> Eight<'m> {
    /// Returns the tags from `first`, a multiple of eight. Tags begin at a cache line.
    #[must_use]
    #[inline(always)]
    pub fn at(tags: &'m [A8], first: usize) -> Option<Eight<'m>> {
        debug_assert!(first.is_multiple_of(EIGHT) && (tags.as_ptr() as usize).is_multiple_of(EIGHT));
        if AT_ONCE { tags.get(first..)?.first_chunk().map(Eight) } else { None }
    }

    /// [`Eight::at`], without looking how many tags there are.
    ///
    /// # Safety
    /// There are tags from `first`, a multiple of eight, to the seventh after it.
    #[inline(always)]
    pub unsafe fn at_unchecked(tags: &'m [A8], first: usize) -> Option<Eight<'m>> {
        debug_assert!(first.is_multiple_of(EIGHT) && first + EIGHT <= tags.len());
        // SAFETY: the caller's promise.
        AT_ONCE.then(|| Eight(unsafe { &*tags.as_ptr().add(first).cast() }))
    }

    /// Replaces all eight by a compare-and-swap if all are `from`. Returns whether they were.
    #[inline(always)]
    #[cfg(all(target_arch = "x86_64", not(any(pageyard_loom, pageyard_shuttle, miri))))]
    pub fn swap(self, from: u8, to: u8) -> bool {
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
    pub fn replace(self, from: u8, to: u8) -> bool {
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

    /// Replaces those that have all bits in `which`, where others have none, by a compare-and-swap if all of them are
    /// `from`. Returns whether it did: the failure may be another's, of which a byte changed meanwhile.
    #[must_use]
    #[inline(always)]
    #[cfg(all(target_arch = "x86_64", not(any(pageyard_loom, pageyard_shuttle, miri))))]
    pub fn swap_some(self, which: u64, from: u8, to: u8) -> bool {
        let tags = self.0.as_ptr();
        let (now, was): (u64, u64);
        // SAFETY: as in `swap`.
        unsafe {
            core::arch::asm!("mov {now}, qword ptr [{tags}]", tags = in(reg) tags, now = out(reg) now,
                options(nostack, readonly, preserves_flags));
        }
        if (now ^ u64::from_ne_bytes([from; EIGHT])) & which != 0 {
            return false;
        }
        let new = now & !which | u64::from_ne_bytes([to; EIGHT]) & which;
        // SAFETY: as in `swap`. ORDER: as there.
        unsafe {
            core::arch::asm!("lock cmpxchg qword ptr [{tags}], {new}", tags = in(reg) tags, new = in(reg) new,
                inout("rax") now => was, options(nostack));
        }
        was == now
    }

    /// Model version of the above: one step of the scheduler.
    #[cfg(pageyard_shuttle)]
    pub fn swap(self, from: u8, to: u8) -> bool {
        self.swap_if(from, to, || true).unwrap_or(false)
    }

    /// Model version of the above.
    #[cfg(pageyard_shuttle)]
    pub fn swap_some(self, which: u64, from: u8, to: u8) -> bool {
        let is_one = |nth: usize| which.to_ne_bytes()[nth] != 0;
        let swap = |nth, now| if !is_one(nth) { Some(now) } else { (now == from).then_some(to) };
        A8::update_all_if(self.0, || true, swap).unwrap_or(false)
    }

    /// Model version of the above: a swap, because no other thread writes.
    #[cfg(pageyard_shuttle)]
    pub fn replace(self, from: u8, to: u8) -> bool {
        self.swap(from, to)
    }

    /// Swaps as above if `last`, asked in the same step, allows it; `None` if it refuses.
    #[cfg(pageyard_shuttle)]
    pub fn swap_if(self, from: u8, to: u8, last: impl Fn() -> bool) -> Option<bool> {
        A8::update_all_if(self.0, last, |_, now| (now == from).then_some(to))
    }

    /// Writes all eight if `last`, asked in the same step, allows it. Returns whether it did.
    #[cfg(pageyard_shuttle)]
    pub fn write_if(self, to: u8, last: impl FnOnce() -> bool) -> bool {
        A8::update_all_if(self.0, last, |_, _| Some(to)).is_some()
    }

    /// Returns whether all are `from`, in one step.
    #[cfg(pageyard_shuttle)]
    pub fn are(self, from: u8) -> bool {
        A8::update_all_if(self.0, || true, |_, now| (now == from).then_some(from)).unwrap_or(false)
    }

    /// Refuses: the target has no such instruction.
    #[cfg(not(any(pageyard_shuttle, all(target_arch = "x86_64", not(any(pageyard_loom, miri))))))]
    pub fn swap(self, _: u8, _: u8) -> bool {
        false
    }

    /// Refuses: the target has no such instruction.
    #[cfg(not(any(pageyard_shuttle, all(target_arch = "x86_64", not(any(pageyard_loom, miri))))))]
    pub fn replace(self, _: u8, _: u8) -> bool {
        false
    }

    /// Refuses: the target has no such instruction.
    #[cfg(not(any(pageyard_shuttle, all(target_arch = "x86_64", not(any(pageyard_loom, miri))))))]
    pub fn swap_some(self, _: u64, _: u8, _: u8) -> bool {
        false
    }
}

#[cfg(all(test, not(any(pageyard_loom, pageyard_shuttle))))]
mod tests {
    use super::*;
    use crate::Carver;
    use core::sync::atomic::Ordering::Relaxed;

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
        let (last_two, two_others) = (0xffff << 48, 0xff_00ff);
        assert!(!eight.swap_some(last_two, 5, 7) && bytes()[8..16] == [5, 5, 5, 5, 5, 5, 5, 6]);
        assert!(eight.swap_some(two_others, 5, 7) && bytes()[8..16] == [7, 5, 7, 5, 5, 5, 5, 6]);
        assert!(!eight.swap_some(two_others, 5, 7) && eight.swap_some(two_others, 7, 5));
        tags[15].store(5, Relaxed);
        assert!(eight.replace(5, 9) && bytes()[8..16] == [9; 8] && bytes()[16] == 0);
        assert!(Eight::at(tags, 24).is_none());
    }
}
