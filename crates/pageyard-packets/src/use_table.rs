//! A word for each frame: who carves or pools the block that starts there, and how many still use it. Beside it a byte,
//! for pages of pools that are out under their addresses ([`marks`](crate::marks)).
//!
//! | bits | |
//! |---|---|
//! | 0 to 23 | uses: 0 where nothing is in use |
//! | 24 to 31 | the owner: a pool or an owner of fragments |
//!
//! A block that is being carved has more uses than fragments: its carver set them aside in advance, so that a fragment
//! costs it no atomic operation, and gives back what is left when the block is full (`pagecnt_bias` in Linux).

use crate::error::{PacketsError, PutError};
use crate::marks::Marks;
use crate::placed::{self, Placed};
use core::ops::Range;
use pageyard_core::allocator::PageAllocator;
use pageyard_core::units::{Frames, Pfn, ZoneId};
use pageyard_sync::Metadata;
use pageyard_sync::{A8, A32, A64, AcqRel, Acquire, Carver, Relaxed, Release};

const USES_BITS: u32 = 24;
const USES: u32 = (1 << USES_BITS) - 1;

/// The most uses that a block can have: one for each byte of 2 MiB, and the block's own. More is less than none.
const MOST: u32 = (1 << 21) + 1;

/// Whether a table keeps a value for each page of a pool.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Values {
    /// No.
    #[default]
    None,
    /// Yes: eight bytes a frame more.
    Kept,
}

/// The number of an owner, from 1 on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Owner(u8);

impl Owner {
    #[inline(always)]
    pub fn byte(self) -> u8 {
        self.0
    }
}

/// The parts of a table.
pub(crate) struct Slices<'m> {
    words: &'m [A32],
    marks: &'m [A8],
    values: &'m [A64],
    /// A bit for each owner that there is.
    owners: &'m [A64],
}

/// The side table of packet buffers: for each frame, who carves or pools its block and how many still use it.
///
/// One serves all the pools and owners of fragments of an allocator: up to 255 at a time. 5 bytes a frame, and 8 more
/// with [`Values::Kept`]; an allocator without packets needs none.
pub struct UseTable<'m> {
    placed: Placed<Slices<'m>>,
    first: Pfn,
}

impl<'m> UseTable<'m> {
    /// Owners that a table can have at a time.
    pub const MOST_OWNERS: u32 = 255;

    fn carve(frames: Frames, values: Values) -> impl Fn(&mut Carver<'m>) -> Slices<'m> {
        let n = frames.0 as usize;
        let valued = if values == Values::Kept { n } else { 0 };
        move |c| Slices {
            words: c.zeroed(n),
            marks: c.zeroed(n),
            values: c.zeroed(valued),
            owners: c.zeroed(4),
        }
    }

    fn check(frames: &Range<Pfn>) -> Result<Frames, PacketsError> {
        let n = frames.end.0.saturating_sub(frames.start.0);
        if n == 0 || n > u64::from(u32::MAX) { Err(PacketsError::Frames) } else { Ok(Frames(n)) }
    }

    /// Returns the frames of all of an allocator's zones, holes included.
    #[must_use]
    pub fn frames_of(allocator: &impl PageAllocator) -> Range<Pfn> {
        let zones = (0..).map(ZoneId).map_while(|zone| allocator.zone_stats(zone));
        let spans = zones.map(|z| (z.span.start, z.span.start + z.span.spanned));
        let all = spans.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)));
        all.map_or(Pfn(0)..Pfn(0), |(start, end)| start..end)
    }

    /// Returns the bytes of memory that a table needs.
    ///
    /// # Errors
    /// [`PacketsError::Frames`].
    pub fn bytes(frames: &Range<Pfn>, values: Values) -> Result<usize, PacketsError> {
        Ok(placed::bytes(Self::carve(Self::check(frames)?, values)))
    }

    /// Makes a table in the caller's memory.
    ///
    /// # Errors
    /// [`PacketsError::Frames`], [`PacketsError::MemoryTooSmall`].
    pub fn new(
        frames: Range<Pfn>,
        values: Values,
        memory: Metadata<'m>,
    ) -> Result<UseTable<'m>, PacketsError> {
        let n = Self::check(&frames)?;
        Ok(UseTable { placed: Placed::new(memory, Self::carve(n, values))?, first: frames.start })
    }

    /// Returns the number of a frame in the table.
    #[inline(always)]
    fn number(&self, pfn: Pfn) -> usize {
        pfn.0.wrapping_sub(self.first.0) as usize
    }

    /// Returns the first frame.
    pub(crate) fn first(&self) -> Pfn {
        self.first
    }

    /// Returns whether all of these frames are in the table.
    pub(crate) fn covers(&self, first: Pfn, frames: Frames) -> bool {
        let n = self.placed.slices.words.len() as u64;
        first >= self.first && first.0 - self.first.0 < n && n - (first.0 - self.first.0) >= frames.0
    }

    #[inline(always)]
    fn word(&self, block: Pfn) -> &A32 {
        &self.placed.slices.words[self.number(block)]
    }

    /// Returns whether the table keeps values.
    pub(crate) fn keeps_values(&self) -> bool {
        !self.placed.slices.values.is_empty()
    }

    /// Returns the value of the page that starts at `block`, which the caller owns; 0 where the table keeps none.
    pub(crate) fn value(&self, block: Pfn) -> u64 {
        // ORDER: Relaxed: it was written by an owner of the page before this one.
        self.placed.slices.values.get(self.number(block)).map_or(0, |v| v.load(Relaxed))
    }

    /// Sets it.
    pub(crate) fn set_value(&self, block: Pfn, value: u64) {
        if let Some(v) = self.placed.slices.values.get(self.number(block)) {
            // ORDER: Relaxed, as above.
            v.store(value, Relaxed);
        }
    }

    /// Takes a number for an owner.
    pub(crate) fn enter(&self) -> Result<Owner, PacketsError> {
        for (nth, word) in self.placed.slices.owners.iter().enumerate() {
            // The very first bit is no owner's.
            let never = u64::from(nth == 0);
            loop {
                // ORDER: Relaxed: the exchange below decides.
                let now = word.load(Relaxed) | never;
                let free = now.trailing_ones();
                if free == u64::BITS {
                    break;
                }
                let old = now & !never;
                // ORDER: Acquire pairs with the Release in `leave`: what the number's last owner did is over.
                if word.compare_exchange(old, old | 1 << free, Acquire, Relaxed).is_ok() {
                    return Ok(Owner((nth as u32 * u64::BITS + free) as u8));
                }
            }
        }
        Err(PacketsError::TooManyOwners { most: Self::MOST_OWNERS })
    }

    /// Gives the number back.
    pub(crate) fn leave(&self, owner: Owner) {
        let (word, bit) = (usize::from(owner.0) / 64, owner.0 % 64);
        // ORDER: Release pairs with the Acquire in `enter`.
        self.placed.slices.owners[word].fetch_and(!(1 << bit), Release);
    }

    /// Sets how many use a block, which nothing else uses.
    #[inline]
    pub(crate) fn start(&self, block: Pfn, owner: Owner, uses: u32) {
        debug_assert!(uses <= MOST);
        // ORDER: Release pairs with the AcqRel in `take_last` and `give_up`: a thread that knows a fragment by its
        // address alone, and gives up the last use, sees what the block's holder did.
        self.word(block).store(u32::from(owner.0) << USES_BITS | uses, Release);
    }

    /// Returns the marks of pages that are out under their addresses.
    #[inline(always)]
    pub(crate) fn marks(&self) -> Marks<'_> {
        Marks { bytes: self.placed.slices.marks, first: self.first }
    }

    /// Returns whether a block is this owner's and has exactly this many uses, all of them the caller's: then no other
    /// thread can change that.
    #[inline]
    pub(crate) fn has_only(&self, block: Pfn, owner: Owner, uses: u32) -> bool {
        // ORDER: Acquire pairs with the Release of those who gave theirs back: they are done with the block.
        self.word(block).load(Acquire) == u32::from(owner.0) << USES_BITS | uses
    }

    /// Gives up one use, which the caller has. Returns whether it was the last.
    #[inline(always)]
    pub(crate) fn give_up_one(&self, block: Pfn) -> Result<bool, PutError> {
        let word = self.word(block);
        // ORDER: AcqRel: Release for the thread that gives up the last use, Acquire for this thread if that is what it
        // does.
        match word.fetch_add(1u32.wrapping_neg(), AcqRel) & USES {
            1 => Ok(true),
            2..=MOST => Ok(false),
            _ => Err(self.undo_underflow(block)),
        }
    }

    /// Puts back what was subtracted from nothing: this use was given up before, by its address.
    #[cold]
    fn undo_underflow(&self, block: Pfn) -> PutError {
        let word = self.word(block);
        // ORDER: Relaxed: nothing is learnt or handed on.
        let mut now = word.load(Relaxed);
        // Where the block has been handed out again meanwhile, the word was set anew, and nothing is missing.
        while now & USES > MOST {
            match word.compare_exchange(now, now.wrapping_add(1), Relaxed, Relaxed) {
                Ok(_) => break,
                Err(seen) => now = seen,
            }
        }
        PutError::NotInUse
    }

    /// Gives up some of the uses of `owner`, if there are as many. Returns whether none are left.
    pub(crate) fn give_up(&self, block: Pfn, owner: Owner, uses: u32) -> Result<bool, PutError> {
        let word = self.word(block);
        // ORDER: Relaxed: the exchange below decides.
        let mut now = word.load(Relaxed);
        loop {
            if now & USES == 0 || now & USES > MOST {
                return Err(self.not_in_use(block, owner));
            }
            if now >> USES_BITS != u32::from(owner.0) {
                return Err(PutError::WrongOwner);
            }
            // Fewer than were set aside: fragments were given back more than once.
            let left = (now & USES).saturating_sub(uses);
            // ORDER: AcqRel, as in `give_up_one`.
            match word.compare_exchange(now, now & !USES | left, AcqRel, Relaxed) {
                Ok(_) => return Ok(left == 0),
                Err(seen) => now = seen,
            }
        }
    }

    /// Gives up the one use of a block of `owner`, if it has exactly one.
    pub(crate) fn take_last(&self, block: Pfn, owner: Owner) -> Result<(), PutError> {
        let idle = u32::from(owner.0) << USES_BITS;
        // ORDER: AcqRel, as in `give_up_one`, and for `start`. Relaxed where it fails: nothing changed.
        match self.word(block).compare_exchange(idle | 1, idle, AcqRel, Relaxed) {
            Ok(_) => Ok(()),
            Err(now) if now & USES > 0 && now >> USES_BITS != u32::from(owner.0) => Err(PutError::WrongOwner),
            Err(_) => Err(self.not_in_use(block, owner)),
        }
    }

    /// Says why an owner has no use of a block without uses: it is another's page.
    #[cold]
    fn not_in_use(&self, block: Pfn, owner: Owner) -> PutError {
        let marks = self.marks();
        if marks.is_out_of_any(block) && !marks.is_out(block, owner) {
            PutError::WrongOwner
        } else {
            PutError::NotInUse
        }
    }

    /// Returns how many uses of `owner` a block has: one where it is a page that is out under its address.
    pub(crate) fn uses(&self, block: Pfn, owner: Owner) -> u32 {
        if self.marks().is_out(block, owner) {
            return 1;
        }
        // ORDER: Relaxed: an estimate, unless the caller has one of the uses.
        let now = self.word(block).load(Relaxed);
        let uses = now & USES;
        if now >> USES_BITS == u32::from(owner.0) && uses <= MOST { uses } else { 0 }
    }

    /// Says that a block has no owner any more.
    pub(crate) fn clear(&self, block: Pfn) {
        // ORDER: Relaxed: the caller has the block.
        self.word(block).store(0, Relaxed);
    }

    /// Returns whether a block is this owner's, in whatever state.
    pub(crate) fn is_of(&self, block: Pfn, owner: Owner) -> bool {
        // ORDER: Relaxed: asked while nothing else uses the owner's blocks.
        self.word(block).load(Relaxed) >> USES_BITS == u32::from(owner.0)
    }

    /// Returns whether a block is this owner's and has no uses by the table: it is idle, or its holder's alone.
    pub(crate) fn is_unused(&self, block: Pfn, owner: Owner) -> bool {
        // ORDER: Relaxed: asked while nothing else uses the owner's blocks.
        self.word(block).load(Relaxed) == u32::from(owner.0) << USES_BITS
            && !self.marks().is_out_of_any(block)
    }

    /// Returns the number of frames.
    pub(crate) fn frames(&self) -> Frames {
        Frames(self.placed.slices.words.len() as u64)
    }

    /// Calls `f` with each block of `owner` that has uses by the table, and how many.
    pub(crate) fn visit(&self, owner: Owner, f: &mut dyn FnMut(Pfn, u32)) {
        for nth in 0..self.placed.slices.words.len() as u64 {
            let pfn = self.first + Frames(nth);
            match self.uses(pfn, owner) {
                0 => {}
                uses => f(pfn, uses),
            }
        }
    }
}

#[cfg(feature = "alloc")]
impl UseTable<'static> {
    /// Makes a table that owns its memory, which a system with virtual memory sets aside only as it is touched.
    ///
    /// # Errors
    /// [`PacketsError::Frames`], [`PacketsError::NoMemory`].
    pub fn owned(frames: Range<Pfn>, values: Values) -> Result<UseTable<'static>, PacketsError> {
        let n = Self::check(&frames)?;
        Ok(UseTable { placed: Placed::owned(Self::carve(n, values))?, first: frames.start })
    }

    /// Makes a table of all of an allocator's frames, without values.
    ///
    /// # Errors
    /// As [`UseTable::owned`].
    pub fn of(allocator: &impl PageAllocator) -> Result<UseTable<'static>, PacketsError> {
        Self::owned(Self::frames_of(allocator), Values::None)
    }
}
