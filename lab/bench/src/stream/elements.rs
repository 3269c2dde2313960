//! How long the arrays are, and whether there is memory for them.

use super::error::StreamError;
use super::kernel::ELEMENT_BYTES;
use pageyard_trace::limits::{self, Room};

/// The elements of one array: at least one, and so few that the bytes of three arrays can be counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Elements(usize);

/// Arrays of the benchmark.
pub(super) const ARRAYS: u64 = 3;

/// Bytes that the process takes beside the arrays: threads' stacks, and the allocator's own slack.
const BESIDES: u64 = 32 << 20;

impl Elements {
    /// The original's ten million, and the published tables'.
    pub const PUBLISHED: Elements = Elements(10_000_000);

    /// Takes a length.
    ///
    /// # Errors
    /// [`StreamError::NoElements`] for 0, [`StreamError::Uncountable`] for more than an address space can hold.
    pub fn new(elements: usize) -> Result<Elements, StreamError> {
        let bytes = (elements as u64).checked_mul(ELEMENT_BYTES * ARRAYS).filter(|n| *n <= isize::MAX as u64);
        match (elements, bytes) {
            (0, _) => Err(StreamError::NoElements),
            (_, None) => Err(StreamError::Uncountable { elements }),
            _ => Ok(Elements(elements)),
        }
    }

    /// Returns the number.
    #[must_use]
    pub const fn get(self) -> usize {
        self.0
    }

    /// Returns the bytes of one array.
    #[must_use]
    pub const fn array_bytes(self) -> u64 {
        self.0 as u64 * ELEMENT_BYTES
    }

    /// Returns the bytes of all three arrays.
    #[must_use]
    pub const fn all_bytes(self) -> u64 {
        ARRAYS * self.array_bytes()
    }

    /// Returns how many of the elements the thread with this number has: parts that differ by one element at most.
    pub(super) fn share(self, threads: usize, thread: usize) -> usize {
        self.0 / threads + usize::from(thread < self.0 % threads)
    }

    /// Refuses arrays that need more memory than this process may still use.
    pub(super) fn check_room(self) -> Result<(), StreamError> {
        self.check(limits::memory())
    }

    fn check(self, room: Room) -> Result<(), StreamError> {
        let need = self.all_bytes().saturating_add(BESIDES);
        if need > room.bytes {
            return Err(StreamError::NoRoom { elements: self.0, need, room });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pageyard_trace::limits::BoundBy;

    #[test]
    fn lengths_that_mean_nothing_are_refused() {
        assert!(matches!(Elements::new(0), Err(StreamError::NoElements)));
        for many in [usize::MAX, usize::MAX / 24 + 1, isize::MAX as usize / 24 + 1] {
            assert!(matches!(Elements::new(many), Err(StreamError::Uncountable { .. })), "{many}");
        }
        assert_eq!(Elements::new(10_000_000), Ok(Elements::PUBLISHED));
        assert_eq!(
            (Elements::PUBLISHED.array_bytes(), Elements::PUBLISHED.all_bytes()),
            (80_000_000, 240_000_000)
        );
    }

    #[test]
    fn parts_are_even_and_leave_nothing_out() {
        for (elements, threads) in [(1, 4), (7, 3), (10_000_000, 56), (64, 64)] {
            let elements = Elements::new(elements).unwrap();
            let parts: Vec<usize> = (0..threads).map(|thread| elements.share(threads, thread)).collect();
            assert_eq!(parts.iter().sum::<usize>(), elements.get(), "{parts:?}");
            assert!(parts.iter().max().unwrap() - parts.iter().min().unwrap() <= 1, "{parts:?}");
        }
    }

    #[test]
    fn what_does_not_fit_is_refused_by_what_bounds_it() {
        let room = |bytes| Room { bytes, bound_by: BoundBy::Cgroup };
        assert_eq!(Elements::PUBLISHED.check(room(1 << 30)), Ok(()));
        let why = Elements::PUBLISHED.check(room(240_000_000)).unwrap_err().to_string();
        assert!(why.contains("cgroup") && why.contains("--elements"), "{why}");
    }
}
