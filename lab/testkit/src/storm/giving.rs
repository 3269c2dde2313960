//! Operations that give memory back, or cut it up.

use super::fault::Rule;
use super::journal::End;
use super::kinds::Kind;
use super::worker::Worker;
use pageyard::{BlockId, CpuId, CpuSet, Order, PerCpu, Pfn, ZoneId};

/// Most frames of a bulk call: more than a batch.
const MOST: usize = 70;

impl<P: PerCpu> Worker<'_, '_, P> {
    pub(super) fn free(&mut self) {
        let Some(block) = self.let_go() else { return };
        let cx = self.cx();
        self.noted(Kind::Free, Some(block.pfn), block.order, |w| {
            ((), None, w.shared.give(w.owner(), w.me, &cx, block))
        });
    }

    /// Frees single frames in one call, mixed with some that must be refused.
    pub(super) fn bulk_free(&mut self) {
        let shared = self.shared;
        let most = self.rng.usize(1..=MOST);
        let mut pfns = Vec::new();
        let mut at = self.held.len();
        while at > 0 && pfns.len() < most {
            at -= 1;
            let block = self.held[at];
            if block.order == Order::ZERO {
                self.held.swap_remove(at);
                self.frames -= 1;
                if !shared.disown(self.owner(), self.me, block) {
                    return;
                }
                shared.oracle.fill(block, true);
                pfns.push(block.pfn);
            }
        }
        let own = pfns.len();
        if shared.mix.has(Kind::Wrong) && self.rng.u8(..4) == 0 {
            let wrong = Pfn(shared.machine.frames() + self.rng.u64(..1000));
            pfns.insert(self.rng.usize(..=own), wrong);
            if let Some(larger) = self.held.iter().find(|b| b.order > Order::ZERO) {
                pfns.insert(self.rng.usize(..=own), larger.pfn);
            }
        }
        let journal = &shared.journals[self.me as usize];
        for pfn in &pfns {
            journal.note(Kind::BulkFree, *pfn, Order::ZERO, End::Open);
        }
        let cx = self.cx();
        let (mut refused, mut mine) = (0, None);
        shared.subject.free_bulk(&cx, &pfns, |pfn, why| {
            refused += 1;
            // Its own frames have no owner while they are freed, the others have one or are no frames.
            if shared.oracle.owner(pfn) == 0 && shared.machine.is_managed(pfn) {
                mine = Some((pfn, why));
            }
        });
        if let Some((pfn, why)) = mine {
            let block = BlockId { pfn, order: Order::ZERO };
            shared.not_freed(self.owner(), self.me, block, &why);
        } else if refused != pfns.len() - own {
            shared.faults.say(Rule::WrongCall, Some(self.me), None, || {
                let wrong = pfns.len() - own;
                format!("of {} frames freed at once {wrong} were wrong, and {refused} refused", pfns.len())
            });
        }
    }

    /// Frees a block that it has filled with zeros.
    pub(super) fn free_zeroed(&mut self) {
        let Some(block) = self.let_go() else { return };
        let shared = self.shared;
        if !shared.disown(self.owner(), self.me, block) {
            return;
        }
        shared.oracle.fill(block, false);
        let cx = self.cx();
        self.noted(Kind::Zeroed, Some(block.pfn), block.order, |w| {
            let freed = shared.subject.free_zeroed(&cx, block.pfn, block.order);
            if freed.is_err() {
                shared.not_freed(w.owner(), w.me, block, &freed);
            }
            ((), None, freed.is_ok())
        });
    }

    pub(super) fn split(&mut self) {
        let Some(at) = (0..8).find_map(|_| {
            let n = self.held.len();
            let at = (n > 0).then(|| self.rng.usize(..n))?;
            (self.held[at].order > Order::ZERO).then_some(at)
        }) else {
            return;
        };
        let block = self.held.swap_remove(at);
        // Mostly not into single frames: they would be most of what it holds.
        let least = if self.rng.u8(..4) == 0 { 0 } else { block.order.get().saturating_sub(4) };
        let to = Order::of(self.rng.u8(least..=block.order.get()).max(block.order.get().saturating_sub(9)));
        let cx = self.cx();
        let answer = self.noted(Kind::Split, Some(block.pfn), block.order, |w| {
            let answer = w.shared.subject.split(&cx, block.pfn, block.order, to);
            (answer, None, answer.is_ok())
        });
        if let Err(why) = answer {
            self.shared.faults.say(Rule::RightFree, Some(self.me), Some(block.pfn.0), || {
                format!(
                    "the split of {block:?}, which thread {} holds, to order {to} was refused: {why}",
                    self.me
                )
            });
            return;
        }
        let parts = (0..block.order.frames().0).step_by(to.frames().0 as usize);
        self.held.extend(parts.map(|n| BlockId { pfn: Pfn(block.pfn.0 + n), order: to }));
    }

    pub(super) fn drain(&mut self) {
        if self.rng.u8(..4) == 0 {
            self.drain_everywhere();
            return;
        }
        let cpu = self.cx().cpu;
        self.shared.subject.drain(CpuSet::One(cpu));
    }

    pub(super) fn read(&mut self) {
        let subject = &self.shared.subject;
        let zones = self.shared.machine.zones.len() as u16;
        let (zone, cpu) = (ZoneId(self.rng.u16(..=zones)), CpuId(self.rng.u32(..=self.shared.cpus)));
        let there = (subject.zone_stats(zone).is_some(), subject.pcp_stats(zone, cpu).is_some());
        let right = (zone.0 < zones, zone.0 < zones && cpu.0 < self.shared.cpus);
        if there != right {
            self.shared.faults.say(Rule::WrongCall, Some(self.me), None, || {
                format!("statistics of zone {zone} and CPU {cpu} are there: {there:?}, should be {right:?}")
            });
        }
        subject.stats();
    }
}
