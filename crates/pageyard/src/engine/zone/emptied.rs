//! Emptied pageblocks: those that stayed current when the CPU that works on them freed their last frame.
//!
//! One serves its CPU where a whole pageblock would, and every request for a pageblock that finds none on a bin; a
//! request for a run that finds none puts them all back on their bins. Those requests find them by a word of bits that
//! says which CPUs may have one. A bit stays set until a search finds that its CPUs have none, so a CPU that empties
//! and fills a pageblock by turns only reads it.

use super::current::named;
use super::pageblocks::{Got, Pageblocks, Take, Want};
use crate::engine::geometry::{BlockIdx, FrameIdx};
use crate::engine::map::descriptor::BlockState;
use crate::engine::map::index::Bins;
use crate::engine::map::tree::{SearchEffort, follow};
use pageyard_core::migratetype::Migratetype;
use pageyard_core::units::{CpuId, Order};
use pageyard_sync::{A64, SeqCst, store_load_fence};

/// Bits of the word: CPUs that many apart share one.
const BITS: usize = 64;

impl Pageblocks<'_> {
    /// Claims a block as [`Pageblocks::claim_here`] does, from a pageblock that the CPU emptied.
    #[inline(never)]
    pub(super) fn claim_emptied_here(&self, cpu: CpuId, ty: Migratetype, order: Order) -> Option<FrameIdx> {
        let mut blocks = self.slots(cpu, ty).iter().filter_map(named);
        let block = blocks.find(|block| self.frames.state(*block).is_emptied())?;
        if !self.may_break_wholes(ty, order) {
            return None;
        }
        self.frames.update(block, |s| s.claim_in_place(order, ty, false))?;
        self.take_here::<true>(block, order)
    }

    /// Returns whether blocks of a type may come from pageblocks that are free as a whole: no other serves them, or
    /// the zone is not nearly full.
    #[inline]
    pub(super) fn may_break_wholes(&self, ty: Migratetype, order: Order) -> bool {
        !self.index.has(ty, Bins::fitting(order).partly_used()) || !self.is_nearly_full()
    }

    /// Claims a pageblock of type `from` that some CPU emptied.
    #[cold]
    pub(super) fn claim_emptied(
        &self,
        want: Want,
        from: Migratetype,
        how: Take,
        effort: &mut SearchEffort,
    ) -> Option<Got> {
        for bit in self.bits_with_emptied() {
            for block in self.cpus_of(bit).flat_map(|cpu| self.slots(cpu, from)).filter_map(named) {
                effort.step();
                let emptied = self.frames.state(block).is_emptied();
                if let Some(got) = emptied.then(|| self.claim_of(block, want, how, false)).flatten() {
                    return Some(got);
                }
            }
            self.settle_emptied(bit);
        }
        None
    }

    /// Returns whether some CPU has an emptied pageblock of a type.
    #[cfg(not(pageyard_loom))]
    pub(crate) fn has_emptied(&self, ty: Migratetype) -> bool {
        let emptied = |s: BlockState| s.is_emptied() && s.has_type(ty);
        let mut blocks = self
            .bits_with_emptied()
            .flat_map(|bit| self.cpus_of(bit))
            .flat_map(|cpu| self.slots(cpu, ty))
            .filter_map(named);
        blocks.any(|block| emptied(self.frames.state(block)))
    }

    /// Puts every emptied pageblock back on its bin, where runs of pageblocks are looked for. Returns whether there was
    /// one.
    #[cold]
    pub(super) fn let_go_of_emptied(&self) -> bool {
        let mut any = false;
        let let_go = |s: BlockState| s.is_emptied().then(|| s.with_current(false));
        for bit in self.bits_with_emptied() {
            for cpu in self.cpus_of(bit) {
                for block in self.all_slots(cpu).iter().filter_map(named) {
                    if let Some(change) = self.frames.update(block, let_go) {
                        self.index.moved(&self.frames, block, change.old, change.new);
                        any = true;
                    }
                }
            }
            self.settle_emptied(bit);
        }
        any
    }

    /// Notes that a CPU, one of whose slots names it, has just emptied a pageblock.
    #[inline(always)]
    pub(super) fn note_emptied(&self, cpu: CpuId) {
        // After the descriptor. A thread that clears the bit later reads the descriptors after that, and finds it.
        store_load_fence();
        if !self.may_have_emptied(cpu) {
            self.settle_emptied(cpu.index() % BITS);
        }
    }

    /// Returns whether searches look at a CPU's slots.
    #[inline(always)]
    pub(super) fn may_have_emptied(&self, cpu: CpuId) -> bool {
        // ORDER: SeqCst: see `follow`.
        self.emptied().load(SeqCst) >> (cpu.index() % BITS) & 1 != 0
    }

    /// Makes a bit say whether one of its CPUs has an emptied pageblock. One that is isolated or leased counts: it is
    /// one again when that ends.
    #[cold]
    fn settle_emptied(&self, bit: usize) {
        // ORDER: SeqCst, for slots as for descriptors: see `follow`.
        let named = |slot: &A64| (slot.load(SeqCst) as usize).checked_sub(1).map(BlockIdx::new);
        let fact = || {
            let mut blocks = self.cpus_of(bit).flat_map(|cpu| self.all_slots(cpu)).filter_map(named);
            blocks.any(|block| self.frames.state(block).is_emptied())
        };
        follow(self.emptied(), bit, fact, |_| ());
    }

    /// Returns the CPUs of a bit.
    fn cpus_of(&self, bit: usize) -> impl Iterator<Item = CpuId> + use<> {
        let (mut next, cpus) = (bit, self.cpus());
        core::iter::from_fn(move || {
            let cpu = (next < cpus).then_some(CpuId(next as u32))?;
            next += BITS;
            Some(cpu)
        })
    }

    /// Returns the bits that are set.
    fn bits_with_emptied(&self) -> impl Iterator<Item = usize> + use<> {
        // ORDER: SeqCst: see `follow`.
        let mut rest = self.emptied().load(SeqCst);
        core::iter::from_fn(move || {
            let bit = (rest != 0).then(|| rest.trailing_zeros())?;
            rest &= rest - 1;
            Some(bit as usize)
        })
    }
}
