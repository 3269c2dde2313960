//! An isolated pageblock, and how far its isolation is.

use pageyard::PageblockId;

/// An isolated pageblock.
pub(super) struct Isolation {
    pub(super) block: PageblockId,
    pub(super) state: State,
    /// Where threads drain only their own lists: the request to do so that followed the isolation. A free that began
    /// before it has ended when its thread drains.
    pub(super) request: u64,
}

/// How far an isolation is.
pub(super) enum State {
    /// Lists may still hold frames of it.
    Draining(u32),
    /// Nothing of it can be handed out any more, until this time.
    Closed(u64),
}
