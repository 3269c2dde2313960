//! The host that a trace was recorded on: its zones, and each frame's state when the recording began.
//!
//! * [`Machine::read`] takes zones and kinds of frames from the trace's texts and snapshot;
//! * [`Machine::open`] reads the events once to find what the snapshot cannot say, and returns the opening state.

mod emptied;
mod filler;
mod first_sample;
mod layout;
mod listed;
mod mapping;
mod opening;
mod parts;
mod reclaimed;
mod reclaimers;
mod shrink;
mod types;

pub(crate) use emptied::Emptying;
pub(crate) use mapping::Mapping;
pub use opening::Opening;
pub use parts::{Cached, OpeningCounts};
pub(crate) use reclaimed::Reclaimed;

use crate::bitmap::FrameSet;
use crate::engine::EngineSpec;
use crate::error::ReplayError;
use crate::limits;
use crate::text::{bytes, shown};
use pageyard::{Frames, GfpMap, Migratetype, NodeId, Pfn, Region, ZoneKind};
use pageyard_trace::Trace;
use pageyard_trace::proctext::Zoneinfo;

/// The first kinds of zone end here when a trace does not say: 16 MiB and 4 GiB.
const DEFAULT_ZONES: [(ZoneKind, u64); 3] =
    [(ZoneKind::Dma, 4096), (ZoneKind::Dma32, 1 << 20), (ZoneKind::Normal, u64::MAX)];

/// Bytes that a replay needs for each frame spanned: the reference's metadata, the machine's table and the replay's
/// ledger.
pub(crate) const BYTES_A_FRAME: u64 = 24;

/// Frames whose states are compared at a time.
const ALIKE: usize = 64;

/// The state of a frame when the replay begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(u8)]
pub(crate) enum Start {
    /// Does not exist.
    #[default]
    Hole,
    /// Exists, and the allocator never had it.
    Unmanaged,
    /// On a free list.
    Free,
    /// Held for good.
    Held,
    /// Held and movable: user memory, and page cache that is locked into memory.
    HeldMovable,
    /// The same for page cache that can be given up.
    HeldCache,
    /// In a CPU's list.
    Cached,
}

impl Start {
    /// Returns the migratetype of a held frame, and none for others.
    pub(crate) fn held_as(self) -> Option<Migratetype> {
        match self {
            Start::Held => Some(Migratetype::Unmovable),
            Start::HeldMovable | Start::HeldCache => Some(Migratetype::Movable),
            _ => None,
        }
    }
}

/// A zone as the trace describes it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ZoneRecord {
    pub node: NodeId,
    pub kind: ZoneKind,
    pub start: Pfn,
    pub end: Pfn,
}

/// A recorded host.
#[derive(Clone)]
pub struct Machine {
    trace: Trace,
    /// CPUs: no more than the trace can name, whatever it claims; see [`Machine::open`].
    pub cpus: u32,
    /// Where the recording kernel keeps its gfp flags.
    pub gfp: GfpMap,
    /// `vm.min_free_kbytes` where it was not the default.
    pub min_free_kbytes: Option<u64>,
    /// Whether the trace has a snapshot from which to open; without one all memory is free at the start.
    pub has_snapshot: bool,
    /// Frames that the recorded zones manage and the snapshot does not show, or vice versa.
    pub managed_mismatch: u64,
    /// Whether frames were removed, so that it is no longer the recorded machine.
    pub(crate) made_smaller: bool,
    zones: Vec<ZoneRecord>,
    zoneinfo: Option<Zoneinfo>,
    /// The state of each frame.
    start: Vec<Start>,
    /// Frames that the snapshot has no name for.
    unknown: FrameSet,
    /// Frames of each pageblock that look unmovable: slab, page tables, unknown kernel memory.
    kernel_frames: Vec<parts::KernelFrames>,
}

impl Machine {
    /// Reads the machine from a trace. `progress` is told how many of how many rows have been read, where that is
    /// needed.
    ///
    /// # Errors
    /// [`ReplayError`] where the trace cannot be read, or describes more memory than this host can replay.
    pub fn read(trace: &Trace, progress: &mut dyn FnMut(u64, u64)) -> Result<Machine, ReplayError> {
        let meta = trace.meta();
        let snapshot = trace.before()?;
        let texts = meta.before.as_ref();
        let zoneinfo = texts.map(|t| Zoneinfo::parse(&t.zoneinfo)).transpose()?;
        let end = match (&snapshot, trace.meta().memory_end) {
            (Some(s), _) => s.runs.last().map_or(0, |r| r.pfn + r.frames),
            (None, Some(end)) => end.next_multiple_of(512),
            (None, None) => layout::highest_frame(trace, progress)?,
        };
        check_size(trace, end)?;
        let zones = layout::zones(zoneinfo.as_ref(), Pfn(end));
        let mut machine = Machine {
            trace: trace.clone(),
            cpus: meta.cpus,
            gfp: GfpMap::from_names(meta.gfp_bits.iter().map(|(name, bit)| (name.as_str(), *bit))),
            min_free_kbytes: None,
            has_snapshot: snapshot.is_some(),
            managed_mismatch: 0,
            made_smaller: false,
            start: vec![Start::Hole; end as usize],
            unknown: FrameSet::new(Pfn(end)),
            kernel_frames: vec![Default::default(); (end as usize).div_ceil(512)],
            zones,
            zoneinfo,
        };
        match &snapshot {
            Some(s) => layout::lay_out(&mut machine, s),
            None => machine.start.fill(Start::Free),
        }
        machine.min_free_kbytes = machine.infer_min_free_kbytes();
        Ok(machine)
    }

    /// Returns an engine with the settings that the recorded host had, as far as no knob has set them already.
    pub(crate) fn settings_of(&self, spec: &EngineSpec) -> EngineSpec {
        let spec = spec.with_min_free_kbytes(self.min_free_kbytes);
        let spec = spec.with_host_settings(&self.trace.meta().settings);
        // A smaller machine would have computed others.
        if self.made_smaller { spec } else { spec.with_zone_marks(&self.zone_marks()) }
    }

    /// Returns whether rows name every move of the recorded host.
    pub(crate) fn names_all_moves(&self) -> bool {
        self.trace.meta().moves_by.is_some()
    }

    /// Returns the name of the trace.
    #[must_use]
    pub fn name(&self) -> &str {
        self.trace.name()
    }

    /// Returns the frame after the last one.
    #[must_use]
    pub fn end(&self) -> Pfn {
        Pfn(self.start.len() as u64)
    }

    /// Returns the recorded zones' free frames and marks, if the trace has them.
    #[must_use]
    pub fn zoneinfo(&self) -> Option<&Zoneinfo> {
        self.zoneinfo.as_ref()
    }

    /// Returns the regions of the memory map.
    #[must_use]
    pub fn regions(&self) -> Vec<Region> {
        let mut regions = Vec::new();
        for zone in &self.zones {
            for (start, frames, kind) in self.runs(zone.start, zone.end, |s| match s {
                Start::Hole => None,
                Start::Unmanaged => Some(false),
                Start::Free | Start::Held | Start::HeldMovable | Start::HeldCache | Start::Cached => {
                    Some(true)
                }
            }) {
                if let Some(managed) = kind {
                    regions.push(Region { managed, ..Region::managed(start, frames, zone.node, zone.kind) });
                }
            }
        }
        regions
    }

    /// Iterates over the zones, lowest first: the first frame of each, and the frame after its last.
    pub(crate) fn zones(&self) -> impl Iterator<Item = (Pfn, Pfn)> {
        self.zones.iter().map(|z| (z.start, z.end))
    }

    /// Returns the node of a frame, if it lies in a zone.
    pub(crate) fn node_of(&self, pfn: Pfn) -> Option<NodeId> {
        self.zones.iter().find(|z| (z.start..z.end).contains(&pfn)).map(|z| z.node)
    }

    /// Returns how many frames the allocator manages.
    #[must_use]
    pub fn managed(&self) -> Frames {
        Frames(self.regions().iter().filter(|r| r.managed).map(|r| r.frames.0).sum())
    }

    /// Returns whether all of these frames are in a CPU's list.
    pub(crate) fn is_cached(&self, pfn: Pfn, frames: Frames) -> bool {
        (pfn.0..pfn.0 + frames.0).all(|f| self.at(f) == Start::Cached)
    }

    pub(crate) fn at(&self, pfn: u64) -> Start {
        self.start.get(pfn as usize).copied().unwrap_or_default()
    }

    /// Iterates over the longest runs of frames between `from` and `to` for which `class` says the same.
    pub(crate) fn runs<K: PartialEq + Copy>(
        &self,
        from: Pfn,
        to: Pfn,
        class: impl Fn(Start) -> K,
    ) -> impl Iterator<Item = (Pfn, Frames, K)> {
        let to = to.0.min(self.start.len() as u64);
        let mut at = from.0;
        std::iter::from_fn(move || {
            if at >= to {
                return None;
            }
            let start = at;
            let kind = class(self.start[at as usize]);
            while at < to && class(self.start[at as usize]) == kind {
                at += alike(&self.start[at as usize..to as usize]);
            }
            Some((Pfn(start), Frames(at - start), kind))
        })
    }
}

/// Returns how many frames, from the first on, have the state of the first.
fn alike(states: &[Start]) -> u64 {
    let Some(first) = states.first() else { return 0 };
    // Without an early exit the compiler compares many at a time.
    let are_alike =
        |part: &&[Start]| part.iter().fold(0, |differ, state| differ | (*state as u8 ^ *first as u8)) == 0;
    let whole = ALIKE * states.chunks_exact(ALIKE).take_while(are_alike).count();
    (whole + states[whole..].iter().take_while(|state| *state == first).count()) as u64
}

/// Refuses a machine whose tables would not fit into this host's memory.
fn check_size(trace: &Trace, end: u64) -> Result<(), ReplayError> {
    let fail = |why: String| Err(ReplayError::Machine { trace: shown(trace.name()), why });
    if end == 0 {
        return fail("its memory map has no frame; there is nothing to replay on".to_owned());
    }
    if end >= u64::from(u32::MAX) {
        return fail(format!("its memory map spans {} GiB, more than a replay can number", end >> 18));
    }
    let what = format!("{}: a replay of a memory map of {}", shown(trace.name()), bytes(end << 12));
    limits::check(&what, end.saturating_mul(BYTES_A_FRAME), "raise the limit, or use a larger host")
}
