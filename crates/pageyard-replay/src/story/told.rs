//! A story told: every line of it followed, packed, and written into a page.

use super::blame::Blame;
use super::chunk::Chunks;
use super::document::{LineFiguresDocument, MapDocument, StoryDocument};
use super::host::Host;
use super::line::Figures;
use super::moments::Moments;
use super::owners::Owners;
use super::pack::{Told, described, document, pack, threads};
use super::page;
use super::replayed::{Begin, Replayed};
use super::scene::{Lines, Scene};
use crate::engine::EngineSpec;
use crate::error::ReplayError;
use crate::kept::Readings;
use crate::replay::{self, Progress, Stage};
use pageyard::{MemoryMap, Region};
use pageyard_trace::Trace;
use pageyard_trace::document::Made;
use std::cell::RefCell;
use std::io::{self, Write};
use std::time::{Duration, Instant};

/// Moments of a story, the opening's included, unless it would change too much.
pub const MOMENTS: u32 = 2048;

/// Changes of the recorded line beyond which every other moment is dropped: about ten megabytes of a page.
pub(super) const MOST_CHANGES: usize = 1 << 20;

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

/// Tells the story of a recording: the host's own line, and one for each engine. `progress` is told what is being done,
/// and how many of how many rows are done.
///
/// # Errors
/// [`ReplayError`].
pub fn tell(
    trace: &Trace,
    engines: &[EngineSpec],
    progress: &mut dyn FnMut(Progress<'_>, u64, u64),
) -> Result<Story, ReplayError> {
    tell_within(trace, engines, MOST_CHANGES, progress)
}

/// Tells a story, and drops every other moment where the recorded line has more changes than `most_changes`.
fn tell_within(
    trace: &Trace,
    engines: &[EngineSpec],
    most_changes: usize,
    progress: &mut dyn FnMut(Progress<'_>, u64, u64),
) -> Result<Story, ReplayError> {
    let start = Instant::now();
    if let Some(kernel) = engines.iter().find(|spec| spec.kernel().is_some()) {
        return Err(kernel.only_replays());
    }
    let stage = Stage::set(trace, None, Readings::by(engines.len()), progress)?;
    let regions: Vec<Region> = stage.machine.regions();
    let fail = |why| ReplayError::Map { trace: stage.machine.name().to_owned(), why };
    let map = MemoryMap::new(&regions).map_err(fail)?;
    let told = if engines.is_empty() { Lines::Host } else { Lines::HostAndEngines };
    let scene = Scene::new(trace, &stage, &regions, &map, told)?;
    let mut owners = Owners::of(&[(trace, &scene.gfp)])?;
    let chunks = RefCell::new(Chunks::new());
    let mut left_out = Vec::new();
    let mut lines: Vec<Told> = Vec::new();
    let mut moments = Moments::of(stage.opening.duration_ns, MOMENTS);
    let host = Host::begin(&scene, moments, most_changes, &mut owners, &chunks);
    let mut keyframes = host.telling.keyframes().of_another();
    let mut host = Some(host);
    let mut trust = replay::trust::of_recording(trace, &stage.machine)?;
    for spec in engines {
        let begin = Begin {
            layout: &scene.layout,
            frames: scene.opening(&mut owners),
            moments,
            chunks: &chunks,
            keyframes: keyframes.of_another(),
        };
        // The first engine's replay reads the rows for the host's own line, too.
        let mut watch = Replayed::new(begin, host.take(), &mut owners);
        let (counts, report) = stage.replay(trace, &map, spec, &mut watch, progress)?;
        trust = trust.replayed(replay::trust::of_replay(&report, spec, trace, &stage.machine, counts.failed));
        let Replayed { telling, host, .. } = watch;
        if let Some(host) = host {
            (moments, keyframes) = (host.telling.line.moments, host.telling.keyframes().of_another());
            lines.push(host.finish(report.migrated, &chunks, &mut left_out));
        }
        if !report.is_sound() {
            left_out
                .push(format!("{} broke its promises in this replay: its line may be wrong.", spec.label()));
        }
        let id = unique(spec.label(), &lines);
        lines.extend(telling.map(|telling| telling.finish(id, "replayed", scene.of, &chunks, &mut left_out)));
    }
    if let Some(host) = host {
        let mut at = |done, rows| progress(Progress::Recorded, done, rows);
        let told = host.follow(trace, &mut owners, &chunks, &mut left_out, &mut at)?;
        lines.push(told.0);
        moments = told.1;
    }
    let document = document(trace, trace.rows()?, &stage, &scene, moments, trust);
    Story::of(document, lines, owners, chunks.into_inner(), left_out, start)
}

/// Returns a label, or the label with a number where a line has it already.
pub fn unique(label: &str, lines: &[Told]) -> String {
    let taken = |id: &str| lines.iter().any(|line| line.id == id);
    let numbered = (2..).map(|n| format!("{label} ({n})"));
    std::iter::once(label.to_owned()).chain(numbered).find(|id| !taken(id)).unwrap_or_default()
}

impl Story {
    /// Packs the lines of a story that was begun at `start`.
    pub fn of(
        document: StoryDocument,
        lines: Vec<Told>,
        owners: Owners,
        mut chunks: Chunks,
        mut left_out: Vec<String>,
        start: Instant,
    ) -> Result<Story, ReplayError> {
        let all: u32 = lines.iter().map(|line| line.keyframes.len() as u32).max().unwrap_or(0);
        if u64::from(all) < super::keyframes::MOST {
            left_out.push(format!(
            "The frames within pageblocks are kept of {all} moments of each line, and not of {}: more would make the file larger than it should be.",
            super::keyframes::MOST
        ));
        }
        if owners.crowded {
            left_out.push(
                "Some threads are put together: there are more than the map can tell apart.".to_owned(),
            );
        }
        let packing = Instant::now();
        let mut story = Story {
            document,
            chunks: Vec::new(),
            figures: Vec::new(),
            blame: Vec::new(),
            owners,
            told_in: Duration::ZERO,
            packing: Duration::ZERO,
        };
        let threads = threads(&lines);
        story.document.threads = threads.keys().map(|(of, tid)| story.owners.name_of(*of, *tid)).collect();
        for line in lines {
            story.document.lines.push(pack(&mut chunks, &line, &threads, &mut left_out));
            story.figures.push((line.id, line.figures));
            story.blame.push(line.blame);
        }
        let shown = chunks.shown_owners().iter().filter_map(|number| story.owners.get(*number));
        story.document.owners = shown.map(|owner| described(owner, &story.owners)).collect();
        story.document.left_out = left_out;
        story.chunks = chunks.finish()?;
        (story.packing, story.told_in) = (packing.elapsed(), start.elapsed());
        Ok(story)
    }

    /// Says what makes the page.
    pub fn made_by(&mut self, made: &Made) {
        self.document.made = Some(made.clone());
    }

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
            trust: self.document.trust.clone(),
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    /// An engine's line is followed beside the host's, so both are halved at once; a second engine begins with what is
    /// left.
    #[test]
    fn a_story_that_changes_too_much_has_every_other_moment_of_each_line() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data/traces/guest-6.1-net.trace");
        let trace = Trace::open(&path).unwrap();
        let engines = EngineSpec::parse_all(&["linux-6.1", "pageyard-exclusive"], &[]).unwrap();
        let told =
            |engines: &[EngineSpec], most| tell_within(&trace, engines, most, &mut |_, _, _| ()).unwrap();
        let whole = told(&engines, MOST_CHANGES);
        let halved = told(&engines, 300);
        let alone = told(&[], 300);
        let (fine, coarse) = (whole.document.resolution_ns, halved.document.resolution_ns);
        assert!(coarse >= 4 * fine && (coarse / fine).is_power_of_two(), "{fine} ns, {coarse} ns");
        assert_eq!((alone.document.resolution_ns, alone.document.moments), (coarse, halved.document.moments));
        let step = (coarse / fine) as usize;
        for ((name, whole), (_, halved)) in whole.figures.iter().zip(&halved.figures) {
            for (i, figures) in halved.iter().enumerate() {
                // The last moment of either is the end of the recording.
                let same = whole.get(i * step).or(whole.last()).unwrap();
                let of = |f: &Figures| (f.counters, f.blocks, f.huge, f.lost);
                assert_eq!(of(figures), of(same), "{name} at moment {i}");
            }
            assert!(halved.len() * step >= whole.len() && halved.len() == alone.figures[0].1.len());
        }
        assert_eq!(whole.blame.len(), 3);
        for (whole, halved) in whole.blame.iter().zip(&halved.blame) {
            let pageblocks = |b: &Blame| b.lost.iter().map(|l| (l.number, l.reason)).collect::<Vec<_>>();
            assert_eq!(pageblocks(whole), pageblocks(halved));
        }
        for line in &halved.document.lines {
            let moments: Vec<u32> = line.frames.iter().map(|frames| frames.moment).collect();
            assert!(moments.is_sorted_by(|a, b| a < b), "{moments:?}");
            assert_eq!(moments.last(), Some(&(halved.document.moments - 1)));
            let (first, last) = (&line.segments[0], line.segments.last().unwrap());
            assert_eq!((first.from, last.to), (0, halved.document.moments - 1));
        }
    }
}
