//! The settings that are changed, what each is in the reference, and what a trivial rule says of it.

use pageyard_replay::what_if::{Figure, Reclaim, Sign};
use std::collections::BTreeMap;

/// How a setting is changed.
#[derive(Clone, Copy, Debug)]
enum Change {
    /// To a value.
    To(u64),
    /// To so many times what it is.
    Times(u64),
}

/// A setting and its change.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// Its name below `/proc/sys`.
    pub path: &'static str,
    change: Change,
    /// The knob that is the same in the reference; none where the reference does not model it.
    pub knob: Option<&'static str>,
    /// Whether it changes when memory is reclaimed.
    pub reclaims: bool,
    /// Whether requests alone decide its effects, which plain replays predict, or reclaim as well.
    pub decided: Reclaim,
    /// Why a replay cannot answer, where there is no knob.
    why: &'static str,
    /// The changes that the setting's purpose implies.
    rule: &'static [(Figure, Sign)],
}

const fn modelled(
    path: &'static str,
    change: Change,
    knob: &'static str,
    rule: &'static [(Figure, Sign)],
) -> Setting {
    Setting { path, change, knob: Some(knob), reclaims: false, decided: Reclaim::Imitated, why: "", rule }
}

const fn by_requests(
    path: &'static str,
    change: Change,
    knob: &'static str,
    rule: &'static [(Figure, Sign)],
) -> Setting {
    Setting { decided: Reclaim::Recorded, ..modelled(path, change, knob, rule) }
}

const fn reclaims(
    path: &'static str,
    change: Change,
    knob: &'static str,
    rule: &'static [(Figure, Sign)],
) -> Setting {
    Setting { reclaims: true, ..modelled(path, change, knob, rule) }
}

use Change::{Times, To};
use Figure::{Drained, Failures, Fallbacks, FreeHuge, Listed, Stalls, Wakes};
use Sign::{Down, Up};

/// More reserve: fewer failures, stalls and mixed pageblocks, more work for the background.
const MORE_RESERVE: &[(Figure, Sign)] =
    &[(Failures, Down), (Stalls, Down), (Fallbacks, Down), (Wakes, Up), (FreeHuge, Up)];

/// The settings, fixed beforehand.
pub const SETTINGS: [Setting; 9] = [
    by_requests(
        "vm/percpu_pagelist_high_fraction",
        To(8),
        "percpu_pagelist_high_fraction",
        &[(Listed, Up), (Drained, Down), (FreeHuge, Down)],
    ),
    by_requests(
        "vm/percpu_pagelist_high_fraction",
        To(1000),
        "percpu_pagelist_high_fraction",
        &[(Listed, Down), (Drained, Up), (FreeHuge, Up)],
    ),
    reclaims("vm/min_free_kbytes", Times(4), "min_free_kbytes", MORE_RESERVE),
    reclaims("vm/watermark_scale_factor", To(300), "watermark_scale_factor", MORE_RESERVE),
    reclaims(
        "vm/watermark_boost_factor",
        To(0),
        "watermark_boost_factor",
        &[(Wakes, Down), (Fallbacks, Up), (FreeHuge, Down)],
    ),
    modelled(
        "vm/compaction_proactiveness",
        To(100),
        "compaction.proactiveness",
        &[(FreeHuge, Up), (Failures, Down), (Stalls, Down)],
    ),
    modelled(
        "vm/extfrag_threshold",
        To(1000),
        "compaction.extfrag_threshold",
        &[(Stalls, Down), (Failures, Up), (FreeHuge, Down)],
    ),
    Setting {
        path: "net/core/high_order_alloc_disable",
        change: To(1),
        knob: None,
        reclaims: false,
        decided: Reclaim::Recorded,
        why: "it changes what the load asks for, which a recording made without it does not have",
        rule: &[(Failures, Down), (Fallbacks, Down), (Drained, Up)],
    },
    modelled("vm/defrag_mode", To(1), "defrag_mode", &[(Fallbacks, Down), (FreeHuge, Up)]),
];

/// The unchanged settings, by name below `/proc/sys`. A missing one does not exist.
pub type Baseline = BTreeMap<String, String>;

impl Setting {
    /// Returns its name in rows.
    #[must_use]
    pub fn name(&self) -> String {
        let name = self.path.rsplit('/').next().unwrap_or(self.path);
        match self.change {
            To(value) => format!("{name}={value}"),
            Times(times) => format!("{name}*{times}"),
        }
    }

    /// Returns the value that it is given.
    ///
    /// # Errors
    /// When it does not exist, or is no number.
    pub fn value(&self, baseline: &Baseline) -> Result<String, String> {
        let now = baseline.get(self.path).ok_or("this kernel has no such setting")?;
        let number: u64 = now.parse().map_err(|_| format!("`{now}` is no number"))?;
        let value = match self.change {
            To(value) => value,
            Times(times) => number.saturating_mul(times),
        };
        match value == number {
            true => Err(format!("it is {value} already")),
            false => Ok(value.to_string()),
        }
    }

    /// Says why no replay can answer, where none can.
    #[must_use]
    pub fn not_modelled(&self) -> Option<&'static str> {
        self.knob.is_none().then_some(self.why)
    }

    /// Returns what the trivial rule says of a figure: no change where it says nothing.
    #[must_use]
    pub fn rule(&self, figure: Figure) -> Sign {
        self.rule.iter().find(|(of, _)| *of == figure).map_or(Sign::None, |(_, sign)| *sign)
    }

    /// Reads what every setting is below a folder such as `/proc/sys`.
    #[must_use]
    pub fn baseline(root: &std::path::Path) -> Baseline {
        let read = |s: &Setting| {
            Some((s.path.to_owned(), std::fs::read_to_string(root.join(s.path)).ok()?.trim().to_owned()))
        };
        SETTINGS.iter().filter_map(read).collect()
    }
}

/// Returns the knobs with which the reference is like a kernel with these settings, one of them changed.
#[must_use]
pub fn knobs(baseline: &Baseline, changed: Option<(&Setting, &str)>) -> Vec<(String, String)> {
    let mut knobs: BTreeMap<&str, String> = BTreeMap::new();
    for setting in &SETTINGS {
        if let (Some(knob), Some(value)) = (setting.knob, baseline.get(setting.path)) {
            knobs.insert(knob, value.clone());
        }
    }
    if let Some((setting, value)) = changed
        && let Some(knob) = setting.knob
    {
        knobs.insert(knob, value.to_owned());
    }
    knobs.into_iter().map(|(knob, value)| (knob.to_owned(), value)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_that_is_not_there_or_would_not_change_is_said() {
        let baseline: Baseline =
            [("vm/min_free_kbytes", "67584"), ("vm/extfrag_threshold", "1000"), ("vm/defrag_mode", "x")]
                .map(|(k, v)| (k.to_owned(), v.to_owned()))
                .into();
        let value = |name: &str| SETTINGS.iter().find(|s| s.name() == name).unwrap().value(&baseline);
        assert_eq!(value("min_free_kbytes*4"), Ok("270336".into()));
        assert_eq!(value("extfrag_threshold=1000"), Err("it is 1000 already".into()));
        assert_eq!(value("defrag_mode=1"), Err("`x` is no number".into()));
        assert_eq!(value("watermark_boost_factor=0"), Err("this kernel has no such setting".into()));
    }

    #[test]
    fn a_change_is_the_only_knob_that_differs() {
        let baseline: Baseline = SETTINGS.iter().map(|s| (s.path.to_owned(), "7".to_owned())).collect();
        let (before, after) = (knobs(&baseline, None), knobs(&baseline, Some((&SETTINGS[2], "28"))));
        let differ: Vec<_> = before.iter().zip(&after).filter(|(a, b)| a != b).collect();
        assert_eq!(differ.len(), 1);
        assert_eq!(after.len(), 7);
        assert_eq!(differ[0].1, &("min_free_kbytes".to_owned(), "28".to_owned()));
    }
}
