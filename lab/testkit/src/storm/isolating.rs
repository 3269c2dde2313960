//! Pageblocks that a thread takes out of allocation for a while, and leases.

use super::fault::Rule;
use super::isolation::{Isolation, State};
use super::kinds::Kind;
use super::ranges::frames_of;
use super::shared::add;
use super::worker::Worker;
use pageyard::{CompactorId, Order, PageblockId, PerCpu};
use std::sync::atomic::Ordering::SeqCst;

/// Looks at lists before a pageblock is given up: what was on its way into one is there by then.
const PATIENCE: u32 = 40;
/// Operations for which a pageblock stays out of allocation.
const KEPT: u64 = 400;
/// Pageblocks that a thread isolates, and leases, at a time.
const EACH: usize = 2;

impl<P: PerCpu> Worker<'_, '_, P> {
    fn any_pageblock(&mut self) -> PageblockId {
        PageblockId(self.rng.u64(..self.shared.machine.pageblocks() as u64))
    }

    pub(super) fn isolate(&mut self) {
        let (shared, block) = (self.shared, self.any_pageblock());
        if self.isolations.len() >= EACH || !shared.ranges.reserve(block, self.me) {
            return;
        }
        let cx = self.cx();
        let isolated = self.noted(Kind::Isolate, Some(block.start()), Order::ZERO, |w| {
            let isolated = w.shared.subject.isolate(&cx, block);
            (isolated, None, isolated)
        });
        if isolated {
            let request = self.drain_everywhere();
            self.isolations.push(Isolation { block, state: State::Draining(0), request });
        } else {
            shared.ranges.leave(block);
        }
    }

    /// Returns whether no frame of a pageblock is in a list, or on its way to or from one.
    fn is_settled(&self, block: PageblockId, request: u64) -> bool {
        let (machine, subject) = (self.shared.machine, &self.shared.subject);
        if self.shared.drained.iter().any(|drained| drained.load(SeqCst) < request) {
            return false;
        }
        let zone = machine.zone_of_block(block);
        let mut mine = frames_of(block).filter(|pfn| machine.zone(*pfn) == zone && machine.is_managed(*pfn));
        mine.all(|pfn| !subject.is_cached(pfn))
    }

    /// Goes on with the pageblocks that it has isolated.
    pub(super) fn tend_isolations(&mut self) {
        for at in (0..self.isolations.len()).rev() {
            let Isolation { block, request, .. } = self.isolations[at];
            match self.isolations[at].state {
                State::Draining(_) if self.is_settled(block, request) => {
                    self.shared.ranges.close(block);
                    add(&self.shared.tally.closed, 1);
                    self.isolations[at].state = State::Closed(self.time + KEPT);
                }
                State::Draining(n) if n < PATIENCE => {
                    self.isolations[at].state = State::Draining(n + 1);
                    if n % 4 == 3 {
                        let _ = self.drain_everywhere();
                    }
                }
                State::Closed(until) if self.time < until => {}
                _ => {
                    self.isolations.swap_remove(at);
                    self.restore(block);
                }
            }
        }
    }

    fn restore(&mut self, block: PageblockId) {
        self.shared.ranges.open(block);
        let cx = self.cx();
        let restored = self.noted(Kind::Isolate, Some(block.start()), Order::ZERO, |w| {
            let restored = w.shared.subject.restore(&cx, block);
            (restored, None, restored)
        });
        if !restored {
            self.shared.faults.say(Rule::Isolation, Some(self.me), Some(block.start().0), || {
                format!("pageblock {block}, which thread {} isolated, was not isolated any more", self.me)
            });
        }
        self.shared.ranges.leave(block);
    }

    pub(super) fn lease(&mut self) {
        let shared = self.shared;
        // What goes offline ends the lease that it has.
        if shared.shrinks {
            return;
        }
        if self.leases.len() >= EACH {
            let block = self.leases.swap_remove(0);
            shared.ranges.unlease(block);
            if !shared.subject.unlease(block) {
                shared.faults.say(Rule::Leases, Some(self.me), Some(block.start().0), || {
                    format!("the lease of pageblock {block}, which thread {} had, is gone", self.me)
                });
            }
            return;
        }
        let block = self.any_pageblock();
        let by = CompactorId(self.rng.u16(..256));
        if !shared.subject.lease(block, by) {
            return;
        }
        if let Err(other) = shared.ranges.lease(block, self.me) {
            shared.faults.say(Rule::Leases, Some(self.me), Some(block.start().0), || {
                format!("threads {} and {other} have the lease of pageblock {block} at once", self.me)
            });
        }
        self.leases.push(block);
    }
}
