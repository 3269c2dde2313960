//! Presets that are no release: patches that were posted and not merged, or merged and taken back. Layer: settings,
//! above `knobs`.

use crate::config::Config;

/// A patch on a release, as knobs.
pub struct Posted {
    /// Its name: `posted:` and the id of the message, or `commit:` and the commit.
    pub name: &'static str,
    /// Its effect and its fate.
    pub about: &'static str,
    /// The release that it is made of.
    base: &'static str,
    /// The knobs it changes, and those it needs below it.
    knobs: &'static [(&'static str, &'static str)],
}

impl Posted {
    /// All of them. The ids are those of the messages in the archive of linux-mm.
    pub const ALL: [Posted; 2] = [
        Posted {
            name: "posted:1459414236-9219-5-git-send-email-vbabka@suse.cz",
            about: "4.6 with patches 2 to 4 of \"reduce latency of direct async compaction\" (V. Babka, March 2016): asynchronous direct \
                    compaction takes its targets from the free lists. Patches 2 and 3 are in 4.7, patch 4 was not merged",
            base: "linux-4.6",
            knobs: &[
                ("compaction.last_migrated_drain", "true"),
                ("compaction.skip_on_failure", "direct_async"),
                ("compaction.direct_free", "direct_async"),
            ],
        },
        Posted {
            name: "commit:374ad05ab64d",
            about: "4.10 with \"mm, page_alloc: only use per-cpu allocator for irq-safe requests\" (M. Gorman, February 2017), which was \
                    reverted before 4.11 was released",
            base: "linux-4.10",
            knobs: &[("pcp_protection", "preempt_only")],
        },
    ];

    /// Returns its configuration.
    ///
    /// # Panics
    /// Never: a test makes each of them.
    #[must_use]
    pub fn config(&self) -> Config {
        let mut config = Config::preset(self.base).expect("it is made of a release");
        for (knob, value) in self.knobs {
            config.set(knob, value).expect("its knobs can be set");
        }
        Config { name: self.name, ..config }
    }
}

impl Config {
    /// Returns a release or a [`Posted`] patch by name, with two CPUs.
    #[must_use]
    pub fn named(name: &str) -> Option<Config> {
        Config::preset(name).or_else(|| Posted::ALL.iter().find(|p| p.name == name).map(Posted::config))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_posted_patch_differs_from_its_release_and_from_no_other() {
        for posted in Posted::ALL {
            let config = Config::named(posted.name).unwrap();
            assert_eq!(config.name, posted.name);
            let release = Config::preset(posted.base).unwrap();
            assert_ne!(Config { name: release.name, ..config.clone() }, release, "{}", posted.name);
            assert!(!Config::PRESETS.contains(&posted.name) && !posted.about.is_empty());
        }
    }

    #[test]
    fn no_release_has_what_was_not_merged() {
        for preset in Config::PRESETS {
            let config = Config::preset(preset).unwrap();
            for posted in Posted::ALL {
                let mut with = config.clone();
                let (knob, value) = *posted.knobs.last().unwrap();
                with.set(knob, value).unwrap();
                assert_ne!(with, config, "{preset} has {}", posted.name);
            }
        }
    }
}
