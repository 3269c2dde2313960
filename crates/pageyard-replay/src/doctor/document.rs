//! The doctor's findings as a JSON document.

use pageyard_trace::{Document, Trust};
use serde::Serialize;

use super::cause::{Cause, Setting};
use super::diagnosis::{CauseOfAll, Diagnosis, Served, Source};
use super::report::Report;
use super::rules::ZoneCheck;
use super::trial::Change;

/// Why requests failed. What is not known has no key.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DoctorDocument<'a> {
    /// How far the findings can be trusted; of a recording.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trust: Option<&'a Trust>,
    /// `host`: requests that would fail now; `saved`: those that would have when files were saved; `log` and `trace`:
    /// requests that did; `end`: those that would at the end of a recording in which none failed.
    pub source: &'static str,
    /// The kernel.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kernel: Option<&'a str>,
    /// How many failures there are.
    pub failures: u64,
    /// First tries for a huge page on one node, which are by design: not among the failures.
    pub first_tries: u64,
    /// Of the failures, the ones for which no cause is visible.
    pub unexplained: u64,
    /// Of those, the ones for which a block was free above the watermarks, by what is known.
    pub unexplained_free: u64,
    /// Failures by what was asked for, the most frequent first.
    pub failed: Vec<FailedDocument<'a>>,
    /// Requests that would be served; of a host, or of the end of a recording.
    pub served: Vec<ServedDocument>,
    /// Causes, the likeliest first; empty where none is visible.
    pub causes: Vec<CauseDocument<'a>>,
    /// Facts that could not be read, or conclusions that could not be drawn, and why.
    pub notes: &'a [String],
}

/// Requests of one kind.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FailedDocument<'a> {
    /// The kind of report.
    pub report: Report,
    /// The order.
    pub order: u8,
    /// The gfp flags by name.
    pub gfp: String,
    /// Whether they could wait for reclaim and compaction.
    pub waits: bool,
    /// How many there are.
    pub count: u64,
    /// Of these, those without a visible cause.
    pub unexplained: u64,
    /// The process that ran then, where all had the same.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub comm: Option<&'a str>,
    /// Which check refused it in each zone that it may use, the largest first; of the first of these failures.
    pub zones: &'a [ZoneCheck],
    /// The consequence; omitted if the functions that asked do not tell it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub effect: Option<&'a str>,
}

/// A request that would be served now.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ServedDocument {
    /// The order.
    pub order: u8,
    /// The gfp flags by name.
    pub gfp: String,
    /// Whether it could wait for reclaim and compaction.
    pub waits: bool,
    /// How many such requests would be served one after the other, before anything is reclaimed or compacted.
    pub in_a_row: u64,
}

/// One cause.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CauseDocument<'a> {
    /// The cause.
    pub cause: Cause,
    /// How much speaks for it, from 0 to 1. It orders causes; it is no probability.
    pub weight: f64,
    /// In how many failures it was seen; 0 where a request is only at risk.
    pub failures: u64,
    /// The numbers that speak for it.
    pub evidence: &'a str,
    /// A remedy that works at once; omitted if none is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub helps_now: Option<&'a str>,
    /// The setting that would change it; left out where none would.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub setting: Option<&'a Setting>,
    /// The predictions of replays of the recording; omitted without a recording, and if none were asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub predicted: Option<PredictedDocument<'a>>,
    /// How far it can be trusted.
    pub confidence: ConfidenceDocument<'a>,
}

/// The predictions of replays for a setting: figures that change by at least 5 %.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PredictedDocument<'a> {
    /// Figures that become better.
    pub gain: &'a [Change],
    /// Figures that become worse.
    pub cost: &'a [Change],
}

/// How far a cause and its setting can be trusted.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ConfidenceDocument<'a> {
    /// Whether the advice is a rule of thumb: no replay tried it, or replays are not known to be better than rules.
    pub rule: bool,
    /// How many earlier predictions of this kind about this setting were right; left out where there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub right: Option<u32>,
    /// Of how many.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub of: Option<u32>,
    /// The evidence it rests on.
    pub why: &'a str,
}

impl Document for DoctorDocument<'_> {
    const SCHEMA: &'static str = "pageyard.doctor/1";
}

impl Diagnosis {
    /// Returns the diagnosis as a document.
    #[must_use]
    pub fn document(&self) -> DoctorDocument<'_> {
        let failed = self.failed.iter().map(|f| FailedDocument {
            report: f.report,
            order: f.asked.order,
            gfp: f.asked.names(),
            waits: f.asked.waits(),
            count: f.count,
            unexplained: f.unexplained,
            comm: f.comm.as_deref(),
            zones: &f.checks,
            effect: f.effect,
        });
        let served = self.served.iter().map(|Served { asked, in_a_row }| ServedDocument {
            order: asked.order,
            gfp: asked.names(),
            waits: asked.waits(),
            in_a_row: *in_a_row,
        });
        DoctorDocument {
            trust: self.trust.as_ref(),
            source: self.source.name(),
            kernel: self.kernel.as_deref(),
            failures: self.count,
            first_tries: self.first_tries,
            unexplained: self.unexplained,
            unexplained_free: self.unexplained_free,
            failed: failed.collect(),
            served: served.collect(),
            causes: self.causes.iter().map(|cause| cause.document(self.source)).collect(),
            notes: &self.notes,
        }
    }
}

impl CauseOfAll {
    fn document(&self, source: Source) -> CauseDocument<'_> {
        CauseDocument {
            cause: self.cause,
            // To the precision that it is printed with.
            weight: (self.weight * 100.0).round() / 100.0,
            failures: self.failures,
            evidence: &self.evidence,
            helps_now: self.helps_now.as_deref(),
            setting: self.setting.as_ref(),
            predicted: (self.predicted.as_ref()).map(|p| PredictedDocument { gain: &p.gain, cost: &p.cost }),
            confidence: match &self.confidence {
                Some(confidence) => ConfidenceDocument {
                    rule: confidence.is_rule,
                    right: confidence.right.map(|(right, _)| right),
                    of: confidence.right.map(|(_, of)| of),
                    why: &confidence.why,
                },
                None => ConfidenceDocument { rule: true, right: None, of: None, why: source.rests_on() },
            },
        }
    }
}

impl Source {
    /// Returns its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Source::Host => "host",
            Source::Saved => "saved",
            Source::Log => "log",
            Source::Trace => "trace",
            Source::End => "end",
        }
    }

    /// Returns what causes rest on if no setting was tried.
    #[must_use]
    pub const fn rests_on(self) -> &'static str {
        match self {
            Source::Saved => {
                "memory as the saved files have it, put through the kernel's own check of watermarks; no setting was tried"
            }
            Source::Host => {
                "memory as it is now, put through the kernel's own check of watermarks; no setting was tried"
            }
            Source::Log => {
                "what the kernel logged, put through its own check of watermarks; no setting was tried"
            }
            Source::Trace | Source::End => {
                "memory as recorded, put through the kernel's own check of watermarks; no setting was tried"
            }
        }
    }
}
