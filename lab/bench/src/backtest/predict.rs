//! Recordings, and what replays of them predict.

use super::machines::{Machines, Options};
use super::series::{Case, Patch, Series, load};
use crate::error::BenchError;
use crate::experiment::what_if::setting::{Baseline, knobs};
use crate::experiment::what_if::sign::Measured;
use pageyard_replay::what_if::{self, Figure, Figures, Reclaim};
use pageyard_trace::Trace;
use serde::Serialize;
use std::path::{Path, PathBuf};

/// The recordings of a load on a kernel.
pub(super) struct Recordings {
    pub(super) of: Case,
    /// Its settings while it was recorded.
    baseline: Baseline,
    pub(super) traces: Vec<PathBuf>,
}

/// What replays say of one claim.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Prediction {
    /// The patch's subject.
    pub(super) patch: &'static str,
    /// The claim, in the order of the patch's.
    pub(super) claim: usize,
    /// The figure that shows it.
    pub(super) figure: Figure,
    /// Without the patch, and what changes with it, over the recordings.
    pub(super) predicted: Measured,
}

/// Records the loads on each kernel that predictions start from.
pub(super) fn record(
    series: &'static Series,
    options: &Options,
    machines: &mut Machines,
    notes: &mut Vec<String>,
    progress: &mut dyn FnMut(&'static str, usize, usize),
) -> Vec<Recordings> {
    let mut all = Vec::new();
    let cases = series.recorded();
    for (n, of) in cases.iter().enumerate() {
        let (side, name) = *of;
        let (Some(machine), Some(load)) = (machines.get_mut(side.kernel), load(name)) else { continue };
        let folder = options.folder.join(side.to_string().replace(' ', "-")).join(name);
        let mut traces = Vec::new();
        for run in 0..options.runs {
            progress("recording", n * options.runs + run, cases.len() * options.runs);
            let to = folder.join(format!("{}.trace", run + 1));
            let recorded = machine.record(load, side.setting).and_then(|trace| {
                let _ = std::fs::remove_dir_all(&to);
                std::fs::create_dir_all(&folder)
                    .and_then(|()| std::fs::rename(&trace, &to))
                    .map_err(|e| format!("{} cannot be written: {e}", to.display()))
            });
            match recorded {
                Ok(()) => traces.push(to),
                Err(why) => {
                    notes.push(format!("recording {} of {name} on {side} is left out: {why}", run + 1))
                }
            }
        }
        all.push(Recordings { of: *of, baseline: machine.baseline().clone(), traces });
    }
    all
}

/// Replays the recordings without each patch and with it. A recording that does not tell the order of free blocks gets
/// one of its own. One that cannot be read or replayed is a note, and predicts nothing.
pub(super) fn predict(
    series: &'static Series,
    recordings: &[Recordings],
    seed: u64,
    notes: &mut Vec<String>,
    progress: &mut dyn FnMut(&'static str, usize, usize),
) -> Vec<Prediction> {
    let mut all = Vec::new();
    for (n, patch) in series.patches.iter().enumerate() {
        let Some(recordings) = recordings.iter().find(|r| r.of == (patch.recorded, patch.load)) else {
            continue;
        };
        let mut replays =
            [Reclaim::Recorded, Reclaim::Imitated].map(|reclaim| (reclaim, [Vec::new(), Vec::new()]));
        for (at, path) in recordings.traces.iter().enumerate() {
            progress(
                "replaying",
                n * recordings.traces.len() + at,
                series.patches.len() * recordings.traces.len(),
            );
            for (reclaim, [without, with]) in &mut replays {
                if patch.claims.iter().all(|claim| claim.decided != *reclaim) {
                    continue;
                }
                let replayed = |rules| replayed(path, recordings, patch.preset(), rules, *reclaim, at);
                match replayed(patch.without()).and_then(|before| Ok((before, replayed(patch.with())?))) {
                    Ok((before, after)) => {
                        without.push(before);
                        with.push(after);
                    }
                    Err(why) => {
                        let note = format!("{} predicts nothing: {why}", path.display());
                        // Another patch or kind of replay may have said so.
                        if !notes.contains(&note) {
                            notes.push(note);
                        }
                    }
                }
            }
        }
        for (claim, of) in patch.claims.iter().enumerate() {
            let replays = replays.iter().find(|(reclaim, _)| *reclaim == of.decided);
            let Some((_, [without, with])) = replays.filter(|(_, [without, _])| !without.is_empty()) else {
                continue;
            };
            let figure = |f: &Figures| f.get(of.figure);
            let pairs: Vec<(f64, f64)> = without.iter().map(figure).zip(with.iter().map(figure)).collect();
            let predicted = Measured::of_pairs(&pairs, seed);
            all.push(Prediction { patch: patch.subject, claim, figure: of.figure, predicted });
        }
    }
    all
}

fn replayed(
    path: &Path,
    recordings: &Recordings,
    preset: &str,
    rules: Vec<(String, String)>,
    reclaim: Reclaim,
    at: usize,
) -> Result<Figures, BenchError> {
    let trace = Trace::open(path)?;
    if let Some(why) = what_if::unfit(&trace)? {
        return Err(BenchError::Settings { why });
    }
    let mut baseline = recordings.baseline.clone();
    baseline.extend(trace.meta().settings.clone());
    let mut all = knobs(&baseline, None);
    all.extend(rules);
    let opening = what_if::recorded_opening(&trace, at as u64 + 1)?;
    Ok(what_if::replayed(&trace, preset, &all, reclaim, opening, &mut |_, _, _| {})?)
}

impl Patch {
    /// Returns its prediction of a claim.
    pub(super) fn predicted(&self, claim: usize, predictions: &[Prediction]) -> Option<Measured> {
        let of = predictions.iter().find(|p| p.patch == self.subject && p.claim == claim)?;
        Some(of.predicted)
    }
}
