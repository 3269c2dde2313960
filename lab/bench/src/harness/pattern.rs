//! The order in which a batch is given back.

use serde::{Deserialize, Serialize};

/// The order in which a batch is given back.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Pattern {
    /// As it was taken.
    Fifo,
    /// The last one first.
    Lifo,
    /// At random, the same for every subject and sample.
    Shuffled,
}

impl Pattern {
    /// Every pattern.
    pub const ALL: [Pattern; 3] = [Pattern::Fifo, Pattern::Lifo, Pattern::Shuffled];

    /// The name of each.
    pub const NAMES: [&str; 3] = [Pattern::Fifo.name(), Pattern::Lifo.name(), Pattern::Shuffled.name()];

    /// Returns the name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Pattern::Fifo => "fifo",
            Pattern::Lifo => "lifo",
            Pattern::Shuffled => "shuffled",
        }
    }

    /// Returns the places of a batch in the order that they are given back.
    pub(crate) fn order(self, batch: usize) -> Vec<u32> {
        let mut order: Vec<u32> = (0..batch as u32).collect();
        match self {
            Pattern::Fifo => {}
            Pattern::Lifo => order.reverse(),
            Pattern::Shuffled => fastrand::Rng::with_seed(batch as u64).shuffle(&mut order),
        }
        order
    }
}
