//! The names of compaction's knobs, and how they are set.

use super::knobs::{
    Deferral, FastSource, Finish, Hints, IsolatedLimit, Knobs, Marks, Moves, Pivot, Scope, Skip, TargetOrder,
    Yields,
};
use crate::units::Order;
use core::fmt;

/// What is wrong with a knob.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum KnobError {
    /// There is no such knob.
    Unknown,
    /// It does not take this value; it takes those listed here.
    Takes(&'static str),
}

impl fmt::Display for KnobError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            KnobError::Unknown => f.write_str("there is no such knob of compaction"),
            KnobError::Takes(what) => write!(f, "the knob takes {what}"),
        }
    }
}

impl core::error::Error for KnobError {}

impl Knobs {
    /// The names, each with the values it takes.
    pub const NAMES: [(&'static str, &'static str); 38] = [
        ("enabled", "true or false"),
        ("last_migrated_drain", "true or false"),
        ("skip_on_failure", "off, direct_async, direct or all"),
        ("skip_on_failure_order", "1 to 9"),
        ("direct_free", "off, direct_async, direct or all"),
        ("release_leftovers", "true or false"),
        ("migrate_ignores_free_scanner", "true or false"),
        ("deferral", "off, shared, by_mode or until_success"),
        ("skip", "hints, nothing, or random:N with N of a thousand pageblocks, 1 to 999"),
        ("thorough", "true or false"),
        ("async_movable_only", "true or false"),
        ("leases", "true or false"),
        ("capture", "true or false"),
        ("stop_at_floor", "true or false"),
        ("async_budget", "frames, 0 for no limit"),
        ("extfrag_threshold", "0 to 1000"),
        ("proactiveness", "0 to 100"),
        ("marks", "low or min"),
        ("hints", "nothing_found, first_frame or any_frame"),
        ("background_hints", "true or false"),
        ("async_same_type", "true or false"),
        ("spare_wanted", "true or false"),
        ("whole_blocks", "true or false"),
        ("target_order", "last_first or smallest_first"),
        ("stride", "true or false"),
        ("fast_free", "true or false"),
        ("fast_source", "off, hinted or found"),
        ("finish", "off, begun or failed"),
        ("moves", "upwards, downwards or batch"),
        ("leftovers_listed", "true or false"),
        ("spare_next", "true or false"),
        ("attempt_deferred", "true or false"),
        ("large_folios", "true or false"),
        ("isolated_limit", "off, half or sixteenth"),
        ("yields", "anywhere or between_zones"),
        ("pivot", "start, restarting or forgetting"),
        ("async_resets", "true or false"),
        ("whole_empties_movable", "true or false"),
    ];

    /// Sets a knob by its name, without the prefix `compaction.`.
    ///
    /// # Errors
    /// [`KnobError`]; nothing changed.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), KnobError> {
        let Some((_, takes)) = Knobs::NAMES.iter().find(|(n, _)| *n == name) else {
            return Err(KnobError::Unknown);
        };
        let wrong = KnobError::Takes(takes);
        let switch = || value.parse::<bool>().map_err(|_| wrong);
        let number = |least: u64, most: u64| {
            value.parse::<u64>().ok().filter(|n| (least..=most).contains(n)).ok_or(wrong)
        };
        let scope = || match value {
            "off" => Ok(Scope::Off),
            "direct_async" => Ok(Scope::DirectAsync),
            "direct" => Ok(Scope::Direct),
            "all" => Ok(Scope::All),
            _ => Err(wrong),
        };
        match name {
            "enabled" => self.enabled = switch()?,
            "last_migrated_drain" => self.last_migrated_drain = switch()?,
            "skip_on_failure" => self.skip_on_failure = scope()?,
            "skip_on_failure_order" => self.skip_on_failure_order = Order::of(number(1, 9)? as u8),
            "direct_free" => self.direct_free = scope()?,
            "release_leftovers" => self.release_leftovers = switch()?,
            "migrate_ignores_free_scanner" => self.migrate_ignores_free_scanner = switch()?,
            "deferral" => {
                self.deferral = match value {
                    "off" => Deferral::Off,
                    "shared" => Deferral::Shared,
                    "by_mode" => Deferral::ByMode,
                    "until_success" => Deferral::UntilSuccess,
                    _ => return Err(wrong),
                }
            }
            "skip" => {
                self.skip = match value.strip_prefix("random:") {
                    Some(n) => Skip::Random(n.parse().ok().filter(|n| (1..1000).contains(n)).ok_or(wrong)?),
                    None if value == "hints" => Skip::Hints,
                    None if value == "nothing" => Skip::Nothing,
                    None => return Err(wrong),
                }
            }
            "thorough" => self.thorough = switch()?,
            "async_movable_only" => self.async_movable_only = switch()?,
            "leases" => self.leases = switch()?,
            "capture" => self.capture = switch()?,
            "stop_at_floor" => self.stop_at_floor = switch()?,
            "async_budget" => self.async_budget = number(0, u64::MAX)?,
            "extfrag_threshold" => self.extfrag_threshold = number(0, 1000)? as u16,
            "proactiveness" => self.proactiveness = number(0, 100)? as u8,
            "background_hints" => self.background_hints = switch()?,
            "async_same_type" => self.async_same_type = switch()?,
            "spare_wanted" => self.spare_wanted = switch()?,
            "whole_blocks" => self.whole_blocks = switch()?,
            "stride" => self.stride = switch()?,
            "fast_free" => self.fast_free = switch()?,
            "leftovers_listed" => self.leftovers_listed = switch()?,
            "async_resets" => self.async_resets = switch()?,
            "whole_empties_movable" => self.whole_empties_movable = switch()?,
            "spare_next" => self.spare_next = switch()?,
            "attempt_deferred" => self.attempt_deferred = switch()?,
            "large_folios" => self.large_folios = switch()?,
            "marks" => {
                self.marks = match value {
                    "low" => Marks::Low,
                    "min" => Marks::Min,
                    _ => return Err(wrong),
                }
            }
            "hints" => {
                self.hints = match value {
                    "nothing_found" => Hints::NothingFound,
                    "first_frame" => Hints::FirstFrame,
                    "any_frame" => Hints::AnyFrame,
                    _ => return Err(wrong),
                }
            }
            "target_order" => {
                self.target_order = match value {
                    "last_first" => TargetOrder::LastFirst,
                    "smallest_first" => TargetOrder::SmallestFirst,
                    _ => return Err(wrong),
                }
            }
            "fast_source" => {
                self.fast_source = match value {
                    "off" => FastSource::Off,
                    "hinted" => FastSource::Hinted,
                    "found" => FastSource::Found,
                    _ => return Err(wrong),
                }
            }
            "isolated_limit" => {
                self.isolated_limit = match value {
                    "off" => IsolatedLimit::Off,
                    "half" => IsolatedLimit::Half,
                    "sixteenth" => IsolatedLimit::Sixteenth,
                    _ => return Err(wrong),
                }
            }
            "yields" => {
                self.yields = match value {
                    "anywhere" => Yields::Anywhere,
                    "between_zones" => Yields::BetweenZones,
                    _ => return Err(wrong),
                }
            }
            "pivot" => {
                self.pivot = match value {
                    "start" => Pivot::Start,
                    "restarting" => Pivot::Restarting,
                    "forgetting" => Pivot::Forgetting,
                    _ => return Err(wrong),
                }
            }
            "moves" => {
                self.moves = match value {
                    "upwards" => Moves::Upwards,
                    "downwards" => Moves::Downwards,
                    "batch" => Moves::Batch,
                    _ => return Err(wrong),
                }
            }
            _ => {
                self.finish = match value {
                    "off" => Finish::Off,
                    "begun" => Finish::Begun,
                    "failed" => Finish::Failed,
                    _ => return Err(wrong),
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_knob_takes_what_it_says_and_refuses_the_rest() {
        let good = [
            "false",
            "true",
            "direct",
            "4",
            "all",
            "true",
            "true",
            "by_mode",
            "random:500",
            "true",
            "false",
            "true",
            "true",
            "true",
            "4096",
            "0",
            "100",
            "min",
            "any_frame",
            "true",
            "true",
            "true",
            "false",
            "smallest_first",
            "true",
            "true",
            "found",
            "failed",
            "batch",
            "false",
            "false",
            "true",
            "true",
            "sixteenth",
            "between_zones",
            "restarting",
            "false",
            "true",
        ];
        assert_eq!(good.len(), Knobs::NAMES.len());
        for ((name, takes), value) in Knobs::NAMES.into_iter().zip(good) {
            let mut knobs = Knobs::linux_4_6();
            knobs.set(name, value).unwrap();
            assert_ne!(knobs, Knobs::linux_4_6(), "{name}");
            let before = knobs;
            assert_eq!(knobs.set(name, "-1"), Err(KnobError::Takes(takes)), "{name}");
            assert_eq!(knobs, before);
        }
        let mut knobs = Knobs::linux_4_6();
        for (name, value) in [
            ("skip_on_failure_order", "10"),
            ("skip_on_failure_order", "0"),
            ("skip", "random:0"),
            ("skip", "random:1000"),
            ("extfrag_threshold", "1001"),
            ("proactiveness", "101"),
            ("async_budget", "18446744073709551616"),
        ] {
            assert!(knobs.set(name, value).is_err(), "{name}={value}");
        }
        assert_eq!(knobs.set("speed", "1"), Err(KnobError::Unknown));
        assert_eq!(knobs, Knobs::linux_4_6());
    }
}
