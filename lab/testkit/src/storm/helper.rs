//! The owner that reclaim and compaction call back: it refuses, frees under them, and panics.

use super::fault::Rule;
use super::kinds::Kind;
use super::oracle;
use super::shared::Shared;
use pageyard::compaction::{Busy, Migrate, MigrateError, Mode};
use pageyard::reclaim::{Reclaim, Reclaimed, Shortage};
use pageyard::{BlockId, Cx, Frames, Migratetype, Order, PerCpu, Pfn, Request, RequestFlags, ZoneId};
use std::cell::Cell;

/// The payload of a planned panic of a callback.
pub(super) struct Planned;

/// Chance, for callbacks that have no generator of their own.
pub(super) struct Dice {
    state: Cell<u64>,
    /// One callback in this many panics; 0 for none.
    panics: u64,
    /// Whether callbacks refuse and free.
    refuses: bool,
    /// Panics so far.
    panicked: Cell<u64>,
}

impl Dice {
    pub(super) fn new(seed: u64, panics: u64, refuses: bool) -> Dice {
        Dice { state: Cell::new(seed | 1), panics, refuses, panicked: Cell::new(0) }
    }

    fn below(&self, n: u64) -> u64 {
        let mut x = self.state.get();
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        self.state.set(x);
        (x >> 16) % n
    }

    /// Panics if it should, unless the thread is already panicking: a second panic would end the process.
    fn may_panic(&self) {
        if self.panics > 0 && !std::thread::panicking() && self.below(self.panics) == 0 {
            self.panicked.set(self.panicked.get() + 1);
            // No message is printed that way.
            std::panic::resume_unwind(Box::new(Planned));
        }
    }

    pub(super) fn panicked(&self) -> u64 {
        self.panicked.get()
    }
}

/// A frame that compaction isolated.
pub(super) struct Token<'a> {
    dice: &'a Dice,
    at: u32,
    pfn: Pfn,
}

impl Drop for Token<'_> {
    fn drop(&mut self) {
        self.dice.may_panic();
    }
}

/// The shared owner, as one call sees it.
pub(super) struct Helper<'a, 'm, P> {
    pub(super) shared: &'a Shared<'m, P>,
    pub(super) dice: &'a Dice,
    pub(super) me: u32,
    pub(super) cx: Cx,
    /// Whether what is moved has to stay in its zone.
    pub(super) stays: bool,
}

impl<P: PerCpu> Helper<'_, '_, P> {
    /// Frees a frame that a slot held, and empties the slot.
    fn free(&self, at: u32, pfn: Pfn) {
        let block = BlockId { pfn, order: Order::ZERO };
        if let Err((frame, found)) = self.shared.oracle.change(block, oracle::slot(at), 0) {
            self.shared.faults.raise(
                Rule::Owners,
                self.me,
                frame,
                u64::from(oracle::slot(at)),
                u64::from(found),
            );
        }
        self.shared.movers.clear(at);
        if let Err(why) = self.shared.subject.free(&self.cx, pfn, Order::ZERO) {
            self.shared.faults.say(Rule::RightFree, Some(self.me), Some(pfn.0), || {
                format!("a callback's free of frame {pfn}, order 0, was refused: {why}")
            });
        }
    }

    /// Allocates a frame and frees it again, as a callback may.
    fn churn(&self) {
        let request = Request::new(Order::ZERO, Migratetype::Movable).with(RequestFlags::MEMALLOC);
        let began = self.shared.ranges.now();
        let Ok(pfn) = self.shared.subject.alloc(&self.cx, &request) else { return };
        let block = BlockId { pfn, order: Order::ZERO };
        if self.shared.receive(oracle::thread(self.me), self.me, Some(&request), block, began) {
            self.shared.give(oracle::thread(self.me), self.me, &self.cx, block);
        }
    }
}

impl<P: PerCpu> Reclaim for Helper<'_, '_, P> {
    fn reclaim(&self, _: &Cx, shortage: &Shortage) -> Reclaimed {
        self.dice.may_panic();
        let mut freed = 0;
        for _ in 0..shortage.want.0.min(32) {
            let start = self.dice.below(self.shared.movers.len() as u64) as usize;
            let here = |pfn| {
                let zone = self.shared.machine.zone(pfn);
                zone.is_some_and(|zone| shortage.zones.contains(ZoneId(zone as u16)))
            };
            let Some((at, pfn)) = self.shared.movers.take(start, here) else { continue };
            self.free(at, pfn);
            freed += 1;
            self.dice.may_panic();
        }
        Reclaimed { scanned: shortage.want, freed: Frames(freed) }
    }

    fn reclaimable(&self, _: ZoneId) -> Frames {
        self.dice.may_panic();
        Frames(64)
    }
}

// SAFETY: a slot is the only reference to its frame, and a move changes it in one step.
unsafe impl<'a, P: PerCpu> Migrate for Helper<'a, '_, P> {
    type Isolated = Token<'a>;

    fn isolate(&self, pfn: Pfn, _: Mode) -> Result<Token<'a>, Busy> {
        self.dice.may_panic();
        if self.dice.refuses && self.dice.below(32) == 0 {
            return Err([Busy::Pinned, Busy::Locked, Busy::Gone][self.dice.below(3) as usize]);
        }
        let at = self.shared.movers.isolate(pfn).ok_or(Busy::Pinned)?;
        Ok(Token { dice: self.dice, at, pfn })
    }

    fn migrate(&self, from: &mut Token<'a>, to: Pfn, _: Mode) -> Result<(), MigrateError> {
        self.dice.may_panic();
        let shared = self.shared;
        if self.dice.refuses {
            match self.dice.below(24) {
                0 | 1 => return Err(MigrateError::Again),
                2 => return Err(MigrateError::Refused),
                3 => {
                    self.free(from.at, from.pfn);
                    return Err(MigrateError::Gone);
                }
                4 => self.churn(),
                _ => {}
            }
        }
        if self.stays && shared.machine.zone(from.pfn) != shared.machine.zone(to) {
            shared.faults.say(Rule::Zone, Some(self.me), Some(to.0), || {
                let kind = |pfn| shared.machine.zone(pfn).map(|z| shared.machine.zones[z].1.kind);
                format!(
                    "compaction moves frame {} of {:?} to frame {to} of {:?}",
                    from.pfn,
                    kind(from.pfn),
                    kind(to)
                )
            });
        }
        let block = |pfn| BlockId { pfn, order: Order::ZERO };
        let slot = oracle::slot(from.at);
        if let Err((frame, found)) = shared.oracle.change(block(to), 0, slot) {
            shared.faults.raise(Rule::Owners, self.me, frame, 0, found.into());
        }
        shared.oracle.fill(block(to), true);
        if let Err((frame, found)) = shared.oracle.change(block(from.pfn), slot, 0) {
            shared.faults.raise(Rule::Owners, self.me, frame, slot.into(), found.into());
        }
        shared.journals[self.me as usize].note(Kind::Compact, to, Order::ZERO, super::journal::End::Done);
        shared.movers.settle(from.at, to);
        shared.count_move();
        Ok(())
    }

    fn putback(&self, from: Token<'a>) {
        if !self.shared.movers.put_back(from.at, from.pfn) {
            self.shared.faults.say(Rule::PutBack, Some(self.me), Some(from.pfn.0), || {
                format!("frame {} was put back, but it is not isolated", from.pfn)
            });
        }
        self.dice.may_panic();
    }
}
