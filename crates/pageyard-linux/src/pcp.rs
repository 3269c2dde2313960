//! Per-CPU lists: a CPU's own stock of free blocks, so that most requests do not take the zone lock.

use crate::config::{Config, PcpPolicy};
use crate::fallback::Found;
use crate::freelist::End;
use crate::numa::Origin;
use crate::tag::Tag;
use crate::zone::{Effort, Locked, Mark, Zone};
use pageyard_core::{Frames, Migratetype, Order, Pfn};
use std::collections::VecDeque;

/// How often the batch may double: `CONFIG_PCP_BATCH_SCALE_MAX`.
const BATCH_SCALE_MAX: u32 = 5;

/// The largest batch that `percpu_pagelist_fraction` of 4.x leads to: eight times `PAGE_SHIFT`.
const CLASSIC_BATCH_MAX: u64 = 96;

/// The share of a zone that all lists together may grow to under [`PcpPolicy::Auto`].
const MIN_PERCPU_PAGELIST_HIGH_FRACTION: u64 = 8;

/// Orders above 0 up to this one fragment memory while they lie in a list: `PAGE_ALLOC_COSTLY_ORDER`.
const COSTLY_ORDER: u8 = 3;

/// One CPU's lists of one zone. Counts are in frames.
pub struct Pcp {
    policy: PcpPolicy,
    pub count: u64,
    pub high: u64,
    pub high_min: u64,
    pub high_max: u64,
    pub batch: u64,
    /// `FreeFactor`: how often the batch given back has doubled. `Auto`: how often the batch taken has.
    factor: u32,
    /// `Auto`: frames freed without an allocation in between, halved by each allocation.
    free_count: u64,
    /// Whether the block freed before this one was of order 1 to 3.
    freed_high_order: bool,
    /// Each list's blocks, next to be taken first.
    lists: Vec<VecDeque<Pfn>>,
    pub counts: PcpCounts,
}

/// Events of one CPU's lists.
#[derive(Clone, Copy, Default, Debug)]
pub struct PcpCounts {
    pub taken: Taken,
    pub refills: u64,
    pub drains: u64,
    pub drained: u64,
}

/// Frames allocated and freed, and where they came from.
#[derive(Clone, Copy, Default, Debug)]
pub struct Taken {
    pub pgalloc: u64,
    pub pgfree: u64,
    pub numa_hit: u64,
    pub numa_miss: u64,
    pub numa_local: u64,
    pub numa_other: u64,
}

impl Taken {
    /// Counts an allocation.
    #[inline]
    pub fn count(&mut self, order: Order, origin: Origin) {
        self.pgalloc += order.frames().0;
        *(if origin.hit { &mut self.numa_hit } else { &mut self.numa_miss }) += 1;
        *(if origin.local { &mut self.numa_local } else { &mut self.numa_other }) += 1;
    }
}

/// Returns how many frames move between a list and its zone at a time.
///
/// # Linux
/// `zone_batchsize`: a thousandth of the zone within 512 KiB (4.x) or 1 MiB, a quarter of that, and half as much
/// again, rounded to one less than a power of two.
fn batch_size(policy: PcpPolicy, managed: Frames) -> u64 {
    let most = match policy {
        PcpPolicy::Classic => 128,
        PcpPolicy::FreeFactor | PcpPolicy::Auto => 256,
    };
    let batch = ((managed.0 / 1024).min(most) / 4).max(1);
    let power = 1 << (batch + batch / 2).ilog2();
    // A list that may not hold anything still moves one frame at a time.
    (power - 1).max(1)
}

impl Pcp {
    /// Makes empty lists for a zone with `managed` frames and the low watermark `low`.
    ///
    /// # Linux
    /// `zone_set_pageset_high_and_batch`, `zone_highsize`.
    pub fn new(config: &Config, managed: Frames, low: Frames, cpus: u64) -> Pcp {
        let mut batch = batch_size(config.pcp_policy, managed);
        let share = |frames: u64| (frames / cpus.max(1)).max(batch * 4);
        let fixed = match config.percpu_pagelist_high_fraction {
            0 => share(low.0),
            fraction => share(managed.0 / fraction),
        };
        let (high_min, high_max) = match config.pcp_policy {
            PcpPolicy::Classic if config.percpu_pagelist_high_fraction > 0 => {
                // Each CPU's lists may hold that share, and their batch follows.
                let high = managed.0 / config.percpu_pagelist_high_fraction;
                batch = (high / 4).clamp(1, CLASSIC_BATCH_MAX);
                (high, high)
            }
            PcpPolicy::Classic => (batch * 6, batch * 6),
            PcpPolicy::FreeFactor => (fixed, fixed),
            PcpPolicy::Auto if config.percpu_pagelist_high_fraction > 0 => (fixed, fixed),
            // In a tiny zone the low watermark is more than an eighth of it.
            PcpPolicy::Auto => (fixed, share(managed.0 / MIN_PERCPU_PAGELIST_HIGH_FRACTION).max(fixed)),
        };
        // Where lists stay short they never grow their memory, so that a signal handler may use them.
        let room = match config.pcp_policy {
            PcpPolicy::Classic | PcpPolicy::FreeFactor => (high_max + 2 * batch).min(1 << 16) as usize,
            PcpPolicy::Auto => 0,
        };
        Pcp {
            policy: config.pcp_policy,
            count: 0,
            high: high_min,
            high_min,
            high_max,
            batch,
            factor: 0,
            free_count: 0,
            freed_high_order: false,
            lists: (0..config.pcp_lists()).map(|_| VecDeque::with_capacity(room)).collect(),
            counts: PcpCounts::default(),
        }
    }

    /// Takes a block, filling the list from the zone first if it is empty: the one freed last, or, where a request
    /// wants cold frames and the policy heeds that, the one that has lain there longest.
    ///
    /// # Linux
    /// `rmqueue_pcplist`.
    pub fn alloc(
        &mut self,
        zone: &Zone,
        order: Order,
        m: Migratetype,
        effort: Effort,
        cold: bool,
        config: &Config,
    ) -> Option<Pfn> {
        let list = config.pcp_list(order, m)?;
        match self.policy {
            PcpPolicy::Classic => {}
            PcpPolicy::FreeFactor => self.factor >>= 1,
            PcpPolicy::Auto => self.free_count >>= 1,
        }
        if self.lists[list].is_empty() {
            self.refill(zone, list, order, m, effort, config);
        }
        let pfn = if cold { self.lists[list].pop_back() } else { self.lists[list].pop_front() }?;
        self.count -= order.frames().0;
        Some(pfn)
    }

    /// # Linux
    /// `rmqueue_bulk`.
    fn refill(
        &mut self,
        zone: &Zone,
        list: usize,
        order: Order,
        m: Migratetype,
        effort: Effort,
        config: &Config,
    ) {
        let blocks = self.blocks_to_take(zone, order);
        let mut locked = zone.lock();
        let mut found = Found::default();
        for _ in 0..blocks {
            let Some(pfn) = locked.rmqueue(order, m, effort, config, &mut found) else { break };
            zone.set_tag(pfn, Tag::Cached(order));
            self.lists[list].push_back(pfn);
            self.count += order.frames().0;
        }
        self.counts.refills += 1;
    }

    /// Returns how many blocks a refill takes.
    ///
    /// # Linux
    /// `nr_pcp_alloc` (6.7): the batch doubles with each refill that no free came between, as far as `high` allows.
    fn blocks_to_take(&mut self, zone: &Zone, order: Order) -> u64 {
        let mut batch = self.batch;
        if self.policy == PcpPolicy::Auto {
            if self.high_max < batch {
                return 1;
            }
            if order == Order::ZERO {
                batch <<= self.factor;
            }
            let mut high = self.high;
            if self.high_min != self.high_max && !zone.below_high.get() {
                self.high = (self.high + batch).min(self.high_max);
                high = self.high;
            }
            if order == Order::ZERO {
                let most = high.saturating_sub(self.count + self.batch).max(self.batch);
                if batch <= most && self.factor < BATCH_SCALE_MAX {
                    self.factor += 1;
                }
                batch = batch.min(most);
            }
        }
        if batch > 1 { (batch >> order.get()).max(2) } else { batch }
    }

    /// Adds a freed block, and gives some back to the zone if there are too many.
    ///
    /// # Linux
    /// `free_unref_page_commit`.
    pub fn free(&mut self, zone: &Zone, pfn: Pfn, order: Order, m: Migratetype, cold: bool, config: &Config) {
        let Some(list) = config.pcp_list(order, m) else { return };
        if cold {
            self.lists[list].push_back(pfn);
        } else {
            self.lists[list].push_front(pfn);
        }
        self.count += order.frames().0;
        match self.policy {
            PcpPolicy::Classic => {
                if self.count >= self.high {
                    self.drain(zone, self.batch, list, config);
                }
            }
            PcpPolicy::FreeFactor => self.spill_by_factor(zone, order, list, config),
            PcpPolicy::Auto => self.spill_by_count(zone, order, list, config),
        }
    }

    fn is_high_order(order: Order) -> bool {
        (1..=COSTLY_ORDER).contains(&order.get())
    }

    /// 6.1: `nr_pcp_high` and `nr_pcp_free`.
    fn spill_by_factor(&mut self, zone: &Zone, order: Order, list: usize, config: &Config) {
        let all = self.factor > 0 && Self::is_high_order(order);
        // While reclaim runs, lists keep little: what it frees is for whoever waits.
        let high = if zone.kswapd_woken.get() { self.high.min(self.batch << 2) } else { self.high };
        if !all && self.count < high {
            return;
        }
        let give = if all {
            self.count
        } else if high < self.batch {
            1
        } else {
            let most = high - self.batch;
            let doubled = self.batch << self.factor;
            if doubled < most && self.factor < BATCH_SCALE_MAX {
                self.factor += 1;
            }
            doubled.clamp(self.batch, most.max(self.batch))
        };
        self.drain(zone, give, list, config);
    }

    /// 6.7 and later: `nr_pcp_high` and `nr_pcp_free`.
    fn spill_by_count(&mut self, zone: &Zone, order: Order, list: usize, config: &Config) {
        self.factor >>= 1;
        let all = Self::is_high_order(order)
            && self.freed_high_order
            && self.free_count >= self.batch + self.high_min / 2;
        self.freed_high_order = Self::is_high_order(order);
        let longest = self.batch << BATCH_SCALE_MAX;
        if self.free_count < longest {
            self.free_count = (self.free_count + order.frames().0).min(longest);
        }
        let high = self.limit(zone, all, longest);
        if self.count < high {
            return;
        }
        let give = if all {
            self.count.min(longest)
        } else if high < self.batch {
            1
        } else {
            self.free_count.clamp(self.batch, (high - self.batch).max(self.batch))
        };
        self.drain(zone, give, list, config);
        let order0 = Effort::plain(Mark::High);
        if zone.below_high.get()
            && zone.watermark_ok(Order::ZERO, pageyard_core::ZoneKind::Movable, order0, config)
        {
            zone.below_high.set(false);
        }
    }

    /// Returns the count above which the lists spill, and moves `high` with demand.
    fn limit(&mut self, zone: &Zone, all: bool, longest: u64) -> u64 {
        if all {
            self.high = self.high.saturating_sub(longest).max(self.high_min);
            return 0;
        }
        if zone.kswapd_woken.get() {
            let shrink = self.free_count.max(self.batch);
            self.high = self.high.saturating_sub(shrink).max(self.high_min);
            return self.high.min(self.batch << 2);
        }
        if self.high_min == self.high_max {
            return self.high;
        }
        if zone.below_high.get() {
            let shrink = self.free_count.max(self.batch);
            self.high = self.high.saturating_sub(shrink).max(self.high_min);
            return self.count.max(self.high_min);
        }
        let high = self.high;
        if self.count >= high {
            // Room for what was freed in one go, so that it need not go through the zone.
            let needed = self.free_count + self.batch;
            if high < needed {
                self.high = needed.clamp(self.high_min, self.high_max);
            }
        }
        high
    }

    /// Gives about `frames` back to the zone: the blocks freed longest ago, `first` list first, then in turn.
    ///
    /// # Linux
    /// `free_pcppages_bulk`.
    pub fn drain(&mut self, zone: &Zone, frames: u64, first: usize, config: &Config) {
        let mut left = frames.min(self.count);
        if left == 0 {
            return;
        }
        self.counts.drains += 1;
        let mut locked = zone.lock();
        let mut at = match self.policy {
            // 4.x starts with the list behind the first one, whatever was freed.
            PcpPolicy::Classic => 1,
            PcpPolicy::FreeFactor | PcpPolicy::Auto => first,
        };
        let mut turns = 0;
        while left > 0 && turns < 2 * self.lists.len() as u64 {
            turns += 1;
            if !self.lists[at].is_empty() {
                // 4.x takes more from a list the more empty ones it passed, and all from the only one.
                let mut burst = match self.policy {
                    PcpPolicy::Classic if turns >= self.lists.len() as u64 => u64::MAX,
                    PcpPolicy::Classic => turns,
                    PcpPolicy::FreeFactor | PcpPolicy::Auto => u64::MAX,
                };
                turns = 0;
                while left > 0 && burst > 0 {
                    let Some(pfn) = self.lists[at].pop_back() else { break };
                    left = left.saturating_sub(self.give_back(&mut locked, pfn, config));
                    burst -= 1;
                }
            }
            at = (at + 1) % self.lists.len();
        }
    }

    fn give_back(&mut self, locked: &mut Locked<'_>, pfn: Pfn, config: &Config) -> u64 {
        let zone = locked.zone;
        let tag = zone.tag(pfn);
        let Tag::Cached(order) = tag else { return 1 };
        zone.set_tag(pfn, Tag::Inside);
        locked.free_one(pfn, order, zone.type_of(pfn), !config.keeps_lists_pure());
        let frames = order.frames().0;
        self.count -= frames;
        self.counts.drained += frames;
        frames
    }

    /// Lets `high` fall back towards its least, once a second.
    ///
    /// # Linux
    /// `decay_pcp_high`, called by the vmstat worker.
    pub fn decay(&mut self, zone: &Zone, config: &Config) {
        if self.policy != PcpPolicy::Auto {
            return;
        }
        if self.high > self.high_min {
            let by_count = self.count.saturating_sub(self.batch << BATCH_SCALE_MAX);
            self.high = by_count.max(self.high - (self.high >> 3)).max(self.high_min);
        }
        let above = self.count.saturating_sub(self.high);
        self.drain(zone, above, 0, config);
    }

    /// Iterates over the blocks in the lists.
    pub fn blocks(&self) -> impl Iterator<Item = Pfn> + '_ {
        self.lists.iter().flatten().copied()
    }

    /// Puts a block that a caller held straight into a list, as it lay there when a recording began.
    pub fn restore(&mut self, pfn: Pfn, order: Order, m: Migratetype, end: End, config: &Config) -> bool {
        let Some(list) = config.pcp_list(order, m) else { return false };
        match end {
            End::Head => self.lists[list].push_front(pfn),
            End::Tail => self.lists[list].push_back(pfn),
        }
        self.count += order.frames().0;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batch_sizes_of_recorded_and_tiny_zones() {
        for policy in [PcpPolicy::FreeFactor, PcpPolicy::Auto] {
            assert_eq!(batch_size(policy, Frames(5_394_266)), 63);
            assert_eq!(batch_size(policy, Frames(772_917)), 63);
            assert_eq!(batch_size(policy, Frames(3840)), 1);
            assert_eq!(batch_size(policy, Frames(1)), 1);
        }
        assert_eq!(batch_size(PcpPolicy::Classic, Frames(5_394_266)), 31);
    }

    #[test]
    fn classic_high_is_six_batches() {
        let pcp = Pcp::new(&Config::linux_4_6(), Frames(1 << 20), Frames(5000), 2);
        assert_eq!((pcp.batch, pcp.high), (31, 186));
    }

    #[test]
    fn a_fraction_fixes_high() {
        let mut c = Config::linux_6_18();
        c.set("percpu_pagelist_high_fraction", "8").unwrap();
        let pcp = Pcp::new(&c, Frames(1 << 20), Frames(5000), 2);
        assert_eq!((pcp.high_min, pcp.high_max), (65_536, 65_536));
    }
}
