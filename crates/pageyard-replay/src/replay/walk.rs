//! From a trace's rows to calls: what each row means, given the ledger.

use super::early::{CLUSTER, Early, EarlyFrees};
use super::event_counts::EventCounts;
use super::hidden::{Hidden, HiddenMoves};
use super::refusals::OnHost;
use super::unseen::Unseen;
use crate::bitmap::FrameSet;
use crate::ledger::{Ledger, Stand};
use crate::machine::Machine;
use crate::memo::Memo;
use crate::rows::Row;
use pageyard::{AllocError, CpuId, Cx, FreeError, Migratetype, Nanos, Order, Pfn, Request, RequestFlags};
use pageyard_debug::Faults;
use pageyard_trace::{Event, EventKind, FAILED, Move, MoveKind};

/// Makes the calls, now or later.
pub trait Calls {
    /// Makes the request of a row that the host served, and enters what stands for the block.
    ///
    /// # Errors
    /// Why the engine refuses it; then nothing is entered.
    fn alloc(
        &mut self,
        cx: &Cx,
        request: &Request,
        row: &Event,
        ledger: &mut Ledger,
    ) -> Result<(), AllocError>;

    /// Makes the request of a row that the host refused. Nothing is entered: no row frees what it yields.
    ///
    /// # Errors
    /// Why the engine refuses it.
    fn alloc_refused(&mut self, cx: &Cx, request: &Request, row: &Event) -> Result<(), AllocError>;

    /// Counts a request that stays refused.
    fn refused(&mut self, cx: &Cx, request: &Request, row: &Event, why: &AllocError, host: OnHost);

    /// Moves what stands for a block as the host moved it, if it lies where the host's lay and its new place is free
    /// here too; returns what stands for it then.
    fn relocate(&mut self, _: &Cx, stand: Stand, _: Order, _moved: (Pfn, Pfn)) -> Stand {
        stand
    }

    /// Empties the per-CPU lists of all CPUs, for a request that has reclaimed in vain.
    fn empty_lists(&mut self) {}

    /// Empties the per-CPU lists of a compactor's CPU: it has moved all it can out of a pageblock.
    fn leave_pageblock(&mut self, _: CpuId) {}

    /// Frees what stands for a block.
    fn free(&mut self, cx: &Cx, stand: Stand, order: Order);

    /// Halves what stands for a block.
    fn halve(&mut self, cx: &Cx, stand: Stand, order: Order) -> Result<(Stand, Stand), FreeError>;
}

/// How far a request has gone before it is refused.
///
/// # Linux
/// `__alloc_pages_direct_reclaim`: it reclaims, then empties all lists and tries once more. What an engine does last,
/// such as to give up the reserve of atomic requests, it would do in vain, and too soon, for a request that the host's
/// reclaim saw served.
#[derive(Clone, Copy)]
enum Effort {
    /// It reclaims: frees come early.
    Reclaim,
    /// The lists are empty.
    Emptied,
    /// All that the engine can do.
    Full,
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
    /// Whether there ever were any: most recordings have none, and need not look.
    has_left: bool,
    /// Requests of order 0, by gfp word and migratetype.
    requests: Memo<Request>,
    /// Moves that no row names; `None` where they are not inferred.
    unseen: Option<Unseen>,
    /// Moves that rows name and that are hidden from the walk, to see which of them are inferred.
    hidden: Option<Hidden>,
    /// Whether rows name every move, so that they can be carried out: a part of a compaction would free no pageblock.
    carries_out: bool,
    /// Whether a move was carried out since a compactor left a pageblock.
    has_moved: bool,
    /// The frees of reclaim that may come early; `None` where none may.
    pub early: Option<Early<'a>>,
    /// Whether requests that may wait go through every [`Effort`] before they are refused.
    pub makes_efforts: bool,
    /// What makes requests fail on purpose.
    pub faults: Option<Faults>,
}

/// The moves that a walk follows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Follow {
    /// It follows those that rows name, and infers others.
    #[default]
    SeenAndInferred,
    /// It follows those that rows name.
    SeenOnly,
    /// It infers what it can, and counts how much that is of those that rows name.
    InferredOnly,
}

impl<'a> Walk<'a> {
    /// Begins a walk.
    pub fn new(machine: &'a Machine, follow: Follow) -> Walk<'a> {
        Walk {
            ledger: Ledger::new(machine.end()),
            counts: EventCounts::default(),
            refused_splits: 0,
            machine,
            left: FrameSet::new(machine.end()),
            has_left: false,
            requests: Memo::new(),
            unseen: (follow != Follow::SeenOnly).then(|| Unseen::new(machine.end())),
            hidden: (follow == Follow::InferredOnly).then(|| Hidden::new(machine.end())),
            carries_out: machine.names_all_moves(),
            has_moved: false,
            early: None,
            makes_efforts: false,
            faults: None,
        }
    }

    /// Returns how well hidden moves were inferred, where any were to be hidden.
    pub fn hidden(&self) -> Option<HiddenMoves> {
        let beyond_count = self.unseen.as_ref().map_or(0, Unseen::beyond_count);
        self.hidden.as_ref().map(|hidden| HiddenMoves { beyond_count, ..hidden.counts })
    }

    /// Returns what was freed early, where anything might have been.
    pub fn early_frees(&self) -> Option<EarlyFrees> {
        self.early.as_ref().map(|early| early.counts)
    }

    /// Turns a row into calls.
    pub fn row(&mut self, calls: &mut impl Calls, row: Row<'_>) {
        match row {
            Row::Event(event) => self.event(calls, event),
            Row::Move(row) if row.kind == MoveKind::Move => self.moved(calls, row),
            Row::Move(row) => {
                let leaves = matches!(row.kind, MoveKind::IsolateMigrate | MoveKind::CompactEnd);
                if leaves && std::mem::take(&mut self.has_moved) {
                    calls.leave_pageblock(CpuId(row.cpu));
                }
                if let Some(unseen) = &mut self.unseen {
                    unseen.row(row, self.machine.end());
                }
            }
        }
    }

    fn event(&mut self, calls: &mut impl Calls, event: &Event) {
        self.counts.events += 1;
        let Some(order) = Order::new(event.order) else { return };
        let mut cx = Cx::on(CpuId(event.cpu));
        (cx.context, cx.now) = (event.context, Nanos(event.time_ns));
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
        let asked = u64::from(event.gfp) << 8 | u64::from(event.migratetype as u8);
        let request = Request { order, ..self.requests.of(asked, || plain_request(self.machine, event)) };
        let pfn = Pfn(event.pfn);
        if event.pfn == FAILED {
            self.counts.failed += 1;
            self.ask(calls, cx, &request, event, OnHost::Refused);
        } else if !self.ledger.covers(pfn, order) {
            self.counts.outside += 1;
        } else {
            // The host allocated it, so it was free: its holder here gave it up unrecorded.
            self.counts.reallocations += u64::from(self.ledger.note_alloc(pfn));
            self.give_up(calls, cx, pfn, order);
            self.no_longer_left(pfn, order);
            if let Some(unseen) = &mut self.unseen {
                unseen.settle(pfn, order);
            }
            if let Some(hidden) = &mut self.hidden {
                hidden.allocated(pfn, order);
            }
            self.settle(pfn, order);
            self.ask(calls, cx, &request, event, OnHost::Served);
        }
    }

    /// Makes a request. Where it would be refused, what reclaim frees soon is freed early. One that may wait then finds
    /// the lists of all CPUs emptied, and is made in full only where that does not help either.
    fn ask(&mut self, calls: &mut impl Calls, cx: &Cx, request: &Request, row: &Event, host: OnHost) {
        if self.faults.as_ref().is_some_and(|faults| faults.refuses(request)) {
            return self.stays_refused(calls, (cx, request, row), &AllocError::OutOfMemory, host);
        }
        let waits = self.makes_efforts && !request.flags.contains(RequestFlags::NON_BLOCKING);
        let mut effort = if waits { Effort::Reclaim } else { Effort::Full };
        let mut frames = CLUSTER;
        loop {
            let asking = match effort {
                Effort::Full => *request,
                _ => request.with(RequestFlags::NORETRY),
            };
            let asked = match host {
                OnHost::Served => calls.alloc(cx, &asking, row, &mut self.ledger),
                OnHost::Refused => calls.alloc_refused(cx, &asking, row),
            };
            let again = frames > CLUSTER;
            if let Some(early) = &mut self.early {
                early.counts.served += u64::from(again && asked.is_ok());
            }
            let Err(why) = asked else { return };
            if makes_reclaim_run(request) && self.free_early(calls, cx, frames) {
                if let Some(early) = &mut self.early {
                    early.counts.requests += u64::from(!again);
                }
                frames *= 2;
                continue;
            }
            effort = match effort {
                Effort::Reclaim => {
                    calls.empty_lists();
                    Effort::Emptied
                }
                Effort::Emptied => Effort::Full,
                Effort::Full => return self.stays_refused(calls, (cx, request, row), &why, host),
            };
        }
    }

    /// Counts a request that stays refused, and notes that its block does not exist here.
    fn stays_refused(
        &mut self,
        calls: &mut impl Calls,
        (cx, request, row): (&Cx, &Request, &Event),
        why: &AllocError,
        host: OnHost,
    ) {
        calls.refused(cx, request, row, why, host);
        if host == OnHost::Served {
            self.ledger.put(Pfn(row.pfn), request.order, Stand::UNSERVED);
        }
    }

    /// Frees early what reclaim frees soon; says whether there was any.
    fn free_early(&mut self, calls: &mut impl Calls, cx: &Cx, frames: u64) -> bool {
        let Some(early) = &mut self.early else { return false };
        let blocks = early.pick(cx.now, self.counts.events, frames);
        blocks.into_iter().fold(false, |any, (pfn, order)| self.give_up(calls, cx, pfn, order) > 0 || any)
    }

    /// Notes that the host frees a block, or uses its frames; says whether it was freed early.
    #[inline]
    fn settle(&mut self, pfn: Pfn, order: Order) -> bool {
        self.early.as_mut().is_some_and(|early| early.settle(pfn, order))
    }

    fn free(&mut self, calls: &mut impl Calls, cx: &Cx, event: &Event, order: Order) {
        self.counts.frees += 1;
        let pfn = Pfn(event.pfn);
        if !self.ledger.covers(pfn, order) {
            self.counts.outside += 1;
            return;
        }
        let known = self.ledger.note_free(pfn);
        if self.settle(pfn, order) {
            return;
        }
        let left = self.has_left && self.left.contains(pfn);
        if !left
            && let Some(unseen) = &mut self.unseen
            && unseen.moved_away(event, order)
        {
            self.set_adrift(calls, cx, pfn, order);
            if let Some(hidden) = &mut self.hidden {
                hidden.freed(pfn, order, true, false, false);
            }
            return;
        }
        let nobodys = self.give_up(calls, cx, pfn, order) == 0;
        if nobodys && left {
            self.no_longer_left(pfn, order);
            self.counts.freed_after_moves += 1;
            return;
        }
        let ended = self.ends_something_adrift(calls, cx, pfn, order, nobodys);
        if let Some(hidden) = &mut self.hidden {
            hidden.freed(pfn, order, false, ended, nobodys);
        }
        if ended {
            return;
        }
        self.counts.unknown_frees += u64::from(!known);
        self.counts.unresolved_frees += u64::from(nobodys);
    }

    /// Notes that what a block holds moved to a place that no row names; the engine goes on holding it.
    fn set_adrift(&mut self, calls: &mut impl Calls, cx: &Cx, pfn: Pfn, order: Order) {
        let Some(unseen) = &mut self.unseen else { return };
        self.counts.inferred_frames += order.frames().0;
        unseen.settle(pfn, order);
        let halve = |calls: &mut _, stand, order| match stand {
            Stand::UNSERVED => Ok((stand, stand)),
            _ => Calls::halve(calls, cx, stand, order),
        };
        let removed =
            self.ledger.remove(pfn, order, calls, halve, |_, stand, order| unseen.set_adrift(stand, order));
        self.refused_splits += u64::from(removed.is_err());
    }

    /// Frees something adrift where a block without an owner is freed, and a free scanner had taken it; says whether it
    /// did.
    fn ends_something_adrift(
        &mut self,
        calls: &mut impl Calls,
        cx: &Cx,
        pfn: Pfn,
        order: Order,
        nobodys: bool,
    ) -> bool {
        let Some(unseen) = &mut self.unseen else { return false };
        let ends = nobodys && unseen.may_hold(pfn);
        unseen.settle(pfn, order);
        if ends {
            let halve = |calls: &mut _, stand, order| Calls::halve(calls, cx, stand, order).ok();
            unseen.take(order, calls, halve, |calls, stand, order| Calls::free(calls, cx, stand, order));
            self.counts.freed_after_inferred += 1;
        }
        ends
    }

    /// Follows a block that the host moved. The engine's block moves too where it lies as the host's did; otherwise it
    /// stays where it is, under another name.
    fn moved(&mut self, calls: &mut impl Calls, row: &Move) {
        let Some(order) = Order::new(row.order) else { return };
        let (from, to) = (Pfn(row.pfn), Pfn(row.to));
        if let Some(hidden) = &mut self.hidden {
            if from != to && self.ledger.covers(from, order) && self.ledger.covers(to, order) {
                hidden.hide(from, to, order);
            }
            return;
        }
        self.counts.seen_frames += order.frames().0;
        if !self.ledger.covers(from, order) || !self.ledger.covers(to, order) {
            self.counts.outside += 1;
            return;
        }
        if from == to {
            return;
        }
        let cx = Cx { now: Nanos(row.time_ns), ..Cx::on(CpuId(row.cpu)) };
        // It was free, since the host moved something there.
        self.give_up(calls, &cx, to, order);
        self.no_longer_left(to, order);
        self.settle(to, order);
        if let Some(unseen) = &mut self.unseen {
            unseen.settle(to, order);
        }
        let halve = |calls: &mut _, stand, order| match stand {
            Stand::UNSERVED => Ok((stand, stand)),
            _ => Calls::halve(calls, &cx, stand, order),
        };
        let (carries_out, mut carried_out) = (self.carries_out, 0);
        let relocate = |calls: &mut _, stand, order: Order, moved| {
            if !carries_out || stand == Stand::UNSERVED {
                return stand;
            }
            let new = Calls::relocate(calls, &cx, stand, order, moved);
            carried_out += if new == stand { 0 } else { order.frames().0 };
            new
        };
        match self.ledger.rename(from, to, order, calls, halve, relocate) {
            Ok(parts) => self.counts.moves += u64::from(parts > 0),
            Err(_) => self.refused_splits += 1,
        }
        self.counts.carried_out_frames += carried_out;
        self.has_moved |= carried_out > 0;
        self.left.insert(from, order.frames());
        self.has_left = true;
    }

    /// Notes that a block is used again, or freed, so that nothing of it is left behind by a move.
    fn no_longer_left(&mut self, pfn: Pfn, order: Order) {
        if self.has_left {
            self.left.remove(pfn, order.frames());
        }
    }

    /// Forgets what stands for a frame, so that no row frees it.
    pub fn forget(&mut self, calls: &mut impl Calls, pfn: Pfn) {
        let cx = Cx::on(CpuId(0));
        let halve = |calls: &mut _, stand, order| Calls::halve(calls, &cx, stand, order);
        let forgotten = self.ledger.remove(pfn, Order::ZERO, calls, halve, |_, _, _| ());
        self.refused_splits += u64::from(forgotten.is_err());
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

/// Returns a row's request, as if it were of order 0.
fn plain_request(machine: &Machine, row: &Event) -> Request {
    let recorded = u8::try_from(row.migratetype).ok().and_then(Migratetype::from_index);
    // A replay has no memory to clear: only which frames were given matters.
    Request::from_gfp(row.gfp, &machine.gfp, Order::ZERO, recorded).without(RequestFlags::ZERO)
}

/// Returns whether a request that finds no memory makes reclaim run, its own or the background's.
fn makes_reclaim_run(request: &Request) -> bool {
    request.flags.contains(RequestFlags::WAKE_RECLAIM) || !request.flags.contains(RequestFlags::NON_BLOCKING)
}
