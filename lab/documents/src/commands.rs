//! Commands that pages and help texts show.

use crate::pages::{Page, Paragraph};
use clap::error::{ContextKind, ContextValue, ErrorKind};
use std::fmt;

/// Pages about names that are no more.
const PAST: [&str; 2] = ["CHANGELOG.md", "docs/migration.md"];

/// Languages of code blocks that hold commands.
const SHELL: [&str; 4] = ["", "sh", "console", "bash"];

/// Words that stand before a command and run it.
const RUNS: [&str; 5] = ["sudo", "nohup", "ssh", "-t", "host"];

/// A command that a text shows.
#[derive(Clone, Debug, PartialEq)]
pub struct Command {
    /// The page, or the help, that shows it.
    page: String,
    line: usize,
    /// Its words, the program first.
    pub words: Vec<String>,
    /// Whether it can be run as it stands. A command inside a sentence may leave out what it needs.
    whole: bool,
}

impl Command {
    /// Returns the program's name without its folder.
    #[must_use]
    pub fn program(&self) -> &str {
        self.words[0].rsplit('/').next().expect("a split text has a last part")
    }

    /// Returns the page that shows it.
    #[must_use]
    pub fn page(&self) -> &str {
        &self.page
    }

    /// Returns whether it can be run as it stands.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.whole
    }

    /// Returns the words behind an option.
    #[must_use]
    pub fn values(&self, option: &str) -> Vec<&str> {
        let pairs = self.words.windows(2).filter(|pair| pair[0] == option);
        pairs.map(|pair| &pair[1][..]).collect()
    }
}

impl fmt::Display for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: `{}`", self.page, self.line, self.words.join(" "))
    }
}

/// Returns the commands of every page, those about the past left out.
#[must_use]
pub fn shown() -> Vec<Command> {
    Page::all().iter().filter(|page| !PAST.contains(&&page.name[..])).flat_map(of_page).collect()
}

fn of_page(page: &Page) -> Vec<Command> {
    let command = |line, whole| move |words| Command { page: page.name.clone(), line, words, whole };
    let mut commands = Vec::new();
    for line in page.lines().iter().filter(|line| line.code.is_some_and(|code| SHELL.contains(&code))) {
        commands.extend(parse(line.text).into_iter().map(command(line.number, true)));
    }
    for paragraph in page.paragraphs() {
        for (line, text) in inline(&paragraph) {
            commands.extend(parse(&text).into_iter().map(command(line, false)));
        }
    }
    commands
}

/// Returns the code spans of a paragraph as they are read: a line's end is a space, a table's `\|` a bar.
fn inline(paragraph: &Paragraph) -> Vec<(usize, String)> {
    let of = |span: std::ops::Range<usize>| {
        let text = paragraph.text[span.clone()].replace("\\|", "|");
        let words: Vec<_> = text.split_whitespace().collect();
        (paragraph.line_at(span.start), words.join(" "))
    };
    paragraph.code_spans().into_iter().map(of).collect()
}

/// Returns the examples in the help of a program and of its verbs, a line each.
#[must_use]
pub fn lines_of_help(program: &clap::Command) -> Vec<String> {
    let text = program.get_after_help().map(ToString::to_string).unwrap_or_default();
    let is_example = |line: &&str| line.starts_with("  ");
    let mut lines: Vec<String> = text.lines().filter(is_example).map(|line| line.trim().to_owned()).collect();
    lines.extend(program.get_subcommands().flat_map(lines_of_help));
    lines
}

/// Returns the commands that the help of a program and of its verbs shows.
#[must_use]
pub fn of_help(program: &clap::Command) -> Vec<Command> {
    let page = format!("{} --help", program.get_name());
    let text = program.get_after_help().map(ToString::to_string).unwrap_or_default();
    let lines = text.lines().enumerate();
    let mut commands: Vec<_> = lines
        .flat_map(|(at, line)| parse(line).into_iter().map(move |words| (at + 1, words)))
        .map(|(line, words)| Command { page: page.clone(), line, words, whole: true })
        .collect();
    commands.extend(program.get_subcommands().flat_map(of_help));
    commands
}

/// Checks that a program takes every command that the pages and its own help show, by its own parser.
pub fn check(program: &clap::Command) {
    let name = program.get_name();
    let commands: Vec<_> = [shown(), of_help(program)].concat();
    let mine = commands.into_iter().filter(|command| command.program() == name && command.words.len() > 1);
    let mine: Vec<_> = mine.collect();
    assert!(mine.len() > 10, "few commands: {mine:?}");
    let faults: Vec<_> = mine
        .iter()
        .filter_map(|command| Some(format!("{command}: {}", refusal(program, command)?)))
        .collect();
    assert!(faults.is_empty(), "`{name}` refuses:\n{}", faults.join("\n"));
}

/// Returns why a program refuses a command.
fn refusal(program: &clap::Command, command: &Command) -> Option<String> {
    let verb = program.find_subcommand(&command.words[1]);
    if verb.is_some_and(clap::Command::is_hide_set) {
        return Some(format!("`{}` is not a verb that help lists", command.words[1]));
    }
    let mut words = command.words.clone();
    loop {
        let error = program.clone().try_get_matches_from(&words).err()?;
        // A value that stands for any number.
        if let Some(ContextValue::String(value)) = error.get(ContextKind::InvalidValue)
            && let Some(at) = words.iter().position(|word| word == value && word == "N")
        {
            words[at] = "9".into();
            continue;
        }
        let incomplete = [
            ErrorKind::MissingRequiredArgument,
            ErrorKind::MissingSubcommand,
            ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand,
        ];
        // An option without its value is refused like one with a wrong value, which here is empty.
        let without = matches!(error.get(ContextKind::InvalidValue), Some(ContextValue::String(value)) if value.is_empty());
        let help = [ErrorKind::DisplayHelp, ErrorKind::DisplayVersion];
        let fine =
            help.contains(&error.kind()) || !command.whole && (without || incomplete.contains(&error.kind()));
        return (!fine).then(|| error.to_string().lines().next().unwrap_or_default().to_owned());
    }
}

/// Returns the commands of a line, one for each part of a pipeline, each as its words. What runs a command, comments,
/// explanations behind two spaces, where output goes and brackets around what is optional are left out.
fn parse(line: &str) -> Vec<Vec<String>> {
    let line = line.trim();
    let line = line.strip_prefix("$ ").unwrap_or(line);
    let mut commands = vec![Vec::new()];
    let mut word = String::new();
    let mut quote = None;
    let mut chars = line.chars().chain([' ']).peekable();
    while let Some(c) = chars.next() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (None, '\'' | '"') => quote = Some(c),
            (None, ' ') => {
                let words = commands.last_mut().expect("there is one from the beginning");
                push(words, std::mem::take(&mut word));
                if matches!(chars.peek(), Some(' ' | '#')) {
                    break;
                }
            }
            (None, '|' | ';' | '&' | '>') => {
                if c == '>' {
                    break;
                }
                let words = commands.last_mut().expect("there is one from the beginning");
                push(words, std::mem::take(&mut word));
                commands.push(Vec::new());
                while chars.peek() == Some(&' ') {
                    chars.next();
                }
            }
            (_, c) => word.push(c),
        }
    }
    commands.retain(|words| !words.is_empty());
    commands
}

/// Adds a word to a command, unless it only runs the command, sets a variable for it, or stands for more words.
fn push(words: &mut Vec<String>, word: String) {
    let before = words.is_empty()
        && (RUNS.contains(&&word[..]) || word.split_once('=').is_some_and(|(name, _)| is_variable(name)));
    let word = word.strip_prefix('[').unwrap_or(&word);
    let word = if word.contains('[') { word } else { word.trim_end_matches(']') };
    if !before && !["", "..", "..."].contains(&word) {
        words.push(word.to_owned());
    }
}

fn is_variable(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|c| c.is_ascii_uppercase() || c == '_')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pages::root;
    use serde_json::Value;
    use std::fs;

    fn page(text: &str) -> Page {
        Page { name: "page.md".into(), text: text.into() }
    }

    #[test]
    fn commands_are_read_from_blocks_and_sentences() {
        let text = "Run `dmesg \\| sudo a/thing --log -`, or `thing\nsum X`; see `thing`.\n\n    $ thing b '2 3'  # c\n    \
                    X=1 thing d [--n N] [--set K=V]      explained\n\n```toml\nthing = 1\n```\n";
        let commands: Vec<_> = of_page(&page(text)).iter().map(ToString::to_string).collect();
        assert_eq!(
            commands,
            [
                "page.md:4: `thing b 2 3`",
                "page.md:5: `thing d --n N --set K=V`",
                "page.md:1: `dmesg`",
                "page.md:1: `a/thing --log -`",
                "page.md:1: `thing sum X`",
                "page.md:2: `thing`",
            ]
        );
    }

    #[test]
    fn a_verb_or_an_option_that_is_not_there_is_refused() {
        let sum = clap::Command::new("sum").arg(clap::Arg::new("of").required(true));
        let sum = sum.arg(clap::Arg::new("n").long("n").value_parser(clap::value_parser!(u8)));
        let gone = clap::Command::new("gone").hide(true);
        let program = clap::Command::new("thing").subcommand(sum).subcommand(gone);
        let refused = |text: &str| {
            let commands = of_page(&page(text));
            refusal(&program, &commands[0])
        };
        for fine in [
            "    thing sum 1 --n 2",
            "    thing sum 1 --n N",
            "`thing sum`",
            "`thing sum --n`",
            "    thing sum --help",
        ] {
            assert_eq!(refused(fine), None, "{fine}");
        }
        for (wrong, says) in [
            ("    thing add 1", "unrecognized subcommand 'add'"),
            ("`thing sum 1 --m`", "unexpected argument '--m'"),
            ("    thing sum 1 --n x", "invalid value 'x'"),
            ("    thing sum", "required arguments"),
            ("    thing sum 1 --n", "a value is required"),
            ("    thing gone", "not a verb that help lists"),
        ] {
            assert!(refused(wrong).is_some_and(|why| why.contains(says)), "{wrong}: {:?}", refused(wrong));
        }
    }

    /// Fails with the places of commands that are wrong.
    fn check_all(program: &str, fault: impl Fn(&Command) -> Option<String>) {
        let commands: Vec<_> = shown().into_iter().filter(|command| command.words[0] == program).collect();
        assert!(commands.len() > 10, "few commands: {commands:?}");
        let faults: Vec<_> =
            commands.iter().filter_map(|command| Some(format!("{command}: {}", fault(command)?))).collect();
        assert!(faults.is_empty(), "{}", faults.join("\n"));
    }

    #[test]
    fn make_has_every_target_that_the_pages_name() {
        let makefile = fs::read_to_string(root().join("Makefile")).unwrap();
        let targets: Vec<_> = makefile.lines().filter_map(|line| Some(line.split_once(':')?.0)).collect();
        check_all("make", |command| {
            let mut names =
                command.words[1..].iter().filter(|word| !word.contains('=') && !word.starts_with('-'));
            names.find(|name| !targets.contains(&&name[..])).map(|name| format!("no target `{name}`"))
        });
    }

    #[test]
    fn cargo_has_every_package_and_target_that_the_pages_name() {
        let cargo = std::process::Command::new(env!("CARGO"))
            .args(["metadata", "--no-deps", "--offline", "--format-version", "1"])
            .current_dir(root())
            .output()
            .unwrap();
        let metadata: Value = serde_json::from_slice(&cargo.stdout).unwrap();
        let packages = metadata["packages"].as_array().unwrap();
        let has = |package: &Value, kind: &str, name: &str| {
            let targets = package["targets"].as_array().unwrap();
            targets.iter().any(|target| target["name"] == name && target["kind"][0] == kind)
        };
        check_all("cargo", |command| {
            let named = command.values("-p");
            if let Some(name) =
                named.iter().find(|name| packages.iter().all(|package| package["name"] != **name))
            {
                return Some(format!("no package `{name}`"));
            }
            let chosen =
                || packages.iter().filter(|p| named.is_empty() || named.iter().any(|n| p["name"] == *n));
            for kind in ["example", "test", "bin"] {
                for name in command.values(&format!("--{kind}")) {
                    if !chosen().any(|package| has(package, kind, name)) {
                        return Some(format!("no {kind} `{name}`"));
                    }
                }
            }
            None
        });
    }

    #[test]
    fn every_script_that_the_pages_run_is_there() {
        let folders = ["bench", "fuzz", "packaging", "viewer", ".ci"];
        let scripts = shown().into_iter().filter(|command| {
            command.words[0].split_once('/').is_some_and(|(folder, _)| folders.contains(&folder))
        });
        let missing = scripts.filter(|command| !root().join(&command.words[0]).exists());
        let missing: Vec<_> = missing.map(|command| command.to_string()).collect();
        assert!(missing.is_empty(), "scripts that are not there:\n{}", missing.join("\n"));
    }
}
