//! Recordings, and what replays of them predict.

use super::machines::{Machines, Options};
use super::series::{Case, Patch, Series, load};
use crate::error::BenchError;
use crate::experiment::what_if::predict::LEAST_SHORT;
use crate::experiment::what_if::setting::{Baseline, knobs};
use crate::experiment::what_if::sign::Measured;
use pageyard_replay::what_if::{self, Figure, Reclaim, Replayed, Sign};
use pageyard_trace::Trace;
use serde::Serialize;
use std::path::{Path, PathBuf};

/// The recordings of a load on a kernel.
pub(super) struct Recordings {
    pub(super) of: Case,
    /// Its settings before the load gave it others, which a recording has.
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
    /// Whether requests decide it, and all the same it rests on replays with reclaim of the engine's own: without the
    /// patch and with it, replays are not short of memory equally often.
    pub(super) ran_short: bool,
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
        let folder = folder(*of, &options.folder);
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

/// Returns the folder below another in which the recordings of a load are kept.
fn folder((side, load): Case, below: &Path) -> PathBuf {
    below.join(side.to_string().replace(' ', "-")).join(load)
}

/// Finds recordings that a backtest kept in a folder, up to the first number that is missing.
pub(super) fn kept(series: &'static Series, below: &Path) -> Result<Vec<Recordings>, BenchError> {
    let mut all = Vec::new();
    for of in series.recorded() {
        let folder = folder(of, below);
        let traces = (1..).map(|n| folder.join(format!("{n}.trace"))).take_while(|trace| trace.exists());
        let traces: Vec<PathBuf> = traces.collect();
        if !traces.is_empty() {
            all.push(Recordings { of, baseline: Baseline::new(), traces });
        }
    }
    if all.is_empty() {
        let first = |of| folder(of, below).join("1.trace").display().to_string();
        let wanted: Vec<String> = series.recorded().into_iter().map(first).collect();
        let why = format!("there is no recording of {}: {} is missing", series.name, wanted.join(", "));
        return Err(BenchError::Settings { why });
    }
    Ok(all)
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
        let mut both = |reclaim| {
            let progress = &mut |at: usize| {
                let each = recordings.traces.len();
                progress("replaying", n * each + at, series.patches.len() * each);
            };
            pairs(patch, recordings, reclaim, notes, progress)
        };
        let decided_by = |reclaim| patch.claims.iter().any(|claim| claim.decided == reclaim);
        let plain = if decided_by(Reclaim::Recorded) { both(Reclaim::Recorded) } else { Vec::new() };
        let ran_short = run_short(&plain, seed);
        let own = match ran_short || decided_by(Reclaim::Imitated) {
            true => both(Reclaim::Imitated),
            false => Vec::new(),
        };
        for (claim, of) in patch.claims.iter().enumerate() {
            let by_requests = of.decided == Reclaim::Recorded;
            let replays = if by_requests && !ran_short { &plain } else { &own };
            if !replays.is_empty() {
                let figure = |replayed: &Replayed| replayed.figures.get(of.figure);
                let predicted = Measured::of_pairs(&changes(replays, figure), seed);
                let ran_short = by_requests && ran_short;
                all.push(Prediction { patch: patch.subject, claim, figure: of.figure, ran_short, predicted });
            }
        }
    }
    all
}

/// Returns whether replays with a patch are short of memory more often than those without, or less often. One that is
/// frees early, and empties lists: what it counts is no longer what the same requests make of other rules.
fn run_short(pairs: &[(Replayed, Replayed)], seed: u64) -> bool {
    let short = || Measured::of_pairs(&changes(pairs, |replayed| replayed.short as f64), seed);
    !pairs.is_empty() && short().sign(LEAST_SHORT) != Sign::None
}

/// Returns a count of each recording's two replays.
fn changes(pairs: &[(Replayed, Replayed)], of: impl Fn(&Replayed) -> f64) -> Vec<(f64, f64)> {
    pairs.iter().map(|(before, after)| (of(before), of(after))).collect()
}

/// Replays every recording without a patch and with it.
fn pairs(
    patch: &Patch,
    recordings: &Recordings,
    reclaim: Reclaim,
    notes: &mut Vec<String>,
    progress: &mut dyn FnMut(usize),
) -> Vec<(Replayed, Replayed)> {
    let mut all = Vec::new();
    for (at, path) in recordings.traces.iter().enumerate() {
        progress(at);
        let replayed = |rules| replayed(path, recordings, patch.preset(), rules, reclaim, at);
        match replayed(patch.without()).and_then(|before| Ok((before, replayed(patch.with())?))) {
            Ok(pair) => all.push(pair),
            Err(why) => {
                let note = format!("{} predicts nothing: {why}", path.display());
                // Another patch or kind of replay may have said so.
                if !notes.contains(&note) {
                    notes.push(note);
                }
            }
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
) -> Result<Replayed, BenchError> {
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
    pub(super) fn predicted<'p>(
        &self,
        claim: usize,
        predictions: &'p [Prediction],
    ) -> Option<&'p Prediction> {
        predictions.iter().find(|p| p.patch == self.subject && p.claim == claim)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pageyard_replay::what_if::Figures;

    #[test]
    fn replays_run_short_where_the_interval_of_the_change_has_a_sign() {
        let run_short = |pairs: &[(u64, u64)]| {
            let replayed = |short| Replayed { figures: Figures::default(), refused_on_host_too: 0, short };
            let pairs: Vec<_> = pairs.iter().map(|(a, b)| (replayed(*a), replayed(*b))).collect();
            run_short(&pairs, 1)
        };
        assert!(run_short(&[(25, 530), (30, 400), (0, 610)]) && run_short(&[(530, 25), (400, 30)]));
        assert!(!run_short(&[(25, 530), (530, 25), (30, 31)]), "they do not agree");
        assert!(!run_short(&[(3, 4), (3, 4)]), "too few");
        assert!(!run_short(&[]) && !run_short(&[(7, 7)]));
    }
}
