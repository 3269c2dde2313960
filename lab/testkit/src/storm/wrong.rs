//! Calls that must be refused, whatever other threads do: on blocks that the thread holds, and on frames that are not
//! memory.

use super::fault::Rule;
use super::kinds::Kind;
use super::shared::Shared;
use super::worker::Worker;
use pageyard::reclaim::NoHelp;
use pageyard::{
    AllocError, BadRequest, BlockId, ClaimError, CpuId, CpuSet, Cx, FreeError, Migratetype, Order, PerCpu,
    Pfn, Request, ZoneId,
};

impl<P: PerCpu> Worker<'_, '_, P> {
    /// A call was answered that must be refused with one of these faults.
    fn judge<E: PartialEq + core::fmt::Debug>(
        &self,
        what: &str,
        pfn: Pfn,
        order: Order,
        answer: Result<(), E>,
        right: &[E],
    ) {
        if answer.as_ref().err().is_none_or(|why| !right.contains(why)) {
            self.shared.faults.say(Rule::WrongCall, Some(self.me), Some(pfn.0), || {
                format!(
                    "{what} of frame {pfn:#x?}, order {order}, answered {answer:?}, expected one of {right:?}"
                )
            });
        }
    }

    pub(super) fn wrong(&mut self) {
        match self.rng.u8(..8) {
            0..3 => self.wrong_order(),
            3..5 => self.inside(),
            5 => self.no_frame(),
            6 => self.claim_held(),
            _ => self.wrong_split(),
        }
    }

    /// Frees by one of the ways.
    fn try_free(&mut self, pfn: Pfn, order: Order) -> Result<(), FreeError> {
        let (cx, subject) = (self.cx(), &self.shared.subject);
        let (zeroed, bulk) = (self.shared.mix.has(Kind::Zeroed), self.shared.mix.has(Kind::BulkFree));
        match self.rng.u8(..8) {
            0 if zeroed => subject.free_zeroed(&cx, pfn, order),
            1 if bulk && order == Order::ZERO => {
                let mut answer = Ok(());
                subject.free_bulk(&cx, &[pfn], |_, why| answer = Err(why));
                answer
            }
            _ => subject.free(&cx, pfn, order),
        }
    }

    fn wrong_order(&mut self) {
        let Some(BlockId { pfn, order }) = self.one_of_mine() else { return };
        let other = Order::of(self.rng.u8(..=Order::MAX.get()));
        if other == order {
            return;
        }
        let answer = self.try_free(pfn, other);
        let right = match pfn.is_aligned(other) {
            true => FreeError::WrongOrder { allocated: order },
            false => FreeError::Misaligned,
        };
        self.judge("the free", pfn, other, answer, &[right]);
    }

    fn inside(&mut self) {
        let Some(BlockId { pfn: head, order }) = self.one_of_mine().filter(|b| b.order > Order::ZERO) else {
            return;
        };
        let pfn = Pfn(head.0 + self.rng.u64(1..order.frames().0));
        let as_if = Order::of(self.rng.u8(..=order.get()));
        let answer = self.try_free(pfn, as_if);
        let right = match pfn.is_aligned(as_if) {
            true => FreeError::NotHead { head, allocated: order },
            false => FreeError::Misaligned,
        };
        self.judge("the free", pfn, as_if, answer, &[right]);
    }

    /// Frees, splits and claims frames that are not memory: in a hole, or beyond the machine.
    fn no_frame(&mut self) {
        let machine = self.shared.machine;
        let pfn = match self.rng.u8(..4) {
            0 => Pfn(self.rng.u64(..)),
            1 => Pfn(machine.frames() + self.rng.u64(..2000)),
            _ => {
                let mut some = (0..16).map(|_| Pfn(self.rng.u64(..machine.frames())));
                let Some(hole) = some.find(|pfn| !machine.is_managed(*pfn)) else { return };
                hole
            }
        };
        let order = Order::of(if self.rng.bool() { 0 } else { self.rng.u8(..=Order::MAX.get()) });
        let faults = [FreeError::OutsideArena, FreeError::Misaligned];
        let answer = self.try_free(pfn, order);
        self.judge("the free", pfn, order, answer, &faults);
        let cx = self.cx();
        let answer = self.shared.subject.split(&cx, pfn, order, Order::ZERO);
        self.judge("the split", pfn, order, answer, &faults);
        let faults = [ClaimError::OutsideArena, ClaimError::Misaligned];
        let answer = self.shared.subject.claim(&cx, pfn, order, Migratetype::Movable);
        self.judge("the claim", pfn, order, answer, &faults);
    }

    /// Claims a block that it holds, and one around it.
    fn claim_held(&mut self) {
        let Some(BlockId { pfn, order }) = self.one_of_mine() else { return };
        let around = Order::of(self.rng.u8(order.get()..=Order::MAX.get()));
        let at = pfn.align_down(around);
        let faults = [ClaimError::NotFree, ClaimError::OutsideArena];
        let answer = self.shared.subject.claim(&self.cx(), at, around, Migratetype::Movable);
        self.judge("the claim", at, around, answer, &faults);
    }

    fn wrong_split(&mut self) {
        let Some(BlockId { pfn, order }) = self.one_of_mine() else { return };
        let from = Order::of(self.rng.u8(..=Order::MAX.get()));
        let to = Order::of(self.rng.u8(..=Order::MAX.get()));
        if from == order && to <= order {
            return;
        }
        let mut right = vec![];
        if to > from || !pfn.is_aligned(from) {
            right.push(FreeError::Misaligned);
        }
        if from != order {
            right.push(FreeError::WrongOrder { allocated: order });
        }
        let answer = self.shared.subject.split(&self.cx(), pfn, from, to);
        self.judge("the split", pfn, from, answer, &right);
    }

    /// Names a CPU that does not exist at every door.
    pub(super) fn no_such_cpu(&mut self, taking: bool) {
        let cpu = CpuId([self.shared.cpus, self.shared.cpus + 1, 1 << 20, u32::MAX][self.rng.usize(..4)]);
        let (shared, cx) = (self.shared, Cx::on(cpu));
        let subject = &shared.subject;
        let say = |what: &str, answer: &dyn core::fmt::Debug| {
            shared.faults.say(Rule::WrongCall, Some(self.me), None, || {
                format!("{what} on CPU {cpu}, which does not exist, answered {answer:?}")
            });
        };
        let request = Request::new(Order::of([0, 3, 6, 9, 10][self.rng.usize(..5)]), Migratetype::Movable);
        let wrong = AllocError::BadRequest(BadRequest::NoSuchCpu);
        subject.drain(CpuSet::One(cpu));
        match self.rng.u8(..if taking { 8 } else { 3 }) {
            0 | 1 => {
                let Some(block) = self.one_of_mine() else { return };
                let answer = subject.free(&cx, block.pfn, block.order);
                self.judge("the free", block.pfn, block.order, answer, &[FreeError::NoSuchCpu]);
                let answer = subject.free_zeroed(&cx, block.pfn, block.order);
                self.judge("the free", block.pfn, block.order, answer, &[FreeError::NoSuchCpu]);
            }
            2 => {
                let pfns: Vec<Pfn> =
                    self.held.iter().filter(|b| b.order == Order::ZERO).take(9).map(|b| b.pfn).collect();
                let mut refused = 0;
                subject.free_bulk(&cx, &pfns, |_, why| refused += usize::from(why == FreeError::NoSuchCpu));
                if refused != pfns.len() {
                    say("free_bulk", &refused);
                }
            }
            3 => {
                let answer = subject.alloc(&cx, &request);
                if answer != Err(wrong) {
                    say("alloc", &answer);
                }
            }
            4 => {
                let got = subject.alloc_bulk(&cx, &request, &mut [Pfn(0); 9]);
                if got != 0 {
                    say("alloc_bulk", &got);
                }
            }
            5 if shared.mix.has(Kind::Direct) => {
                let answer = subject.alloc_with(&cx, &request, &NoHelp);
                if answer != Err(wrong) {
                    say("alloc_with", &answer);
                }
            }
            6 if shared.mix.has(Kind::Background) => subject.background(&cx, &NoHelp),
            7 if shared.mix.has(Kind::Compact) => self.compact_nowhere(shared, cx),
            _ => {}
        }
    }

    /// Compacts on a CPU that does not exist, with an owner whose frames can be moved.
    fn compact_nowhere(&mut self, shared: &Shared<'_, P>, cx: Cx) {
        let zone = ZoneId(self.rng.u16(..shared.machine.zones.len() as u16));
        let dice = super::helper::Dice::new(1, 0, false);
        let right = Cx::on(CpuId(self.me % shared.cpus));
        let helper = super::helper::Helper { shared, dice: &dice, me: self.me, cx: right, stays: true };
        shared.subject.compact_zone(&cx, zone, &helper);
    }
}
