//! The reference's knobs: its own, and those of its watermarks and of compaction. Layer: settings, above `config`.

pub use pageyard_core::knob::{Field, Knob, Place, Releases, Setting, Values, Version};

use crate::config::Config;
use std::fmt;

/// Why a knob was not set.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum KnobError {
    /// There is no such knob.
    Unknown {
        /// The name.
        name: String,
        /// The names that there are.
        known: Vec<&'static str>,
    },
    /// The knob does not take the value.
    Refused {
        /// The knob.
        knob: &'static Knob,
        /// The value.
        value: String,
    },
}

impl fmt::Display for KnobError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            KnobError::Unknown { name, known } => {
                write!(f, "there is no knob `{name}`; there are {}", known.join(", "))
            }
            KnobError::Refused { knob: Knob { name, values, .. }, value } => {
                write!(f, "`{name}` takes {values}, not `{value}`")
            }
        }
    }
}

impl std::error::Error for KnobError {}

/// Sets one of some knobs by name.
///
/// # Errors
/// [`KnobError`]; nothing changed.
pub fn set<'a>(fields: impl Iterator<Item = Field<'a>>, name: &str, value: &str) -> Result<(), KnobError> {
    let mut known = Vec::new();
    for mut field in fields {
        if field.knob.name != name {
            known.push(field.knob.name);
        } else if field.set(value) {
            return Ok(());
        } else {
            return Err(KnobError::Refused { knob: field.knob, value: value.to_owned() });
        }
    }
    Err(KnobError::Unknown { name: name.to_owned(), known })
}

impl Config {
    /// Returns the knobs that [`Config::set`] knows.
    #[must_use]
    pub fn knobs() -> Vec<&'static Knob> {
        Config::defaults().fields().map(|field| field.knob).collect()
    }

    /// Sets a knob by name.
    ///
    /// # Errors
    /// [`KnobError`] lists the knobs, or the values that this one takes.
    pub fn set(&mut self, knob: &str, value: &str) -> Result<(), KnobError> {
        set(self.fields(), knob, value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pageyard_core::knob::ANY;

    /// Values that a knob takes: all that it names, and the ends of its numbers.
    fn taken(values: Values) -> Vec<String> {
        let numbers = match values {
            Values::Switch => vec![0, 1],
            Values::Names(names) => (0..names.len() as u64).collect(),
            Values::Number { from, to, .. } => vec![from, to],
            Values::Amount { to, .. } => vec![0, to],
            Values::ZeroOr(least) => vec![0, least, u64::MAX],
            Values::NamesOr { names, to, .. } => vec![0, 1, 2, names.len() as u64 - 1 + to],
        };
        numbers.into_iter().map(|number| values.text(number).to_string()).collect()
    }

    /// Values that it does not take.
    fn refused(values: Values) -> Vec<String> {
        let beyond = match values {
            Values::Switch => vec!["0".to_owned(), "TRUE".to_owned()],
            Values::Names(names) => names.iter().map(|name| format!("{name}_")).collect(),
            Values::Number { from, to, .. } => vec![from.wrapping_sub(1).to_string(), (to + 1).to_string()],
            Values::Amount { to, .. } => vec![(u128::from(to) + 1).to_string(), "computed".to_owned()],
            Values::ZeroOr(least) => vec!["1".to_owned(), (least - 1).to_string()],
            Values::NamesOr { prefix, to, .. } => vec![format!("{prefix}0"), format!("{prefix}{}", to + 1)],
        };
        beyond.into_iter().chain(["", "-1", "a value"].map(str::to_owned)).collect()
    }

    fn values_of(config: &mut Config) -> Vec<(&'static str, String)> {
        config.fields().map(|field| (field.knob.name, field.get().to_string())).collect()
    }

    #[test]
    fn a_knob_takes_what_it_says_and_sets_nothing_else() {
        for mut base in Config::PRESETS.map(|name| Config::preset(name).unwrap()) {
            let before = values_of(&mut base);
            for (at, knob) in Config::knobs().into_iter().enumerate() {
                for value in taken(knob.values) {
                    let mut config = base.clone();
                    config.set(knob.name, &value).unwrap();
                    let mut expected = before.clone();
                    expected[at].1 = value.clone();
                    assert_eq!(values_of(&mut config), expected, "{}={value} on {}", knob.name, base.name);
                    assert_eq!(config == base, expected == before, "{}={value} on {}", knob.name, base.name);
                }
                for value in refused(knob.values) {
                    let mut config = base.clone();
                    let why = config.set(knob.name, &value).unwrap_err().to_string();
                    assert_eq!(why, format!("`{}` takes {}, not `{value}`", knob.name, knob.values));
                    assert_eq!(config, base, "{why}");
                }
            }
        }
        let why = Config::linux_6_18().set("swappiness", "60").unwrap_err().to_string();
        assert!(why.starts_with("there is no knob `swappiness`; there are min_free_kbytes, "), "{why}");
    }

    #[test]
    fn an_entry_says_what_the_knob_is_in_linux_and_names_values_that_it_takes() {
        let mut names: Vec<&str> = Config::knobs().iter().map(|knob| knob.name).collect();
        for knob in Config::knobs() {
            let (Place::Sysctl(place) | Place::BuildOption(place) | Place::Code(place) | Place::Ours(place)) =
                knob.place;
            assert!(!place.is_empty() && !knob.about.is_empty(), "{}", knob.name);
            assert_eq!(matches!(knob.place, Place::Ours(_)), knob.releases.is_empty(), "{}", knob.name);
            let of_releases = knob.releases.iter().map(|(value, _)| *value).filter(|value| *value != ANY);
            for value in of_releases.chain(knob.branches.iter().map(|(_, value)| *value)) {
                assert!(knob.values.read(value).is_some(), "{}={value}", knob.name);
            }
        }
        names.sort_unstable();
        assert!(names.windows(2).all(|pair| pair[0] != pair[1]), "{names:?}");
    }

    #[test]
    fn a_release_has_one_value_of_a_knob_unless_it_is_chosen_there() {
        for knob in Config::knobs() {
            for release in Config::PRESETS.map(|name| Config::preset(name).unwrap().release().unwrap()) {
                let having = knob.releases.iter().filter(|(_, having)| having.contain(release)).count();
                // A request chooses: its last attempts are thorough.
                let by_request = knob.name == "compaction.thorough" && release > Version(4, 6);
                match knob.place {
                    Place::Code(_) if by_request => assert_eq!(having, 2),
                    Place::Code(_) => assert_eq!(having, 1, "{} in {release}", knob.name),
                    Place::Sysctl(_) => assert!(having > 0, "{} in {release}", knob.name),
                    Place::BuildOption(_) | Place::Ours(_) => assert_eq!(knob.value_in(release), None),
                }
            }
        }
    }

    /// Compares the presets with the judges' findings on long-term branches, which differ from the releases they began
    /// with, and with the settings that users choose.
    #[test]
    fn presets_have_what_the_judge_found() {
        for (knob, values) in [
            ("watermark_boost_factor", ["0", "0", "15000", "15000", "15000", "15000", "15000", "15000"]),
            ("compaction.proactiveness", ["0", "0", "20", "20", "20", "20", "20", "20"]),
            ("compaction.enabled", ["true"; 8]),
            (
                "pcp_decay",
                ["at_once", "at_once", "at_once", "at_once", "by_batch", "by_batch", "by_batch", "by_batch"],
            ),
            ("this_node_reclaims", ["true", "true", "false", "false", "false", "true", "false", "false"]),
            (
                "reclaimable_counts_free",
                ["false", "false", "false", "true", "true", "false", "false", "false"],
            ),
            ("highatomic_counts_free", ["false", "false", "false", "false", "true", "true", "true", "true"]),
            ("highatomic_before_oom", ["false", "false", "false", "true", "true", "true", "true", "true"]),
            (
                "compaction.fast_source",
                ["off", "off", "hinted", "hinted", "found", "found", "found", "found"],
            ),
        ] {
            let presets = Config::PRESETS.map(|name| Config::preset(name).unwrap());
            let found = presets.map(|mut config| {
                let field = config.fields().find(|field| field.knob.name == knob);
                field.unwrap().get().to_string()
            });
            assert_eq!(found, values, "{knob}");
        }
    }
}
