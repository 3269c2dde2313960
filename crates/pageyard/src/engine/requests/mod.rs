//! The calls that allocate and free: one path for all requests, frees that are always checked, and many at a time.

pub(super) mod alloc;
pub(super) mod batches;
pub(super) mod bulk;
pub(super) mod free;
mod here;
mod origin;
#[cfg(not(pageyard_loom))]
pub(super) mod slow_path;
pub(super) mod win;
