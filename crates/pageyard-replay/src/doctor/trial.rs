//! Settings tried on a recording: the reference replays it with and without, and what differs is the prediction.

use serde::Serialize;

use super::diagnosis::{Diagnosis, Source};
use crate::error::ReplayError;
use crate::replay::Progress;
use crate::what_if::{
    Figure, Figures, Reclaim, Replayed, Sign, calibration, preset, read_again, recorded_opening, replayed,
    unfit,
};
use pageyard_trace::{Trace, grouped};

/// The opening that settings are tried from where the recording tells none: an order of free blocks as good as any.
const OPENING: u64 = 1;

/// A figure, and how a setting changes it in a replay.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Change {
    /// Which.
    pub figure: Figure,
    /// In the replay without the setting.
    pub baseline: f64,
    /// In the replay with it, less that.
    pub change: f64,
}

/// A replay's prediction for a setting.
#[derive(Clone, Debug, PartialEq)]
pub struct Predicted {
    /// Figures that improve.
    pub gain: Vec<Change>,
    /// Figures that get worse.
    pub cost: Vec<Change>,
    /// The sign of the change of failures in the replay.
    pub failures: Sign,
}

/// How far a cause and its setting can be trusted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Confidence {
    /// Whether the advice is a rule of thumb: no replay tried it, or replays are not known to be better than rules.
    pub is_rule: bool,
    /// The predictions of this kind about this setting: how many were right, and how many were made; `None` if it was
    /// never tried.
    pub right: Option<(u32, u32)>,
    /// The evidence for that, or the reason why there is no prediction.
    pub why: String,
}

/// Tries the settings of a diagnosis on its recording. `chosen` names a judged preset to replay on instead of the
/// recorded kernel's; then predictions are of that kernel.
///
/// # Errors
/// When the recording cannot be replayed.
pub fn try_settings(
    trace: &Trace,
    diagnosis: &mut Diagnosis,
    chosen: Option<&str>,
    progress: &mut dyn FnMut(Progress<'_>, u64, u64),
) -> Result<(), ReplayError> {
    let refused = refused(trace, chosen)?;
    let kernel = &trace.meta().kernel;
    let name = match chosen {
        Some(name) => name,
        None => preset(kernel.trim_start_matches("Linux ")).unwrap_or_default(),
    };
    let recorded =
        if diagnosis.source == Source::Trace { diagnosis.count + diagnosis.first_tries } else { 0 };
    let opening = recorded_opening(trace, OPENING)?;
    let mut baseline: Option<Replayed> = None;
    for cause in &mut diagnosis.causes {
        let Some(setting) = &cause.setting else {
            cause.confidence = Some(untried("there is no setting to try"));
            continue;
        };
        let (Some(knob), Some(to)) = (setting.knob, &setting.to) else {
            cause.confidence =
                Some(untried("the reference does not model the setting, so no replay tried it"));
            continue;
        };
        if let Some(why) = &refused {
            cause.confidence = Some(untried(&format!("no replay is asked what the setting does: {why}")));
            continue;
        }
        let reclaims =
            matches!(knob, "min_free_kbytes" | "watermark_scale_factor" | "watermark_boost_factor");
        if let (true, Some(why)) = (reclaims, read_again(trace)?) {
            cause.confidence = Some(untried(&format!("no replay is asked what the setting does: {why}")));
            continue;
        }
        let before = match &baseline {
            Some(found) => found,
            None => baseline.insert(replayed(trace, name, &[], Reclaim::Imitated, opening, progress)?),
        };
        // A replay in which other requests fail says nothing of those that did.
        if before.refused_on_host_too * 2 < recorded {
            cause.confidence = Some(untried(&format!(
                "no replay is asked what the setting does: without it, a replay refuses only {} of the {} requests that the host refused",
                grouped(before.refused_on_host_too),
                grouped(recorded)
            )));
            continue;
        }
        let after = match replayed(
            trace,
            name,
            &[(knob.to_owned(), to.clone())],
            Reclaim::Imitated,
            opening,
            progress,
        ) {
            Ok(after) => after,
            // A value that this kernel does not take.
            Err(ReplayError::Knob { why, .. }) => {
                cause.confidence = Some(untried(&format!("no replay tried it: {why}")));
                continue;
            }
            Err(e) => return Err(e),
        };
        let predicted = Predicted::of(&before.figures, &after.figures);
        cause.confidence = Some(confidence(knob, predicted.failures, name));
        cause.predicted = Some(predicted);
    }
    Ok(())
}

/// Says why no replay of a recording can answer, where none can.
fn refused(trace: &Trace, chosen: Option<&str>) -> Result<Option<String>, ReplayError> {
    let kernel = &trace.meta().kernel;
    let name = match chosen {
        Some(name) => Some(name),
        None => preset(kernel.trim_start_matches("Linux ")),
    };
    Ok(match name {
        None => Some(format!(
            "the reference has no preset for {kernel}; `--preset linux-6.12` asks what that kernel would do"
        )),
        Some(_) => unfit(trace)?,
    })
}

fn untried(why: &str) -> Confidence {
    Confidence { is_rule: true, right: None, why: why.to_owned() }
}

/// Says how often such predictions were right.
fn confidence(knob: &str, failures: Sign, preset: &str) -> Confidence {
    let said = match failures {
        Sign::None => "that a figure stays as it is",
        Sign::Down | Sign::Up => "a change",
    };
    let right = calibration::record(knob).map(|r| r.right(failures)).filter(|(_, of)| *of > 0);
    let why = match right {
        Some((right, of)) => format!(
            "replays on {preset}; in the study of what-ifs (a guest of 6.12 under pressure), where a replay predicted {said} under this setting, it was right in {right} of {of} figures"
        ),
        None => format!(
            "replays on {preset}; the study of what-ifs has no case in which a replay predicted {said} under this setting, so how often that is right is not known"
        ),
    };
    Confidence { is_rule: calibration::BETTER_THAN_RULES_AT_LEAST <= 0.0, right, why }
}

impl Predicted {
    fn of(before: &Figures, after: &Figures) -> Predicted {
        let (mut gain, mut cost, mut failures) = (Vec::new(), Vec::new(), Sign::None);
        // Of all but free pageblocks less is better: shorter lists and fewer drains are less work, and memory that
        // others can use.
        for &figure in Figure::STUDIED {
            let baseline = before.get(figure);
            let change = after.get(figure) - baseline;
            let sign = Sign::of(change, baseline, figure.floor());
            if figure == Figure::Failures {
                failures = sign;
            }
            let wanted = if figure == Figure::FreeHuge { Sign::Up } else { Sign::Down };
            if sign == Sign::None {
                continue;
            }
            let row = Change { figure, baseline, change };
            if sign == wanted { gain.push(row) } else { cost.push(row) }
        }
        Predicted { gain, cost, failures }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn better_and_worse_are_told_apart() {
        let figures = |values: [f64; 7]| Figures(Figure::STUDIED.iter().copied().zip(values).collect());
        // Drained, listed, fallbacks, wakes, failures, stalls, free pageblocks.
        let before = figures([1000.0, 5000.0, 40.0, 10.0, 9.0, 0.0, 100.0]);
        let after = figures([2000.0, 5001.0, 10.0, 30.0, 0.0, 0.0, 120.0]);
        let predicted = Predicted::of(&before, &after);
        let names = |all: &[Change]| all.iter().map(|c| c.figure).collect::<Vec<_>>();
        assert_eq!(names(&predicted.gain), [Figure::Fallbacks, Figure::Failures, Figure::FreeHuge]);
        assert_eq!(names(&predicted.cost), [Figure::Drained, Figure::Wakes]);
        assert_eq!(predicted.failures, Sign::Down);
    }

    #[test]
    fn a_prediction_says_how_often_such_ones_were_right() {
        let known = confidence("min_free_kbytes", Sign::Down, "linux-6.12");
        assert_eq!(known.right, Some((6, 11)));
        assert!(known.why.contains("6 of 11"), "{}", known.why);
        assert_eq!(confidence("min_free_kbytes", Sign::None, "linux-6.12").right, Some((6, 9)));
        let never = confidence("compaction.extfrag_threshold", Sign::Up, "linux-6.12");
        assert!(never.right.is_none() && never.why.contains("not known"), "{}", never.why);
        assert!(confidence("defrag_mode", Sign::Down, "linux-6.12").right.is_none());
    }
}
