//! Callbacks as blocks change hands: for page owners, poisoning, guard frames, leak checks and injected failures.

use crate::migratetype::Migratetype;
use crate::request::Request;
use crate::units::{BlockId, Order, Pfn};

/// Is told of every block that is handed out, freed, split or moved.
///
/// `()` ignores everything and costs nothing. An observer is a type parameter of its engine, not a `dyn` value, so its
/// calls are inlined. A pair `(A, B)` tells both, `A` first; pairs nest.
///
/// # Order of events
/// Between an `allocated` and the `freed` of the same block the block is live, and both are called while no other
/// caller can have it: `allocated` before the call that allocates returns, `freed` before the block can be allocated
/// again. So an observer that keeps a table of live blocks needs only a lock on the table.
///
/// Frames in transit are not reported: those in per-CPU lists, and free frames that compaction sets aside.
///
/// # Panics
/// A callback may panic; the panic goes to the caller of the engine, and the engine stays consistent:
///
/// * in [`allocated`](Observer::allocated), the block stays allocated and has no owner: it is leaked, as are the blocks
///   that the same bulk call got before;
/// * in [`freed`](Observer::freed) and [`split`](Observer::split), nothing happened: the block is live, as it was;
/// * in [`migrated`](Observer::migrated), the contents have moved, and the old frame is leaked.
///
/// # Reentrancy
/// A callback must not call the engine that calls it. Where the engine's calls must not overlap on a CPU (`Exclusive`,
/// `Alone`), doing so breaks the promise given when the engine was made.
pub trait Observer: Sync {
    /// Whether the observer wants any calls. An engine can take shorter paths where it does not.
    const ACTIVE: bool = true;

    /// Whether [`freed`](Observer::freed) or [`migrated`](Observer::migrated) writes to the frames that are given up.
    /// Then an engine takes no caller's word that a block is zeros when it is freed, and clears none at that time.
    const WRITES: bool = false;

    /// Returns whether to refuse a request with [`AllocError::OutOfMemory`](crate::AllocError::OutOfMemory), as if no
    /// memory were left: for tests of what callers do then.
    ///
    /// It is asked once a request, before anything is tried; for each block of a bulk call; and not where a block or a
    /// range is asked for by its number.
    ///
    /// # Linux
    /// `should_fail_alloc_page`.
    #[inline(always)]
    fn refuses(&self, request: &Request) -> bool {
        let _ = request;
        false
    }

    /// A block was handed out: it is tagged as allocated, and the caller gets it next. `migratetype` is what was asked
    /// for.
    fn allocated(&self, pfn: Pfn, order: Order, migratetype: Migratetype);

    /// A block was given up by its owner. No other call frees it, and none can allocate it until this returns.
    fn freed(&self, pfn: Pfn, order: Order);

    /// A live block of order `from` becomes live blocks of order `to`, none of which can be freed until this returns.
    fn split(&self, pfn: Pfn, from: Order, to: Order);

    /// Compaction moved the contents of a live block: the one at `to`, of the same order, is its owner's now, and
    /// `from` is free afterwards, without a [`freed`](Observer::freed).
    ///
    /// The owner's callback has let others have `to` by then: where one of them frees it at once, that is told first.
    fn migrated(&self, from: BlockId, to: Pfn);
}

impl Observer for () {
    const ACTIVE: bool = false;

    #[inline(always)]
    fn allocated(&self, _: Pfn, _: Order, _: Migratetype) {}

    #[inline(always)]
    fn freed(&self, _: Pfn, _: Order) {}

    #[inline(always)]
    fn split(&self, _: Pfn, _: Order, _: Order) {}

    #[inline(always)]
    fn migrated(&self, _: BlockId, _: Pfn) {}
}

/// Implements [`Observer`] for what dereferences to one.
macro_rules! observe_through {
    ([$($generics:tt)*] $pointer:ty) => {
        impl<$($generics)*> Observer for $pointer {
            const ACTIVE: bool = O::ACTIVE;
            const WRITES: bool = O::WRITES;

            #[inline(always)]
            fn refuses(&self, request: &Request) -> bool {
                (**self).refuses(request)
            }

            #[inline(always)]
            fn allocated(&self, pfn: Pfn, order: Order, migratetype: Migratetype) {
                (**self).allocated(pfn, order, migratetype);
            }

            #[inline(always)]
            fn freed(&self, pfn: Pfn, order: Order) {
                (**self).freed(pfn, order);
            }

            #[inline(always)]
            fn split(&self, pfn: Pfn, from: Order, to: Order) {
                (**self).split(pfn, from, to);
            }

            #[inline(always)]
            fn migrated(&self, from: BlockId, to: Pfn) {
                (**self).migrated(from, to);
            }
        }
    };
}

observe_through!([O: Observer] &O);

#[cfg(feature = "alloc")]
observe_through!([O: Observer + Send] alloc::sync::Arc<O>);

/// Both are told, and either may refuse: the first one to do so ends the asking.
impl<A: Observer, B: Observer> Observer for (A, B) {
    const ACTIVE: bool = A::ACTIVE || B::ACTIVE;
    const WRITES: bool = A::WRITES || B::WRITES;

    #[inline(always)]
    fn refuses(&self, request: &Request) -> bool {
        self.0.refuses(request) || self.1.refuses(request)
    }

    #[inline(always)]
    fn allocated(&self, pfn: Pfn, order: Order, migratetype: Migratetype) {
        self.0.allocated(pfn, order, migratetype);
        self.1.allocated(pfn, order, migratetype);
    }

    #[inline(always)]
    fn freed(&self, pfn: Pfn, order: Order) {
        self.0.freed(pfn, order);
        self.1.freed(pfn, order);
    }

    #[inline(always)]
    fn split(&self, pfn: Pfn, from: Order, to: Order) {
        self.0.split(pfn, from, to);
        self.1.split(pfn, from, to);
    }

    #[inline(always)]
    fn migrated(&self, from: BlockId, to: Pfn) {
        self.0.migrated(from, to);
        self.1.migrated(from, to);
    }
}
