//! Knobs: the reference's settings by name. Layer: settings, above `config`.

use crate::config::{
    BoostRule, CmaUse, CompactorWake, Config, Decay, FallbackPolicy, FragFree, FreeHigh, PcpPolicy,
    PcpProtection, Reclaimer, Rest, Retries, Unreclaimable, ZonelistIterator,
};
use crate::irq::Interrupts;
use std::fmt;

/// What is wrong with a knob.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KnobError(String);

impl fmt::Display for KnobError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for KnobError {}

/// What the names of compaction's knobs begin with.
const COMPACTION: &str = "compaction.";

impl Config {
    /// The knobs that [`Config::set`] knows, each with the values it takes.
    pub const KNOBS: [(&'static str, &'static str); 70] = [
        ("min_free_kbytes", "KiB"),
        ("watermark_scale_factor", "1..3000, ten-thousandths of a zone"),
        ("watermark_boost_factor", "0..100000, ten-thousandths of the high watermark"),
        ("percpu_pagelist_high_fraction", "0, or 8 and more"),
        ("pcp_protection", "irqsave, preempt_only, soft_irq_off, soft_irq_allowed or trylock"),
        ("interrupts", "none, signal_mask, soft_flag or flags_register"),
        ("frag_free", "buddy or pcp"),
        ("zonelist_iterator", "called or inlined"),
        ("pcp_policy", "classic, free_factor or auto"),
        ("pcp_high_orders", "true or false"),
        ("pcp_free_high", "batch or batch_and_half"),
        ("pcp_free_high_batch", "true or false"),
        ("pcp_decay", "at_once or by_batch"),
        ("boost_rule", "atomic or high"),
        ("privileged_take_any_node", "true or false"),
        ("this_node_reclaims", "true or false"),
        ("reclaimable_counts_free", "true or false"),
        ("cpuset_bounds_help", "true or false"),
        ("dirty_ratio", "0..100, percent"),
        ("cma", "last or half"),
        ("fallback", "half_free, alike or claim_or_steal"),
        ("nofragment", "true or false"),
        ("defrag_mode", "0 or 1"),
        ("defrag_falls_back", "true or false"),
        ("defrag_promotes", "true or false"),
        ("spares_reclaiming_nodes", "true or false"),
        ("highatomic_counts_free", "true or false"),
        ("retries", "progress or bounded"),
        ("reclaimer", "by_zone or by_node"),
        ("unreclaimable", "scanned or failures"),
        ("kswapd_rest", "all_balanced or one_balanced"),
        ("compactor_wake", "after_reclaim or instead"),
        ("compaction.enabled", "true or false"),
        ("compaction.last_migrated_drain", "true or false"),
        ("compaction.skip_on_failure", "off, direct_async, direct or all"),
        ("compaction.skip_on_failure_order", "1 to 9"),
        ("compaction.direct_free", "off, direct_async, direct or all"),
        ("compaction.release_leftovers", "true or false"),
        ("compaction.migrate_ignores_free_scanner", "true or false"),
        ("compaction.deferral", "off, shared, by_mode or until_success"),
        ("compaction.skip", "hints, nothing, or random:N with N of a thousand pageblocks, 1 to 999"),
        ("compaction.thorough", "true or false"),
        ("compaction.async_movable_only", "true or false"),
        ("compaction.leases", "true or false"),
        ("compaction.capture", "true or false"),
        ("compaction.stop_at_floor", "true or false"),
        ("compaction.async_budget", "frames, 0 for no limit"),
        ("compaction.extfrag_threshold", "0 to 1000"),
        ("compaction.proactiveness", "0 to 100"),
        ("compaction.marks", "low or min"),
        ("compaction.hints", "nothing_found, first_frame or any_frame"),
        ("compaction.background_hints", "true or false"),
        ("compaction.async_same_type", "true or false"),
        ("compaction.spare_wanted", "true or false"),
        ("compaction.whole_blocks", "true or false"),
        ("compaction.target_order", "last_first or smallest_first"),
        ("compaction.stride", "true or false"),
        ("compaction.fast_free", "true or false"),
        ("compaction.fast_source", "off, hinted or found"),
        ("compaction.finish", "off, begun or failed"),
        ("compaction.moves", "upwards, downwards or batch"),
        ("compaction.leftovers_listed", "true or false"),
        ("compaction.spare_next", "true or false"),
        ("compaction.attempt_deferred", "true or false"),
        ("compaction.large_folios", "true or false"),
        ("compaction.isolated_limit", "off, half or sixteenth"),
        ("compaction.yields", "anywhere or between_zones"),
        ("compaction.pivot", "start, restarting or forgetting"),
        ("compaction.async_resets", "true or false"),
        ("compaction.whole_empties_movable", "true or false"),
    ];

    /// Sets a knob by name.
    ///
    /// # Errors
    /// [`KnobError`] lists the knobs, or the values that this one takes.
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
                    "soft_irq_off" => PcpProtection::SoftIrqOff,
                    "soft_irq_allowed" => PcpProtection::SoftIrqAllowed,
                    "trylock" => PcpProtection::Trylock,
                    _ => return Err(wrong()),
                }
            }
            "interrupts" => {
                self.interrupts = match value {
                    "none" => Interrupts::None,
                    "signal_mask" => Interrupts::SignalMask,
                    "soft_flag" => Interrupts::SoftFlag,
                    "flags_register" => Interrupts::FlagsRegister,
                    _ => return Err(wrong()),
                }
            }
            "frag_free" => {
                self.frag_free = match value {
                    "buddy" => FragFree::Buddy,
                    "pcp" => FragFree::Pcp,
                    _ => return Err(wrong()),
                }
            }
            "zonelist_iterator" => {
                self.zonelist_iterator = match value {
                    "called" => ZonelistIterator::Called,
                    "inlined" => ZonelistIterator::Inlined,
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
            "pcp_free_high" => {
                self.pcp_free_high = match value {
                    "batch" => FreeHigh::Batch,
                    "batch_and_half" => FreeHigh::BatchAndHalf,
                    _ => return Err(wrong()),
                }
            }
            "pcp_decay" => {
                self.pcp_decay = match value {
                    "at_once" => Decay::AtOnce,
                    "by_batch" => Decay::ByBatch,
                    _ => return Err(wrong()),
                }
            }
            "boost_rule" => {
                self.boost_rule = match value {
                    "atomic" => BoostRule::Atomic,
                    "high" => BoostRule::High,
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
            "retries" => {
                self.retries = match value {
                    "progress" => Retries::Progress,
                    "bounded" => Retries::Bounded,
                    _ => return Err(wrong()),
                }
            }
            "reclaimer" => {
                self.reclaimer = match value {
                    "by_zone" => Reclaimer::ByZone,
                    "by_node" => Reclaimer::ByNode,
                    _ => return Err(wrong()),
                }
            }
            "unreclaimable" => {
                self.unreclaimable = match value {
                    "scanned" => Unreclaimable::Scanned,
                    "failures" => Unreclaimable::Failures,
                    _ => return Err(wrong()),
                }
            }
            "kswapd_rest" => {
                self.kswapd_rest = match value {
                    "all_balanced" => Rest::AllBalanced,
                    "one_balanced" => Rest::OneBalanced,
                    _ => return Err(wrong()),
                }
            }
            "compactor_wake" => {
                self.compactor_wake = match value {
                    "after_reclaim" => CompactorWake::AfterReclaim,
                    "instead" => CompactorWake::Instead,
                    _ => return Err(wrong()),
                }
            }
            _ if knob.starts_with(COMPACTION) => {
                self.compaction.set(&knob[COMPACTION.len()..], value).map_err(|_| wrong())?;
            }
            "pcp_high_orders" => self.pcp_high_orders = switch()?,
            "pcp_free_high_batch" => self.pcp_free_high_batch = switch()?,
            "privileged_take_any_node" => self.privileged_take_any_node = switch()?,
            "this_node_reclaims" => self.this_node_reclaims = switch()?,
            "reclaimable_counts_free" => self.reclaimable_counts_free = switch()?,
            "cpuset_bounds_help" => self.cpuset_bounds_help = switch()?,
            "cma" => {
                self.cma = match value {
                    "last" => CmaUse::Last,
                    "half" => CmaUse::Half,
                    _ => return Err(wrong()),
                }
            }
            "dirty_ratio" => self.dirty_ratio = number(0..=100)?,
            "nofragment" => self.nofragment = switch()?,
            "defrag_falls_back" => self.defrag_falls_back = switch()?,
            "defrag_promotes" => self.defrag_promotes = switch()?,
            "spares_reclaiming_nodes" => self.spares_reclaiming_nodes = switch()?,
            "defrag_mode" => {
                self.defrag_mode = match value {
                    "0" => false,
                    "1" => true,
                    _ => return Err(wrong()),
                }
            }
            _ => self.highatomic_counts_free = switch()?,
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_knob_takes_what_it_says_and_nothing_else() {
        let mut c = Config::linux_6_18();
        for (knob, good) in [
            ("min_free_kbytes", "67584"),
            ("watermark_scale_factor", "3000"),
            ("watermark_boost_factor", "0"),
            ("percpu_pagelist_high_fraction", "8"),
            ("pcp_protection", "preempt_only"),
            ("interrupts", "soft_flag"),
            ("frag_free", "buddy"),
            ("zonelist_iterator", "called"),
            ("pcp_policy", "classic"),
            ("pcp_high_orders", "false"),
            ("fallback", "alike"),
            ("nofragment", "false"),
            ("defrag_mode", "1"),
            ("defrag_falls_back", "true"),
            ("defrag_promotes", "true"),
            ("spares_reclaiming_nodes", "false"),
            ("highatomic_counts_free", "false"),
            ("pcp_free_high", "batch"),
            ("pcp_free_high_batch", "false"),
            ("pcp_decay", "at_once"),
            ("boost_rule", "atomic"),
            ("privileged_take_any_node", "false"),
            ("this_node_reclaims", "false"),
            ("reclaimable_counts_free", "true"),
            ("cpuset_bounds_help", "false"),
            ("dirty_ratio", "40"),
            ("cma", "last"),
            ("reclaimer", "by_zone"),
            ("unreclaimable", "scanned"),
            ("kswapd_rest", "all_balanced"),
            ("compactor_wake", "after_reclaim"),
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
    fn every_knob_of_compaction_is_one_of_the_reference() {
        let here: Vec<_> =
            Config::KNOBS.into_iter().filter(|(knob, _)| knob.starts_with(COMPACTION)).collect();
        let there = pageyard_core::compaction::Knobs::NAMES
            .map(|(name, takes)| (format!("{COMPACTION}{name}"), takes));
        assert!(here.iter().map(|(k, t)| (k.to_string(), *t)).eq(there));
        let mut c = Config::linux_4_6();
        c.set("compaction.direct_free", "direct_async").unwrap();
        assert_eq!(c.compaction.direct_free, pageyard_core::compaction::Scope::DirectAsync);
        let wrong = c.set("compaction.direct_free", "sometimes").unwrap_err().to_string();
        assert_eq!(wrong, "`compaction.direct_free` takes off, direct_async, direct or all, not `sometimes`");
        c.set("retries", "bounded").unwrap();
        assert_eq!(c.retries, Retries::Bounded);
    }
}
