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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buddy_is_mutual_and_shares_the_parent() {
        let mut rng = fastrand::Rng::with_seed(0xb1);
        let far = std::iter::repeat_with(|| rng.u64(..1 << 52)).take(100_000);
        for pfn in (0..1 << 12).chain(far).map(Pfn) {
            for order in Order::ZERO.up_to(Order::of(10)) {
                let pfn = pfn.align_down(order);
                let other = buddy(pfn, order);
                assert_eq!(buddy(other, order), pfn);
                assert_eq!(parent(pfn, order), parent(other, order));
                assert_eq!(parent(pfn, order), pfn.min(other));
                assert!(parent(pfn, order).is_aligned(Order::of(order.get() + 1)));
                assert_ne!(is_upper_half(pfn, order), is_upper_half(other, order));
            }
        }
    }

    /// Returns the fewest aligned blocks of at most `limit` that make up a range, by trying every first one.
    fn fewest(start: u64, end: u64, limit: Order, known: &mut [[Option<u32>; 65]; 65]) -> u32 {
        if start == end {
            return 0;
        }
        if let Some(n) = known[start as usize][end as usize] {
            return n;
        }
        let fits = |order: &Order| Pfn(start).is_aligned(*order) && start + order.frames().0 <= end;
        let after = |order: Order| 1 + fewest(start + order.frames().0, end, limit, &mut *known);
        let n = Order::ZERO.up_to(limit).filter(fits).map(after).min().unwrap();
        known[start as usize][end as usize] = Some(n);
        n
    }

    #[test]
    fn a_range_is_cut_into_the_fewest_blocks() {
        for limit in Order::ZERO.up_to(Order::of(6)) {
            let mut known = [[None; 65]; 65];
            for (start, end) in (0..=64).flat_map(|start| (start..=64).map(move |end| (start, end))) {
                let (mut at, mut n) = (start, 0);
                for block in blocks(Pfn(start), Frames(end - start), limit) {
                    assert_eq!(block.pfn.0, at);
                    (at, n) = (at + block.order.frames().0, n + 1);
                }
                assert_eq!((at, n), (end, fewest(start, end, limit, &mut known)), "from {start}, {limit}");
            }
        }
    }

    #[test]
    fn wherever_a_range_lies_its_blocks_cover_it_once_and_only_neighbours_could_be_larger() {
        let mut rng = fastrand::Rng::with_seed(0xb2);
        for _ in 0..20_000 {
            let most = 1 << rng.u32(1..24);
            let (start, frames) = (rng.u64(..1 << 52), rng.u64(1..most));
            let limit = Order::of(rng.u8(..=18));
            let mut at = start;
            let mut last: Option<BlockId> = None;
            for block in blocks(Pfn(start), Frames(frames), limit) {
                assert_eq!(block.pfn.0, at);
                assert!(block.pfn.is_aligned(block.order) && block.order <= limit);
                // Two halves of one block would be one.
                let joins = |last: BlockId| {
                    last.order == block.order && last.order < limit && !is_upper_half(last.pfn, last.order)
                };
                assert!(!last.is_some_and(joins), "{start}, {frames}, {limit}");
                at += block.order.frames().0;
                last = Some(block);
            }
            assert_eq!(at, start + frames);
        }
    }

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
