//! The state that one round's threads share.

use super::fault::{Faults, Rule};
use super::journal::Journal;
use super::kinds::{Kind, Mix};
use super::machine::Machine;
use super::movers::Movers;
use super::oracle::{Oracle, Owner};
use super::plan::Naming;
use super::ranges::Ranges;
use super::subject::Subject;
use super::watched::Watched;
use pageyard::engine::CmaArea;
use pageyard::{BlockId, Cx, Order, PAGEBLOCK_ORDER, PerCpu, Request};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};

/// An engine, the machine it manages, and everything that is known of both.
pub(super) struct Shared<'m, P> {
    pub(super) subject: Subject<'m, P>,
    pub(super) machine: &'m Machine,
    /// The round's contiguous area, if it has one.
    pub(super) area: Option<CmaArea>,
    /// Whether pageblocks go offline.
    pub(super) shrinks: bool,
    pub(super) oracle: &'m Oracle,
    pub(super) movers: Movers,
    pub(super) ranges: Ranges,
    pub(super) faults: &'m Faults,
    /// Whatever watches the engine in this round.
    pub(super) watched: Option<&'m Watched<'m>>,
    pub(super) journals: Vec<Journal>,
    pub(super) mix: Mix,
    pub(super) naming: Naming,
    /// Whether requests may wait.
    pub(super) waits: bool,
    /// The largest order that the engine serves.
    pub(super) largest: Order,
    pub(super) cpus: u32,
    /// Whether only frames of the shared owner are movable, so that whole pageblocks are.
    pub(super) apart: bool,
    /// Frames that a thread may hold.
    pub(super) cap: u64,
    /// Whether threads may take memory at the moment.
    pub(super) may_take: AtomicBool,
    /// Whether handlers may do anything at the moment, and how many do.
    pub(super) quiet: AtomicBool,
    pub(super) handling: AtomicU32,
    /// Counts requests to drain: each thread drains its own lists when it sees another number.
    pub(super) drains: AtomicU64,
    /// For each thread, the request that it has drained its own lists for last.
    pub(super) drained: Vec<AtomicU64>,
    pub(super) tally: Tally,
}

/// Counts of what a storm did.
#[derive(Default)]
pub(super) struct Tally {
    pub(super) kinds: [AtomicU64; Kind::ALL.len()],
    /// Of calls on ranges, those that succeeded.
    pub(super) done: [AtomicU64; Kind::ALL.len()],
    pub(super) refused: AtomicU64,
    pub(super) moves: AtomicU64,
    pub(super) panics: AtomicU64,
    pub(super) handlers: [AtomicU64; 2],
    pub(super) by_handlers: AtomicU64,
    pub(super) contested: AtomicU64,
    pub(super) closed: AtomicU64,
}

/// Adds to a counter.
pub(super) fn add(counter: &AtomicU64, n: u64) {
    // ORDER: Relaxed: counts are read after the threads have ended.
    counter.fetch_add(n, Relaxed);
}

impl<P: PerCpu> Shared<'_, P> {
    /// Returns the largest order that free frames merge to: the pageblocks of an area merge with no others.
    pub(super) fn merges_to(&self) -> Order {
        if self.area.is_some() { self.largest.min(PAGEBLOCK_ORDER) } else { self.largest }
    }

    /// Books a block that the engine handed out to a call that began at `began`; `false` where that broke a rule.
    pub(super) fn receive(
        &self,
        owner: Owner,
        me: u32,
        request: Option<&Request>,
        block: BlockId,
        began: u64,
    ) -> bool {
        if let Err((frame, found)) = self.oracle.change(block, 0, owner) {
            self.faults.raise(Rule::Owners, me, frame, 0, found.into());
            return false;
        }
        if let Some(why) = self.machine.forbids(block, request) {
            self.faults.say(Rule::Zone, Some(me), Some(block.pfn.0), || {
                format!("{request:?} was served with {block:?}: {why}")
            });
            return false;
        }
        let zone = self.machine.zone(block.pfn);
        let counts = |b| self.machine.zone_of_block(b) == zone;
        if let Some(closed) = self.ranges.broken_by(block, began, counts) {
            self.faults.say(Rule::Isolation, Some(me), Some(block.pfn.0.max(closed.start().0)), || {
                format!(
                    "{block:?} was handed out while pageblock {closed} was isolated and its lists were empty"
                )
            });
            return false;
        }
        if let Some(dirty) = self.uncleared(request, block) {
            self.faults.say(Rule::Zeros, Some(me), Some(dirty), || {
                format!("{block:?} was handed out for {request:?}, and frame {dirty:#x} was not cleared")
            });
            return false;
        }
        true
    }

    /// Returns the first frame of a block that a request got and that had to be cleared, but was not.
    pub(super) fn uncleared(&self, request: Option<&Request>, block: BlockId) -> Option<u64> {
        if !self.watched?.must_be_zero(request) {
            return None;
        }
        self.oracle.first_dirty(block)
    }

    /// Frees a block that an owner holds; `false` where the engine did not take it.
    pub(super) fn give(&self, owner: Owner, me: u32, cx: &Cx, block: BlockId) -> bool {
        if !self.disown(owner, me, block) {
            return false;
        }
        self.oracle.fill(block, true);
        let freed = self.subject.free(cx, block.pfn, block.order);
        freed.is_ok() || self.not_freed(owner, me, block, &freed)
    }

    /// Takes a block from its owner, before it is freed.
    pub(super) fn disown(&self, owner: Owner, me: u32, block: BlockId) -> bool {
        let changed = self.oracle.change(block, owner, 0);
        if let Err((frame, found)) = changed {
            self.faults.raise(Rule::Owners, me, frame, owner.into(), found.into());
        }
        changed.is_ok()
    }

    /// A free of what is held was refused: the owner has it again.
    pub(super) fn not_freed(
        &self,
        owner: Owner,
        me: u32,
        block: BlockId,
        answer: &dyn core::fmt::Debug,
    ) -> bool {
        let _ = self.oracle.change(block, 0, owner);
        self.faults.say(Rule::RightFree, Some(me), Some(block.pfn.0), || {
            format!("the free of {block:?}, which thread {me} holds, answered {answer:?}")
        });
        false
    }

    /// Checks the engine's counts while every thread waits and no handler works.
    pub(super) fn look(&self) {
        self.quiet.store(true, SeqCst);
        while self.handling.load(SeqCst) > 0 {
            std::hint::spin_loop();
        }
        match self.subject.audit() {
            Ok(census) if !census.is_conserved() => {
                self.faults.say(Rule::Census, None, None, || format!("between two stretches: {census:?}"));
            }
            Ok(_) => {}
            Err(why) => {
                self.faults
                    .say(Rule::Audit, None, Some(why.pfn.0), || format!("between two stretches: {why}"));
            }
        }
        self.quiet.store(false, SeqCst);
    }

    pub(super) fn count_move(&self) {
        add(&self.tally.moves, 1);
    }
}
