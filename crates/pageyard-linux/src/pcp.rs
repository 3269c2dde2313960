//! The policy of a CPU's lists: which blocks they take, how many move at a time, and when. Layer: parts of a zone.
//!
//! It holds limits and what it has seen of the demand, and answers with decisions. It moves nothing: `refill` does, from a
//! list to the zone and back. Counts are in frames.

use crate::config::{Config, PcpPolicy};
use pageyard_core::{Context, Frames, Migratetype, Order, PcpStats};

/// How often the batch may double: `CONFIG_PCP_BATCH_SCALE_MAX`.
const BATCH_SCALE_MAX: u32 = 5;

/// The largest batch that `percpu_pagelist_fraction` of 4.x leads to: eight times `PAGE_SHIFT`.
const CLASSIC_BATCH_MAX: u64 = 96;

/// The share of a zone that all lists together may grow to under [`PcpPolicy::Auto`].
const MIN_PERCPU_PAGELIST_HIGH_FRACTION: u64 = 8;

/// Orders above 0 up to this one fragment memory while they lie in a list: `PAGE_ALLOC_COSTLY_ORDER`.
const COSTLY_ORDER: u8 = 3;

/// What a CPU's lists hold to.
pub struct Pcp {
    policy: PcpPolicy,
    high: u64,
    high_min: u64,
    high_max: u64,
    batch: u64,
    /// `FreeFactor`: how often the batch given back has doubled. `Auto`: how often the batch taken has.
    factor: u32,
    /// `Auto`: frames freed without an allocation in between, halved by each allocation.
    free_count: u64,
    /// Whether the block freed before this one was of order 1 to 3.
    freed_high_order: bool,
}

/// The list that a block goes through.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Listed {
    /// Its number.
    pub list: usize,
    /// The order of the blocks in it.
    pub order: Order,
}

/// What the lists heed of their zone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pressure {
    /// Whether the background reclaimer was woken.
    pub reclaiming: bool,
    /// Whether the zone was last seen below its high watermark.
    pub below_high: bool,
}

/// Decides that blocks go back to the zone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Spill {
    /// At least so many frames go, as far as there are any.
    pub frames: u64,
    /// The list that gives first; the others follow in their order.
    pub first: usize,
    /// How much a list gives at a time.
    pub turns: Turns,
    /// Whether to look afterwards if the zone is above its high watermark again.
    pub recheck: bool,
}

/// How much a list gives when its turn comes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Turns {
    /// All it has.
    Whole,
    /// A block, and one more for each empty list passed before it; everything if it is the only one.
    Growing,
}

/// Returns the list that serves a request, if one may: a request that gets none bypasses the lists.
#[inline]
pub fn list_for_request(config: &Config, context: Context, order: Order, m: Migratetype) -> Option<Listed> {
    let list = config.pcp_list(order, m)?;
    config.pcp_protection.admits(context).then_some(Listed { list, order })
}

/// Returns the list that takes a block freed in a pageblock of a type, if one may: otherwise it goes to the zone.
///
/// Blocks of reserved pageblocks lie in the movable list until it spills; those of isolated ones in none.
#[inline]
pub fn list_for_free(config: &Config, context: Context, order: Order, of: Migratetype) -> Option<Listed> {
    if of == Migratetype::Isolate {
        return None;
    }
    list_for_request(config, context, order, if of.is_requested() { of } else { Migratetype::Movable })
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
    /// Sets the limits of a CPU's lists of a zone with `managed` frames and the low watermark `low`.
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
        Pcp {
            policy: config.pcp_policy,
            high: high_min,
            high_min,
            high_max,
            batch,
            factor: 0,
            free_count: 0,
            freed_high_order: false,
        }
    }

    /// Returns how many blocks a list should have room for from the start: where lists stay short they never grow their
    /// memory, so that a signal handler may use them.
    pub fn room(&self) -> usize {
        match self.policy {
            PcpPolicy::Classic | PcpPolicy::FreeFactor => {
                (self.high_max + 2 * self.batch).min(1 << 16) as usize
            }
            PcpPolicy::Auto => 0,
        }
    }

    /// Reports the limits, for lists that hold `held` frames.
    pub fn stats(&self, held: u64) -> PcpStats {
        let Pcp { high, batch, high_min, high_max, .. } = *self;
        PcpStats { count: held, high, batch, high_min, high_max }
    }

    /// Sets the limit above which lists spill, within its bounds.
    pub fn set_high(&mut self, high: u64) {
        self.high = high.clamp(self.high_min, self.high_max);
    }

    /// Notes a request.
    ///
    /// # Linux
    /// The beginning of `rmqueue_pcplist`.
    pub fn on_request(&mut self) {
        match self.policy {
            PcpPolicy::Classic => {}
            PcpPolicy::FreeFactor => self.factor >>= 1,
            PcpPolicy::Auto => self.free_count >>= 1,
        }
    }

    /// Decides how many blocks an empty list takes from the zone, where all lists hold `held` frames.
    ///
    /// # Linux
    /// `nr_pcp_alloc` (6.7): the batch doubles with each refill that no free came between, as far as `high` allows.
    pub fn on_empty(&mut self, held: u64, order: Order, pressure: Pressure) -> u64 {
        let mut batch = self.batch;
        if self.policy == PcpPolicy::Auto {
            if self.high_max < batch {
                return 1;
            }
            if order == Order::ZERO {
                batch <<= self.factor;
            }
            let mut high = self.high;
            if self.high_min != self.high_max && !pressure.below_high {
                self.high = (self.high + batch).min(self.high_max);
                high = self.high;
            }
            if order == Order::ZERO {
                let most = high.saturating_sub(held + self.batch).max(self.batch);
                if batch <= most && self.factor < BATCH_SCALE_MAX {
                    self.factor += 1;
                }
                batch = batch.min(most);
            }
        }
        if batch > 1 { (batch >> order.get()).max(2) } else { batch }
    }

    /// Decides what goes back to the zone after a block was put into a list; `held` counts it.
    ///
    /// # Linux
    /// `free_unref_page_commit`.
    pub fn on_free(&mut self, held: u64, freed: Listed, pressure: Pressure) -> Option<Spill> {
        let frames = match self.policy {
            PcpPolicy::Classic => (held >= self.high).then_some(self.batch),
            PcpPolicy::FreeFactor => self.by_factor(held, freed.order, pressure),
            PcpPolicy::Auto => self.by_count(held, freed.order, pressure),
        }?;
        Some(Spill { recheck: self.policy == PcpPolicy::Auto, ..self.spill(frames, freed.list) })
    }

    /// Decides what goes back to the zone once a second, as `high` falls towards its least.
    ///
    /// # Linux
    /// `decay_pcp_high`, called by the vmstat worker.
    pub fn on_tick(&mut self, held: u64) -> Option<Spill> {
        if self.policy != PcpPolicy::Auto {
            return None;
        }
        if self.high > self.high_min {
            let by_count = held.saturating_sub(self.batch << BATCH_SCALE_MAX);
            self.high = by_count.max(self.high - (self.high >> 3)).max(self.high_min);
        }
        Some(self.spill(held.saturating_sub(self.high), 0))
    }

    /// Gives everything back.
    pub fn all(&self) -> Spill {
        self.spill(u64::MAX, 0)
    }

    /// # Linux
    /// The order of `free_pcppages_bulk`.
    fn spill(&self, frames: u64, list: usize) -> Spill {
        let (first, turns) = match self.policy {
            // 4.x starts with the list behind the first one, whatever was freed.
            PcpPolicy::Classic => (1, Turns::Growing),
            PcpPolicy::FreeFactor | PcpPolicy::Auto => (list, Turns::Whole),
        };
        Spill { frames, first, turns, recheck: false }
    }

    fn is_high_order(order: Order) -> bool {
        (1..=COSTLY_ORDER).contains(&order.get())
    }

    /// 6.1: `nr_pcp_high` and `nr_pcp_free`.
    fn by_factor(&mut self, held: u64, order: Order, pressure: Pressure) -> Option<u64> {
        let all = self.factor > 0 && Self::is_high_order(order);
        // While reclaim runs, lists keep little: what it frees is for whoever waits.
        let high = if pressure.reclaiming { self.high.min(self.batch << 2) } else { self.high };
        if !all && held < high {
            return None;
        }
        Some(if all {
            held
        } else if high < self.batch {
            1
        } else {
            let most = high - self.batch;
            let doubled = self.batch << self.factor;
            if doubled < most && self.factor < BATCH_SCALE_MAX {
                self.factor += 1;
            }
            doubled.clamp(self.batch, most.max(self.batch))
        })
    }

    /// 6.7 and later: `nr_pcp_high` and `nr_pcp_free`.
    fn by_count(&mut self, held: u64, order: Order, pressure: Pressure) -> Option<u64> {
        self.factor >>= 1;
        let all = Self::is_high_order(order)
            && self.freed_high_order
            && self.free_count >= self.batch + self.high_min / 2;
        self.freed_high_order = Self::is_high_order(order);
        let longest = self.batch << BATCH_SCALE_MAX;
        if self.free_count < longest {
            self.free_count = (self.free_count + order.frames().0).min(longest);
        }
        let high = self.limit(held, all, longest, pressure);
        if held < high {
            return None;
        }
        Some(if all {
            held.min(longest)
        } else if high < self.batch {
            1
        } else {
            self.free_count.clamp(self.batch, (high - self.batch).max(self.batch))
        })
    }

    /// Returns the count above which the lists spill, and moves `high` with demand.
    fn limit(&mut self, held: u64, all: bool, longest: u64, pressure: Pressure) -> u64 {
        if all {
            self.high = self.high.saturating_sub(longest).max(self.high_min);
            return 0;
        }
        if pressure.reclaiming {
            let shrink = self.free_count.max(self.batch);
            self.high = self.high.saturating_sub(shrink).max(self.high_min);
            return self.high.min(self.batch << 2);
        }
        if self.high_min == self.high_max {
            return self.high;
        }
        if pressure.below_high {
            let shrink = self.free_count.max(self.batch);
            self.high = self.high.saturating_sub(shrink).max(self.high_min);
            return held.max(self.high_min);
        }
        let high = self.high;
        if held >= high {
            // Room for what was freed in one go, so that it need not go through the zone.
            let needed = self.free_count + self.batch;
            if high < needed {
                self.high = needed.clamp(self.high_min, self.high_max);
            }
        }
        high
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
