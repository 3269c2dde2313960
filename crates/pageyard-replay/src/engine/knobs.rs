//! Knobs: which engine has which, and suggestions for one that does not exist.

use super::catalogue::Engine;
use super::kernel;
use pageyard_linux::Config;
use pageyard_linux::knobs::{Field, Knob, KnobError, Place, Setting, Values, set};

/// The prefix of the names of compaction's knobs.
const COMPACTION: &str = "compaction.";

/// The lock-free engine's own. What those are in Linux that the reference has too, its table says.
static YARD_KNOBS: &[Knob] = &[
    Knob {
        values: Values::Number { from: 8, to: 1 << 40, unit: "" },
        ..Knob::of::<u64>("percpu_pagelist_high_fraction")
    },
    Knob {
        about: "whether there are per-CPU lists at all",
        place: Place::Ours("every Linux has per-CPU lists"),
        ..Knob::of::<bool>("pcp")
    },
    Knob::of::<bool>("compaction.enabled"),
    Knob {
        values: Values::Number { from: 0, to: 100, unit: "" },
        ..Knob::of::<u8>("compaction.proactiveness")
    },
];

/// Iterates over the knobs of the lock-free engine with their fields.
fn yard_fields(config: &mut pageyard::Config) -> impl Iterator<Item = Field<'_>> {
    let settings = [
        &mut config.percpu_pagelist_high_fraction as &mut dyn Setting,
        &mut config.pcp,
        &mut config.compaction,
        &mut config.compaction_proactiveness,
    ];
    config.watermark.fields().chain(YARD_KNOBS.iter().zip(settings).map(Field::new))
}

/// Sets a knob of the lock-free engine.
pub(super) fn set_yard(config: &mut pageyard::Config, knob: &str, value: &str) -> Result<(), String> {
    set(yard_fields(config), knob, value).map_err(|why| match why {
        KnobError::Refused { knob: Knob { name, values, .. }, value } if !name.starts_with(COMPACTION) => {
            let takes = match *values {
                Values::Number { from, to, .. } => format!("a number from {from} to {to}"),
                Values::Amount { to, .. } => format!("a number from 0 to {to}"),
                _ => values.to_string(),
            };
            format!("`{name}` takes {takes}, not `{value}`")
        }
        why => why.to_string(),
    })
}

/// Passes over the knobs of an engine with the fields of its defaults; a kernel has none here.
fn fields_of<T>(engine: &str, look: impl Fn(&mut dyn Iterator<Item = Field<'_>>) -> T) -> T {
    match Engine::named(engine) {
        Some(Engine::Linux(mut config)) => look(&mut config.fields()),
        Some(Engine::Yard(_, mut config)) => look(&mut yard_fields(&mut config)),
        None => look(&mut std::iter::empty()),
    }
}

/// Returns whether an engine has a knob.
pub(super) fn has(engine: &str, knob: &str) -> bool {
    if kernel::is_one(engine) {
        return kernel::SETTINGS.contains(&knob);
    }
    fields_of(engine, |fields| fields.map(|field| field.knob.name).any(|name| name == knob))
}

/// Returns the sentence that an engine has no such knob: which engine has it, or what may have been meant.
pub(super) fn not_one_of(engine: &str, knob: &str) -> String {
    if kernel::is_one(engine) {
        return format!("a kernel has no knob `{knob}`; it takes {}", kernel::SETTINGS.join(", "));
    }
    let others: Vec<&str> = Engine::names().filter(|name| has(name, knob)).collect();
    if !others.is_empty() {
        return format!("it has no knob `{knob}`; {} have it", others.join(", "));
    }
    let names = || all_knobs().into_iter().map(|k| k.knob.name);
    let meant = did_you_mean(knob, names());
    if !meant.is_empty() {
        return format!("there is no knob `{knob}`;{meant} (`pageyard knobs` lists them)");
    }
    let its: Vec<&str> = names().filter(|k| engine.is_empty() || has(engine, k)).collect();
    format!("there is no knob `{knob}`; there are {}", its.join(", "))
}

/// Suggests the nearest of these, if one is near: ` did you mean ..?`
pub fn did_you_mean<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> String {
    let plain = |text: &str| text.replace(['_', '-', '.'], "").to_lowercase();
    let written = plain(name);
    // A third of the letters may be wrong.
    let most = (written.chars().count() / 3).clamp(1, 4);
    let nearest = known
        .map(|k| {
            // A knob of compaction may be named without its group.
            let group = k.rsplit('.').next().filter(|_| k.starts_with(COMPACTION)).unwrap_or(k);
            let distance = |k: &str| strsim::osa_distance(&written, &plain(k));
            (distance(k).min(distance(group)), k)
        })
        .min_by_key(|(distance, _)| *distance);
    match nearest {
        Some((distance, k)) if distance <= most && !written.is_empty() => format!(" did you mean `{k}`?"),
        _ => String::new(),
    }
}

/// A knob, and the engines that have it.
#[derive(Clone, Debug)]
pub struct EngineKnob {
    /// The knob.
    pub knob: &'static Knob,
    /// The engines, with the default on each.
    pub engines: Vec<(&'static str, String)>,
}

/// Returns every knob of every engine.
#[must_use]
pub fn all_knobs() -> Vec<EngineKnob> {
    let listed = |knob| EngineKnob { knob, engines: Vec::new() };
    let mut all: Vec<EngineKnob> = Config::knobs().into_iter().map(listed).collect();
    for engine in Engine::names() {
        let defaults: Vec<_> =
            fields_of(engine, |fields| fields.map(|f| (f.knob, f.get().to_string())).collect());
        for (knob, default) in defaults {
            let at = all.iter().position(|known| known.knob.name == knob.name).unwrap_or_else(|| {
                all.push(listed(knob));
                all.len() - 1
            });
            all[at].engines.push((engine, default));
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::EngineSpec;

    #[test]
    fn every_knob_says_what_it_does_and_takes_its_own_default() {
        for EngineKnob { knob, engines } in all_knobs() {
            assert!(!knob.about.is_empty() && !engines.is_empty(), "{}", knob.name);
            for (engine, default) in &engines {
                if (knob.name, default.as_str()) == ("min_free_kbytes", "computed") {
                    continue;
                }
                // The engine's own fraction 0 means that it is computed, which a user cannot ask for there.
                if knob.name == "percpu_pagelist_high_fraction" && !engine.starts_with("linux-") {
                    continue;
                }
                let set = EngineSpec::parse(engine, &[(knob.name.to_owned(), default.clone())]);
                assert!(set.is_ok(), "{engine} {}={default}: {:?}", knob.name, set.err());
            }
        }
    }

    #[test]
    fn a_knob_of_the_engine_sets_nothing_else() {
        let values = |config: &mut pageyard::Config| -> Vec<(&str, String)> {
            yard_fields(config).map(|field| (field.knob.name, field.get().to_string())).collect()
        };
        let mut base = pageyard::Config::new(1);
        let before = values(&mut base);
        let knobs: Vec<&Knob> = yard_fields(&mut base).map(|field| field.knob).collect();
        for (at, (knob, default)) in before.iter().enumerate() {
            let mut changes = 0;
            for value in (0..20).map(|number| knobs[at].values.text(number).to_string()) {
                let mut config = base;
                if set_yard(&mut config, knob, &value).is_err() {
                    assert_eq!(config, base, "{knob}={value}");
                    continue;
                }
                let mut expected = before.clone();
                expected[at].1.clone_from(&value);
                assert_eq!(values(&mut config), expected, "{knob}={value}");
                changes += u32::from(value != *default);
            }
            assert!(changes > 0, "{knob}");
            let why = set_yard(&mut base, knob, "-1").unwrap_err();
            assert!(why.starts_with(&format!("`{knob}` takes ")) && why.ends_with(", not `-1`"), "{why}");
        }
        let why = set_yard(&mut base, "watermark_scale_factor", "0").unwrap_err();
        assert_eq!(why, "`watermark_scale_factor` takes a number from 1 to 3000, not `0`");
        assert_eq!(base, pageyard::Config::new(1));
    }
}
