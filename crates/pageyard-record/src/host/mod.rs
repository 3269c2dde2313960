//! This host's physical memory now.

mod allocinfo;
mod answer;
mod asked;
mod collect;
mod compactable;
mod counted;
mod culprits;
mod document;
mod free_lists;
mod kpageflags;
mod largest;
mod questions;
mod slabinfo;
mod snapshot_cost;
mod stacks;
mod text;
mod vmallocinfo;

pub use allocinfo::AllocationSite;
pub use answer::Answer;
pub use asked::AskedFor;
pub use collect::{HostSummary, HostTotals, HostZone, Watermarks};
pub use compactable::Compactable;
pub use culprits::{Culprit, Culprits};
pub use document::{CompactableDocument, HostDocument};
pub use free_lists::{Lists, lists};
pub use kpageflags::{BuddyMarks, Capture, capture};
pub use largest::Largest;
pub use pageyard_trace::{Pageblocks, Spoiler, ZonePageblocks};
pub use questions::HostAnswers;
pub(crate) use questions::{pageblocks_now, settings};
pub use slabinfo::SlabCache;
pub use snapshot_cost::snapshot_cost_now;
pub use stacks::{PAGE_OWNER, StackDocument, StackShare, Stacks, StacksDocument};
pub use vmallocinfo::VmallocCaller;
