//! Memory of the host for frames: mapped, bound to a node, faulted in, given back.
//!
//! * `kind`: [`Backing`], what the memory is; [`PageSize`], the pages that the host maps it with.
//! * `mapping`: [`Mapping`], memory that is mapped while this lives; `faults`: faulting it in, and giving it back.
//! * `host`: what the host has, and which of its settings stand in the way; `error`: [`BackingError`], which names
//!   them.

mod error;
mod faults;
mod host;
mod kind;
mod mapping;

pub use error::BackingError;
pub use faults::Prefault;
pub use kind::{Backing, PageSize};
pub use mapping::Mapping;

#[cfg(test)]
mod tests;
