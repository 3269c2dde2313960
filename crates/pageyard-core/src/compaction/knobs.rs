//! The knobs of compaction. Each works alone.

use crate::units::{Order, PAGEBLOCK_ORDER};
use core::fmt;

/// In which compactions a technique is used.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Scope {
    /// In none.
    Off,
    /// In direct asynchronous ones: what document 002 proposes.
    DirectAsync,
    /// In all direct ones.
    Direct,
    /// In the background as well.
    All,
}

/// How the memory of failures is kept.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Deferral {
    /// Not at all: every request compacts.
    Off,
    /// One for all modes: a synchronous failure holds asynchronous compaction back as well.
    Shared,
    /// One for each mode, and asynchronous failures count too.
    ByMode,
}

/// What makes a scanner pass a pageblock over.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Skip {
    /// A hint that an earlier scan left.
    Hints,
    /// Nothing.
    Nothing,
    /// Chance: this many of a thousand pageblocks, different ones in each compaction.
    Random(u16),
}

/// The knobs, as `compaction.NAME`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Knobs {
    /// Whether requests and the background compact at all.
    pub enabled: bool,
    /// Whether the CPU's lists are emptied only after the block of the lowest frame *really isolated* was left, rather
    /// than of the first one scanned. Document 002, patch 2.
    pub last_migrated_drain: bool,
    /// Where the rest of a block of the wanted order is passed over once a frame of it cannot be isolated.
    /// Document 002, patch 3.
    pub skip_on_failure: Scope,
    /// The largest block that the background passes over that way.
    pub skip_on_failure_order: Order,
    /// Where free frames come straight from the zone's lists. Document 002, patch 4.
    pub direct_free: Scope,
    /// Whether free frames that are left after a failed migration are given back at once. A reviewer's question about patch 4.
    pub release_leftovers: bool,
    /// Whether the migrate scanner goes on past the free scanner where free frames come directly. What the author of
    /// patch 4 meant.
    pub migrate_ignores_free_scanner: bool,
    /// How failures are remembered.
    pub deferral: Deferral,
    /// What makes a scanner pass a pageblock over.
    pub skip: Skip,
    /// Whether a synchronous compaction looks at everything: every pageblock of every type, from the zone's ends.
    pub thorough: bool,
    /// Whether asynchronous compaction empties pageblocks of the movable type only.
    pub async_movable_only: bool,
    /// Whether two compactors keep out of each other's pageblocks. Conflicts are counted either way.
    pub leases: bool,
    /// Whether a request takes the block that was made for it before others can.
    pub capture: bool,
    /// Whether the free scanner stops when the zone is at its floor, instead of scanning on (4.8 and later).
    pub stop_at_floor: bool,
    /// Frames that an asynchronous compaction may examine before it counts as contended; 0 for no limit.
    pub async_budget: u64,
    /// `vm.extfrag_threshold`: at or below this index, in thousandths, memory is short rather than fragmented.
    pub extfrag_threshold: u16,
    /// `vm.compaction_proactiveness`: 0 never compacts ahead of need, 100 does most.
    pub proactiveness: u8,
}

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
    /// Linux 4.6 as document 002's patch 2 found it.
    #[must_use]
    pub const fn linux_4_6() -> Knobs {
        Knobs {
            enabled: true,
            last_migrated_drain: false,
            skip_on_failure: Scope::Off,
            skip_on_failure_order: PAGEBLOCK_ORDER,
            direct_free: Scope::Off,
            release_leftovers: false,
            migrate_ignores_free_scanner: false,
            deferral: Deferral::Shared,
            skip: Skip::Hints,
            thorough: false,
            async_movable_only: true,
            leases: false,
            capture: false,
            stop_at_floor: false,
            async_budget: 0,
            extfrag_threshold: 500,
            proactiveness: 0,
        }
    }

    /// Linux 4.10: document 002's patches 2 and 3 are in.
    #[must_use]
    pub const fn linux_4_10() -> Knobs {
        Knobs {
            last_migrated_drain: true,
            skip_on_failure: Scope::DirectAsync,
            stop_at_floor: true,
            ..Knobs::linux_4_6()
        }
    }

    /// Linux 6.1: blocks are captured, and compaction runs ahead of need.
    #[must_use]
    pub const fn linux_6_1() -> Knobs {
        Knobs { capture: true, proactiveness: 20, ..Knobs::linux_4_10() }
    }

    /// The engine's own: it chooses what to empty, and where to move it, by what it knows of its pageblocks.
    #[must_use]
    pub const fn engine() -> Knobs {
        Knobs {
            direct_free: Scope::All,
            leases: true,
            deferral: Deferral::ByMode,
            extfrag_threshold: 0,
            proactiveness: 0,
            ..Knobs::linux_6_1()
        }
    }

    /// The names, each with the values it takes.
    pub const NAMES: [(&'static str, &'static str); 17] = [
        ("enabled", "true or false"),
        ("last_migrated_drain", "true or false"),
        ("skip_on_failure", "off, direct_async, direct or all"),
        ("skip_on_failure_order", "1 to 9"),
        ("direct_free", "off, direct_async, direct or all"),
        ("release_leftovers", "true or false"),
        ("migrate_ignores_free_scanner", "true or false"),
        ("deferral", "off, shared or by_mode"),
        ("skip", "hints, nothing, or random:N with N of a thousand pageblocks, 1 to 999"),
        ("thorough", "true or false"),
        ("async_movable_only", "true or false"),
        ("leases", "true or false"),
        ("capture", "true or false"),
        ("stop_at_floor", "true or false"),
        ("async_budget", "frames, 0 for no limit"),
        ("extfrag_threshold", "0 to 1000"),
        ("proactiveness", "0 to 100"),
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
            _ => self.proactiveness = number(0, 100)? as u8,
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
        ];
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
