//! Bulk requests: single frames by the array, under one hold of a CPU's lists. Layer: top.

use crate::allocator::LinuxAllocator;
use crate::effort::{Effort, Mark, Wake};
use crate::frees::To;
use crate::pcp;
use crate::tag::Tag;
use crate::zonelist::{Inlined, Step};
use pageyard_core::{Cx, FreeError, Migratetype, Order, Pfn, Request, RequestFlags};

impl LinuxAllocator {
    /// Fills `out`, as far as there are frames; returns how many.
    pub(crate) fn alloc_bulk(&self, cx: &Cx, request: &Request, out: &mut [Pfn]) -> usize {
        let mut got = self.take_bulk(cx, request, out);
        while got < out.len() {
            match self.alloc(cx, request) {
                Ok(pfn) => out[got] = pfn,
                Err(_) => break,
            }
            got += 1;
        }
        got
    }

    /// Takes single frames from the CPU's list of the first zone that has room for all; the caller asks for any missing
    /// frames one by one.
    ///
    /// # Linux
    /// `alloc_pages_bulk`.
    fn take_bulk(&self, cx: &Cx, request: &Request, out: &mut [Pfn]) -> usize {
        let m = request.migratetype;
        if request.order != Order::ZERO || self.check(cx, request).is_err() {
            return 0;
        }
        let Some(listed) = pcp::list_for_request(&self.config, cx.context, Order::ZERO, m) else { return 0 };
        let (list, nodes) = self.zonelists.for_request(cx.cpu.index(), request);
        let Some(first) = Inlined::next(list, 0, request.highest_zone, nodes) else { return 0 };
        let effort = Effort {
            wake: Wake::of(request),
            nofragment: self.config.nofragment,
            ..Effort::plain(Mark::Low)
        };
        let zone = &self.zones[list[first].zone];
        // All of them must fit above the mark: one check covers them.
        let kept =
            zone.kept_from(Order::ZERO, request.highest_zone, zone.mark(Mark::Low), effort, &self.config);
        if zone.free.get() <= kept + out.len() as u64 {
            return 0;
        }
        let cold = request.flags.contains(RequestFlags::COLD) && self.config.heeds_cold();
        let Some(mut entered) = zone.enter(cx.cpu.index(), &self.config) else { return 0 };
        let origin = self.origin(cx, &list[first], list[first].zone);
        let taken = Tag::Allocated(Order::ZERO, m == Migratetype::Movable);
        for (got, slot) in out.iter_mut().enumerate() {
            match zone.take_listed(&mut entered.pages, listed, m, effort, cold, &self.config) {
                Some(pfn) => *slot = pfn,
                None => return got,
            }
            zone.set_tag(*slot, taken);
            entered.pages.counts.taken.count(Order::ZERO, origin);
        }
        out.len()
    }

    /// Frees blocks of one order, holding the CPU's lists while blocks are of one zone and go to those lists.
    ///
    /// # Linux
    /// `free_unref_page_list`.
    pub(crate) fn free_bulk(
        &self,
        cx: &Cx,
        pfns: &[Pfn],
        order: Order,
        wrong: &mut dyn FnMut(Pfn, FreeError),
    ) {
        let mut at = 0;
        while at < pfns.len() {
            let done = self.give_run(cx, &pfns[at..], order);
            if done == 0
                && let Err(why) = self.free_checked::<()>(cx, pfns[at], order, To::Hot)
            {
                wrong(pfns[at], why);
            }
            at += done.max(1);
        }
    }

    /// Frees the blocks up to the first that is of another zone, cannot go on a list or is wrong; returns how many.
    fn give_run(&self, cx: &Cx, pfns: &[Pfn], order: Order) -> usize {
        let Some(zone) = pfns.first().and_then(|p| self.zone_of(*p)) else { return 0 };
        let list = |of| pcp::list_for_free(&self.config, cx.context, order, of);
        if list(zone.pageblocks.type_of(pfns[0])).is_none() {
            return 0;
        }
        let Some(mut entered) = zone.enter(cx.cpu.index(), &self.config) else { return 0 };
        let run = pfns.iter().take_while(|pfn| {
            let Some(tag) = zone.span.spans(**pfn).then(|| zone.tag(**pfn)) else { return false };
            let Some(listed) = list(zone.pageblocks.type_of(**pfn)) else { return false };
            if !matches!(tag, Tag::Allocated(o, _) if o == order)
                || !zone.tags.swap(zone.number(**pfn), tag, Tag::Cached(order))
            {
                return false;
            }
            entered.pages.counts.taken.pgfree += order.frames().0;
            zone.give_listed::<()>(&mut entered.pages, listed, **pfn, false, &self.config);
            true
        });
        run.count()
    }
}
