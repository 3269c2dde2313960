//! What the page allocator needs of Linux.
//!
//! * [`rseq`]: per-CPU lists without lock or mask, by restartable sequences.

pub mod rseq;
