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
    date(now.map_or(0, |d| d.as_secs() / 86_400))
}

/// Returns the date this many days after 1 January 1970. Years begin in March here, so that leap days come last.
fn date(days: u64) -> String {
    let z = days + 719_468;
    let (era, day) = (z / 146_097, z % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let of_year = day - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    format!("{:04}-{month:02}-{day:02}", era * 400 + year + u64::from(month <= 2))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        for (days, expected) in
            [(0, "1970-01-01"), (59, "1970-03-01"), (11_016, "2000-02-29"), (20_778, "2026-11-21")]
        {
            assert_eq!(date(days), expected);
        }
    }

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
