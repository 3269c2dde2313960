//! A posted series: its patches, what runs on which kernel, and what it says that it does.

use crate::experiment::what_if::load::{Load, RESERVE};
use pageyard::knob::{Field, Version};
use pageyard_linux::Config;
use pageyard_replay::what_if::{Figure, Reclaim, Sign, preset};
use std::collections::BTreeSet;
use std::fmt;

/// A posted series that can be predicted and measured.
pub struct Series {
    /// Its name.
    pub name: &'static str,
    /// Its subject.
    pub about: &'static str,
    /// Its patches, in the order of their posting.
    pub patches: &'static [Patch],
}

/// A patch, or a version of one, under a load.
#[derive(Clone, Copy)]
pub struct Patch {
    /// Its subject.
    pub subject: &'static str,
    /// Who posted it and when, and what became of it.
    pub posted: &'static str,
    /// The name of the load.
    pub load: &'static str,
    /// The kernel without it that the load is recorded on.
    pub recorded: Side,
    /// The kernel without it that it is measured against.
    pub before: Side,
    /// The kernel with it. Between releases, others of its changes are measured along with it.
    pub after: Side,
    /// The release whose rules a replay begins with.
    pub release: Version,
    /// The rules that it changes, and the values it gives them.
    pub rules: &'static [(&'static str, &'static str)],
    /// Its claims.
    pub claims: &'static [Claim],
}

/// A kernel, with a setting of its own or none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Side {
    /// The series' name for the kernel.
    pub kernel: &'static str,
    /// The setting's name below `/proc/sys`, and its value.
    pub setting: Option<(&'static str, &'static str)>,
}

pub(super) const fn on(kernel: &'static str) -> Side {
    Side { kernel, setting: None }
}

pub(super) const fn set(kernel: &'static str, path: &'static str, value: &'static str) -> Side {
    Side { kernel, setting: Some((path, value)) }
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kernel)?;
        match self.setting {
            Some((path, value)) => write!(f, " {}={value}", path.rsplit('/').next().unwrap_or(path)),
            None => Ok(()),
        }
    }
}

/// A load on a kernel: what is recorded, and what is measured.
pub(in super::super) type Case = (Side, &'static str);

/// A claim of a patch.
#[derive(Clone, Copy)]
pub struct Claim {
    /// The claim, with its size where the posting has one.
    pub says: &'static str,
    /// The figure that shows it.
    pub figure: Figure,
    /// The change that it implies.
    pub sign: Sign,
    /// Whether requests alone decide it, which plain replays predict, or reclaim as well.
    pub decided: Reclaim,
}

pub(super) const fn claim(figure: Figure, sign: Sign, decided: Reclaim, says: &'static str) -> Claim {
    Claim { says, figure, sign, decided }
}

/// The preset that stands for releases that have none of their own.
const PRESET: &str = "linux-7.2";

impl Series {
    /// Returns the kernels that it is recorded and measured on, each once.
    #[must_use]
    pub fn kernels(&self) -> Vec<&'static str> {
        let sides = self.patches.iter().flat_map(|p| [p.recorded, p.before, p.after]);
        let kernels: BTreeSet<&str> = sides.map(|side| side.kernel).collect();
        kernels.into_iter().collect()
    }

    /// Returns what is recorded, each once.
    pub(in super::super) fn recorded(&self) -> BTreeSet<Case> {
        self.patches.iter().map(|p| (p.recorded, p.load)).collect()
    }

    /// Returns what is measured, each once.
    pub(in super::super) fn measured(&self) -> BTreeSet<Case> {
        self.patches.iter().flat_map(|p| [(p.before, p.load), (p.after, p.load)]).collect()
    }
}

/// Returns a load of the name.
pub(in super::super) fn load(name: &str) -> Option<&'static Load> {
    Load::find(name).or((RESERVE.name == name).then_some(&RESERVE))
}

impl Patch {
    /// Returns whether it is in no release: its kernels are built from sources, without it and with it.
    #[must_use]
    pub fn is_unmerged(&self) -> bool {
        self.after.kernel.contains('+')
    }

    /// Returns the preset that has its release's rules, or those nearest to them.
    #[must_use]
    pub fn preset(&self) -> &'static str {
        let Version(major, minor) = self.release;
        preset(&format!("{major}.{minor}")).unwrap_or(PRESET)
    }

    /// Returns the rules without it, as knobs on its preset: those that its release has otherwise.
    #[must_use]
    pub fn without(&self) -> Vec<(String, String)> {
        let Some(mut config) = Config::preset(self.preset()) else { return Vec::new() };
        let preset = config.release().unwrap_or(self.release);
        let differs = |field: Field<'_>| {
            let [here, there] = [self.release, preset].map(|release| field.knob.value_in(release));
            here.filter(|_| here != there).map(|value| (field.knob.name.to_owned(), value.to_owned()))
        };
        config.fields().filter_map(differs).collect()
    }

    /// Returns the rules with it.
    #[must_use]
    pub fn with(&self) -> Vec<(String, String)> {
        let mut knobs = self.without();
        knobs.retain(|(name, _)| self.rules.iter().all(|(knob, _)| name != knob));
        knobs.extend(self.rules.iter().map(|(knob, value)| ((*knob).to_owned(), (*value).to_owned())));
        knobs
    }
}
