//! The marks kept for a frame and for a block.

use super::class::{Class, NONE};

/// A frame in a byte: its class, the order of its block, and whether it is the first of it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Mark(pub u8);

impl Mark {
    /// Set in the first frame of a block.
    pub const FIRST: u8 = 0x80;
    /// A frame that is not held.
    pub const FREE: Mark = Mark(Class::Free as u8);
    /// A frame that is not there.
    pub const ABSENT: Mark = Mark(Class::Absent as u8);

    /// Marks a frame of a block.
    pub fn new(class: Class, order: u8) -> Mark {
        Mark(class as u8 | order.min(15) << 3)
    }

    /// Returns its class.
    pub fn class(self) -> Class {
        Class::ALL[usize::from(self.0 & 7).min(5)]
    }

    /// Returns the order that was asked for, or [`NO_ORDER`].
    pub fn order(self) -> u8 {
        self.0 >> 3 & 15
    }

    /// Returns whether it is held.
    pub fn is_held(self) -> bool {
        !matches!(self.class(), Class::Free | Class::Absent)
    }

    /// Returns whether it is the first of its block.
    pub fn is_first(self) -> bool {
        self.0 & Mark::FIRST != 0
    }
}

/// The order of a block of which only its frames are known.
pub const NO_ORDER: u8 = 15;

/// Who holds a block, and since when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tenure {
    /// The owner's number, or [`NONE`].
    pub owner: u32,
    /// Since when, in ticks; 0 for before the recording.
    pub since: u32,
}

impl Tenure {
    /// Frames that can be moved: whose they are is of no interest.
    pub const NONE: Tenure = Tenure { owner: NONE, since: 0 };

    /// Packs it into a word. All zeros are an owner too: memory that is never written costs nothing.
    pub fn packed(self) -> u64 {
        u64::from(self.owner) << 32 | u64::from(self.since)
    }

    /// Takes it out of a word.
    pub fn unpacked(word: u64) -> Tenure {
        Tenure { owner: (word >> 32) as u32, since: word as u32 }
    }
}

/// A part of a block, or all of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// The first frame.
    pub pfn: u64,
    /// The number of frames.
    pub frames: u64,
    /// Their class.
    pub class: Class,
    /// The order that was asked for, or [`NO_ORDER`].
    pub order: u8,
    /// Whose they are.
    pub held: Tenure,
}
