//! How many frames reclaim looked at since something was freed: what tells an unreclaimable zone or node. Layer:
//! values.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

// ORDER: Relaxed throughout this file: counts steer policy and order nothing.

/// How often all that is reclaimable must have been looked at before it counts as unreclaimable.
const TIMES: u64 = 6;

/// Frames that reclaim looked at since the last frame came back to the zone, or to any zone of the node.
///
/// # Linux
/// `NR_PAGES_SCANNED` (until 4.11), which every free to a zone sets back. Frees do not know of it here: what was freed
/// so far is compared whenever this is read.
#[derive(Default)]
pub struct Scans {
    since: AtomicU64,
    freed: AtomicU64,
}

impl Scans {
    /// Adds frames that were looked at. `freed` is how many frames have come back to the zones so far.
    pub fn note(&self, scanned: u64, freed: u64) {
        let in_vain = self.freed.swap(freed, Relaxed) == freed;
        self.since.store(if in_vain { self.since.load(Relaxed) + scanned } else { 0 }, Relaxed);
    }

    /// Returns whether all that is reclaimable was looked at six times in vain.
    ///
    /// # Linux
    /// `zone_reclaimable`, `pgdat_reclaimable`, negated.
    pub fn in_vain(&self, freed: u64, reclaimable: u64) -> bool {
        let since = if self.freed.load(Relaxed) == freed { self.since.load(Relaxed) } else { 0 };
        since >= reclaimable.saturating_mul(TIMES)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn six_looks_at_everything_in_vain_are_enough_and_a_free_begins_anew() {
        let scans = Scans::default();
        assert!(!scans.in_vain(7, 10), "nothing was looked at");
        scans.note(0, 7);
        scans.note(59, 7);
        assert!(!scans.in_vain(7, 10));
        scans.note(1, 7);
        assert!(scans.in_vain(7, 10));
        assert!(!scans.in_vain(8, 10), "a frame came back");
        scans.note(100, 8);
        assert!(!scans.in_vain(8, 10), "it came back while these were looked at");
        assert!(scans.in_vain(8, 0), "where there is nothing, there is nothing to look at");
    }
}
