//! `pageyard fleet`: many hosts, from the rows that each of them wrote.

use crate::made::CommandLine;
use crate::output::{Failure, print, print_made};
use crate::progress::Progress;
use clap::Args;
use pageyard_replay::fleet::{Cohorts, Days, read};
use pageyard_trace::shown;
use pageyard_trace::source::reason;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// Says what is usual on the hosts of a fleet, which hosts are not, and whether cohorts of them differ.
///
/// `pageyard watch --rows FOLDER` and `pageyard summary TRACE --rows FOLDER --as HOST` write the rows, as
/// FOLDER/date=2026-11-28/host=web-17/NAME.parquet. A copy of every host's folder in one is a fleet.
#[derive(Args)]
#[command(
    after_help = "Examples:\n  pageyard fleet /srv/fleet\n  pageyard fleet /srv/fleet --since 2026-11-21 --by kernel\n  pageyard fleet /srv/fleet --by cohorts.csv --json\n\ndocs/design/fleet.md has the columns, queries for DuckDB, and what is called a difference."
)]
pub struct Fleet {
    /// The folder of the rows
    folder: PathBuf,

    /// The first day that counts
    #[arg(long, value_name = "DATE", value_parser = day)]
    since: Option<String>,

    /// The last day that counts
    #[arg(long, value_name = "DATE", value_parser = day)]
    until: Option<String>,

    /// Compare cohorts of hosts: `kernel`, or a file with host,cohort in each line
    #[arg(long, value_name = "kernel|FILE.csv")]
    by: Option<PathBuf>,

    /// How many of the worst hosts the document has for each figure
    #[arg(long, value_name = "N", default_value_t = 10)]
    worst: usize,
}

/// Reads `2026-11-28`.
fn day(text: &str) -> Result<String, String> {
    let is_digit = |at: usize, c: char| if at == 4 || at == 7 { c == '-' } else { c.is_ascii_digit() };
    let is_date = text.len() == 10 && text.chars().enumerate().all(|(at, c)| is_digit(at, c));
    if is_date { Ok(text.to_owned()) } else { Err("a day is written as in 2026-11-28".to_owned()) }
}

impl Fleet {
    /// Runs the verb.
    pub fn run(&self, line: &CommandLine, json: bool) -> Result<(), Failure> {
        let days = Days {
            since: self.since.clone().unwrap_or_default(),
            until: self.until.clone().unwrap_or_default(),
        };
        let cohorts = match &self.by {
            None => Cohorts::None,
            Some(by) if by == Path::new("kernel") => Cohorts::Kernel,
            Some(file) => {
                let name = shown(&file.to_string_lossy());
                let text = std::fs::read_to_string(file)
                    .map_err(|e| Failure(format!("{name} cannot be read: {}", reason(&e))))?;
                Cohorts::listed(&text).map_err(|why| Failure(format!("{name}: {why}")))?
            }
        };
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs());
        let mut progress = Progress::new();
        let fleet = read(&self.folder, &days, &cohorts, now, &mut |done, all| {
            progress.at("reading hosts", done, all)
        })?;
        drop(progress);
        // Each compares the cohorts, which takes longest.
        match json {
            true => print_made(true, &line.made(), &fleet.document(self.worst), &""),
            false => print(&format!("{fleet}\n{}\n", line.made())),
        }
    }
}
