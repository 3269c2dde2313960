//! Why there is no result: one sentence each.

use super::agreement::Agreement;
use crate::harness::sampler::FEWEST;
use pageyard_replay::text::bytes;
use pageyard_trace::limits::Room;

/// The most samples. Each repetition makes the arrays' values 15 times as large, and an `f64` holds 261 of them.
pub const MOST_SAMPLES: usize = 249;

/// Why STREAM has no result.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum StreamError {
    /// Arrays of no element.
    #[error("arrays of 0 elements have nothing to measure; ask for at least 1")]
    NoElements,
    /// Arrays that no address space holds.
    #[error("three arrays of {elements} elements are more than a process can address; ask for fewer")]
    Uncountable {
        /// Elements of one array.
        elements: usize,
    },
    /// Arrays that this process may not have.
    #[error(
        "three arrays of {elements} elements need {} of memory, and {} leaves {}; ask for fewer --elements",
        bytes(*need), room.bound_by, bytes(room.bytes)
    )]
    NoRoom {
        /// Elements of one array.
        elements: usize,
        /// Bytes that the arrays and the process itself take.
        need: u64,
        /// What there is.
        room: Room,
    },
    /// Memory that seemed to be there was refused all the same.
    #[error("the arrays' {} were refused, by the host or by a limit of this process; ask for fewer --elements", bytes(*need))]
    Refused {
        /// Bytes of all arrays.
        need: u64,
    },
    /// Too few or too many samples.
    #[error(
        "{samples} samples are not possible: the best of fewer than {FEWEST} says little, and after {MOST_SAMPLES} the arrays' \
             values no longer fit their type; ask for --samples in between"
    )]
    Samples {
        /// What was asked for.
        samples: usize,
    },
    /// A thread ended before its work was done.
    #[error("a thread of the benchmark ended before its work was done, so there is no result; run it again")]
    Thread,
    /// The arrays do not hold what the operations come to.
    #[error(
        "the result is not valid, so no figure is shown: with {threads} thread{}, {wrong} of {elements} elements of array {} are \
         not {}, their average relative error being {:e}; check this machine's memory and processor before you trust it",
        if *threads == 1 { "" } else { "s" }, agreement.array, agreement.expected, agreement.average_relative_error,
        wrong = agreement.wrong_elements
    )]
    Invalid {
        /// Threads of the run.
        threads: usize,
        /// Elements of an array.
        elements: usize,
        /// How the first wrong array differs.
        agreement: Agreement,
    },
}
