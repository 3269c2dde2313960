//! Refills and spills: carries out what the policy of a CPU's lists decides. Layer: on the zone, above `fallback`.

use crate::config::{Config, HighatomicGrowth};
use crate::cpu_pages::CpuPages;
use crate::effort::{Effort, Mark};
use crate::fallback::Found;
use crate::freelist::End;
use crate::pcp::{Listed, Spill};
use crate::place::FreeObserver;
use crate::tag::Tag;
use crate::zone::Zone;
use pageyard_core::{Frames, Migratetype, Order, PAGEBLOCK_ORDER, Pfn, ZoneKind};

impl Zone {
    /// Takes a block from a CPU's list, filling it from the zone first if it is empty: the block freed last, or, for
    /// `cold` requests, the oldest.
    ///
    /// # Linux
    /// `rmqueue_pcplist`.
    #[inline]
    pub fn take_listed(
        &self,
        pages: &mut CpuPages,
        from: Listed,
        m: Migratetype,
        effort: Effort,
        cold: bool,
        config: &Config,
    ) -> Option<Pfn> {
        pages.policy.on_request();
        self.take_next(pages, from, m, effort, cold, config)
    }

    /// Takes a block as [`Zone::take_listed`] does, without telling the policy of a request: one of many.
    ///
    /// # Linux
    /// `__rmqueue_pcplist`.
    #[inline]
    pub fn take_next(
        &self,
        pages: &mut CpuPages,
        from: Listed,
        m: Migratetype,
        effort: Effort,
        cold: bool,
        config: &Config,
    ) -> Option<Pfn> {
        if pages.lists.is_empty(from) {
            self.refill(pages, from, m, effort, config);
        }
        pages.lists.take(from, if cold { End::Tail } else { End::Head })
    }

    /// # Linux
    /// `rmqueue_bulk`.
    #[inline(never)]
    fn refill(&self, pages: &mut CpuPages, to: Listed, m: Migratetype, effort: Effort, config: &Config) {
        if self.owners.exist() && self.split_listed(pages, to) {
            return;
        }
        let blocks = pages.policy.on_empty(pages.lists.held(), to.order, self.pressure());
        // The zone serves it from its reserve, and lets that grow.
        if config.highatomic_growth != HighatomicGrowth::Served && effort.is_highatomic(to.order) {
            return;
        }
        let Some(mut locked) = self.lock_for(effort) else { return };
        let mut found = Found::default();
        let blocks = if self.owners.exist() { locked.refill_owned(pages, to, m, blocks) } else { blocks };
        for _ in 0..blocks {
            let Some(pfn) = locked.rmqueue(to.order, m, effort, config, &mut found) else { break };
            self.set_tag(pfn, Tag::Cached(to.order, m));
            pages.lists.put(to, pfn, End::Tail);
            pages.counts.refilled.count(to.order);
        }
        pages.counts.refills += 1;
        drop(locked);
        if self.owners.exist() && pages.lists.is_empty(to) {
            self.split_listed(pages, to);
        }
    }

    /// Puts a freed block, tagged as such, into a CPU's list, and gives some back to the zone if the list holds too
    /// many.
    #[inline]
    pub fn give_listed<W: FreeObserver>(
        &self,
        pages: &mut CpuPages,
        to: Listed,
        pfn: Pfn,
        cold: bool,
        config: &Config,
    ) {
        pages.lists.put(to, pfn, if cold { End::Tail } else { End::Head });
        let Some(spill) = pages.policy.on_free(pages.lists.held(), to, self.pressure()) else { return };
        self.spill::<W>(pages, &spill, config);
        let order0 = Effort::plain(Mark::High);
        if spill.recheck
            && self.below_high.get()
            && self.watermark_ok(Order::ZERO, ZoneKind::Movable, order0, config)
        {
            self.below_high.set(false);
        }
    }

    /// Puts a freed block, tagged as such, into a CPU's list, however long that is: nothing goes back to the zone.
    ///
    /// # Linux
    /// `free_unref_page_commit` with `FPI_TRYLOCK`.
    pub fn give_listed_quietly(&self, pages: &mut CpuPages, to: Listed, pfn: Pfn) {
        pages.lists.put(to, pfn, End::Head);
        pages.policy.on_quiet_free(to.order);
    }

    /// Gives blocks back to the zone; returns how many frames.
    ///
    /// # Linux
    /// `free_pcppages_bulk`.
    #[inline(never)]
    fn spill<W: FreeObserver>(&self, pages: &mut CpuPages, spill: &Spill, config: &Config) -> u64 {
        let (mut left, mut gone) = (spill.frames, 0);
        if self.owners.exist() && left > 0 {
            self.merge_listed(pages);
        }
        while left > 0 && pages.lists.held() > 0 {
            let frames = left.min(spill.step);
            left -= frames;
            gone += self.spill_step::<W>(pages, &Spill { frames, ..*spill }, config);
        }
        gone
    }

    fn spill_step<W: FreeObserver>(&self, pages: &mut CpuPages, spill: &Spill, config: &Config) -> u64 {
        let mut locked = self.lock_watched::<W>();
        let CpuPages { lists, cpu, returned, counts, .. } = pages;
        counts.drains += 1;
        let gone = lists.spill(spill, |pfn| {
            let Tag::Cached(order, with) = self.tag(pfn) else { return None };
            self.set_tag(pfn, Tag::Inside);
            let of = match self.pageblocks.type_of(pfn) {
                of @ (Migratetype::Isolate | Migratetype::Cma) => of,
                of if config.keeps_lists_pure() => of,
                _ => with,
            };
            locked.free_one(pfn, order, of, !config.keeps_lists_pure());
            if self.owners.note_returned(pfn, *cpu) {
                returned.push(pfn.align_down(PAGEBLOCK_ORDER));
            }
            counts.drained.blocks += 1;
            Some(order)
        });
        counts.drained.frames += gone;
        gone
    }

    /// Empties a CPU's lists; returns how many frames went.
    pub fn drain(&self, pages: &mut CpuPages, config: &Config) -> Frames {
        let all = pages.policy.all();
        Frames(self.spill::<()>(pages, &all, config))
    }

    /// Lets a CPU's lists shrink, once a second.
    pub fn tick(&self, pages: &mut CpuPages, config: &Config) {
        let spill = pages.policy.on_tick(pages.lists.held());
        self.spill::<()>(pages, &spill, config);
    }
}
