//! Moves that no row names, inferred from what compaction reports of itself: never from the host's later state.
//!
//! A frame without a mapping, such as page cache that no process has mapped, moves without an event that names it. But:
//!
//! * A thread that compacts isolates a range of frames (`isolate_migrate`), migrates what it took, and frees the old
//!   frames itself, before its compaction ends. It frees nothing else there. So such a free is no free: what the frame
//!   held lives on, in a frame that nothing names, and is *adrift*.
//! * It moved to a frame that a free scanner had taken (`isolate_free`). A later free of such a frame, which nothing is
//!   known to hold, is the end of something adrift.

use crate::bitmap::FrameSet;
use crate::ledger::Stand;
use pageyard::proctext::LINUX_ORDERS;
use pageyard::{Context, Frames, Order, Pfn};
use pageyard_trace::{Event, Move, MoveKind};
use std::collections::VecDeque;
use std::ops::Range;

/// The longest range that is believed. A scanner's range is within a pageblock.
const LONGEST: u64 = 1 << (LINUX_ORDERS - 1);

/// Ranges that are remembered of a compaction. What was isolated is migrated before more is.
const RANGES: usize = 16;

/// Compactions under way at a time. Hosts have at most one a CPU and node, or so; a file may claim any number.
const UNDER_WAY: usize = 1024;

/// A thread that compacts.
struct Compactor {
    tid: u32,
    /// The ranges it isolated last, to move them.
    sources: VecDeque<Range<u64>>,
    /// Frames that its frees say it moved, and that the host counts.
    inferred: u64,
    migrated: u64,
}

/// The moves that no row names, as far as they are known.
pub(super) struct Unseen {
    under_way: VecDeque<Compactor>,
    /// Frames that a free scanner looked at and took some of, and that nothing was allocated in or freed from since.
    targets: FrameSet,
    /// Whether there ever were any: most recordings have none, and need not look.
    has_targets: bool,
    /// The stands of blocks that have moved to an unknown frame, by order.
    adrift: [Vec<Stand>; LINUX_ORDERS],
    /// Frames inferred to have moved beyond what the host counts for the same compaction, of those that have ended.
    beyond_count: u64,
}

impl Unseen {
    /// Knows nothing yet of a machine whose frames end at `end`.
    pub(super) fn new(end: Pfn) -> Unseen {
        Unseen {
            under_way: VecDeque::new(),
            targets: FrameSet::new(end),
            has_targets: false,
            adrift: Default::default(),
            beyond_count: 0,
        }
    }

    /// Takes in a row about compaction; `end` is where the machine's frames end.
    pub(super) fn row(&mut self, row: &Move, end: Pfn) {
        let range = row.pfn..row.to.min(end.0);
        let is_believed = row.done > 0 && !range.is_empty() && row.to - row.pfn <= LONGEST;
        match row.kind {
            MoveKind::CompactBegin => {
                self.end(row.tid);
                if self.under_way.len() == UNDER_WAY {
                    self.under_way.pop_front();
                }
                self.under_way.push_back(Compactor {
                    tid: row.tid,
                    sources: VecDeque::new(),
                    inferred: 0,
                    migrated: 0,
                });
            }
            MoveKind::CompactEnd => self.end(row.tid),
            MoveKind::IsolateMigrate if is_believed => {
                if let Some(compactor) = self.under_way.iter_mut().find(|c| c.tid == row.tid) {
                    compactor.sources.truncate(RANGES - 1);
                    compactor.sources.push_front(range);
                }
            }
            MoveKind::IsolateFree if is_believed => {
                self.has_targets = true;
                _ = self.targets.insert(Pfn(range.start), Frames(range.end - range.start));
            }
            MoveKind::Migrated => {
                if let Some(compactor) = self.under_way.iter_mut().find(|c| c.tid == row.tid) {
                    compactor.migrated += u64::from(row.done);
                }
            }
            _ => {}
        }
    }

    fn end(&mut self, tid: u32) {
        if let Some(at) = self.under_way.iter().position(|c| c.tid == tid)
            && let Some(compactor) = self.under_way.remove(at)
        {
            self.beyond_count += compactor.inferred.saturating_sub(compactor.migrated);
        }
    }

    /// Returns how many frames were inferred to have moved beyond what the host counts for the same compaction. It
    /// says something only where every move is inferred.
    pub(super) fn beyond_count(&self) -> u64 {
        self.beyond_count
    }

    /// Returns whether a free is that of a block whose contents the freeing thread has just moved away.
    pub(super) fn moved_away(&mut self, event: &Event, order: Order) -> bool {
        if self.under_way.is_empty() || event.context != Context::Task {
            return false;
        }
        let Some(compactor) = self.under_way.iter_mut().find(|c| c.tid == event.tid) else { return false };
        // A block that begins in a range may reach beyond it: the scanner took it whole.
        let moved = compactor.sources.iter().any(|source| source.contains(&event.pfn));
        if moved {
            compactor.inferred += order.frames().0;
        }
        moved
    }

    /// Notes that what stands for a block is somewhere else now.
    pub(super) fn set_adrift(&mut self, stand: Stand, order: Order) {
        if stand != Stand::UNSERVED {
            self.adrift[order.index().min(LINUX_ORDERS - 1)].push(stand);
        }
    }

    /// Notes that a row is about a block: it is none that something may have moved to unseen.
    pub(super) fn settle(&mut self, pfn: Pfn, order: Order) {
        if self.has_targets {
            self.targets.remove(pfn, order.frames());
        }
    }

    /// Returns whether something adrift may have been in a block.
    pub(super) fn may_hold(&self, pfn: Pfn) -> bool {
        self.has_targets && self.targets.contains(pfn) && self.adrift.iter().any(|stands| !stands.is_empty())
    }

    /// Takes something adrift of `order`; or a part of something larger, which is halved; or else smaller things, as
    /// far as they go.
    pub(super) fn take<C>(
        &mut self,
        order: Order,
        caller: &mut C,
        mut halve: impl FnMut(&mut C, Stand, Order) -> Option<(Stand, Stand)>,
        mut each: impl FnMut(&mut C, Stand, Order),
    ) {
        let enough = (order.index()..LINUX_ORDERS).find(|o| !self.adrift[*o].is_empty());
        let Some(mut at) = enough else { return self.take_parts(order, caller, each) };
        let Some(mut stand) = self.adrift[at].pop() else { return };
        while at > order.index() {
            let Some((lower, upper)) = halve(caller, stand, Order::of(at as u8)) else {
                self.adrift[at].push(stand);
                return;
            };
            at -= 1;
            self.set_adrift(upper, Order::of(at as u8));
            stand = lower;
        }
        if stand != Stand::UNSERVED {
            each(caller, stand, order);
        }
    }

    /// Takes things smaller than `order` that make up a block of it, or less where there are no more.
    fn take_parts<C>(&mut self, order: Order, caller: &mut C, mut each: impl FnMut(&mut C, Stand, Order)) {
        let mut left = order.frames().0;
        for part in (0..order.get()).rev().map(Order::of) {
            while left >= part.frames().0
                && let Some(stand) = self.adrift[part.index()].pop()
            {
                left -= part.frames().0;
                each(caller, stand, part);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pageyard_trace::EventKind;

    fn row(kind: MoveKind, tid: u32, pfn: u64, to: u64) -> Move {
        Move { time_ns: 0, cpu: 0, tid, kind, pfn, to, order: 0, scanned: 9, done: 5, failed: 0 }
    }

    fn free(tid: u32, pfn: u64, context: Context) -> Event {
        let kind = EventKind::Free;
        Event {
            time_ns: 0,
            pfn,
            gfp: 0,
            tid,
            cpu: 0,
            kind,
            order: 0,
            migratetype: -1,
            context,
            irqs_off: false,
        }
    }

    #[test]
    fn only_the_compacting_thread_frees_what_moved_and_only_where_it_took() {
        let end = Pfn(1 << 16);
        let mut unseen = Unseen::new(end);
        let moved =
            |unseen: &mut Unseen, tid, pfn, context| unseen.moved_away(&free(tid, pfn, context), Order::ZERO);
        unseen.row(&row(MoveKind::IsolateMigrate, 7, 512, 1024), end);
        assert!(!moved(&mut unseen, 7, 600, Context::Task), "it does not compact");
        unseen.row(&row(MoveKind::CompactBegin, 7, 0, 0), end);
        assert!(!moved(&mut unseen, 7, 600, Context::Task), "it has taken nothing");
        unseen.row(&row(MoveKind::IsolateMigrate, 7, 512, 1024), end);
        unseen.row(&Move { done: 0, ..row(MoveKind::IsolateMigrate, 7, 2048, 2560) }, end);
        unseen.row(&row(MoveKind::IsolateMigrate, 7, 0, 60_000), end);
        assert!(moved(&mut unseen, 7, 600, Context::Task));
        assert!(!moved(&mut unseen, 8, 600, Context::Task), "another thread");
        assert!(!moved(&mut unseen, 7, 600, Context::Softirq), "an interrupt of it");
        assert!(!moved(&mut unseen, 7, 1024, Context::Task) && !moved(&mut unseen, 7, 2050, Context::Task));
        for i in 0..20 {
            unseen.row(&row(MoveKind::IsolateMigrate, 7, 4096 + i * 512, 4096 + (i + 1) * 512), end);
        }
        assert!(!moved(&mut unseen, 7, 600, Context::Task), "that was long ago");
        assert!(moved(&mut unseen, 7, 4096 + 19 * 512, Context::Task));
        unseen.row(&row(MoveKind::Migrated, 7, 0, 0), end);
        assert_eq!(unseen.beyond_count(), 0, "it goes on");
        for pfn in 6200..6204 {
            assert!(moved(&mut unseen, 7, pfn, Context::Task));
        }
        unseen.row(&row(MoveKind::CompactEnd, 7, 0, 0), end);
        assert_eq!(unseen.beyond_count(), 6 - 5, "two before and four here, where the host counts five");
        assert!(!moved(&mut unseen, 7, 4096 + 19 * 512, Context::Task), "it has ended");
        for tid in 0..5000 {
            unseen.row(&row(MoveKind::CompactBegin, tid, 0, 0), end);
        }
        assert_eq!(unseen.under_way.len(), UNDER_WAY);
    }

    #[test]
    fn what_is_adrift_is_found_where_a_free_scanner_took() {
        let end = Pfn(1 << 16);
        let mut unseen = Unseen::new(end);
        unseen.row(&row(MoveKind::IsolateFree, 7, 1000, 1100), end);
        assert!(!unseen.may_hold(Pfn(1050)), "nothing is adrift");
        unseen.set_adrift(Stand(1), Order::ZERO);
        unseen.set_adrift(Stand::UNSERVED, Order::ZERO);
        assert!(unseen.may_hold(Pfn(1050)) && !unseen.may_hold(Pfn(1100)));
        unseen.settle(Pfn(1050), Order::ZERO);
        assert!(!unseen.may_hold(Pfn(1050)) && unseen.may_hold(Pfn(1051)));
        // The range may end past the machine.
        unseen.row(&row(MoveKind::IsolateFree, 7, (1 << 16) - 4, (1 << 16) + 50), end);
        assert!(unseen.may_hold(Pfn((1 << 16) - 1)));
        let take = |unseen: &mut Unseen, order: u8| {
            let mut taken = Vec::new();
            let halve = |_: &mut Vec<_>, s: Stand, o: Order| Some((s, Stand(s.0 + (1 << (o.get() - 1)))));
            unseen.take(Order::of(order), &mut taken, halve, |all, s, o| all.push((s.0, o.get())));
            taken
        };
        unseen.set_adrift(Stand(512), Order::of(9));
        assert_eq!(take(&mut unseen, 0), [(1, 0)], "one of the same size first");
        assert_eq!(take(&mut unseen, 7), [(512, 7)]);
        unseen.set_adrift(Stand(9), Order::ZERO);
        assert_eq!(take(&mut unseen, 8), [(768, 8)]);
        assert_eq!(take(&mut unseen, 3), [(640, 3)], "a part of the smallest that has it");
        assert_eq!(take(&mut unseen, 10), [(704, 6), (672, 5), (656, 4), (648, 3), (9, 0)], "what there is");
        assert!(take(&mut unseen, 0).is_empty() && !unseen.may_hold(Pfn(1051)));
    }
}
