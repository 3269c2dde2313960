//! A story told: every line of it followed, packed, and written into a page.

use super::blame::Blame;
use super::chunk::Chunks;
use super::document::{LineFiguresDocument, MapDocument, StoryDocument};
use super::keyframes::Keyframes;
use super::line::{Figures, Line, Moments};
use super::owners::Owners;
use super::pack::{Told, described, document, pack, threads};
use super::page;
use super::recorded::Recorded;
use super::replayed::{Begin, Replayed};
use super::scene::Scene;
use super::segments::Gathered;
use crate::engine::EngineSpec;
use crate::error::ReplayError;
use crate::replay::{Progress, Stage, each_row};
use crate::text::count;
use pageyard::{MemoryMap, Region};
use pageyard_trace::Trace;
use std::cell::RefCell;
use std::io::{self, Write};
use std::time::{Duration, Instant};

/// Moments of a story, the opening's included, unless it would change too much.
pub const MOMENTS: u32 = 2048;

/// Changes of the recorded line beyond which every other moment is dropped: about ten megabytes of a page.
const MOST_CHANGES: usize = 1 << 20;

/// A story.
#[derive(Debug)]
pub struct Story {
    document: StoryDocument,
    /// Chunks, compressed.
    chunks: Vec<Vec<u8>>,
    figures: Vec<(String, Vec<Figures>)>,
    /// Who keeps pageblocks from becoming huge frames at the end of each line.
    pub blame: Vec<Blame>,
    /// Whose frames they are.
    pub owners: Owners,
    /// How long reading, replaying and packing took together.
    told_in: Duration,
    /// Of that, packing.
    packing: Duration,
}

/// The recording's own line, and what the others take from it.
struct RecordedTold<'c> {
    told: Told,
    moments: Moments,
    keyframes: Keyframes<'c>,
}

/// Tells the story of a recording: the host's own line, and one for each engine. `progress` is told what is being done, and how
/// many of how many rows are done.
///
/// # Errors
/// [`ReplayError`].
pub fn tell(
    trace: &Trace,
    engines: &[EngineSpec],
    progress: &mut dyn FnMut(Progress<'_>, u64, u64),
) -> Result<Story, ReplayError> {
    let start = Instant::now();
    if let Some(kernel) = engines.iter().find(|spec| spec.kernel().is_some()) {
        return Err(kernel.only_replays());
    }
    let stage = Stage::set(trace, None, progress)?;
    let regions: Vec<Region> = stage.machine.regions();
    let fail = |why| ReplayError::Map { trace: stage.machine.name().to_owned(), why };
    let map = MemoryMap::new(&regions).map_err(fail)?;
    let scene = Scene::new(trace, &stage, &regions, &map)?;
    let mut owners = Owners::default();
    let chunks = RefCell::new(Chunks::new());
    let mut left_out = Vec::new();
    let moments = Moments::of(stage.opening.duration_ns, MOMENTS);
    let recorded = recorded(trace, &scene, moments, &mut owners, &chunks, &mut left_out, progress)?;
    let (moments, opening) = (recorded.moments, recorded.keyframes.of_another());
    let mut lines = vec![recorded.told];
    for spec in engines {
        let mut keyframes = opening.of_another();
        let begin = Begin { layout: &scene.layout, frames: scene.opening(&mut owners), moments };
        let mut watch = Replayed::new(begin, &mut owners, &mut keyframes, &chunks);
        let report = stage.replay(trace, &map, spec, &mut watch, progress)?;
        if !report.is_sound() {
            left_out
                .push(format!("{} broke its promises in this replay: its line may be wrong.", spec.label()));
        }
        let (Some(line), Some(segments)) = (watch.line, watch.segments) else { continue };
        unmarked(&line, spec.label(), &mut left_out);
        lines.push(Told {
            id: unique(spec.label(), &lines),
            kind: "replayed",
            segments: segments.finish(),
            keyframes: keyframes.taken,
            blame: Blame::of(&line),
            figures: line.figures,
            markers: line.markers,
        });
    }
    let all: u32 = lines.iter().map(|line| line.keyframes.len() as u32).max().unwrap_or(0);
    if u64::from(all) < super::keyframes::MOST {
        left_out.push(format!(
            "The frames within pageblocks are kept of {all} moments of each line, and not of {}: more would make the file larger than it should be.",
            super::keyframes::MOST
        ));
    }
    if owners.crowded {
        left_out
            .push("Some threads are put together: there are more than the map can tell apart.".to_owned());
    }
    let packing = Instant::now();
    let mut story = Story {
        document: document(trace, &stage, &scene, moments),
        chunks: Vec::new(),
        figures: Vec::new(),
        blame: Vec::new(),
        owners,
        told_in: Duration::ZERO,
        packing: Duration::ZERO,
    };
    let mut chunks = chunks.into_inner();
    let threads = threads(&lines);
    story.document.threads = threads.keys().map(|tid| format!("thread {tid}")).collect();
    for line in lines {
        story.document.lines.push(pack(&mut chunks, &line, &threads, &mut left_out));
        story.figures.push((line.id, line.figures));
        story.blame.push(line.blame);
    }
    let shown = chunks.shown_owners().iter().filter_map(|number| story.owners.get(*number));
    story.document.owners = shown.map(|owner| described(owner, &scene.gfp)).collect();
    story.document.left_out = left_out;
    story.chunks = chunks.finish();
    (story.packing, story.told_in) = (packing.elapsed(), start.elapsed());
    Ok(story)
}

/// Follows the recording itself.
#[allow(clippy::too_many_arguments, reason = "each is another part of the story")]
fn recorded<'c>(
    trace: &Trace,
    scene: &Scene<'_>,
    moments: Moments,
    owners: &mut Owners,
    chunks: &'c RefCell<Chunks>,
    left_out: &mut Vec<String>,
    progress: &mut dyn FnMut(Progress<'_>, u64, u64),
) -> Result<RecordedTold<'c>, ReplayError> {
    let mut recorded = scene.recorded(owners, moments);
    let mut keyframes = Keyframes::begin(chunks, &recorded.line);
    let mut gathered = Gathered::begin(&recorded.line.states);
    let mut end = |recorded: &mut Recorded<'_, '_>| {
        let counters = recorded.counters();
        recorded.line.end(counters, &mut gathered);
        keyframes.see(&recorded.line);
        gathered.fit(&mut recorded.line, &mut keyframes, MOST_CHANGES);
    };
    let read = each_row(trace, &mut |done, rows| progress(Progress::Recorded, done, rows), |row| {
        while recorded.line.is_due(row.time_ns()) {
            end(&mut recorded);
        }
        recorded.row(row);
    })?;
    while recorded.line.moment() < recorded.line.moments.count {
        end(&mut recorded);
    }
    let Recorded { line, moved, unresolved_frees, .. } = recorded;
    if let Some(unseen) = read.migrated.map(|all| all.saturating_sub(moved)).filter(|n| *n > 0) {
        left_out.push(format!(
            "The host moved {} frames to places that no row names: the recorded line has them as free.",
            count(unseen)
        ));
    }
    if unresolved_frees > 0 {
        left_out.push(format!(
            "{} rows of the recording free frames that nothing is known to hold: what they were is not shown.",
            count(unresolved_frees)
        ));
    }
    if scene.snapshot.is_none() {
        left_out.push(
            "The recording has no snapshot of memory: all of it is shown as free at the start.".to_owned(),
        );
    }
    unmarked(&line, "recorded", left_out);
    let moments = line.moments;
    let segments = gathered.pack(chunks, moments.count - 1);
    let told = Told {
        id: "recorded".to_owned(),
        kind: "recorded",
        segments,
        keyframes: keyframes.taken.clone(),
        blame: Blame::of(&line),
        figures: line.figures,
        markers: line.markers,
    };
    Ok(RecordedTold { told, moments, keyframes })
}

fn unmarked(line: &Line<'_>, name: &str, left_out: &mut Vec<String>) {
    if line.unmarked > 0 {
        left_out.push(format!(
            "{} markers of {name}: of each kind the first two of a moment are kept; the figures count all.",
            count(line.unmarked)
        ));
    }
}

/// Returns a label, or the label with a number where a line has it already.
fn unique(label: &str, lines: &[Told]) -> String {
    let taken = |id: &str| lines.iter().any(|line| line.id == id);
    let numbered = (2..).map(|n| format!("{label} ({n})"));
    std::iter::once(label.to_owned()).chain(numbered).find(|id| !taken(id)).unwrap_or_default()
}

impl Story {
    /// Writes a page: the viewer's asset with the story in it.
    ///
    /// # Errors
    /// Those of `out`; [`io::ErrorKind::InvalidData`] where the asset has no place for a story.
    pub fn write_page(&self, asset: &str, out: &mut impl Write) -> io::Result<()> {
        page::write_page(asset, &self.document, &self.chunks, out)
    }

    /// Writes what stands in place of the asset's marker.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn write_block(&self, out: &mut impl Write) -> io::Result<()> {
        page::write_block(&self.document, &self.chunks, out)
    }

    /// Describes what the story shows; `bytes` is the size of its page, which took `writing`.
    #[must_use]
    pub fn document(&self, bytes: u64, writing: Duration) -> MapDocument {
        let lines = self.figures.iter().map(|(line, figures)| LineFiguresDocument {
            line: line.clone(),
            free_frames: figures.iter().map(|f| f.counters.free).collect(),
            huge_free: figures.iter().map(|f| f.huge).collect(),
            lost: figures.iter().map(|f| f.lost).collect(),
        });
        MapDocument {
            name: self.document.name.clone(),
            resolution_ns: self.document.resolution_ns,
            moments: self.document.moments,
            pageblocks: self.document.zones.iter().map(|z| u64::from(z.pageblocks)).sum(),
            bytes,
            seconds: (self.told_in + writing).as_secs_f64(),
            writing_seconds: (self.packing + writing).as_secs_f64(),
            lines: lines.collect(),
            left_out: self.document.left_out.clone(),
        }
    }
}
