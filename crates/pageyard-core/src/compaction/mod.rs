//! Moving frames: what every compaction shares, without a policy. Which frames move, and where to, each engine decides
//! by itself: two engines that chose alike would share a mistake.
//!
//! * [`Migrate`]: the owner of the frames; [`Mode`]: what a move may cost.
//! * [`Cluster`]: frames that were taken out of use, kept in a [`Room`].
//! * [`FrameState`]: what a compaction sees of a frame; [`Work`], [`Outcome`]: what it did, and how it ended; [`Step`]:
//!   what the reference tells its owner meanwhile.
//! * [`fragmentation_score`], [`score_marks`]: how fragmented memory is, for compaction ahead of need.

mod cluster;
mod frame;
mod migrate;
mod room;
mod score;
mod step;
mod work;

pub use cluster::{CLUSTER, Cluster, IsolatedBlock};
pub use frame::FrameState;
pub use migrate::{Busy, Listed, Migrate, MigrateError, Mode};
pub use room::{Room, Slots};
pub use score::{fragmentation_score, score_marks};
pub use step::Step;
pub use work::{Contention, Outcome, Work};
