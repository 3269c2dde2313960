//! How skip hints are forgotten.

use super::job::{is_filled, moves_blocks};
use super::knobs::{Hints, Pivot};
use super::state::ZoneState;
use super::view::CompactionView;
use pageyard_core::compaction::FrameState;
use pageyard_core::compaction::Migrate;
use pageyard_core::memmap::ZoneSpan;
use pageyard_core::migratetype::Migratetype;
use pageyard_core::units::{Order, PAGEBLOCK_ORDER, PageblockId, Pfn, ZoneId};

/// Every how many frames a pageblock is sampled before its hint is forgotten.
///
/// # Linux
/// `__reset_isolation_pfn`: `1 << PAGE_ALLOC_COSTLY_ORDER`.
const SAMPLE: u64 = 8;

/// Why hints are forgotten.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Forget {
    /// A compaction starts over after the longest deferral.
    Restarting,
    /// The background reclaimer goes to sleep, or all of the zone is compacted.
    Asked,
}

/// Forgets the skip hints of a zone, and where its scanners were.
///
/// A hint says that a pageblock has nothing to move, or nothing to move to; so where the scanners set out may change
/// only with the hints.
///
/// # Linux
/// `__reset_isolation_suitable`. In 4.x it forgets every hint; since 5.1 it does so only where a direct compaction has
/// asked for it, and only for pageblocks that [`refresh`] finds something in.
pub(super) fn forget_hints<M: CompactionView, O: Migrate>(
    map: &M,
    owner: &O,
    zone: ZoneId,
    span: &ZoneSpan,
    why: Forget,
) {
    let Some(state) = map.zone_state(zone) else { return };
    if map.knobs().hints != Hints::NothingFound {
        if state.take_flush() {
            refresh(map, owner, zone, span, state);
        }
        return;
    }
    let last = Pfn(span.end().0 - 1).pageblock();
    for block in span.start.pageblock().0..=last.0 {
        map.set_skip(zone, PageblockId(block), false);
    }
    let at = &state.at;
    let turns = match map.knobs().pivot {
        Pivot::Start => false,
        Pivot::Restarting => why == Forget::Restarting,
        Pivot::Forgetting => true,
    };
    if turns {
        at.turn_to_meeting();
    }
    at.reset(&at.round(*span));
}

/// Forgets hints from both ends of the zone towards its middle, and lets the scanners begin at the first pageblocks
/// that have something to do.
///
/// # Linux
/// `__reset_isolation_suitable` since 5.1. The free scanner then begins at a pageblock's last frame. Of frames in
/// use it samples those that can be reclaimed, here single ones and, where blocks move, the first of each block.
fn refresh<M: CompactionView, O: Migrate>(
    map: &M,
    owner: &O,
    zone: ZoneId,
    span: &ZoneSpan,
    state: &ZoneState,
) {
    let step = PAGEBLOCK_ORDER.frames().0;
    let (mut low, mut high) = (span.start, Pfn(span.end().0 - 1));
    let (mut source, mut target) = (None, None);
    while low < high {
        if forget_one(map, owner, zone, span, low, (true, source.is_some())) && source.is_none() {
            source = Some(low);
        }
        if forget_one(map, owner, zone, span, high, (target.is_some(), true)) && target.is_none() {
            target = Some(high);
        }
        low.0 += step;
        high.0 = high.0.saturating_sub(step);
    }
    state.at.set_init(source, target);
    let meet = source.unwrap_or(Pfn(span.end().0 - 1)) >= target.unwrap_or(span.start);
    // Nothing to do, or not in this order: the next compaction ends at once.
    if let Some(pfn) = if meet { Some(low) } else { source } {
        state.at.start_migrate_at(pfn);
    }
    if let Some(pfn) = if meet { Some(high) } else { target } {
        state.at.start_free_at(pfn);
    }
}

/// Forgets the hint of the pageblock of a frame if a sample of it shows something to move, or to move to; returns
/// whether it did.
///
/// # Linux
/// `__reset_isolation_pfn`.
fn forget_one<M: CompactionView, O: Migrate>(
    map: &M,
    owner: &O,
    zone: ZoneId,
    span: &ZoneSpan,
    pfn: Pfn,
    (as_source, as_target): (bool, bool),
) -> bool {
    let block = pfn.pageblock();
    let info = map.pageblock(zone, block);
    let first = block.start().max(span.start);
    if !info.populated || is_filled(map, first) {
        return false;
    }
    if as_source && as_target && !info.skip {
        return true;
    }
    if !as_source && info.migratetype != Migratetype::Movable {
        return false;
    }
    let end = span.end().0.min(block.start().0 + PAGEBLOCK_ORDER.frames().0);
    let useful = (first.0..end).step_by(SAMPLE as usize).any(|pfn| match map.frame(Pfn(pfn)) {
        FrameState::Allocated(of) if moves_blocks(map) || of == Order::ZERO => {
            as_source && owner.is_reclaimable(Pfn(pfn))
        }
        FrameState::Free(_) => as_target,
        _ => false,
    });
    if useful {
        map.set_skip(zone, block, false);
    }
    useful
}
