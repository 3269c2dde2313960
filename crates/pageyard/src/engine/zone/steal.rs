//! Fallback for a type without a fitting pageblock: taking from another type's, and the pageblocks reserved for
//! high-order requests that cannot wait.

use super::pageblocks::{Got, Pageblocks, Take, Want};
use crate::engine::geometry::{BLOCK_FRAMES, BLOCK_ORDER, BlockIdx, PAGEBLOCK};
use crate::engine::map::descriptor::BlockState;
use crate::engine::map::index::Bins;
use crate::engine::map::tree::SearchEffort;
use pageyard_core::migratetype::Migratetype;
use pageyard_sync::Relaxed;

/// Times that a steal follows the index to a pageblock that turns out to serve nothing.
const STEAL_TRIES: usize = 16;

/// From this order on, a movable request may turn a pageblock of another type into its own.
///
/// # Linux
/// `can_steal_fallback`: half a pageblock's order.
const MOVABLE_STEALS: u8 = BLOCK_ORDER / 2;

/// The result of a steal, for the counters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Stolen {
    /// A whole pageblock, which is of the request's type now.
    Whole,
    /// Part of a pageblock, which is of the request's type now.
    Converted,
    /// Part of a pageblock that keeps its type.
    Borrowed,
}

impl Pageblocks<'_> {
    /// Claims blocks for a type from pageblocks of the types it falls back to.
    ///
    /// The largest fit goes first, so that mixed contents stay together. A movable request that finds only small ones
    /// takes the smallest, because compaction can move its contents later. A pageblock is converted where at least half
    /// of it is free.
    ///
    /// # Linux
    /// `__rmqueue_fallback`. Difference: frames of the request's own kind that a pageblock holds already are not
    /// counted towards the half, because tags do not say what kind a frame's contents are.
    #[cold]
    pub(crate) fn steal(&self, want: Want, effort: &mut SearchEffort) -> Option<(Got, Stolen)> {
        let movable = want.ty == Migratetype::Movable;
        let may_steal = |fit: u8| !movable || fit >= MOVABLE_STEALS;
        let fallbacks = want.ty.fallbacks();
        for fit in (want.order.get()..=BLOCK_ORDER).rev().filter(|fit| may_steal(*fit)) {
            for from in fallbacks {
                if let Some(stolen) = self.steal_fit(want, *from, fit, true, effort) {
                    return Some(stolen);
                }
            }
        }
        for fit in (want.order.get()..=BLOCK_ORDER).filter(|fit| !may_steal(*fit)) {
            for from in fallbacks {
                if let Some(stolen) = self.steal_fit(want, *from, fit, false, effort) {
                    return Some(stolen);
                }
            }
        }
        // What CPUs work on comes last.
        for from in fallbacks.iter().copied() {
            if want.order == PAGEBLOCK {
                if let Some(got) = self.claim_emptied(want, from, Take::Convert { from }, effort) {
                    return Some((got, Stolen::Whole));
                }
                continue;
            }
            let how = |s: BlockState| match s.fit().is_some_and(may_steal) && s.free() >= BLOCK_FRAMES / 2 {
                true => Take::Convert { from },
                false => Take::Borrow { from },
            };
            if let Some((got, before)) = self.claim_from_others(want, from, how, effort) {
                let stolen = match how(before) {
                    _ if before.is_emptied() => Stolen::Whole,
                    Take::Convert { .. } => Stolen::Converted,
                    _ => Stolen::Borrowed,
                };
                return Some((got, stolen));
            }
        }
        None
    }

    fn steal_fit(
        &self,
        want: Want,
        from: Migratetype,
        fit: u8,
        convert: bool,
        effort: &mut SearchEffort,
    ) -> Option<(Got, Stolen)> {
        for _ in 0..STEAL_TRIES {
            let start = self.start_of(want.cpu);
            let (block, bin) = self.index.find(from, Bins::of_fit(fit), start, effort)?;
            effort.step();
            let convert = convert && self.frames.state(block).free() >= BLOCK_FRAMES / 2;
            let how = if convert { Take::Convert { from } } else { Take::Borrow { from } };
            if let Some(got) = self.claim_of(block, want, how, convert) {
                let stolen = match (convert, fit) {
                    (true, BLOCK_ORDER) => Stolen::Whole,
                    (true, _) => Stolen::Converted,
                    _ => Stolen::Borrowed,
                };
                return Some((got, stolen));
            }
            self.index.settle(&self.frames, bin, block);
        }
        None
    }

    /// Reserves the pageblock of a block that was just allocated for high-order requests that cannot wait.
    ///
    /// # Linux
    /// `reserve_highatomic_pageblock`: about one percent of the zone, and a pageblock.
    #[cold]
    pub(crate) fn reserve_highatomic(&self, block: BlockIdx) -> bool {
        let limit = self.managed().0 / 100 / u64::from(BLOCK_FRAMES) + 1;
        let ty = self.frames.state(block).migratetype();
        if ty >= Migratetype::HighAtomic {
            return false;
        }
        let count = self.highatomic_blocks();
        // ORDER: Relaxed, here and below: a count orders nothing.
        if count.fetch_add(1, Relaxed) < limit && self.set_type(block, ty, Migratetype::HighAtomic) {
            return true;
        }
        count.fetch_add(u64::MAX, Relaxed);
        false
    }

    /// Gives one reserved pageblock back, to the type that needs it.
    ///
    /// # Linux
    /// `unreserve_highatomic_pageblock`.
    #[cold]
    pub(crate) fn unreserve_highatomic(&self, ty: Migratetype) -> bool {
        let highatomic = Migratetype::HighAtomic;
        let count = self.highatomic_blocks();
        // ORDER: Relaxed: a count orders nothing.
        if count.load(Relaxed) == 0 {
            return false;
        }
        let reserved = |s: BlockState| s.has_type(highatomic) && s.free() > 0;
        for block in self.frames.all().filter(|b| reserved(self.frames.state(*b))) {
            if self.set_type(block, highatomic, ty) {
                // ORDER: Relaxed: a count orders nothing.
                count.fetch_add(u64::MAX, Relaxed);
                return true;
            }
        }
        false
    }

    /// Raises the boost after a steal of part of a pageblock, up to `most`.
    ///
    /// # Linux
    /// `boost_watermark`.
    pub(crate) fn raise_boost(&self, most: u64) -> bool {
        // ORDER: Relaxed, here and below: a boost orders nothing.
        let now = self.boost().load(Relaxed);
        let raised = (now + u64::from(BLOCK_FRAMES)).min(most);
        raised > now && self.boost().compare_exchange(now, raised, Relaxed, Relaxed).is_ok()
    }
}
