//! Claims about a router as predicates of the model, each judged for its default, with parameters moved one at a time,
//! and at rates below, at and above the highest that its host forwards without loss.
//!
//! A model with chosen parameters cannot say whether somebody's router did what its owner saw. It can say whether that
//! follows from the parameters, and which of them it hangs on: each claim names a few, with a plausible range that was
//! written down before it was judged, and says for how many of the settings it holds. A setting in which the claim's
//! subject never comes up (a full transmit ring where none ever fills) says nothing and is counted apart.
//!
//! * `lab`: runs settings, each once; `spread`: on every CPU;
//! * `thread`: the claims themselves; `rings`: the limits of rings.

mod lab;
mod rings;
mod spread;
mod thread;

pub(crate) use lab::Lab;
pub use rings::{RingLimits, ring_limits};

use super::run::Effort;
use super::settings::RouterSettings;
use crate::error::BenchError;
use spread::spread;
use std::fmt::Write;
pub(crate) use thread::CLAIMS;

/// A parameter that a claim may hang on, and how far it is moved.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Range {
    /// Its name.
    pub name: &'static str,
    /// The plausible values beside the claim's own, lowest first.
    pub values: &'static [&'static str],
    /// Why these.
    pub why: &'static str,
}

/// Whether a claim holds for a setting, and what was seen. `None` where its subject never came up.
pub(crate) type Seen = Result<(Option<bool>, String), BenchError>;

/// The rate that a setting is offered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Rate {
    /// The one that it names.
    Named,
    /// So many percent of the highest that it forwards without loss.
    OfLimit(u64),
}

/// Rates that every claim is judged at beside its own, in percent of the limit of its own setting.
const AROUND: [u64; 3] = [90, 100, 110];

/// A claim.
pub(crate) struct RouterClaim {
    /// The claim, in few words.
    pub name: &'static str,
    /// When it counts as holding.
    pub asked: &'static str,
    /// The settings that differ from the defaults.
    pub set: &'static [(&'static str, &'static str)],
    /// The rate that it is about.
    pub rate: Rate,
    /// The parameters that it may depend on.
    pub ranges: &'static [Range],
    /// Judges a setting.
    pub judge: fn(&Lab, &RouterSettings) -> Seen,
}

/// One setting of a claim.
#[derive(Clone, Debug)]
pub struct Setting {
    /// The name and the value of the parameter that was moved; empty for the claim's own setting.
    pub moved: String,
    /// Whether the claim holds; `None` where the setting says nothing of it.
    pub holds: Option<bool>,
    /// The figures that it was judged by.
    pub seen: String,
}

/// A claim that was judged.
#[derive(Clone, Debug)]
pub struct Judged {
    /// The claim.
    pub name: &'static str,
    /// When it counts as holding.
    pub asked: &'static str,
    /// The settings, its own first.
    pub settings: Vec<Setting>,
    /// Which parameters were moved how far, and why so far.
    pub moved: String,
}

impl Judged {
    /// Returns for how many settings it holds, of how many that say something of it.
    #[must_use]
    pub fn count(&self) -> (usize, usize) {
        let judged = self.settings.iter().filter_map(|s| s.holds);
        (judged.clone().filter(|holds| *holds).count(), judged.count())
    }

    /// Returns how many settings say nothing of it.
    #[must_use]
    pub fn idle(&self) -> usize {
        self.settings.iter().filter(|s| s.holds.is_none()).count()
    }

    /// Returns the share of settings for which it holds, of those that say something, in percent; `None` where none
    /// does.
    #[must_use]
    pub fn share_pct(&self) -> Option<f64> {
        let (holds, judged) = self.count();
        (judged > 0).then(|| 100.0 * holds as f64 / judged as f64)
    }

    /// Says in one line whether the claim is consistent with the model, and which parameters decide that.
    #[must_use]
    pub fn line(&self) -> String {
        let own = self.settings.first().and_then(|s| s.holds);
        let (holds, judged) = self.count();
        let alone = self.settings.len() == 1;
        let verdict = match (own, alone) {
            (None, true) => "not carried; a quick run moves no parameter and searches no limits",
            (None, false) if judged == 0 => "not carried: no setting says anything of it",
            (None, false) => "not carried for these parameters",
            (Some(true), true) => "consistent for these parameters; a quick run moves none of them",
            (Some(false), true) => "not consistent for these parameters; a quick run moves none of them",
            (Some(true), false) if holds == judged => {
                "consistent for these parameters, and over this range of them"
            }
            (Some(true), false) => "consistent for these parameters, but not over the whole range",
            (Some(false), false) if holds == 0 => {
                "not consistent, neither for these parameters nor over this range of them"
            }
            (Some(false), false) => "not consistent for these parameters",
        };
        let seen = self.settings.first().map_or("", |s| &s.seen);
        let mut line = format!(
            "{}: {verdict}; it holds for {holds} of {judged} setting{}{} (asked: {}; here {seen}).",
            self.name,
            if judged == 1 { "" } else { "s" },
            match self.idle() {
                0 => String::new(),
                idle => format!(", and {idle} say nothing of it"),
            },
            self.asked
        );
        let others: Vec<String> = self
            .settings
            .iter()
            .skip(1)
            .filter(|s| s.holds.is_some() && s.holds != own)
            .map(|s| format!("{} ({})", s.moved, s.seen))
            .collect();
        if !others.is_empty() {
            let what = match own {
                Some(true) => "It breaks with",
                Some(false) => "It would hold with",
                None => "It is judged with",
            };
            let _ = write!(line, " {what} {}.", others.join(", "));
        }
        line
    }
}

/// A setting that a claim is judged for.
struct Case {
    claim: &'static RouterClaim,
    moved: String,
    settings: RouterSettings,
    rate: Rate,
}

impl Case {
    /// Judges the claim.
    fn judge(&self, lab: &Lab) -> Result<Setting, BenchError> {
        let setting = |holds, seen| Setting { moved: self.moved.clone(), holds, seen };
        let Rate::OfLimit(pct) = self.rate else {
            let (holds, seen) = (self.claim.judge)(lab, &self.settings)?;
            return Ok(setting(holds, seen));
        };
        if lab.is_quick() {
            return Ok(setting(None, "a quick run searches no limits".to_owned()));
        }
        let Some(limit) = lab.limit(&self.settings)? else {
            return Ok(setting(None, "it loses packets at every rate".to_owned()));
        };
        if pct > 100 && limit >= self.settings.wires_gbit() {
            return Ok(setting(None, format!("it forwards the {limit:.0} Gbit/s that its wires carry")));
        }
        let rate = limit * pct as f64 / 100.0;
        let (holds, seen) = (self.claim.judge)(lab, &self.settings.at_rate(rate))?;
        Ok(setting(holds, format!("{seen}, at {rate:.1} Gbit/s")))
    }
}

/// Judges every claim of the thread, on every CPU at once; a quick judge looks at each claim's own setting only.
/// `progress` is told how many of how many settings are done.
///
/// # Errors
/// As [`super::route`].
pub fn judge(
    quick: bool,
    progress: &mut dyn FnMut(usize, usize),
) -> Result<(Vec<Judged>, Effort), BenchError> {
    let lab = Lab::new(quick);
    let judged = judge_all(thread::CLAIMS, &lab, progress)?;
    Ok((judged, lab.effort()))
}

fn judge_all(
    claims: &'static [RouterClaim],
    lab: &Lab,
    progress: &mut dyn FnMut(usize, usize),
) -> Result<Vec<Judged>, BenchError> {
    let take = |claim| cases_of(claim).into_iter().take(if lab.is_quick() { 1 } else { usize::MAX });
    let cases: Vec<Case> = claims.iter().flat_map(take).collect();
    let mut settings = spread(cases.len(), |n| cases[n].judge(lab), progress)?.into_iter();
    let mut judged = Vec::new();
    for claim in claims {
        let of = cases.iter().filter(|case| std::ptr::eq(case.claim, claim)).count();
        let settings = settings.by_ref().take(of).collect();
        judged.push(Judged { name: claim.name, asked: claim.asked, settings, moved: moved(claim) });
    }
    Ok(judged)
}

/// Says which of a claim's parameters are moved, how far, and why.
fn moved(claim: &RouterClaim) -> String {
    let one = |r: &Range| format!("`{}` to {} ({})", r.name, r.values.join(", "), r.why);
    claim.ranges.iter().map(one).collect::<Vec<_>>().join("; ")
}

/// Returns a claim's own setting, those with one parameter moved, and its own at rates around its limit.
fn cases_of(claim: &'static RouterClaim) -> Vec<Case> {
    let own = RouterSettings::default().with(claim.set);
    let case = |moved, settings, rate| Case { claim, moved, settings, rate };
    let mut cases = vec![case(String::new(), own.clone(), claim.rate)];
    for range in claim.ranges {
        for value in range.values {
            let settings = own.with(&[(range.name, value)]);
            cases.push(case(format!("{}={value}", range.name), settings, claim.rate));
        }
    }
    for pct in AROUND {
        if claim.rate != Rate::OfLimit(pct) {
            cases.push(case(format!("{pct} % of its limit"), own.clone(), Rate::OfLimit(pct)));
        }
    }
    cases
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Claims whose condition compares receive rings.
    const VARY_RX: [&str; 4] = [
        "RX rings below 4096 drop",
        "RX 3000 to 8192 and rx-usecs 16 to 64 change interrupts, not bandwidth",
        "The optimal ring is the packet rate over the interrupt rate",
        "Large rings are buffer bloat: far more frames, and more of memory's bandwidth",
    ];

    #[test]
    fn every_claim_names_parameters_that_there_are_and_moves_them() {
        for claim in thread::CLAIMS {
            let cases = cases_of(claim);
            assert!((2..=5).contains(&claim.ranges.len()), "{}", claim.name);
            assert!(claim.ranges.iter().all(|r| !r.why.is_empty() && !r.values.is_empty()), "{}", claim.name);
            for case in &cases[1..] {
                let same = case.settings == cases[0].settings && case.rate == cases[0].rate;
                assert!(!same, "{}: {} moves nothing", claim.name, case.moved);
                case.settings.check().unwrap();
            }
            let ring = |name| claim.set.iter().chain(&[("", "")]).any(|(set, _)| *set == name);
            let moved = claim.ranges.iter().any(|r| r.name == "rx-ring");
            assert!(moved || ring("rx-ring") || VARY_RX.contains(&claim.name), "{}", claim.name);
            let rates = |pct| cases.iter().any(|c| c.rate == Rate::OfLimit(pct));
            assert!(AROUND.into_iter().all(rates), "{}", claim.name);
        }
        let names: std::collections::BTreeSet<_> = thread::CLAIMS.iter().map(|c| c.name).collect();
        assert_eq!(names.len(), thread::CLAIMS.len());
    }

    #[test]
    fn the_study_has_every_claim_with_how_far_its_parameters_are_moved() {
        use std::fmt::Write;
        let mut table =
            String::from("| claim | when it counts as holding | moved, one at a time |\n|---|---|---|\n");
        for claim in thread::CLAIMS {
            let _ = writeln!(table, "| {} | {} | {} |", claim.name, claim.asked, moved(claim));
        }
        let study = include_str!("../../../../../docs/studies/forwarding.md");
        assert!(study.contains(&table), "docs/studies/forwarding.md lacks this table:\n{table}");
    }

    #[test]
    fn a_verdict_says_for_how_many_settings_and_what_decides() {
        let setting = |moved: &str, holds| Setting { moved: moved.into(), holds, seen: "x".into() };
        let judged =
            |settings| Judged { name: "it drops", asked: "more than 0", settings, moved: String::new() };
        let of = |holds: [Option<bool>; 3]| {
            judged(vec![setting("", holds[0]), setting("a=1", holds[1]), setting("a=2", holds[2])])
        };
        let (yes, no) = (Some(true), Some(false));
        let held = of([yes; 3]).line();
        assert!(held.starts_with("it drops: consistent for these parameters, and over this range"), "{held}");
        let broken = of([yes, no, yes]).line();
        assert!(
            broken.contains("holds for 2 of 3 settings (") && broken.contains("It breaks with a=1 (x)."),
            "{broken}"
        );
        let other = of([no, no, yes]).line();
        assert!(
            other.contains("not consistent for these parameters") && other.contains("would hold with a=2")
        );
        assert!(of([no; 3]).line().contains("neither for these"));
        assert_eq!(of([no, no, yes]).share_pct().map(f64::round), Some(33.0));
        let quick = judged(vec![setting("", yes)]).line();
        assert!(
            quick.contains("a quick run moves none of them; it holds for 1 of 1 setting (asked"),
            "{quick}"
        );
        let part = of([None, no, yes]);
        assert_eq!((part.count(), part.idle(), part.share_pct()), ((1, 2), 1, Some(50.0)));
        let line = part.line();
        assert!(
            line.contains(
                "not carried for these parameters; it holds for 1 of 2 settings, and 1 say nothing"
            ),
            "{line}"
        );
        assert!(line.contains("It is judged with a=1 (x), a=2 (x)."), "{line}");
        let none = of([None; 3]);
        assert!(
            none.line().contains("not carried: no setting says anything of it") && none.share_pct().is_none()
        );
    }

    #[test]
    fn a_claim_is_judged_for_each_setting_that_is_moved_and_below_at_and_above_its_limit() {
        static CLAIM: [RouterClaim; 1] = [RouterClaim {
            name: "a ring of 64 drops",
            asked: "any packet",
            set: &[
                ("rx-ring", "64"),
                ("rx-usecs", "500"),
                ("rx-frames", "0"),
                ("tx-usecs", "100000"),
                ("tx-frames", "0"),
                ("cpus", "1"),
                ("offered-gbit", "2"),
                ("arrivals", "paced"),
                ("stall-us", "0"),
            ],
            rate: Rate::Named,
            ranges: &[Range { name: "rx-ring", values: &["4096"], why: "the largest that the thread uses" }],
            judge: |lab, settings| {
                let of = lab.run(settings)?;
                Ok((
                    Some(of.dropped_pct > super::super::throughput::NONE_PCT),
                    format!("{:.1} %", of.dropped_pct),
                ))
            },
        }];
        let mut last = (0, 0);
        let lab = Lab::new(false);
        let judged = &judge_all(&CLAIM, &lab, &mut |done, all| last = (done, all)).unwrap()[0];
        let holds: Vec<Option<bool>> = judged.settings.iter().map(|s| s.holds).collect();
        assert_eq!(
            (holds, last),
            (vec![Some(true), Some(false), Some(false), Some(false), Some(true)], (5, 5))
        );
        assert_eq!(judged.settings[1].moved, "rx-ring=4096");
        assert!(
            judged.settings[4].seen.contains("Gbit/s") && judged.settings[4].moved == "110 % of its limit"
        );
        assert!(lab.effort().packets > 0);
        let quick = &judge_all(&CLAIM, &Lab::new(true), &mut |_, _| ()).unwrap()[0];
        assert_eq!(quick.count(), (1, 1));
    }
}
