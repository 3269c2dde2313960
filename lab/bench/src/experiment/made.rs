//! How a report was made: the facts at its foot.

use crate::harness::machine::{CHECKED_BUILD, Machine};
use pageyard_replay::text::shown;
use serde::Serialize;
use std::path::Path;

/// How a report was made.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Made {
    /// The command.
    pub command: String,
    /// This program's version.
    pub version: String,
    /// The kernel that ran.
    pub kernel: String,
    /// The date, in UTC.
    pub date: String,
    /// Whether this program was built with assertions and overflow checks; left out for a release build.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub checked_build: bool,
}

impl Made {
    /// Describes this process, now.
    #[must_use]
    pub fn now() -> Made {
        let mut words = std::env::args();
        let program = words.next().unwrap_or_default();
        let program =
            Path::new(&program).file_name().map_or_else(String::new, |n| n.to_string_lossy().into());
        let command = std::iter::once(program).chain(words).collect::<Vec<_>>().join(" ");
        Made {
            command: shown(&command),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            kernel: Machine::this().kernel,
            date: today(),
            checked_build: CHECKED_BUILD,
        }
    }
}

/// Returns the date, in UTC.
fn today() -> String {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    pageyard_trace::fleet::date(now.map_or(0, |d| d.as_secs()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_named_without_its_folder() {
        let made = Made::now();
        assert!(
            !made.command.is_empty() && !made.command.split(' ').next().unwrap().contains('/'),
            "{made:?}"
        );
        assert!(!made.kernel.is_empty());
    }
}
