//! What a snapshot of a guest's memory costs: what has to be kept, and what telling of free memory saves.

use std::fmt;

use serde::Serialize;

use super::chunks::Chunks;
use crate::document::Document;
use crate::proctext::Buddyinfo;
use crate::snapshot::{FrameKind, Snapshot};
use crate::text::{Grid, grouped, percent, size};
use crate::trust::Trust;

/// The sizes of chunks, in frames: 4 KiB, 2 MiB, 4 MiB.
pub const CHUNKS: [u64; 3] = [1, 512, 1024];

/// Free memory in blocks of an order or more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Reporting {
    /// The smallest order that is reported.
    pub order: u8,
    /// Blocks that would be reported.
    pub blocks: u64,
    /// Frames in them, which the hypervisor can take back.
    pub frames: u64,
}

/// Memory in chunks of one size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ChunksDocument {
    /// Bytes of a chunk.
    pub bytes: u64,
    /// Chunks that have memory.
    pub chunks: u64,
    /// Those with a live frame: one that is neither free nor taken out of use.
    pub live: u64,
    /// Of those, with one live frame alone.
    pub kept_by_one: u64,
    /// Of those, with live frames in an eighth of it at most.
    pub kept_by_few: u64,
    /// Those without a live frame, but with a free one that is not zero; left out where that is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unclean: Option<u64>,
    /// Frames of the chunks that are kept.
    pub kept_frames: u64,
    /// Chunks with a frame that is not zero, live or free: those that are kept where zeros are looked for and nothing
    /// is known of free memory; left out where that is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_zero: Option<u64>,
}

/// How many chunks of one size were written to, interval by interval: the mean.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DirtiedDocument {
    /// Bytes of a chunk.
    pub bytes: u64,
    /// Chunks in which a frame was allocated.
    pub by_allocations: f64,
    /// Chunks that only compaction wrote to, or another mover: a frame was moved there, and none allocated.
    pub by_moves: f64,
    /// Chunks that were written to at least once, of the whole recording.
    pub in_all: u64,
}

/// The cost of a snapshot of a host's memory.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SnapshotCost {
    /// How far it can be trusted; left out of a host's own, which stands on no recording.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trust: Option<Trust>,
    /// Frames that hold something: neither free nor taken out of use.
    pub live_frames: u64,
    /// Free frames.
    pub free_frames: u64,
    /// Of those, the ones that are not zero; left out where that is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unclean_frames: Option<u64>,
    /// Memory in chunks of each size.
    pub chunks: Vec<ChunksDocument>,
    /// What free page reporting returns, by the smallest order that is reported.
    pub reporting: Vec<Reporting>,
    /// The length of an interval in seconds; left out where nothing was recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interval_s: Option<f64>,
    /// What each interval dirtied; empty where nothing was recorded.
    pub dirtied: Vec<DirtiedDocument>,
    /// What is not known, and why.
    pub not_known: Vec<String>,
}

impl Document for SnapshotCost {
    const SCHEMA: &'static str = "pageyard.snapshot-cost/1";
}

impl SnapshotCost {
    /// Examines a snapshot; `filled` are all frames that are not zero, ascending, where that is known.
    #[must_use]
    pub fn of(snapshot: &Snapshot, buddyinfo: &Buddyinfo, filled: Option<&[u64]>) -> SnapshotCost {
        let is_zero = |pfn: u64| filled.is_none_or(|filled| filled.binary_search(&pfn).is_err());
        let gone = [FrameKind::None, FrameKind::Offline, FrameKind::Free];
        let kinds = FrameKind::ALL.into_iter().filter(|kind| !gone.contains(kind));
        let chunks = CHUNKS.map(|frames| {
            let chunks = Chunks::of(snapshot, frames, is_zero);
            ChunksDocument {
                bytes: frames * pageyard::PAGE_SIZE,
                chunks: chunks.all,
                live: chunks.live,
                kept_by_one: chunks.kept_by_one,
                kept_by_few: chunks.kept_by_few,
                unclean: filled.map(|_| chunks.unclean),
                kept_frames: chunks.kept_frames(),
                not_zero: filled
                    .map(|filled| filled.chunk_by(|a, b| a / frames == b / frames).count() as u64),
            }
        });
        SnapshotCost {
            trust: None,
            live_frames: kinds.map(|kind| snapshot.frames(kind)).sum(),
            free_frames: snapshot.frames(FrameKind::Free),
            unclean_frames: chunks[0].unclean,
            chunks: chunks.to_vec(),
            reporting: reporting(buddyinfo),
            interval_s: None,
            dirtied: Vec::new(),
            not_known: Vec::new(),
        }
    }
}

/// Adds up free blocks from each order on.
fn reporting(buddyinfo: &Buddyinfo) -> Vec<Reporting> {
    let orders = buddyinfo.zones.iter().map(|zone| zone.counts.len()).max().unwrap_or(0).min(64);
    let blocks = |order: usize| buddyinfo.zones.iter().filter_map(|z| z.counts.get(order)).sum::<u64>();
    let mut from: Vec<Reporting> = Vec::new();
    for order in (0..orders).rev() {
        let above = from.last().map_or((0, 0), |r| (r.blocks, r.frames));
        let frames = blocks(order).saturating_mul(1 << order);
        from.push(Reporting {
            order: order as u8,
            blocks: above.0 + blocks(order),
            frames: above.1 + frames,
        });
    }
    from.reverse();
    from
}

impl fmt::Display for SnapshotCost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(trust) = &self.trust {
            write!(f, "{trust}")?;
        }
        write!(f, "{} hold something, {} are free", size(self.live_frames), size(self.free_frames))?;
        match self.unclean_frames {
            None => writeln!(f, ".")?,
            Some(n) => {
                let share = percent(n as f64 / self.free_frames.max(1) as f64);
                writeln!(
                    f,
                    ": {} of that is not zero ({share}), and is kept unless somebody tells.",
                    size(n)
                )?;
            }
        }
        let mut grid = Grid::new([
            "chunks of",
            "all",
            "with live frames",
            "kept by one",
            "by an eighth",
            "only free, not zero",
            "kept",
            "times what lives",
            "not zero",
        ]);
        for c in &self.chunks {
            grid.row([
                size(c.bytes / pageyard::PAGE_SIZE),
                grouped(c.chunks),
                grouped(c.live),
                if c.bytes == pageyard::PAGE_SIZE { "-".to_owned() } else { grouped(c.kept_by_one) },
                if c.bytes == pageyard::PAGE_SIZE { "-".to_owned() } else { grouped(c.kept_by_few) },
                c.unclean.map_or_else(|| "?".to_owned(), grouped),
                size(c.kept_frames),
                format!("{:.2}", c.kept_frames as f64 / self.live_frames.max(1) as f64),
                c.not_zero.map_or_else(|| "?".to_owned(), grouped),
            ]);
        }
        write!(f, "\n{grid}")?;
        let mut grid = Grid::new(["free page reporting from order", "blocks", "returned", "of free memory"]);
        let shown = |r: &&Reporting| [0, 2, 4, 7, 9, 10].contains(&r.order);
        for r in self.reporting.iter().filter(shown) {
            let share = percent(r.frames as f64 / self.reporting[0].frames.max(1) as f64);
            grid.row([r.order.to_string(), grouped(r.blocks), size(r.frames), share]);
        }
        write!(f, "\n{grid}")?;
        if let Some(interval) = self.interval_s {
            writeln!(f, "\nChunks that are written to in {interval} s, the mean:")?;
            let mut grid =
                Grid::new(["chunks of", "by allocations", "by moves alone", "in the whole recording"]);
            for d in &self.dirtied {
                let mean = |n: f64| format!("{n:.1}");
                let bytes = size(d.bytes / pageyard::PAGE_SIZE);
                grid.row([bytes, mean(d.by_allocations), mean(d.by_moves), grouped(d.in_all)]);
            }
            write!(f, "{grid}")?;
        }
        self.not_known.iter().try_for_each(|why| writeln!(f, "\nNot known: {why}."))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::Run;

    #[test]
    fn what_is_kept_grows_with_chunks_and_what_is_returned_falls_with_orders() {
        let run = |pfn, frames, kind| Run { pfn, frames, kind, thp: false, unevictable: false };
        let runs =
            vec![run(0, 1, FrameKind::Slab), run(1, 1023, FrameKind::Free), run(1024, 1024, FrameKind::Free)];
        let buddyinfo = Buddyinfo::parse("Node 0, zone Normal 1 1 1 1 1 1 1 1 1 1 1\n").unwrap();
        let cost = SnapshotCost::of(&Snapshot { runs }, &buddyinfo, Some(&[0, 1030, 1031]));
        assert_eq!((cost.live_frames, cost.free_frames, cost.unclean_frames), (1, 2047, Some(2)));
        let kept: Vec<u64> = cost.chunks.iter().map(|c| c.kept_frames).collect();
        assert_eq!(kept, [3, 1024, 2048]);
        assert_eq!(cost.chunks.iter().map(|c| c.not_zero).collect::<Vec<_>>(), [Some(3), Some(2), Some(2)]);
        assert_eq!(cost.reporting[0], Reporting { order: 0, blocks: 11, frames: 2047 });
        assert_eq!(cost.reporting[9], Reporting { order: 9, blocks: 2, frames: 1536 });
        assert!(cost.to_string().contains("kept unless somebody tells"), "{cost}");
    }
}
