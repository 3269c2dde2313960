//! Causes of all failures together.

use std::collections::BTreeMap;

use pageyard_trace::kernel_log::LoggedFailure;
use pageyard_trace::{KernelLog, Trust};

use super::cause::{Cause, Finding, Setting};
use super::effect::{effect, helps_now};
use super::facts::{Asked, Facts};
use super::report::{Report, named};
use super::rules::{Case, ZoneCheck, at_risk, findings};
use super::settings;
use super::trial::{Confidence, Predicted};

/// Where the facts come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// This host as it is: requests that would fail.
    Host,
    /// A host's files, saved earlier: requests that would have failed then.
    Saved,
    /// A kernel's log.
    Log,
    /// A recording.
    Trace,
    /// The end of a recording in which nothing failed: requests that would fail then.
    End,
}

/// Requests of one kind that failed.
#[derive(Clone, Debug, PartialEq)]
pub struct Failed {
    /// The kind of report.
    pub report: Report,
    /// The request.
    pub asked: Asked,
    /// How many there are.
    pub count: u64,
    /// Of these, those for which nothing explains the failure.
    pub unexplained: u64,
    /// Who asked, where that is known.
    pub comm: Option<String>,
    /// Which check refused it in each zone that it may use, the largest first; of the first of these failures.
    pub checks: Vec<ZoneCheck>,
    /// The consequence, if the functions that asked tell it.
    pub effect: Option<&'static str>,
}

/// A request that would be served now.
#[derive(Clone, Debug, PartialEq)]
pub struct Served {
    /// The request.
    pub asked: Asked,
    /// How many such requests would be served one after the other, before anything is reclaimed or compacted.
    pub in_a_row: u64,
}

/// A cause of some failures.
#[derive(Clone, Debug, PartialEq)]
pub struct CauseOfAll {
    /// The cause.
    pub cause: Cause,
    /// How much speaks for it: the mean over all failures, and requests of a host that are at risk, from 0 to 1.
    pub weight: f64,
    /// In how many failures it was seen; 0 where a request is only at risk.
    pub failures: u64,
    /// The numbers of the failure that shows it best.
    pub evidence: String,
    /// A remedy that works at once.
    pub helps_now: Option<String>,
    /// The setting that would change it.
    pub setting: Option<Setting>,
    /// A replay's prediction for that setting.
    pub predicted: Option<Predicted>,
    /// How far all this can be trusted.
    pub confidence: Option<Confidence>,
}

/// The doctor's findings.
#[derive(Clone, Debug, PartialEq)]
pub struct Diagnosis {
    /// How far the findings can be trusted, where they stand on a recording.
    pub trust: Option<Trust>,
    /// Where the facts come from.
    pub source: Source,
    /// The kernel, where it is known.
    pub kernel: Option<String>,
    /// How many requests failed.
    pub count: u64,
    /// First tries for a huge page on one node, which are by design: not among those that failed.
    pub first_tries: u64,
    /// Of these, those for which nothing explains the failure.
    pub unexplained: u64,
    /// Of those, the ones for which a block was free above the watermarks, by what is known.
    pub unexplained_free: u64,
    /// The requests by kind, the most frequent first: [`MOST_KINDS`] kinds at most.
    pub failed: Vec<Failed>,
    /// Requests that were looked at and would be served; of a host, or of the end of a recording.
    pub served: Vec<Served>,
    /// Causes, the likeliest first.
    pub causes: Vec<CauseOfAll>,
    /// Further remarks, a sentence each.
    pub notes: Vec<String>,
}

/// Gathers failures.
pub(super) struct Gathering {
    trust: Option<Trust>,
    source: Source,
    kernel: Option<String>,
    failed: Vec<Failed>,
    served: Vec<Served>,
    causes: BTreeMap<Cause, Gathered>,
    count: u64,
    unexplained: u64,
    unexplained_free: u64,
    /// Failures that are by design, and not counted.
    pub(super) first_tries: u64,
    /// Requests that are served, and would not be for long.
    at_risk: u64,
    notes: Vec<String>,
}

/// The findings of one cause.
struct Gathered {
    weight: f64,
    failures: u64,
    best: Finding,
    helps_now: Option<String>,
}

/// Kinds of requests that are told apart.
pub const MOST_KINDS: usize = 100;

impl Gathering {
    pub(super) fn new(source: Source, kernel: Option<String>) -> Gathering {
        Gathering {
            trust: None,
            source,
            kernel,
            failed: Vec::new(),
            served: Vec::new(),
            causes: BTreeMap::new(),
            count: 0,
            unexplained: 0,
            unexplained_free: 0,
            first_tries: 0,
            at_risk: 0,
            notes: Vec::new(),
        }
    }

    pub(super) fn note(&mut self, sentence: impl Into<String>) {
        self.notes.push(sentence.into());
    }

    /// Adds `count` failures that are alike.
    pub(super) fn failed(&mut self, asked: &Asked, facts: &Facts, count: u64, comm: Option<&str>) {
        let case = Case::failed(asked, facts);
        let found = findings(&case);
        self.add(Report::AllocationFailure, &case, found, count, comm);
    }

    /// Adds what a kernel logged.
    fn logged(&mut self, failure: &LoggedFailure) {
        let (asked, facts) = Facts::of_log(failure);
        let case = Case::failed(&asked, &facts);
        let kind = &failure.request.kind;
        let named = named(&failure.request, &asked, &facts);
        let mut found = if named.with_zones && asked.is_shown { findings(&case) } else { Vec::new() };
        found.extend(named.finding);
        for finding in &mut found {
            finding.setting = finding.setting.take().filter(|setting| settings::has(&facts, setting.name));
        }
        found.sort_by(|a, b| b.weight.total_cmp(&a.weight).then(a.cause.cmp(&b.cause)));
        self.add(Report::of(kind), &case, found, 1, Some(&failure.request.comm));
    }

    /// Returns whether nothing failed so far.
    pub(super) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Sets how far the findings can be trusted.
    pub(super) fn trusted(&mut self, trust: Trust) {
        self.trust = Some(trust);
    }

    /// Marks the findings as a forecast: no request failed.
    pub(super) fn nothing_failed(&mut self) {
        self.source = Source::End;
    }

    fn add(&mut self, report: Report, case: &Case<'_>, found: Vec<Finding>, count: u64, comm: Option<&str>) {
        let asked = case.asked;
        self.count += count;
        let unexplained = if found.is_empty() { count } else { 0 };
        self.unexplained += unexplained;
        self.unexplained_free += if case.is_served() && asked.is_shown { unexplained } else { 0 };
        let has_room = self.failed.len() < MOST_KINDS;
        match self.failed.iter_mut().find(|f| f.report == report && f.asked == *asked) {
            Some(same) => {
                same.count += count;
                same.unexplained += unexplained;
                if same.comm.as_deref() != comm {
                    same.comm = None;
                }
            }
            None if has_room => self.failed.push(Failed {
                report,
                asked: asked.clone(),
                count,
                unexplained,
                comm: comm.map(str::to_owned).filter(|comm| !comm.is_empty()),
                checks: if asked.is_shown { case.checks() } else { Vec::new() },
                effect: effect(report, asked, case.facts),
            }),
            None => {}
        }
        for finding in found {
            self.found(finding, case, count);
        }
    }

    /// Adds what speaks for a cause of so many failures; of none, where a request is only at risk.
    fn found(&mut self, finding: Finding, case: &Case<'_>, count: u64) {
        let weight = finding.weight * count.max(1) as f64;
        match self.causes.get_mut(&finding.cause) {
            Some(known) => {
                known.weight += weight;
                known.failures += count;
                if finding.weight > known.best.weight {
                    known.helps_now = helps_now(finding.cause, case.asked, case.facts);
                    known.best = finding;
                }
            }
            None => {
                let helps_now = helps_now(finding.cause, case.asked, case.facts);
                let gathered = Gathered { weight, failures: count, best: finding, helps_now };
                self.causes.insert(gathered.best.cause, gathered);
            }
        }
    }

    /// Adds a request that might be made, if it would fail.
    pub(super) fn tried(&mut self, asked: &Asked, facts: &Facts) {
        let case = Case::tried(asked, facts);
        // A served request can still be one that may not mix types.
        let found = findings(&case);
        if !case.is_served() || !found.is_empty() {
            self.add(Report::AllocationFailure, &case, found, 1, None);
            return;
        }
        if let Some(risk) = at_risk(&case) {
            // It has not failed yet: it weighs as much as one that has.
            self.at_risk += 1;
            self.found(risk, &case, 0);
        }
        self.served.push(Served { asked: asked.clone(), in_a_row: case.in_a_row() });
    }

    pub(super) fn finish(mut self) -> Diagnosis {
        if self.trust.as_ref().is_some_and(Trust::is_low) {
            self.causes.clear();
            self.note("So much was lost that no cause is named and no setting advised.");
        }
        let count = (self.count + self.at_risk).max(1) as f64;
        let mut causes: Vec<_> = self
            .causes
            .into_values()
            .map(|found| CauseOfAll {
                cause: found.best.cause,
                weight: found.weight / count,
                failures: found.failures,
                evidence: found.best.evidence,
                helps_now: found.helps_now,
                setting: found.best.setting,
                predicted: None,
                confidence: None,
            })
            .collect();
        causes.sort_by(|a, b| b.weight.total_cmp(&a.weight).then(a.cause.cmp(&b.cause)));
        self.failed.sort_by_key(|f| std::cmp::Reverse(f.count));
        let beyond = self.count - self.failed.iter().map(|f| f.count).sum::<u64>();
        if beyond > 0 {
            self.notes.push(format!(
                "{beyond} failures are of kinds beyond the first {MOST_KINDS}: they are weighed with the others, and not listed."
            ));
        }
        Diagnosis {
            trust: self.trust,
            source: self.source,
            kernel: self.kernel,
            count: self.count,
            first_tries: self.first_tries,
            unexplained: self.unexplained,
            unexplained_free: self.unexplained_free,
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
        for failure in &log.failures {
            all.logged(failure);
        }
        let needs_zones = |f: &&LoggedFailure| !f.request.kind.has_no_memory();
        let count = |is: fn(&LoggedFailure) -> bool| {
            log.failures.iter().filter(needs_zones).filter(|f| is(f)).count()
        };
        let without =
            count(|f| f.zones.is_empty() && f.frame_kib.is_some() || f.zones.is_empty() && !f.has_sizes);
        let unsized_frames = count(|f| f.zones.is_empty() && f.frame_kib.is_none() && f.has_sizes);
        let cut = count(|f| f.is_cut && !f.zones.is_empty());
        let left_out = log.count - log.failures.len() as u64;
        if left_out > 0 {
            all.note(format!(
                "{left_out} failures before the latest {} were not looked at.",
                log.failures.len()
            ));
        }
        for (n, what) in [
            (
                without,
                "have no lines about zones: the log was cut, or the kernel left them out; without them nothing can be said of those",
            ),
            (
                unsized_frames,
                "do not show how large a page is, and kernels have pages of 4, 16 and 64 KiB: give it the whole report, with its lists of blocks",
            ),
            (cut, "lack a part: zones without watermarks, or without their blocks"),
        ] {
            if n > 0 {
                all.note(format!("{n} of the failures {what}."));
            }
        }
        all.note("A log does not show settings, nor what each pageblock holds: `pageyard doctor` on the host itself, as root, does.");
        all.finish()
    }

    /// Judges a host for requests that might be made; `source` says whether it is this one.
    #[must_use]
    pub fn of_host(source: Source, facts: &Facts, asked: &[Asked], not_read: &[String]) -> Diagnosis {
        let mut all = Gathering::new(source, facts.kernel.clone());
        for asked in asked {
            all.tried(asked, facts);
        }
        for sentence in not_read {
            all.note(sentence.clone());
        }
        all.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::super::facts::Zone;
    use super::*;
    use pageyard::Gfp;
    use pageyard_trace::kernel_log::HostZone;

    /// 6.18 with plenty free, all of it on lists for movable memory.
    fn movable_alone() -> Facts {
        let zone = Zone {
            node: 0,
            kind: HostZone::Normal,
            has_marks: true,
            free: 600_000,
            boost: 0,
            min: 4000,
            high: 6000,
            highatomic: 0,
            managed: 1_000_000,
            pcp: 0,
            cma: 0,
            protection: Vec::new(),
            blocks: vec![0, 0, 0, 75_000],
            types: vec![String::new(), String::new(), String::new(), "M".to_owned()],
        };
        Facts { kernel: Some("6.18.44".to_owned()), zones: vec![zone], ..Facts::default() }
    }

    #[test]
    fn a_request_that_was_not_refused_is_not_said_to_be_for_a_setting_that_is_not_known() {
        let asked = [Asked::new(0, Gfp::HIGH | Gfp::KSWAPD_RECLAIM)];
        let mut facts = movable_alone();
        for types in ["M", "UM", ""] {
            facts.zones[0].types[3] = types.to_owned();
            let diagnosis = Diagnosis::of_host(Source::Host, &facts, &asked, &[]);
            assert!(diagnosis.failed.is_empty() && diagnosis.causes.is_empty(), "{diagnosis}");
            assert_eq!(
                diagnosis.served[0].in_a_row,
                600_000 - 1500,
                "down to three eighths of the watermark"
            );
        }
        // One that was refused is.
        facts.zones[0].types[3] = "M".to_owned();
        let mut refused = Gathering::new(Source::Trace, facts.kernel.clone());
        refused.failed(&asked[0], &facts, 1, None);
        assert_eq!(refused.finish().causes[0].cause, Cause::DefragMode);
        // And so would one be where the setting is on.
        facts.settings.insert("vm/defrag_mode".to_owned(), "1".to_owned());
        assert_eq!(Diagnosis::of_host(Source::Host, &facts, &asked, &[]).causes[0].cause, Cause::DefragMode);
    }

    /// Numbers of a guest of 4 GiB whose balloon took 3, and whose processes have the rest.
    #[test]
    fn a_balloon_that_holds_what_is_lacking_is_named_before_who_uses_the_rest() {
        let mut facts = movable_alone();
        let zone = &mut facts.zones[0];
        (zone.managed, zone.free, zone.min, zone.high) = (250_000, 1_000, 4_000, 6_000);
        (zone.blocks, zone.types) = (vec![1_000], vec!["UM".to_owned()]);
        (facts.file, facts.lru, facts.swap_free) = (Some(5_000), Some(240_000), Some(0));
        let asked = [Asked::new(0, pageyard_trace::failures::gfp_of_names("GFP_KERNEL"))];
        let causes = |facts: &Facts| {
            let diagnosis = Diagnosis::of_host(Source::Host, facts, &asked, &[]);
            diagnosis.causes.iter().map(|c| c.cause).collect::<Vec<_>>()
        };
        assert_eq!(causes(&facts), [Cause::OutOfMemory]);
        facts.ballooned = Some(0);
        assert_eq!(causes(&facts), [Cause::OutOfMemory], "a balloon that holds nothing");
        facts.ballooned = Some(750_000);
        assert_eq!(causes(&facts)[0], Cause::Ballooned);
        // Too little to have helped, and just enough for once.
        for small in [100, 6_000] {
            facts.ballooned = Some(small);
            assert_eq!(causes(&facts)[0], Cause::OutOfMemory);
        }
        // A request that is served has no cause.
        facts.ballooned = Some(750_000);
        facts.zones[0].free = 200_000;
        facts.zones[0].blocks = vec![200_000];
        assert_eq!(causes(&facts), []);
    }

    #[test]
    fn failures_of_more_kinds_than_are_listed_are_counted_and_said() {
        let mut all = Gathering::new(Source::Trace, None);
        let some = [Gfp::HIGH, Gfp::IO, Gfp::FS, Gfp::NOWARN];
        for n in 0..150usize {
            let gfp = some.iter().enumerate().filter(|(bit, _)| n >> bit & 1 == 1);
            let gfp = gfp.fold(Gfp::empty(), |all, (_, gfp)| all | *gfp);
            all.failed(&Asked::new((n / 16) as u8, gfp), &Facts::default(), 2, None);
        }
        let diagnosis = all.finish();
        assert_eq!((diagnosis.count, diagnosis.unexplained, diagnosis.failed.len()), (300, 300, MOST_KINDS));
        let listed: u64 = diagnosis.failed.iter().map(|f| f.count).sum();
        let said = format!("{} failures are of kinds beyond the first 100", 300 - listed);
        assert!(diagnosis.notes.iter().any(|note| note.starts_with(&said)), "{:?}", diagnosis.notes);
        assert!(diagnosis.to_string().contains("300 failed requests"), "{diagnosis}");
    }
}
