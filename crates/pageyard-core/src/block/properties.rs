//! What holds of every block and every range of frames.
//!
//! Tests call each property with everything that is small and with random values of all sizes; Kani with all values,
//! ranges being short (`bench/kani`).

use super::{blocks, buddy, holders, is_upper_half, largest_block_at, parent};
use crate::units::{Frames, Order, Pfn};

/// Rounding to an order moves a frame number by less than a block, to where one may start.
fn rounds(pfn: Pfn, order: Order) {
    let size = order.frames().0;
    let (down, up) = (pfn.align_down(order), pfn.align_up(order));
    assert!(down <= pfn && pfn.0 - down.0 < size && down.is_aligned(order));
    // There is nothing to round up to behind the start of the last block.
    if pfn.0 <= u64::MAX - (size - 1) {
        assert!(up >= pfn && up.0 - pfn.0 < size && up.is_aligned(order));
    }
}

/// A buddy is mutual, and of the two one is the upper half of the parent that they share.
fn buddies(pfn: Pfn, order: Order) {
    let pfn = pfn.align_down(order);
    let other = buddy(pfn, order);
    assert!(other != pfn && other.is_aligned(order));
    assert_eq!(buddy(other, order), pfn);
    assert_eq!(parent(pfn, order), pfn.min(other));
    assert_eq!(parent(other, order), pfn.min(other));
    assert_eq!(parent(pfn, order).0 % (2 * order.frames().0), 0);
    assert_ne!(is_upper_half(pfn, order), is_upper_half(other, order));
}

/// The blocks that could hold a frame are one of each order, each the parent of the one before it.
fn nests(pfn: Pfn, limit: Order) {
    let mut orders = Order::ZERO.up_to(limit);
    let mut start = pfn;
    for block in holders(pfn, limit) {
        assert_eq!(Some(block.order), orders.next());
        if let Some(inner) = block.order.smaller() {
            start = parent(start, inner);
        }
        assert_eq!(block.pfn, start);
    }
    assert_eq!(orders.next(), None);
}

/// The largest block at a frame may start there and ends in time; one of the next order does not, or is above the
/// limit.
fn is_largest(pfn: Pfn, end: Pfn, limit: Order) {
    let order = largest_block_at(pfn, end, limit).get();
    let fits = |order: u8| {
        let size = 1u64 << order;
        order <= limit.get() && pfn.0.is_multiple_of(size) && end.0 - pfn.0 >= size
    };
    assert!(fits(order) && !fits(order + 1));
}

/// A range is cut into aligned blocks that follow each other from its start to its end, and into no more than it takes.
fn cuts(start: Pfn, frames: Frames, limit: Order) {
    let end = start + frames;
    let (mut at, mut count) = (start, 0);
    for block in blocks(start, frames, limit) {
        assert_eq!(block.pfn, at);
        assert!(block.order <= limit && at.is_aligned(block.order));
        (at, count) = (at + block.order.frames(), count + 1);
    }
    assert_eq!((at, count), (end, fewest(start.0, end.0, limit)));
}

/// Returns how many blocks of at most `limit` a range takes: up to the most aligned place in it, and from there to its
/// end, one for each bit of the distance; between the first and the last place for a largest block, one of these after
/// another.
fn fewest(start: u64, end: u64, limit: Order) -> u64 {
    let size = limit.frames().0;
    let bits = |from: u64, to: u64| u64::from((to - from).count_ones());
    let (first, last) = (start.checked_next_multiple_of(size), end - end % size);
    match first {
        _ if start == end => 0,
        Some(first) if first <= last => bits(start, first) + (last - first) / size + bits(last, end),
        _ => {
            let middle = end & (u64::MAX << (start ^ end).ilog2());
            bits(start, middle) + bits(middle, end)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drawn::{each, order, pfn, sized};
    use proptest::prelude::Strategy;

    #[test]
    fn buddies_are_mutual_at_every_order() {
        let both = |pfn, order| {
            rounds(pfn, order);
            buddies(pfn, order);
            nests(pfn, order);
        };
        for pfn in (0..1 << 12).map(Pfn) {
            Order::ZERO.up_to(Order::MAX).for_each(|order| both(pfn, order));
        }
        each(100_000, &(pfn(), order()), |(pfn, order)| both(pfn, order));
    }

    #[test]
    fn a_range_is_cut_into_the_fewest_blocks() {
        for limit in Order::ZERO.up_to(Order::of(6)) {
            let mut known = [[None; 65]; 65];
            for (start, end) in (0..=64).flat_map(|start| (start..=64).map(move |end| (start, end))) {
                cuts(Pfn(start), Frames(end - start), limit);
                assert_eq!(fewest(start, end, limit), by_trying(start, end, limit, &mut known));
                if start < end {
                    is_largest(Pfn(start), Pfn(end), limit);
                }
            }
        }
    }

    /// Returns what [`fewest`] does, by trying every first block.
    fn by_trying(start: u64, end: u64, limit: Order, known: &mut [[Option<u64>; 65]; 65]) -> u64 {
        if start == end {
            return 0;
        }
        if let Some(n) = known[start as usize][end as usize] {
            return n;
        }
        let fits = |order: &Order| Pfn(start).is_aligned(*order) && start + order.frames().0 <= end;
        let after = |order: Order| 1 + by_trying(start + order.frames().0, end, limit, &mut *known);
        let n = Order::ZERO.up_to(limit).filter(fits).map(after).min().unwrap();
        known[start as usize][end as usize] = Some(n);
        n
    }

    #[test]
    fn wherever_a_range_lies_it_is_cut_into_the_fewest_blocks() {
        // At most 2^8 of the largest blocks.
        let ranges = (pfn(), order()).prop_flat_map(|(start, limit)| {
            let most = sized(u32::from(limit.get()) + 8);
            most.prop_map(move |frames| (start, Frames(frames.min(u64::MAX - start.0)), limit))
        });
        each(100_000, &ranges, |(start, frames, limit)| cuts(start, frames, limit));
    }

    #[test]
    fn no_larger_block_starts_at_a_frame() {
        let ranges = (pfn(), sized(64), order());
        each(100_000, &ranges, |(pfn, frames, limit)| {
            let end = Pfn(pfn.0.saturating_add(frames));
            if pfn < end {
                is_largest(pfn, end, limit);
            }
        });
    }
}

#[cfg(kani)]
mod proofs {
    use super::*;

    fn any_order() -> Order {
        let order = kani::any();
        kani::assume(order <= Order::MAX.get());
        Order::of(order)
    }

    #[kani::proof]
    fn blocks_round_to_their_order() {
        rounds(Pfn(kani::any()), any_order());
    }

    #[kani::proof]
    fn blocks_have_mutual_buddies() {
        buddies(Pfn(kani::any()), any_order());
    }

    #[kani::proof]
    #[kani::unwind(20)]
    fn blocks_nest() {
        nests(Pfn(kani::any()), any_order());
    }

    #[kani::proof]
    fn blocks_are_as_large_as_they_can_be() {
        let (pfn, end) = (Pfn(kani::any()), Pfn(kani::any()));
        kani::assume(pfn < end);
        is_largest(pfn, end, any_order());
    }

    /// Ranges of up to 16 frames, wherever they start.
    #[kani::proof]
    #[kani::unwind(17)]
    fn blocks_make_up_a_range() {
        let (start, frames): (u64, u64) = (kani::any(), kani::any());
        kani::assume(frames <= 16 && start <= u64::MAX - frames);
        cuts(Pfn(start), Frames(frames), any_order());
    }
}
