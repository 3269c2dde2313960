//! The memory of a zone's per-CPU lists, by CPU, and how a CPU's lists are taken away from it.

use super::list::{END, FIELD, Head, List};
use super::tuning::{LISTS, ListIdx, MOST_WHOLES, Tuning};
use crate::engine::geometry::{BATCH, BLOCK_ORDER};
use core::mem::size_of;
use core::ptr::NonNull;
use pageyard_core::units::CpuId;
use pageyard_sync::{A64, APtr, Carver, Relaxed, Release, SeqCst};

/// The per-CPU lists of a zone.
///
/// Lists trust their users: overlapping changes to one list, or a wrong list number, lead to arbitrary memory. So only
/// an implementation of [`PerCpu`](crate::PerCpu), which is `unsafe` to write, gets them, or the maker of `LooseLists`
/// (feature `percpu-impl`), also `unsafe`.
#[derive(Clone, Copy)]
pub struct CpuLists<'a>(&'a Lists<'a>);

impl<'a> CpuLists<'a> {
    /// Returns how many blocks of a list a drain takes at a time: 64, or 16 pageblocks. A kill loses at most that many.
    #[must_use]
    pub const fn drained_at_once(list: ListIdx) -> usize {
        if list.order().get() == BLOCK_ORDER && MOST_WHOLES < BATCH { MOST_WHOLES } else { BATCH }
    }

    /// Returns one list of one CPU, or `None` where there is no such CPU.
    #[inline(always)]
    #[must_use]
    pub fn get(self, cpu: CpuId, list: ListIdx) -> Option<List<'a>> {
        if cpu.0 >= self.0.cpus {
            return None;
        }
        let head = NonNull::new(self.0.header(cpu.index() * LISTS + list.get()).cast_mut())?;
        // SAFETY: there is such a header, because this CPU uses lists, and its memory was carved from what the pointer
        //         leads to.
        Some(unsafe { List::of(head) })
    }

    /// Returns where they lie.
    #[inline(always)]
    #[must_use]
    pub fn raw(self) -> RawLists {
        RawLists { slots: self.0.slots.as_ptr().cast(), cpus: self.0.cpus }
    }

    /// Points a CPU's slot to lists that are always both empty and full. Returns whether the caller now owns the CPU's
    /// lists, to empty and to [`attach`](CpuLists::attach).
    ///
    /// A thread that reads the slot afterwards finds nothing to take and no room; a thread that read it before may
    /// still use the lists.
    ///
    /// `process` identifies the calling process. A process forked while some thread had the lists has a copy of the
    /// slot that says so, but no such thread: there, the first caller takes them over.
    #[must_use]
    pub fn detach(self, cpu: CpuId, process: u64) -> bool {
        let (Some(slot), Some(by)) = (self.0.slots.get(cpu.index()), self.0.detached_by.get(cpu.index()))
        else {
            return false;
        };
        let [own, nobody] = [cpu.index(), self.0.slots.len()].map(|cpu| self.0.header(cpu * LISTS).cast());
        // ORDER: SeqCst, all of them. The thread that detaches wrote its process first: a slot found detached, and then
        // by another process, is held by no thread here.
        let before = by.load(SeqCst);
        if slot.load(SeqCst) == nobody && by.load(SeqCst) == before && before != process {
            return by.compare_exchange(before, process, SeqCst, SeqCst).is_ok();
        }
        if before != process {
            // Another thread of this process may write the same, or take the lists over in between.
            let _ = by.compare_exchange(before, process, SeqCst, SeqCst);
        }
        // The fence that the caller issues next follows it.
        slot.replace(own, nobody, SeqCst)
    }

    /// Points a CPU's slot to its lists again, after [`detach`](CpuLists::detach).
    pub fn attach(self, cpu: CpuId) {
        if let Some(slot) = self.0.slots.get(cpu.index()) {
            // ORDER: Release: a thread that finds the lists again finds them as they were left.
            slot.store(self.0.header(cpu.index() * LISTS).cast(), Release);
        }
    }
}

/// Where the lists of a zone lie, for a [`PerCpu`](crate::engine::PerCpu) that is written in assembly.
///
/// A CPU's slot points to the header of its first list; the header of list *n* lies `n * HEAD` bytes further on. The
/// constants are offsets in a header.
#[derive(Clone, Copy, Debug)]
pub struct RawLists {
    /// The slot of each CPU.
    pub slots: *const *const u8,
    /// How many CPUs there are.
    pub cpus: u32,
}

impl RawLists {
    /// Bytes of a header.
    pub const HEAD: usize = size_of::<Head<'_>>();
    /// A `u64`: from the lowest bits on, how many items can be added, how many there are, [`FIELD`](RawLists::FIELD)
    /// bits each, how many `u32` from the header on the newest item ends, [`END`](RawLists::END) bits, and how many
    /// were popped for callers.
    pub const WORD: usize = core::mem::offset_of!(Head<'_>, word);
    /// Bits of each of the two lowest fields of the word.
    pub const FIELD: u32 = FIELD;
    /// Bits of the next one.
    pub const END: u32 = END;
    /// A `u32`: how many `u32` from the header on the places of items begin.
    pub const START: usize = core::mem::offset_of!(Head<'_>, start);
    /// A `u32`: how many places there are: twice `HIGH`, and some.
    pub const PLACES: usize = core::mem::offset_of!(Head<'_>, places);
    /// A `u32`: how many items make the list full.
    pub const HIGH: usize = core::mem::offset_of!(Head<'_>, high);
    /// A `u64`: items popped for callers that the word does not count.
    pub const POPPED: usize = core::mem::offset_of!(Head<'_>, popped);
    /// A `u64`: items that came from the zone.
    pub const REFILLED: usize = core::mem::offset_of!(Head<'_>, refilled);
    /// A `u64`: items that went to the zone.
    pub const SPILLED: usize = core::mem::offset_of!(Head<'_>, spilled);
}

#[cfg(not(any(pageyard_loom, pageyard_shuttle)))]
const _: () = assert!(RawLists::HEAD == 64 && RawLists::WORD == 0 && super::list::STEP == 1);

/// The lists of a zone, and how large they grow.
pub(crate) struct Lists<'m> {
    heads: &'m [Head<'m>],
    slots: &'m [APtr<u8>],
    /// CPUs that use lists: none where no list holds anything.
    cpus: u32,
    /// For each slot, who detached it last: a number of its process.
    detached_by: &'m [A64],
    /// Where the headers begin, as a pointer that also leads to the items after them.
    first: APtr<u8>,
    pub(crate) tuning: Tuning,
}

impl<'m> Lists<'m> {
    /// Carves the lists of `cpus` CPUs.
    pub(crate) fn carve(carver: &mut Carver<'m>, cpus: usize, tuning: Tuning) -> Lists<'m> {
        // A sentinel past the last CPU: its lists have no room.
        let heads = carver.filled((cpus + 1) * LISTS, |i, carver| {
            let list = ListIdx::of_head(i);
            let (order, exists) = (list.order(), i < cpus * LISTS && list.is_requested());
            let (places, high) = if exists { (tuning.places(order), tuning.high_of(order)) } else { (0, 0) };
            Head::new(carver.zeroed(places), high)
        });
        let first: *const Head<'m> = carver.reach(heads);
        let slots = carver.filled(cpus, |cpu, _| APtr::new(first.wrapping_add(cpu * LISTS).cast()));
        let detached_by = carver.zeroed(cpus);
        let used = if tuning == Tuning::NONE { 0 } else { cpus as u32 };
        let lists = Lists { heads, slots, cpus: used, detached_by, first: APtr::new(first.cast()), tuning };
        for i in (0..heads.len()).filter(|i| heads[*i].places > 0) {
            if let Some(list) = lists.nth(i) {
                list.open();
            }
        }
        lists
    }

    /// Returns the lists of all CPUs.
    #[inline(always)]
    pub(crate) fn all(&self) -> CpuLists<'_> {
        CpuLists(self)
    }

    /// Returns one list of one CPU.
    pub(crate) fn get(&self, cpu: CpuId, list: ListIdx) -> List<'_> {
        self.nth(cpu.index() * LISTS + list.get()).expect("the CPU exists")
    }

    /// Empties all lists while nothing else runs, and gives each back to its CPU; returns how many frames they held.
    #[cfg(not(pageyard_loom))]
    pub(crate) fn reset(&self) -> u64 {
        for cpu in 0..self.slots.len() as u32 {
            self.all().attach(CpuId(cpu));
        }
        // ORDER: Relaxed: nothing else runs.
        self.detached_by.iter().for_each(|by| by.store(0, Relaxed));
        let real = (0..self.heads.len()).filter(|i| self.heads[*i].places > 0);
        real.map(|i| self.nth(i).map_or(0, |list| (list.reset() as u64) << ListIdx::of_head(i).order().get()))
            .sum()
    }

    /// Returns where the `i`th header lies.
    #[inline(always)]
    fn header(&self, i: usize) -> *const Head<'m> {
        // ORDER: Relaxed: it never changes.
        self.first.load(Relaxed).cast::<Head<'m>>().wrapping_add(i)
    }

    /// Returns the `i`th of all CPUs' lists.
    #[inline(always)]
    fn nth(&self, i: usize) -> Option<List<'_>> {
        let head = NonNull::new(self.header(i).cast_mut()).filter(|_| i < self.heads.len())?;
        // SAFETY: there is such a header, and its memory was carved from what the pointer leads to.
        Some(unsafe { List::of(head) })
    }
}

#[cfg(all(test, not(pageyard_loom)))]
mod tests {
    use super::super::list::Pushed;
    use super::*;

    #[test]
    fn a_list_is_newest_first_for_callers_and_oldest_first_for_the_zone() {
        let mut memory = [0u8; 64 * 1024];
        let mut carver = Carver::of(&mut memory);
        let lists = Lists::carve(&mut carver, 2, Tuning { high: 40, batch: 8 });
        assert!(carver.fits());
        let list = lists.get(CpuId(1), ListIdx::of_head(0));
        for lap in 0..50 {
            assert_eq!(list.refill(&[1, 2, 3, 4]), 4);
            assert_eq!(list.push(5, || true), Pushed::Kept);
            let mut out = [0; 2];
            assert_eq!(list.pop_oldest(&mut out), 2);
            assert_eq!(out, [1, 2], "lap {lap}");
            assert_eq!(list.pop(), Some(5));
            assert_eq!(list.pop_many(&mut out), 2);
            assert_eq!(out, [3, 4]);
            assert!(list.is_empty() && list.pop().is_none());
        }
        assert_eq!(list.traffic(), (150, 50));
        for i in 0..40 {
            assert_eq!(list.push(i, || false), Pushed::Lost);
            assert_eq!(list.push(i, || true), Pushed::Kept);
        }
        assert_eq!(list.push(40, || unreachable!()), Pushed::NoRoom);
        assert_eq!(list.extend(&[1]), 0);
        assert!(lists.get(CpuId(0), ListIdx::of_head(0)).is_empty());
    }

    #[test]
    fn a_list_at_its_memorys_end_moves_back_with_its_items_in_order() {
        let mut memory = [0u8; 64 * 1024];
        let mut carver = Carver::of(&mut memory);
        let lists = Lists::carve(&mut carver, 1, Tuning { high: 40, batch: 8 });
        let list = lists.get(CpuId(0), ListIdx::of_head(0));
        let (mut next, mut oldest) = (0, 0);
        for _ in 0..1000 {
            while list.push(next, || true) == Pushed::Kept {
                next += 1;
            }
            let mut out = [0; 3];
            assert_eq!(list.pop_oldest(&mut out), 3);
            assert_eq!(out, [oldest, oldest + 1, oldest + 2]);
            oldest += 3;
            assert_eq!(list.len() as u32, next - oldest);
        }
    }

    #[test]
    fn what_callers_gave_is_no_huge_number_while_a_refill_is_under_way() {
        let mut memory = [0u8; 64 * 1024];
        let mut carver = Carver::of(&mut memory);
        let lists = Lists::carve(&mut carver, 1, Tuning { high: 40, batch: 8 });
        let list = lists.get(CpuId(0), ListIdx::of_head(0));
        assert_eq!(list.push(7, || true), Pushed::Kept);
        // What a reader sees that read the items before a refill, and the count of items from the zone after it.
        lists.heads[0].refilled.store(8, Relaxed);
        assert_eq!(list.traffic(), (0, 0));
    }

    #[test]
    fn a_slot_that_was_detached_when_the_process_forked_is_taken_over_once() {
        let mut memory = [0u8; 64 * 1024];
        let mut carver = Carver::of(&mut memory);
        let lists = Lists::carve(&mut carver, 1, Tuning { high: 40, batch: 8 });
        let (all, cpu) = (lists.all(), CpuId(0));
        assert!(all.detach(cpu, 1), "by a thread that the child does not have");
        assert!(!all.detach(cpu, 1));
        assert!(all.detach(cpu, 2) && !all.detach(cpu, 2));
        all.attach(cpu);
        assert!(all.detach(cpu, 2));
    }

    #[test]
    fn a_detached_slot_leads_to_lists_that_are_empty_and_full() {
        let mut memory = [0u8; 64 * 1024];
        let mut carver = Carver::of(&mut memory);
        let lists = Lists::carve(&mut carver, 2, Tuning { high: 40, batch: 8 });
        let slot = || lists.slots[1].load(Relaxed);
        assert_eq!(slot(), (&raw const lists.heads[LISTS]).cast());
        assert!(
            lists.all().detach(CpuId(1), 7)
                && !lists.all().detach(CpuId(1), 7)
                && !lists.all().detach(CpuId(2), 7)
        );
        for list in 0..LISTS {
            let nobody = (slot() as usize - lists.heads.as_ptr() as usize) / RawLists::HEAD;
            let list = lists.nth(nobody + list).unwrap();
            assert_eq!((list.pop(), list.push(1, || true)), (None, Pushed::NoRoom));
        }
        lists.all().attach(CpuId(1));
        assert_eq!(slot(), (&raw const lists.heads[LISTS]).cast());
    }
}
