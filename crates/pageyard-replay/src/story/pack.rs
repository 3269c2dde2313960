//! A line that was followed to its end, packed and described.

use super::blame::{Blame, LostPageblock};
use super::chunk::{ChunkEntry, Chunks, Columns};
use super::class::{BLOCK, NONE};
use super::document::{
    ChunkDocument, FORMAT, KeyframeDocument, LineDocument, LostDocument, OwnerDocument, RangeDocument,
    SegmentDocument, StoryDocument, ZoneDocument,
};
use super::line::Figures;
use super::marker::{Marker, MarkerKind, lost_reason, reasons};
use super::moments::Moments;
use super::owners::{Owner, Owners, RecordingIndex};
use super::scene::Scene;
use super::segments::Segment;
use crate::replay::Stage;
use crate::text::count;
use pageyard::PAGE_SIZE;
use pageyard::proctext::LINUX_ORDERS;
use pageyard_trace::{Trace, Trust};
use std::collections::BTreeMap;

/// A line that was followed to its end.
pub struct Told {
    pub id: String,
    pub kind: &'static str,
    /// The recording whose rows it follows.
    pub of: RecordingIndex,
    /// How long it is, where that is not the story's length.
    pub duration_ns: Option<u64>,
    pub segments: Vec<Segment>,
    pub keyframes: Vec<(u32, ChunkEntry)>,
    pub figures: Vec<Figures>,
    pub markers: Vec<Marker>,
    pub blame: Blame,
}

/// Rows about holders of lost pageblocks that a line keeps.
const MOST_HOLDERS: usize = 1 << 16;

/// Threads that markers name, by number.
pub type Threads = BTreeMap<(RecordingIndex, u32), u32>;

/// Numbers the threads that markers name.
pub fn threads(lines: &[Told]) -> Threads {
    let of = |line: &Told| line.markers.iter().map(|m| ((line.of, m.thread), 0)).collect::<Vec<_>>();
    let named = lines.iter().flat_map(of);
    let mut threads: Threads = named.filter(|((_, tid), _)| *tid != NONE).collect();
    threads.values_mut().zip(0..).for_each(|(number, n)| *number = n);
    threads
}

/// Describes all but the lines, of a trace with so many events.
pub fn document(
    trace: &Trace,
    events: u64,
    stage: &Stage,
    scene: &Scene<'_>,
    moments: Moments,
    trust: Trust,
) -> StoryDocument {
    let meta = trace.meta();
    let seconds = stage.opening.duration_ns as f64 / 1e9;
    let layout = &scene.layout;
    let zones = layout.zones.iter().map(|z| ZoneDocument {
        name: z.name,
        node: z.node,
        first_pageblock: z.first,
        pageblocks: z.pageblocks,
    });
    let ranges = layout.ranges().map(|(first_pageblock, pageblocks, first_pfn)| RangeDocument {
        first_pageblock,
        pageblocks,
        first_pfn,
    });
    StoryDocument {
        format: FORMAT,
        trust,
        made: None,
        name: format!("{}.trace", trace.name()),
        title: format!("{}: {seconds:.1} s of {}", trace.name(), meta.kernel),
        kernel: meta.kernel.clone(),
        cpus: stage.machine.cpus,
        duration_ns: stage.opening.duration_ns,
        events,
        frame_bytes: PAGE_SIZE,
        pageblock_frames: BLOCK,
        resolution_ns: moments.step,
        moments: moments.count,
        zones: zones.collect(),
        ranges: ranges.collect(),
        owners: Vec::new(),
        threads: Vec::new(),
        lines: Vec::new(),
        marker_kinds: MarkerKind::NAMES.to_vec(),
        reasons: reasons(),
        left_out: Vec::new(),
    }
}

/// Describes an owner.
pub fn described(owner: &Owner, owners: &Owners) -> OwnerDocument {
    OwnerDocument {
        label: owners.label(owner),
        gfp: owners.gfp(owner),
        thread: owner.thread().and_then(|_| owners.thread(owner)),
        context: owner.context(),
        class: owner.class().name(),
    }
}

/// Packs what is left of a line, and describes it.
pub fn pack(chunks: &mut Chunks, line: &Told, threads: &Threads, left_out: &mut Vec<String>) -> LineDocument {
    let series = chunks.add(series(&line.figures));
    let markers = chunks.add(markers(line, threads));
    let lost = lost(&line.blame, chunks);
    let holders: usize = line.blame.lost.iter().map(|l| l.holders.len()).sum();
    if holders > MOST_HOLDERS {
        left_out.push(format!(
            "{} of the {} holders of lost pageblocks of {}: the map keeps the first {}.",
            count((holders - MOST_HOLDERS) as u64),
            count(holders as u64),
            line.id,
            count(MOST_HOLDERS as u64)
        ));
    }
    let holders = holder_rows(&line.blame, holders.min(MOST_HOLDERS), chunks);
    let segments = line.segments.iter().map(|s| SegmentDocument {
        from: s.from,
        to: s.to,
        base: s.base.clone(),
        changes: s.changes.clone(),
    });
    let frames = line.keyframes.iter().cloned();
    LineDocument {
        id: line.id.clone(),
        label: line.id.clone(),
        kind: line.kind,
        duration_ns: line.duration_ns,
        segments: segments.collect(),
        frames: frames.map(|(moment, chunk)| KeyframeDocument { moment, chunk }).collect(),
        series: ChunkDocument { chunk: series },
        markers: ChunkDocument { chunk: markers },
        lost: LostDocument { chunk: lost, holders },
    }
}

/// The names of the columns of free blocks.
const BLOCKS: [&str; LINUX_ORDERS] = [
    "free_blocks_0",
    "free_blocks_1",
    "free_blocks_2",
    "free_blocks_3",
    "free_blocks_4",
    "free_blocks_5",
    "free_blocks_6",
    "free_blocks_7",
    "free_blocks_8",
    "free_blocks_9",
    "free_blocks_10",
];

fn series(figures: &[Figures]) -> Columns {
    let number =
        |of: fn(&Figures) -> u64| figures.iter().map(move |f| u32::try_from(of(f)).unwrap_or(u32::MAX));
    let mut columns = Columns::new(figures.len())
        .u32("free_frames", number(|f| f.counters.free))
        .u32("cached_frames", number(|f| f.counters.cached));
    for (order, name) in BLOCKS.into_iter().enumerate() {
        columns = columns.u32(name, figures.iter().map(|f| f.blocks[order] as u32));
    }
    columns
        .u32("huge_free", number(|f| f.huge))
        .u32("lost", number(|f| u64::from(f.lost)))
        .u32("failures", number(|f| f.counters.failures))
        .u32("fallbacks", number(|f| f.counters.fallbacks))
        .u32("steals", number(|f| f.counters.steals))
        .u32("compactions", number(|f| f.counters.compactions))
}

fn markers(line: &Told, threads: &Threads) -> Columns {
    let markers = &line.markers;
    let thread = |tid: u32| threads.get(&(line.of, tid)).copied().unwrap_or(NONE);
    Columns::new(markers.len())
        .f64("time_ns", markers.iter().map(|m| m.time_ns as f64))
        .u8("kind", markers.iter().map(|m| m.kind as u8))
        .u8("order", markers.iter().map(|m| m.order))
        .u32("pageblock", markers.iter().map(|m| m.pageblock))
        .u32("thread", markers.iter().map(|m| thread(m.thread)))
        .u32("reason", markers.iter().map(|m| m.reason))
}

/// Times of before the recording in chunks.
const BEFORE: f64 = -1.0;

fn time(ns: Option<u64>) -> f64 {
    ns.map_or(BEFORE, |ns| ns as f64)
}

fn lost(blame: &Blame, chunks: &mut Chunks) -> ChunkEntry {
    let lost = || blame.lost.iter();
    let frames = |l: &LostPageblock| l.holders.iter().map(|h| h.frames).sum::<u32>() as u16;
    let mut owner = |l: &LostPageblock| chunks.shown(l.holders.first().map_or(NONE, |h| h.owner));
    let owners: Vec<u32> = lost().map(&mut owner).collect();
    let columns = Columns::new(blame.lost.len())
        .u32("pageblock", lost().map(|l| l.number))
        .f64("since_ns", lost().map(|l| time(l.since_ns)))
        .u32("reason", lost().map(|l| lost_reason(l.reason)))
        .u32("owner", owners.into_iter())
        .u16("frames", lost().map(frames))
        .u16("holders", lost().map(|l| l.holders.len() as u16));
    chunks.add(columns)
}

fn holder_rows(blame: &Blame, rows: usize, chunks: &mut Chunks) -> ChunkEntry {
    let holders = || blame.lost.iter().flat_map(|l| &l.holders).take(rows);
    let columns = Columns::new(rows)
        .u32("owner", holders().map(|h| chunks.shown(h.owner)))
        .u8("order", holders().map(|h| h.order.unwrap_or(u8::MAX)))
        .u16("blocks", holders().map(|h| h.blocks as u16))
        .u16("frames", holders().map(|h| h.frames as u16))
        .f64("since_ns", holders().map(|h| time(h.since_ns)))
        .u16("first", holders().map(|h| (h.first_pfn % BLOCK) as u16));
    chunks.add(columns)
}
