//! Claims from a zone, for blocks up to a pageblock: from the pageblocks that a CPU [works on](super::current), or from
//! the fullest that fits.

use super::current::{By, SLOTS, named};
use super::pageblocks::{CPU_ALIGN, Got, Pageblocks, Take, Want};
use crate::engine::geometry::{BLOCK_FRAMES, BLOCK_ORDER, BlockIdx, FrameIdx, PAGEBLOCK, WORD_ORDER, WORDS};
use crate::engine::map::count::FrameDelta;
use crate::engine::map::descriptor::BlockState;
use crate::engine::map::frame_map::{Change, Masks, Took, masks_of};
use crate::engine::map::index::Bins;
use crate::engine::map::tag::Tag;
use crate::engine::map::tree::SearchEffort;
use pageyard_core::migratetype::Migratetype;
use pageyard_core::units::{CpuId, Order};

/// Times that a claim follows the index to a pageblock that turns out to serve nothing, before a sweep.
const CLAIM_TRIES: usize = 16;

/// A CPU keeps working on a pageblock that it gives frames back to only while no more than these are free: emptier ones
/// are left to become whole.
const MOST_FREE: u32 = BLOCK_FRAMES / 2;

impl Pageblocks<'_> {
    /// Claims blocks of the wanted type: from the CPU's current pageblock, or from the fullest that fits.
    pub(crate) fn claim(&self, want: Want, effort: &mut SearchEffort) -> Option<Got> {
        let parts = want.order < PAGEBLOCK;
        if parts {
            let mut emptied = None;
            for block in self.slots(want.cpu, want.ty).iter().filter_map(named) {
                effort.step();
                let state = self.frames.state(block);
                if state.is_emptied() {
                    emptied = Some(block);
                } else if state.serves(want.order)
                    && let Some(got) = self.claim_of(block, want, Take::Same, false)
                {
                    return Some(got);
                }
            }
            if let Some(block) = emptied
                && self.may_break_wholes(want.ty, want.order)
                && let Some(got) = self.claim_of(block, want, Take::Same, false)
            {
                return Some(got);
            }
        }
        let start = self.start_of(want.cpu);
        let bins = Bins::fitting(want.order);
        // Its own part of the zone comes first: pageblocks that CPUs share cost all of them. Only in a zone that is
        // nearly full are pageblocks spared that are free as a whole, until no CPU has others.
        let part = start..BlockIdx::new(start.get() + self.frames.len() / self.cpus().next_power_of_two());
        let near_bins = if self.is_nearly_full() { bins.partly_used() } else { bins };
        let mut own = parts && !part.is_empty();
        for _ in 0..CLAIM_TRIES {
            let near = if own { self.index.find_within(want.ty, near_bins, &part, effort) } else { None };
            own = near.is_some();
            let found = near.or_else(|| self.index.find(want.ty, bins, start, effort));
            let Some((found, bin)) = found else { break };
            effort.step();
            if let Some(got) = self.claim_of(found, want, Take::Same, true) {
                return Some(got);
            }
            self.index.settle(&self.frames, bin, found);
        }
        if parts {
            self.claim_from_others(want, want.ty, |_| Take::Same, effort).map(|(got, _)| got)
        } else {
            self.claim_emptied(want, want.ty, Take::Same, effort)
        }
    }

    /// Claims blocks, below a pageblock's order, from a pageblock of type `from` that some CPU works on, and so no bin
    /// has; returns its state before.
    #[cold]
    pub(crate) fn claim_from_others(
        &self,
        want: Want,
        from: Migratetype,
        how: impl Fn(BlockState) -> Take,
        effort: &mut SearchEffort,
    ) -> Option<(Got, BlockState)> {
        let slots = self.cpu_ids().flat_map(|cpu| self.slots(cpu, from));
        for block in slots.filter_map(named) {
            let state = self.frames.state(block);
            if !state.has_type(from) || !state.serves(want.order) {
                continue;
            }
            effort.step();
            let how = how(state);
            if let Some(got) = self.claim_of(block, want, how, matches!(how, Take::Convert { .. })) {
                return Some((got, state));
            }
        }
        None
    }

    /// Returns where a CPU begins to search: the first few of them far from each other, however many there are, so that
    /// what they write of the index and of the descriptors lies apart.
    pub(crate) fn start_of(&self, cpu: CpuId) -> BlockIdx {
        let share = u64::from(cpu.0.reverse_bits());
        BlockIdx::new(((share * self.frames.len() as u64) >> 32) as usize & !(CPU_ALIGN - 1))
    }

    /// Claims blocks from one pageblock, at least one, if it has the type and anything that fits. `work_on` says
    /// whether the CPU works on it from now on, if anything is left.
    #[inline]
    pub(crate) fn claim_of(&self, block: BlockIdx, want: Want, how: Take, work_on: bool) -> Option<Got> {
        if want.order >= PAGEBLOCK {
            self.claim_whole_of(block, want, how)
        } else {
            self.claim_part(block, want, how, work_on)
        }
    }

    fn claim_part(&self, block: BlockIdx, want: Want, how: Take, work_on: bool) -> Option<Got> {
        let Want { ty, order, cpu, .. } = want;
        let reserve = |s: BlockState| {
            if s.fit()? < order.get() {
                return None;
            }
            let n = want.blocks.min(s.free() >> order.get()) << order.get();
            let next = match how {
                Take::Same => s.claim(n, ty),
                Take::Convert { from } => s.convert(n, from, ty),
                Take::Borrow { from } => s.claim(n, from),
            }?;
            Some(if work_on && next.free() > 0 { next.with_current(true) } else { next })
        };
        let change = self.frames.update(block, reserve)?;
        let mut claimed = self.count_change(change);
        // Where it was a current one and its type changed, the slots of that type do not lead to it any more.
        let fresh = !change.old.is_current() || !change.old.has_type_of(change.new);
        if change.new.is_current() && fresh {
            // Where none is used up, any: what its pageblock has left did not fit.
            let slot = self.vacant(cpu, ty).unwrap_or(&self.slots(cpu, ty)[block.get() % SLOTS]);
            self.work_on(slot, block);
        }
        let reserved = change.old.free() - change.new.free();
        let mut took = Took::nothing();
        let taken = match order.get() {
            0 => self.frames.claim_single(block, reserved, &mut took),
            1..=WORD_ORDER => self.frames.claim_runs(block, order, reserved >> order.get(), &mut took),
            _ => {
                took.broken = BLOCK_ORDER;
                let first = self.frames.claim_words(block, order, &mut took.returned_bits);
                took.masks = first.map_or(took.masks, |frame| masks_of(frame.offset(), order));
                u32::from(first.is_some())
            }
        } << order.get();
        if taken < reserved || took.returned_bits {
            claimed += self.return_reserved(block, reserved - taken);
        }
        // Read after the bits were taken: another claim may have lowered it. A claim that found less than it reserved
        // followed a hint that was too large, whatever it took.
        let state = self.frames.state(block);
        let hint = if taken < reserved || took.broken >= state.hint() {
            self.frames.correct_hint(block)
        } else {
            Change { old: state, new: state }
        };
        // Every transition settles the bins on both its sides: another thread may have seen the state in between.
        self.index.moved(&self.frames, block, hint.old, hint.new);
        self.index.moved(&self.frames, block, change.old, change.new);
        if taken == 0 {
            self.free.add(claimed);
            if let Take::Convert { from } = how {
                let undo = |s: BlockState| s.has_type(ty).then(|| s.with_type(from));
                if let Some(change) = self.frames.update(block, undo) {
                    self.changed(block, change);
                }
            }
            return None;
        }
        let all = change.old.is_all_zero() && hint.new.is_all_zero();
        if all || (order > Order::ZERO && hint.new.has_zero()) {
            self.settle_zero(block, &took.masks, order, all);
        }
        Some(Got { block, masks: took.masks, fresh, claimed })
    }

    fn claim_whole_of(&self, block: BlockIdx, want: Want, how: Take) -> Option<Got> {
        let from = match how {
            Take::Same => want.ty,
            Take::Convert { from } | Take::Borrow { from } => from,
        };
        let to = if matches!(how, Take::Borrow { .. }) { from } else { want.ty };
        let claim =
            |s: BlockState| Some(if s.has_type(from) { s.claim_whole()? } else { return None }.with_type(to));
        let change = self.frames.update(block, claim)?;
        self.index.moved(&self.frames, block, change.old, change.new);
        self.settle_whole_zero(block, change.old);
        let mut masks = [0; WORDS];
        masks[0] = 1;
        Some(Got { block, masks, fresh: false, claimed: self.count_change(change) })
    }

    /// Notes in the tags what a claim from a pageblock with known zeros took.
    #[cold]
    pub(super) fn settle_zero(&self, block: BlockIdx, masks: &Masks, order: Order, all: bool) {
        crate::engine::map::frame_map::for_each_down(masks, order, |offset| {
            let first = block.frame(offset);
            if all {
                for frame in first.run(1 << order.get()) {
                    self.frames.set_tag(frame, if frame == first { Tag::FreeZero } else { Tag::Free });
                }
            } else if order > Order::ZERO {
                self.frames.gather_zero(first, 1 << order.get());
            }
        });
    }

    /// The same for a pageblock that was claimed as a whole.
    #[inline]
    pub(crate) fn settle_whole_zero(&self, block: BlockIdx, old: BlockState) {
        if old.has_zero() || old.is_all_zero() {
            let first = block.first_frame();
            let known = self.frames.gather_zero(first, BLOCK_FRAMES as usize);
            if old.is_all_zero() || known {
                self.frames.set_tag(first, Tag::FreeZero);
            }
        }
    }

    /// Returns a reservation that was not taken, and says what runs there are after bits were given back; returns what
    /// to add to the count of free frames.
    #[cold]
    pub(super) fn return_reserved(&self, block: BlockIdx, n: u32) -> FrameDelta {
        let run = self.run_now(block);
        // Emptied that way, on behalf of no CPU: it goes onto its bin.
        let release = |s: BlockState| {
            let next = s.release(n, run);
            Some(if next.is_emptied() { next.with_current(false) } else { next })
        };
        let Some(change) = self.frames.update(block, release) else {
            return FrameDelta::ZERO;
        };
        self.index.moved(&self.frames, block, change.old, change.new);
        self.count_change(change)
    }

    /// Returns the largest run of a pageblock.
    #[cold]
    fn run_now(&self, block: BlockIdx) -> u8 {
        self.frames.scan(block).unwrap_or(0).min(BLOCK_ORDER - 1)
    }

    /// Claims exactly the block of `order`, below a pageblock's, at a frame; `false` where part of it is not free.
    pub(crate) fn claim_exactly(&self, frame: FrameIdx, order: Order) -> bool {
        let (block, n) = (frame.block(), 1 << order.get());
        let masks = masks_of(frame.offset(), order);
        let Some(change) = self.frames.update(block, |s| s.claim_any(n)) else { return false };
        let mut claimed = self.count_change(change);
        let taken = self.frames.claim_bits(block, &masks);
        if !taken {
            claimed += self.return_reserved(block, n);
        }
        self.free.add(claimed);
        let hint = self.frames.correct_hint(block);
        self.index.moved(&self.frames, block, hint.old, hint.new);
        self.index.moved(&self.frames, block, change.old, change.new);
        let all = change.old.is_all_zero() && hint.new.is_all_zero();
        if taken && (all || hint.new.has_zero()) {
            self.settle_zero(block, &masks, order, all);
        }
        taken
    }

    // Releases, here because they make pageblocks current too.

    /// Releases the `n` frames in `masks` of one pageblock, which the caller owns; their tags say `Free` already.
    /// `by` is the CPU, if it may go on working on the pageblock, and with a slot of its own, into which the pageblock
    /// can be put.
    pub(crate) fn release(&self, block: BlockIdx, n: u32, masks: &Masks, zero: bool, by: By<'_>) -> Released {
        debug_assert_eq!(n, masks.iter().map(|m| m.count_ones()).sum());
        let hint = self.prepare_release(block, zero);
        let run = self.frames.release_masks(block, masks, hint);
        self.end_release(block, n, (hint, run), by)
    }

    /// Releases one block, below a pageblock's order, that the caller owns; the tags of its frames say so already.
    pub(crate) fn release_one(&self, frame: FrameIdx, order: Order, zero: bool, by: By<'_>) -> Released {
        if order.get() <= WORD_ORDER {
            return self.release_inside(frame, order, zero, by);
        }
        let hint = self.prepare_release(frame.block(), zero);
        let run = self.frames.release_words(frame, order, hint);
        self.end_release(frame.block(), 1 << order.get(), (hint, run), by)
    }

    /// The same for a block of at most a word's order, inlined.
    #[inline(always)]
    pub(crate) fn release_inside(&self, frame: FrameIdx, order: Order, zero: bool, by: By<'_>) -> Released {
        let hint = self.prepare_release(frame.block(), zero);
        let run = self.frames.release_inside(frame, order, hint);
        self.end_release(frame.block(), 1 << order.get(), (hint, run), by)
    }

    /// Sees to what a pageblock's flags say of free frames, before some are given: a claim reads them after it took
    /// bits. Returns the hint.
    #[inline(always)]
    fn prepare_release(&self, block: BlockIdx, zero: bool) -> u8 {
        let state = self.frames.state(block);
        if zero && !state.has_zero() {
            self.frames.update(block, |s| Some(s.noting_zero()));
        } else if !zero && state.is_all_zero() {
            self.frames.update(block, BlockState::dirtied);
        }
        state.hint()
    }

    /// Counts `n` frames of a pageblock whose bits were given. The largest run among and around them is `run`, or 0
    /// where that is not above the `hint` that was read before.
    #[inline(always)]
    fn end_release(&self, block: BlockIdx, n: u32, (hint, run): (u8, u8), by: By<'_>) -> Released {
        let raise = |s: BlockState| {
            // Lowered meanwhile: what was not above it then may be now.
            let run = if s.hint() < hint { self.run_now(block).max(run) } else { run };
            let next = s.release(n, run);
            // Only a pageblock that a slot of this CPU names stays emptied: others are found when they are whole.
            if next.is_emptied() && !by.works_on(self, block, s.migratetype()) {
                return Some(next.with_current(false));
            }
            let goes_on = by.slot.is_some_and(|(ty, _)| ty == s.migratetype() && next.free() <= MOST_FREE);
            Some(if goes_on { next.with_current(true) } else { next })
        };
        let Some(change) = self.frames.update(block, raise) else {
            return Released { freed: FrameDelta::ZERO, adopted: false };
        };
        let adopted = change.new.is_current() && !change.old.is_current();
        if let Some((_, slot)) = by.slot
            && adopted
        {
            self.work_on(slot, block);
        }
        if change.new.is_emptied() {
            by.cpu.into_iter().for_each(|cpu| self.note_emptied(cpu));
        }
        self.index.moved(&self.frames, block, change.old, change.new);
        Released { freed: self.count_release(change, n), adopted }
    }
}

/// The result of a release.
#[must_use]
pub(crate) struct Released {
    /// The change to the count of free frames.
    pub(crate) freed: FrameDelta,
    /// Whether the CPU works on the pageblock from now on.
    pub(crate) adopted: bool,
}
