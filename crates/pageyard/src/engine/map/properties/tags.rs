//! What holds of every tag.

use super::super::tag::Tag;
use pageyard_core::units::Order;

/// A tag is written as it was read, and bytes that are not written are holes. It is live if and only if the highest bit
/// is set and it has an order.
pub(super) fn reads_as_one(byte: u8) {
    let tag = Tag::from_byte(byte);
    assert!(tag.byte() == byte || tag == Tag::Hole, "{byte:#x}");
    assert_eq!(tag.allocated().is_some(), byte & 0x80 != 0 && byte & 0x3f <= 18, "{byte:#x}");
}

/// Allocating a free frame makes its tag live with that order, and keeps what is known of the contents.
pub(super) fn allocates(byte: u8, order: Order) {
    if !matches!(Tag::from_byte(byte), Tag::Free | Tag::FreeZero) {
        return;
    }
    let live = Tag::from_byte(Tag::allocate(byte, order));
    assert_eq!(live.allocated(), Some(order), "{byte:#x}, {order}");
    assert_eq!(Tag::holds_zeros(live.byte()), Tag::holds_zeros(byte), "{byte:#x}, {order}");
}
