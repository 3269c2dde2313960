//! Buffers from a block, downwards.

use crate::use_table::{Owner, UseTable};
use core::alloc::Layout;
use pageyard_core::error::{AllocError, BadRequest};
use pageyard_core::units::{Frames, Order, PAGE_SIZE, Pfn, PhysAddr};

/// The largest block that is carved: 2 MiB, so that its uses fit into a word of the table.
pub(crate) const LARGEST: Order = Order::of(9);

/// A block that is being carved, or none.
///
/// # Linux
/// `struct page_frag_cache`.
pub(crate) struct Carve {
    /// The address of the block's first byte; above `top` where there is no block.
    start: u64,
    /// Where the last buffer begins, or the block ends.
    top: u64,
    /// Uses that were set aside and not given to a buffer.
    bias: u32,
    order: Order,
}

/// The state of a block that is no longer carved.
pub(crate) enum Retired {
    /// It goes back when its last fragment does.
    InUse,
    /// No fragment uses it: it is the caller's.
    Unused(Pfn, Order),
}

/// Returns the bytes of a block.
const fn bytes_of(order: Order) -> u32 {
    (order.frames().0 * PAGE_SIZE) as u32
}

impl Carve {
    /// Makes one without a block.
    pub const fn none() -> Carve {
        Carve { start: u64::MAX, top: 0, bias: 0, order: Order::ZERO }
    }

    /// Returns whether blocks of `order` can hold such a buffer.
    pub fn fits(layout: Layout, order: Order) -> bool {
        layout.size() > 0 && layout.size().max(layout.align()) <= bytes_of(order) as usize
    }

    /// Says that blocks of `order` cannot hold such a buffer.
    pub fn refusal(layout: Layout, order: Order) -> AllocError {
        let frames = Frames((layout.size() as u64).div_ceil(PAGE_SIZE));
        AllocError::BadRequest(BadRequest::Size { frames, most: order.frames() })
    }

    /// Returns the block's order; of no block, the smallest.
    pub fn order(&self) -> Order {
        self.order
    }

    fn head(&self) -> Pfn {
        PhysAddr(self.start).pfn()
    }

    /// Carves a buffer, if there is room.
    #[inline(always)]
    pub fn carve(&mut self, layout: Layout) -> Option<PhysAddr> {
        let at = self.top.checked_sub(layout.size() as u64)? & !(layout.align() as u64 - 1);
        if at < self.start || layout.size() == 0 {
            return None;
        }
        self.top = at;
        self.bias -= 1;
        Some(PhysAddr(at))
    }

    /// Begins to carve a block that nothing uses.
    pub fn start(&mut self, table: &UseTable<'_>, owner: Owner, head: Pfn, order: Order) {
        let (start, size) = (head.address().0, bytes_of(order));
        // A use for each byte, which is the smallest buffer, and one for the block itself.
        table.start(head, owner, size + 1);
        *self = Carve { start, top: start + u64::from(size), bias: size + 1, order };
    }

    /// Carves the same block once more if all its fragments have come back.
    pub fn again(&mut self, table: &UseTable<'_>, owner: Owner) -> bool {
        let unused = self.bias > 0 && table.has_only(self.head(), owner, self.bias);
        if unused {
            self.start(table, owner, self.head(), self.order);
        }
        unused
    }

    /// Gives back the uses that are left. `None`: there was no block.
    pub fn retire(&mut self, table: &UseTable<'_>, owner: Owner) -> Option<Retired> {
        let carved = core::mem::replace(self, Carve::none());
        if carved.bias == 0 {
            return None;
        }
        // An error is a block that wrong frees gave back while it was carved: it is not ours any more.
        let last = table.give_up(carved.head(), owner, carved.bias).unwrap_or(false);
        Some(if last { Retired::Unused(carved.head(), carved.order) } else { Retired::InUse })
    }
}
