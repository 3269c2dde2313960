//! Operations with helpers: compaction, reclaim, and what runs in the background.

use super::helper::{Dice, Helper, Planned};
use super::kinds::Kind;
use super::shared::add;
use super::worker::Worker;
use pageyard::{BlockId, Cx, Order, PerCpu, Pfn, ZoneId};
use std::panic::{AssertUnwindSafe, catch_unwind};

impl<'a, 'm, P: PerCpu> Worker<'a, 'm, P> {
    fn dice(&mut self) -> Dice {
        let mix = self.shared.mix;
        let panics = mix.has(Kind::Panic) && self.rng.u8(..3) == 0;
        let panics = if panics { [3, 20, 100][self.rng.usize(..3)] } else { 0 };
        Dice::new(self.rng.u64(..), panics, mix.has(Kind::Refuse) && self.rng.bool())
    }

    /// Runs a call with helpers that may panic; none where one did.
    fn with_help<T>(&mut self, cx: Cx, call: impl FnOnce(&Helper<'_, 'm, P>) -> T) -> Option<T> {
        self.helped(cx, true, call)
    }

    /// The same; `stays` says whether what is moved has to stay in its zone.
    pub(super) fn helped<T>(
        &mut self,
        cx: Cx,
        stays: bool,
        call: impl FnOnce(&Helper<'_, 'm, P>) -> T,
    ) -> Option<T> {
        let dice = self.dice();
        let helper = Helper { shared: self.shared, dice: &dice, me: self.me, cx, stays };
        let answer = catch_unwind(AssertUnwindSafe(|| call(&helper)));
        add(&self.shared.tally.panics, dice.panicked());
        match answer {
            Ok(answer) => Some(answer),
            Err(payload) if payload.is::<Planned>() => None,
            Err(payload) => {
                self.panicked(&*payload);
                None
            }
        }
    }

    pub(super) fn compact(&mut self) {
        let zone = ZoneId(self.rng.u16(..self.shared.machine.zones.len() as u16));
        let start = self.shared.machine.zones[zone.index()].1.start;
        let cx = self.cx();
        self.noted(Kind::Compact, Some(start), Order::ZERO, |w| {
            let done = w.with_help(cx, |helper| helper.shared.subject.compact_zone(&cx, zone, helper));
            ((), None, done.is_some())
        });
    }

    pub(super) fn background(&mut self) {
        let cx = self.cx();
        self.with_help(cx, |helper| helper.shared.subject.background(&cx, helper));
    }

    pub(super) fn direct(&mut self) {
        let orders = [0, 2, 4, 6, 8, 9, 9, 9, 10];
        let order = Order::of(orders[self.rng.usize(..orders.len())]);
        let (request, cx) = (self.request(order), self.cx());
        let began = self.shared.ranges.now();
        let got = self.noted(Kind::Direct, None, order, |w| {
            let got: Option<Pfn> = w
                .with_help(cx, |helper| helper.shared.subject.alloc_with(&cx, &request, helper).ok())
                .flatten();
            (got, got, got.is_some())
        });
        match got {
            Some(pfn) => self.keep(Some(&request), BlockId { pfn, order }, began),
            None => add(&self.shared.tally.refused, 1),
        }
    }
}
