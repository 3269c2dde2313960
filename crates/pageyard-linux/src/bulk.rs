//! Bulk requests: single frames by the array, under one hold of a CPU's lists. Layer: top.

use crate::allocator::LinuxAllocator;
use crate::effort::{Effort, Mark, Reach};
use crate::frees::To;
use crate::pcp;
use crate::tag::{Holding, Tag};
use crate::zone::Zone;
use crate::zonelist::{Inlined, Step};
use pageyard_core::reclaim::{Helpers, NoHelp};
use pageyard_core::{Cx, FreeError, Order, Pfn, Request, RequestFlags};

impl LinuxAllocator {
    /// Fills `out`, as far as there are frames; returns how many.
    pub(crate) fn alloc_bulk(&self, cx: &Cx, request: &Request, out: &mut [Pfn]) -> usize {
        let mut got = 0;
        while got < out.len() {
            match self.alloc_pages_bulk(cx, request, &mut out[got..]) {
                0 => break,
                more => got += more,
            }
        }
        got
    }

    /// Takes single frames from the CPU's list of one zone and returns how many: those it can have with one look at the
    /// watermark, or else one, for which it tries as hard as any request. A caller that wants more asks again.
    ///
    /// # Linux
    /// `alloc_pages_bulk`.
    pub fn alloc_pages_bulk(&self, cx: &Cx, request: &Request, out: &mut [Pfn]) -> usize {
        self.alloc_pages_bulk_helped(cx, request, None::<&NoHelp>, out)
    }

    /// Does the same; the one frame for which it tries hard it may have with help.
    pub fn alloc_pages_bulk_with<H: Helpers>(
        &self,
        cx: &Cx,
        request: &Request,
        helpers: &H,
        out: &mut [Pfn],
    ) -> usize {
        self.alloc_pages_bulk_helped(cx, request, Some(helpers), out)
    }

    fn alloc_pages_bulk_helped<H: Helpers>(
        &self,
        cx: &Cx,
        request: &Request,
        help: Option<&H>,
        out: &mut [Pfn],
    ) -> usize {
        let got = self.take_bulk(cx, request, out);
        if got > 0 || out.is_empty() {
            return got;
        }
        match self.alloc_with_helpers(cx, request, help) {
            Ok(pfn) => {
                out[0] = pfn;
                1
            }
            Err(_) => 0,
        }
    }

    /// Takes single frames from the CPU's list of the first zone of the nearest node that has room for all; none where
    /// no zone has.
    fn take_bulk(&self, cx: &Cx, request: &Request, out: &mut [Pfn]) -> usize {
        let m = request.migratetype;
        if out.len() < 2 || request.order != Order::ZERO || self.check(cx, request).is_err() {
            return 0;
        }
        let Some(listed) = pcp::list_for_request(&self.config, cx.context, Order::ZERO, m) else { return 0 };
        let Ok(walk) = self.walk_of::<Inlined>(cx, request, Reach::First) else { return 0 };
        let preferred = &walk.list[walk.first];
        let span = &self.zones[preferred.zone].span;
        let effort = Effort::plain(Mark::Low).of_type(m);
        // All of them must fit above the mark: one check covers them.
        let room = |zone: &Zone| {
            let mark = zone.mark(Mark::Low) + out.len() as u64;
            zone.enough(Order::ZERO, span.kind, mark, effort, &self.config)
        };
        let mut from = walk.first;
        let place = loop {
            let Some(at) = Inlined::next(walk.list, from, request.highest_zone, walk.nodes) else { return 0 };
            let zone = &self.zones[walk.list[at].zone];
            if zone.span.node != span.node {
                return 0;
            }
            if room(zone) {
                break walk.list[at].zone;
            }
            from = at + 1;
        };
        let zone = &self.zones[place];
        let cold = request.flags.contains(RequestFlags::COLD) && self.config.heeds_cold();
        let Some(mut entered) = zone.enter(cx.cpu.index(), &self.config) else { return 0 };
        let origin = self.origin(cx, preferred, place);
        let mut got = 0;
        while got < out.len()
            && let Some(pfn) = zone.take_next(&mut entered.pages, listed, m, effort, cold, &self.config)
        {
            out[got] = pfn;
            got += 1;
        }
        // An owner makes frames movable once it has them: until then none counts as such where a refill looks for a
        // pageblock to convert.
        let taken = Tag::Allocated(Order::ZERO, Holding::of(m));
        for pfn in &out[..got] {
            zone.set_tag(*pfn, taken);
            entered.pages.counts.taken.count(Order::ZERO, origin);
        }
        got
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
        let (cpu, same) = zone.owners.run_for(pfns, &zone.span, cx.cpu.index());
        let Some(mut entered) = zone.enter(cpu, &self.config) else { return 0 };
        let run = pfns[..same].iter().take_while(|pfn| {
            let Some(tag) = zone.span.spans(**pfn).then(|| zone.tag(**pfn)) else { return false };
            let of = zone.pageblocks.type_of(**pfn);
            let Some(listed) = list(of) else { return false };
            if !matches!(tag, Tag::Allocated(o, _) if o == order)
                || !zone.tags.swap(zone.number(**pfn), tag, Tag::Cached(order, of))
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
