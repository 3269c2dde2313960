//! The judge: the same operations in a real kernel and in the reference, compared frame by frame.
//!
//! | layer | files |
//! |---|---|
//! | what is done | [`operation`]: operations and answers; [`steps`]: what compaction does on its way; [`stream`]: random streams |
//! | the kernel | [`kernel_state`]: the state that a guest writes down; [`exchange`]: how a stream and its answers pass; [`guest`]: a stock kernel that is booted for one stream |
//! | the comparison | [`settings`]: what both are given; [`mod@reference`]: the reference in a kernel's state; [`verdict`]: what differs first; [`recording`]: a ruling in a file; [`vectors`]: the same as text; [`report`]: several comparisons together |

pub mod exchange;
pub mod guest;
pub mod kernel_state;
pub mod operation;
pub mod recording;
pub mod reference;
pub mod report;
pub mod settings;
pub mod steps;
pub mod stream;
pub mod vectors;
pub mod verdict;
