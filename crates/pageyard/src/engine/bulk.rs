//! Many frames at a time.

use super::geometry::BATCH;
use super::lists::list_of;
use super::percpu::PerCpu;
use super::tag::Tag;
use super::yard::Pageyard;
use crate::allocator::Cx;
use crate::error::FreeError;
use crate::request::{NodeMask, Request};
use crate::units::{CpuId, Order, Pfn};

impl<P: PerCpu> Pageyard<'_, P> {
    /// Allocates blocks until `out` is full or one cannot be had; returns how many it wrote, from the front.
    ///
    /// What a list holds is taken a batch at a time.
    pub fn allocate_bulk(&self, cx: &Cx, request: &Request, out: &mut [Pfn]) -> usize {
        let order = request.order.get();
        let list = list_of(order, request.migratetype as u8)
            .filter(|_| request.nodes == NodeMask::ALL && self.has_cpu(cx.cpu));
        let place = self.first_place(request.highest_zone);
        let mut got = 0;
        while got < out.len() {
            if let (Some(list), Some(place)) = (list, place) {
                let mut items = [0; BATCH];
                let n = BATCH.min(out.len() - got);
                let n = self.percpu.pop_many(place.lists.all(), cx.cpu, list, &mut items[..n]);
                for (slot, item) in out[got..].iter_mut().zip(&items[..n]) {
                    place.zone.frames.allocate_listed(*item, order);
                    *slot = place.zone.pfn(*item as usize);
                }
                got += n;
                if n > 0 {
                    continue;
                }
            }
            match self.allocate(cx, request) {
                Ok(pfn) => out[got] = pfn,
                Err(_) => break,
            }
            got += 1;
        }
        got
    }

    /// Frees single frames; `wrong` is told of each one that is refused, and the others are freed all the same.
    ///
    /// Frames of one type that follow each other go to their list a batch at a time.
    pub fn release_bulk(&self, cx: &Cx, pfns: &[Pfn], mut wrong: impl FnMut(Pfn, FreeError)) {
        if !self.has_cpu(cx.cpu) {
            return pfns.iter().for_each(|pfn| wrong(*pfn, FreeError::NoSuchCpu));
        }
        let zone = &self.main.zone;
        let (mut items, mut n, mut list) = ([0; BATCH], 0, 0);
        for pfn in pfns {
            let frame = pfn.0.wrapping_sub(zone.base) as usize;
            let of = zone.frames.state_of(frame).and_then(|state| list_of(0, state.list_ty()));
            // SAFETY: it has a state.
            let win = || unsafe { zone.frames.win(P::ALONE, frame, Tag::Allocated(Order::ZERO), Tag::Free) };
            let Some(of) = of.filter(|_| win()) else {
                if let Err(why) = self.release(cx, *pfn, Order::ZERO) {
                    wrong(*pfn, why);
                }
                continue;
            };
            if n == BATCH || of != list {
                self.put_many(cx.cpu, list, &items[..n]);
                (n, list) = (0, of);
            }
            items[n] = frame as u32;
            n += 1;
        }
        self.put_many(cx.cpu, list, &items[..n]);
    }

    /// Puts frames of the largest zone whose tags were won into a list, as far as it goes.
    fn put_many(&self, cpu: CpuId, list: usize, items: &[u32]) {
        if items.is_empty() {
            return;
        }
        let n = self.percpu.push_many(self.main.lists.all(), cpu, list, items);
        for item in &items[n..] {
            self.put(self.main, cpu, *item as usize, Order::ZERO);
        }
    }
}
