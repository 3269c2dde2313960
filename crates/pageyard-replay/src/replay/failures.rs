//! Counts of requests that an engine refused, or should have refused.

use pageyard::proctext::LINUX_ORDERS;
use pageyard::{AllocError, NR_ORDERS, Order};
use serde::{Serialize, Serializer};

/// Requests that the engine refused, or should have, and frames that it gave twice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Failures {
    /// Requests refused.
    #[serde(rename = "failed_allocs")]
    pub allocs: u64,
    /// The same by reason.
    #[serde(rename = "failed_by_reason")]
    pub by_reason: FailedByReason,
    /// The same by order.
    #[serde(rename = "failed_by_order", serialize_with = "linux_orders")]
    #[cfg_attr(feature = "schema", schemars(with = "Vec<u64>"))]
    pub by_order: [u64; NR_ORDERS],
    /// Requests refused here that the host served.
    pub refused_where_host_served: u64,
    /// Requests served here that the host refused.
    pub served_where_host_failed: u64,
    /// Blocks handed out while the replay held a part of them.
    pub double_allocations: u64,
    /// Frames of which that is true.
    #[serde(skip)]
    pub double_frames: u64,
    /// Frees that the engine refused.
    pub refused_frees: u64,
}

/// Requests refused, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FailedByReason {
    /// Bad requests.
    pub bad_request: u64,
    /// Refused to keep a reserve.
    pub below_watermark: u64,
    /// Refused for fragmentation.
    pub fragmented: u64,
    /// Refused for lack of memory.
    pub out_of_memory: u64,
}

fn linux_orders<S: Serializer>(by_order: &[u64; NR_ORDERS], serializer: S) -> Result<S::Ok, S::Error> {
    by_order[..LINUX_ORDERS].serialize(serializer)
}

impl Failures {
    /// Counts a refusal.
    pub(super) fn count(&mut self, order: Order, why: &AllocError) {
        self.allocs += 1;
        self.by_order[order.index()] += 1;
        *match why {
            AllocError::BadRequest(_) => &mut self.by_reason.bad_request,
            AllocError::BelowWatermark { .. } => &mut self.by_reason.below_watermark,
            AllocError::Fragmented { .. } => &mut self.by_reason.fragmented,
            AllocError::OutOfMemory => &mut self.by_reason.out_of_memory,
        } += 1;
    }

    /// Adds what another thread counted.
    pub(super) fn add(&mut self, other: &Failures) {
        for (mine, theirs) in [
            (&mut self.allocs, other.allocs),
            (&mut self.by_reason.bad_request, other.by_reason.bad_request),
            (&mut self.by_reason.below_watermark, other.by_reason.below_watermark),
            (&mut self.by_reason.fragmented, other.by_reason.fragmented),
            (&mut self.by_reason.out_of_memory, other.by_reason.out_of_memory),
            (&mut self.refused_where_host_served, other.refused_where_host_served),
            (&mut self.served_where_host_failed, other.served_where_host_failed),
            (&mut self.double_allocations, other.double_allocations),
            (&mut self.double_frames, other.double_frames),
            (&mut self.refused_frees, other.refused_frees),
        ] {
            *mine += theirs;
        }
        self.by_order.iter_mut().zip(other.by_order).for_each(|(mine, theirs)| *mine += theirs);
    }
}
