//! The series: what was posted, by whom, and what it says that it does.

use pageyard::knob::{Field, Version};
use pageyard_linux::Config;
use pageyard_replay::what_if::{Figure, Reclaim, Sign};

/// A posted series that can be predicted and measured.
pub struct Series {
    /// Its name.
    pub name: &'static str,
    /// Its subject.
    pub about: &'static str,
    /// Its patches, in the order of their posting.
    pub patches: &'static [Patch],
}

/// A patch, or a version of one.
pub struct Patch {
    /// Its subject.
    pub subject: &'static str,
    /// Who posted it and when, and what became of it.
    pub posted: &'static str,
    /// The kernel without it that loads are recorded on.
    pub recorded: &'static str,
    /// The kernel without it that it is measured against.
    pub before: &'static str,
    /// The kernel with it. Between releases, others of its changes are measured along with it.
    pub after: &'static str,
    /// The release whose rules a replay begins with.
    pub release: Version,
    /// The rule that it changes, and the value it gives it.
    pub rule: (&'static str, &'static str),
    /// What it says that it does.
    pub claims: &'static [Claim],
}

/// A claim of a patch.
pub struct Claim {
    /// The claim, with its size where the posting has one.
    pub says: &'static str,
    /// The figure that shows it.
    pub figure: Figure,
    /// The change that it implies.
    pub sign: Sign,
    /// What decides it, and so the kind of replay that predicts it.
    pub decided: Reclaim,
}

const fn claim(figure: Figure, sign: Sign, decided: Reclaim, says: &'static str) -> Claim {
    Claim { says, figure, sign, decided }
}

use Figure::{Compacted, EightRefused, Failures, Fallbacks, HugeRefused, Scanned, SetAside, Wakes};
use Reclaim::{Imitated, Recorded};
use Sign::{Down, None as Same, Up};

/// Every series.
pub const ALL: [Series; 1] = [Series {
    name: "highatomic",
    about: "the reserve for atomic requests, from Linux 7.0 to 7.3",
    patches: &[
        Patch {
            subject: "mm/page_alloc: don't increase highatomic reserve after pcp alloc",
            posted: "Frank van der Linden, 20 March 2026; merged in 7.1",
            recorded: "7.0",
            before: "7.0",
            after: "7.1",
            release: Version(7, 0),
            rule: ("highatomic_growth", "unlisted"),
            claims: &[
                claim(
                    SetAside,
                    Down,
                    Recorded,
                    "each request that a per-CPU list serves sets a pageblock aside, up to 1 % of the zone",
                ),
                claim(Failures, Same, Recorded, "such a request needs no larger reserve"),
                claim(Wakes, Down, Imitated, "the reserve sends others to reclaim too soon"),
                claim(Scanned, Down, Imitated, "the reserve sends others to reclaim too soon"),
            ],
        },
        Patch {
            subject: "mm/page_alloc: skip high atomic reservation at or below costly order",
            posted: "JP Kobryn, 18 May 2026; not merged",
            recorded: "7.2",
            before: "7.2+none",
            after: "7.2+skip",
            release: Version(7, 2),
            rule: ("highatomic_growth", "costly"),
            claims: &[
                claim(SetAside, Down, Recorded, "309 to 312 pageblocks on hosts of 64 GB, then 1"),
                claim(HugeRefused, Down, Imitated, "1 to 6 % of huge pages given, then 44 to 78 %"),
                claim(Compacted, Up, Imitated, "0 to 2 % of compactions succeed, then 24 % or more"),
                claim(Scanned, Down, Imitated, "70.2 million frames a minute on 60 hosts, then 29.9"),
            ],
        },
        Patch {
            subject: "mm/page_alloc: use existing highatomic reserves on the buddy fastpath",
            posted: "JP Kobryn, v3, 22 June 2026; merged in 7.3",
            recorded: "7.2",
            before: "7.2",
            after: "7.3",
            release: Version(7, 2),
            rule: ("highatomic_first", "true"),
            claims: &[
                claim(SetAside, Same, Recorded, "the reserve did not grow"),
                claim(Fallbacks, Down, Recorded, "requests fell back to other types beside a free reserve"),
                claim(Failures, Same, Recorded, "no request failed"),
                claim(EightRefused, Same, Recorded, "fragments of packets found their blocks of 8 frames"),
            ],
        },
    ],
}];

/// The preset that has the rules of every kernel here nearest to it.
pub(super) const PRESET: &str = "linux-7.2";

impl Series {
    /// Finds a series.
    #[must_use]
    pub fn find(name: &str) -> Option<&'static Series> {
        ALL.iter().find(|series| series.name == name)
    }

    /// Returns the kernels that it is recorded and measured on, each once.
    #[must_use]
    pub fn kernels(&self) -> Vec<&'static str> {
        let mut kernels: Vec<&str> =
            self.patches.iter().flat_map(|p| [p.recorded, p.before, p.after]).collect();
        kernels.sort_unstable();
        kernels.dedup();
        kernels
    }

    /// Returns the kernels that loads are recorded on, each once.
    #[must_use]
    pub fn recorded(&self) -> Vec<&'static str> {
        let mut kernels: Vec<&str> = self.patches.iter().map(|p| p.recorded).collect();
        kernels.dedup();
        kernels
    }
}

impl Patch {
    /// Returns whether it is in no release: its kernels are built from sources, without it and with it.
    #[must_use]
    pub fn is_unmerged(&self) -> bool {
        self.after.contains('+')
    }

    /// Returns the rules without it, as knobs on [`PRESET`]: those that its release has otherwise.
    #[must_use]
    pub fn without(&self) -> Vec<(String, String)> {
        let mut config = Config::linux_7_2();
        let preset = config.release().unwrap_or(self.release);
        let differs = |field: Field<'_>| {
            let [here, there] = [self.release, preset].map(|release| field.knob.value_in(release));
            here.filter(|_| here != there).map(|value| (field.knob.name.to_owned(), value.to_owned()))
        };
        config.fields().filter_map(differs).collect()
    }

    /// Returns the rules with it.
    #[must_use]
    pub fn with(&self) -> Vec<(String, String)> {
        let (knob, value) = self.rule;
        let mut knobs = self.without();
        knobs.retain(|(name, _)| name != knob);
        knobs.push((knob.to_owned(), value.to_owned()));
        knobs
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_patch_changes_one_rule_of_its_release() {
        for patch in ALL.iter().flat_map(|series| series.patches) {
            let config = |knobs: Vec<(String, String)>| {
                let mut config = Config::linux_7_2();
                knobs.iter().for_each(|(knob, value)| config.set(knob, value).unwrap());
                config
            };
            let mut before = config(patch.without());
            let (knob, value) = patch.rule;
            assert_ne!(before, config(patch.with()), "{}", patch.subject);
            before.set(knob, value).unwrap();
            assert_eq!(before, config(patch.with()), "{}", patch.subject);
        }
        let first = &ALL[0].patches[0];
        assert!(
            first.without().contains(&("highatomic_growth".into(), "served".into())),
            "{:?}",
            first.without()
        );
        assert_eq!(ALL[0].patches[1].without(), []);
        assert_eq!(Config::linux_7_2().name, PRESET);
    }

    #[test]
    fn a_series_has_a_dozen_claims_and_names_its_kernels_once() {
        let series = Series::find("highatomic").unwrap();
        assert_eq!(series.patches.iter().map(|p| p.claims.len()).sum::<usize>(), 12);
        assert_eq!(series.kernels(), ["7.0", "7.1", "7.2", "7.2+none", "7.2+skip", "7.3"]);
        assert_eq!(series.recorded(), ["7.0", "7.2"]);
        let unmerged: Vec<&Patch> = series.patches.iter().filter(|p| p.is_unmerged()).collect();
        assert_eq!(unmerged.iter().map(|p| p.after).collect::<Vec<_>>(), ["7.2+skip"]);
        assert!(unmerged.iter().all(|p| p.posted.contains("not merged")));
        assert!(Series::find("none").is_none());
    }
}
