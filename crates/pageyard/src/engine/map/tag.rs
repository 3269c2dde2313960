//! The byte that each frame has: whether a live block starts there.

use pageyard_core::units::Order;

/// The content of a frame's tag.
///
/// Only the first frames of live blocks say `Allocated`. A frame that says `Free` is free, held in a per-CPU list, or a
/// later frame of a block. Zeroed memory is all `Free`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Tag {
    /// Not the first frame of a live block.
    Free,
    /// As `Free`, and the frame is known to hold zeros.
    FreeZero,
    /// The first frame of a live block.
    Allocated(Order),
    /// As `Allocated`, and the block held zeros when it was allocated.
    AllocatedZero(Order),
    /// The first frame of a block that is being split.
    Splitting,
    /// Not a frame that the instance manages.
    Hole,
}

const ALLOCATED: u8 = 0x80;
const ZERO: u8 = 0x40;
const SPLITTING: u8 = 0x20;
const HOLE: u8 = 0x21;

impl Tag {
    /// Reads a tag's byte. One that is none of those that are written is a hole's, which nobody can win.
    #[inline]
    pub(crate) fn from_byte(byte: u8) -> Tag {
        match byte {
            0 => Tag::Free,
            ZERO => Tag::FreeZero,
            SPLITTING => Tag::Splitting,
            _ if byte & ALLOCATED != 0 => match Order::new(byte & !(ALLOCATED | ZERO)) {
                Some(order) if byte & ZERO != 0 => Tag::AllocatedZero(order),
                Some(order) => Tag::Allocated(order),
                // Nobody writes that: it was damaged.
                None => Tag::Hole,
            },
            _ => Tag::Hole,
        }
    }

    /// Returns a tag's byte.
    #[inline]
    pub(crate) const fn byte(self) -> u8 {
        match self {
            Tag::Free => 0,
            Tag::FreeZero => ZERO,
            Tag::Allocated(order) => ALLOCATED | order.get(),
            Tag::AllocatedZero(order) => ALLOCATED | ZERO | order.get(),
            Tag::Splitting => SPLITTING,
            Tag::Hole => HOLE,
        }
    }

    /// Returns the order of the live block that starts here.
    #[inline]
    pub(crate) fn allocated(self) -> Option<Order> {
        match self {
            Tag::Allocated(order) | Tag::AllocatedZero(order) => Some(order),
            _ => None,
        }
    }

    /// Returns whether a byte says that the frame, or the block that starts there, held zeros when it was last free.
    #[inline(always)]
    pub(crate) const fn holds_zeros(byte: u8) -> bool {
        byte & ZERO != 0
    }

    /// Returns the byte of a live block's first frame, made from the byte it had while free: what was known of its
    /// contents stays known.
    #[inline(always)]
    pub(crate) const fn allocate(byte: u8, order: Order) -> u8 {
        // A free frame's byte has no other bit, so one instruction on the byte in memory is enough.
        byte | ALLOCATED | order.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_round_and_zero_is_free() {
        assert_eq!(Tag::from_byte(0), Tag::Free);
        let orders = Order::ZERO.up_to(Order::MAX);
        let tags = orders.flat_map(|o| [Tag::Allocated(o), Tag::AllocatedZero(o)]).chain([
            Tag::Free,
            Tag::FreeZero,
            Tag::Splitting,
            Tag::Hole,
        ]);
        for tag in tags {
            assert_eq!(Tag::from_byte(tag.byte()), tag);
        }
    }

    #[test]
    fn allocating_keeps_what_is_known_of_the_contents() {
        let order = Order::of(3);
        assert_eq!(Tag::from_byte(Tag::allocate(Tag::Free.byte(), Order::of(3))), Tag::Allocated(order));
        assert_eq!(
            Tag::from_byte(Tag::allocate(Tag::FreeZero.byte(), Order::of(3))),
            Tag::AllocatedZero(order)
        );
    }
}
