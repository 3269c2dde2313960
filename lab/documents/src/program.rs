//! A command as a user meets it.

use crate::schemas;
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

/// A command, by its file.
#[derive(Clone, Copy, Debug)]
pub struct Program(pub &'static str);

impl Program {
    /// Runs it.
    #[must_use]
    pub fn run(&self, arguments: &[&str]) -> Output {
        Command::new(self.0).args(arguments).output().expect("the command starts")
    }

    /// Returns the folder that it is in.
    #[must_use]
    pub fn folder(&self) -> &'static Path {
        Path::new(self.0).parent().expect("a file is in a folder")
    }

    /// Returns what it printed; it must succeed.
    #[must_use]
    pub fn stdout(&self, arguments: &[&str]) -> Vec<u8> {
        let out = self.run(arguments);
        assert!(out.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&out.stderr));
        out.stdout
    }

    /// Checks that a run succeeded and printed one JSON document that its schema describes, and nothing else on
    /// standard output.
    pub fn json(&self, arguments: &[&str]) -> Value {
        schemas::document(&self.stdout(arguments))
    }

    /// Checks that a run failed in time, printed nothing on standard output, and one plain message; returns the
    /// message.
    pub fn failure(&self, arguments: &[&str]) -> String {
        let start = Instant::now();
        let out = self.run(arguments);
        assert!(!out.status.success(), "{arguments:?}");
        assert!(out.stdout.is_empty(), "{arguments:?}");
        let text = String::from_utf8(out.stderr).expect("a message is a text");
        assert!(!text.contains("panicked") && !text.contains("RUST_BACKTRACE"), "{text}");
        assert!((1..=5).contains(&text.lines().count()), "{text}");
        assert!(start.elapsed() < Duration::from_secs(30), "{arguments:?} took {:?}", start.elapsed());
        text
    }

    /// Checks that a run printed nothing that a terminal would act on; returns all that it printed.
    pub fn harmless(&self, arguments: &[&str]) -> String {
        let out = self.run(arguments);
        let text = String::from_utf8([out.stdout, out.stderr].concat()).expect("what is printed is a text");
        assert!(text.chars().all(|c| c == '\n' || !c.is_control()), "{arguments:?}: {text:?}");
        assert!(text.lines().count() > 0, "{arguments:?}");
        text
    }
}
