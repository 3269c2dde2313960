//! What a call returns, and its text.

use pageyard::{AllocError, BadRequest, FirmwareError, FreeError, RangeFault};
use std::cell::RefCell;
use std::ffi::{CStr, c_char};

/// The outcome of a call.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Error {
    /// It is done.
    Ok = 0,
    /// A pointer is null.
    Null,
    /// The handle is of nothing: it was never made, or was deleted.
    Handle,
    /// A size is zero, or too large for any request.
    Size,
    /// An address is not page-aligned, or an alignment or a smallest block is no power of two or too large.
    Misaligned,
    /// An argument has a value that this call does not accept, such as an unknown backing.
    Argument,
    /// There is no CPU of that number.
    Cpu,
    /// Memory is free, and kept back from this request.
    BelowWatermark,
    /// Enough memory is free, but not in one piece.
    Fragmented,
    /// There is not enough free memory.
    OutOfMemory,
    /// A page is not allocated: it was freed before, or never allocated.
    NotAllocated,
    /// A page lies outside the arena or the engine.
    Outside,
    /// The host refused, or no engine can be made this way; pageyard_last_error says why, and what to change.
    Refused,
    /// A limit is reached: 1,024 arenas, 1,024 engines, or 64 ranges in one engine.
    TooMany,
    /// This process is a child of a fork, where an arena hands nothing out and takes nothing back.
    Forked,
    /// Another call is splitting the page, or was stopped in the middle of that; the page is still allocated.
    Busy,
}

impl Error {
    const fn text(self) -> &'static CStr {
        match self {
            Error::Ok => c"done",
            Error::Null => c"a pointer is null",
            Error::Handle => c"there is no such arena or engine: it was never made, or was deleted",
            Error::Size => c"a size is zero, or too large for any request",
            Error::Misaligned => {
                c"an address is not page-aligned, or an alignment or a smallest block is no power of two or too large"
            }
            Error::Argument => c"an argument has a value that this call does not accept",
            Error::Cpu => c"there is no CPU of that number",
            Error::BelowWatermark => c"the free memory is kept back from this request",
            Error::Fragmented => c"enough memory is free, but not in one piece",
            Error::OutOfMemory => c"there is not enough free memory",
            Error::NotAllocated => c"a page is not allocated: it was freed before, or never allocated",
            Error::Outside => c"a page lies outside the arena or the engine",
            Error::Refused => c"refused: pageyard_last_error says why",
            Error::TooMany => c"a limit is reached: 1,024 arenas, 1,024 engines, or 64 ranges in one engine",
            Error::Forked => c"this process is a child of a fork, where an arena does nothing",
            Error::Busy => c"another call is splitting the page: free it, or its parts, later",
        }
    }

    /// Every error, by its number.
    pub(crate) const ALL: [Error; 16] = [
        Error::Ok,
        Error::Null,
        Error::Handle,
        Error::Size,
        Error::Misaligned,
        Error::Argument,
        Error::Cpu,
        Error::BelowWatermark,
        Error::Fragmented,
        Error::OutOfMemory,
        Error::NotAllocated,
        Error::Outside,
        Error::Refused,
        Error::TooMany,
        Error::Forked,
        Error::Busy,
    ];

    /// Returns the number of a call's outcome.
    pub(crate) fn of(done: Result<(), Error>) -> Error {
        done.err().unwrap_or(Error::Ok)
    }

    /// Notes the reason, for [`pageyard_last_error`].
    pub(crate) fn refused(self, why: impl ToString) -> Error {
        // A thread that is ending may have dropped it.
        let _ = LAST.try_with(|last| last.try_borrow_mut().map(|mut last| *last = why.to_string()));
        self
    }
}

impl From<AllocError> for Error {
    fn from(why: AllocError) -> Error {
        match why {
            AllocError::BadRequest(why) => why.into(),
            AllocError::BelowWatermark { .. } => Error::BelowWatermark,
            AllocError::Fragmented { .. } => Error::Fragmented,
            AllocError::OutOfMemory => Error::OutOfMemory,
        }
    }
}

impl From<BadRequest> for Error {
    fn from(why: BadRequest) -> Error {
        match why {
            BadRequest::NoSuchCpu => Error::Cpu,
            BadRequest::OrderTooLarge { .. } | BadRequest::Size { .. } => Error::Size,
            _ => Error::Argument,
        }
    }
}

impl From<FreeError> for Error {
    fn from(why: FreeError) -> Error {
        match why {
            FreeError::OutsideArena => Error::Outside,
            FreeError::Misaligned => Error::Misaligned,
            FreeError::NoSuchCpu => Error::Cpu,
            FreeError::Busy => Error::Busy,
            _ => Error::NotAllocated,
        }
    }
}

impl From<RangeFault> for Error {
    fn from(why: RangeFault) -> Error {
        match why {
            RangeFault::Free(why) => why.into(),
            RangeFault::Empty => Error::Size,
            _ => Error::Outside,
        }
    }
}

impl From<FirmwareError> for Error {
    fn from(why: FirmwareError) -> Error {
        let kind = match why {
            FirmwareError::EmptyRange { .. } | FirmwareError::NothingUsable => Error::Size,
            FirmwareError::TooMany { .. } => Error::TooMany,
            _ => Error::Refused,
        };
        kind.refused(why)
    }
}

thread_local! {
    /// The reason for this thread's last refusal.
    static LAST: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Returns the English text of an error code: a static string, never null, even for an unknown code.
#[unsafe(no_mangle)]
pub extern "C" fn pageyard_error_text(error: i32) -> *const c_char {
    let known = usize::try_from(error).ok().and_then(|n| Error::ALL.get(n));
    known.map_or(c"there is no such error", |error| error.text()).as_ptr()
}

/// Writes the reason for this thread's last failure to make an arena or an engine, to discard or to purge, truncated to
/// `size` and NUL-terminated. Returns its full length in bytes without the NUL: 0 if there was none.
///
/// # Safety
/// `buffer` is null, or has room for `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pageyard_last_error(buffer: *mut c_char, size: usize) -> usize {
    let written = LAST.try_with(|last| {
        let last = last.try_borrow().map(|last| last.clone()).unwrap_or_default();
        if !buffer.is_null() && size > 0 {
            let n = last.len().min(size - 1);
            // SAFETY: the caller's promise: `n` bytes and a zero are at most `size`.
            unsafe {
                std::ptr::copy_nonoverlapping(last.as_ptr().cast(), buffer, n);
                buffer.add(n).write(0);
            }
        }
        last.len()
    });
    written.unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_error_has_its_number_and_a_text() {
        for (n, error) in Error::ALL.into_iter().enumerate() {
            assert_eq!(error as usize, n);
            assert!(!error.text().is_empty());
        }
    }
}
