//! This host's physical memory now.

mod answer;
mod collect;
mod culprits;
mod document;
mod kpageflags;
mod pageblocks;
mod text;

pub use answer::Answer;
pub use collect::{HostSummary, HostZone, Watermarks};
pub use culprits::{Culprit, Culprits};
pub use document::{HostDocument, ZonePageblocks};
pub use kpageflags::{BuddyMarks, Capture, capture};
pub use pageblocks::{Pageblocks, Spoiler};
