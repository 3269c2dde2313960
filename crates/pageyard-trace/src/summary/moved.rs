//! Totals of compaction and migration.

use crate::error::TraceError;
use crate::moves::{MoveKind, MoveReader};
use serde::{Serialize, Serializer};

/// Totals of compaction and migration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Moved {
    /// Rows by kind.
    #[serde(rename = "rows", serialize_with = "by_name")]
    #[cfg_attr(feature = "schema", schemars(with = "std::collections::BTreeMap<String, u64>"))]
    pub by_kind: [u64; MoveKind::ALL.len()],
    /// Frames in the moves of which both frames are known.
    #[serde(rename = "frames_moved_with_both_known")]
    pub frames: u64,
    /// Frames that migration moved, by its own count.
    #[serde(rename = "frames_moved")]
    pub migrated: u64,
    /// Frames that could not be moved.
    #[serde(rename = "frames_not_moved")]
    pub failed: u64,
    /// Frames that compaction looked at for something to move.
    #[serde(rename = "compact_migrate_scanned")]
    pub migrate_scanned: u64,
    /// Of those, frames taken.
    #[serde(rename = "compact_migrate_isolated")]
    pub migrate_isolated: u64,
    /// Frames that compaction looked at for room to move to.
    #[serde(rename = "compact_free_scanned")]
    pub free_scanned: u64,
    /// Of those, frames taken.
    #[serde(rename = "compact_free_isolated")]
    pub free_isolated: u64,
}

fn by_name<S: Serializer>(by_kind: &[u64], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(MoveKind::ALL.iter().map(|kind| (kind.name(), by_kind[*kind as usize])))
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
                    MoveKind::CompactBegin
                    | MoveKind::CompactEnd
                    | MoveKind::ReclaimBegin
                    | MoveKind::ReclaimEnd => {}
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
