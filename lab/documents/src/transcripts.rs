//! Commands that a page shows with their output, run again.

use crate::pages::{Page, root};
use crate::program::Program;
use std::path::Path;
use std::process::Command;

/// A command and what a page shows of its output.
#[derive(Clone, Debug, PartialEq)]
struct Transcript<'a> {
    line: usize,
    command: &'a str,
    shown: Vec<&'a str>,
}

/// Returns the transcripts of a page: a line of code that begins with `$ `, and the lines of code behind it.
fn of(page: &Page) -> Vec<Transcript<'_>> {
    let mut transcripts: Vec<Transcript<'_>> = Vec::new();
    let mut last = 0;
    for line in page.lines().iter().filter(|line| line.code.is_some()) {
        let text = line.text.strip_prefix("    ").unwrap_or(line.text);
        if let Some(command) = text.strip_prefix("$ ") {
            transcripts.push(Transcript { line: line.number, command, shown: Vec::new() });
            last = line.number;
        } else if let Some(open) = transcripts.last_mut()
            && line.number - last <= 2
        {
            open.shown.push(text);
            last = line.number;
        }
    }
    transcripts
}

/// Runs the commands of a program that a page shows with their output, in the repository's root. Each has to succeed,
/// and to print the lines that the page shows, in that order; it may print others between them.
pub fn check(program: &Program, page: &str) {
    let page = Page::read(page);
    let name = Path::new(program.0).file_name().and_then(|name| name.to_str()).expect("a program has a name");
    let mut found = 0;
    for Transcript { line, command, shown } in of(&page) {
        let Some(arguments) = command.strip_prefix(name).filter(|rest| rest.starts_with(' ')) else {
            continue;
        };
        found += 1;
        let place = format!("{}:{line}: `{command}`", page.name);
        assert!(!shown.is_empty(), "{place} stands without its output");
        let line = format!("exec {}{arguments}", program.0);
        let out = Command::new("sh").args(["-c", &line]).current_dir(root()).output().unwrap();
        assert!(out.status.success(), "{place} fails: {}", String::from_utf8_lossy(&out.stderr));
        let printed = String::from_utf8(out.stdout).expect("what is printed is a text");
        if let Some(missing) = missing(&shown, &printed) {
            panic!("{place} does not print, or not there:\n{missing}\nIt prints:\n{printed}");
        }
    }
    assert!(found > 0, "{} shows no output of `{name}`", page.name);
}

/// Returns the first line shown that is not printed behind those before it.
fn missing<'a>(shown: &[&'a str], printed: &str) -> Option<&'a str> {
    let mut lines = printed.lines().map(str::trim_end);
    shown.iter().copied().filter(|line| !line.is_empty()).find(|line| !lines.any(|printed| printed == *line))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_has_the_lines_behind_it() {
        let text = "a\n\n    $ b c\n    d\n      e\n\nf\n\n```\n$ g\nh\n\ni\n```\n\n    j\n";
        let page = Page { name: "page.md".into(), text: text.into() };
        let transcript = |line, command, shown: &[_]| Transcript { line, command, shown: shown.to_vec() };
        assert_eq!(of(&page), [transcript(3, "b c", &["d", "  e"]), transcript(10, "g", &["h", "", "i"])]);
    }

    #[test]
    fn a_line_that_is_not_printed_there_is_named() {
        let printed = "a\nb  \nc\n";
        assert_eq!(missing(&["a", "", "c"], printed), None);
        assert_eq!(missing(&["a", "b", "d"], printed), Some("d"));
        assert_eq!(missing(&["b", "a"], printed), Some("a"));
    }
}
