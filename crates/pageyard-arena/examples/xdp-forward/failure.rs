//! Why the program cannot go on.

use std::fmt;

/// Why a run did not happen.
#[derive(Debug)]
pub enum Failure {
    /// This host cannot do it, and nothing is wrong: the reason, and what would help.
    Skip(String),
    /// Something went wrong.
    Error(String),
}

impl Failure {
    /// Makes an error of what was being done and what stood against it.
    pub fn because(what: impl fmt::Display, why: impl fmt::Display) -> Failure {
        Failure::Error(format!("{what}: {why}"))
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Skip(why) => write!(f, "skipped: {why}"),
            Failure::Error(why) => f.write_str(why),
        }
    }
}
