//! The part of a report that only a replay in a kernel has.

use pageyard::{Counter, Pfn};
use pageyard_guest::exchange::Step;
use serde::Serialize;

/// The counters that a replay in a kernel keeps.
pub(super) const COUNTED: [Counter; 2] = [Counter::Extfrag, Counter::AllocSlow];

/// The part of a report that only a replay in a kernel has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct InKernel {
    /// The kernel's release.
    pub release: String,
    /// Managed frames of the recording for which the guest had none, because its kernel needs them itself: they are
    /// held for good.
    pub frames_not_mapped: u64,
    /// Blocks of the opening state that were not on the free list that they belong on.
    pub blocks_misplaced: u64,
    /// The reference in whose order the recorded lists were put.
    pub reference: &'static str,
    /// Requests that the reference, in the same opening and with the same calls, answered with the same frame.
    pub same_as_reference: u64,
    /// Requests.
    pub requests: u64,
    /// The first request that it answered otherwise, counted from 0; left out where there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_otherwise: Option<u64>,
    /// That request, and why it was; left out where there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parted: Option<Parted>,
    /// Its requests beside those of the first kernel of the replay; left out for that one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub beside: Option<Beside>,
    /// The answers that this comparison rests on.
    #[serde(skip)]
    pub answered: Answered,
}

/// The answers to requests: the step that asked, and its frame.
pub type Answered = Vec<(Step, Option<Pfn>)>;

/// How many requests two kernels answered with different frames. A kernel that needs frames itself which the other does
/// not need differs in those, too.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Beside {
    /// The other kernel.
    pub engine: String,
    /// Requests that got another frame than there.
    pub other_frame: u64,
    /// The first of them; left out where there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first: Option<FirstOther>,
}

/// The first request that two kernels answered with different frames.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FirstOther {
    /// Its number, counted from 0.
    pub number: u64,
    /// The request, in words.
    pub request: String,
    /// On which CPU.
    pub cpu: u16,
    /// Its frame here, by its number in the recording; null where it was refused.
    pub here: Option<u64>,
    /// Its frame there.
    pub there: Option<u64>,
}

/// The first request that a kernel and its reference answered with different frames.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Parted {
    /// The request, in words.
    pub request: String,
    /// On which CPU.
    pub cpu: u16,
    /// The kernel's frame, by its number in the recording; null where it refused.
    pub kernel: Option<u64>,
    /// The reference's.
    pub reference: Option<u64>,
    /// The counters that the reference moved for it.
    pub counters: Vec<&'static str>,
    /// The rule that explains it: set otherwise, alone, it makes the reference agree longest; null where none makes it
    /// agree longer.
    pub rule: Option<String>,
    /// Requests that agree then before the first that does not.
    pub same_with_rule: Option<u64>,
}
