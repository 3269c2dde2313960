//! How often predictions of what-ifs were right, as the study measured it in a guest of Linux 6.12 under memory
//! pressure: 35 loads under a setting, four figures each. The page of the study has the same numbers in its table by
//! setting.

use super::Sign;

/// By how much replays were better than trivial rules in the newest run of the study, by balanced accuracy: the lower
/// end of its 95 % interval. Above 0, advice of a replay is more than a rule of thumb.
pub const BETTER_THAN_RULES_AT_LEAST: f64 = -0.03;

/// How often predictions about a setting were right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// The knob.
    pub knob: &'static str,
    /// Changes that were predicted and came.
    pub changes: u32,
    /// Figures that were predicted to stay and did.
    pub same: u32,
    /// Changes that came and were not predicted.
    pub missed: u32,
    /// Changes that were predicted and did not come.
    pub false_alarms: u32,
    /// Changes that went the other way.
    pub wrong_way: u32,
}

const fn of(knob: &'static str, counts: [u32; 5]) -> Record {
    let [changes, same, missed, false_alarms, wrong_way] = counts;
    Record { knob, changes, same, missed, false_alarms, wrong_way }
}

/// The study's table. Two rows of one knob, longer and shorter lists, stand as one here for shorter lists alone.
const TABLE: [Record; 6] = [
    of("watermark_scale_factor", [10, 2, 3, 4, 1]),
    of("min_free_kbytes", [6, 6, 3, 3, 2]),
    of("percpu_pagelist_high_fraction", [5, 5, 4, 4, 2]),
    of("watermark_boost_factor", [2, 9, 3, 6, 0]),
    of("compaction.proactiveness", [1, 14, 0, 4, 1]),
    of("compaction.extfrag_threshold", [0, 18, 2, 0, 0]),
];

/// Returns the record of a knob; none for one that the study did not try.
#[must_use]
pub fn record(knob: &str) -> Option<Record> {
    TABLE.into_iter().find(|r| r.knob == knob)
}

impl Record {
    /// Returns of how many predictions with this sign, how many were right.
    #[must_use]
    pub fn right(&self, sign: Sign) -> (u32, u32) {
        match sign {
            Sign::None => (self.same, self.same + self.missed),
            Sign::Down | Sign::Up => (self.changes, self.changes + self.false_alarms + self.wrong_way),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_the_studys() {
        let page =
            std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/studies/what-if.md"))
                .unwrap();
        let rows = [
            ("watermark_scale_factor", "watermark_scale_factor=300"),
            ("min_free_kbytes", "min_free_kbytes*4"),
            ("percpu_pagelist_high_fraction", "percpu_pagelist_high_fraction=1000"),
            ("watermark_boost_factor", "watermark_boost_factor=0"),
            ("compaction.proactiveness", "compaction_proactiveness=100"),
            ("compaction.extfrag_threshold", "extfrag_threshold=1000"),
        ];
        for (knob, setting) in rows {
            let r = record(knob).unwrap();
            let [a, b, c, d, e] = [r.changes, r.same, r.missed, r.false_alarms, r.wrong_way];
            let row = format!("| `{setting}` | {a} | {b} | {c} | {d} | {e} |");
            assert!(page.contains(&row), "{row}");
        }
        assert_eq!(record("watermark_scale_factor").unwrap().right(Sign::Down), (10, 15));
        assert_eq!(record("watermark_scale_factor").unwrap().right(Sign::None), (2, 5));
        assert_eq!(record("defrag_mode"), None);
    }
}
