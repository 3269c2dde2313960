//! Two recordings in one story: the line of one host beside that of the other.

use super::chunk::Chunks;
use super::host::Host;
use super::layout::{Layout, Numbered};
use super::moments::Moments;
use super::owners::{Owners, RecordingIndex};
use super::pack::{Told, document};
use super::scene::{Lines, Scene};
use super::told::{MOMENTS, MOST_CHANGES, Story, unique};
use crate::error::ReplayError;
use crate::kept::Readings;
use crate::replay::{self, Progress, Stage};
use crate::text::shown;
use pageyard::MemoryMap;
use pageyard_trace::{Trace, Trust};
use std::cell::RefCell;
use std::time::Instant;

/// Tells the story of two recordings of one machine, or of two of which each pageblock is in the same zone: one line
/// for each host, its times since its own start. `progress` is told as by [`tell`](super::tell).
///
/// # Errors
/// [`ReplayError::Machine`] where the memory of one cannot stand beside that of the other; others as
/// [`tell`](super::tell).
pub fn tell_two(
    before: &Trace,
    after: &Trace,
    progress: &mut dyn FnMut(Progress<'_>, u64, u64),
) -> Result<Story, ReplayError> {
    let start = Instant::now();
    let traces = [before, after];
    let mut stage = |trace| Stage::set(trace, None, Readings::One, progress);
    let stages = [stage(before)?, stage(after)?];
    let regions = stages.each_ref().map(|stage| stage.machine.regions());
    let map = |at: usize| {
        let fail = |why| ReplayError::Map { trace: traces[at].name().to_owned(), why };
        MemoryMap::new(&regions[at]).map_err(fail)
    };
    let maps = [map(0)?, map(1)?];
    let numbered =
        |at: usize| Numbered { machine: &stages[at].machine, regions: &regions[at], map: &maps[at] };
    let layout = Layout::of_both(numbered(0), numbered(1)).map_err(|why| ReplayError::Machine {
        trace: after.name().to_owned(),
        why: format!(
            "its map cannot stand beside that of {}, because {why}; `pageyard compare` compares their figures",
            before.name()
        ),
    })?;
    let scene = |at: usize| {
        let of = RecordingIndex(at as u8);
        Scene::within(traces[at], &stages[at], &regions[at], layout.clone(), Lines::Host, of)
    };
    let scenes = [scene(0)?, scene(1)?];
    let longest = stages.iter().map(|stage| stage.opening.duration_ns).max().unwrap_or(0);
    let mut moments = Moments::of(longest, MOMENTS);
    let (owners, chunks, lines, mut left_out) = loop {
        let mut owners = Owners::of(&[(before, &scenes[0].gfp), (after, &scenes[1].gfp)])?;
        let chunks = RefCell::new(Chunks::new());
        let (mut lines, mut left_out): (Vec<Told>, Vec<String>) = (Vec::new(), Vec::new());
        let mut resolutions = Vec::new();
        for (trace, scene) in traces.iter().zip(&scenes) {
            let host = Host::begin(scene, moments, MOST_CHANGES, &mut owners, &chunks);
            let mut at = |done, rows| progress(Progress::Recorded, done, rows);
            let mut own = Vec::new();
            let (mut told, left) = host.follow(trace, &mut owners, &chunks, &mut own, &mut at)?;
            moments = left;
            resolutions.push(left);
            told.id = unique(trace.name(), &lines);
            told.duration_ns = Some(scene.stage.opening.duration_ns);
            left_out.extend(own.into_iter().map(|why| format!("{}: {why}", trace.name())));
            lines.push(told);
        }
        // If the second changes so much that moments were dropped, the first has too many.
        if resolutions[0] == resolutions[1] {
            break (owners, chunks, lines, left_out);
        }
    };
    for (trace, stage) in traces.iter().zip(&stages) {
        let seconds = stage.opening.duration_ns as f64 / 1e9;
        if stage.opening.duration_ns < longest {
            left_out.push(format!("{} is {seconds:.1} s long: then its line stays as it is.", trace.name()));
        }
    }
    if stages[0].machine.cpus != stages[1].machine.cpus {
        left_out.push(format!(
            "{} has {} CPUs and {} has {}: what they do in a second cannot be compared.",
            before.name(),
            stages[0].machine.cpus,
            after.name(),
            stages[1].machine.cpus
        ));
    }
    let trust = |at: usize| replay::trust::of_recording(traces[at], &stages[at].machine);
    let trust = both([(before.name(), trust(0)?), (after.name(), trust(1)?)]);
    let events = before.rows()? + after.rows()?;
    let mut document = document(before, events, &stages[0], &scenes[0], moments, trust);
    let [first, second] = traces.map(|trace| shown(&trace.meta().kernel));
    document.name = format!("{} beside {}", before.name(), after.name());
    document.title = document.name.clone();
    document.kernel = if first == second { first } else { format!("{first}, and {second}") };
    document.duration_ns = longest;
    Story::of(document, lines, owners, chunks.into_inner(), left_out, start)
}

/// Puts two verdicts together: the lower holds, and each reason names its recording.
fn both(trusts: [(&str, Trust); 2]) -> Trust {
    let [mut both, other] = trusts.map(|(name, mut trust)| {
        trust.reasons = trust.reasons.into_iter().map(|why| format!("{name}: {why}")).collect();
        trust
    });
    both.level = both.level.max(other.level);
    both.recording = both.recording.max(other.recording);
    both.lost += other.lost;
    both.lost_pct = both.lost_pct.max(other.lost_pct);
    both.snapshot = both.snapshot.zip(other.snapshot).map(|(a, b)| a && b);
    both.reasons.extend(other.reasons);
    both
}
