//! The command that made a text, a page or a document, so that it can be repeated by pasting it.

use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Command};
use pageyard_trace::document::Made;
use std::borrow::Cow;

/// A command line: what was given, and what it left open.
pub struct CommandLine {
    words: Vec<String>,
}

impl CommandLine {
    /// Takes the arguments that were given. Without a verb it is `default_verb`.
    #[must_use]
    pub fn of(command: &Command, matches: &ArgMatches, default_verb: &str) -> CommandLine {
        let (verb, matches) = matches.subcommand().unwrap_or((default_verb, matches));
        let mut line = CommandLine { words: vec![command.get_name().to_owned(), verb.to_owned()] };
        let Some(verb) = command.find_subcommand(verb) else { return line };
        let (positional, options): (Vec<&Arg>, Vec<&Arg>) =
            verb.get_arguments().partition(|argument| argument.is_positional());
        for argument in positional.into_iter().chain(options) {
            line.add(argument, matches);
        }
        // It belongs to no verb.
        if matches!(matches.try_get_one::<bool>("json"), Ok(Some(true))) {
            line.words.push("--json".to_owned());
        }
        line
    }

    fn add(&mut self, argument: &Arg, matches: &ArgMatches) {
        let name = argument.get_id().as_str();
        // A verb that was not named has no arguments of its own. A default is left out: it may need an option that was
        // not given.
        let Ok(Some(values)) = matches.try_get_raw(name) else { return };
        if matches.value_source(name) == Some(ValueSource::DefaultValue) {
            return;
        }
        let values: Vec<Cow<'_, str>> = values.map(|value| value.to_string_lossy()).collect();
        let option = argument.get_long().map(|long| format!("--{long}"));
        match (option, argument.get_value_delimiter()) {
            (Some(option), _) if !argument.get_action().takes_values() => {
                let is_set = matches!(argument.get_action(), ArgAction::SetTrue) && matches.get_flag(name);
                self.words.extend(is_set.then_some(option));
            }
            (Some(option), Some(delimiter)) => {
                let all = values.join(&delimiter.to_string());
                self.words.extend([option, quoted(&all)]);
            }
            (Some(option), None) => {
                values.iter().for_each(|value| self.words.extend([option.clone(), quoted(value)]));
            }
            (None, _) => self.words.extend(values.iter().map(|value| quoted(value))),
        }
    }

    /// Adds an option that was not given, with the value that it had.
    pub fn had(&mut self, option: &str, value: impl ToString) {
        if !self.words.iter().any(|word| word == option) {
            self.words.extend([option.to_owned(), quoted(&value.to_string())]);
        }
    }

    /// Returns it, with the version of this command.
    #[must_use]
    pub fn made(&self) -> Made {
        Made { command: self.words.join(" "), version: env!("CARGO_PKG_VERSION") }
    }
}

/// Quotes a word for a shell, where that is needed.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-./:=,@%+".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(arguments: &[&str]) -> String {
        let command = crate::command();
        let matches = command.clone().try_get_matches_from(arguments).unwrap();
        CommandLine::of(&command, &matches, "replay").made().command
    }

    #[test]
    fn a_command_line_has_what_was_given() {
        assert_eq!(
            line(&["pageyard", "compare", "a b.trace", "--memory", "800M", "--slow-path", "reclaim"]),
            "pageyard compare 'a b.trace' --memory 800M --slow-path reclaim"
        );
        assert_eq!(
            line(&[
                "pageyard",
                "replay",
                "--engine",
                "linux-6.1,linux-6.18",
                "--set",
                "pcp_policy=classic",
                "--threads"
            ]),
            "pageyard replay --engine linux-6.1,linux-6.18 --set pcp_policy=classic --threads"
        );
        assert_eq!(line(&["pageyard"]), "pageyard replay");
        assert_eq!(
            line(&["pageyard", "--json", "summary", "it's.trace"]),
            "pageyard summary 'it'\\''s.trace' --json"
        );
    }

    #[test]
    fn what_was_not_given_is_added_once() {
        let command = crate::command();
        let matches = command.clone().try_get_matches_from(["pageyard", "map", "-o", "x.html"]).unwrap();
        let mut line = CommandLine::of(&command, &matches, "replay");
        line.had("--engine", "linux-6.18");
        line.had("--engine", "linux-6.1");
        assert_eq!(line.made().command, "pageyard map --output x.html --engine linux-6.18");
    }
}
