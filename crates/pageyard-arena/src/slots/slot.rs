//! The state of a handle, in one word.

use pageyard::{Order, Pfn};

/// The state of a handle: where its frames are, how many users need them to stay there, and what compaction does with
/// them.
///
/// | bits | |
/// |---|---|
/// | 0 to 31 | the first frame |
/// | 32 to 55 | pins |
/// | 56 to 59 | the order of the block, whose first frame it is |
/// | 60 | live: the handle exists |
/// | 61 | isolated: a compaction has it, and frees frame and slot if the handle goes |
/// | 62 | moving: that compaction copies the frame, and nothing has been pinned since it began |
/// | 63 | free: the slot is in no use, and bits 0 to 31 are the next free slot |
///
/// Zero is a slot that was never in use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Slot(pub u64);

const PIN: u64 = 1 << 32;
const PINS: u64 = (1 << 24) - 1;
const ORDER: u64 = 1 << 56;
const ORDERS: u64 = 15;
const LIVE: u64 = 1 << 60;
const ISOLATED: u64 = 1 << 61;
const MOVING: u64 = 1 << 62;
const FREE: u64 = 1 << 63;

impl Slot {
    /// Makes the state of a slot in no use, which notes the free slot after it.
    pub const fn free(next: u64) -> Slot {
        Slot(FREE | next & 0xFFFF_FFFF)
    }

    /// Returns the free slot after this one; none where it is in use, or was never.
    pub const fn next_free(self) -> Option<u64> {
        if self.0 & FREE != 0 { Some(self.0 & 0xFFFF_FFFF) } else { None }
    }

    /// Makes the state of a new handle. The order is at most 15.
    pub const fn new(pfn: Pfn, order: Order) -> Slot {
        Slot(LIVE | (order.get() as u64 * ORDER) | (pfn.0 & 0xFFFF_FFFF))
    }

    pub const fn order(self) -> Order {
        Order::of(((self.0 / ORDER) & ORDERS) as u8)
    }

    pub const fn pfn(self) -> Pfn {
        Pfn(self.0 & 0xFFFF_FFFF)
    }

    pub const fn pins(self) -> u64 {
        (self.0 / PIN) & PINS
    }

    pub const fn is_live(self) -> bool {
        self.0 & LIVE != 0
    }

    pub const fn is_isolated(self) -> bool {
        self.0 & ISOLATED != 0
    }

    pub const fn is_moving(self) -> bool {
        self.0 & MOVING != 0
    }

    /// Pins: the frame stays where it is. A copy that is under way is in vain. None where there are too many pins.
    pub const fn pin(self) -> Option<Slot> {
        if self.pins() == PINS { None } else { Some(Slot((self.0 & !MOVING) + PIN)) }
    }

    /// Gives a pin back.
    pub const fn unpin(self) -> Slot {
        Slot(self.0 - PIN)
    }

    /// Lets a compaction have it; none where it is in use, in other hands or gone.
    pub const fn isolate(self) -> Option<Slot> {
        if self.is_live() && !self.is_isolated() && self.pins() == 0 {
            Some(Slot(self.0 | ISOLATED))
        } else {
            None
        }
    }

    /// Begins a copy; none where it is pinned or dropped. It is isolated by the caller.
    pub const fn begin(self) -> Option<Slot> {
        if self.is_live() && self.pins() == 0 { Some(Slot(self.0 | MOVING)) } else { None }
    }

    /// Ends a copy: the frame is `to`, and the compaction has it no more. None where something was pinned meanwhile.
    pub const fn moved(self, to: Pfn) -> Option<Slot> {
        if self.is_moving() && self.is_live() { Some(Slot::new(to, self.order())) } else { None }
    }

    /// Ends an isolation without a move. Where the handle is gone, frame and slot are the compaction's to free.
    pub const fn put_back(self) -> Slot {
        Slot(self.0 & !(ISOLATED | MOVING))
    }

    /// Ends the handle. Frame and slot are its owner's to free, unless a compaction has them isolated: then they are
    /// the compaction's.
    pub const fn dropped(self) -> Slot {
        Slot(self.0 & !LIVE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pin_makes_a_copy_vain_and_keeps_others_out() {
        let slot = Slot::new(Pfn(77), Order::of(8));
        let moving = slot.isolate().unwrap().begin().unwrap();
        assert!(moving.is_moving() && moving.isolate().is_none(), "one compaction at a time");
        let pinned = moving.pin().unwrap();
        assert_eq!((pinned.pins(), pinned.pfn(), pinned.moved(Pfn(5))), (1, Pfn(77), None));
        assert_eq!((slot.order(), pinned.order()), (Order::of(8), Order::of(8)));
        assert_eq!(pinned.begin(), None);
        let again = pinned.unpin();
        assert_eq!(again.moved(Pfn(5)), None, "even after the pin");
        assert_eq!(again.begin().unwrap().moved(Pfn(5)), Some(Slot::new(Pfn(5), Order::of(8))));
        assert_eq!(pinned.put_back().unpin(), slot);
        assert_eq!(Slot(slot.0 | (PINS * PIN)).pin(), None);
        assert_eq!(slot.pin().unwrap().isolate(), None);
    }

    #[test]
    fn a_handle_that_goes_leaves_frame_and_slot_to_the_compaction() {
        let isolated = Slot::new(Pfn(3), Order::ZERO).isolate().unwrap();
        let gone = isolated.dropped();
        assert!(!gone.is_live() && gone.is_isolated() && gone.begin().is_none());
        assert_eq!(isolated.begin().unwrap().dropped().moved(Pfn(9)), None);
        assert_eq!(
            (gone.put_back().is_live(), gone.put_back().is_isolated(), gone.pfn()),
            (false, false, Pfn(3))
        );
        assert!(!Slot::new(Pfn(3), Order::ZERO).dropped().is_isolated());
    }

    #[test]
    fn a_free_slot_is_nobodys_handle() {
        let free = Slot::free(7);
        assert_eq!(free.next_free(), Some(7));
        assert!(!free.is_live() && free.isolate().is_none() && free.begin().is_none() && free.pins() == 0);
        assert_eq!((Slot::new(Pfn(7), Order::ZERO).next_free(), Slot(0).next_free()), (None, None));
    }
}
