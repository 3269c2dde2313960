//! Cells: a load under a setting. All are predicted first; then settings and baseline run in random order.

use super::load::{LOADS, Load};
use super::place::TestMachine;
use super::predict::{Prediction, predict, tried, write_down};
use super::setting::SETTINGS;
use super::sign::Measured;
use crate::error::BenchError;
use crate::experiment::{Rows, Run};
use pageyard_replay::what_if::Figures;
use pageyard_replay::what_if::Sign;
use std::collections::BTreeMap;
use std::path::Path;

/// The tables of rows.
pub(super) const HOST: &str = "changes on the host";
pub(super) const GUEST: &str = "changes in the guest";

/// A run to come: the place, the load, and the setting or the baseline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Slot {
    place: usize,
    load: usize,
    /// The position among a place's predictions; none for the baseline.
    prediction: Option<usize>,
}

/// Predicts, then measures, and returns the rows.
pub(super) fn measure(
    run: &mut Run<'_>,
    places: &mut [Box<dyn TestMachine>],
    folder: &Path,
    seed: u64,
    runs: usize,
) -> Result<Rows, BenchError> {
    let named = run.what_if.loads.clone();
    let chosen = |load: &&Load| match named.is_empty() {
        false => named.iter().any(|name| name == load.name),
        true => !run.quick || matches!(load.name, "fork" | "net"),
    };
    let loads: Vec<&'static Load> = LOADS.iter().filter(chosen).collect();
    let predictions = predictions(run, places, &loads)?;
    let path = folder.join("predictions.json");
    let hash = write_down(&path, &predictions, seed)?;
    run.note(format!(
        "{} cells, of which {} refused, written to {} before the first measured run (FNV-1a {hash:016x})",
        predictions.len(),
        predictions.iter().filter(|p| p.refused.is_some()).count(),
        path.display()
    ));
    run.note(format!("the order of the runs and the loads' choices follow from the seed {seed}"));
    let samples = samples(run, places, &loads, &predictions, seed, runs);
    Ok(rows(run, places, &loads, &predictions, &samples, seed))
}

fn predictions(
    run: &mut Run<'_>,
    places: &mut [Box<dyn TestMachine>],
    loads: &[&'static Load],
) -> Result<Vec<Prediction>, BenchError> {
    let settings = tried(run.quick);
    let all = places.len() * loads.len();
    let mut predictions = Vec::new();
    for place in places.iter_mut() {
        let in_guest = place.name() == "guest";
        // Only a guest's memory is ours to set aside.
        let may = |load: &&&Load| in_guest || run.what_if.pieces || !load.state.pieces_only;
        let here: Vec<&Load> =
            loads.iter().filter(may).copied().filter(|load| load.is_run(in_guest)).collect();
        for load in here {
            let settings: Vec<_> =
                settings.iter().copied().filter(|s| load.is_run_under(&s.name())).collect();
            run.at("recording and replaying", predictions.len(), all * settings.len());
            match place.record(load, None) {
                Ok(trace) => predictions.extend(predict(&**place, load, &trace, &settings)?),
                Err(why) => run.note(format!("{}: {} is left out: {why}", place.name(), load.name)),
            }
        }
    }
    Ok(predictions)
}

/// The counts of every run, by slot.
type Samples = BTreeMap<Slot, Vec<Figures>>;

fn samples(
    run: &mut Run<'_>,
    places: &mut [Box<dyn TestMachine>],
    loads: &[&'static Load],
    predictions: &[Prediction],
    seed: u64,
    runs: usize,
) -> Samples {
    let mut slots = slots(places, loads, predictions, runs);
    fastrand::Rng::with_seed(seed).shuffle(&mut slots);
    let mut samples = Samples::new();
    let mut failed: BTreeMap<Slot, String> = BTreeMap::new();
    let all = slots.len();
    for (n, slot) in slots.into_iter().enumerate() {
        run.at("trying settings", n, all);
        // What a kernel refuses once it refuses again.
        if failed.contains_key(&slot) {
            continue;
        }
        let prediction = slot.prediction.map(|at| &predictions[at]);
        let setting = prediction.and_then(|p| Some((path(p)?, p.value.as_deref()?)));
        match places[slot.place].count(loads[slot.load], setting) {
            Ok(figures) => samples.entry(slot).or_default().push(figures),
            Err(why) => {
                let what = prediction.map_or("the baseline", |p| &p.setting);
                run.note(format!(
                    "{}: {} under {what} is left out: {why}",
                    places[slot.place].name(),
                    loads[slot.load].name
                ));
                failed.insert(slot, why);
            }
        }
    }
    samples.retain(|slot, _| !failed.contains_key(slot));
    samples
}

/// Returns the name of a prediction's setting below `/proc/sys`.
fn path(prediction: &Prediction) -> Option<&'static str> {
    SETTINGS.iter().find(|s| s.name() == prediction.setting).map(|s| s.path)
}

/// Lists the runs: `runs` of each setting that was predicted, and half as many again of the baseline.
fn slots(
    places: &[Box<dyn TestMachine>],
    loads: &[&'static Load],
    predictions: &[Prediction],
    runs: usize,
) -> Vec<Slot> {
    let mut slots = Vec::new();
    for (place, of) in places.iter().enumerate() {
        for (load, of_load) in loads.iter().enumerate() {
            let here = |p: &&(usize, &Prediction)| p.1.place == of.name() && p.1.load == of_load.name;
            let of_cell: Vec<(usize, &Prediction)> =
                predictions.iter().enumerate().filter(|p| here(&p)).collect();
            if of_cell.is_empty() {
                continue;
            }
            let slot = |prediction| Slot { place, load, prediction };
            slots.extend(std::iter::repeat_n(slot(None), runs + runs / 2));
            for (at, _) in of_cell.iter().filter(|(_, p)| p.refused.is_none()) {
                slots.extend(std::iter::repeat_n(slot(Some(*at)), runs));
            }
        }
    }
    slots
}

fn rows(
    run: &mut Run<'_>,
    places: &[Box<dyn TestMachine>],
    loads: &[&'static Load],
    predictions: &[Prediction],
    samples: &Samples,
    seed: u64,
) -> Rows {
    let mut rows = Rows::default();
    for (at, prediction) in predictions.iter().enumerate() {
        let Some(place) = places.iter().position(|p| p.name() == prediction.place) else { continue };
        let Some(load) = loads.iter().position(|l| l.name == prediction.load) else { continue };
        rows.section(if prediction.place == "host" { HOST } else { GUEST });
        rows.setting(places[place].kernel());
        if let Some(why) = &prediction.refused {
            run.note(format!(
                "{}: {}/{} is refused: {why}",
                prediction.place, prediction.load, prediction.setting
            ));
        }
        let under = samples.get(&Slot { place, load, prediction: Some(at) });
        let baseline = samples.get(&Slot { place, load, prediction: None });
        let setting = SETTINGS.iter().find(|s| s.name() == prediction.setting);
        for figure in loads[load].figures {
            let metric = format!("{}/{}/{}", prediction.load, prediction.setting, figure.name());
            let unit = figure.unit();
            match prediction.figures.iter().find(|p| p.figure == figure) {
                Some(predicted) => {
                    rows.add(&metric, "predicted", predicted.change, unit);
                    rows.add(&metric, "predicted baseline", predicted.baseline, unit);
                    rows.add(&metric, "predicted sign", number(predicted.sign), "");
                }
                None => rows.add(&metric, "refused", 1.0, ""),
            }
            if let Some(setting) = setting {
                rows.add(&metric, "rule", number(setting.rule(figure)), "");
            }
            let (Some(under), Some(baseline)) = (under, baseline) else { continue };
            let of = |all: &[Figures]| all.iter().map(|f| f.get(figure)).collect::<Vec<_>>();
            let measured = Measured::of(&of(baseline), &of(under), seed);
            for (column, value) in [
                ("measured", measured.change),
                ("spread", measured.spread),
                ("baseline", measured.baseline),
                ("low", measured.low),
                ("high", measured.high),
            ] {
                rows.add(&metric, column, value, unit);
            }
        }
    }
    rows
}

/// Returns a sign as a number, for a column.
fn number(sign: Sign) -> f64 {
    match sign {
        Sign::Down => -1.0,
        Sign::None => 0.0,
        Sign::Up => 1.0,
    }
}
