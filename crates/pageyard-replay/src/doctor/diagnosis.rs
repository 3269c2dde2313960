//! Causes of all failures together.

use std::collections::BTreeMap;

use pageyard_trace::KernelLog;

use super::cause::{Cause, Finding, Setting};
use super::facts::{Asked, Facts};
use super::rules::{Case, findings};
use super::trial::{Confidence, Predicted};

/// Where the facts come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// This host as it is: requests that would fail.
    Host,
    /// A kernel's log.
    Log,
    /// A recording.
    Trace,
}

/// Requests of one kind that failed.
#[derive(Clone, Debug, PartialEq)]
pub struct Failed {
    /// What they asked for.
    pub asked: Asked,
    /// How many there are.
    pub count: u64,
    /// Of these, those for which nothing explains the failure.
    pub unexplained: u64,
    /// Who asked, where that is known.
    pub comm: Option<String>,
}

/// A cause of some failures.
#[derive(Clone, Debug, PartialEq)]
pub struct CauseOfAll {
    /// The cause.
    pub cause: Cause,
    /// How much speaks for it: the mean over all failures, from 0 to 1.
    pub weight: f64,
    /// In how many failures it was seen.
    pub failures: u64,
    /// The numbers of the failure that shows it best.
    pub evidence: String,
    /// What would change it.
    pub setting: Option<Setting>,
    /// What a replay says of that.
    pub predicted: Option<Predicted>,
    /// How far all this can be trusted.
    pub confidence: Option<Confidence>,
}

/// What the doctor says.
#[derive(Clone, Debug, PartialEq)]
pub struct Diagnosis {
    /// Where the facts come from.
    pub source: Source,
    /// The kernel, where it is known.
    pub kernel: Option<String>,
    /// The requests, the most frequent kind first.
    pub failed: Vec<Failed>,
    /// Requests that were looked at and would be served now; of a host only.
    pub served: Vec<Asked>,
    /// Causes, the likeliest first.
    pub causes: Vec<CauseOfAll>,
    /// What else is to be said, a sentence each.
    pub notes: Vec<String>,
}

/// Gathers failures.
pub(super) struct Gathering {
    source: Source,
    kernel: Option<String>,
    failed: Vec<Failed>,
    served: Vec<Asked>,
    causes: BTreeMap<Cause, Gathered>,
    count: u64,
    notes: Vec<String>,
}

/// What was found of a cause.
struct Gathered {
    weight: f64,
    failures: u64,
    best: Finding,
}

/// Kinds of requests that are told apart.
const MOST_KINDS: usize = 100;

impl Gathering {
    pub(super) fn new(source: Source, kernel: Option<String>) -> Gathering {
        Gathering {
            source,
            kernel,
            failed: Vec::new(),
            served: Vec::new(),
            causes: BTreeMap::new(),
            count: 0,
            notes: Vec::new(),
        }
    }

    pub(super) fn note(&mut self, sentence: impl Into<String>) {
        self.notes.push(sentence.into());
    }

    /// Adds `count` failures that are alike.
    pub(super) fn failed(&mut self, asked: &Asked, facts: &Facts, count: u64, comm: Option<&str>) {
        let found = findings(&Case::new(asked, facts));
        self.count += count;
        let unexplained = if found.is_empty() { count } else { 0 };
        let has_room = self.failed.len() < MOST_KINDS;
        match self.failed.iter_mut().find(|f| f.asked == *asked) {
            Some(same) => {
                same.count += count;
                same.unexplained += unexplained;
                if same.comm.as_deref() != comm {
                    same.comm = None;
                }
            }
            None if has_room => self.failed.push(Failed {
                asked: asked.clone(),
                count,
                unexplained,
                comm: comm.map(str::to_owned),
            }),
            None => {}
        }
        for finding in found {
            let weight = finding.weight * count as f64;
            match self.causes.get_mut(&finding.cause) {
                Some(known) => {
                    known.weight += weight;
                    known.failures += count;
                    if finding.weight > known.best.weight {
                        known.best = finding;
                    }
                }
                None => {
                    self.causes.insert(finding.cause, Gathered { weight, failures: count, best: finding });
                }
            }
        }
    }

    /// Adds a request that might be made, if it would fail.
    pub(super) fn tried(&mut self, asked: &Asked, facts: &Facts) {
        let case = Case::new(asked, facts);
        // A served request can still be one that may not mix types.
        match case.is_served() && findings(&case).is_empty() {
            true => self.served.push(asked.clone()),
            false => self.failed(asked, facts, 1, None),
        }
    }

    pub(super) fn finish(mut self) -> Diagnosis {
        let count = self.count.max(1) as f64;
        let mut causes: Vec<_> = self
            .causes
            .into_values()
            .map(|found| CauseOfAll {
                cause: found.best.cause,
                weight: found.weight / count,
                failures: found.failures,
                evidence: found.best.evidence,
                setting: found.best.setting,
                predicted: None,
                confidence: None,
            })
            .collect();
        causes.sort_by(|a, b| b.weight.total_cmp(&a.weight).then(a.cause.cmp(&b.cause)));
        self.failed.sort_by_key(|f| std::cmp::Reverse(f.count));
        Diagnosis {
            source: self.source,
            kernel: self.kernel,
            failed: self.failed,
            served: self.served,
            causes,
            notes: self.notes,
        }
    }
}

impl Diagnosis {
    /// Explains the failures that a kernel logged.
    #[must_use]
    pub fn of_log(log: &KernelLog) -> Diagnosis {
        let kernel = log.failures.iter().find_map(|f| f.kernel.clone());
        let mut all = Gathering::new(Source::Log, kernel);
        let mut without = 0u64;
        for failure in &log.failures {
            let (asked, facts) = Facts::of_log(failure);
            without += u64::from(facts.zones.is_empty());
            all.failed(&asked, &facts, 1, Some(&failure.request.comm));
        }
        let left_out = log.count - log.failures.len() as u64;
        if left_out > 0 {
            all.note(format!(
                "{left_out} failures after the first {} were not looked at.",
                log.failures.len()
            ));
        }
        if without > 0 {
            all.note(format!(
                "{without} of the failures have no lines about zones: the log was cut, or the kernel left them out; without them nothing can be said of those."
            ));
        }
        all.note("A log does not show settings, nor what each pageblock holds: `pageyard doctor` on the host itself, as root, does.");
        all.finish()
    }

    /// Judges a host for requests that might be made.
    #[must_use]
    pub fn of_host(facts: &Facts, asked: &[Asked], not_read: &[String]) -> Diagnosis {
        let mut all = Gathering::new(Source::Host, facts.kernel.clone());
        for asked in asked {
            all.tried(asked, facts);
        }
        for sentence in not_read {
            all.note(sentence.clone());
        }
        all.finish()
    }

    /// Returns how many failures there are.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.failed.iter().map(|f| f.count).sum()
    }
}
