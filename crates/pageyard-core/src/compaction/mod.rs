//! Compaction: moving frames together so that large blocks become free. One driver for every engine.
//!
//! * [`CompactionView`] is its view of an engine, [`Migrate`] its view of the owner of the frames.
//! * [`Knobs`]: every technique can be turned on and off alone; [`ZoneState`]: what is remembered of a zone.
//! * [`Plan`]: what to achieve; [`fn@suitability`]: whether it is worth beginning; [`Compactor`]: doing it, a bounded
//!   step at a time.
//! * [`Work`], [`Outcome`]: what it did, and how it ended; [`Step`]: what it tells its owner meanwhile.
//! * [`Room`], [`Stock`]: where an engine lets it keep what it holds.
//! * [`fn@evacuate`]: moving everything out of a range.
//! * [`compact_for_request`] and [`compact_in_background`]: which zones, when, and when to hold off;
//!   [`compact_for_order`] and [`compact_ahead`]: the same for an engine whose background compactor goes by node.
//!
//! Inside, from the bottom up:
//!
//! * What is given back when dropped: `cluster` (isolated frames), `moving` (those that are being moved), `targets` (free frames to move to, with their
//!   leases), `held` (free frames of the block being emptied), `source` (what is being emptied, with its lease).
//! * `round`: the way of both scanners through a zone; `positions`: where on it they begin.
//! * `job`: what does not change during a compaction, and the policy decisions that follow from it alone.
//! * `pass`: a compaction that has begun: positions, counts, and what the engine lent it. What it does in each phase:
//!   `migrate_scan` and `chosen` find frames to move, `moves` moves them, `free_scan` finds free frames for them.
//!   `fast_source` and `fast_free` search the free lists before the two scanners move, with what `fast` remembers;
//!   `restraint` says when they hold back, `finish` decides when a pageblock that was begun is finished, `hints` how
//!   skip hints are left, `forget` how they are forgotten.
//! * `driver`: the states and phases, and which follows which.
//!
//! The design, and how it differs from Linux: `docs/design/compaction.md`.

mod background;
mod choices;
mod chosen;
mod cluster;
mod direct;
mod driver;
mod evacuate;
mod fast;
mod fast_free;
mod fast_source;
mod finish;
mod forget;
mod free_scan;
mod held;
mod hints;
mod job;
mod knobs;
mod migrate;
mod migrate_scan;
mod moves;
mod moving;
mod pass;
mod plan;
mod positions;
mod restraint;
mod room;
mod round;
mod score;
mod source;
mod state;
mod step;
mod stock;
mod suitability;
mod targets;
mod view;
mod work;

pub use background::{
    compact_ahead, compact_everything, compact_for_order, compact_in_background, forget_hints_if_asked,
    is_worth_compacting,
};
pub use cluster::{CLUSTER, Cluster, Isolated};
pub use direct::{Tried, compact_for_request};
pub use driver::{Compactor, Progress};
pub use evacuate::{Stuck, evacuate};
pub use knobs::{
    Deferral, FastSource, Finish, Hints, IsolatedLimit, Knobs, Marks, Moves, Pivot, Scope, Skip, TargetOrder,
    Yields,
};
pub use migrate::{Busy, Listed, Migrate, MigrateError, Mode};
pub use plan::{Goal, Plan, block_end_pfn, block_start_pfn, pageblock_end_pfn, pageblock_start_pfn};
pub use room::{Room, Slots};
pub use score::{fragmentation_score, score_marks};
pub use state::{AheadTurns, ZoneState};
pub use step::Step;
pub use stock::{FreeStock, Stock};
pub use suitability::{room_to_begin, suitability};
pub use view::{
    Choice, Chooser, CompactionView, Direct, FrameState, FreeScan, Holder, Lease, Leases, ListEnd,
    PageblockInfo, Role, ZoneView,
};
pub use work::{Outcome, Work};
