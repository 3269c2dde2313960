//! The knobs of every engine as a document.

use super::knobs::EngineKnob;
use pageyard_linux::Posted;
use pageyard_linux::knobs::{Place, Releases};
use pageyard_trace::Document;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::{self, Write};

/// Knobs, their values, and the engines that have them.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct KnobsDocument<'a> {
    /// The knobs.
    pub knobs: Vec<KnobDocument<'a>>,
    /// Patches that are in no release, each an engine by its name.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub posted: Vec<PostedDocument>,
}

/// A patch that was posted and not merged, or merged and taken back.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PostedDocument {
    /// The engine's name: the message or the commit.
    pub name: &'static str,
    /// Its effect and its fate.
    pub about: &'static str,
}

impl Document for KnobsDocument<'_> {
    const SCHEMA: &'static str = "pageyard.knobs/1";
}

impl<'a> KnobsDocument<'a> {
    /// Makes the document of some knobs.
    #[must_use]
    pub fn of(knobs: &'a [EngineKnob]) -> KnobsDocument<'a> {
        let posted = Posted::ALL.map(|p| PostedDocument { name: p.name, about: p.about });
        KnobsDocument { knobs: knobs.iter().map(KnobDocument::of).collect(), posted: posted.into() }
    }
}

/// A knob.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct KnobDocument<'a> {
    /// Its name.
    pub name: &'static str,
    /// Its effect.
    pub about: &'static str,
    /// The values that it takes.
    pub values: String,
    /// The engines that have it.
    pub engines: Vec<&'static str>,
    /// Its default on each of them.
    pub defaults: BTreeMap<&'static str, &'a str>,
    /// How Linux decides the same.
    pub linux_kind: LinuxKind,
    /// Linux's name for it: of a file of `/proc/sys`, an option of the build, or a function or type. `none` has no
    /// name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub linux_name: Option<&'static str>,
    /// Its values with the releases of Linux that have each. `any` stands for all values.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub linux_versions: Vec<LinuxVersions>,
    /// A further remark on Linux; for `none`, the knob's reason to exist.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub linux_note: &'static str,
}

/// How Linux decides what a knob decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum LinuxKind {
    /// By a file of `/proc/sys`.
    Sysctl,
    /// By an option of the build.
    BuildOption,
    /// In code, without a setting.
    Code,
    /// Not at all: the knob is ours.
    None,
}

/// A value of a knob, and the releases of Linux that have it.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LinuxVersions {
    /// The value.
    pub value: &'static str,
    /// The releases: `until 4.6`, `since 6.7`, `5.14 to 6.6`, `every version` or `no version`.
    pub versions: String,
}

impl<'a> KnobDocument<'a> {
    fn of(EngineKnob { knob, engines }: &'a EngineKnob) -> KnobDocument<'a> {
        let (linux_kind, linux_name, linux_note) = match knob.place {
            Place::Sysctl(name) => (LinuxKind::Sysctl, Some(name), knob.note),
            Place::BuildOption(name) => (LinuxKind::BuildOption, Some(name), knob.note),
            Place::Code(name) => (LinuxKind::Code, Some(name), knob.note),
            Place::Ours(why) => (LinuxKind::None, None, why),
        };
        let versions = |(value, releases): &(&'static str, Releases)| LinuxVersions {
            value,
            versions: releases.to_string(),
        };
        KnobDocument {
            name: knob.name,
            about: knob.about,
            values: knob.values.to_string(),
            engines: engines.iter().map(|(engine, _)| *engine).collect(),
            defaults: engines.iter().map(|(engine, default)| (*engine, default.as_str())).collect(),
            linux_kind,
            linux_name,
            linux_versions: knob.releases.iter().map(versions).collect(),
            linux_note,
        }
    }

    /// Returns the defaults, each with the engines that share it.
    #[must_use]
    pub fn by_default(&self) -> Vec<(&'a str, Vec<&'static str>)> {
        let mut groups: Vec<(&str, Vec<&str>)> = Vec::new();
        for engine in &self.engines {
            let default = self.defaults[engine];
            match groups.iter_mut().find(|(d, _)| *d == default) {
                Some((_, engines)) => engines.push(engine),
                None => groups.push((default, vec![engine])),
            }
        }
        groups
    }

    /// Says what it is in Linux.
    #[must_use]
    pub fn linux(&self) -> String {
        let Some(name) = self.linux_name else {
            return format!("none: {}", self.linux_note);
        };
        let kind = match self.linux_kind {
            LinuxKind::Sysctl => "sysctl ",
            LinuxKind::BuildOption => "build option ",
            LinuxKind::Code | LinuxKind::None => "",
        };
        let mut text = format!("{kind}{name}");
        for LinuxVersions { value, versions } in &self.linux_versions {
            let _ = write!(text, "; {value}: {versions}");
        }
        if !self.linux_note.is_empty() {
            let _ = write!(text, ". {}", self.linux_note);
        }
        text
    }
}

impl fmt::Display for KnobsDocument<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.knobs.iter().try_for_each(|knob| knob.fmt(f))?;
        self.posted.iter().try_for_each(|p| writeln!(f, "{}, an engine: {}", p.name, p.about))
    }
}

impl fmt::Display for KnobDocument<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}: {}\n  takes {}", self.name, self.about, self.values)?;
        for (default, engines) in self.by_default() {
            writeln!(f, "  {default} on {}", engines.join(", "))?;
        }
        writeln!(f, "  Linux: {}", self.linux())
    }
}
