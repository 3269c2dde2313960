//! Compaction of movable blocks of several frames: what moves as a whole, where to, and what becomes of it when
//! something is wrong.

use crate::common::{CX, bare, blocks, give, normal, request, sound, take};
use pageyard_core::compaction::{Busy, FrameState, Migrate, MigrateError, Mode, Outcome};
use pageyard_core::{
    BlockId, CompactorId, CpuSet, Cx, Frames, FreeError, Migratetype, Order, PageAllocator, Pfn,
    RequestFlags, ZoneId, ZoneKind,
};
use pageyard_linux::compaction::{CompactionView, Compactor, Goal, HeldFrees, Plan, TargetOrder};
use pageyard_linux::{Config, LinuxAllocator};
use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind};

const ZONE: ZoneId = ZoneId(0);
const M: Migratetype = Migratetype::Movable;

/// The owner's reaction to a request to move one of its blocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Does {
    Moves,
    Panics,
    /// It frees the block first, and moves it all the same.
    FreesSource,
    /// It frees the target, which is not its own, and then refuses.
    FreesTarget,
    /// It frees one frame of the target, and then refuses.
    FreesInside,
}

/// The owner's reaction to a request to split one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Splits {
    Never,
    Yes,
    /// One of the frames cannot be isolated afterwards.
    PinsOne,
    /// It frees the block first, and so cannot split it.
    Frees,
    Panics,
}

/// The owner of blocks of one order.
struct Owner<'a> {
    engine: &'a LinuxAllocator,
    order: Order,
    held: RefCell<Vec<Pfn>>,
    does: Does,
    splits: Splits,
    /// Frames of blocks that were split.
    parts: RefCell<Vec<Pfn>>,
    /// Whether its blocks are on a list for reclaim.
    listed: bool,
    asked: RefCell<Vec<BlockId>>,
    back: Cell<u32>,
    freed: RefCell<Vec<Result<(), FreeError>>>,
}

impl Owner<'_> {
    fn free(&self, pfn: Pfn, order: Order) {
        self.freed.borrow_mut().push(self.engine.free(&CX, pfn, order));
    }
}

// SAFETY: its list is the only reference to a block, and a move changes it in one step.
unsafe impl Migrate for Owner<'_> {
    type Isolated = Pfn;

    fn isolate(&self, pfn: Pfn, _: Mode) -> Result<Pfn, Busy> {
        let parts = self.parts.borrow();
        let pinned = self.splits == Splits::PinsOne && parts.first() == Some(&pfn);
        if parts.contains(&pfn) && !pinned { Ok(pfn) } else { Err(Busy::Pinned) }
    }

    fn isolate_block(&self, block: BlockId, _: Mode) -> Result<Pfn, Busy> {
        self.asked.borrow_mut().push(block);
        let mine = block.order == self.order && self.held.borrow().contains(&block.pfn);
        if mine { Ok(block.pfn) } else { Err(Busy::Pinned) }
    }

    fn split(&self, cx: &Cx, block: BlockId, from: Pfn, _: Mode) -> Result<(), Pfn> {
        match self.splits {
            Splits::Never => return Err(from),
            Splits::Yes | Splits::PinsOne => {}
            Splits::Frees => self.free(from, block.order),
            Splits::Panics => panic!("the owner panics, as the test asked"),
        }
        self.engine.split(cx, from, block.order, Order::ZERO).map_err(|_| from)?;
        self.held.borrow_mut().retain(|pfn| *pfn != from);
        self.parts.borrow_mut().extend((0..block.order.frames().0).map(|n| Pfn(from.0 + n)));
        Ok(())
    }

    fn migrate(&self, from: &mut Pfn, to: Pfn, mode: Mode) -> Result<(), MigrateError> {
        if let Some(part) = self.parts.borrow_mut().iter_mut().find(|part| *part == from) {
            assert_eq!(mode, Mode::Async, "what was split is not waited for");
            assert_eq!(self.engine.frame(to), FrameState::Allocated(Order::ZERO));
            *part = to;
            return Ok(());
        }
        assert_eq!(self.engine.frame(to), FrameState::Allocated(self.order), "the target is one block");
        assert!(to.is_aligned(self.order));
        match self.does {
            Does::Moves => {}
            Does::Panics => panic!("the owner panics, as the test asked"),
            Does::FreesSource => self.free(*from, self.order),
            Does::FreesTarget => {
                self.free(to, self.order);
                return Err(MigrateError::Refused);
            }
            Does::FreesInside => {
                self.free(Pfn(to.0 + 1), Order::ZERO);
                return Err(MigrateError::Refused);
            }
        }
        let mut held = self.held.borrow_mut();
        held.retain(|pfn| pfn != from);
        held.push(to);
        Ok(())
    }

    fn is_reclaimable(&self, _: Pfn) -> bool {
        self.listed
    }

    fn putback(&self, _: Pfn) {
        self.back.set(self.back.get() + 1);
    }
}

/// Frames of the machine.
const FRAMES: u64 = 8192;

/// Sixteen pageblocks: the first is free but for a movable block of `order` in it, and the others are in use, but for
/// the blocks of `free` and, so that compaction finds it worthwhile, every other frame of the ten that follow. Returns
/// the machine and the block.
fn one_block_in(config: Config, order: u8, free: &[(u64, u8)]) -> (LinuxAllocator, Pfn) {
    let a = normal(FRAMES, &bare(config));
    let source = take(&a, 9, M);
    let mut rest = Vec::new();
    while let Ok(pfn) = a.alloc(&CX, &request(9, Migratetype::Unmovable)) {
        rest.push(pfn);
    }
    // The pageblock of the source is the lowest one, and the targets lie above it.
    rest.push(source);
    rest.sort_unstable();
    let source = rest.remove(0);
    // What is in use: all but the blocks to be free, each as one block.
    for pfn in &rest {
        a.split(&CX, *pfn, Order::of(9), Order::ZERO).unwrap();
    }
    for (pfn, order) in free {
        (0..1u64 << order).for_each(|n| give(&a, Pfn(pfn + n), 0));
    }
    (512..512 + FRAMES / 2 + 1024).step_by(2).for_each(|pfn| give(&a, Pfn(pfn), 0));
    a.split(&CX, source, Order::of(9), Order::of(order)).unwrap();
    let block = Pfn(source.0 + 3 * Order::of(order).frames().0 % 512);
    let step = Order::of(order).frames().0 as usize;
    (source.0..source.0 + 512).step_by(step).filter(|pfn| *pfn != block.0).for_each(|pfn| {
        give(&a, Pfn(pfn), order);
    });
    a.drain(CpuSet::All);
    (a, block)
}

fn owner(engine: &LinuxAllocator, order: u8, block: Pfn, does: Does) -> Owner<'_> {
    Owner {
        engine,
        order: Order::of(order),
        held: RefCell::new(vec![block]),
        does,
        splits: Splits::Never,
        parts: RefCell::default(),
        listed: true,
        asked: RefCell::default(),
        back: Cell::new(0),
        freed: RefCell::default(),
    }
}

/// Compacts for a block of an order.
fn compact(a: &LinuxAllocator, owner: &Owner<'_>, order: u8, mode: Mode) -> (Outcome, u64) {
    let plan = Plan {
        zone: ZONE,
        goal: Goal::Block(Order::of(order), M),
        mode,
        request: None,
        by: CompactorId(0),
        highest: ZoneKind::Normal,
        flags: RequestFlags::MEMALLOC,
        ignore_hints: true,
        thorough: true,
    };
    let mut compactor = Compactor::new(a, owner, &CX, plan).unwrap();
    let outcome = compactor.run();
    let moved = compactor.work().moved;
    drop(compactor);
    a.drain(CpuSet::All);
    (outcome, moved)
}

/// Room for blocks of order 2 and smaller.
const SMALL: &[(u64, u8)] = &[(7176, 2), (7688, 2), (7244, 1), (7344, 0)];

#[test]
fn a_block_of_four_frames_is_moved_whole_and_leaves_a_huge_block() {
    let (a, block) = one_block_in(Config::linux_6_12(), 2, SMALL);
    assert_eq!(blocks(&a, 9, M) + blocks(&a, 10, M), 0);
    let owner = owner(&a, 2, block, Does::Moves);
    assert_eq!(compact(&a, &owner, 9, Mode::SyncLight), (Outcome::Success, 4));
    let to = owner.held.borrow()[0];
    assert!(to == Pfn(7176) || to == Pfn(7688), "{to}");
    assert_eq!(blocks(&a, 9, M), 1, "the pageblock is free as a whole");
    assert_eq!(owner.back.get(), 0);
    sound(&a);
    give(&a, to, 2);
    sound(&a);
}

#[test]
fn a_block_of_the_wanted_order_or_a_pageblocks_is_not_asked_for() {
    for (order, wanted, asked) in [(3, 3, false), (4, 3, false), (3, 4, true), (9, 10, false)] {
        // All of the first pageblock is in use, and no two free frames are neighbours, so the goal is not reached yet.
        let (a, block) = one_block_in(Config::linux_6_12(), order, &[]);
        while a.alloc(&CX, &request(order, M)).is_ok() {}
        let owner = owner(&a, order, block, Does::Moves);
        let (outcome, _) = compact(&a, &owner, wanted, Mode::SyncLight);
        assert!(
            !matches!(outcome, Outcome::Skipped | Outcome::Success),
            "order {order} for {wanted}: {outcome:?}"
        );
        let block = BlockId { pfn: block, order: Order::of(order) };
        assert_eq!(owner.asked.borrow().contains(&block), asked, "order {order} for {wanted}");
        sound(&a);
    }
}

#[test]
fn no_block_of_several_frames_moves_before_6_9() {
    let (a, block) = one_block_in(Config::linux_6_1(), 2, SMALL);
    let owner = owner(&a, 2, block, Does::Moves);
    let (outcome, moved) = compact(&a, &owner, 9, Mode::SyncLight);
    assert_ne!(outcome, Outcome::Success);
    assert_eq!((moved, owner.asked.borrow().len(), blocks(&a, 9, M)), (0, 0, 0));
    sound(&a);
}

#[test]
fn a_block_without_a_target_of_its_order_stays_and_ends_the_compaction() {
    let (a, block) = one_block_in(Config::linux_6_12(), 2, &apart());
    let owner = owner(&a, 2, block, Does::Moves);
    let (outcome, moved) = compact(&a, &owner, 9, Mode::SyncLight);
    // The scanners have not met when the batch fails for want of memory.
    assert_eq!((outcome, moved, owner.back.get()), (Outcome::Contended, 0, 1));
    assert_eq!(*owner.held.borrow(), [block]);
    sound(&a);
}

/// Many free frames, none of them next to another.
fn apart() -> Vec<(u64, u8)> {
    (0..200).map(|n| (7168 + 4 * n, 0)).collect()
}

#[test]
fn a_block_without_a_target_of_its_order_is_split_and_its_frames_move() {
    for (moves, mode) in [("batch", Mode::Async), ("batch", Mode::SyncLight), ("downwards", Mode::SyncLight)]
    {
        let mut config = Config::linux_6_12();
        config.set("compaction.moves", moves).unwrap();
        let (a, block) = one_block_in(config, 3, &apart());
        let owner = Owner { splits: Splits::Yes, ..owner(&a, 3, block, Does::Moves) };
        assert_eq!(compact(&a, &owner, 9, mode), (Outcome::Success, 8), "{moves}, {mode:?}");
        assert_eq!(blocks(&a, 9, M), 1, "the pageblock is free as a whole");
        let to = owner.parts.borrow();
        // The last frame moved first; of the free frames that were found the lowest is used first.
        assert!(to.len() == 8 && to.iter().rev().is_sorted(), "{to:?}");
        assert!(owner.held.borrow().is_empty() && owner.back.get() == 0);
        sound(&a);
        to.iter().for_each(|pfn| give(&a, *pfn, 0));
        sound(&a);
    }
}

#[test]
fn a_frame_of_a_split_block_that_stays_does_not_end_the_compaction() {
    let (a, block) = one_block_in(Config::linux_6_12(), 3, &apart());
    let owner = Owner { splits: Splits::PinsOne, ..owner(&a, 3, block, Does::Moves) };
    let (outcome, moved) = compact(&a, &owner, 9, Mode::SyncLight);
    assert!(moved == 7 && outcome != Outcome::Contended, "{outcome:?}, {moved}");
    assert_eq!(owner.parts.borrow()[0], block, "it stays where it was");
    sound(&a);
}

#[test]
fn an_owner_that_cannot_split_or_panics_loses_no_frame() {
    for splits in [Splits::Frees, Splits::Panics] {
        let (a, block) = one_block_in(Config::linux_6_12(), 3, &apart());
        let owner = Owner { splits, ..owner(&a, 3, block, Does::Moves) };
        let ran = catch_unwind(AssertUnwindSafe(|| compact(&a, &owner, 9, Mode::SyncLight)));
        assert_eq!(ran.is_err(), splits == Splits::Panics);
        a.drain(CpuSet::All);
        sound(&a);
        if splits == Splits::Frees {
            assert_eq!(*owner.freed.borrow(), [Ok(())]);
            assert_eq!((owner.back.get(), ran.unwrap().1), (1, 0), "the block came back, and nothing moved");
        }
        while a.alloc(&CX, &request(0, M)).is_ok() {}
        let census = a.audit().unwrap();
        assert!(census.is_conserved() && census.allocated == Frames(FRAMES), "{splits:?}: {census:?}");
    }
}

#[test]
fn a_larger_block_in_stock_is_halved_and_its_upper_halves_stay() {
    let (a, block) = one_block_in(Config::linux_6_12(), 2, &[(7680, 5)]);
    let owner = owner(&a, 2, block, Does::Moves);
    assert_eq!(compact(&a, &owner, 9, Mode::Async), (Outcome::Success, 4));
    assert_eq!(*owner.held.borrow(), [Pfn(7680)]);
    let free = a.zone_stats(ZONE).unwrap().blocks_by_order();
    assert_eq!(free[2..5], [1, 1, 1], "what is left of the block is free again: {free:?}");
    sound(&a);
}

#[test]
fn the_rest_of_a_block_that_is_on_no_list_for_reclaim_is_looked_at_in_vain() {
    for (listed, mode, moves) in
        [(true, Mode::Async, true), (false, Mode::SyncLight, true), (false, Mode::Async, false)]
    {
        let mut config = Config::linux_6_12();
        // A request that does not wait gives up a block of the wanted order at its first failure.
        config.set("compaction.skip_on_failure", "all").unwrap();
        if mode != Mode::Async {
            config.set("compaction.skip_on_failure", "off").unwrap();
        }
        let (a, block) = one_block_in(config, 2, &[(7680, 5)]);
        let owner = Owner { listed, ..owner(&a, 2, block, Does::Moves) };
        let (_, moved) = compact(&a, &owner, 9, mode);
        assert_eq!(moved == 4, moves, "{listed}, {mode:?}: {moved}");
        assert_eq!(owner.back.get() > 0, !moves, "what was isolated is put back");
        sound(&a);
    }
}

#[test]
fn a_wrong_free_while_a_block_is_isolated_corrupts_nothing() {
    for does in [Does::FreesSource, Does::FreesTarget, Does::FreesInside, Does::Panics] {
        for moves in ["batch", "downwards"] {
            let mut config = Config::linux_6_12();
            config.set("compaction.moves", moves).unwrap();
            let (a, block) = one_block_in(config, 2, SMALL);
            let owner = owner(&a, 2, block, does);
            let ran = catch_unwind(AssertUnwindSafe(|| compact(&a, &owner, 9, Mode::SyncLight)));
            assert_eq!(ran.is_err(), does == Does::Panics);
            a.drain(CpuSet::All);
            sound(&a);
            let freed = owner.freed.borrow();
            match does {
                // No free of a single frame succeeds inside a block.
                Does::FreesInside => {
                    assert!(freed.iter().all(|f| matches!(f, Err(FreeError::NotHead { .. }))))
                }
                Does::Panics => assert_eq!(owner.back.get(), 1),
                _ => assert!(!freed.is_empty() && freed.iter().all(Result::is_ok)),
            }
            // Every frame is free or in use once: what is free can be taken.
            let (mut taken, free) = (0, a.zone_stats(ZONE).unwrap().free.0);
            while a.alloc(&CX, &request(0, M)).is_ok() {
                taken += 1;
            }
            assert_eq!(taken, free, "{does:?}");
            let census = a.audit().unwrap();
            assert!(census.is_conserved() && census.allocated == Frames(FRAMES), "{does:?}: {census:?}");
        }
    }
}

#[test]
fn frames_in_stock_become_a_block_and_single_frames_again() {
    let (a, _) = one_block_in(Config::linux_6_12(), 2, SMALL);
    let mut stock = HeldFrees::new(TargetOrder::SmallestFirst);
    let four = BlockId { pfn: Pfn(7176), order: Order::of(2) };
    let take_it = |stock: &mut _| {
        a.isolate_free_blocks(ZONE, Pfn(7176)..Pfn(7180), 4, Frames(0), 1, stock);
    };
    take_it(&mut stock);
    assert_eq!((stock.has(Order::of(2)), stock.has(Order::of(3))), (true, false));
    assert_eq!((stock.take_of(Order::of(2)), stock.len()), (Some(four.pfn), 0));
    assert!(a.join(four) && !a.join(four), "it is one block already");
    assert!(a.part(four) && !a.part(four), "it is single frames already");
    // A frame that a caller frees without owning it is lost, and the others are given back.
    give(&a, Pfn(7178), 0);
    assert!(!a.join(four));
    a.drain(CpuSet::All);
    sound(&a);
    assert_eq!(a.frame(four.pfn), FrameState::Free(Order::of(2)));
    take_it(&mut stock);
    assert_eq!(stock.take_of(Order::of(2)), Some(four.pfn));
    assert!(a.join(four));
    give(&a, four.pfn, 2);
    assert!(!a.part(four), "the whole of it was freed");
    a.drain(CpuSet::All);
    sound(&a);
}
