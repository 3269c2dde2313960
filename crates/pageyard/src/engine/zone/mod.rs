//! A zone: how blocks are claimed of its pageblocks and released to them.

#[cfg(not(loom))]
pub(super) mod choose;
pub(super) mod claims;
pub(super) mod high;
pub(super) mod hints;
pub(super) mod pageblocks;
pub(super) mod steal;
pub(super) mod wholes;
