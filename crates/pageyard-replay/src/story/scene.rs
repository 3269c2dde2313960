//! What all lines of a story share: the machine, its opening state, and how its pageblocks are numbered.

use super::frames::FrameMap;
use super::layout::Layout;
use super::line::{Line, Moments};
use super::owners::Owners;
use super::recorded::Recorded;
use crate::error::ReplayError;
use crate::limits;
use crate::replay::Stage;
use pageyard::{GfpMap, MemoryMap, Region};
use pageyard_trace::{Snapshot, Trace};

/// Bytes a frame that following a line takes, besides those of a replay.
const BYTES_A_FRAME: u64 = 10;

/// What all lines of a story share.
pub struct Scene<'a> {
    /// The machine and its opening state.
    pub stage: &'a Stage,
    /// The memory map.
    regions: &'a [Region],
    /// What memory held when the recording began.
    pub snapshot: Option<Snapshot>,
    /// How pageblocks are numbered.
    pub layout: Layout,
    /// Where the recorded kernel keeps its gfp flags.
    pub gfp: GfpMap,
}

impl<'a> Scene<'a> {
    /// Sets it, unless its frames would not fit into memory.
    pub fn new(
        trace: &Trace,
        stage: &'a Stage,
        regions: &'a [Region],
        map: &MemoryMap<'_>,
    ) -> Result<Scene<'a>, ReplayError> {
        let frames = stage.machine.end().0;
        limits::check("the map of every frame", frames * BYTES_A_FRAME, "use a larger host")?;
        let layout = Layout::new(&stage.machine, regions, map);
        Ok(Scene { stage, regions, snapshot: trace.before()?, layout, gfp: stage.machine.gfp })
    }

    /// Returns the frames as the recording began.
    pub fn opening(&self, owners: &mut Owners) -> FrameMap<'_> {
        let Stage { machine, opening, .. } = self.stage;
        let mut frames = FrameMap::new(&self.layout, self.regions, opening, owners);
        if let Some(snapshot) = &self.snapshot {
            frames.open(snapshot, machine, owners);
        }
        frames
    }

    /// Begins to follow the recording itself.
    pub fn recorded<'s, 'o>(&'s self, owners: &'o mut Owners, moments: Moments) -> Recorded<'s, 'o> {
        let frames = self.opening(owners);
        let counters = Recorded::counted(&frames, Default::default());
        let line = Line::begin(&self.layout, frames, moments, counters);
        Recorded::begin(line, owners, &self.gfp)
    }
}
