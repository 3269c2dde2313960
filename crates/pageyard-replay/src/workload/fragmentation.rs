//! How fragmented the owners' memory is.

use super::owners::Owners;
use crate::engine::{ReplayEngine, blocks, zones};
use pageyard::{Frames, PAGEBLOCK_ORDER, PressureAllocator, metrics};

/// How fragmented memory is.
#[derive(Clone, Copy, Debug)]
pub struct Fragmentation {
    /// Free frames, those in per-CPU lists not counted.
    pub free: Frames,
    /// `unusable_index` by order.
    pub unusable_index: [f64; 11],
    /// Pageblocks that hold both movable and unmovable frames, as a share of those that hold movable ones.
    pub spoiled: f64,
}

/// Measures how fragmented memory is now.
pub fn fragmentation<E: PressureAllocator + ReplayEngine>(owners: &Owners<'_, E>) -> Fragmentation {
    let row = blocks(&zones(owners.engine()));
    let (mut movable, mut unmovable) = (Vec::new(), Vec::new());
    owners.for_each(|pfn, order, role, can_move| {
        for block in pfn.pageblock().0..=(pfn + order.frames()).0.div_ceil(512) - 1 {
            let list = match (can_move, role) {
                (true, _) => &mut movable,
                // Movable memory that is pinned is as bad as what never moves.
                (false, _) => &mut unmovable,
            };
            list.resize(list.len().max(block as usize + 1), false);
            list[block as usize] = true;
        }
    });
    let both = movable.iter().zip(&unmovable).filter(|(a, b)| **a && **b).count();
    let all = movable.iter().filter(|m| **m).count();
    Fragmentation {
        free: Frames(metrics::free_frames(&row)),
        unusable_index: std::array::from_fn(|order| metrics::unusable_index(&row, order).unwrap_or(1.0)),
        spoiled: both as f64 / all.max(1) as f64,
    }
}

/// The order of a pageblock, for readers of [`Fragmentation::unusable_index`].
pub const HUGE: usize = PAGEBLOCK_ORDER.index();
