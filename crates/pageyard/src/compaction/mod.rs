//! Compaction: moving frames together so that large blocks become free. One driver for every engine.
//!
//! * [`FrameMap`] is what it sees of an engine, [`Migrate`] of the owner of the frames.
//! * [`Knobs`]: every technique can be turned on and off alone; [`ZoneState`]: what is remembered of a zone.
//! * [`Work`], [`Outcome`]: what it did, and how it ended.
//!
//! The design, and how it differs from Linux: `docs/design/compaction.md`.

mod frame_map;
mod knobs;
mod migrate;
mod state;
mod work;

pub use frame_map::{
    Direct, FrameMap, FrameState, FreeScan, FreeStock, Holder, Lease, Leases, PageblockInfo, Role, ZoneView,
};
pub use knobs::{Deferral, KnobError, Knobs, Scope, Skip};
pub use migrate::{Busy, Migrate, MigrateError, Mode};
pub use state::ZoneState;
pub use work::{Outcome, Work};
