//! The pageblocks that a CPU works on.
//!
//! Each CPU works on a few pageblocks of each type, its current ones. Those are on no bin of the index, so taking
//! frames from them and giving some back writes nothing that CPUs share; other CPUs find them through the CPU's slots,
//! when no bin has anything. While nothing runs, every pageblock marked as current has a slot that names it: the thread
//! that marks one then puts it into a slot, and the thread that takes it out unmarks it. (A slot can name a pageblock
//! that is not marked, which is on a bin.)
//!
//! A pageblock whose last frame is freed on the CPU that works on it stays current: see [`emptied`](super::emptied).

use super::pageblocks::Pageblocks;
use crate::engine::geometry::{BlockIdx, FrameIdx, LINE_WORDS, WORD_ORDER};
use crate::engine::map::count::FrameDelta;
use crate::engine::map::descriptor::BlockState;
use crate::engine::map::frame_map::masks_of;
use pageyard_core::migratetype::Migratetype;
use pageyard_core::units::{CpuId, Order};
use pageyard_sync::{A64, Relaxed, SeqCst};

/// Pageblocks of a type that a CPU works on: a list that swings between empty and full writes no index, as long as what
/// moves lies in no more than these.
pub(super) const SLOTS: usize = if cfg!(pageyard_loom) { 1 } else { 4 };
/// Slots of a CPU, whole cache lines.
pub(crate) const SLOTS_OF_CPU: usize = (Migratetype::COUNT * SLOTS).next_multiple_of(LINE_WORDS);

/// The CPU that releases frames, as far as it matters to their pageblock.
#[derive(Clone, Copy)]
pub(crate) struct By<'a> {
    /// The CPU: its current pageblock stays current when its last frame is freed.
    pub(crate) cpu: Option<CpuId>,
    /// A slot of that CPU with nothing in it, and the type that it is for.
    pub(crate) slot: Option<(Migratetype, &'a A64)>,
}

impl By<'_> {
    /// No CPU that goes on working on the pageblock.
    pub(crate) const NONE: By<'static> = By { cpu: None, slot: None };

    /// A CPU.
    #[inline(always)]
    pub(crate) const fn cpu(cpu: CpuId) -> By<'static> {
        By { cpu: Some(cpu), slot: None }
    }

    /// Returns whether the CPU works on a pageblock.
    #[cold]
    pub(super) fn works_on(&self, zone: &Pageblocks<'_>, block: BlockIdx, ty: Migratetype) -> bool {
        self.cpu.is_some_and(|cpu| zone.works_on(cpu, ty, block))
    }
}

impl Pageblocks<'_> {
    /// Claims one block of an order below a pageblock's from what a CPU works on, where no bin of the index is
    /// concerned: the usual case, in two locked instructions up to a word's order. Its frames are still to be taken off
    /// the count of free ones. Where there is none, [`Pageblocks::claim`] finds out why.
    #[inline(always)]
    pub(crate) fn claim_here(&self, cpu: CpuId, ty: Migratetype, order: Order) -> Option<FrameIdx> {
        for slot in self.slots(cpu, ty) {
            let Some(block) = named(slot) else { continue };
            // On no bin before and after, so there is no bin to settle.
            if self.frames.update(block, |s| s.claim_in_place(order, ty, true)).is_none() {
                continue;
            }
            return self.take_here::<false>(block, order);
        }
        self.claim_emptied_here(cpu, ty, order)
    }

    /// Takes a block that was reserved in a pageblock that the CPU works on, which was `WHOLE` before.
    #[inline(always)]
    pub(super) fn take_here<const WHOLE: bool>(&self, block: BlockIdx, order: Order) -> Option<FrameIdx> {
        if order.get() > WORD_ORDER {
            return self.take_words_here(block, order);
        }
        let Some(took) = self.frames.claim_one::<WHOLE>(block, order) else {
            return self.take_any_here(block, order);
        };
        // Read after the bits were taken: another claim may have lowered the hint, or a free brought frames that hold
        // zeros.
        let state = self.frames.state(block);
        let first = took.first(block);
        let spoils = took.breaks(order, state.hint()) && !self.frames.keeps_hint(first, state.hint());
        if spoils || (order > Order::ZERO && state.has_zero()) {
            return self.end_claim(block, order, Some(first), false);
        }
        Some(first)
    }

    /// Takes a block of at most a word's order, which is reserved, from any word.
    #[cold]
    #[inline(never)]
    fn take_any_here(&self, block: BlockIdx, order: Order) -> Option<FrameIdx> {
        let took = self.frames.claim_one_of_any(block, order);
        self.end_claim(block, order, took.map(|took| took.first(block)), false)
    }

    /// Takes the words of a block that is larger than one, and reserved.
    #[inline(never)]
    fn take_words_here(&self, block: BlockIdx, order: Order) -> Option<FrameIdx> {
        let mut returned_bits = false;
        let took = self.frames.claim_words(block, order, &mut returned_bits);
        // As in `take_here`.
        let state = self.frames.state(block);
        if let Some(first) = took
            && !returned_bits
            && !state.has_zero()
            && self.frames.other_half_is_free(first)
        {
            return Some(first);
        }
        self.end_claim(block, order, took, returned_bits)
    }

    /// Ends such a claim where the hint may be too large now, where zeros are to be noted, or where it found nothing.
    /// `returned_bits` says whether bits were given back.
    #[inline(never)]
    fn end_claim(
        &self,
        block: BlockIdx,
        order: Order,
        took: Option<FrameIdx>,
        returned_bits: bool,
    ) -> Option<FrameIdx> {
        if took.is_none() {
            let mut claimed = FrameDelta::claimed(1 << order.get());
            claimed += self.return_reserved(block, 1 << order.get());
            self.free.add(claimed);
        } else if returned_bits {
            self.free.add(self.return_reserved(block, 0));
        }
        let hint = self.frames.correct_hint(block);
        self.index.moved(&self.frames, block, hint.old, hint.new);
        let first = took?;
        if order > Order::ZERO && hint.new.has_zero() {
            self.settle_zero(block, &masks_of(first.offset(), order), order, false);
        }
        Some(first)
    }

    /// Returns whether at most a sixteenth of the zone is free: then CPUs share pageblocks, which costs both of them,
    /// rather than break ones that are free as a whole.
    pub(super) fn is_nearly_full(&self) -> bool {
        self.free_above(self.span.managed.0 / 16, 1) == 0
    }

    pub(super) fn cpus(&self) -> usize {
        self.current.len() / SLOTS_OF_CPU
    }

    pub(super) fn cpu_ids(&self) -> impl Iterator<Item = CpuId> {
        (0..self.cpus() as u32).map(CpuId)
    }

    /// Returns the slots of the pageblocks of a type that a CPU works on.
    #[inline(always)]
    pub(super) fn slots(&self, cpu: CpuId, ty: Migratetype) -> &[A64] {
        &self.current[cpu.index() * SLOTS_OF_CPU + ty.index() * SLOTS..][..SLOTS]
    }

    /// Returns all slots of a CPU.
    pub(super) fn all_slots(&self, cpu: CpuId) -> &[A64] {
        &self.current[cpu.index() * SLOTS_OF_CPU..][..SLOTS_OF_CPU]
    }

    /// Returns whether searches find a current pageblock, which they do while nothing runs: a slot under its type names
    /// it, and if it is an emptied one, the CPU's bit is set.
    pub(crate) fn is_found(&self, block: BlockIdx, state: BlockState) -> bool {
        let mut cpus = self.cpu_ids().filter(|cpu| self.works_on(*cpu, state.migratetype(), block));
        cpus.any(|cpu| !state.is_emptied() || self.may_have_emptied(cpu))
    }

    /// Returns whether a CPU works on a pageblock under this type.
    #[inline]
    pub(super) fn works_on(&self, cpu: CpuId, ty: Migratetype, block: BlockIdx) -> bool {
        self.slots(cpu, ty).iter().any(|slot| named(slot) == Some(block))
    }

    /// Returns a slot that names no pageblock that the CPU works on, or one whose pageblock has nothing left.
    ///
    /// The latter comes first where the zone is nearly full: what is freed in that pageblock is then on a bin, for all
    /// CPUs. Elsewhere it comes last: a batch that uses up several pageblocks finds them again when it has freed them.
    pub(crate) fn vacant(&self, cpu: CpuId, ty: Migratetype) -> Option<&A64> {
        let (mut empty, mut used_up) = (None, None);
        for slot in self.slots(cpu, ty) {
            let state = named(slot).map(|block| self.frames.state(block));
            match state.filter(|state| state.is_current() && state.has_type(ty)) {
                None => empty = empty.or(Some(slot)),
                Some(state) if state.free() == 0 => used_up = used_up.or(Some(slot)),
                Some(_) => {}
            }
        }
        if used_up.is_some() && self.is_nearly_full() { used_up } else { empty.or(used_up) }
    }

    /// Puts a pageblock, which the caller has marked, into a slot, and lets go of the one before.
    pub(super) fn work_on(&self, slot: &A64, block: BlockIdx) {
        // ORDER: SeqCst: the thread that takes this one out of the slot unmarks it after it was marked here; and before
        // this CPU looks at its bit in `note_emptied`.
        let before = slot.swap(block.get() as u64 + 1, SeqCst) as usize;
        if before != block.get() + 1
            && let Some(before) = before.checked_sub(1).map(BlockIdx::new)
            && let Some(change) =
                self.frames.update(before, |s| s.is_current().then(|| s.with_current(false)))
        {
            self.index.moved(&self.frames, before, change.old, change.new);
        }
    }
}

/// Returns the pageblock that a slot names: a hint; the descriptor decides.
#[inline]
pub(super) fn named(slot: &A64) -> Option<BlockIdx> {
    // ORDER: Relaxed: a hint.
    (slot.load(Relaxed) as usize).checked_sub(1).map(BlockIdx::new)
}
