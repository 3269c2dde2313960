//! The descriptor of a pageblock: one packed word, and its transitions as pure functions.

use super::type_code::{BY_CODE, REQUESTED, TypeCode};
use crate::engine::geometry::{BLOCK_FRAMES, BLOCK_ORDER};
use pageyard_core::migratetype::Migratetype;
use pageyard_core::units::Order;

/// A pageblock's counters and state, packed so that one compare-and-swap moves between legal states.
///
/// `free` counts frames whose free bit is set and that no claim has reserved: a claim lowers it before it takes bits, a
/// release gives bits before it raises it. So a pageblock always has at least as many free bits as `free` and the
/// reservations that have not been taken yet, and `free == 512` proves that every bit is set and no claim is about to
/// take one.
///
/// An all-zero descriptor is a movable pageblock whose frames are all free: zeroed metadata is a fresh zone.
///
/// | bits | what |
/// |---|---|
/// | 0..3 | migratetype, exclusive or 1; lowest, with the next, because every free reads them |
/// | 3 | isolated |
/// | 4..14 | frames that are not free |
/// | 14 | huge: allocated as a whole, its bits untouched |
/// | 15 | hole: no frame is managed, its bits untouched; with huge, one that was taken offline |
/// | 16..20 | how far `hint` is below the largest order inside a pageblock |
/// | 20 | some free frames' tags may say that they hold zeros: set before the bit of such a frame is given |
/// | 21 | every frame whose bit is free holds zeros: cleared before a bit of any other frame is given |
/// | 22 | compaction skips it; with hole, its frames are memory that is accepted when it is needed |
/// | 23 | some CPU's current pageblock |
/// | 24..32 | compactor that leases it, plus one |
/// | 32..64 | sequence: bumped by every transition that follows a giving of bits |
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct BlockState(u64);

const TYPE: u64 = 7;
pub(super) const ISOLATED: u64 = 1 << 3;
const USED_SHIFT: u32 = 4;
const USED: u64 = ((1 << 10) - 1) << USED_SHIFT;
/// All frames used.
pub(super) const FULL: u64 = (BLOCK_FRAMES as u64) << USED_SHIFT;
pub(super) const HUGE: u64 = 1 << 14;
pub(super) const HOLE: u64 = 1 << 15;
const BELOW_SHIFT: u32 = 16;
const BELOW: u64 = 15 << BELOW_SHIFT;
const SOME_ZERO: u64 = 1 << 20;
const ALL_ZERO: u64 = 1 << 21;
pub(super) const SKIP: u64 = 1 << 22;
const CURRENT: u64 = 1 << 23;
const OWNER_SHIFT: u32 = 24;
const OWNER: u64 = 0xff << OWNER_SHIFT;
pub(super) const SEQUENCE_ONE: u64 = 1 << 32;

/// The largest order that lies inside a pageblock.
const INSIDE: u8 = BLOCK_ORDER - 1;

/// Fits: the largest order that a pageblock can serve, 0 to the pageblock's.
pub(crate) const FITS: u8 = BLOCK_ORDER + 1;
/// Degrees of fullness: three by free frames, the fullest first, then the emptiest and those that are free as a whole.
pub(crate) const BUCKETS: u8 = 4;
/// Bins of a migratetype: fullness by fit.
pub(crate) const BINS: u8 = FITS * BUCKETS;
/// Bin of the pageblocks that are free as a whole.
pub(crate) const WHOLE: u8 = 3 * FITS + BLOCK_ORDER;

/// Where the index keeps a pageblock: its type, and its fullness and fit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Bin {
    /// The migratetype.
    pub(crate) ty: Migratetype,
    /// Fullness times [`FITS`] plus fit.
    pub(crate) class: u8,
}

impl Bin {
    /// Returns whether it holds pageblocks that are free as a whole.
    pub(crate) const fn is_whole(self) -> bool {
        self.class == WHOLE
    }
}

impl BlockState {
    /// Reads a descriptor.
    #[inline(always)]
    pub(crate) const fn from_bits(bits: u64) -> BlockState {
        BlockState(bits)
    }

    /// Returns the descriptor's word.
    #[inline(always)]
    pub(crate) const fn bits(self) -> u64 {
        self.0
    }

    /// Returns the frames that can be claimed, were it not isolated.
    #[inline(always)]
    pub(crate) const fn free(self) -> u32 {
        BLOCK_FRAMES.saturating_sub(self.used())
    }

    /// Returns the frames that are not free: more than there are, where the word was damaged.
    #[inline(always)]
    const fn used(self) -> u32 {
        ((self.0 & USED) >> USED_SHIFT) as u32
    }

    /// Returns the migratetype.
    #[inline(always)]
    pub(crate) const fn migratetype(self) -> Migratetype {
        BY_CODE[(self.0 & TYPE) as usize]
    }

    /// Returns whether the migratetype is `m`.
    #[inline(always)]
    pub(crate) const fn has_type(self, m: Migratetype) -> bool {
        self.0 & TYPE == TypeCode::of(m).bits()
    }

    /// Returns whether requests ask for the migratetype.
    #[inline(always)]
    pub(crate) const fn has_requested_type(self) -> bool {
        REQUESTED >> (self.0 & TYPE) & 1 != 0
    }

    /// Returns whether two pageblocks are of one type.
    #[inline(always)]
    pub(crate) const fn has_type_of(self, other: BlockState) -> bool {
        (self.0 ^ other.0) & TYPE == 0
    }

    /// Returns the code under which per-CPU lists keep its blocks; an isolated pageblock's is no list's.
    #[inline(always)]
    pub(crate) const fn list_code(self) -> TypeCode {
        TypeCode::from_bits(self.0 & (TYPE | ISOLATED))
    }

    /// Returns whether it is taken out of allocation.
    pub(crate) const fn is_isolated(self) -> bool {
        self.0 & ISOLATED != 0
    }

    /// Returns whether it is allocated as a whole.
    #[inline(always)]
    pub(crate) const fn is_huge(self) -> bool {
        self.0 & HUGE != 0
    }

    /// Returns whether no frame of it is managed.
    pub(crate) const fn is_hole(self) -> bool {
        self.0 & HOLE != 0
    }

    /// Returns whether every frame is free.
    #[inline(always)]
    pub(crate) const fn is_whole(self) -> bool {
        self.0 & (USED | HUGE | HOLE) == 0
    }

    /// Returns whether it is some CPU's current pageblock, so that it is in no bin.
    #[inline(always)]
    pub(crate) const fn is_current(self) -> bool {
        self.0 & CURRENT != 0
    }

    /// Returns whether some of its free frames' tags say that they hold zeros.
    #[inline(always)]
    pub(crate) const fn has_zero(self) -> bool {
        self.0 & SOME_ZERO != 0
    }

    /// Returns whether all its free frames are known to hold zeros: valid only if it still holds after bits were taken.
    #[inline(always)]
    pub(crate) const fn is_all_zero(self) -> bool {
        self.0 & ALL_ZERO != 0
    }

    /// Returns the number of the compactor that leases it.
    pub(crate) const fn owner(self) -> Option<u8> {
        (((self.0 & OWNER) >> OWNER_SHIFT) as u8).checked_sub(1)
    }

    /// Returns the largest order that a free block in it may have: an upper bound once every operation on it has ended.
    #[inline]
    pub(crate) const fn fit(self) -> Option<u8> {
        // A leased pageblock serves parts only: a compactor is moving frames in or out of it.
        if self.is_whole() && self.0 & OWNER == 0 {
            return Some(BLOCK_ORDER);
        }
        let free = self.free();
        if free == 0 {
            return None;
        }
        let by_count = free.ilog2() as u8;
        let hint = self.hint();
        Some(if by_count < hint { by_count } else { hint })
    }

    /// Returns the stored hint: the largest run of free bits, unless all are free.
    #[inline]
    pub(crate) const fn hint(self) -> u8 {
        // Wrapping: beyond every order where a damaged word stores more than there is, so that counts decide.
        INSIDE.wrapping_sub(((self.0 & BELOW) >> BELOW_SHIFT) as u8)
    }

    /// Returns whether a block of `order` can be claimed from it, as far as is known.
    pub(crate) fn serves(self, order: Order) -> bool {
        self.0 & (ISOLATED | HUGE | HOLE) == 0 && self.fit() >= Some(order.get())
    }

    /// Returns its bin in the index, or `None` if nothing can be claimed from it or a CPU is working on it: such a CPU
    /// then takes piece after piece without writing anything that CPUs share.
    #[inline]
    pub(crate) const fn bin(self) -> Option<Bin> {
        if self.0 & (ISOLATED | HUGE | HOLE) != 0 {
            return None;
        }
        if self.is_current() {
            return None;
        }
        let ty = self.migratetype();
        let Some(fit) = self.fit() else { return None };
        if fit == BLOCK_ORDER {
            return Some(Bin { ty, class: WHOLE });
        }
        let free = self.free();
        let bucket = if free < BLOCK_FRAMES / 8 {
            0
        } else if free < BLOCK_FRAMES / 2 {
            1
        } else if free < BLOCK_FRAMES / 8 * 7 {
            2
        } else {
            3
        };
        Some(Bin { ty, class: bucket * FITS + fit })
    }

    /// Returns whether it is free as a whole and some CPU's current pageblock: its last frames came back to it.
    #[inline(always)]
    pub(crate) const fn is_emptied(self) -> bool {
        self.0 & (USED | HUGE | HOLE | CURRENT) == CURRENT
    }

    /// Returns whether its bin is that of whole pageblocks of type `ty`: [`BlockState::bin`] in one comparison.
    #[inline(always)]
    pub(crate) const fn is_binned_whole(self, ty: Migratetype) -> bool {
        let code = TypeCode::of(ty).bits();
        self.0 & (TYPE | ISOLATED | USED | HUGE | HOLE | OWNER | CURRENT) == code
    }

    /// Returns the number of frames that the zone counts as free.
    #[inline(always)]
    pub(crate) const fn counted(self) -> u32 {
        if self.is_isolated() { 0 } else { self.free() }
    }

    /// Makes the descriptor of a pageblock of which `free` frames are managed, all of them free.
    pub(crate) const fn partial(free: u32) -> BlockState {
        if free == 0 {
            BlockState(FULL | HOLE)
        } else {
            BlockState(((BLOCK_FRAMES - free) as u64) << USED_SHIFT)
        }
    }

    /// Reserves `n` frames for a request of type `ty`, unless it has another type, is isolated, or holds fewer.
    #[inline]
    pub(crate) const fn claim(self, n: u32, ty: Migratetype) -> Option<BlockState> {
        if !self.has_type(ty) || self.0 & (ISOLATED | HUGE | HOLE) != 0 || self.used() + n > BLOCK_FRAMES {
            return None;
        }
        // The hint stays even where nothing is left: this reservation can be filled with frames that are freed
        // meanwhile, and leave the run that the hint stands for. `FrameMap::correct_hint` lowers it when the bits are
        // taken.
        Some(BlockState(self.0 + ((n as u64) << USED_SHIFT)))
    }

    /// Reserves one block below pageblock order for a request of type `ty`, if only the count changes: a CPU is working
    /// on it, or on part of it if `partly` is set, and no free frame is known to hold zeros.
    #[inline(always)]
    pub(crate) const fn claim_in_place(
        self,
        order: Order,
        ty: Migratetype,
        partly: bool,
    ) -> Option<BlockState> {
        let code = TypeCode::of(ty).bits();
        let used = self.0 & USED;
        let next = used + (1 << (USED_SHIFT + order.get() as u32));
        let is_plain =
            self.0 & (TYPE | ISOLATED | HUGE | HOLE | SOME_ZERO | ALL_ZERO | CURRENT) == code | CURRENT;
        if !is_plain || (partly && used == 0) || next > FULL || self.0 & BELOW > below(order.get()) {
            return None;
        }
        Some(BlockState(self.0 - used + next))
    }

    /// Reserves `n` frames, whatever the pageblock's type.
    pub(crate) const fn claim_any(self, n: u32) -> Option<BlockState> {
        self.claim(n, self.migratetype())
    }

    /// Reserves `n` frames and turns it into a pageblock of type `to`: a steal.
    pub(crate) const fn convert(self, n: u32, from: Migratetype, to: Migratetype) -> Option<BlockState> {
        match self.claim(n, from) {
            Some(next) => Some(next.with_type(to)),
            None => None,
        }
    }

    /// Marks it as a CPU's current pageblock.
    pub(crate) const fn with_current(self, current: bool) -> BlockState {
        BlockState(if current { self.0 | CURRENT } else { self.0 & !CURRENT })
    }

    /// Changes its type. It stops being any CPU's current pageblock: the CPU working on it looks it up under the old
    /// type.
    pub(crate) const fn with_type(self, ty: Migratetype) -> BlockState {
        let code = TypeCode::of(ty).bits();
        let kept = if self.0 & TYPE == code { self.0 } else { self.0 & !CURRENT };
        BlockState(kept & !TYPE | code)
    }

    /// Gives back `n` frames whose bits are set already; the largest run among them and around them is `run`.
    #[inline]
    pub(crate) const fn release(self, n: u32, run: u8) -> BlockState {
        // Wrapping: a damaged word can say that fewer are used.
        let next = self.0.wrapping_sub((n as u64) << USED_SHIFT).wrapping_add(SEQUENCE_ONE) & !SKIP;
        if run <= self.hint() { BlockState(next) } else { BlockState(next).with_hint(run) }
    }

    /// Notes that some free frames' tags say that they hold zeros.
    pub(crate) const fn noting_zero(self) -> BlockState {
        BlockState(self.0 | SOME_ZERO)
    }

    /// Notes that all free frames hold zeros.
    pub(crate) const fn known_zero(self) -> BlockState {
        BlockState(self.0 | ALL_ZERO)
    }

    /// Forgets that all free frames hold zeros, before releasing a frame that may not.
    pub(crate) const fn dirtied(self) -> Option<BlockState> {
        if self.is_all_zero() { Some(BlockState(self.0 & !ALL_ZERO)) } else { None }
    }

    /// Takes the whole pageblock as one block, whatever its type, unless a frame of it is used or it is isolated or
    /// leased. Bits are not touched: while it is huge, no call looks at them.
    #[inline]
    pub(crate) const fn claim_whole(self) -> Option<BlockState> {
        if self.0 & (USED | ISOLATED | HUGE | HOLE | OWNER) != 0 {
            return None;
        }
        let next = self.0 | FULL | HUGE;
        Some(BlockState(next & !(CURRENT | SOME_ZERO | ALL_ZERO | SKIP)))
    }

    /// Gives back the whole pageblock.
    #[inline]
    pub(crate) const fn release_whole(self, zero: bool) -> Option<BlockState> {
        if !self.is_huge() {
            return None;
        }
        let next = self.0 & !(USED | HUGE | BELOW | SKIP);
        Some(BlockState(next.wrapping_add(SEQUENCE_ONE) | if zero { ALL_ZERO } else { 0 }))
    }

    /// Turns a whole pageblock's allocation into 512 single ones, whose bits the caller has cleared.
    pub(crate) const fn shatter(self) -> Option<BlockState> {
        if self.is_huge() { Some(BlockState(self.0 & !(HUGE | BELOW) | BELOW_ALL)) } else { None }
    }

    /// Stores a hint.
    #[inline]
    pub(crate) const fn with_hint(self, hint: u8) -> BlockState {
        BlockState(self.0 & !BELOW | below(hint))
    }

    /// Takes it out of allocation, unless it already is or has no frames.
    pub(crate) const fn isolate(self) -> Option<BlockState> {
        if self.0 & (ISOLATED | HOLE) != 0 { None } else { Some(BlockState(self.0 | ISOLATED)) }
    }

    /// Takes it back into allocation.
    pub(crate) const fn restore(self) -> Option<BlockState> {
        if self.0 & (ISOLATED | HOLE) == ISOLATED { Some(BlockState(self.0 & !ISOLATED)) } else { None }
    }

    /// Reserves `n` frames of a pageblock that the caller has isolated: no other call can take those.
    #[cfg(not(pageyard_loom))]
    pub(crate) const fn claim_isolated(self, n: u32) -> Option<BlockState> {
        if !self.is_isolated() || self.0 & (HUGE | HOLE) != 0 || self.used() + n > BLOCK_FRAMES {
            return None;
        }
        Some(BlockState(self.0 + ((n as u64) << USED_SHIFT)))
    }

    /// Takes a whole pageblock that the caller has isolated, as [`BlockState::claim_whole`] does others. A lease is no
    /// obstacle: a compactor takes nothing from an isolated pageblock.
    #[cfg(not(pageyard_loom))]
    pub(crate) const fn claim_whole_isolated(self) -> Option<BlockState> {
        if !self.is_isolated() {
            return None;
        }
        let kept = self.0 & (ISOLATED | OWNER);
        match BlockState(self.0 & !(ISOLATED | OWNER)).claim_whole() {
            Some(next) => Some(BlockState(next.0 | kept)),
            None => None,
        }
    }

    /// Rebuilds the descriptor from the frames: keeps its type, with `free` frames free and `run` the largest run;
    /// without a run, it is allocated as a whole. State that calls set for their own use is cleared.
    #[cfg(not(pageyard_loom))]
    pub(crate) const fn rebuilt(
        self,
        free: u32,
        run: Option<u8>,
        some_zero: bool,
        all_zero: bool,
    ) -> BlockState {
        let kept = self.0 & (TYPE | !(SEQUENCE_ONE - 1));
        let used = match run {
            None if free == 0 => FULL,
            None => FULL | HUGE,
            Some(_) => ((BLOCK_FRAMES - free) as u64) << USED_SHIFT,
        };
        let zeros = if some_zero { SOME_ZERO } else { 0 } | if all_zero { ALL_ZERO } else { 0 };
        let hint = match run {
            Some(run) => run,
            None => 0,
        };
        BlockState((kept | used | zeros).wrapping_add(SEQUENCE_ONE)).with_hint(hint)
    }

    /// Leases it to a compactor, unless it is leased.
    pub(crate) const fn lease(self, by: u8) -> Option<BlockState> {
        if self.0 & (OWNER | HOLE) != 0 || by == u8::MAX {
            return None;
        }
        Some(BlockState(self.0 | (by as u64 + 1) << OWNER_SHIFT))
    }

    /// Returns whether compaction found an immovable frame in it. Any free into it clears that.
    #[cfg(not(pageyard_loom))]
    pub(crate) const fn is_skipped(self) -> bool {
        self.0 & (SKIP | HOLE) == SKIP
    }

    /// Sets or clears the skip mark.
    #[cfg(not(pageyard_loom))]
    pub(crate) const fn with_skip(self, skip: bool) -> BlockState {
        BlockState(if skip { self.0 | SKIP } else { self.0 & !SKIP })
    }

    /// Ends a lease.
    pub(crate) const fn unlease(self) -> BlockState {
        BlockState(self.0 & !OWNER)
    }
}

/// Returns the bits that store a hint.
const fn below(hint: u8) -> u64 {
    (INSIDE.saturating_sub(hint) as u64) << BELOW_SHIFT
}

/// The hint that says that nothing fits.
pub(super) const BELOW_ALL: u64 = (INSIDE as u64) << BELOW_SHIFT;

impl core::fmt::Debug for BlockState {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("BlockState")
            .field("free", &self.free())
            .field("type", &self.migratetype())
            .field("fit", &self.fit())
            .field("huge", &self.is_huge())
            .field("isolated", &self.is_isolated())
            .field("hole", &self.is_hole())
            .field("sequence", &(self.0 >> 32))
            .finish_non_exhaustive()
    }
}

#[cfg(all(test, not(pageyard_loom)))]
mod tests {
    use super::*;

    const FRESH: BlockState = BlockState(0);
    const MOVABLE: Migratetype = Migratetype::Movable;
    const UNMOVABLE: Migratetype = Migratetype::Unmovable;

    #[test]
    fn zero_is_a_free_movable_pageblock() {
        assert_eq!((FRESH.free(), FRESH.fit()), (512, Some(9)));
        assert_eq!(FRESH.migratetype(), Migratetype::Movable);
        assert_eq!(FRESH.bin(), Some(Bin { ty: MOVABLE, class: WHOLE }));
    }

    #[test]
    fn every_type_survives_the_packing() {
        for m in Migratetype::ALL.into_iter().filter(|m| *m != Migratetype::Isolate) {
            assert_eq!(FRESH.with_type(m).migratetype(), m);
        }
    }

    #[test]
    fn claims_and_releases_balance() {
        let one = FRESH.claim(100, MOVABLE).unwrap();
        assert_eq!((one.free(), one.fit()), (412, Some(8)));
        let back = one.release(100, 6);
        assert_eq!((back.free(), back.fit()), (512, Some(9)));
        assert_ne!(back, FRESH, "the sequence tells them apart");
    }

    #[test]
    fn a_claim_asks_for_type_and_room() {
        assert_eq!(FRESH.claim(1, UNMOVABLE), None);
        assert_eq!(FRESH.claim(513, MOVABLE), None);
        let full = FRESH.claim(512, MOVABLE).unwrap();
        assert_eq!((full.free(), full.bin()), (0, None));
        assert_eq!(full.claim(1, MOVABLE), None);
        assert_eq!(full.release(1, 0).fit(), Some(0), "what was full knows nothing of larger runs");
        let stolen = FRESH.convert(64, MOVABLE, UNMOVABLE).unwrap();
        assert_eq!(stolen.claim(1, MOVABLE), None, "a stale refill fails");
        assert!(stolen.claim(1, UNMOVABLE).is_some());
    }

    #[test]
    fn a_whole_claim_wants_every_frame() {
        let huge = FRESH.claim_whole().unwrap();
        assert!(huge.is_huge() && huge.free() == 0 && huge.bin().is_none());
        assert_eq!(huge.claim_whole(), None);
        assert_eq!(huge.claim(1, MOVABLE), None);
        assert_eq!(FRESH.claim(1, MOVABLE).unwrap().claim_whole(), None);
        assert_eq!(FRESH.isolate().unwrap().claim_whole(), None);
        assert_eq!(FRESH.lease(3).unwrap().claim_whole(), None);
        assert!(huge.release_whole(false).unwrap().is_whole());
        assert_eq!(FRESH.release_whole(false), None);
        let parts = huge.shatter().unwrap();
        assert_eq!((parts.free(), parts.is_huge()), (0, false));
        assert_eq!(parts.release(1, 0).fit(), Some(0));
    }

    #[test]
    fn isolated_frames_count_for_nothing_and_come_back() {
        let some = FRESH.claim(12, MOVABLE).unwrap();
        let isolated = some.isolate().unwrap();
        assert_eq!((isolated.counted(), isolated.free()), (0, 500));
        assert_eq!(isolated.claim(1, MOVABLE), None);
        assert_eq!(isolated.isolate(), None);
        assert_eq!(isolated.bin(), None);
        let more = isolated.release(12, 3);
        assert_eq!((more.counted(), more.restore().unwrap().counted()), (0, 512));
    }

    #[test]
    fn only_an_isolated_pageblock_is_claimed_as_isolated() {
        assert_eq!((FRESH.claim_isolated(1), FRESH.claim_whole_isolated()), (None, None));
        let isolated = FRESH.isolate().unwrap();
        let some = isolated.claim_isolated(100).unwrap();
        assert_eq!((some.free(), some.is_isolated(), some.claim_isolated(413)), (412, true, None));
        assert_eq!(some.claim_whole_isolated(), None);
        let leased = FRESH.lease(3).unwrap().isolate().unwrap();
        let whole = leased.claim_whole_isolated().unwrap();
        assert!(whole.is_huge() && whole.is_isolated());
        assert_eq!((whole.owner(), whole.claim_whole_isolated()), (Some(3), None));
    }

    #[test]
    fn holes_serve_nothing() {
        let hole = BlockState::partial(0);
        assert!(hole.is_hole() && hole.bin().is_none());
        assert_eq!(hole.claim_whole(), None);
        assert_eq!(hole.isolate(), None);
        assert_eq!(hole.lease(0), None);
        let some = BlockState::partial(3);
        assert_eq!((some.free(), some.fit()), (3, Some(1)));
    }

    #[test]
    fn leases_are_exclusive() {
        let leased = FRESH.lease(7).unwrap();
        assert_eq!((leased.owner(), leased.lease(8)), (Some(7), None));
        assert_eq!(leased.unlease().owner(), None);
    }

    #[test]
    fn the_fullest_shelf_has_the_lowest_number_and_a_current_pageblock_is_on_none() {
        let at = |n| FRESH.claim(n, MOVABLE).unwrap().bin().unwrap().class / FITS;
        assert_eq!([at(511), at(400), at(200), at(1)], [0, 1, 2, 3]);
        let current = FRESH.claim(1, MOVABLE).unwrap().with_current(true);
        assert_eq!(current.bin(), None);
        assert!(current.serves(Order::of(8)) && !current.serves(Order::of(9)));
        assert!(current.with_type(UNMOVABLE).bin().is_some(), "its CPU looks for it under the other type");
        assert!(FRESH.with_current(true).bin().is_none() && FRESH.with_current(true).is_emptied());
    }
}
