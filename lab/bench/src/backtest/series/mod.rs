//! The series: what was posted, by whom, and what it says that it does. Each has a file of its own.

mod balance;
mod batched_returns;
mod boost_atomic;
mod defrag_fixes;
mod defrag_mode;
mod highatomic;
mod hygiene;
mod list_sizes;
mod pcp_buddy;
mod posting;

pub(super) use posting::{Case, load};
pub use posting::{Claim, Patch, Series, Side};

/// Every series, in the order of their posting.
pub const ALL: [Series; 9] = [
    list_sizes::SERIES,
    hygiene::SERIES,
    defrag_mode::SERIES,
    batched_returns::SERIES,
    boost_atomic::SERIES,
    highatomic::SERIES,
    pcp_buddy::SERIES,
    balance::SERIES,
    defrag_fixes::SERIES,
];

impl Series {
    /// Finds a series.
    #[must_use]
    pub fn find(name: &str) -> Option<&'static Series> {
        ALL.iter().find(|series| series.name == name)
    }
}

#[cfg(test)]
mod tests {
    use super::posting::on;
    use super::*;
    use pageyard_linux::Config;
    use std::collections::BTreeSet;

    #[test]
    fn a_patch_changes_its_rules_and_no_others() {
        for patch in ALL.iter().flat_map(|series| series.patches) {
            let config = |knobs: Vec<(String, String)>| {
                let mut config = Config::preset(patch.preset()).unwrap();
                knobs.iter().for_each(|(knob, value)| config.set(knob, value).unwrap());
                config
            };
            let mut before = config(patch.without());
            for (knob, value) in patch.rules {
                let unchanged = before.clone();
                before.set(knob, value).unwrap();
                assert_ne!(before, unchanged, "{}: {knob}", patch.subject);
            }
            assert_eq!(before, config(patch.with()), "{}", patch.subject);
        }
        let [first, second, ..] = Series::find("highatomic").unwrap().patches else { unreachable!() };
        let growth = ("highatomic_growth".into(), "served".into());
        assert!(first.without().contains(&growth), "{:?}", first.without());
        assert_eq!((second.without(), second.preset()), (Vec::new(), "linux-7.2"));
        assert_eq!(Series::find("hygiene").unwrap().patches[0].preset(), "linux-6.1");
    }

    #[test]
    fn series_name_loads_that_there_are_and_patches_that_can_be_told_apart() {
        let mut subjects = BTreeSet::new();
        for patch in ALL.iter().flat_map(|series| series.patches) {
            assert!(load(patch.load).is_some_and(|load| load.is_run(true)), "{}", patch.load);
            assert!(subjects.insert(patch.subject), "{}", patch.subject);
            assert_eq!(patch.is_unmerged(), patch.posted.contains("not merged"), "{}", patch.subject);
        }
        assert!(Series::find("none").is_none());
    }

    #[test]
    fn a_series_names_its_kernels_and_what_runs_on_them_once() {
        let series = Series::find("highatomic").unwrap();
        assert_eq!(series.patches.iter().map(|p| p.claims.len()).sum::<usize>(), 12);
        assert_eq!(series.kernels(), ["7.0", "7.1", "7.2", "7.2+none", "7.2+skip", "7.3"]);
        assert_eq!(series.recorded(), BTreeSet::from([(on("7.0"), "reserve"), (on("7.2"), "reserve")]));
        let series = Series::find("defrag-mode").unwrap();
        assert_eq!(series.kernels(), ["6.18"]);
        let names: Vec<String> = series.measured().iter().map(|(side, _)| side.to_string()).collect();
        assert_eq!(names, ["6.18", "6.18 defrag_mode=1"]);
    }
}
