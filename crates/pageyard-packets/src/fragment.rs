//! A buffer that was carved from a block, and how it is given back: by its owner, or by its address.

use crate::error::{PutError, Refused};
use crate::use_table::{Owner, UseTable};
use pageyard_core::allocator::Cx;
use pageyard_core::error::FreeError;
use pageyard_core::units::{Order, Pfn, PhysAddr};

/// The owner of [`Fragment`]s: a [`FragPages`](super::FragPages) or a [`PagePool`](super::PagePool). Nothing is called
/// through it: it is a bound for code that takes either.
#[expect(private_bounds, reason = "only the owners here are owners")]
pub trait FragmentOwner: Parts {}

/// The operations of an owner on its fragments.
pub(crate) trait Parts: Sync {
    /// The table that counts its blocks' uses.
    fn table(&self) -> &UseTable<'_>;

    /// Its number there.
    fn owner(&self) -> Owner;

    /// Finds the block that holds this byte, by its number; `None` where it lies outside the table.
    fn block_of(&self, at: PhysAddr) -> Option<(Pfn, Order)>;

    /// Gives up a use by the address of a byte in the block; returns the block if that was its last use.
    #[inline(always)]
    fn give_up(&self, at: PhysAddr) -> Result<Option<(Pfn, Order)>, PutError> {
        self.give_up_fragment(at)
    }

    /// Gives up a use of a block that was carved, as [`give_up`](Parts::give_up) does.
    fn give_up_fragment(&self, at: PhysAddr) -> Result<Option<(Pfn, Order)>, PutError> {
        let (block, order) = self.block_of(at).ok_or(PutError::OutsideTable)?;
        Ok(self.table().give_up(block, self.owner(), 1)?.then_some((block, order)))
    }

    /// Gives up a use by an address, and the block with its last.
    #[inline]
    fn put_at(&self, cx: &Cx, at: PhysAddr) -> Result<(), PutError> {
        match self.give_up(at)? {
            Some((block, order)) => self.last_use(cx, block, order),
            None => Ok(()),
        }
    }

    /// Takes back a block whose last use was given up.
    fn take_back(&self, cx: &Cx, block: Pfn, order: Order) -> Result<(), FreeError>;

    /// Takes back a block whose last use the caller gave up; restores the use where that fails.
    #[inline]
    fn last_use(&self, cx: &Cx, block: Pfn, order: Order) -> Result<(), PutError> {
        self.take_back(cx, block, order).map_err(|why| {
            self.table().start(block, self.owner(), 1);
            PutError::Free(why)
        })
    }
}

/// A buffer, carved from a block. It is given back by [`put`](Fragment::put), on any CPU, which takes the fragment: a
/// second time there is none to give. (Its [address](Fragment::address) is a number like any other; giving that back as
/// well is giving it back twice.)
///
/// A fragment that is dropped stays in use: its block never goes back to the allocator, unless by its address.
#[must_use = "a fragment that is dropped stays in use"]
pub struct Fragment<'o, O: FragmentOwner> {
    owner: &'o O,
    at: PhysAddr,
    bytes: u32,
    order: Order,
}

impl<'o, O: FragmentOwner> Fragment<'o, O> {
    #[inline(always)]
    pub(crate) fn new(owner: &'o O, at: PhysAddr, bytes: usize, order: Order) -> Fragment<'o, O> {
        Fragment { owner, at, bytes: bytes as u32, order }
    }

    /// Returns what it was carved by.
    #[inline(always)]
    pub(crate) fn owner(&self) -> &'o O {
        self.owner
    }

    /// Returns the address of its first byte.
    #[must_use]
    #[inline]
    pub fn address(&self) -> PhysAddr {
        self.at
    }

    /// Returns its size in bytes: never 0.
    #[must_use]
    #[inline]
    #[allow(clippy::len_without_is_empty, reason = "it is never empty")]
    pub fn len(&self) -> usize {
        self.bytes as usize
    }

    /// Returns the first frame of the block that it was carved from.
    #[must_use]
    #[inline]
    pub fn block(&self) -> Pfn {
        self.at.pfn().align_down(self.order)
    }

    /// Gives it back. The last of a block takes the block along: to the allocator, or to its pool. One locked
    /// instruction, and what the block's way back costs.
    ///
    /// # Errors
    /// [`Refused`], with the fragment, where the allocator refuses the block (a CPU that it does not have), or where
    /// the use was given up before by its address.
    ///
    /// # Linux
    /// `page_frag_free`.
    #[inline(always)]
    pub fn put(self, cx: &Cx) -> Result<(), Refused<Self>> {
        let block = self.block();
        let done = match self.owner.table().give_up_one(block) {
            Ok(false) => Ok(()),
            Ok(true) => self.owner.last_use(cx, block, self.order),
            Err(why) => Err(why),
        };
        done.map_err(|why| Refused { why, item: self })
    }

    /// Turns it into its address, to be given back by its owner's `put_raw`.
    #[must_use = "the buffer is in use until its address is given back"]
    #[inline]
    pub fn into_raw(self) -> PhysAddr {
        self.at
    }
}
