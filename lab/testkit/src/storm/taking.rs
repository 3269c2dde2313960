//! Operations that take memory: single blocks, many at a time, the largest, and blocks by their number.

use super::fault::Rule;
use super::kinds::Kind;
use super::oracle;
use super::shared::add;
use super::worker::Worker;
use pageyard::{BlockId, Migratetype, Order, PerCpu, Pfn, Request, RequestFlags};

/// Orders that a request asks for, each as often as it is listed.
const ORDERS: [u8; 22] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 2, 2, 3, 3, 4, 5, 6, 7, 8, 9, 9];
/// Most blocks of a bulk call: more than a batch.
const MOST: usize = 70;

impl<P: PerCpu> Worker<'_, '_, P> {
    fn any_order(&mut self) -> Order {
        Order::of(ORDERS[self.rng.usize(..ORDERS.len())])
    }

    /// Allocates a block as a request says, and keeps it.
    fn ask(&mut self, kind: Kind, request: &Request) {
        let cx = self.cx();
        let began = self.shared.ranges.now();
        let got = self.noted(kind, None, request.order, |w| {
            let got = w.shared.subject.alloc(&cx, request);
            (got.ok(), got.ok(), got.is_ok())
        });
        match got {
            Some(pfn) => self.keep(Some(request), BlockId { pfn, order: request.order }, began),
            None => add(&self.shared.tally.refused, 1),
        }
    }

    pub(super) fn alloc(&mut self) {
        let order = self.any_order();
        let request = self.request(order);
        self.ask(Kind::Alloc, &request);
    }

    pub(super) fn huge(&mut self) {
        let most = self.shared.machine.largest().get();
        // Now and then an order that the machine cannot have.
        let order =
            if self.rng.u8(..8) == 0 || most < 10 { self.rng.u8(10..=18) } else { self.rng.u8(10..=most) };
        let request = self.request(Order::of(order));
        self.ask(Kind::Huge, &request);
    }

    pub(super) fn bulk(&mut self) {
        let order = Order::of([0, 0, 0, 0, 1, 3][self.rng.usize(..6)]);
        let (request, cx) = (self.request(order), self.cx());
        let mut out = [Pfn(0); MOST];
        let wanted = self.rng.usize(1..=if order == Order::ZERO { MOST } else { 12 });
        let began = self.shared.ranges.now();
        let n = self.shared.subject.alloc_bulk(&cx, &request, &mut out[..wanted]);
        let journal = &self.shared.journals[self.me as usize];
        for pfn in &out[..n] {
            journal.note(Kind::Bulk, *pfn, order, super::journal::End::Done);
            self.keep(Some(&request), BlockId { pfn: *pfn, order }, began);
        }
        add(&self.shared.tally.refused, u64::from(n < wanted));
    }

    /// Claims a block by its number, at places where other threads do so too.
    pub(super) fn claim(&mut self) {
        let orders = [0, 0, 1, 3, 5, 6, 7, 8, 9, 10];
        let order = Order::of(orders[self.rng.usize(..orders.len())]);
        let frames = self.shared.machine.frames();
        let near = self.rng.u64(..frames.min(1 << 14));
        let pfn = Pfn(if self.rng.bool() { near } else { self.rng.u64(..frames) }).align_down(order);
        let (ty, cx) = (self.any_type(), self.cx());
        let began = self.shared.ranges.now();
        let won = self.noted(Kind::Claim, Some(pfn), order, |w| {
            let won = w.shared.subject.claim(&cx, pfn, order, ty).is_ok();
            (won, None, won)
        });
        if won {
            self.keep(None, BlockId { pfn, order }, began);
        }
    }

    /// Hands single frames to the shared owner, or frees one of its.
    pub(super) fn movable(&mut self) {
        let shared = self.shared;
        let start = self.rng.usize(..shared.movers.len());
        if self.rng.u8(..3) == 0 {
            let Some((at, pfn)) = shared.movers.take(start, |_| true) else { return };
            let block = BlockId { pfn, order: Order::ZERO };
            if shared.disown(oracle::slot(at), self.me, block) {
                shared.movers.clear(at);
                let cx = self.cx();
                shared.oracle.fill(block, true);
                let freed = self.noted(Kind::Free, Some(pfn), Order::ZERO, |w| {
                    let freed = w.shared.subject.free(&cx, pfn, Order::ZERO);
                    (freed, None, freed.is_ok())
                });
                if freed.is_err() {
                    shared.not_freed(oracle::slot(at), self.me, block, &freed);
                }
            }
            return;
        }
        for _ in 0..4 {
            self.hand_over(start);
        }
    }

    /// Allocates a frame for the shared owner.
    fn hand_over(&mut self, start: usize) {
        let shared = self.shared;
        let request = Request::new(Order::ZERO, Migratetype::Movable).with(RequestFlags::MEMALLOC);
        let cx = self.cx();
        let began = shared.ranges.now();
        let got = self.noted(Kind::Movable, None, Order::ZERO, |w| {
            let got = w.shared.subject.alloc(&cx, &request).ok();
            (got, got, got.is_some())
        });
        let Some(pfn) = got else { return add(&shared.tally.refused, 1) };
        let block = BlockId { pfn, order: Order::ZERO };
        let Some(at) = shared.movers.reserve(start, pfn) else {
            return self.keep(Some(&request), block, began);
        };
        if shared.receive(oracle::slot(at), self.me, Some(&request), block, began) {
            shared.oracle.fill(block, true);
            shared.movers.settle(at, pfn);
        }
    }

    /// Checks that a block reported as zero holds zeros, and writes to it.
    pub(super) fn look_at_zeros(&mut self, block: BlockId) {
        let shared = self.shared;
        if shared.subject.was_zeroed(block.pfn)
            && let Some(dirty) = shared.oracle.first_dirty(block)
        {
            shared.faults.say(Rule::Zeros, Some(self.me), Some(dirty), || {
                format!("{block:?} was handed out as holding zeros, and frame {dirty:#x} was written to")
            });
        }
    }
}
