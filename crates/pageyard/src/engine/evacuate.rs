//! Moving everything out of a range of frames: a block that compaction makes free, or a range by its numbers.

use super::geometry::PAGEBLOCK;
use super::held::{HeldBlock, Stock};
use super::pcp::percpu::PerCpu;
use super::yard::Pageyard;
use core::ops::Range;
use pageyard_core::clear::Clear;
use pageyard_core::compaction::{
    Busy, CLUSTER, Cluster, FrameState, IsolatedBlock, Migrate, MigrateError, Mode, Slots, Work,
};
use pageyard_core::observer::Observer;
use pageyard_core::units::{BlockId, Order, Pfn};

/// Times that a frame is tried before its migration counts as failed.
///
/// # Linux
/// `NR_MAX_MIGRATE_PAGES_RETRY`.
const ROUNDS: u8 = 10;

/// Why a range could not be emptied. What was moved until then stays where it is now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Stuck {
    /// This frame does not move: its owner refused, or it has none, or it is part of a block for which there is no
    /// room, or of one that reaches out of the range.
    At(Pfn),
    /// There was no free frame to move to.
    NoTarget,
    /// Others are to go first.
    Contended,
}

/// Source of the free frames that an evacuation moves contents to.
pub(crate) trait Supply<'y, 'm, P: PerCpu, O: Observer, C: Clear> {
    /// Adds about `want` free frames to a stock that is empty, or none where there are none.
    fn refill(&mut self, stock: &mut Stock<'y, 'm, P, O, C>, want: usize);

    /// Claims a free block of several frames, or none where there is none.
    fn block(&mut self, order: Order) -> Option<HeldBlock<'y, 'm, P, O, C>>;

    /// Returns whether the next cluster of frames may be isolated.
    fn goes_on(&self) -> bool {
        true
    }
}

/// Moves used frames out of a range: single ones, and, if their owner moves blocks, whole blocks of less than a
/// pageblock. It holds a few isolated frames of their owner's and a few free ones, which go back when it is dropped,
/// also during a panic of the owner.
pub(crate) struct Evacuation<'y, 'm, P: PerCpu, O: Observer, C: Clear, M: Migrate> {
    yard: &'y Pageyard<'m, P, O, C>,
    /// Dropped first: this makes no callback, so it has been given back even if a callback then panics.
    pub(crate) stock: Stock<'y, 'm, P, O, C>,
    cluster: Cluster<'y, M, Slots<IsolatedBlock<M>, CLUSTER>>,
    /// Whether a frame in a per-CPU list, or one that is not managed, is in the way.
    strict: bool,
    /// Work done.
    pub(crate) work: Work,
}

impl<'y, 'm, P: PerCpu, O: Observer, C: Clear, M: Migrate> Evacuation<'y, 'm, P, O, C, M> {
    pub(crate) fn new(yard: &'y Pageyard<'m, P, O, C>, owner: &'y M, mode: Mode, strict: bool) -> Self {
        let (stock, cluster) = (Stock::new(yard), Cluster::new(owner, mode));
        Evacuation { yard, stock, cluster, strict, work: Work::default() }
    }

    /// Moves the contents of each used frame of a range to a free frame elsewhere.
    ///
    /// Other calls may allocate from the range meanwhile, unless its pageblocks are isolated. The caller claims the
    /// range afterwards, and finds out then.
    ///
    /// # Linux
    /// `__alloc_contig_migrate_range`.
    pub(crate) fn run(
        &mut self,
        range: Range<Pfn>,
        supply: &mut impl Supply<'y, 'm, P, O, C>,
    ) -> Result<(), Stuck> {
        let emptied = self.try_run(range, supply);
        if emptied.is_err() {
            self.work.abandoned += self.cluster.left() as u64;
            self.cluster.put_back();
        }
        emptied
    }

    fn try_run(&mut self, range: Range<Pfn>, supply: &mut impl Supply<'y, 'm, P, O, C>) -> Result<(), Stuck> {
        let mut at = range.start;
        while at < range.end {
            if !supply.goes_on() {
                return Err(Stuck::Contended);
            }
            while at < range.end && !self.cluster.is_full() {
                at.0 += self.isolate(at, range.end)?;
            }
            self.move_all(supply)?;
        }
        Ok(())
    }

    /// Isolates each frame of a range and puts it back at once: finds a frame that does not move before any is moved.
    pub(crate) fn probe(&mut self, range: Range<Pfn>) -> Result<(), Stuck> {
        let mut at = range.start;
        while at < range.end {
            let looked = self.isolate(at, range.end);
            self.work.isolated -= self.cluster.frames();
            self.cluster.put_back();
            at.0 += looked?;
        }
        Ok(())
    }

    /// Looks at a frame of a range that ends at `end`, and isolates the block that starts there if it is in use;
    /// returns how many frames that settles.
    fn isolate(&mut self, pfn: Pfn, end: Pfn) -> Result<u64, Stuck> {
        self.work.migrate_scanned += 1;
        let state = self.yard.frame(pfn);
        if let FrameState::Allocated(order) = state
            && (order == Order::ZERO || M::MOVES_BLOCKS && order < PAGEBLOCK && pfn + order.frames() <= end)
        {
            let frames = order.frames().0;
            return match self.cluster.isolate(BlockId { pfn, order }) {
                Ok(()) => {
                    self.work.isolated += frames;
                    Ok(frames)
                }
                // Freed meanwhile, or its owner does not know of it.
                Err(Busy::Gone) => self.pass(pfn, self.yard.frame(pfn)).map(|settled| settled.min(frames)),
                Err(Busy::Pinned | Busy::Locked) => Err(Stuck::At(pfn)),
            };
        }
        self.pass(pfn, state)
    }

    /// Passes over a frame that has no owner; returns how many frames that settles.
    fn pass(&self, pfn: Pfn, state: FrameState) -> Result<u64, Stuck> {
        match state {
            FrameState::Free(order) => Ok(order.frames().0),
            FrameState::Hole | FrameState::Inside | FrameState::Cached if !self.strict => Ok(1),
            _ => Err(Stuck::At(pfn)),
        }
    }

    /// Moves what was isolated, each frame to the next free one, each block to one of its order.
    fn move_all(&mut self, supply: &mut impl Supply<'y, 'm, P, O, C>) -> Result<(), Stuck> {
        for _ in 0..ROUNDS {
            for place in 0..self.cluster.places() {
                if let Some(from) = self.cluster.block(place) {
                    self.move_one(place, from, supply)?;
                }
            }
            if self.cluster.first().is_none() {
                // Nothing is left to put back: it is empty again.
                self.cluster.put_back();
                return Ok(());
            }
        }
        self.work.failed += self.cluster.left() as u64;
        Err(self.cluster.first().map_or(Stuck::NoTarget, Stuck::At))
    }

    /// Moves one frame or block, unless it may only move later.
    fn move_one(
        &mut self,
        place: usize,
        from: BlockId,
        supply: &mut impl Supply<'y, 'm, P, O, C>,
    ) -> Result<(), Stuck> {
        let (frames, mode) = (from.order.frames().0, self.cluster.mode());
        // The frame and its target stay where they are until the owner returns: a panic loses neither.
        let (to, result) = if from.order == Order::ZERO {
            if self.stock.next().is_none() {
                supply.refill(&mut self.stock, self.cluster.left());
            }
            let Some(to) = self.stock.next() else {
                self.work.failed += 1;
                return Err(Stuck::NoTarget);
            };
            let result = self.cluster.migrate(place, to, mode);
            if result.is_ok() {
                self.stock.take();
            }
            (to, result)
        } else {
            // A supply has one pageblock at a time.
            self.stock.release();
            let Some(held) = supply.block(from.order) else {
                self.work.failed += frames;
                return Err(Stuck::At(from.pfn));
            };
            let (to, result) = (held.first(), self.cluster.migrate(place, held.first(), mode));
            if result.is_ok() {
                held.take();
            }
            (to, result)
        };
        match result {
            Ok(()) => {
                // The target is the owner's now. What the owner's token does when it is dropped comes last: if that
                // panics, nothing of this move is left to undo.
                let moved = self.cluster.remove(place);
                self.work.moved += frames;
                self.yard.observer.migrated(from, to);
                self.yard.give_back(from);
                drop(moved);
            }
            Err(MigrateError::Again) => {}
            Err(MigrateError::Refused) => {
                self.work.failed += frames;
                return Err(Stuck::At(from.pfn));
            }
            Err(MigrateError::Gone) => drop(self.cluster.remove(place)),
        }
        Ok(())
    }
}
