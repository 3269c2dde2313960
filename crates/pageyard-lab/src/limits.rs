//! Refusing what would take more memory than this process may use, before it is asked for.

use crate::error::LabError;
use pageyard_trace::limits;

/// What a replay takes besides its tables: buffers of the reader, stacks, and the allocator's own slack.
const BESIDES: u64 = 48 << 20;

/// Refuses what needs more bytes than this process may still use.
///
/// # Errors
/// [`LabError::NoRoom`] says what there is, what sets the bound, and what to do `instead`.
pub(crate) fn check(what: &str, need: u64, instead: &'static str) -> Result<(), LabError> {
    let room = limits::memory();
    let need = need.saturating_add(BESIDES);
    match need > room.bytes {
        true => Err(LabError::NoRoom { what: what.to_owned(), need, room, instead }),
        false => Ok(()),
    }
}
