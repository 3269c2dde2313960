//! Many frames at a time.

use crate::allocator::Cx;
use crate::engine::geometry::{BATCH, FrameIdx};
use crate::engine::map::tag::Tag;
use crate::engine::map::watch::Unchanged;
use crate::engine::pcp::percpu::PerCpu;
use crate::engine::pcp::tuning::list_of;
use crate::engine::yard::Pageyard;
use crate::error::FreeError;
use crate::observer::Observer;
use crate::request::{NodeMask, Request, RequestFlags};
use crate::units::{CpuId, Order, Pfn};

/// Blocks up to which a call does better to take them, or give them back, one by one: moving several at a time has a
/// fixed part. Measured: `pageyard bench bulk`.
const FEW: usize = 4;

impl<P: PerCpu, O: Observer> Pageyard<'_, P, O> {
    /// Allocates blocks until `out` is full or one cannot be had; returns how many it wrote, from the front. As
    /// [`PageAllocator::alloc_bulk`](crate::PageAllocator::alloc_bulk).
    ///
    /// What a list holds is taken a batch at a time, unless an observer is to be told of each block.
    pub fn alloc_bulk(&self, cx: &Cx, request: &Request, out: &mut [Pfn]) -> usize {
        let order = request.order.get();
        let list = list_of(order, request.migratetype as u8).filter(|_| {
            let plain = !O::ACTIVE && !request.flags.intersects(RequestFlags::COLD.union(RequestFlags::ZERO));
            plain && request.nodes == NodeMask::ALL && self.has_cpu(cx.cpu)
        });
        let zone = self.first_zone(request.highest_zone);
        let mut got = 0;
        while got < out.len() {
            if out.len() - got > FEW
                && let (Some(list), Some(zone)) = (list, zone)
            {
                let mut items = [0; BATCH];
                let n = BATCH.min(out.len() - got);
                let n = self.percpu.pop_many(zone.lists.all(), cx.cpu, list, &mut items[..n]);
                let (frames, base) = (zone.pageblocks.frames, zone.pageblocks.base);
                for (slot, item) in out[got..].iter_mut().zip(&items[..n]) {
                    frames.allocate_listed(*item, order);
                    *slot = Pfn(base + u64::from(*item));
                }
                got += n;
                if n > 0 {
                    continue;
                }
            }
            match self.alloc(cx, request) {
                Ok(pfn) => out[got] = pfn,
                Err(_) => break,
            }
            got += 1;
        }
        got
    }

    /// Frees blocks of one order; `wrong` is told of each one that is refused, and the others are freed all the same. As
    /// [`PageAllocator::free_bulk`](crate::PageAllocator::free_bulk).
    ///
    /// Blocks of one type that follow each other go to their list a batch at a time, unless an observer is to be told of each.
    pub fn free_bulk(&self, cx: &Cx, pfns: &[Pfn], order: Order, wrong: &mut dyn FnMut(Pfn, FreeError)) {
        if !self.has_cpu(cx.cpu) {
            return pfns.iter().for_each(|pfn| wrong(*pfn, FreeError::NoSuchCpu));
        }
        if O::ACTIVE || pfns.len() <= FEW || list_of(order.get(), 0).is_none() {
            return pfns
                .iter()
                .for_each(|pfn| self.free(cx, *pfn, order).unwrap_or_else(|why| wrong(*pfn, why)));
        }
        // Once for single frames, which are the many, with all that depends on the order folded in.
        match order {
            Order::ZERO => self.free_alike(cx, pfns, Order::ZERO, wrong),
            order => self.free_alike(cx, pfns, order, wrong),
        }
    }

    #[inline(always)]
    fn free_alike(&self, cx: &Cx, pfns: &[Pfn], order: Order, wrong: &mut dyn FnMut(Pfn, FreeError)) {
        let (mut rest, mut items) = (pfns, [0; BATCH]);
        while let Some(first) = rest.first() {
            let watch = self.main.pageblocks.watch_isolations();
            let (n, list) = self.win_alike(rest, order, &mut items);
            if n == 0 {
                if let Err(why) = self.free(cx, *first, order) {
                    wrong(*first, why);
                }
            } else {
                self.push_won(cx.cpu, list, order, &items[..n], watch);
            }
            rest = &rest[n.max(1)..];
        }
    }

    /// Wins blocks of the largest zone from the front, as long as one list takes them; returns how many, and the list.
    #[inline(always)]
    fn win_alike(&self, pfns: &[Pfn], order: Order, items: &mut [u32; BATCH]) -> (usize, usize) {
        let (frames, base) = (self.main.pageblocks.frames, self.main.pageblocks.base);
        let (mut n, mut list) = (0, 0);
        for (pfn, item) in pfns.iter().zip(items.iter_mut()) {
            let frame = pfn.0.wrapping_sub(base);
            let Some((state, _)) = frames.state_of(frame) else { break };
            let Some(of) = list_of(order.get(), state.list_ty()) else { break };
            if n > 0 && of != list {
                break;
            }
            // SAFETY: it has a state.
            let won = unsafe {
                frames.win(P::ALONE, FrameIdx::new(frame as usize), Tag::Allocated(order), Tag::Free)
            };
            if !won {
                break;
            }
            *item = frame as u32;
            (n, list) = (n + 1, of);
        }
        (n, list)
    }

    /// Puts blocks of the largest zone whose tags were won into a list, as far as it goes.
    fn push_won(&self, cpu: CpuId, list: usize, order: Order, items: &[u32], watch: Unchanged<'_>) {
        let n = self.percpu.push_many(self.main.lists.all(), cpu, list, items, watch);
        for item in &items[n..] {
            self.free_won(self.main, cpu, FrameIdx::of_item(*item), order);
        }
    }
}
