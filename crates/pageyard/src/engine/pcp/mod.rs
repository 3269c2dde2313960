//! Per-CPU pages: lists of free blocks, how each is kept to one user at a time, and the memory in which blocks are
//! sorted on their way to a zone. Nothing here knows of zones: items come and go as numbers, one or a batch at a time.

pub(super) mod bias_asks;
pub(super) mod list;
pub(super) mod lists;
#[cfg(feature = "percpu-impl")]
pub(super) mod loose;
pub(super) mod percpu;
pub(super) mod runs;
pub(super) mod scratch;
pub(super) mod tuning;
