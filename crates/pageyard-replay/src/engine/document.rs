//! The knobs of every engine as a document.

use super::knobs::Knob;
use pageyard_trace::Document;
use serde::Serialize;
use std::collections::BTreeMap;

/// Knobs, their values, and the engines that have them.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct KnobsDocument<'a> {
    /// The knobs.
    pub knobs: Vec<KnobDocument<'a>>,
}

impl Document for KnobsDocument<'_> {
    const SCHEMA: &'static str = "pageyard.knobs/1";
}

impl<'a> KnobsDocument<'a> {
    /// Makes the document of some knobs.
    #[must_use]
    pub fn of(knobs: &'a [Knob]) -> KnobsDocument<'a> {
        KnobsDocument { knobs: knobs.iter().map(KnobDocument::of).collect() }
    }
}

/// A knob.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct KnobDocument<'a> {
    /// Its name.
    pub name: &'static str,
    /// What it does.
    pub about: &'static str,
    /// The values that it takes.
    pub values: &'static str,
    /// The engines that have it.
    pub engines: Vec<&'static str>,
    /// What it is on each of them when it is not set.
    pub defaults: BTreeMap<&'static str, &'a str>,
}

impl<'a> KnobDocument<'a> {
    fn of(knob: &'a Knob) -> KnobDocument<'a> {
        KnobDocument {
            name: knob.name,
            about: knob.about,
            values: knob.takes,
            engines: knob.engines.iter().map(|(engine, _)| *engine).collect(),
            defaults: knob.engines.iter().map(|(engine, default)| (*engine, default.as_str())).collect(),
        }
    }
}
