//! Compaction: moving frames together so that large blocks become free. One driver for every engine.
//!
//! * [`CompactionView`] is its view of an engine, [`Migrate`] its view of the owner of the frames.
//! * [`Knobs`]: every technique can be turned on and off alone; [`ZoneState`]: what is remembered of a zone.
//! * [`Plan`]: what to achieve; [`fn@suitability`]: whether it is worth beginning; [`Compactor`]: doing it, a bounded step
//!   at a time.
//! * [`Work`], [`Outcome`]: what it did, and how it ended.
//! * [`fn@evacuate`]: moving everything out of a range.
//! * [`compact_for_request`] and [`compact_in_background`]: which zones, when, and when to hold off.
//!
//! Inside, from the bottom up:
//!
//! * What is given back when dropped: `cluster` (isolated frames), `targets` (free frames to move to, with their
//!   leases), `held` (free frames of the block being emptied), `source` (what is being emptied, with its lease).
//! * `job`: what does not change during a compaction, and the policy decisions that follow from it alone.
//! * `pass`: a compaction that has begun: positions, counts, and what the engine lent it. What it does in each phase:
//!   `migrate_scan` and `chosen` find frames to move, `moves` moves them, `free_scan` finds free frames for them.
//! * `driver`: the states and phases, and which follows which.
//!
//! The design, and how it differs from Linux: `docs/design/compaction.md`.

mod background;
mod chosen;
mod cluster;
mod direct;
mod driver;
mod evacuate;
mod free_scan;
mod held;
mod job;
mod knobs;
mod migrate;
mod migrate_scan;
mod moves;
mod pass;
mod plan;
mod source;
mod state;
mod suitability;
mod targets;
mod view;
mod work;

pub use background::{compact_everything, compact_in_background, forget_hints_if_asked};
pub use cluster::CLUSTER;
pub use direct::{Tried, compact_for_request};
pub use driver::{Compactor, Progress};
pub use evacuate::{Stuck, evacuate};
pub use knobs::{Deferral, KnobError, Knobs, Scope, Skip};
pub use migrate::{Busy, Migrate, MigrateError, Mode};
pub use plan::{Goal, Plan, block_end_pfn, block_start_pfn, pageblock_end_pfn, pageblock_start_pfn};
pub use state::ZoneState;
pub use suitability::{fragmentation_score, score_marks, suitability};
pub use view::{
    Choice, Chooser, CompactionView, Direct, FrameState, FreeScan, FreeStock, Holder, Lease, Leases,
    PageblockInfo, Role, ZoneView,
};
pub use work::{Outcome, Work};
