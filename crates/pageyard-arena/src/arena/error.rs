//! Why there is no arena.

use crate::backing::BackingError;
use crate::rseq::Unavailable;
use pageyard::MapError;
use thiserror::Error;

/// Why an arena could not be built.
#[derive(Clone, Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum ArenaError {
    /// The host refuses its memory.
    #[error(transparent)]
    Backing(#[from] BackingError),
    /// This process has no restartable sequences.
    #[error("{0}: build_locked() builds such an arena")]
    Sequences(Unavailable),
    /// The engine cannot manage so much, or its metadata found no memory.
    #[error("the arena's metadata: {0}")]
    Engine(#[from] MapError),
    /// No size was given.
    #[error("no size was given; call size() with at least one page")]
    NoSize,
}
