//! From a trace's rows to calls: what each row means, given what is in the book.

use super::ledger::{Ledger, Stand};
use super::report::EventCounts;
use crate::machine::Machine;
use pageyard::{CpuId, Cx, FreeError, Migratetype, Nanos, Order, Pfn, Request};
use pageyard_trace::{Event, EventKind, FAILED};

/// Makes the calls, now or later.
pub trait Calls {
    /// Makes a request that the host served, and says what stands for the block.
    fn alloc(&mut self, cx: &Cx, request: &Request) -> Stand;

    /// Makes a request that the host refused, and gives back what it yields.
    fn alloc_refused(&mut self, cx: &Cx, request: &Request);

    /// Frees what stands for a block.
    fn free(&mut self, cx: &Cx, stand: Stand, order: Order);

    /// Halves what stands for a block.
    fn halve(&mut self, cx: &Cx, stand: Stand, order: Order) -> Result<(Stand, Stand), FreeError>;
}

/// A walk through a trace.
pub struct Walk<'a> {
    pub ledger: Ledger,
    pub counts: EventCounts,
    /// Frees for which a block could not be halved.
    pub refused_splits: u64,
    machine: &'a Machine,
}

impl<'a> Walk<'a> {
    /// Begins a walk.
    pub fn new(machine: &'a Machine) -> Walk<'a> {
        Walk {
            ledger: Ledger::new(machine.end()),
            counts: EventCounts::default(),
            refused_splits: 0,
            machine,
        }
    }

    /// Turns a row into calls.
    pub fn event(&mut self, calls: &mut impl Calls, event: &Event) {
        self.counts.events += 1;
        let Some(order) = Order::new(event.order) else { return };
        let cx = Cx { cpu: CpuId(event.cpu), context: event.context, now: Nanos(event.time_ns) };
        match event.kind {
            EventKind::Alloc => self.alloc(calls, &cx, event, order),
            EventKind::Free => self.free(calls, &cx, event, order),
            EventKind::AllocExtfrag => self.counts.extfrag += 1,
            EventKind::PcpuDrain => self.counts.drains += 1,
            EventKind::AllocZoneLocked => self.counts.zone_locked += 1,
        }
    }

    fn alloc(&mut self, calls: &mut impl Calls, cx: &Cx, event: &Event, order: Order) {
        self.counts.allocs += 1;
        let recorded = u8::try_from(event.migratetype).ok().and_then(Migratetype::from_index);
        let request = Request::from_gfp(event.gfp, &self.machine.gfp, order, recorded);
        let pfn = Pfn(event.pfn);
        if event.pfn == FAILED {
            self.counts.failed += 1;
            calls.alloc_refused(cx, &request);
        } else if !self.ledger.covers(pfn, order) {
            self.counts.outside += 1;
        } else {
            // The host allocated it, so it was free: whoever holds it here gave it up unseen.
            self.counts.reallocations += u64::from(self.ledger.note_alloc(pfn));
            self.give_up(calls, cx, pfn, order);
            let stand = calls.alloc(cx, &request);
            self.ledger.put(pfn, order, stand);
        }
    }

    fn free(&mut self, calls: &mut impl Calls, cx: &Cx, event: &Event, order: Order) {
        self.counts.frees += 1;
        let pfn = Pfn(event.pfn);
        if !self.ledger.covers(pfn, order) {
            self.counts.outside += 1;
            return;
        }
        self.counts.unknown_frees += u64::from(!self.ledger.note_free(pfn));
        self.counts.unresolved_frees += u64::from(self.give_up(calls, cx, pfn, order) == 0);
    }

    /// Frees whatever the book has within a recorded block; returns how many parts that were.
    fn give_up(&mut self, calls: &mut impl Calls, cx: &Cx, pfn: Pfn, order: Order) -> u64 {
        let halve = |calls: &mut _, stand, order| match stand {
            Stand::UNSERVED => Ok((stand, stand)),
            _ => Calls::halve(calls, cx, stand, order),
        };
        let free = |calls: &mut _, stand, order| {
            if stand != Stand::UNSERVED {
                Calls::free(calls, cx, stand, order);
            }
        };
        self.ledger.remove(pfn, order, calls, halve, free).unwrap_or_else(|_| {
            self.refused_splits += 1;
            1
        })
    }
}
