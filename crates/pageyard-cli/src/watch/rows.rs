//! A fleet's rows of this host, written while it is watched.

use crate::output::{Failure, say};
use pageyard_trace::fleet::{FleetNumber, FleetRow, path_of, write_rows};
use pageyard_trace::shown;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The file of the rows of one watch and one day, written anew with each row.
pub struct Rows<'a> {
    folder: &'a Path,
    host: String,
    every: Duration,
    due: Instant,
    path: PathBuf,
    /// The rows of the day.
    rows: Vec<FleetRow>,
    /// Whether they could not be written the last time: that is said once.
    has_failed: bool,
}

impl<'a> Rows<'a> {
    /// Begins; the host is named `host`, or as it names itself.
    ///
    /// # Errors
    /// A host's name that cannot be one of a folder.
    pub fn new(folder: &'a Path, host: Option<&str>, every: Duration) -> Result<Self, Failure> {
        let own = || rustix::system::uname().nodename().to_string_lossy().into_owned();
        let host = host.map_or_else(own, str::to_owned);
        path_of(folder, &host, 0, "watch").map_err(|why| Failure(format!("{why}; name it with --as")))?;
        let (due, path) = (Instant::now() + every, PathBuf::new());
        Ok(Rows { folder, host, every, due, path, rows: Vec::new(), has_failed: false })
    }

    /// Returns whether it is time for a row.
    pub fn is_due(&self) -> bool {
        Instant::now() >= self.due
    }

    /// Adds a row. A disk that is full is no reason to stop watching.
    pub fn add(&mut self, row: FleetRow) {
        self.due = Instant::now() + self.every;
        let start = row[FleetNumber::StartS];
        // The file is named after its first row: a watch that starts again has one of its own.
        let day = |start: u64| start / 86_400;
        if self.rows.first().is_none_or(|first| day(first[FleetNumber::StartS]) != day(start)) {
            self.rows.clear();
            let path = path_of(self.folder, &self.host, start, &format!("watch-{start}"));
            self.path = path.expect("the name was looked at");
        }
        self.rows.push(row);
        match write_rows(&self.path, &self.rows) {
            Ok(()) => self.has_failed = false,
            Err(why) if !std::mem::replace(&mut self.has_failed, true) => {
                say(&format!("pageyard: {}; the watch goes on\n", shown(&why.to_string())));
            }
            Err(_) => {}
        }
    }
}
