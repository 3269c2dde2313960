//! Claims about a router as predicates of the model, each judged for its default and with parameters moved one at a
//! time.
//!
//! A model with chosen parameters cannot say whether somebody's router did what its owner saw. It can say whether that
//! follows from the parameters, and which of them it hangs on: each claim names a few, with a plausible range that was
//! written down before it was judged, and says for how many of the settings it holds.
//!
//! * `lab`: runs settings, each once; `thread`: the claims themselves.

mod lab;
mod thread;

pub(crate) use lab::Lab;

use super::run::Effort;
use super::settings::RouterSettings;
use crate::error::BenchError;
use std::fmt::Write;

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

/// Whether a claim holds for a setting, and what was seen.
pub(crate) type Seen = Result<(bool, String), BenchError>;

/// A claim.
pub(crate) struct RouterClaim {
    /// The claim, in few words.
    pub name: &'static str,
    /// When it counts as holding.
    pub asked: &'static str,
    /// The settings that differ from the defaults.
    pub set: &'static [(&'static str, &'static str)],
    /// The parameters that it may depend on.
    pub ranges: &'static [Range],
    /// Judges a setting.
    pub judge: fn(&mut Lab, &RouterSettings) -> Seen,
}

/// One setting of a claim.
#[derive(Clone, Debug)]
pub struct Setting {
    /// The name and the value of the parameter that was moved; empty for the claim's own setting.
    pub moved: String,
    /// Whether the claim holds.
    pub holds: bool,
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
    /// Returns for how many settings of how many it holds.
    #[must_use]
    pub fn count(&self) -> (usize, usize) {
        (self.settings.iter().filter(|s| s.holds).count(), self.settings.len())
    }

    /// Returns the share of settings for which it holds, in percent.
    #[must_use]
    pub fn share_pct(&self) -> f64 {
        let (holds, all) = self.count();
        100.0 * holds as f64 / all.max(1) as f64
    }

    /// Says in one line whether the claim is consistent with the model, and which parameters decide that.
    #[must_use]
    pub fn line(&self) -> String {
        let own = self.settings.first().is_some_and(|s| s.holds);
        let (holds, all) = self.count();
        let verdict = match (own, holds == all, holds) {
            _ if all == 1 && own => "consistent for these parameters; a quick run moves none of them",
            _ if all == 1 => "not consistent for these parameters; a quick run moves none of them",
            (true, true, _) => "consistent for these parameters, and over this range of them",
            (true, false, _) => "consistent for these parameters, but not over the whole range",
            (false, _, 0) => "not consistent, neither for these parameters nor over this range of them",
            (false, ..) => "not consistent for these parameters",
        };
        let seen = self.settings.first().map_or("", |s| &s.seen);
        let mut line = format!(
            "{}: {verdict}; it holds for {holds} of {all} setting{} (asked: {}; here {seen}).",
            self.name,
            if all == 1 { "" } else { "s" },
            self.asked
        );
        let others: Vec<String> = self
            .settings
            .iter()
            .skip(1)
            .filter(|s| s.holds != own)
            .map(|s| format!("{} ({})", s.moved, s.seen))
            .collect();
        if !others.is_empty() {
            let what = if own { "It breaks with" } else { "It would hold with" };
            let _ = write!(line, " {what} {}.", others.join(", "));
        }
        line
    }
}

/// Judges every claim of the thread; a quick judge looks at each claim's own setting only. `progress` is told how many
/// of how many settings are done.
///
/// # Errors
/// As [`super::route`].
pub fn judge(
    quick: bool,
    progress: &mut dyn FnMut(usize, usize),
) -> Result<(Vec<Judged>, Effort), BenchError> {
    let mut lab = Lab::new(quick);
    let mut judged = Vec::new();
    let take = |claim: &RouterClaim| if quick { 1 } else { settings_of(claim).len() };
    let all = thread::CLAIMS.iter().map(take).sum();
    let mut done = 0;
    for claim in thread::CLAIMS {
        let one = judge_one(claim, take(claim), &mut lab, &mut || {
            done += 1;
            progress(done, all);
        })?;
        judged.push(one);
    }
    Ok((judged, lab.effort()))
}

/// Judges a claim for the first `take` of its settings.
fn judge_one(
    claim: &RouterClaim,
    take: usize,
    lab: &mut Lab,
    done: &mut dyn FnMut(),
) -> Result<Judged, BenchError> {
    let mut settings = Vec::new();
    for (moved, setting) in settings_of(claim).into_iter().take(take) {
        let (holds, seen) = (claim.judge)(lab, &setting)?;
        settings.push(Setting { moved, holds, seen });
        done();
    }
    Ok(Judged { name: claim.name, asked: claim.asked, settings, moved: moved(claim) })
}

/// Says which of a claim's parameters are moved, how far, and why.
fn moved(claim: &RouterClaim) -> String {
    let one = |r: &Range| format!("`{}` to {} ({})", r.name, r.values.join(", "), r.why);
    claim.ranges.iter().map(one).collect::<Vec<_>>().join("; ")
}

/// Returns a claim's own setting, and those with one parameter moved.
fn settings_of(claim: &RouterClaim) -> Vec<(String, RouterSettings)> {
    let own = RouterSettings::default().with(claim.set);
    let mut settings = vec![(String::new(), own.clone())];
    for range in claim.ranges {
        for value in range.values {
            settings.push((format!("{}={value}", range.name), own.with(&[(range.name, value)])));
        }
    }
    settings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_claim_names_parameters_that_there_are_and_moves_them() {
        for claim in thread::CLAIMS {
            let settings = settings_of(claim);
            assert!((2..=4).contains(&claim.ranges.len()), "{}", claim.name);
            assert!(claim.ranges.iter().all(|r| !r.why.is_empty() && !r.values.is_empty()), "{}", claim.name);
            for (moved, setting) in &settings[1..] {
                assert_ne!(*setting, settings[0].1, "{}: {moved} moves nothing", claim.name);
                setting.check().unwrap();
            }
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
        let of = |holds: [bool; 3]| {
            let settings = vec![setting("", holds[0]), setting("a=1", holds[1]), setting("a=2", holds[2])];
            Judged { name: "it drops", asked: "more than 0", settings, moved: String::new() }
        };
        assert!(
            of([true; 3])
                .line()
                .starts_with("it drops: consistent for these parameters, and over this range")
        );
        let broken = of([true, false, true]).line();
        assert!(
            broken.contains("holds for 2 of 3") && broken.contains("It breaks with a=1 (x)."),
            "{broken}"
        );
        let other = of([false, false, true]).line();
        assert!(
            other.contains("not consistent for these parameters") && other.contains("would hold with a=2")
        );
        assert!(of([false; 3]).line().contains("neither for these"));
        assert_eq!(of([false, false, true]).share_pct().round(), 33.0);
        let quick = Judged { settings: vec![setting("", true)], ..of([true; 3]) }.line();
        assert!(
            quick.contains("a quick run moves none of them; it holds for 1 of 1 setting (asked"),
            "{quick}"
        );
    }

    #[test]
    fn a_claim_is_judged_for_its_own_setting_and_for_each_that_is_moved() {
        let claim = RouterClaim {
            name: "a ring of 64 drops",
            asked: "any packet",
            set: &[
                ("rx-ring", "64"),
                ("rx-usecs", "500"),
                ("cpus", "1"),
                ("offered-gbit", "2"),
                ("rx-frames", "0"),
            ],
            ranges: &[Range { name: "rx-ring", values: &["4096"], why: "the largest that the thread uses" }],
            judge: |lab, settings| {
                let of = lab.run(settings)?;
                Ok((of.dropped_pct > 0.0, format!("{:.1} %", of.dropped_pct)))
            },
        };
        let mut done = 0;
        let judged = judge_one(&claim, 2, &mut Lab::new(true), &mut || done += 1).unwrap();
        assert_eq!((judged.count(), done), ((1, 2), 2));
        assert!(judged.settings[0].holds && judged.settings[1].moved == "rx-ring=4096");
    }
}
