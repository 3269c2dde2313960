//! The largest of many.

use serde::Serialize;

/// The largest holders of memory, and what the others hold together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Largest<T> {
    /// The largest first; those that hold nothing are left out.
    pub largest: Vec<T>,
    /// How many others hold something.
    pub others: u64,
    /// The frames that the others hold.
    pub other_frames: u64,
}

impl<T> Largest<T> {
    /// How many are named.
    pub const MOST: usize = 10;

    /// Keeps the largest of `all`. Of two that hold the same, the first is kept first.
    pub(super) fn of(mut all: Vec<T>, frames: impl Fn(&T) -> u64) -> Largest<T> {
        all.retain(|one| frames(one) > 0);
        all.sort_by_key(|one| std::cmp::Reverse(frames(one)));
        let rest = all.split_off(all.len().min(Self::MOST));
        Largest {
            largest: all,
            others: rest.len() as u64,
            other_frames: rest.iter().map(frames).fold(0, u64::saturating_add),
        }
    }
}
