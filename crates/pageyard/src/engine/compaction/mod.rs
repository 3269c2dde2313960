//! Compaction: the engine chooses what to empty by what it knows of its pageblocks, and scans nothing.
//!
//! From the bottom up:
//!
//! * `lease`: a pageblock in one compactor's use, as source or as target.
//! * `targets`: where frames go: the fullest pageblocks of the zone.
//! * `reached`: whether a compaction is worth beginning, and whether its goal is reached.
//! * `pass`: one compaction of a zone, up to a pageblock: the block that moves the fewest frames is emptied, and
//!   captured for the request that waits for it. `runs`: the same above a pageblock's order, where a run of pageblocks
//!   is taken out of allocation and emptied.
//! * `calls`: which zones, when, and when to hold off: for a request, in the background, and ahead of need.
//!
//! The design, and how it differs from Linux: `docs/design/compaction.md`.

mod calls;
mod lease;
mod pass;
mod reached;
mod runs;
mod targets;
