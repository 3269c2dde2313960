//! Totals of compaction and migration.

use crate::error::TraceError;
use crate::moves::{MoveKind, MoveReader};

/// Totals of compaction and migration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moved {
    /// Rows by [`MoveKind`].
    pub by_kind: [u64; MoveKind::ALL.len()],
    /// Frames of the moves that name both frames.
    pub frames: u64,
    /// Frames that migration moved, by its own count.
    pub migrated: u64,
    /// Frames that could not be moved.
    pub failed: u64,
    /// Frames looked at for something to move.
    pub migrate_scanned: u64,
    /// Of those, the frames taken.
    pub migrate_isolated: u64,
    /// Frames looked at for room to move to.
    pub free_scanned: u64,
    /// Of those, the frames taken.
    pub free_isolated: u64,
}

impl Moved {
    /// Counts to the end of the file.
    pub(super) fn of(mut reader: MoveReader) -> Result<Moved, TraceError> {
        let mut moved = Moved::default();
        let mut rows = Vec::new();
        while reader.next_batch(&mut rows)? {
            for row in &rows {
                moved.by_kind[row.kind as usize] += 1;
                let [scanned, done, failed] = [row.scanned, row.done, row.failed].map(u64::from);
                match row.kind {
                    MoveKind::Move => moved.frames += 1 << row.order,
                    MoveKind::Migrated => {
                        moved.migrated += done;
                        moved.failed += failed;
                    }
                    MoveKind::IsolateMigrate => {
                        moved.migrate_scanned += scanned;
                        moved.migrate_isolated += done;
                    }
                    MoveKind::IsolateFree => {
                        moved.free_scanned += scanned;
                        moved.free_isolated += done;
                    }
                    MoveKind::CompactBegin | MoveKind::CompactEnd => {}
                }
            }
        }
        Ok(moved)
    }

    /// Returns how many rows are of `kind`.
    #[must_use]
    pub fn rows(&self, kind: MoveKind) -> u64 {
        self.by_kind[kind as usize]
    }
}
