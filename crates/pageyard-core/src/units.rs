//! The units of page allocation, each its own type.

use core::fmt;
use core::ops::{Add, AddAssign, Sub, SubAssign};

/// Bytes in one frame.
pub const PAGE_SIZE: u64 = 4096;

/// Number of orders a request can name: 0 (4 KiB) to 18 (1 GiB).
pub const NR_ORDERS: usize = 19;

/// Order of a pageblock, the unit in which mobility is tracked: 2^9 frames, 2 MiB.
///
/// # Linux
/// `pageblock_order` of x86-64 with transparent huge pages.
pub const PAGEBLOCK_ORDER: Order = Order(9);

/// A page frame number: a physical address divided by [`PAGE_SIZE`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[repr(transparent)]
pub struct Pfn(pub u64);

impl Pfn {
    /// Returns the pageblock that holds this frame.
    #[must_use]
    #[inline]
    pub const fn pageblock(self) -> PageblockId {
        PageblockId(self.0 >> PAGEBLOCK_ORDER.0)
    }

    /// Returns the address of this frame's first byte.
    #[must_use]
    #[inline]
    pub const fn address(self) -> PhysAddr {
        PhysAddr(self.0 * PAGE_SIZE)
    }

    /// Returns whether a block of `order` may start here.
    #[must_use]
    #[inline]
    pub const fn is_aligned(self, order: Order) -> bool {
        self.0 & (order.frames().0 - 1) == 0
    }

    /// Returns the first frame of the aligned block of `order` that holds this frame.
    #[must_use]
    #[inline]
    pub const fn align_down(self, order: Order) -> Pfn {
        Pfn(self.0 & !(order.frames().0 - 1))
    }

    /// Returns the first frame at or after this one where a block of `order` may start.
    #[must_use]
    #[inline]
    pub const fn align_up(self, order: Order) -> Pfn {
        Pfn(self.0.saturating_add(order.frames().0 - 1) & !(order.frames().0 - 1))
    }
}

/// A byte of physical memory: its number, counted from the first byte of frame 0.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
#[repr(transparent)]
pub struct PhysAddr(pub u64);

impl PhysAddr {
    /// Returns the frame that holds this byte.
    #[must_use]
    #[inline]
    pub const fn pfn(self) -> Pfn {
        Pfn(self.0 / PAGE_SIZE)
    }

    /// Returns which byte of its frame this is.
    #[must_use]
    #[inline]
    pub const fn offset(self) -> u64 {
        self.0 % PAGE_SIZE
    }
}

impl fmt::Debug for Pfn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pfn({})", self.0)
    }
}

impl fmt::Display for Pfn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Add<Frames> for Pfn {
    type Output = Pfn;
    #[inline]
    fn add(self, n: Frames) -> Pfn {
        Pfn(self.0 + n.0)
    }
}

impl Sub<Pfn> for Pfn {
    type Output = Frames;
    #[inline]
    fn sub(self, other: Pfn) -> Frames {
        Frames(self.0 - other.0)
    }
}

/// The binary logarithm of a block's size in frames.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[repr(transparent)]
pub struct Order(u8);

impl Order {
    /// A single frame.
    pub const ZERO: Order = Order(0);
    /// A pageblock, the huge page of most processors: 2 MiB.
    pub const HUGE: Order = PAGEBLOCK_ORDER;
    /// The largest order any engine serves: 1 GiB.
    pub const MAX: Order = Order(NR_ORDERS as u8 - 1);

    /// Makes an order, unless it is above [`Order::MAX`].
    #[must_use]
    #[inline]
    pub const fn new(order: u8) -> Option<Order> {
        if order <= Order::MAX.0 { Some(Order(order)) } else { None }
    }

    /// Makes an order known at compile time.
    ///
    /// # Panics
    /// When `order` is above [`Order::MAX`]; in a `const` that is a compile error.
    #[must_use]
    #[inline]
    pub const fn of(order: u8) -> Order {
        assert!(order <= Order::MAX.0, "order out of range");
        Order(order)
    }

    /// Returns the order as a number.
    #[must_use]
    #[inline]
    pub const fn get(self) -> u8 {
        self.0
    }

    /// Returns the order as an index into an array by order.
    #[must_use]
    #[inline]
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    /// Returns the frames in a block of this order.
    #[must_use]
    #[inline]
    pub const fn frames(self) -> Frames {
        Frames(1 << self.0)
    }

    /// Returns the next larger order, if there is one.
    #[must_use]
    #[inline]
    pub const fn larger(self) -> Option<Order> {
        Order::new(self.0 + 1)
    }

    /// Returns the next smaller order, if there is one.
    #[must_use]
    #[inline]
    pub const fn smaller(self) -> Option<Order> {
        if self.0 == 0 { None } else { Some(Order(self.0 - 1)) }
    }

    /// Iterates over the orders from `self` to `last`, both included, upwards.
    #[inline]
    pub fn up_to(self, last: Order) -> impl DoubleEndedIterator<Item = Order> {
        (self.0..=last.0).map(Order)
    }
}

impl fmt::Debug for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Order({})", self.0)
    }
}

impl fmt::Display for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A count of frames.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
#[repr(transparent)]
pub struct Frames(pub u64);

impl Frames {
    /// No frames.
    pub const ZERO: Frames = Frames(0);

    /// Returns the size in bytes.
    #[must_use]
    #[inline]
    pub const fn as_bytes(self) -> u64 {
        self.0 * PAGE_SIZE
    }

    /// Returns the difference, or zero where `other` is larger.
    #[must_use]
    #[inline]
    pub const fn saturating_sub(self, other: Frames) -> Frames {
        Frames(self.0.saturating_sub(other.0))
    }
}

impl fmt::Display for Frames {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Add for Frames {
    type Output = Frames;
    #[inline]
    fn add(self, other: Frames) -> Frames {
        Frames(self.0 + other.0)
    }
}

impl AddAssign for Frames {
    #[inline]
    fn add_assign(&mut self, other: Frames) {
        self.0 += other.0;
    }
}

impl Sub for Frames {
    type Output = Frames;
    #[inline]
    fn sub(self, other: Frames) -> Frames {
        Frames(self.0 - other.0)
    }
}

impl SubAssign for Frames {
    #[inline]
    fn sub_assign(&mut self, other: Frames) {
        self.0 -= other.0;
    }
}

impl core::iter::Sum for Frames {
    #[inline]
    fn sum<I: Iterator<Item = Frames>>(iter: I) -> Frames {
        Frames(iter.map(|f| f.0).sum())
    }
}

macro_rules! id {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
        #[repr(transparent)]
        pub struct $name(pub $inner);

        impl $name {
            /// Returns the number as an index.
            #[must_use]
            #[inline]
            pub const fn index(self) -> usize {
                self.0 as usize
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

id! {
    /// A zone of one instance, numbered in the order of [`crate::MemoryMap::zones`].
    ZoneId(u16)
}
id! {
    /// A NUMA node.
    NodeId(u8)
}
id! {
    /// A CPU, or another unit on which an embedder runs one call at a time.
    CpuId(u32)
}
/// The most CPUs of an instance.
pub const MAX_CPUS: u32 = 1 << 16;
id! {
    /// A cpuset: a group of tasks that keeps to some nodes. Zero is the root, which all tasks are in that no other
    /// cpuset has.
    CpusetId(u16)
}
id! {
    /// A pageblock: a frame number divided by the frames of a pageblock.
    PageblockId(u64)
}
id! {
    /// One compactor among those that run at the same time.
    CompactorId(u16)
}

impl PageblockId {
    /// Returns the first frame of the pageblock.
    #[must_use]
    #[inline]
    pub const fn start(self) -> Pfn {
        Pfn(self.0 << PAGEBLOCK_ORDER.0)
    }
}

/// An aligned block: where it starts and how large it is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct BlockId {
    /// The first frame, aligned to `order`.
    pub pfn: Pfn,
    /// The size.
    pub order: Order,
}

/// A point in time, in nanoseconds from a start that the caller chooses.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
#[repr(transparent)]
pub struct Nanos(pub u64);

/// A set of CPUs: either all of them, or one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CpuSet {
    /// Every CPU of the instance.
    All,
    /// A single CPU.
    One(CpuId),
}

impl CpuSet {
    /// Returns whether `cpu` is in the set.
    #[must_use]
    #[inline]
    pub fn contains(self, cpu: CpuId) -> bool {
        match self {
            CpuSet::All => true,
            CpuSet::One(one) => one == cpu,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_above_the_largest_is_none() {
        assert_eq!(Order::new(18), Some(Order::MAX));
        assert_eq!(Order::new(19), None);
        assert_eq!(Order::MAX.larger(), None);
        assert_eq!(Order::ZERO.smaller(), None);
    }

    #[test]
    fn alignment_near_the_end_of_the_number_space_does_not_wrap() {
        let last = Pfn(u64::MAX);
        assert_eq!(last.align_down(Order::of(4)), Pfn(u64::MAX - 15));
        assert!(last.align_up(Order::of(4)) >= last.align_down(Order::of(4)));
    }

    #[test]
    fn pageblocks_are_512_frames() {
        assert_eq!(Pfn(511).pageblock(), PageblockId(0));
        assert_eq!(Pfn(512).pageblock(), PageblockId(1));
        assert_eq!(PageblockId(3).start(), Pfn(1536));
    }
}
