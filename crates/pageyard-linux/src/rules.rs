//! Which rule explains that a kernel answers otherwise: each is set otherwise in turn. Layer: settings, above `knobs`.

use crate::config::Config;
use crate::knobs::{Knob, Place, Values};
use pageyard_core::knob::ANY;
use std::fmt;

/// A configuration in which one rule of Linux's code is otherwise.
#[derive(Clone, Debug)]
pub struct OtherRule {
    /// The rule.
    pub knob: &'static Knob,
    /// Its value here.
    pub value: &'static str,
    /// The whole.
    pub config: Config,
}

/// Writes the rule, its value, what it decides and where Linux does.
impl fmt::Display for OtherRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}: {}", self.knob.name, self.value, self.knob.about)?;
        match self.knob.place {
            Place::Code(place) => write!(f, " ({place})"),
            _ => Ok(()),
        }
    }
}

impl Config {
    /// Returns this configuration once for each value that a rule of Linux's code could have instead, one rule at a
    /// time. What users set (sysctls, build options) stays, and so do amounts that no release has.
    #[must_use]
    pub fn other_rules(&self) -> Vec<OtherRule> {
        let mut found = Vec::new();
        for field in self.clone().fields() {
            let knob = field.knob;
            if !matches!(knob.place, Place::Code(_)) {
                continue;
            }
            let now = field.get().to_string();
            for value in values(knob).into_iter().filter(|value| *value != now) {
                let mut config = self.clone();
                if config.set(knob.name, value).is_ok() {
                    found.push(OtherRule { knob, value, config });
                }
            }
        }
        found
    }

    /// Finds the rule that explains best where answers part. `agrees` says how many answers agree under a
    /// configuration before the first that does not; under this one `agreed` do. Returns the rule under which the most
    /// agree, the first of equals, if those are more, and how many.
    pub fn rule_that_explains(
        &self,
        agreed: u64,
        mut agrees: impl FnMut(&Config) -> u64,
    ) -> Option<(OtherRule, u64)> {
        let mut best = None;
        let mut most = agreed;
        for rule in self.other_rules() {
            let agree = agrees(&rule.config);
            if agree > most {
                most = agree;
                best = Some((rule, agree));
            }
        }
        best
    }
}

/// Returns the values that a rule has in some release, or could have by its names.
fn values(knob: &Knob) -> Vec<&'static str> {
    let names: &[&str] = match knob.values {
        Values::Switch => &["false", "true"],
        Values::Names(names) | Values::NamesOr { names, .. } => names,
        _ => &[],
    };
    let of_releases = knob.releases.iter().map(|(value, _)| *value).filter(|value| *value != ANY);
    let mut all: Vec<&str> = names.iter().copied().chain(of_releases).collect();
    all.sort_unstable();
    all.dedup();
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_other_rule_differs_in_one_knob_and_in_no_setting_of_users() {
        for preset in Config::PRESETS {
            let config = Config::preset(preset).unwrap();
            let rules = config.other_rules();
            assert!(rules.len() > 60, "{preset}: {}", rules.len());
            for rule in rules {
                let differ = |(a, b): (crate::knobs::Field<'_>, crate::knobs::Field<'_>)| {
                    (a.get().to_string() != b.get().to_string()).then_some(a.knob.name)
                };
                let (mut one, mut other) = (config.clone(), rule.config.clone());
                let differing: Vec<&str> = one.fields().zip(other.fields()).filter_map(differ).collect();
                assert_eq!(differing, [rule.knob.name], "{preset}");
                assert!(matches!(rule.knob.place, Place::Code(_)));
            }
        }
    }

    #[test]
    fn the_rule_under_which_the_most_agree_explains() {
        let config = Config::linux_6_18();
        let as_with = |knob: &'static str, value: &'static str| {
            move |c: &Config| {
                let mut with = Config::linux_6_18();
                with.set(knob, value).unwrap();
                if *c == with { 900 } else { 70 }
            }
        };
        let (rule, agree) = config.rule_that_explains(70, as_with("pcp_spill", "by_batch")).unwrap();
        assert_eq!((rule.knob.name, rule.value, agree), ("pcp_spill", "by_batch", 900));
        assert!(rule.to_string().contains("free_frozen_page_commit"), "{rule}");
        assert!(config.rule_that_explains(900, as_with("pcp_spill", "by_batch")).is_none());
    }
}
