//! A byte for each frame: whose page is out under its address.
//!
//! While only the address of a page is known, in a descriptor say, the byte holds the number of the page's pool. To
//! give the page back by its address is to win that byte by compare-and-swap, so one of several threads does.
//! Neighbours that follow each other, in whatever order, are won together, up to eight at a time.

use crate::use_table::Owner;
use pageyard_core::units::{Pfn, PhysAddr};
use pageyard_sync::eight::{AT_ONCE, EIGHT, Eight};
use pageyard_sync::{A8, AcqRel, Relaxed, Release};

/// Not out.
const IN: u8 = 0;

/// The bytes: a page's is that of its first frame.
#[derive(Clone, Copy)]
pub(crate) struct Marks<'m> {
    pub bytes: &'m [A8],
    /// The frame of the first.
    pub first: Pfn,
}

impl Marks<'_> {
    #[inline(always)]
    fn nth(self, page: Pfn) -> usize {
        page.0.wrapping_sub(self.first.0) as usize
    }

    /// Says that a page, which the caller owns, is out.
    #[inline(always)]
    pub fn lend(self, page: Pfn, owner: Owner) {
        // ORDER: Release pairs with the AcqRel in `take`: a thread that knows the page by its address alone, and takes
        // it, sees what its holder did.
        self.bytes[self.nth(page)].store(owner.byte(), Release);
    }

    /// Makes a page that is out the caller's; returns whether it was out, and this owner's. One locked instruction.
    #[inline(always)]
    pub fn take(self, page: Pfn, owner: Owner) -> bool {
        // ORDER: AcqRel: Acquire for what the page's holder did, Release for who lends it next. Relaxed where it fails:
        // nothing was learnt.
        let take = |mark: &A8| mark.compare_exchange(owner.byte(), IN, AcqRel, Relaxed).is_ok();
        self.bytes.get(self.nth(page)).is_some_and(take)
    }

    /// Takes all of these pages, or none of them: then each is to be tried. One locked instruction.
    #[inline(always)]
    pub fn take_all(self, these: Neighbours, owner: Owner) -> bool {
        let word = Eight::at(self.bytes, these.first as usize & !(EIGHT - 1));
        word.is_some_and(|marks| marks.swap_some(these.bytes, owner.byte(), IN))
    }

    /// Returns whether a page is out, and this owner's.
    pub fn is_out(self, page: Pfn, owner: Owner) -> bool {
        // ORDER: Relaxed: an estimate, or asked while nothing else uses the owner's pages.
        self.bytes[self.nth(page)].load(Relaxed) == owner.byte()
    }

    /// Returns whether a page of any owner is out.
    pub fn is_out_of_any(self, page: Pfn) -> bool {
        // ORDER: Relaxed, as above.
        self.bytes[self.nth(page)].load(Relaxed) != IN
    }

    /// Returns whether the bytes of two frames lie in one word, and the target can change those at once.
    #[inline(always)]
    pub fn are_neighbours(self, one: PhysAddr, other: PhysAddr) -> bool {
        let nth = |at: PhysAddr| at.pfn().0.wrapping_sub(self.first.0);
        AT_ONCE && nth(one) ^ nth(other) < EIGHT as u64
    }

    /// Finds as many different frames as follow each other at the front of `pages` and have bytes in one word, and
    /// writes the complements of their places in the table.
    #[inline(always)]
    pub fn neighbours(self, pages: &[PhysAddr], out: &mut [u32]) -> Neighbours {
        let mut these = Neighbours { first: 0, bytes: 0, count: 0 };
        let most = pages.len().min(out.len());
        let (pages, out) = (&pages[..most], &mut out[..most]);
        // Not a zip, whose parts are not always inlined.
        while these.count < most {
            let nth = pages[these.count].pfn().0.wrapping_sub(self.first.0);
            if these.count == 0 {
                these.first = nth;
            }
            let byte = 0xff << (nth % EIGHT as u64 * 8);
            // The ninth is of another word, or there twice.
            if these.first ^ nth >= EIGHT as u64 || these.bytes & byte != 0 {
                break;
            }
            out[these.count] = !(nth as u32);
            these.bytes |= byte;
            these.count += 1;
        }
        these
    }
}

/// Frames whose bytes lie in one aligned word of eight.
#[derive(Clone, Copy)]
pub(crate) struct Neighbours {
    /// The place of one of them.
    first: u64,
    /// All bits of the byte of each.
    bytes: u64,
    /// How many there are.
    pub count: usize,
}
