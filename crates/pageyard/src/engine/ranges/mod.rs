//! Ranges: frames by their numbers, in any pieces, whatever blocks they were allocated as.
//!
//! `find` says which live block has a frame; `split` cuts a live block at a frame; `free` frees a range, and `gathered`
//! is what it has won and not given back yet; `exact` allocates counts of frames that are no power of two, in one piece
//! or in several; `visit` takes free blocks out of allocation, one after another; `contig` empties and allocates a
//! range by its frame numbers, `cma` a part of an area that is lent to movable requests until then; `hotplug` takes
//! pageblocks offline and brings them online, and adds frames; `unaccepted` adds memory that is accepted later.
//!
//! Purpose and correctness of each: `docs/design/ranges.md`.

#[cfg(not(pageyard_loom))]
mod cma;
#[cfg(not(pageyard_loom))]
mod contig;
mod exact;
mod find;
mod free;
mod gathered;
#[cfg(not(pageyard_loom))]
mod hotplug;
mod split;
#[cfg(not(pageyard_loom))]
mod unaccepted;
mod visit;

#[cfg(not(pageyard_loom))]
pub use cma::CmaArea;
pub use visit::{Visit, Visited};
