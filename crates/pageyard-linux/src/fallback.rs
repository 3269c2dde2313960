//! Fallback: what happens when a type has no free block left.
//!
//! Three generations of Linux's policy, side by side; `classes` has LLFree's. Layer: on the zone, above `buddy`.

use crate::buddy::Contents;
use crate::config::{CmaUse, Config, FallbackPolicy};
use crate::effort::{Effort, Mark, Wake};
use crate::freelist::End;
use crate::tag::MAX_PAGE_ORDER;
use crate::zone::Locked;
use pageyard_core::watermark::max_boost;
use pageyard_core::{Frames, Migratetype, Order, PAGEBLOCK_ORDER, Pfn};

/// Half a pageblock, in frames: how many must be free or alike for it to be converted.
const HALF: u64 = PAGEBLOCK_ORDER.frames().0 / 2;

/// How many blocks of a list are looked at for one in a tainted superpageblock.
const SCAN: usize = 8;

/// How the last block of a batch was found, so that the next one starts there.
///
/// # Linux
/// `enum rmqueue_mode`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub enum Found {
    /// On a list of its own type.
    #[default]
    Own,
    /// By taking single blocks from other types.
    Stolen,
}

impl Locked<'_> {
    /// Takes a block of `order` for type `m`, if necessary from other types.
    ///
    /// # Linux
    /// `__rmqueue`.
    pub(crate) fn rmqueue(
        &mut self,
        order: Order,
        m: Migratetype,
        effort: Effort,
        config: &Config,
        found: &mut Found,
    ) -> Option<Pfn> {
        let half = || self.zone.free_lent.get() > self.zone.free.get() / 2;
        if effort.lent
            && config.cma == CmaUse::Half
            && half()
            && let Some(pfn) = self.take_smallest(order, Migratetype::Cma)
        {
            return Some(pfn);
        }
        if *found == Found::Own
            && let Some(pfn) = self.take_smallest(order, m)
        {
            return Some(pfn);
        }
        if effort.lent
            && let Some(pfn) = self.take_smallest(order, Migratetype::Cma)
        {
            return Some(pfn);
        }
        match config.fallback {
            FallbackPolicy::HalfFree => self.fall_back_half_free(order, m),
            FallbackPolicy::Alike => self.fall_back_alike(order, m, effort),
            FallbackPolicy::ClaimOrSteal => self.claim_or_steal(order, m, effort, found),
            FallbackPolicy::Classes => self.fall_back_by_class(order, m, effort),
        }
    }

    /// Finds the first fallback type that has a block of exactly this order.
    fn fallback_with(&self, order: Order, m: Migratetype) -> Option<Migratetype> {
        m.fallbacks().iter().copied().find(|f| !self.inner.lists.is_empty(order, *f))
    }

    pub(crate) fn count_fallback(&mut self, wanted: Migratetype, from: Migratetype) {
        self.inner.counts.fallbacks[wanted.index()][from.index()] += 1;
    }

    /// 4.x: the largest block of the best other type; its pageblock's free blocks move along, and the pageblock itself
    /// when half of it is free.
    fn fall_back_half_free(&mut self, order: Order, m: Migratetype) -> Option<Pfn> {
        let (from, other) =
            order.up_to(MAX_PAGE_ORDER).rev().find_map(|o| Some((o, self.fallback_with(o, m)?)))?;
        let pfn = self.first(from, other)?;
        let mut listed = other;
        if may_take_pageblock(from, m) {
            if from >= PAGEBLOCK_ORDER {
                self.convert_range(pfn, from, m);
            } else if let Some(contents) = self.survey(pfn) {
                self.move_free(pfn, m, End::Head);
                listed = m;
                self.claim_if(pfn, m, contents.free);
            }
        } else {
            self.inner.counts.extfrag_steal += 1;
        }
        self.take_and_split(pfn, from, listed, order, m);
        self.count_fallback(m, other);
        Some(pfn)
    }

    /// 4.12 to 6.9: as before, but movable requests that cannot convert the pageblock split the smallest block instead
    /// of the largest, frames in use that are alike count towards the half, and the watermark is boosted.
    fn fall_back_alike(&mut self, order: Order, m: Migratetype, effort: Effort) -> Option<Pfn> {
        let least = least_order(order, effort);
        let (largest, other) =
            least.up_to(MAX_PAGE_ORDER).rev().find_map(|o| Some((o, self.fallback_with(o, m)?)))?;
        let (from, other) = if may_take_pageblock(largest, m) || m != Migratetype::Movable || largest == order
        {
            (largest, other)
        } else {
            order.up_to(MAX_PAGE_ORDER).find_map(|o| Some((o, self.fallback_with(o, m)?)))?
        };
        let pfn = self.first(from, other)?;
        self.take_over(pfn, from, other, m, effort);
        self.count_fallback(m, other);
        // The block, and perhaps its whole pageblock, is now on the lists of `m`; the smallest that fits is not
        // always this one.
        self.take_smallest(order, m)
    }

    /// Moves a block to the lists of `m`, with its pageblock where that is allowed and possible.
    ///
    /// # Linux
    /// `steal_suitable_fallback`.
    fn take_over(&mut self, pfn: Pfn, from: Order, listed: Migratetype, m: Migratetype, effort: Effort) {
        let old = self.zone.pageblocks.type_of(pfn);
        let whole = 'whole: {
            if old == Migratetype::HighAtomic {
                break 'whole false;
            }
            if from >= PAGEBLOCK_ORDER {
                self.convert_range(pfn, from, m);
                break 'whole false;
            }
            self.boost_watermark(effort);
            if !may_take_pageblock(from, m) {
                break 'whole false;
            }
            let Some(contents) = self.survey(pfn) else { break 'whole false };
            self.move_free(pfn, m, End::Tail);
            self.claim_if(pfn, m, contents.free + alike(contents, old, m));
            true
        };
        if !whole {
            if from < PAGEBLOCK_ORDER {
                self.inner.counts.extfrag_steal += 1;
            }
            self.take_off(pfn, from, listed);
            self.insert(pfn, from, m, End::Tail);
        }
    }

    /// 6.10 and later: first try to claim a whole pageblock, from the largest block down; failing that, take one block
    /// from another type, from the smallest up, and leave the rest to that type.
    fn claim_or_steal(
        &mut self,
        order: Order,
        m: Migratetype,
        effort: Effort,
        found: &mut Found,
    ) -> Option<Pfn> {
        if *found != Found::Stolen {
            for from in least_order(order, effort).up_to(MAX_PAGE_ORDER).rev() {
                if !may_take_pageblock(from, m) {
                    break;
                }
                let Some(other) = self.fallback_with(from, m) else { continue };
                let Some(pfn) = self.to_claim(from, other) else { continue };
                if let Some(got) = self.claim(pfn, from, other, order, m, effort) {
                    *found = Found::Own;
                    self.count_fallback(m, other);
                    return Some(got);
                }
            }
        }
        if effort.nofragment {
            return None;
        }
        let (from, other) = order.up_to(MAX_PAGE_ORDER).find_map(|o| Some((o, self.fallback_with(o, m)?)))?;
        let got = self.steal(from, other, order, m)?;
        *found = Found::Stolen;
        Some(got)
    }

    /// Takes the first block of an order and type, and leaves the rest of it to that type.
    pub(crate) fn steal(
        &mut self,
        from: Order,
        other: Migratetype,
        order: Order,
        m: Migratetype,
    ) -> Option<Pfn> {
        let pfn = self.first(from, other)?;
        self.take_and_split(pfn, from, other, order, other);
        self.inner.counts.extfrag_steal += 1;
        self.count_fallback(m, other);
        Some(pfn)
    }

    /// Returns the block of a list whose pageblock a request claims: one in a superpageblock that holds what stays
    /// already, if one of the first is; otherwise the first. Blocks for movable requests all are in such.
    ///
    /// # Linux
    /// `__rmqueue_claim` as posted by R. van Riel in May 2026, with a scan of `SPB_SCAN_LIMIT` blocks.
    fn to_claim(&self, from: Order, other: Migratetype) -> Option<Pfn> {
        let first = self.first(from, other)?;
        let zone = self.zone;
        if zone.superpageblock == 0 {
            return Some(first);
        }
        let mut blocks =
            self.inner.lists.iter(from, other).take(SCAN).map(|frame| zone.span.start + Frames(frame));
        let tainted = |pfn: &Pfn| zone.pageblocks.is_tainted(*pfn, zone.superpageblock);
        Some(blocks.find(tainted).unwrap_or(first))
    }

    /// Claims the pageblock of a block of another type, and takes from it.
    ///
    /// # Linux
    /// `try_to_claim_block`.
    fn claim(
        &mut self,
        pfn: Pfn,
        from: Order,
        other: Migratetype,
        order: Order,
        m: Migratetype,
        effort: Effort,
    ) -> Option<Pfn> {
        if from >= PAGEBLOCK_ORDER {
            self.convert_range(pfn, from, m);
            self.take_and_split(pfn, from, other, order, m);
            return Some(pfn);
        }
        self.boost_watermark(effort);
        let contents = self.survey(pfn)?;
        if contents.free + alike(contents, other, m) < HALF {
            return None;
        }
        self.convert(pfn, m, End::Tail);
        self.inner.counts.extfrag_claim += 1;
        self.take_smallest(order, m)
    }

    fn claim_if(&mut self, pfn: Pfn, m: Migratetype, compatible: u64) {
        if compatible >= HALF {
            self.zone.pageblocks.set_type(pfn, m);
            self.inner.counts.extfrag_claim += 1;
        } else {
            self.inner.counts.extfrag_steal += 1;
        }
    }

    /// Gives every pageblock of a large block a type. The block itself stays on its list.
    pub(crate) fn convert_range(&mut self, pfn: Pfn, order: Order, m: Migratetype) {
        self.retype(pfn, order, m);
        self.inner.counts.extfrag_claim += 1 << (order.get() - PAGEBLOCK_ORDER.get());
    }

    /// Raises the watermarks after types were mixed, so that reclaim frees whole pageblocks early.
    ///
    /// # Linux
    /// `boost_watermark`.
    pub(crate) fn boost_watermark(&mut self, effort: Effort) {
        let (high, managed) = (Frames(self.zone.marks.of(Mark::High)), self.zone.span.managed);
        let Some(most) = max_boost(high, managed, self.zone.boost_factor.get()) else { return };
        let boost = self.zone.boost.get() + PAGEBLOCK_ORDER.frames().0;
        self.zone.boost.set(boost.min(most.0));
        self.inner.counts.watermark_boost += 1;
        if effort.wake != Wake::No {
            self.zone.boosted.set(true);
        }
    }
}

/// Returns whether a request of type `m` can take the pageblock of a free block this large.
///
/// Movable frames in a foreign pageblock can be moved out again; the other two types stay, so they should get their own
/// pageblock.
///
/// # Linux
/// `can_steal_fallback`, `should_try_claim_block`.
pub(crate) fn may_take_pageblock(free: Order, m: Migratetype) -> bool {
    free.get() >= PAGEBLOCK_ORDER.get() / 2 || m != Migratetype::Movable
}

/// Returns the smallest block of another type that a request may take.
fn least_order(order: Order, effort: Effort) -> Order {
    if effort.nofragment { order.max(PAGEBLOCK_ORDER) } else { order }
}

/// Returns how many frames in use fit the new type. A movable request counts movable frames. The other two types,
/// taking a movable pageblock, count frames that are not movable; between those two the types of frames are not known,
/// and none are counted.
fn alike(contents: Contents, old: Migratetype, m: Migratetype) -> u64 {
    if m == Migratetype::Movable {
        contents.movable
    } else if old == Migratetype::Movable {
        PAGEBLOCK_ORDER.frames().0 - contents.free - contents.movable
    } else {
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alike_frames_are_counted_as_linux_counts_them() {
        let c = Contents { free: 100, movable: 300 };
        assert_eq!(alike(c, Migratetype::Unmovable, Migratetype::Movable), 300);
        assert_eq!(alike(c, Migratetype::Movable, Migratetype::Unmovable), 112);
        assert_eq!(alike(c, Migratetype::Reclaimable, Migratetype::Unmovable), 0);
    }

    #[test]
    fn movable_requests_take_a_pageblock_only_for_a_large_block() {
        assert!(!may_take_pageblock(Order::of(3), Migratetype::Movable));
        assert!(may_take_pageblock(Order::of(4), Migratetype::Movable));
        assert!(may_take_pageblock(Order::of(0), Migratetype::Unmovable));
    }
}
