//! Block arithmetic: buddies, parents, and the aligned blocks that make up a range. Pure functions.

use crate::units::{BlockId, Frames, Order, Pfn};

/// Returns the buddy of the block of `order` at `pfn`: the other half of their common parent.
///
/// # Linux
/// `__find_buddy_pfn`.
#[must_use]
#[inline]
pub const fn buddy(pfn: Pfn, order: Order) -> Pfn {
    Pfn(pfn.0 ^ order.frames().0)
}

/// Returns the first frame of the block that the block of `order` at `pfn` and its buddy make together.
#[must_use]
#[inline]
pub const fn parent(pfn: Pfn, order: Order) -> Pfn {
    Pfn(pfn.0 & !order.frames().0)
}

/// Returns whether the block of `order` at `pfn` is the upper half of its parent.
#[must_use]
#[inline]
pub const fn is_upper_half(pfn: Pfn, order: Order) -> bool {
    pfn.0 & order.frames().0 != 0
}

/// Returns the largest order, at most `limit`, of a block that starts at `pfn` and ends at or before `end`.
///
/// `pfn` must be below `end`.
#[must_use]
#[inline]
pub fn largest_block_at(pfn: Pfn, end: Pfn, limit: Order) -> Order {
    let by_alignment = pfn.0.trailing_zeros().min(u32::from(limit.get())) as u8;
    let by_length = (end.0 - pfn.0).ilog2().min(u32::from(limit.get())) as u8;
    Order::of(by_alignment.min(by_length))
}

/// Cuts `[start, start + frames)` into the fewest aligned blocks of at most `limit`, lowest first.
#[inline]
pub fn blocks(start: Pfn, frames: Frames, limit: Order) -> impl Iterator<Item = BlockId> {
    let end = start + frames;
    let mut at = start;
    core::iter::from_fn(move || {
        if at >= end {
            return None;
        }
        let order = largest_block_at(at, end, limit);
        let block = BlockId { pfn: at, order };
        at = at + order.frames();
        Some(block)
    })
}

/// Iterates over the blocks of orders `0..=limit` that could hold `pfn`, smallest first.
#[inline]
pub fn holders(pfn: Pfn, limit: Order) -> impl Iterator<Item = BlockId> {
    Order::ZERO.up_to(limit).map(move |order| BlockId { pfn: pfn.align_down(order), order })
}

#[cfg(any(test, kani))]
mod properties;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_cover_an_unaligned_range_once_and_in_order() {
        let (start, frames) = (Pfn(7), Frames(2050));
        let mut at = start;
        for b in blocks(start, frames, Order::of(10)) {
            assert_eq!(b.pfn, at);
            assert!(b.pfn.is_aligned(b.order));
            at = at + b.order.frames();
        }
        assert_eq!(at, start + frames);
        assert_eq!(blocks(start, Frames(0), Order::MAX).count(), 0);
    }

    #[test]
    fn frame_zero_is_aligned_to_every_order() {
        let mut all = blocks(Pfn(0), Frames(1 << 18), Order::MAX);
        assert_eq!(all.next(), Some(BlockId { pfn: Pfn(0), order: Order::MAX }));
        assert_eq!(all.next(), None);
    }
}
