//! The commands that pages show.

use crate::LAB;
use pageyard_documents::{commands, transcripts};

#[test]
fn experiments_of_the_pages_are_there() {
    let listed = LAB.json(&["experiment", "--json"]);
    let listed = listed["experiments"].as_array().unwrap();
    let commands = commands::shown().into_iter().filter(|command| command.program() == "pageyard-lab");
    let named = |command: &commands::Command| {
        let name = command.words.get(2).filter(|name| command.words[1] == "experiment" && *name != "NAME");
        name.cloned()
    };
    let named: Vec<_> = commands.filter_map(|command| Some((named(&command)?, command))).collect();
    assert!(named.len() > 5, "few experiments: {named:?}");
    for (name, command) in named {
        assert!(listed.iter().any(|experiment| experiment["name"] == *name), "{command}: no such experiment");
    }
}

#[test]
fn commands_of_the_readme_print_what_it_shows() {
    transcripts::check(&LAB, "README.md");
}
