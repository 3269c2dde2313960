//! Knobs that a user sets on an experiment's engines, beside those that the experiment itself sets.

use super::Experiment;
use crate::error::BenchError;
use pageyard_linux::Config;
use pageyard_replay::engine::EngineSpec;
use pageyard_replay::text::shown;
use std::collections::BTreeMap;

/// The engine's name in experiments.
pub(super) const ENGINE: &str = "pageyard";

/// Knobs set on an experiment's engines; none is the document's own setting.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    engines: Vec<(EngineSpec, Vec<(String, String)>)>,
    given: Vec<(String, String)>,
}

impl Settings {
    /// Reads knobs, each `([ENGINE:]KNOB, VALUE)`: `KNOB` is set on every engine of the experiment that has it,
    /// `ENGINE:KNOB` on that one. The engines go by their names; `reference` is the preset that the experiment uses.
    ///
    /// # Errors
    /// [`BenchError::Varied`] for a knob that the experiment varies itself, [`BenchError::Settings`] where it has no
    /// engine, and as [`EngineSpec::settings_of`] and [`EngineSpec::parse`].
    pub fn read(experiment: &dyn Experiment, knobs: &[(String, String)]) -> Result<Settings, BenchError> {
        let names = experiment.engines();
        if names.is_empty() && !knobs.is_empty() {
            let why =
                format!("{} sets up no engine, so --set has nothing to set; leave it out", experiment.name());
            return Err(BenchError::Settings { why });
        }
        let given: Vec<(String, String)> = knobs
            .iter()
            .map(|(key, value)| match key.strip_prefix("reference:") {
                Some(knob) => (format!("{}:{knob}", names[0]), value.clone()),
                None => (key.clone(), value.clone()),
            })
            .collect();
        for (key, _) in &given {
            let (engine, knob) = key.split_once(':').map_or((None, &**key), |(e, k)| (Some(e), k));
            if engine != Some(ENGINE) && experiment.varies(knob) {
                return Err(BenchError::Varied { experiment: experiment.name(), knob: shown(knob) });
            }
        }
        let absent =
            || format!("{} does not use it; its engines are {}", experiment.name(), names.join(" and "));
        let of = EngineSpec::settings_of(names, &given, absent)?;
        let engines = names.iter().zip(of).map(|(name, of)| Ok((EngineSpec::parse(name, &of)?, of)));
        Ok(Settings { engines: engines.collect::<Result<_, BenchError>>()?, given })
    }

    /// Returns whether nothing is set.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.given.is_empty()
    }

    /// Returns what was given, each `([ENGINE:]KNOB, VALUE)`.
    #[must_use]
    pub fn given(&self) -> &[(String, String)] {
        &self.given
    }

    /// Returns the knobs that are set, by engine.
    #[must_use]
    pub fn by_engine(&self) -> BTreeMap<&'static str, BTreeMap<String, String>> {
        let set = self.engines.iter().filter(|(_, knobs)| !knobs.is_empty());
        set.map(|(spec, knobs)| (spec.name(), knobs.iter().cloned().collect())).collect()
    }

    /// Says what is set on which engine; empty where nothing is.
    #[must_use]
    pub fn text(&self) -> String {
        let one = |(engine, knobs): (&str, BTreeMap<String, String>)| {
            let knobs: Vec<String> = knobs.iter().map(|(knob, value)| format!("{knob}={value}")).collect();
            format!("{} on {engine}", shown(&knobs.join(" and ")))
        };
        self.by_engine().into_iter().map(one).collect::<Vec<_>>().join(", ")
    }

    /// Returns a preset of the reference with an experiment's knobs set, then those that a user set.
    ///
    /// # Errors
    /// [`BenchError::Experiment`] where the experiment names a knob or a value that does not exist.
    pub(super) fn linux(&self, preset: &str, knobs: &[(&str, &str)]) -> Result<Config, BenchError> {
        let wrong = |why: String| BenchError::Experiment { why };
        let mut config =
            Config::preset(preset).ok_or_else(|| wrong(format!("there is no preset {preset}")))?;
        let own = self.engines.iter().find(|(spec, _)| spec.name() == preset);
        let set = own.iter().flat_map(|(_, set)| set).map(|(knob, value)| (knob.as_str(), value.as_str()));
        for (knob, value) in knobs.iter().copied().chain(set) {
            config.set(knob, value).map_err(|e| wrong(e.to_string()))?;
        }
        Ok(config)
    }

    /// Returns the lock-free engine's settings, for two CPUs.
    pub(super) fn yard(&self) -> pageyard::Config {
        let set = self.engines.iter().find_map(|(spec, _)| spec.yard());
        pageyard::Config { cpus: 2, ..set.copied().unwrap_or_else(|| pageyard::Config::new(2)) }
    }
}

#[cfg(test)]
mod tests {
    use super::super::find;
    use super::*;
    use pageyard_linux::config::PcpPolicy;

    fn read(experiment: &str, key: &str, value: &str) -> Result<Settings, String> {
        let set = [(key.to_owned(), value.to_owned())];
        Settings::read(find(experiment).unwrap(), &set).map_err(|e| e.to_string())
    }

    #[test]
    fn a_knob_is_set_on_every_engine_that_has_it_or_on_one() {
        let all = read("irq-safe", "watermark_scale_factor", "77").unwrap();
        let reference = all.linux("linux-4.10", &[("interrupts", "soft_flag")]).unwrap();
        assert_eq!(reference.watermark.watermark_scale_factor, 77);
        assert_eq!(all.yard().watermark.watermark_scale_factor, 77);
        assert_eq!(
            all.text(),
            "watermark_scale_factor=77 on linux-4.10, watermark_scale_factor=77 on pageyard"
        );
        for key in ["linux-4.10:watermark_scale_factor", "reference:watermark_scale_factor"] {
            let one = read("irq-safe", key, "77").unwrap();
            let scale = |c: &pageyard::Config| c.watermark.watermark_scale_factor;
            assert_eq!(scale(&one.yard()), scale(&pageyard::Config::new(2)));
            assert_eq!(one.linux("linux-4.10", &[]).unwrap().watermark.watermark_scale_factor, 77);
            assert_eq!(one.by_engine().keys().copied().collect::<Vec<_>>(), ["linux-4.10"]);
        }
        let policy = read("page-frag", "pcp_policy", "free_factor").unwrap();
        assert_eq!(policy.linux("linux-4.10", &[]).unwrap().pcp_policy, PcpPolicy::FreeFactor);
        assert!(Settings::default().is_empty() && Settings::default().text().is_empty());
    }

    #[test]
    fn what_an_experiment_varies_is_refused_and_what_is_wrong_is_answered_as_in_a_replay() {
        for (experiment, key, value, part) in [
            ("irq-safe", "pcp_protection", "trylock", "irq-safe varies `pcp_protection` itself"),
            (
                "zonelist",
                "linux-4.6:zonelist_iterator",
                "called",
                "zonelist varies `zonelist_iterator` itself",
            ),
            ("page-frag", "reference:frag_free", "pcp", "page-frag varies `frag_free` itself"),
            ("direct-compaction", "compaction.deferral", "off", "varies `compaction.deferral` itself"),
            ("irq-safe", "pcp_polici", "auto", "did you mean `pcp_policy`?"),
            ("irq-safe", "pcp_policy", "automatic", "`pcp_policy` takes classic, free_factor or auto"),
            ("irq-safe", "linux-6.18:pcp_policy", "auto", "its engines are linux-4.10 and pageyard"),
            ("irq-safe", "linux-9:pcp_policy", "auto", "linux-9"),
            ("batched-clear", "reference:pcp_policy", "auto", "batched-clear sets up no engine"),
            ("irq-safe", "pageyard:pcp_policy", "auto", "it has no knob `pcp_policy`"),
            (
                "direct-compaction",
                "pageyard:compaction.deferral",
                "off",
                "it has no knob `compaction.deferral`",
            ),
        ] {
            let why = read(experiment, key, value).unwrap_err();
            assert!(why.contains(part) && why.lines().count() == 1, "{key}={value}: {why}");
        }
    }
}
