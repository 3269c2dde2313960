//! Predictions: what replays of a recording say about a setting, written down before anything is measured.

use super::load::Load;
use super::place::TestMachine;
use super::setting::{SETTINGS, Setting, knobs};
use crate::error::BenchError;
use pageyard_replay::what_if::{self, Figure, Reclaim, Replayed, Sign, preset};
use pageyard_trace::Trace;
use serde::Serialize;
use std::fs::File;
use std::io::Write;
use std::path::Path;

/// The openings from which a recording is replayed: what falls back, or fails, depends on the order in which free
/// blocks lay. The first one is the recorded order, where the recording tells it.
const OPENINGS: [u64; 5] = [1, 2, 3, 4, 5];

/// In how many of them a figure must change the same way for the change to count.
const AGREE: usize = 4;

/// The least difference of requests for which replays were short of memory that counts as one, as for all counts of
/// requests.
pub(crate) const LEAST_SHORT: f64 = 2.0;

/// A replay's prediction for a load under a setting.
#[derive(Clone, Debug, Serialize)]
pub struct Prediction {
    /// Where.
    pub place: &'static str,
    /// The load.
    pub load: &'static str,
    /// The setting.
    pub setting: String,
    /// The value that it is given; left out where it has none here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// Why there is no prediction; left out where there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
    /// The figures of the load, in its order; empty where it is refused.
    pub figures: Vec<Predicted>,
}

/// A figure, predicted.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Predicted {
    /// Which.
    pub figure: Figure,
    /// In replays without the change, the mean over the openings.
    pub baseline: f64,
    /// In replays with it, less that.
    pub change: f64,
    /// Its sign, where most openings have it.
    pub sign: Sign,
}

/// Predicts what every setting does to a load, from its recording.
///
/// # Errors
/// When the recording cannot be read or replayed.
pub fn predict(
    place: &dyn TestMachine,
    load: &Load,
    trace: &Path,
    settings: &[&'static Setting],
) -> Result<Vec<Prediction>, BenchError> {
    let trace = Trace::open(trace)?;
    let unfit = unfit(place, &trace)?;
    let mut baselines = Baselines::default();
    let mut all = Vec::new();
    for setting in settings {
        let value = setting.value(place.baseline());
        let refused = match (&value, setting.not_modelled(), &unfit) {
            (Err(why), ..) => Some(why.clone()),
            (_, Some(why), _) => Some(why.to_owned()),
            (.., Some(why)) => Some(why.clone()),
            _ if setting.reclaims => what_if::read_again(&trace)?,
            _ => None,
        };
        let figures = match (&refused, &value) {
            (None, Ok(value)) => {
                let under = Some((*setting, value.as_str()));
                let mut both = |decided| -> Result<_, BenchError> {
                    let after = replayed(place, &trace, under, decided)?;
                    Ok((baselines.of(place, &trace, decided)?, after))
                };
                let (mut before, mut after) = both(setting.decided)?;
                // The same requests run short of memory more often under the setting, or less: what a plain replay
                // counts then is what its early frees make of it.
                if setting.decided == Reclaim::Recorded && runs_short(&before, &after) {
                    (before, after) = both(Reclaim::Imitated)?;
                }
                load.figures.iter().map(|figure| Predicted::of(*figure, &before, &after)).collect()
            }
            _ => Vec::new(),
        };
        all.push(Prediction {
            place: place.name(),
            load: load.name,
            setting: setting.name(),
            value: value.ok(),
            refused,
            figures,
        });
    }
    Ok(all)
}

impl Predicted {
    /// Compares replays from the same openings.
    fn of(figure: Figure, before: &[Replayed], after: &[Replayed]) -> Predicted {
        let (baseline, change, sign) = change(before, after, figure.floor(), |r| r.figures.get(figure));
        Predicted { figure, baseline, change, sign }
    }
}

/// Returns whether replays are short of memory more often, or less, under a setting.
fn runs_short(before: &[Replayed], after: &[Replayed]) -> bool {
    change(before, after, LEAST_SHORT, |r| r.short as f64).2 != Sign::None
}

/// Compares a count of replays from the same openings: its mean without a change, what is added to it with the change,
/// and the sign of that, where most openings have it and it is no less than `floor`.
fn change(
    before: &[Replayed],
    after: &[Replayed],
    floor: f64,
    of: impl Fn(&Replayed) -> f64,
) -> (f64, f64, Sign) {
    let mean = |all: &[Replayed]| all.iter().map(&of).sum::<f64>() / all.len().max(1) as f64;
    let baseline = mean(before);
    let change = mean(after) - baseline;
    let agree = before.iter().zip(after).filter(|(b, a)| (of(a) - of(b)) * change > 0.0).count();
    let sign = match agree >= AGREE.min(before.len()) {
        true => Sign::of(change, baseline, floor),
        false => Sign::None,
    };
    (baseline, change, sign)
}

/// Replays without a change, each kind once it is asked for.
#[derive(Default)]
struct Baselines(Vec<(Reclaim, Vec<Replayed>)>);

impl Baselines {
    fn of(
        &mut self,
        place: &dyn TestMachine,
        trace: &Trace,
        decided: Reclaim,
    ) -> Result<Vec<Replayed>, BenchError> {
        if let Some((_, found)) = self.0.iter().find(|(of, _)| *of == decided) {
            return Ok(found.clone());
        }
        let replays = replayed(place, trace, None, decided)?;
        self.0.push((decided, replays.clone()));
        Ok(replays)
    }
}

/// Replays a recording on the reference with the place's settings, one of them changed, from every opening.
fn replayed(
    place: &dyn TestMachine,
    trace: &Trace,
    changed: Option<(&Setting, &str)>,
    decided: Reclaim,
) -> Result<Vec<Replayed>, BenchError> {
    let preset = preset(place.kernel()).unwrap_or("linux-6.18");
    // A load's state can need a setting of its own, which the recording has.
    let mut baseline = place.baseline().clone();
    baseline.extend(trace.meta().settings.clone());
    let knobs = knobs(&baseline, changed);
    let from = |opening| what_if::replayed(trace, preset, &knobs, decided, opening, &mut |_, _, _| {});
    let mut openings = OPENINGS;
    openings[0] = what_if::recorded_opening(trace, openings[0])?;
    openings.into_iter().map(|opening| Ok(from(opening)?)).collect()
}

/// Says why nothing can be predicted from a recording, where nothing can.
fn unfit(place: &dyn TestMachine, trace: &Trace) -> Result<Option<String>, BenchError> {
    if preset(place.kernel()).is_none() {
        return Ok(Some(format!("the reference has no preset for {}", place.kernel())));
    }
    Ok(what_if::unfit(trace)?)
}

/// The predictions as they are written down.
#[derive(Serialize)]
struct Written<'a, P> {
    seed: u64,
    /// Seconds since 1970.
    written: u64,
    predictions: &'a [P],
}

/// Writes predictions to a file, makes sure that they are on disk, and returns their hash (FNV-1a, 64 bits).
///
/// # Errors
/// When it cannot be written; no file is left then.
pub fn write_down(path: &Path, predictions: &[impl Serialize], seed: u64) -> Result<u64, BenchError> {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let written = Written { seed, written: since.map_or(0, |d| d.as_secs()), predictions };
    let fail = |why: String| BenchError::Report { path: path.display().to_string(), why };
    let text = serde_json::to_string_pretty(&written).map_err(|e| fail(e.to_string()))?;
    let aside = path.with_extension("json.partial");
    let write = || -> std::io::Result<()> {
        let mut file = File::create(&aside)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        std::fs::rename(&aside, path)
    };
    write().map_err(|e| fail(e.to_string()))?;
    Ok(fnv(text.as_bytes()))
}

/// Hashes bytes (FNV-1a, 64 bits).
pub(crate) fn fnv(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3))
}

/// Returns the settings that are tried: all, or for a quick run the first of each kind.
#[must_use]
pub fn tried(quick: bool) -> Vec<&'static Setting> {
    let some = ["percpu_pagelist_high_fraction=1000", "min_free_kbytes*4", "defrag_mode=1"];
    SETTINGS.iter().filter(|s| !quick || some.contains(&s.name().as_str())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use pageyard_replay::what_if::Figures;

    fn replayed(wakes: f64, short: u64) -> Replayed {
        Replayed { figures: Figures([(Figure::Wakes, wakes)].into()), refused_on_host_too: 0, short }
    }

    #[test]
    fn a_change_counts_where_most_openings_have_it() {
        let all = |values: [f64; 5]| values.map(|v| replayed(v, 0));
        let (before, sign) =
            (all([10.0; 5]), |after| Predicted::of(Figure::Wakes, &all([10.0; 5]), &all(after)).sign);
        assert_eq!(sign([20.0, 20.0, 20.0, 20.0, 9.0]), Sign::Up);
        assert_eq!(sign([90.0, 90.0, 10.0, 10.0, 10.0]), Sign::None, "two openings of five");
        assert_eq!(sign([9.9; 5]), Sign::None, "too small");
        let predicted = Predicted::of(Figure::Wakes, &before, &all([0.0; 5]));
        assert_eq!((predicted.baseline, predicted.change, predicted.sign), (10.0, -10.0, Sign::Down));
    }

    #[test]
    fn a_setting_runs_short_where_most_openings_do() {
        let all = |short: [u64; 5]| short.map(|n| replayed(0.0, n));
        let runs_short = |after| runs_short(&all([25; 5]), &all(after));
        assert!(runs_short([530, 500, 25, 510, 490]) && runs_short([0; 5]));
        assert!(!runs_short([530, 500, 25, 25, 490]), "three openings of five");
        assert!(!runs_short([26; 5]), "too few");
    }

    #[test]
    fn what_is_written_down_is_whole_and_has_its_hash() {
        assert_eq!(fnv(b"a"), 0xaf63_dc4c_8601_ec8c);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("predictions.json");
        let one = Prediction {
            place: "host",
            load: "fork",
            setting: "defrag_mode=1".into(),
            value: None,
            refused: Some("the reference does not model it".into()),
            figures: Vec::new(),
        };
        let hash = write_down(&path, &[one], 7).unwrap();
        let text = std::fs::read(&path).unwrap();
        assert_eq!(hash, fnv(&text));
        let json: serde_json::Value = serde_json::from_slice(&text).unwrap();
        assert_eq!((json["seed"].as_u64(), json["predictions"][0]["load"].as_str()), (Some(7), Some("fork")));
        let none: [Prediction; 0] = [];
        let why = write_down(&folder.path().join("no/such/folder"), &none, 7).unwrap_err().to_string();
        assert!(why.contains("no/such/folder"), "{why}");
    }
}
