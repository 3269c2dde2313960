//! Watchers of an engine in some rounds: an observer, or a clearer, whose calls must match the true state.

use super::fault::{Faults, Rule, UNKNOWN};
use super::oracle::Oracle;
use pageyard::{BlockId, Caches, Clear, Migratetype, Observer, Order, Pfn, Request, RequestFlags};
use std::sync::atomic::{AtomicU16, Ordering::SeqCst};

/// In the table: the order plus one, and one end that came before its beginning.
const BLOCK: u16 = 0xff;
const EARLY: u16 = BLOCK + 1;

/// In which way a round is watched. Not in both: an engine takes longer paths with an observer.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// By an observer.
    Observed,
    /// By something that clears, with `Config::init_on_alloc` and `Config::init_on_free`.
    Cleared { on_alloc: bool, on_free: bool },
}

/// A table of live blocks that the engine's events make, or the frames' contents.
pub(super) struct Watched<'m> {
    oracle: &'m Oracle,
    faults: &'m Faults,
    /// Of each frame that begins a live block, its order plus one; and how many ends of moved frames came before the
    /// moves.
    live: Box<[AtomicU16]>,
    pub(super) way: Way,
}

impl<'m> Watched<'m> {
    pub(super) fn new(oracle: &'m Oracle, faults: &'m Faults, frames: u64, way: Way) -> Self {
        let live = (0..frames).map(|_| AtomicU16::new(0)).collect();
        Watched { oracle, faults, live, way }
    }

    /// Changes what the table says of a frame, where the event fits that.
    fn change(&self, pfn: Pfn, event: u64, fits: impl Fn(u16) -> Option<u16>) {
        let Some(word) = self.live.get(pfn.0 as usize) else {
            return self.faults.raise(Rule::Told, UNKNOWN, pfn.0, event, u64::MAX);
        };
        if let Err(found) = word.fetch_update(SeqCst, SeqCst, fits) {
            self.faults.raise(Rule::Told, UNKNOWN, pfn.0, event, found.into());
        }
    }

    /// A block begins to be live.
    fn begins(&self, pfn: Pfn, order: Order) {
        let block = u16::from(order.get()) + 1;
        self.change(pfn, 0, |word| (word & BLOCK == 0).then_some(word | block));
    }

    /// A block ends to be live.
    fn ends(&self, pfn: Pfn, order: Order) {
        let block = u16::from(order.get()) + 1;
        self.change(pfn, block.into(), |word| match word & BLOCK {
            now if now == block => Some(word & !BLOCK),
            // What a compaction has moved there: its owner may let others have it before the observer is told of the
            // move.
            0 if order == Order::ZERO => word.checked_add(EARLY),
            _ => None,
        });
    }

    /// A block is live because contents were moved there.
    fn arrives(&self, pfn: Pfn, order: Order) {
        let block = u16::from(order.get()) + 1;
        self.change(pfn, 0, |word| match word & BLOCK {
            _ if word >= EARLY => Some(word - EARLY),
            0 => Some(word | block),
            _ => None,
        });
    }

    /// Returns how many blocks are live, as far as the observer was told.
    pub(super) fn live(&self) -> usize {
        self.live.iter().filter(|word| word.load(SeqCst) != 0).count()
    }

    /// Returns whether the observer was told that a block is live.
    pub(super) fn is_live(&self, block: BlockId) -> bool {
        self.live[block.pfn.0 as usize].load(SeqCst) == u16::from(block.order.get()) + 1
    }

    /// Returns whether a block that a request got has to be zeros.
    pub(super) fn must_be_zero(&self, request: Option<&Request>) -> bool {
        match self.way {
            Way::Observed => false,
            Way::Cleared { on_alloc, .. } => {
                on_alloc || request.is_some_and(|r| r.flags.contains(RequestFlags::ZERO))
            }
        }
    }
}

impl Observer for Watched<'_> {
    fn allocated(&self, pfn: Pfn, order: Order, _: Migratetype) {
        self.begins(pfn, order);
    }

    fn freed(&self, pfn: Pfn, order: Order) {
        self.ends(pfn, order);
    }

    fn split(&self, pfn: Pfn, from: Order, to: Order) {
        self.ends(pfn, from);
        let parts = (0..from.frames().0).step_by(to.frames().0 as usize);
        parts.for_each(|part| self.begins(Pfn(pfn.0 + part), to));
    }

    fn migrated(&self, from: BlockId, to: Pfn) {
        self.ends(from.pfn, from.order);
        self.arrives(to, from.order);
    }
}

impl Clear for Watched<'_> {
    /// No frame has an owner while the engine clears it: its contents would be lost.
    fn clear(&self, pfn: Pfn, order: Order, _: Caches) {
        let block = BlockId { pfn, order };
        if let Some((frame, owner)) = self.oracle.first_owned(block) {
            self.faults.raise(Rule::Owners, UNKNOWN, frame, 0, owner.into());
        }
        self.oracle.fill(block, false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn single(pfn: u64) -> BlockId {
        BlockId { pfn: Pfn(pfn), order: Order::ZERO }
    }

    #[test]
    fn events_that_do_not_fit_are_found() {
        let (oracle, two) = (Oracle::new(8), Order::of(1));
        let found = |events: fn(&Watched<'_>, Order)| {
            let faults = Faults::new(0);
            events(&Watched::new(&oracle, &faults, 8, Way::Observed), two);
            faults.take().map(|fault| (fault.rule, fault.pfn))
        };
        let fit = |w: &Watched<'_>, two| {
            w.allocated(Pfn(2), two, Migratetype::Movable);
            w.split(Pfn(2), two, Order::ZERO);
            w.migrated(single(3), Pfn(5));
            w.freed(Pfn(5), Order::ZERO);
            assert!(w.is_live(BlockId { pfn: Pfn(2), order: Order::ZERO }) && w.live() == 1);
        };
        assert_eq!(found(fit), None);
        assert_eq!(found(|w, two| w.freed(Pfn(4), two)), Some((Rule::Told, Some(4))));
        assert_eq!(found(|w, _| w.migrated(single(9), Pfn(1))), Some((Rule::Told, Some(9))));
        let freed_before_the_move_was_told = |w: &Watched<'_>, _| {
            w.allocated(Pfn(1), Order::ZERO, Migratetype::Movable);
            w.freed(Pfn(2), Order::ZERO);
            assert_eq!(w.live(), 2, "until then it does not fit");
            w.migrated(single(1), Pfn(2));
            assert_eq!(w.live(), 0);
        };
        assert_eq!(found(freed_before_the_move_was_told), None);
    }

    #[test]
    fn clearing_what_has_an_owner_is_found() {
        let (oracle, faults) = (Oracle::new(8), Faults::new(0));
        let watched = Watched::new(&oracle, &faults, 8, Way::Cleared { on_alloc: true, on_free: true });
        let block = BlockId { pfn: Pfn(4), order: Order::of(1) };
        watched.clear(block.pfn, block.order, Caches::Unknown);
        assert!(!faults.any() && oracle.first_dirty(block).is_none());
        oracle.change(BlockId { pfn: Pfn(5), order: Order::ZERO }, 0, 3).unwrap();
        watched.clear(block.pfn, block.order, Caches::Unknown);
        assert_eq!(faults.take().map(|fault| (fault.rule, fault.pfn)), Some((Rule::Owners, Some(5))));
    }
}
