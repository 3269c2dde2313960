//! Presets and knobs: which Linux the reference is.

use pageyard::watermark::{ReserveRule, WatermarkKnobs};
use pageyard::{Context, Migratetype, Order};
use std::fmt;

/// How the per-CPU lists are kept from being used twice at once on one CPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PcpProtection {
    /// Interrupts are off while a list is used, so every context may use it (until 5.18).
    Irqsave,
    /// Only preemption is off, so interrupts go straight to the zone (commit 374ad05ab64d, reverted before 4.11).
    PreemptOnly,
    /// Preemption and deferred interrupts are off; only hard interrupts go to the zone (that commit's variant).
    SoftIrqAllowed,
    /// A lock that is tried; whoever fails goes to the zone (6.0 and later).
    Trylock,
}

impl PcpProtection {
    /// Says whether code in `context` may use the lists at all.
    #[must_use]
    pub fn admits(self, context: Context) -> bool {
        match self {
            PcpProtection::Irqsave | PcpProtection::Trylock => context != Context::Nmi,
            PcpProtection::PreemptOnly => context == Context::Task,
            PcpProtection::SoftIrqAllowed => matches!(context, Context::Task | Context::Softirq),
        }
    }
}

/// How large the per-CPU lists become, and how they shrink.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PcpPolicy {
    /// `high` is six batches; a full list gives one batch back (4.x).
    Classic,
    /// `high` comes from the low watermark; the batch given back doubles with each free (6.1).
    FreeFactor,
    /// `high` moves between `high_min` and `high_max` with demand (6.7 and later).
    Auto,
}

/// How a request takes from pageblocks of another type.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FallbackPolicy {
    /// Largest block first, whatever is asked for; a block is converted when half of it is free (4.x).
    HalfFree,
    /// Movable requests split the smallest block; alike frames count towards the half (4.12 to 6.8).
    Alike,
    /// A block is either claimed as a whole or one block is taken from it; free lists never mix types (6.9 and later).
    ClaimOrSteal,
}

/// How many pageblocks may be set aside for high-order requests that cannot wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HighatomicLimit {
    /// One percent of the zone and one pageblock more.
    PercentPlusOne,
    /// One percent of the zone rounded up to a pageblock; none where one percent is less than one.
    PercentRounded,
}

/// Which Linux the reference is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Config {
    /// The preset's name.
    pub name: &'static str,
    /// CPUs, each with lists of its own.
    pub cpus: u32,
    /// Watermarks and reserves.
    pub watermark: WatermarkKnobs,
    /// Who may go below a watermark, and how far.
    pub reserve_rule: ReserveRule,
    /// Who may use the per-CPU lists.
    pub pcp_protection: PcpProtection,
    /// How large they become.
    pub pcp_policy: PcpPolicy,
    /// Whether they hold orders 1 to 3 and 9 as well as order 0.
    pub pcp_high_orders: bool,
    /// `vm.percpu_pagelist_high_fraction`: the share of a zone that all CPUs' lists may hold; 0 computes `high`.
    pub percpu_pagelist_high_fraction: u64,
    /// How types fall back.
    pub fallback: FallbackPolicy,
    /// Whether a first attempt avoids mixing types in a pageblock, even at the cost of a lower zone (5.0 and later).
    pub nofragment: bool,
    /// How much is set aside for high-order requests that cannot wait.
    pub highatomic_limit: HighatomicLimit,
    /// Whether only *free* reserved frames are withheld from others (6.13 and later), or all reserved ones.
    pub highatomic_counts_free: bool,
    /// What the preset leaves out of the kernel it is named after.
    pub leaves_out: &'static str,
}

/// What is wrong with a knob.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KnobError(String);

impl fmt::Display for KnobError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for KnobError {}

const NO_RECLAIM: &str =
    "Reclaim and compaction do not run; memory cgroups, cpusets and dirty limits do not exist.";

impl Config {
    /// The names of the presets.
    pub const PRESETS: [&'static str; 4] = ["linux-4.6", "linux-4.10", "linux-6.1", "linux-6.18"];

    /// Returns a preset by name, with two CPUs.
    #[must_use]
    pub fn preset(name: &str) -> Option<Config> {
        match name {
            "linux-4.6" => Some(Config::linux_4_6()),
            "linux-4.10" => Some(Config::linux_4_10()),
            "linux-6.1" => Some(Config::linux_6_1()),
            "linux-6.18" => Some(Config::linux_6_18()),
            _ => None,
        }
    }

    /// Linux 4.6.
    #[must_use]
    pub fn linux_4_6() -> Config {
        Config {
            name: "linux-4.6",
            leaves_out: "The fair-zone policy is left out. Reclaim and compaction do not run; memory cgroups, cpusets \
                         and dirty limits do not exist.",
            ..Config::linux_4_10()
        }
    }

    /// Linux 4.10.
    #[must_use]
    pub fn linux_4_10() -> Config {
        Config {
            name: "linux-4.10",
            cpus: 2,
            watermark: WatermarkKnobs { watermark_boost_factor: 0, ..WatermarkKnobs::default() },
            reserve_rule: ReserveRule::HighHarder,
            pcp_protection: PcpProtection::Irqsave,
            pcp_policy: PcpPolicy::Classic,
            pcp_high_orders: false,
            percpu_pagelist_high_fraction: 0,
            fallback: FallbackPolicy::HalfFree,
            nofragment: false,
            highatomic_limit: HighatomicLimit::PercentPlusOne,
            highatomic_counts_free: false,
            leaves_out: NO_RECLAIM,
        }
    }

    /// Linux 6.1, as its long-term branch stands (6.1.192).
    #[must_use]
    pub fn linux_6_1() -> Config {
        Config {
            name: "linux-6.1",
            watermark: WatermarkKnobs::default(),
            reserve_rule: ReserveRule::MinReserve,
            pcp_protection: PcpProtection::Trylock,
            pcp_policy: PcpPolicy::FreeFactor,
            pcp_high_orders: true,
            fallback: FallbackPolicy::Alike,
            nofragment: true,
            ..Config::linux_4_10()
        }
    }

    /// Linux 6.18: the kernel of the shipped recordings.
    #[must_use]
    pub fn linux_6_18() -> Config {
        Config {
            name: "linux-6.18",
            pcp_policy: PcpPolicy::Auto,
            fallback: FallbackPolicy::ClaimOrSteal,
            highatomic_limit: HighatomicLimit::PercentRounded,
            highatomic_counts_free: true,
            ..Config::linux_6_1()
        }
    }

    /// The knobs that [`Config::set`] knows, each with the values it takes.
    pub const KNOBS: [(&'static str, &'static str); 10] = [
        ("min_free_kbytes", "KiB"),
        ("watermark_scale_factor", "1..3000, ten-thousandths of a zone"),
        ("watermark_boost_factor", "0..100000, ten-thousandths of the high watermark"),
        ("percpu_pagelist_high_fraction", "0, or 8 and more"),
        ("pcp_protection", "irqsave, preempt_only, soft_irq_allowed or trylock"),
        ("pcp_policy", "classic, free_factor or auto"),
        ("pcp_high_orders", "true or false"),
        ("fallback", "half_free, alike or claim_or_steal"),
        ("nofragment", "true or false"),
        ("highatomic_counts_free", "true or false"),
    ];

    /// Sets a knob by name.
    ///
    /// # Errors
    /// [`KnobError`] says which knobs there are, or what values this one takes.
    pub fn set(&mut self, knob: &str, value: &str) -> Result<(), KnobError> {
        let Some((_, takes)) = Config::KNOBS.iter().find(|(name, _)| *name == knob) else {
            let names: Vec<_> = Config::KNOBS.iter().map(|(name, _)| *name).collect();
            return Err(KnobError(format!("there is no knob `{knob}`; there are {}", names.join(", "))));
        };
        let wrong = || KnobError(format!("`{knob}` takes {takes}, not `{value}`"));
        let number = |range: std::ops::RangeInclusive<u64>| {
            value.parse::<u64>().ok().filter(|v| range.contains(v)).ok_or_else(wrong)
        };
        let switch = || value.parse::<bool>().map_err(|_| wrong());
        match knob {
            // 16 TiB of reserve: more than any map holds, and no arithmetic overflows below it.
            "min_free_kbytes" => self.watermark.min_free_kbytes = Some(number(0..=1 << 34)?),
            "watermark_scale_factor" => self.watermark.watermark_scale_factor = number(1..=3000)?,
            "watermark_boost_factor" => self.watermark.watermark_boost_factor = number(0..=100_000)?,
            "percpu_pagelist_high_fraction" => {
                let fraction = number(0..=u64::MAX)?;
                if (1..8).contains(&fraction) {
                    return Err(wrong());
                }
                self.percpu_pagelist_high_fraction = fraction;
            }
            "pcp_protection" => {
                self.pcp_protection = match value {
                    "irqsave" => PcpProtection::Irqsave,
                    "preempt_only" => PcpProtection::PreemptOnly,
                    "soft_irq_allowed" => PcpProtection::SoftIrqAllowed,
                    "trylock" => PcpProtection::Trylock,
                    _ => return Err(wrong()),
                }
            }
            "pcp_policy" => {
                self.pcp_policy = match value {
                    "classic" => PcpPolicy::Classic,
                    "free_factor" => PcpPolicy::FreeFactor,
                    "auto" => PcpPolicy::Auto,
                    _ => return Err(wrong()),
                }
            }
            "fallback" => {
                self.fallback = match value {
                    "half_free" => FallbackPolicy::HalfFree,
                    "alike" => FallbackPolicy::Alike,
                    "claim_or_steal" => FallbackPolicy::ClaimOrSteal,
                    _ => return Err(wrong()),
                }
            }
            "pcp_high_orders" => self.pcp_high_orders = switch()?,
            "nofragment" => self.nofragment = switch()?,
            _ => self.highatomic_counts_free = switch()?,
        }
        Ok(())
    }

    /// Returns which per-CPU list holds blocks of this order and type, if one does.
    ///
    /// # Linux
    /// `order_to_pindex`: a list for each of orders 0 to 3 and each type, and two for huge pages.
    #[must_use]
    pub(crate) fn pcp_list(&self, order: Order, m: Migratetype) -> Option<usize> {
        match order.get() {
            0 => Some(m.index()),
            1..=3 if self.pcp_high_orders => Some(order.index() * 3 + m.index()),
            9 if self.pcp_high_orders => Some(12 + usize::from(m == Migratetype::Movable)),
            _ => None,
        }
    }

    /// Says whether a free block is always on the list of its pageblock's type (6.9 and later).
    #[must_use]
    pub(crate) fn keeps_lists_pure(&self) -> bool {
        self.fallback == FallbackPolicy::ClaimOrSteal
    }

    /// Returns how many per-CPU lists there are.
    #[must_use]
    pub(crate) fn pcp_lists(&self) -> usize {
        if self.pcp_high_orders { 14 } else { 3 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_preset_is_found_by_its_name_and_says_what_it_leaves_out() {
        for name in Config::PRESETS {
            let config = Config::preset(name).unwrap();
            assert_eq!(config.name, name);
            assert!(!config.leaves_out.is_empty());
        }
        assert_eq!(Config::preset("linux-2.4"), None);
    }

    #[test]
    fn a_knob_takes_what_it_says_and_nothing_else() {
        let mut c = Config::linux_6_18();
        for (knob, good) in [
            ("min_free_kbytes", "67584"),
            ("watermark_scale_factor", "3000"),
            ("watermark_boost_factor", "0"),
            ("percpu_pagelist_high_fraction", "8"),
            ("pcp_protection", "preempt_only"),
            ("pcp_policy", "classic"),
            ("pcp_high_orders", "false"),
            ("fallback", "alike"),
            ("nofragment", "false"),
            ("highatomic_counts_free", "false"),
        ] {
            let before = c.clone();
            c.set(knob, good).unwrap();
            assert_ne!(c, before, "{knob} changes something");
            let err = c.set(knob, "-1").unwrap_err().to_string();
            assert!(err.contains(knob), "{err}");
        }
        assert!(c.set("percpu_pagelist_high_fraction", "7").is_err());
        assert!(c.set("swappiness", "60").unwrap_err().to_string().contains("min_free_kbytes"));
    }

    #[test]
    fn lists_are_numbered_without_gaps() {
        let c = Config::linux_6_18();
        let mut seen: Vec<usize> = Order::ZERO
            .up_to(Order::of(10))
            .flat_map(|o| Migratetype::REQUESTED.map(|m| (o, m)))
            .filter_map(|(o, m)| c.pcp_list(o, m))
            .collect();
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen, (0..c.pcp_lists()).collect::<Vec<_>>());
    }
}
