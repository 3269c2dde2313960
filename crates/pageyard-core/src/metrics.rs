//! Fragmentation, measured as the field measures it: one definition each.
//!
//! `free_blocks` is a row of `/proc/buddyinfo`: free blocks by order, order 0 first.

use crate::units::PAGEBLOCK_ORDER;

/// Returns the free frames in a row of free blocks.
#[must_use]
pub fn free_frames(free_blocks: &[u64]) -> u64 {
    free_blocks.iter().enumerate().map(|(order, n)| n << order).sum()
}

/// Returns how many blocks of `order` the row could serve at once.
///
/// # Linux
/// `free_blocks_suitable` of `fill_contig_page_info`.
#[must_use]
pub fn suitable_blocks(free_blocks: &[u64], order: usize) -> u64 {
    free_blocks.iter().enumerate().skip(order).map(|(o, n)| n << (o - order)).sum()
}

/// Returns the share of free memory that cannot serve a request of `order`: 0 all can, 1 none.
///
/// `None` where nothing is free.
///
/// # Linux
/// `unusable_free_index` (debugfs `extfrag/unusable_index`), there in thousandths, and 1 where nothing is free.
/// Source: Gorman and Whitcroft, *The What, The Why and the Where To of Anti-Fragmentation*, 2006.
#[must_use]
pub fn unusable_index(free_blocks: &[u64], order: usize) -> Option<f64> {
    let free = free_frames(free_blocks);
    let usable = suitable_blocks(free_blocks, order) << order;
    (free > 0).then(|| (free - usable) as f64 / free as f64)
}

/// Returns whether a request of `order` fails for lack of memory (towards 0) or for fragmentation (towards 1).
///
/// `None` where it would not fail, or where nothing is free: there the question has no answer.
///
/// # Linux
/// `fragmentation_index` (debugfs `extfrag/extfrag_index`), there in thousandths, -1 where it would not fail, and 0
/// where nothing is free.
#[must_use]
pub fn extfrag_index(free_blocks: &[u64], order: usize) -> Option<f64> {
    let blocks: u64 = free_blocks.iter().sum();
    if blocks == 0 || suitable_blocks(free_blocks, order) > 0 {
        return None;
    }
    // Linux divides integers; so do we, so that the values compare to the last digit.
    let requested = 1u64 << order;
    let thousandths = 1000 - ((1000 + free_frames(free_blocks) * 1000 / requested) / blocks) as i64;
    Some(thousandths as f64 / 1000.0)
}

/// Returns the free huge frames (order 9) as a share of those that the free memory could make: 1 is the optimum.
///
/// `None` where less than one huge frame is free.
#[must_use]
pub fn free_huge_share(free_blocks: &[u64]) -> Option<f64> {
    let order = PAGEBLOCK_ORDER.index();
    let best = free_frames(free_blocks) >> order;
    (best > 0).then(|| suitable_blocks(free_blocks, order) as f64 / best as f64)
}

/// Returns how far two rows of counts are apart: 0 alike, 1 nothing in common; `None` where both are empty.
///
/// The Bray-Curtis dissimilarity, sum of differences over sum of counts. Source: Bray and Curtis, 1957.
pub fn distance(pairs: impl Iterator<Item = (u64, u64)>) -> Option<f64> {
    let (apart, all) = pairs.fold((0u64, 0u64), |(d, s), (a, b)| (d + a.abs_diff(b), s + a + b));
    (all > 0).then(|| apart as f64 / all as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_and_suitable_blocks() {
        let row = [3, 0, 1, 2];
        assert_eq!(free_frames(&row), 3 + 4 + 16);
        assert_eq!(suitable_blocks(&row, 2), 1 + 4);
        assert_eq!(suitable_blocks(&row, 9), 0);
    }

    #[test]
    fn unusable_is_zero_when_all_is_large_and_one_when_all_is_small() {
        assert_eq!(unusable_index(&[0, 0, 5], 2), Some(0.0));
        assert_eq!(unusable_index(&[5, 0, 0], 2), Some(1.0));
        assert_eq!(unusable_index(&[0, 0, 0], 2), None);
    }

    #[test]
    fn extfrag_tells_fragmentation_from_lack_of_memory() {
        assert_eq!(extfrag_index(&[1000], 2), Some(0.749));
        assert_eq!(extfrag_index(&[1], 2), Some(-0.25), "Linux's arithmetic goes below zero too");
        assert_eq!(extfrag_index(&[0, 0, 1], 2), None, "it would succeed");
        assert_eq!(extfrag_index(&[0], 2), None);
    }

    #[test]
    fn distance_is_a_share() {
        assert_eq!(distance([(1, 1), (5, 5)].into_iter()), Some(0.0));
        assert_eq!(distance([(1, 0), (0, 5)].into_iter()), Some(1.0));
        assert_eq!(distance([(3, 1)].into_iter()), Some(0.5));
        assert_eq!(distance([(0, 0)].into_iter()), None);
    }

    #[test]
    fn huge_share_counts_larger_blocks_as_several() {
        let mut row = [0u64; 11];
        row[10] = 1;
        row[0] = 1024;
        assert_eq!(free_huge_share(&row), Some(0.5));
        assert_eq!(free_huge_share(&[511]), None);
    }
}
