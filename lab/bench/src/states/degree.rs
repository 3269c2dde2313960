//! How fragmented memory is: as asked for, and as measured.

use crate::error::BenchError;
use pageyard::PAGEBLOCK_ORDER;
use pageyard_trace::proctext::Buddyinfo;
use pageyard_trace::{FrameKind, Pageblocks, Snapshot, Spoiler, ZoneFragmentation};
use serde::Serialize;

/// How far a figure of a state may be from what was asked for, as a share of that.
pub const MOST_OFF: f64 = 0.05;

/// The figures that a state is asked to have, each a share from 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Degree {
    /// Free frames, of all frames.
    pub free_share: f64,
    /// The unusable free-space index of order 9: the share of free memory that no request for a huge page can use.
    pub unusable_index: f64,
    /// Pageblocks with frames that cannot be moved, of all pageblocks: kernel memory, and memory that is pinned or
    /// locked.
    pub unmovable_pageblock_share: f64,
}

impl Degree {
    /// Returns how far another degree is from this one: the figure that differs most, as a share of this one's.
    #[must_use]
    pub fn off(&self, other: &Degree) -> f64 {
        let figures = |d: &Degree| [d.free_share, d.unusable_index, d.unmovable_pageblock_share];
        let pairs = figures(self).into_iter().zip(figures(other));
        pairs.map(|(asked, got)| ((got - asked) / asked).abs()).fold(0.0, f64::max)
    }
}

/// The figures that memory has.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Measured {
    /// Those that a state is asked to have.
    #[serde(flatten)]
    pub degree: Degree,
    /// The unusable free-space index by order, order 0 first.
    pub unusable_index_by_order: Vec<f64>,
    /// Pageblocks.
    pub pageblocks: u64,
    /// Frames that cannot be moved.
    pub unmovable_frames: u64,
}

impl Measured {
    /// Measures memory by a snapshot of it, and by the text of `/proc/buddyinfo` of an allocator that is in that state.
    ///
    /// # Errors
    /// [`BenchError::Trace`] for a text that is none, [`BenchError::State`] where the text has not one zone.
    pub fn of(snapshot: &Snapshot, buddyinfo: &str) -> Result<Measured, BenchError> {
        let pageblocks = Pageblocks::of(snapshot);
        let movable = [Spoiler::Free, Spoiler::Movable].map(|spoiler| pageblocks.count(spoiler));
        let all = pageblocks.total();
        let runs = || snapshot.runs.iter();
        let frames: u64 = runs().map(|run| run.frames).sum();
        let moves = |kind| matches!(kind, FrameKind::Free | FrameKind::Anon | FrameKind::File);
        let unmovable = runs().filter(|run| run.unevictable || !moves(run.kind)).map(|run| run.frames).sum();
        let share = (all - movable.iter().sum::<u64>()) as f64 / all.max(1) as f64;
        Measured::from_free_blocks(buddyinfo, frames, share, all, unmovable)
    }

    /// Measures an allocator by its text of `/proc/buddyinfo`, where it is known how many frames it has and in which
    /// share of its pageblocks some cannot be moved.
    pub(super) fn from_free_blocks(
        buddyinfo: &str,
        frames: u64,
        unmovable_pageblock_share: f64,
        pageblocks: u64,
        unmovable_frames: u64,
    ) -> Result<Measured, BenchError> {
        let zones = ZoneFragmentation::all(&Buddyinfo::parse(buddyinfo)?);
        let [zone] = &zones[..] else {
            let why = format!("the allocator has {} zones, and a state has one", zones.len());
            return Err(BenchError::State { why });
        };
        let degree = Degree {
            free_share: zone.free_frames as f64 / frames.max(1) as f64,
            // Where nothing is free no request is served, as Linux counts.
            unusable_index: zone.unusable_index.get(PAGEBLOCK_ORDER.index()).copied().unwrap_or(1.0),
            unmovable_pageblock_share,
        };
        let unusable_index_by_order = zone.unusable_index.clone();
        Ok(Measured { degree, unusable_index_by_order, pageblocks, unmovable_frames })
    }
}
