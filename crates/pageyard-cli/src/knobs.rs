//! `pageyard knobs`: the settings of every engine, by name.

use crate::output::{Failure, print, print_json};
use clap::Args;
use pageyard_replay::engine::{EngineKnob, KnobsDocument, all_knobs};

/// Lists the knobs that `--set` takes: values, engines, defaults, what each does, and what it is in Linux; then patches
/// that are in no release and engines by their names
#[derive(Args)]
#[command(after_help = "Examples:\n  pageyard knobs\n  pageyard knobs compaction.direct_free")]
pub struct Knobs {
    /// Only the knobs whose name contains this [default: all]
    name: Option<String>,
}

impl Knobs {
    /// Runs the verb.
    pub fn run(&self, json: bool) -> Result<(), Failure> {
        let named =
            |k: &EngineKnob| self.name.as_ref().is_none_or(|name| k.knob.name.contains(name.as_str()));
        let knobs: Vec<EngineKnob> = all_knobs().into_iter().filter(named).collect();
        if knobs.is_empty() {
            let name: String =
                self.name.iter().flat_map(|n| n.chars().flat_map(char::escape_debug)).collect();
            return Err(Failure(format!("no knob has `{name}` in its name; `pageyard knobs` lists all")));
        }
        let mut document = KnobsDocument::of(&knobs);
        if self.name.is_some() {
            document.posted.clear();
        }
        if json { print_json(&document) } else { print(&document.to_string()) }
    }
}
