//! Ranges of frames, and why a call on one was refused.

use crate::error::FreeError;
use crate::units::{Frames, Pfn};
use core::fmt;

/// Frames that follow each other: any count of them, starting anywhere.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct FrameRange {
    /// The first frame.
    pub first: Pfn,
    /// How many there are.
    pub frames: Frames,
}

impl FrameRange {
    /// Makes a range.
    #[must_use]
    pub const fn new(first: Pfn, frames: Frames) -> FrameRange {
        FrameRange { first, frames }
    }

    /// Returns the first frame behind the range, or `None` where that is past the largest frame number.
    #[must_use]
    pub const fn end(self) -> Option<Pfn> {
        match self.first.0.checked_add(self.frames.0) {
            Some(end) => Some(Pfn(end)),
            None => None,
        }
    }
}

impl fmt::Display for FrameRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} frames from {}", self.frames, self.first)
    }
}

/// The fault in a range, or in the frame at which a call on it stopped.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum RangeFault {
    /// The range has no frames.
    Empty,
    /// The range reaches past the largest frame number.
    Overflow,
    /// The frame cannot be freed.
    Free(FreeError),
    /// The frame cannot be added as unaccepted: it is managed already, or already waits to be accepted.
    Managed,
    /// The frame was not accepted, or nothing accepts memory.
    NotAccepted,
}

/// Why a range was not freed as a whole: where it stopped, and what was freed before that.
///
/// The frames in front of [`at`](RangeError::at) are free; those from there on are as they were, except that a live
/// block which crosses an end of the range may have been split there.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct RangeError {
    /// The first frame that was not freed.
    pub at: Pfn,
    /// How many frames in front of it were.
    pub freed: Frames,
    /// Why it was not.
    pub why: RangeFault,
}

/// Calls that [`FrameRange::while_busy`] makes without progress. Another call keeps a range busy for a few
/// instructions, unless its thread was stopped.
const PATIENCE: u32 = if cfg!(miri) { 1 << 12 } else { 1 << 22 };

impl FrameRange {
    /// Calls with the range, and again with the rest of it while another call keeps that busy.
    ///
    /// It does not wait for ever: the other call may have been stopped, or its mark be damage.
    ///
    /// # Errors
    /// As `call`, with [`FreeError::Busy`] only after millions of calls without progress; `freed` counts all calls.
    pub fn while_busy(self, call: impl Fn(FrameRange) -> Result<(), RangeError>) -> Result<(), RangeError> {
        let (mut left, mut freed, mut patience) = (self, Frames::ZERO, PATIENCE);
        while let Err(error) = call(left) {
            freed += error.freed;
            patience = if error.freed > Frames::ZERO { PATIENCE } else { patience - 1 };
            if error.why != RangeFault::Free(FreeError::Busy) || patience == 0 {
                return Err(RangeError { freed, ..error });
            }
            left = FrameRange::new(left.first + error.freed, left.frames - error.freed);
            core::hint::spin_loop();
        }
        Ok(())
    }
}

impl fmt::Display for RangeFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RangeFault::Empty => f.write_str("the range has no frames"),
            RangeFault::Overflow => f.write_str("the range reaches past the largest frame number"),
            RangeFault::Free(why) => why.fmt(f),
            RangeFault::Managed => f.write_str("the frame is managed already, or waits to be accepted"),
            RangeFault::NotAccepted => f.write_str("the frame was not accepted"),
        }
    }
}

impl fmt::Display for RangeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "frame {}: {} ({} frames were freed before it)", self.at, self.why, self.freed)
    }
}

/// Why a contiguous range could not be had.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum ContigError {
    /// The range has no frames, or reaches past the largest frame number.
    BadRange,
    /// The range does not begin or end at a pageblock, where the call is about whole ones.
    Misaligned,
    /// The CPU is not one of the instance's.
    NoSuchCpu,
    /// This frame is not the instance's, or lies in another zone than the first one.
    OutsideArena {
        /// The frame.
        at: Pfn,
    },
    /// The pageblock of this frame has been taken out of allocation by another call.
    Isolated {
        /// The first frame of the range in it.
        at: Pfn,
    },
    /// This frame is in use and could not be moved, or was in a list that could not be emptied.
    Busy {
        /// The frame.
        at: Pfn,
    },
    /// There is no free frame to move the contents to.
    NoTarget,
}

impl fmt::Display for ContigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ContigError::BadRange => {
                f.write_str("the range has no frames, or reaches past the largest frame number")
            }
            ContigError::Misaligned => f.write_str("the range does not consist of whole pageblocks"),
            ContigError::NoSuchCpu => f.write_str("the CPU is not one of the instance's"),
            ContigError::OutsideArena { at } => {
                write!(f, "frame {at} is not the allocator's, or lies in another zone than the first one")
            }
            ContigError::Isolated { at } => {
                write!(
                    f,
                    "the pageblock of frame {at} was taken out of allocation by another call; try later"
                )
            }
            ContigError::Busy { at } => write!(f, "frame {at} is in use and cannot be moved"),
            ContigError::NoTarget => f.write_str("there is no free frame to move the contents to"),
        }
    }
}

impl core::error::Error for ContigError {}
impl core::error::Error for RangeFault {}
impl core::error::Error for RangeError {}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;

    #[test]
    fn a_range_past_the_last_frame_number_has_no_end() {
        assert_eq!(FrameRange::new(Pfn(8), Frames(3)).end(), Some(Pfn(11)));
        assert_eq!(FrameRange::new(Pfn(u64::MAX), Frames(1)).end(), None);
    }

    #[test]
    fn a_range_that_stays_busy_is_given_up() {
        let busy = |range: FrameRange, freed| {
            let why = RangeFault::Free(FreeError::Busy);
            Err(RangeError { at: range.first + Frames(freed), freed: Frames(freed), why })
        };
        let range = FrameRange::new(Pfn(0), Frames(3));
        // The second of its calls frees a frame, and no other does.
        let calls = core::cell::Cell::new(0);
        let stuck = range.while_busy(|left| {
            calls.set(calls.get() + 1);
            busy(left, u64::from(calls.get() == 2))
        });
        let why = RangeFault::Free(FreeError::Busy);
        assert_eq!(stuck, Err(RangeError { at: Pfn(1), freed: Frames(1), why }));
        assert_eq!(calls.get(), PATIENCE + 2);
        // One that passes is waited for.
        calls.set(0);
        let freed = range.while_busy(|left| {
            calls.set(calls.get() + 1);
            if calls.get() < 10 { busy(left, 0) } else { Ok(()) }
        });
        assert_eq!(freed, Ok(()));
    }

    #[test]
    fn an_error_says_where_and_what_was_done() {
        let why = RangeFault::Free(FreeError::NotAllocated);
        let error = RangeError { at: Pfn(70), freed: Frames(6), why };
        assert_eq!(error.to_string(), "frame 70: the frame is free already (6 frames were freed before it)");
    }
}
