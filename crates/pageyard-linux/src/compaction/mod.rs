//! Compaction as Linux does it: two scanners, and what releases changed about them. Layer: settings, the lowest of
//! them: what it needs of the allocator, it gets through a trait.
//!
//! * [`CompactionView`] is its view of an allocator, [`Migrate`](pageyard_core::compaction::Migrate) its view of the
//!   owner of the frames.
//! * [`Knobs`]: every technique can be turned on and off alone; [`ZoneState`]: what is remembered of a zone.
//! * [`Plan`]: what to achieve; [`fn@suitability`]: whether it is worth beginning; [`Compactor`]: doing it, a bounded
//!   step at a time.
//! * [`compact_for_request`] and [`compact_for_order`], [`compact_ahead`]: which zones, when, and when to hold off.
//!
//! Inside, from the bottom up:
//!
//! * What is given back when dropped: `targets` (free frames to move to, in `held_frees`, with their leases), `moving`
//!   (isolated frames that are being moved), `held` (free frames of the block being emptied), `source` (the pageblock
//!   that is being emptied, with its lease).
//! * `round`: the way of both scanners through a zone; `positions`: where on it they begin.
//! * `job`: what does not change during a compaction, and the policy decisions that follow from it alone.
//! * `pass`: a compaction that has begun: positions, counts, and what the engine lent it. What it does in each phase:
//!   `migrate_scan` finds frames to move, `moves` moves them, `free_scan` finds free frames for them. `fast_source` and
//!   `fast_free` search the free lists before the two scanners move, with what `fast` remembers; `restraint` says when
//!   they hold back, `finish` decides when a pageblock that was begun is finished, `hints` how skip hints are left,
//!   `forget` how they are forgotten.
//! * `driver`: the states and phases, and which follows which.
//!
//! The design: `docs/design/compaction.md`.

mod background;
mod choices;
mod direct;
mod driver;
mod fast;
mod fast_free;
mod fast_source;
mod finish;
mod forget;
mod free_scan;
mod held;
mod held_frees;
mod hints;
mod job;
mod knobs;
mod migrate_scan;
mod moves;
mod moving;
mod pass;
mod plan;
mod positions;
mod restraint;
mod round;
mod source;
mod state;
mod suitability;
mod targets;
mod view;

pub use background::{
    compact_ahead, compact_everything, compact_for_order, compact_in_background, forget_hints_if_asked,
    is_worth_compacting,
};
pub use direct::{Tried, compact_for_request};
pub use driver::{Compactor, Progress};
pub use held_frees::HeldFrees;
pub use knobs::{
    ContendedLock, Deferral, FastSource, Finish, Hints, IsolatedLimit, Knobs, Marks, Moves, Pivot, Scope,
    Skip, TargetOrder, Yields,
};
pub use plan::{Goal, Plan, block_end_pfn, block_start_pfn, pageblock_end_pfn, pageblock_start_pfn};
pub use state::{AheadTurns, ZoneState};
pub(crate) use suitability::COSTLY;
pub use suitability::{room_to_begin, suitability};
pub use view::{
    CompactionView, Direct, FreeScan, Holder, Lease, Leases, ListEnd, PageblockInfo, Role, ZoneView,
};
