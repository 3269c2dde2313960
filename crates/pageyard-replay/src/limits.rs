//! Refusing work that would need more memory than this process may use, before it is requested.

use crate::error::ReplayError;
use pageyard_trace::limits;

/// The memory that a replay takes besides its tables: buffers of the reader, stacks, and the allocator's own slack.
const BESIDES: u64 = 48 << 20;

/// Returns how many bytes this process may use beside a replay with tables of `need` bytes.
pub(crate) fn left_beside(need: u64) -> u64 {
    limits::memory().bytes.saturating_sub(need.saturating_add(BESIDES))
}

/// Refuses work that needs more bytes than this process may still use.
///
/// # Errors
/// [`ReplayError::NoRoom`] says what is available, what sets the bound, and what to do `instead`.
pub(crate) fn check(what: &str, need: u64, instead: &'static str) -> Result<(), ReplayError> {
    let room = limits::memory();
    let need = need.saturating_add(BESIDES);
    match need > room.bytes {
        true => Err(ReplayError::NoRoom { what: what.to_owned(), need, room, instead }),
        false => Ok(()),
    }
}
