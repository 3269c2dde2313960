//! `pageyard knobs`: the settings of every engine, by name.

use crate::output::{Failure, print, print_json};
use clap::Args;
use pageyard_replay::engine::{Knob, KnobsDocument, all_knobs};
use std::fmt::Write;

/// Lists the knobs that `--set` takes: values, engines, defaults, and what each does.
#[derive(Args)]
#[command(after_help = "Examples:\n  pageyard knobs\n  pageyard knobs compaction.direct_free")]
pub struct Knobs {
    /// Only the knobs whose name contains this [default: all]
    name: Option<String>,
}

impl Knobs {
    /// Runs the verb.
    pub fn run(&self, json: bool) -> Result<(), Failure> {
        let named = |k: &Knob| self.name.as_ref().is_none_or(|name| k.name.contains(name.as_str()));
        let knobs: Vec<Knob> = all_knobs().into_iter().filter(named).collect();
        if knobs.is_empty() {
            let name: String =
                self.name.iter().flat_map(|n| n.chars().flat_map(char::escape_debug)).collect();
            return Err(Failure(format!("no knob has `{name}` in its name; `pageyard knobs` lists all")));
        }
        if json {
            return print_json(&KnobsDocument::of(&knobs));
        }
        print(&knobs.iter().map(as_text).collect::<String>())
    }
}

fn as_text(knob: &Knob) -> String {
    let mut text = format!("{}: {}\n  takes {}\n", knob.name, knob.about, knob.takes);
    // Engines with the same default share a line.
    let mut defaults: Vec<(&str, Vec<&str>)> = Vec::new();
    for (engine, default) in &knob.engines {
        match defaults.iter_mut().find(|(d, _)| d == default) {
            Some((_, engines)) => engines.push(engine),
            None => defaults.push((default, vec![engine])),
        }
    }
    for (default, engines) in defaults {
        let _ = writeln!(text, "  {default} on {}", engines.join(", "));
    }
    text
}
