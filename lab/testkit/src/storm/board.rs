//! The blocks that threads contest in a stretch, and who won each.

use super::fault::{Faults, Rule};
use pageyard::BlockId;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};
use std::sync::{Mutex, OnceLock, PoisonError};

/// A contested block.
pub(super) struct Entry {
    pub(super) block: BlockId,
    /// Whether it holds zeros.
    pub(super) zeroed: bool,
    /// Calls that succeeded.
    pub(super) wins: AtomicU32,
    /// Whether a split did: the parts have an owner then.
    pub(super) split: AtomicBool,
}

/// The contested blocks of one stretch.
#[derive(Default)]
pub(super) struct Board {
    given: Mutex<Vec<(BlockId, bool)>>,
    entries: OnceLock<Vec<Entry>>,
}

impl Board {
    /// Puts blocks up, each with whether it holds zeros.
    pub(super) fn put_up(&self, blocks: Vec<(BlockId, bool)>) {
        self.given.lock().unwrap_or_else(PoisonError::into_inner).extend(blocks);
    }

    /// Returns the blocks, once every thread has put up its own.
    pub(super) fn entries(&self) -> &[Entry] {
        self.entries.get_or_init(|| {
            let given = std::mem::take(&mut *self.given.lock().unwrap_or_else(PoisonError::into_inner));
            let entry = |(block, zeroed)| Entry {
                block,
                zeroed,
                wins: AtomicU32::new(0),
                split: AtomicBool::new(false),
            };
            given.into_iter().map(entry).collect()
        })
    }

    /// Sees that each block was freed or split once.
    pub(super) fn judge(&self, faults: &Faults) {
        if faults.any() {
            return;
        }
        for entry in self.entries() {
            let wins = entry.wins.load(SeqCst);
            if wins != 1 {
                faults.say(Rule::Contest, None, Some(entry.block.pfn.0), || {
                    format!("{} of all frees and splits of {:?} succeeded", wins, entry.block)
                });
            }
        }
    }
}
