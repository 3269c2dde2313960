//! The slow path of a replay: what requests can use when memory is short, and what came of it.

use crate::text::count;
use pageyard::{Counter, Stats};
use serde::{Serialize, Serializer};
use std::fmt;
use std::str::FromStr;

/// The slow-path steps that requests may take when memory is short.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct SlowPath {
    /// Page cache can be given up.
    pub reclaim: bool,
    /// Movable frames can be moved.
    pub compaction: bool,
    /// The share of movable frames that are pinned, 0 to 1. No trace records it.
    pub pinned: f64,
}

impl FromStr for SlowPath {
    type Err = String;

    /// Reads the parts, separated by commas: `reclaim`, `compaction`, or `none`.
    fn from_str(text: &str) -> Result<SlowPath, String> {
        let mut slow_path = SlowPath::default();
        for part in text.split(',') {
            match part {
                "reclaim" => slow_path.reclaim = true,
                "compaction" => slow_path.compaction = true,
                "none" if text == "none" => {}
                "none" => return Err(format!("`none` stands alone; `{text}` asks for more")),
                _ => {
                    return Err(format!(
                        "`{part}` is not part of the slow path; use reclaim, compaction or both, or none for neither"
                    ));
                }
            }
        }
        Ok(slow_path)
    }
}

impl fmt::Display for SlowPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match (self.reclaim, self.compaction) {
            (false, false) => "none",
            (true, false) => "reclaim",
            (false, true) => "compaction",
            (true, true) => "reclaim,compaction",
        })
    }
}

/// The results of a replay's owners of frames.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SlowPathTotals {
    /// The steps allowed: `reclaim`, `compaction`, `reclaim,compaction` or `none`.
    #[serde(serialize_with = "as_text")]
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub allowed: SlowPath,
    /// The share of movable frames that are pinned.
    pub pinned_pct: f64,
    /// Refusals of the host after which the thread took smaller blocks instead.
    #[serde(rename = "replaced_on_host")]
    pub replaced: u64,
    /// Of those, the ones granted here; the block was kept as long as those others.
    #[serde(rename = "granted_and_kept")]
    pub kept: u64,
    /// Frames that were therefore not taken.
    #[serde(rename = "frames_not_taken")]
    pub not_taken: u64,
    /// Recorded frees, in frames, of what reclaim had freed here before.
    #[serde(rename = "freed_after_reclaim")]
    pub reclaimed_before: u64,
    /// Frames pinned at the end.
    pub pinned_frames: u64,
}

impl SlowPathTotals {
    pub(super) fn new(allowed: &SlowPath) -> SlowPathTotals {
        SlowPathTotals {
            allowed: *allowed,
            pinned_pct: allowed.pinned * 100.0,
            replaced: 0,
            kept: 0,
            not_taken: 0,
            reclaimed_before: 0,
            pinned_frames: 0,
        }
    }
}

fn as_text<S: Serializer>(allowed: &SlowPath, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(allowed)
}

impl SlowPathTotals {
    /// Says what the slow path did.
    pub(super) fn write_text(&self, stats: &Stats, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let n = |counter| count(stats[counter]);
        writeln!(
            f,
            "  slow path     {}; of {} requests that the host refused and replaced by smaller blocks, {} were granted here and replaced them",
            self.allowed,
            count(self.replaced),
            count(self.kept)
        )?;
        writeln!(
            f,
            "    compaction  {} stalls, {} of them successful; scanned {} frames for migration and {} for free ones, took {} directly; moved {}, failed to move {}",
            n(Counter::CompactStall),
            n(Counter::CompactSuccess),
            n(Counter::CompactMigrateScanned),
            n(Counter::CompactFreeScanned),
            n(Counter::CompactFreeDirectAlloc),
            n(Counter::PgmigrateSuccess),
            n(Counter::PgmigrateFail)
        )?;
        writeln!(
            f,
            "    reclaim     {} requests waited for it and got {} frames; the background got {}; {} of these the host freed later; {} frames pinned ({} % of what is movable, --pinned)",
            n(Counter::Allocstall),
            n(Counter::PgstealDirect),
            n(Counter::PgstealKswapd),
            count(self.reclaimed_before),
            count(self.pinned_frames),
            self.pinned_pct
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_path_is_what_it_is_written_as() {
        for text in ["none", "reclaim", "compaction", "reclaim,compaction"] {
            assert_eq!(text.parse::<SlowPath>().map(|s| s.to_string()), Ok(text.to_owned()));
        }
        assert_eq!("compaction,reclaim".parse::<SlowPath>(), "reclaim,compaction".parse());
        for text in ["", "reclaim,", "swap", "none,reclaim"] {
            assert!(text.parse::<SlowPath>().is_err(), "{text}");
        }
    }
}
