//! The scene that all lines of a story share: the machine, its opening state, and how its pageblocks are numbered.

use super::frames::FrameMap;
use super::layout::{Layout, Numbered};
use super::line::Line;
use super::moments::Moments;
use super::owners::{Owners, RecordingIndex};
use super::recorded::Recorded;
use crate::error::ReplayError;
use crate::limits;
use crate::machine;
use crate::replay::Stage;
use pageyard::{GfpMap, MemoryMap, Region};
use pageyard_trace::{Snapshot, Trace};

/// Bytes a frame that following a line takes.
const BYTES_A_LINE: u64 = 10;

/// Bytes a frame of the keyframes that are being made, packed and kept to be filled again.
const BYTES_OF_KEYFRAMES: u64 = 6;

/// The lines of a story that are told, which decide its memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lines {
    /// The end of the host's own line.
    End,
    /// The host's own line.
    Host,
    /// That beside the first engine's, and then others'.
    HostAndEngines,
}

impl Lines {
    const fn bytes_a_frame(self) -> u64 {
        match self {
            Lines::End => BYTES_A_LINE,
            Lines::Host => BYTES_A_LINE + BYTES_OF_KEYFRAMES,
            Lines::HostAndEngines => 2 * BYTES_A_LINE + BYTES_OF_KEYFRAMES + machine::BYTES_A_FRAME,
        }
    }
}

/// The scene that all lines of a story share.
pub struct Scene<'a> {
    /// The machine and its opening state.
    pub stage: &'a Stage,
    /// The memory map.
    regions: &'a [Region],
    /// The content of memory when the recording began.
    pub snapshot: Option<Snapshot>,
    /// How pageblocks are numbered.
    pub layout: Layout,
    /// Where the recorded kernel keeps its gfp flags.
    pub gfp: GfpMap,
    /// The recording, of those that the story tells.
    pub of: RecordingIndex,
}

impl<'a> Scene<'a> {
    /// Sets it, unless its frames would not fit into memory.
    pub fn new(
        trace: &Trace,
        stage: &'a Stage,
        regions: &'a [Region],
        map: &MemoryMap<'_>,
        told: Lines,
    ) -> Result<Scene<'a>, ReplayError> {
        let layout = Layout::new(Numbered { machine: &stage.machine, regions, map });
        Scene::within(trace, stage, regions, layout, told, RecordingIndex::default())
    }

    /// Sets that of one recording of several, whose pageblocks have the same numbers.
    pub fn within(
        trace: &Trace,
        stage: &'a Stage,
        regions: &'a [Region],
        layout: Layout,
        told: Lines,
        of: RecordingIndex,
    ) -> Result<Scene<'a>, ReplayError> {
        let need = layout.end.saturating_mul(told.bytes_a_frame());
        limits::check("the story of every frame", need, "use a larger host")?;
        Ok(Scene { stage, regions, snapshot: trace.before()?, layout, gfp: stage.machine.gfp, of })
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

    /// Begins the recording's own line.
    pub fn recorded<'s>(&'s self, owners: &mut Owners, moments: Moments) -> (Line<'s>, Recorded<'s>) {
        let frames = self.opening(owners);
        let recorded = Recorded::new(&self.gfp, self.of);
        let counters = recorded.counters(&frames);
        (Line::begin(&self.layout, frames, moments, counters), recorded)
    }
}
