//! How fragmented memory is, as compaction ahead of need judges it; pure.

use crate::metrics::unusable_index;
use crate::units::{NR_ORDERS, PAGEBLOCK_ORDER};

/// Returns how fragmented memory with these free blocks by order is, in percent: the share of what is free that cannot
/// serve a huge page.
///
/// # Linux
/// `fragmentation_score_zone` (`extfrag_for_order`).
#[must_use]
pub fn fragmentation_score(free_blocks: &[u64; NR_ORDERS]) -> u64 {
    let unusable = unusable_index(free_blocks, PAGEBLOCK_ORDER.index());
    unusable.map_or(0, |u| (u * 100.0) as u64)
}

/// Returns the score at which proactive compaction stops, and the one above which it begins.
///
/// # Linux
/// `fragmentation_score_wmark`.
#[must_use]
pub fn score_marks(proactiveness: u8) -> (u64, u64) {
    let low = (100u64.saturating_sub(u64::from(proactiveness))).max(5);
    (low, (low + 10).min(100))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proactive_marks_are_ten_apart_and_never_below_five() {
        assert_eq!(score_marks(20), (80, 90));
        assert_eq!(score_marks(0), (100, 100));
        assert_eq!(score_marks(100), (5, 15));
    }
}
