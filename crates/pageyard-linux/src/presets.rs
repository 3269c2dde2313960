//! Presets: the releases that the reference can be. Layer: settings, above `config`.

use crate::config::{Config, HighatomicLimit};
use pageyard_core::knob::{Version, follow};
use pageyard_core::watermark::ReserveRule;

/// A release. What its knobs are is in their tables.
struct Release {
    name: &'static str,
    version: Version,
    leaves_out: &'static str,
}

/// Builds the text of a preset's omissions: those of every preset, and its own.
macro_rules! left_out {
    ($($besides:literal)?) => {
        concat!(
            "Reclaim and compaction run only where a workload supplies what to reclaim and to move; memory cgroups do \
             not exist, and owners of CMA areas take nothing back. Requests do not wait for the background reclaimer \
             (allow_direct_reclaim), which sleeps at once, without its first tenth of a second; \
             should_continue_reclaim is left out. Which frames are on LRU lists (too_many_isolated), whether their lock \
             is held (lru_lock) and when a CPU is wanted (need_resched) compaction knows from their owner alone.",
            $(" ", $besides)?
        )
    };
}

const LINUX_4_6: Release = Release {
    name: "linux-4.6",
    version: Version(4, 6),
    leaves_out: left_out!("There is no fair-zone policy, and a node has a dirty limit where a zone had one."),
};

const LINUX_4_10: Release = Release { name: "linux-4.10", version: Version(4, 10), leaves_out: left_out!() };

const LINUX_5_10: Release = Release {
    name: "linux-5.10",
    version: Version(5, 10),
    leaves_out: left_out!(
        "Its compaction was not compared with the kernel's. The second frame of a compound page of two is taken for a \
         movable one there. Whether a request wakes the background reclaimer once it ignores the watermarks, or after a \
         boosted zone had no block for it, is as in 6.1: no operation showed a difference."
    ),
};

const LINUX_6_1: Release = Release {
    name: "linux-6.1",
    version: Version(6, 1),
    leaves_out: left_out!("It captures a block when it is left."),
};

const LINUX_6_12: Release = Release {
    name: "linux-6.12",
    version: Version(6, 12),
    leaves_out: left_out!(
        "It captures a block when it is left, and splits a large folio for which no target is free where its owner \
         does that."
    ),
};

const LINUX_6_18: Release = Release { name: "linux-6.18", version: Version(6, 18), ..LINUX_6_12 };

const LINUX_7_2: Release = Release {
    name: "linux-7.2",
    version: Version(7, 2),
    leaves_out: left_out!(
        "It captures a block when it is left, and splits a large folio for which no target is free where its owner \
         does that. A cpuset does not bound the zones that should_compact_retry hopes for."
    ),
};

const LINUX_7_3: Release = Release { name: "linux-7.3", version: Version(7, 3), ..LINUX_7_2 };

const RELEASES: &[Release] =
    &[LINUX_4_6, LINUX_4_10, LINUX_5_10, LINUX_6_1, LINUX_6_12, LINUX_6_18, LINUX_7_2, LINUX_7_3];

impl Release {
    /// Makes its configuration: each knob has the value that its table says, and what no knob sets follows here.
    fn config(&self) -> Config {
        let mut config = Config { name: self.name, leaves_out: self.leaves_out, ..Config::defaults() };
        if self.version >= LINUX_6_1.version {
            config.reserve_rule = ReserveRule::MinReserve;
        }
        if self.version >= LINUX_6_12.version {
            config.highatomic_limit = HighatomicLimit::PercentRounded;
        }
        follow(config.fields(), self.version);
        config
    }
}

impl Config {
    /// The names of the releases. What was posted and is in none of them is in [`Posted`](crate::Posted).
    pub const PRESETS: [&'static str; RELEASES.len()] = {
        let mut names = [""; RELEASES.len()];
        let mut at = 0;
        while at < RELEASES.len() {
            names[at] = RELEASES[at].name;
            at += 1;
        }
        names
    };

    /// Returns a release by name, with two CPUs.
    #[must_use]
    pub fn preset(name: &str) -> Option<Config> {
        RELEASES.iter().find(|release| release.name == name).map(Release::config)
    }

    /// Returns which release it is, if its name is that of a preset.
    #[must_use]
    pub fn release(&self) -> Option<Version> {
        RELEASES.iter().find(|release| release.name == self.name).map(|release| release.version)
    }

    /// Linux 4.6.
    #[must_use]
    pub fn linux_4_6() -> Config {
        LINUX_4_6.config()
    }

    /// Linux 4.10.
    #[must_use]
    pub fn linux_4_10() -> Config {
        LINUX_4_10.config()
    }

    /// Linux 5.10, as its long-term branch stood in 5.10.223.
    #[must_use]
    pub fn linux_5_10() -> Config {
        LINUX_5_10.config()
    }

    /// Linux 6.1, as its long-term branch stands (6.1.192).
    #[must_use]
    pub fn linux_6_1() -> Config {
        LINUX_6_1.config()
    }

    /// Linux 6.12, as its long-term branch stands (6.12.117).
    #[must_use]
    pub fn linux_6_12() -> Config {
        LINUX_6_12.config()
    }

    /// Linux 6.18, as its long-term branch stood in 6.18.15. Most of the recordings that ship are of 6.18.44.
    #[must_use]
    pub fn linux_6_18() -> Config {
        LINUX_6_18.config()
    }

    /// Linux 7.2, as its stable branch stood in 7.2.12.
    #[must_use]
    pub fn linux_7_2() -> Config {
        LINUX_7_2.config()
    }

    /// Linux 7.3, as its stable branch stood in 7.3.4.
    #[must_use]
    pub fn linux_7_3() -> Config {
        LINUX_7_3.config()
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
}
