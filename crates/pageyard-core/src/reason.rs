//! Why a request was refused: one rule for every engine, so that two engines in the same state give the same reason.

use crate::error::AllocError;
use crate::units::{Frames, Order};

/// A zone as a refused request finds it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ZoneRoom {
    /// Its free frames, those in per-CPU lists not counted.
    pub free: Frames,
    /// Frames the zone keeps back from this request: watermark, protection of lower zones, reserves.
    pub kept: Frames,
}

impl ZoneRoom {
    /// Returns whether a block of `order` could be taken without touching what is kept back.
    ///
    /// # Linux
    /// `__zone_watermark_ok`, without its look at the free lists.
    #[must_use]
    pub fn passes(self, order: Order) -> bool {
        self.free.0.checked_sub(order.frames().0).is_some_and(|left| left >= self.kept.0)
    }
}

/// Says why no block of `order` could be allocated in these zones.
///
/// * Some zone has enough frames beyond what it keeps back, but no block of the size: memory is fragmented.
/// * Otherwise, some zone has enough frames, but keeps them back: reclaim would help.
/// * Otherwise, the zones have enough frames together, but no block spans two zones: fragmented.
/// * Otherwise memory is out.
#[must_use]
pub fn reason(order: Order, zones: impl IntoIterator<Item = ZoneRoom>) -> AllocError {
    let size = order.frames();
    let (mut free, mut kept) = (Frames::ZERO, Frames::ZERO);
    let (mut passes, mut holds) = (false, false);
    for zone in zones {
        free += zone.free;
        kept += zone.kept;
        passes |= zone.passes(order);
        holds |= zone.free >= size;
    }
    if free < size {
        AllocError::OutOfMemory
    } else if holds && !passes {
        AllocError::BelowWatermark { free, kept }
    } else {
        AllocError::Fragmented { order, free }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HUGE: Order = Order::of(9);

    fn of(zones: &[(u64, u64)]) -> AllocError {
        reason(HUGE, zones.iter().map(|(free, kept)| ZoneRoom { free: Frames(*free), kept: Frames(*kept) }))
    }

    #[test]
    fn room_above_the_reserve_means_that_no_block_is_large_enough() {
        assert_eq!(of(&[(10_000, 1000)]), AllocError::Fragmented { order: HUGE, free: Frames(10_000) });
        // A small zone that keeps all of itself back does not turn that into a shortage.
        assert_eq!(
            of(&[(10_000, 1000), (4000, 9000)]),
            AllocError::Fragmented { order: HUGE, free: Frames(14_000) }
        );
    }

    #[test]
    fn a_reserve_in_the_way_is_named_with_what_it_keeps() {
        let why = AllocError::BelowWatermark { free: Frames(1300), kept: Frames(1100) };
        assert_eq!(of(&[(1200, 1000), (100, 100)]), why);
        assert_eq!(of(&[(512, 0)]), AllocError::Fragmented { order: HUGE, free: Frames(512) });
    }

    #[test]
    fn no_block_reaches_from_zone_to_zone() {
        assert_eq!(of(&[(300, 0), (300, 0)]), AllocError::Fragmented { order: HUGE, free: Frames(600) });
        assert_eq!(of(&[(300, 0), (200, 0)]), AllocError::OutOfMemory);
        assert_eq!(of(&[]), AllocError::OutOfMemory);
    }
}
