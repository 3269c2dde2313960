//! The commands that pages and help show.

use crate::PAGEYARD;
use pageyard_documents::{commands, transcripts};
use pageyard_replay::engine::EngineSpec;

/// The policy that `docs/design/add-a-policy.md` adds.
const ADDED: &str = "linux-6.18:fallback=smallest";

#[test]
fn commands_of_the_pages_and_of_help_are_taken() {
    commands::check(&pageyard_cli::command());
}

#[test]
fn engines_and_knobs_of_the_pages_and_of_help_are_there() {
    let commands = [commands::shown(), commands::of_help(&pageyard_cli::command())].concat();
    let mut seen = 0;
    let mut faults = Vec::new();
    for command in commands.iter().filter(|command| ["pageyard", "--engine"].contains(&command.program())) {
        // Kernels are not known beforehand.
        let engines = command.values("--engine").into_iter().flat_map(|list| list.split(','));
        let engines: Vec<_> =
            engines.filter(|engine| !engine.starts_with("kernel:") && *engine != ADDED).collect();
        let knobs = command.values("--set").into_iter().filter_map(|set| set.split_once('='));
        let knobs: Vec<_> = knobs.filter(|(knob, _)| *knob != "KNOB").collect();
        let knobs: Vec<_> = knobs.iter().map(|(knob, value)| (knob.to_string(), value.to_string())).collect();
        seen += engines.len();
        let engines = if engines.is_empty() { vec!["linux-6.18"] } else { engines };
        if let Err(why) = EngineSpec::parse_all(&engines, &knobs) {
            faults.push(format!("{command}: {why}"));
        }
    }
    assert!(seen > 10, "few engines: {commands:?}");
    assert!(faults.is_empty(), "engines or knobs that are not there:\n{}", faults.join("\n"));
}

#[test]
fn commands_of_the_readme_print_what_it_shows() {
    transcripts::check(&PAGEYARD, "README.md");
}
