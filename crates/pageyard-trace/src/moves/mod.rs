//! `moves.parquet`: what compaction, migration and reclaim did while a trace was recorded.

mod reader;

pub use reader::MoveReader;

use crate::pq::{ColumnSpec, Kind, Names};

/// The file of a trace that holds them.
pub(crate) const MOVES: &str = "moves.parquet";

/// The kind of a move's event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum MoveKind {
    /// The content of the block at `pfn` is now at `to`.
    Move,
    /// The frames from `pfn` up to `to` were scanned for frames to move; `done` of `scanned` were taken.
    /// # Linux: `mm_compaction_isolate_migratepages`.
    IsolateMigrate,
    /// The frames from `pfn` up to `to` were scanned for free frames to move to; `done` of `scanned` were taken.
    /// # Linux: `mm_compaction_isolate_freepages`.
    IsolateFree,
    /// A call moved `done` frames and could not move `failed`. # Linux: `mm_migrate_pages`.
    Migrated,
    /// A compaction of a zone began, its scanners at `pfn` and `to`. # Linux: `mm_compaction_begin`.
    CompactBegin,
    /// It ended, its scanners at `pfn` and `to`. # Linux: `mm_compaction_end`.
    CompactEnd,
    /// The thread began to reclaim: for a request of its own, or as the background reclaimer of a node.
    /// # Linux: `mm_vmscan_direct_reclaim_begin`, `mm_vmscan_kswapd_wake`.
    ReclaimBegin,
    /// It ended; directly, with `done` frames. # Linux: `mm_vmscan_direct_reclaim_end`, `mm_vmscan_kswapd_sleep`.
    ReclaimEnd,
}

/// The names, in the order of [`MoveKind::ALL`].
const NAMES: [&str; 8] = [
    "move",
    "isolate_migrate",
    "isolate_free",
    "migrated",
    "compact_begin",
    "compact_end",
    "reclaim_begin",
    "reclaim_end",
];

impl MoveKind {
    /// Every kind, in the order of their numbers.
    pub const ALL: [MoveKind; 8] = [
        MoveKind::Move,
        MoveKind::IsolateMigrate,
        MoveKind::IsolateFree,
        MoveKind::Migrated,
        MoveKind::CompactBegin,
        MoveKind::CompactEnd,
        MoveKind::ReclaimBegin,
        MoveKind::ReclaimEnd,
    ];

    /// Returns the name that `moves.parquet` uses.
    #[must_use]
    pub const fn name(self) -> &'static str {
        NAMES[self as usize]
    }
}

/// One row of `moves.parquet`. What a kind does not say is 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Move {
    /// Nanoseconds since the recording started, on the clock of the events.
    pub time_ns: u64,
    /// The CPU on which it happened.
    pub cpu: u32,
    /// The thread, numbered as in the events.
    pub tid: u32,
    /// The kind of the event.
    pub kind: MoveKind,
    /// The first frame.
    pub pfn: u64,
    /// The frame that it went to, or the end of a range.
    pub to: u64,
    /// The order of the block that moved, or for which memory is reclaimed.
    pub order: u8,
    /// Frames looked at.
    pub scanned: u32,
    /// Frames taken, moved or reclaimed.
    pub done: u32,
    /// Frames that could not be moved.
    pub failed: u32,
}

/// Returns the columns.
pub(crate) fn columns() -> Vec<ColumnSpec> {
    let column = |name, kind| ColumnSpec { name, kind };
    vec![
        column("time_ns", Kind::Int(64, false)),
        column("cpu", Kind::Int(32, false)),
        column("tid", Kind::Int(32, false)),
        column("event", Kind::Names(Names::new(&NAMES))),
        column("pfn", Kind::Int(64, false)),
        column("to", Kind::Int(64, false)),
        column("order", Kind::Int(8, false)),
        column("scanned", Kind::Int(32, false)),
        column("done", Kind::Int(32, false)),
        column("failed", Kind::Int(32, false)),
    ]
}
