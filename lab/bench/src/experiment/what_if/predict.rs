//! Predictions: what replays of a recording say about a setting, written down before anything is measured.

use super::load::Load;
use super::place::TestMachine;
use super::setting::{SETTINGS, Setting, knobs};
use crate::error::BenchError;
use pageyard_replay::what_if::{self, Figure, Figures, Reclaim, Sign, preset};
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
    let mut baselines: Vec<(Reclaim, Vec<Figures>)> = Vec::new();
    for decided in [Reclaim::Recorded, Reclaim::Imitated] {
        if unfit.is_none() && settings.iter().any(|setting| setting.decided == decided) {
            baselines.push((decided, replayed(place, &trace, None, decided)?));
        }
    }
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
        let before = baselines.iter().find(|(decided, _)| *decided == setting.decided);
        let figures = match (&refused, &value, before) {
            (None, Ok(value), Some((decided, before))) => {
                let after = replayed(place, &trace, Some((setting, value)), *decided)?;
                load.figures.iter().map(|figure| Predicted::of(*figure, before, &after)).collect()
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
    fn of(figure: Figure, before: &[Figures], after: &[Figures]) -> Predicted {
        let mean = |of: &[Figures]| of.iter().map(|f| f.get(figure)).sum::<f64>() / of.len().max(1) as f64;
        let baseline = mean(before);
        let change = mean(after) - baseline;
        let pairs = before.iter().zip(after);
        let agree = pairs.filter(|(b, a)| (a.get(figure) - b.get(figure)) * change > 0.0).count();
        let sign = match agree >= AGREE.min(before.len()) {
            true => Sign::of(change, baseline, figure.floor()),
            false => Sign::None,
        };
        Predicted { figure, baseline, change, sign }
    }
}

/// Replays a recording on the reference with the place's settings, one of them changed, from every opening.
fn replayed(
    place: &dyn TestMachine,
    trace: &Trace,
    changed: Option<(&Setting, &str)>,
    decided: Reclaim,
) -> Result<Vec<Figures>, BenchError> {
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

    #[test]
    fn a_change_counts_where_most_openings_have_it() {
        let all = |values: [f64; 5]| values.map(|v| Figures([(Figure::Wakes, v)].into()));
        let (before, sign) =
            (all([10.0; 5]), |after| Predicted::of(Figure::Wakes, &all([10.0; 5]), &all(after)).sign);
        assert_eq!(sign([20.0, 20.0, 20.0, 20.0, 9.0]), Sign::Up);
        assert_eq!(sign([90.0, 90.0, 10.0, 10.0, 10.0]), Sign::None, "two openings of five");
        assert_eq!(sign([9.9; 5]), Sign::None, "too small");
        let predicted = Predicted::of(Figure::Wakes, &before, &all([0.0; 5]));
        assert_eq!((predicted.baseline, predicted.change, predicted.sign), (10.0, -10.0, Sign::Down));
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
