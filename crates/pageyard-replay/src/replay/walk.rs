//! From a trace's rows to calls: what each row means, given the ledger.

use super::ledger::{Ledger, Stand};
use crate::bitmap::FrameSet;
use crate::machine::Machine;
use pageyard::RequestFlags;
use pageyard::{Context, CpuId, Cx, FreeError, Migratetype, Nanos, Order, Pfn, Request};
use pageyard_trace::{Event, EventKind, FAILED, Move};

/// A row of either file of a trace.
#[derive(Clone, Copy, Debug)]
pub enum Row<'a> {
    /// Something was allocated or freed.
    Event(&'a Event),
    /// A block moved.
    Move(&'a Move),
}

impl Row<'_> {
    /// Returns its time in nanoseconds.
    pub fn time_ns(&self) -> u64 {
        match self {
            Row::Event(event) => event.time_ns,
            Row::Move(row) => row.time_ns,
        }
    }
}

/// The rows of a trace, by what the replay made of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EventCounts {
    /// All rows.
    pub events: u64,
    /// Allocations, failed ones included.
    pub allocs: u64,
    /// Frees.
    pub frees: u64,
    /// Allocations that failed on the host.
    pub failed: u64,
    /// Frees of blocks that no earlier row allocated as such: older than the trace, or parts of a larger block.
    pub unknown_frees: u64,
    /// Frees of frames that neither a row nor the opening state holds: they were skipped.
    pub unresolved_frees: u64,
    /// Allocations of blocks that an earlier row allocated and none freed.
    pub reallocations: u64,
    /// Blocks in use that the host moved and the replay followed.
    pub moves: u64,
    /// Frees of blocks that had moved away: they are neither unknown nor unresolved.
    pub freed_after_moves: u64,
    /// Rows that name frames outside the memory map.
    pub outside: u64,
    /// Fallbacks that the host recorded.
    pub extfrag: u64,
    /// Blocks that the host drained from per-CPU lists.
    pub drains: u64,
    /// Blocks that the host took under its zone lock.
    pub zone_locked: u64,
}

/// Makes the calls, now or later.
pub trait Calls {
    /// Makes the request of a row that the host served, and enters what stands for the block.
    fn alloc(&mut self, cx: &Cx, request: &Request, row: &Event, ledger: &mut Ledger);

    /// Makes the request of a row that the host refused. Nothing is entered: no row frees what it yields.
    fn alloc_refused(&mut self, cx: &Cx, request: &Request, row: &Event);

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
    /// Frames whose contents moved elsewhere, and that the host has yet to free.
    left: FrameSet,
}

impl<'a> Walk<'a> {
    /// Begins a walk.
    pub fn new(machine: &'a Machine) -> Walk<'a> {
        Walk {
            ledger: Ledger::new(machine.end()),
            counts: EventCounts::default(),
            refused_splits: 0,
            machine,
            left: FrameSet::new(machine.end()),
        }
    }

    /// Turns a row into calls.
    pub fn row(&mut self, calls: &mut impl Calls, row: Row<'_>) {
        match row {
            Row::Event(event) => self.event(calls, event),
            Row::Move(row) => self.moved(calls, row),
        }
    }

    fn event(&mut self, calls: &mut impl Calls, event: &Event) {
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
        // A replay has no memory to clear: only which frames were given matters.
        let request =
            Request::from_gfp(event.gfp, &self.machine.gfp, order, recorded).without(RequestFlags::ZERO);
        let pfn = Pfn(event.pfn);
        if event.pfn == FAILED {
            self.counts.failed += 1;
            calls.alloc_refused(cx, &request, event);
        } else if !self.ledger.covers(pfn, order) {
            self.counts.outside += 1;
        } else {
            // The host allocated it, so it was free: its holder here gave it up unrecorded.
            self.counts.reallocations += u64::from(self.ledger.note_alloc(pfn));
            self.give_up(calls, cx, pfn, order);
            self.left.remove(pfn, order.frames());
            calls.alloc(cx, &request, event, &mut self.ledger);
        }
    }

    fn free(&mut self, calls: &mut impl Calls, cx: &Cx, event: &Event, order: Order) {
        self.counts.frees += 1;
        let pfn = Pfn(event.pfn);
        if !self.ledger.covers(pfn, order) {
            self.counts.outside += 1;
            return;
        }
        let known = self.ledger.note_free(pfn);
        let nobodys = self.give_up(calls, cx, pfn, order) == 0;
        if nobodys && self.left.contains(pfn) {
            self.left.remove(pfn, order.frames());
            self.counts.freed_after_moves += 1;
            return;
        }
        self.counts.unknown_frees += u64::from(!known);
        self.counts.unresolved_frees += u64::from(nobodys);
    }

    /// Follows a block that the host moved. The engine's block stays where it is, under another name: where compaction
    /// puts frames is the host's decision; which frames are in use is not.
    fn moved(&mut self, calls: &mut impl Calls, row: &Move) {
        let Some(order) = Order::new(row.order) else { return };
        let (from, to) = (Pfn(row.pfn), Pfn(row.to));
        if !self.ledger.covers(from, order) || !self.ledger.covers(to, order) {
            self.counts.outside += 1;
            return;
        }
        if from == to {
            return;
        }
        let cx = Cx { cpu: CpuId(row.cpu), context: Context::Task, now: Nanos(row.time_ns) };
        // It was free, since the host moved something there.
        self.give_up(calls, &cx, to, order);
        self.left.remove(to, order.frames());
        let halve = |calls: &mut _, stand, order| match stand {
            Stand::UNSERVED => Ok((stand, stand)),
            _ => Calls::halve(calls, &cx, stand, order),
        };
        match self.ledger.rename(from, to, order, calls, halve) {
            Ok(parts) => self.counts.moves += u64::from(parts > 0),
            Err(_) => self.refused_splits += 1,
        }
        self.left.insert(from, order.frames());
    }

    /// Frees whatever the ledger has within a recorded block; returns how many parts that were.
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
