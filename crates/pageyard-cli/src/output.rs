//! Results go to standard output, everything else to standard error.

use pageyard_trace::document::{Document, Made, Versioned};
use pageyard_trace::shown;
use std::borrow::Cow;
use std::fmt::Display;
use std::io::{ErrorKind, Write};
use std::process::ExitCode;

/// The longest line of an error that is printed whole, in characters: the sentences of this program are shorter.
const LONGEST_LINE: usize = 1000;

/// Why a verb could not do its work: one plain sentence.
pub struct Failure(pub String);

impl<E: std::error::Error> From<E> for Failure {
    fn from(error: E) -> Self {
        Failure(error.to_string())
    }
}

/// Prints a result. A reader that has gone away is no failure.
///
/// Names are made fit to be shown where they are put into a text; this is the last door, for one that was forgotten.
pub fn print(text: &str) -> Result<(), Failure> {
    let text = lines_shown(text, usize::MAX);
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(e) if e.kind() != ErrorKind::BrokenPipe => {
            Err(Failure(format!("the result cannot be written: {e}")))
        }
        _ => Ok(()),
    }
}

/// Prints one JSON document.
///
/// JSON itself escapes the controls of ASCII only. The others are between quotes, where their escapes mean the same.
pub fn print_json<T: Document>(document: &T) -> Result<(), Failure> {
    print_versioned(&Versioned::of(document))
}

/// Prints a result as JSON or as text, and what made it.
pub fn print_made<T: Document>(
    json: bool,
    made: &Made,
    document: &T,
    text: &dyn Display,
) -> Result<(), Failure> {
    if json {
        print_versioned(&Versioned::of(document).made(made))
    } else {
        print(&format!("{text}\n{made}\n"))
    }
}

fn print_versioned<T: Document>(document: &Versioned<'_, T>) -> Result<(), Failure> {
    let text = serde_json::to_string(document)?;
    if text.chars().any(char::is_control) {
        let escaped: String = text
            .chars()
            .map(|c| {
                if c.is_control() { Cow::from(format!("\\u{:04x}", c as u32)) } else { c.to_string().into() }
            })
            .collect();
        return print(&format!("{escaped}\n"));
    }
    print(&format!("{text}\n"))
}

/// Prints a result as JSON or as text.
pub fn show<T: Document>(json: bool, document: &T, to_text: impl Fn(&T) -> String) -> Result<(), Failure> {
    if json { print_json(document) } else { print(&to_text(document)) }
}

/// Prints what is not the result, on standard error.
pub fn say(text: &str) {
    eprint!("{}", lines_shown(text, LONGEST_LINE));
}

/// Makes each line of a text fit to be shown.
fn lines_shown(text: &str, longest: usize) -> Cow<'_, str> {
    let fits = |line: &str| line.chars().count() <= longest && !line.chars().any(char::is_control);
    if text.split('\n').all(fits) {
        return text.into();
    }
    let lines = text
        .split('\n')
        .map(|line| if fits(line) { Cow::from(line) } else { shown_line(line, longest).into() });
    lines.collect::<Vec<_>>().join("\n").into()
}

fn shown_line(line: &str, longest: usize) -> String {
    let safe: String =
        line.chars()
            .map(|c| {
                if c.is_control() {
                    shown(c.encode_utf8(&mut [0; 4])).into()
                } else {
                    Cow::from(c.to_string())
                }
            })
            .collect();
    if safe.chars().count() <= longest { safe } else { shown(&safe) }
}

/// Turns what a verb of `command` did into an exit status, and says what went wrong.
pub fn exit(command: &str, done: Result<(), Failure>) -> ExitCode {
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure(why)) => {
            let lines: Vec<&str> = why.lines().take(5).collect();
            say(&format!("{command}: {}\n", lines.join("\n")));
            ExitCode::FAILURE
        }
    }
}

/// Says what is wrong with the arguments, or prints the help that was asked for, and returns the exit status.
///
/// Clap puts arguments into its messages as they are.
pub fn wrong_arguments(error: &clap::Error) -> ExitCode {
    if error.use_stderr() {
        say(&error.render().to_string());
        ExitCode::from(2)
    } else {
        // There is nowhere left to say that the help cannot be printed.
        let _ = error.print();
        ExitCode::SUCCESS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_is_fit_to_be_shown() {
        assert_eq!(lines_shown("a\n  b é\n", 10), "a\n  b é\n");
        assert_eq!(lines_shown("a\u{1b}[2J\r\nb\n", 100), "a\\u{1b}[2J\\r\nb\n");
        let long = lines_shown(&"x".repeat(1 << 20), LONGEST_LINE).into_owned();
        assert!(long.len() <= LONGEST_LINE);
    }
}
