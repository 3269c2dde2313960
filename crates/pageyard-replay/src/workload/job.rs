//! One job of a load: where it stands in the recording, and what it holds.

use super::object::Role;
use super::owners::Owners;
use crate::engine::ReplayEngine;
use crate::latency::SAMPLE;
use crate::ledger::{Ledger, Stand};
use pageyard::{Cx, FreeError, Order, Pfn, PressureAllocator};
use std::time::Instant;

/// Frames of the recorded machine are renumbered in chunks of this many, so that tables are as large as what is used.
pub(super) const CHUNK: Order = Order::of(10);

/// The time that calls of the engine take: one call in [`SAMPLE`] is timed, and counts for all of them.
pub(super) struct Timed {
    on: bool,
    clock_ns: u64,
    /// Nanoseconds so far.
    pub ns: u64,
}

impl Timed {
    /// Times the calls of the n-th row, if it is one of the sample.
    pub fn row(n: u64, clock_ns: u64) -> Timed {
        Timed { on: n.is_multiple_of(SAMPLE), clock_ns, ns: 0 }
    }

    pub fn call<T>(&mut self, call: impl FnOnce() -> T) -> T {
        if !self.on {
            return call();
        }
        let start = Instant::now();
        let result = call();
        let ns = (start.elapsed().as_nanos() as u64).saturating_sub(self.clock_ns);
        self.ns += ns * SAMPLE;
        result
    }
}

/// How a job parts with a block.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Leaving {
    /// It frees it.
    Freed,
    /// It is no longer interested: page cache stays until it is reclaimed, and all else is freed.
    Abandoned,
}

/// A job.
pub(super) struct Job {
    ledger: Ledger,
    frames: u64,
    /// The row that comes next.
    pub row: usize,
    /// When its present round began, in the load's time; may lie before it.
    pub began: i64,
    /// Frames that it holds, without page cache: what ending it would free.
    pub held: u64,
}

impl Job {
    /// Makes a job that holds nothing, of a recording with this many renumbered frames.
    pub fn new(frames: u64, row: usize, began: i64) -> Job {
        Job { ledger: Ledger::new(Pfn(frames)), frames, row, began, held: 0 }
    }

    /// Enters a block that it was given, or was refused ([`Stand::UNSERVED`]).
    pub fn put(&mut self, (pfn, order): (Pfn, Order), stand: Stand, role: Role) {
        if stand != Stand::UNSERVED && role != Role::Cache {
            self.held += order.frames().0;
        }
        self.ledger.put(pfn, order, stand);
    }

    /// Parts with all that it holds of a recorded block.
    pub fn leave<E: PressureAllocator + ReplayEngine>(
        &mut self,
        owners: &Owners<'_, E>,
        cx: &Cx,
        (pfn, order): (Pfn, Order),
        leaving: Leaving,
        timed: &mut Timed,
    ) {
        let mut left = 0;
        let halve = |_: &mut (), stand: Stand, _| -> Result<_, FreeError> {
            match stand {
                Stand::UNSERVED => Ok((stand, stand)),
                _ => Ok((stand, owners.halve(stand.0)?.map_or(Stand::UNSERVED, Stand))),
            }
        };
        let release = |_: &mut (), stand: Stand, order: Order| {
            if stand == Stand::UNSERVED {
                return;
            }
            if owners.role(stand.0) != Role::Cache {
                left += order.frames().0;
            }
            timed.call(|| match leaving {
                Leaving::Abandoned => owners.abandon(cx, stand.0),
                Leaving::Freed => _ = owners.free(cx, stand.0),
            });
        };
        let parted = self.ledger.remove(pfn, order, &mut (), halve, release);
        assert!(parted.is_ok(), "the engine refuses to split a block that is held: {parted:?}");
        self.held -= left;
    }

    /// Ends its processes, as the OOM killer does: all is freed but page cache. It begins anew when its next round is
    /// due, `round_ns` after this one.
    pub fn kill<E: PressureAllocator + ReplayEngine>(
        &mut self,
        owners: &Owners<'_, E>,
        cx: &Cx,
        round_ns: u64,
        timed: &mut Timed,
    ) {
        for chunk in (0..self.frames).step_by(CHUNK.frames().0 as usize) {
            self.leave(owners, cx, (Pfn(chunk), CHUNK), Leaving::Abandoned, timed);
        }
        self.row = 0;
        self.began += round_ns as i64;
    }
}
