//! The policy of a CPU's lists: which blocks they take, how many move at a time, and when. Layer: parts of a zone. The
//! policy holds limits and what it has seen of the demand, and returns decisions. It moves nothing: `refill` does, from
//! a list to the zone and back. Counts are in frames.

use crate::config::{Config, PcpPolicy, Portions};
use crate::pcp_limits::Limits;
use pageyard_core::{Context, Migratetype, Order, PcpStats};

/// How often the batch may double: `CONFIG_PCP_BATCH_SCALE_MAX`.
const BATCH_SCALE_MAX: u32 = 5;

/// Orders above 0 up to this one fragment memory while they lie in a list: `PAGE_ALLOC_COSTLY_ORDER`.
const COSTLY_ORDER: u8 = 3;

/// The policy of a CPU's lists.
pub struct Pcp {
    policy: PcpPolicy,
    limits: Limits,
    /// `Auto`: frames freed without an allocation after which a block of order 1 to 3 empties the lists.
    many: u64,
    /// `Auto`: whether the lists keep a batch then.
    keeps_batch: bool,
    /// How lists that are too long give back once a second, and after a free.
    decay: Portions,
    spill: Portions,
    /// The list that gives first, where the largest blocks go first.
    largest: Option<usize>,
    /// Above it the lists spill.
    high: u64,
    /// `FreeFactor`: how often the batch given back has doubled. `Auto`: how often the batch taken has.
    factor: u32,
    /// `Auto`: frames freed without an allocation in between, halved by each allocation.
    free_count: u64,
    /// Whether the block freed before this one was of order 1 to 3.
    freed_high_order: bool,
}

/// A policy's record of the demand.
///
/// # Linux
/// The fields of `struct per_cpu_pages` that change.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Seen {
    /// Above it the lists spill.
    pub high: u64,
    /// `free_factor` until 6.6, `alloc_factor` later.
    pub factor: u32,
    /// `free_count`.
    pub free_count: u64,
    /// `PCPF_PREV_FREE_HIGH_ORDER`.
    pub freed_high_order: bool,
}

/// Brings a value within bounds. Where the upper one is below the lower one, it is looked at first.
///
/// # Linux
/// `clamp`.
fn clamp(value: u64, least: u64, most: u64) -> u64 {
    if value >= most { most } else { value.max(least) }
}

/// The list that a block goes through.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Listed {
    /// Its number.
    pub list: usize,
    /// The order of the blocks in it.
    pub order: Order,
}

/// The state of the zone that the lists depend on.
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
    /// At least this many frames go, if there are that many.
    pub frames: u64,
    /// No more than these at a time, each time from the first list on.
    pub step: u64,
    /// The list that gives first; the others follow in their order.
    pub first: usize,
    /// How much a list gives at a time.
    pub turns: Turns,
    /// Whether to check afterwards if the zone is above its high watermark again.
    pub recheck: bool,
}

/// How much a list gives when its turn comes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Turns {
    /// All it has.
    Whole,
    /// A block, and one more for each empty list passed before it; everything if it is the only one.
    Growing,
    /// All it has, and the list before it is next: that of smaller blocks.
    Largest,
}

/// Returns the list that serves a request, if any: a request that gets none bypasses the lists.
#[inline]
pub fn list_for_request(config: &Config, context: Context, order: Order, m: Migratetype) -> Option<Listed> {
    let list = config.pcp_list(order, m)?;
    config.pcp_protection.admits(context).then_some(Listed { list, order })
}

/// Returns the list that takes a block freed in a pageblock of a type, if any: otherwise it goes to the zone.
///
/// Blocks of reserved pageblocks stay in the movable list until it spills; those of isolated pageblocks go to none.
#[inline]
pub fn list_for_free(config: &Config, context: Context, order: Order, of: Migratetype) -> Option<Listed> {
    if of == Migratetype::Isolate {
        return None;
    }
    list_for_request(config, context, order, if of.is_requested() { of } else { Migratetype::Movable })
}

impl Pcp {
    /// Makes a policy that has seen nothing yet.
    pub fn new(config: &Config, limits: Limits) -> Pcp {
        Pcp {
            policy: config.pcp_policy,
            limits,
            many: limits.many(config),
            keeps_batch: config.pcp_free_high_batch,
            decay: config.pcp_decay,
            spill: config.pcp_spill,
            largest: config.pcp_owners.then(|| config.pcp_lists() - 1),
            high: limits.high_min,
            factor: 0,
            free_count: 0,
            freed_high_order: false,
        }
    }

    /// Sets other limits, and forgets nothing that it has seen.
    ///
    /// # Linux
    /// `pageset_update`.
    pub fn set_limits(&mut self, config: &Config, limits: Limits) {
        (self.limits, self.many) = (limits, limits.many(config));
        // Where the limit is computed with the demand, it is brought within the new bounds when it is used.
        if self.policy != PcpPolicy::Auto {
            self.high = limits.high_min;
        }
    }

    /// Says what it has seen.
    pub fn seen(&self) -> Seen {
        Seen {
            high: self.high,
            factor: self.factor,
            free_count: self.free_count,
            freed_high_order: self.freed_high_order,
        }
    }

    /// Makes it one that has seen something else.
    pub fn set_seen(&mut self, seen: Seen) {
        let Seen { high, factor, free_count, freed_high_order } = seen;
        (self.high, self.factor) = (high, factor.min(BATCH_SCALE_MAX));
        (self.free_count, self.freed_high_order) = (free_count, freed_high_order);
    }

    /// Returns how many blocks a list should have room for from the start: where lists stay short they never grow their
    /// memory, so a signal handler can use them.
    pub fn room(&self) -> usize {
        match self.policy {
            PcpPolicy::Classic | PcpPolicy::FreeFactor => {
                (self.limits.high_max + 2 * self.limits.batch).min(1 << 16) as usize
            }
            PcpPolicy::Auto => 0,
        }
    }

    /// Reports the limits, for lists that hold `held` frames.
    pub fn stats(&self, held: u64) -> PcpStats {
        let Limits { high_min, high_max, batch } = self.limits;
        PcpStats { count: held, high: self.high, batch, high_min, high_max }
    }

    /// Sets the limit above which lists spill, within its bounds.
    pub fn set_high(&mut self, high: u64) {
        self.high = clamp(high, self.limits.high_min, self.limits.high_max);
    }

    /// Returns whether lists that hold `held` frames have room for `more` below their limit.
    pub fn has_room(&self, held: u64, more: u64) -> bool {
        held + more <= self.high
    }

    /// Notes a request.
    ///
    /// # Linux
    /// The beginning of `rmqueue_pcplist`.
    #[inline]
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
    /// `nr_pcp_alloc` (6.7): the batch doubles with each refill without a free in between, as far as `high` allows.
    pub fn on_empty(&mut self, held: u64, order: Order, pressure: Pressure) -> u64 {
        let mut batch = self.limits.batch;
        if self.policy == PcpPolicy::Auto {
            self.set_high(self.high);
            if self.high < batch {
                return 1;
            }
            if order == Order::ZERO {
                batch <<= self.factor;
            }
            let mut high = self.high;
            if self.limits.high_min != self.limits.high_max && !pressure.below_high {
                self.high = (self.high + batch).min(self.limits.high_max);
                high = self.high;
            }
            if order == Order::ZERO {
                // Room for a batch stays.
                let most = high.saturating_sub(held + self.limits.batch).max(self.limits.batch);
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
    #[inline]
    pub fn on_free(&mut self, held: u64, freed: Listed, pressure: Pressure) -> Option<Spill> {
        let frames = match self.policy {
            PcpPolicy::Classic => (held >= self.high).then_some(self.limits.batch),
            PcpPolicy::FreeFactor => self.by_factor(held, freed.order, pressure),
            PcpPolicy::Auto => self.by_count(held, freed.order, pressure),
        }?;
        Some(Spill { recheck: self.policy == PcpPolicy::Auto, ..self.spill(frames, freed.list, self.spill) })
    }

    /// Notes a free after which nothing goes back to the zone. Only 6.7 and later learn from it.
    ///
    /// # Linux
    /// `free_unref_page_commit`, up to where it looks whether the lists are too long.
    #[inline]
    pub fn on_quiet_free(&mut self, order: Order) {
        if self.policy != PcpPolicy::Auto {
            return;
        }
        self.factor >>= 1;
        self.freed_high_order = Self::is_high_order(order);
        if self.free_count < self.limits.batch << BATCH_SCALE_MAX {
            self.free_count += order.frames().0;
        }
    }

    /// Decides what goes back to the zone once a second, as `high` falls towards its least.
    ///
    /// # Linux
    /// `decay_pcp_high`, called by the vmstat worker.
    pub fn on_tick(&mut self, held: u64) -> Spill {
        if self.policy != PcpPolicy::Auto {
            return self.spill(0, 0, Portions::AtOnce);
        }
        if self.high > self.limits.high_min {
            let by_count = held.saturating_sub(self.limits.batch << BATCH_SCALE_MAX);
            self.high = by_count.max(self.high - (self.high >> 3)).max(self.limits.high_min);
        }
        self.spill(held.saturating_sub(self.high), 0, self.decay)
    }

    /// Gives everything back.
    pub fn all(&self) -> Spill {
        self.spill(u64::MAX, 0, Portions::AtOnce)
    }

    /// # Linux
    /// The order of `free_pcppages_bulk`.
    #[inline]
    fn spill(&self, frames: u64, list: usize, portions: Portions) -> Spill {
        let (first, turns) = match (self.largest, self.policy) {
            (Some(largest), _) => (largest, Turns::Largest),
            // 4.x starts with the list after the first one, whatever was freed.
            (None, PcpPolicy::Classic) => (1, Turns::Growing),
            (None, PcpPolicy::FreeFactor | PcpPolicy::Auto) => (list, Turns::Whole),
        };
        let step = if portions == Portions::AtOnce { u64::MAX } else { self.limits.batch };
        Spill { frames, step, first, turns, recheck: false }
    }

    fn is_high_order(order: Order) -> bool {
        (1..=COSTLY_ORDER).contains(&order.get())
    }

    /// 6.1: `nr_pcp_high` and `nr_pcp_free`.
    #[inline]
    fn by_factor(&mut self, held: u64, order: Order, pressure: Pressure) -> Option<u64> {
        let all = self.factor > 0 && Self::is_high_order(order);
        // While reclaim runs, lists keep little: what it frees is for the requests that wait.
        let high = if pressure.reclaiming { self.high.min(self.limits.batch << 2) } else { self.high };
        if !all && held < high {
            return None;
        }
        Some(if all {
            held
        } else if high < self.limits.batch {
            1
        } else {
            let most = high - self.limits.batch;
            let doubled = self.limits.batch << self.factor;
            if doubled < most && self.factor < BATCH_SCALE_MAX {
                self.factor += 1;
            }
            clamp(doubled, self.limits.batch, most)
        })
    }

    /// 6.7 and later: `nr_pcp_high` and `nr_pcp_free`.
    #[inline]
    fn by_count(&mut self, held: u64, order: Order, pressure: Pressure) -> Option<u64> {
        let all = Self::is_high_order(order)
            && self.freed_high_order
            && self.free_count >= self.many
            && (!self.keeps_batch || held >= self.limits.batch);
        self.on_quiet_free(order);
        let longest = self.limits.batch << BATCH_SCALE_MAX;
        let high = self.limit(held, all, longest, pressure);
        if held < high {
            return None;
        }
        Some(if all {
            held.min(longest)
        } else if high < self.limits.batch {
            1
        } else {
            clamp(self.free_count, self.limits.batch, high - self.limits.batch)
        })
    }

    /// Returns the count above which the lists spill, and moves `high` with demand.
    #[inline]
    fn limit(&mut self, held: u64, all: bool, longest: u64, pressure: Pressure) -> u64 {
        self.set_high(self.high);
        if self.high == 0 {
            return 0;
        }
        if all {
            self.high = self.high.saturating_sub(longest).max(self.limits.high_min);
            return 0;
        }
        if pressure.reclaiming {
            let shrink = self.free_count.max(self.limits.batch);
            self.high = self.high.saturating_sub(shrink).max(self.limits.high_min);
            return self.high.min(self.limits.batch << 2);
        }
        if self.limits.high_min == self.limits.high_max {
            return self.high;
        }
        if pressure.below_high {
            let shrink = self.free_count.max(self.limits.batch);
            self.high = self.high.saturating_sub(shrink).max(self.limits.high_min);
            return held.max(self.limits.high_min);
        }
        let high = self.high;
        if held >= high {
            // Room for a burst of frees, so that it need not go through the zone.
            let needed = self.free_count + self.limits.batch;
            if high < needed {
                self.set_high(needed);
            }
        }
        high
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pageyard_core::Frames;

    const CALM: Pressure = Pressure { reclaiming: false, below_high: false };
    const SINGLE: Listed = Listed { list: 1, order: Order::ZERO };

    fn pcp(config: &Config) -> Pcp {
        Pcp::new(config, Limits::new(config, Frames(1 << 20), Frames(5000), 2))
    }

    #[test]
    fn classic_lists_give_one_batch_when_they_are_full_whatever_the_zone_does() {
        let mut pcp = pcp(&Config::linux_4_10());
        let pressed = Pressure { reclaiming: true, below_high: true };
        assert_eq!(pcp.on_free(185, SINGLE, pressed), None);
        let spill = Spill { frames: 31, step: u64::MAX, first: 1, turns: Turns::Growing, recheck: false };
        assert_eq!(pcp.on_free(186, Listed { list: 2, ..SINGLE }, pressed), Some(spill));
        assert_eq!(pcp.on_empty(0, Order::ZERO, pressed), 31);
    }

    #[test]
    fn what_6_1_gives_back_doubles_with_each_spill_and_halves_with_each_request() {
        let mut pcp = pcp(&Config::linux_6_1());
        let high = pcp.high;
        let mut given = || pcp.on_free(high, SINGLE, CALM).unwrap().frames;
        assert_eq!([given(), given(), given()], [63, 126, 252]);
        pcp.on_request();
        // Three doublings halved are one.
        assert_eq!(pcp.on_free(high, SINGLE, CALM).unwrap().frames, 126);
        let reclaiming = Pressure { reclaiming: true, ..CALM };
        assert_eq!(pcp.on_free(4 * 63 - 1, SINGLE, reclaiming), None);
        assert!(
            pcp.on_free(4 * 63, SINGLE, reclaiming).is_some(),
            "lists keep four batches while reclaim runs"
        );
    }

    #[test]
    fn what_6_18_takes_doubles_with_each_refill_until_a_free() {
        let mut pcp = pcp(&Config::linux_6_18());
        let taken = [(); 3].map(|()| pcp.on_empty(0, Order::ZERO, CALM));
        assert_eq!(taken, [63, 126, 252]);
        assert_eq!(pcp.on_free(1, SINGLE, CALM), None);
        // Three doublings halved are one.
        assert_eq!(pcp.on_empty(0, Order::ZERO, CALM), 126);
        assert_eq!(pcp.on_empty(0, Order::of(3), CALM), 7, "blocks take their share of one batch");
    }

    #[test]
    fn high_of_6_18_grows_with_refills_and_decays_with_ticks() {
        let mut pcp = pcp(&Config::linux_6_18());
        let least = pcp.high;
        pcp.on_empty(0, Order::ZERO, CALM);
        assert_eq!(pcp.high, least + 63);
        let below = Pressure { below_high: true, ..CALM };
        pcp.on_empty(0, Order::ZERO, below);
        assert_eq!(pcp.high, least + 63, "not while memory is short");
        let held = pcp.high + 10;
        let spill = pcp.on_tick(held);
        assert_eq!((spill.frames, spill.step), (10 + 63, 63), "a batch at a time");
        assert_eq!(pcp.high, least);
    }

    #[test]
    fn lists_that_decay_at_once_give_back_all_in_one_go() {
        let mut pcp = pcp(&Config { pcp_decay: Portions::AtOnce, ..Config::linux_6_18() });
        let held = pcp.high + 10;
        let spill = pcp.on_tick(held);
        assert!(spill.frames == 10 && spill.step >= 10);
    }

    #[test]
    fn isolated_pageblocks_bypass_the_lists_and_reserved_ones_use_the_movable_list() {
        let c = Config::linux_6_18();
        let list = |of| list_for_free(&c, Context::Task, Order::ZERO, of);
        assert_eq!(list(Migratetype::Isolate), None);
        assert_eq!(list(Migratetype::HighAtomic), list(Migratetype::Movable));
        assert_eq!(list_for_free(&c, Context::Nmi, Order::ZERO, Migratetype::Movable), None);
        assert_eq!(list_for_request(&c, Context::Task, Order::of(4), Migratetype::Movable), None);
    }
}
