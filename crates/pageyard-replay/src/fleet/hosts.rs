//! The rows of every host: read, checked, and added up.

use super::cohorts::Cohorts;
use super::figures::Totals;
use super::{Fleet, cohorts_of};
use crate::error::ReplayError;
use pageyard_trace::fleet::{FleetFile, FleetNumber as N, FleetRow, fleet_files, read_rows};
use pageyard_trace::shown;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A row that begins later than now by more than so many seconds has another clock.
const AHEAD_S: u64 = 86_400;

/// A row that begins before this has no clock: 1 January 2020.
const BEFORE_S: u64 = 1_577_836_800;

/// A window may begin so many seconds before the one before it ends: whole seconds are written.
const SLACK_S: u64 = 1;

/// A host.
#[derive(Clone, Debug)]
pub struct Host {
    /// Its name.
    pub name: String,
    /// Its rows added up, by cohort: one, without a name, where no cohorts are asked for.
    pub by: BTreeMap<String, Totals>,
}

impl Host {
    /// Returns all its rows added up.
    #[must_use]
    pub fn totals(&self) -> Totals {
        let mut all = Totals::default();
        self.by.values().for_each(|totals| all.join(totals));
        all
    }
}

/// Files or rows that are left out for one reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftOut {
    /// Their name, and the reason.
    pub what: &'static str,
    /// How many there are.
    pub count: u64,
    /// The first of them.
    pub example: String,
}

/// The days that count, `2026-11-28`; the empty text is no bound.
#[derive(Clone, Debug, Default)]
pub struct Days {
    /// The first.
    pub since: String,
    /// The last.
    pub until: String,
}

impl Days {
    fn hold(&self, date: &str) -> bool {
        (self.since.is_empty() || *self.since <= *date) && (self.until.is_empty() || *date <= *self.until)
    }
}

/// The contents of a host's files.
#[derive(Default)]
struct Read {
    host: Option<Host>,
    rows: u64,
    span: Option<(u64, u64)>,
    left_out: Vec<(&'static str, u64, String)>,
}

/// Reads the rows in a folder, by as many threads as there are CPUs. `now_s` is the time, in seconds since 1970;
/// `progress` is told how many of how many hosts are read.
///
/// # Errors
/// [`ReplayError::Trace`] where the folder cannot be listed. A file that cannot be read is left out.
pub fn read(
    folder: &Path,
    days: &Days,
    cohorts: &Cohorts,
    now_s: u64,
    progress: &mut (dyn FnMut(u64, u64) + Send),
) -> Result<Fleet, ReplayError> {
    let (files, others) = fleet_files(folder)?;
    let files: Vec<FleetFile> = files.into_iter().filter(|file| days.hold(&file.date)).collect();
    let of_hosts: Vec<&[FleetFile]> = files.chunk_by(|a, b| a.host == b.host).collect();
    let (next, progress) = (AtomicUsize::new(0), Mutex::new(progress));
    let work = || {
        let mut found = Vec::new();
        loop {
            // ORDER: only which thread takes which host; the threads are joined before what they found is used.
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(files) = of_hosts.get(at) else { return found };
            found.push((at, read_host(files, cohorts, now_s)));
            if let Ok(mut progress) = progress.try_lock() {
                progress(at as u64, of_hosts.len() as u64);
            }
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let mut found: Vec<(usize, Read)> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        workers.into_iter().flat_map(|worker| worker.join().expect("reading rows does not panic")).collect()
    });
    found.sort_by_key(|(at, _)| *at);
    let mut fleet = Fleet { from_s: u64::MAX, ..Fleet::default() };
    let mut left_out: BTreeMap<&'static str, (u64, String)> = BTreeMap::new();
    let mut leave = |what: &'static str, count: u64, example: String| {
        left_out.entry(what).or_insert((0, example)).0 += count;
    };
    for path in others {
        leave("files and folders that are not where rows lie", 1, shown(&path.to_string_lossy()));
    }
    for (_, read) in found {
        read.left_out.into_iter().for_each(|(what, count, example)| leave(what, count, example));
        fleet.rows += read.rows;
        if let Some((from, to)) = read.span {
            (fleet.from_s, fleet.to_s) = (fleet.from_s.min(from), fleet.to_s.max(to));
        }
        if let Some(host) = read.host {
            fleet.losing += u64::from(host.totals().sum(N::LostEvents) > 0.0);
            fleet.hosts.push(host);
        }
    }
    fleet.from_s = fleet.from_s.min(fleet.to_s);
    fleet.left_out =
        left_out.into_iter().map(|(what, (count, example))| LeftOut { what, count, example }).collect();
    if !matches!(cohorts, Cohorts::None) {
        fleet.cohorts = cohorts_of(&fleet.hosts);
    }
    Ok(fleet)
}

/// Reads one host's.
fn read_host(files: &[FleetFile], cohorts: &Cohorts, now_s: u64) -> Read {
    let mut read = Read::default();
    let name = &files[0].host;
    let mut rows: Vec<FleetRow> = Vec::new();
    for file in files {
        match read_rows(&file.path) {
            Ok(more) => rows.extend(more),
            Err(why) => read.left_out.push(("files that are not rows of this schema", 1, why.to_string())),
        }
    }
    rows.sort_by_key(|row| row[N::StartS]);
    let mut host = Host { name: name.clone(), by: BTreeMap::new() };
    let mut end_s = 0;
    let mut last_s = None;
    let mut wrong: BTreeMap<&'static str, u64> = BTreeMap::new();
    for row in rows {
        let start = row[N::StartS];
        let cohort = cohorts.of(name, &row);
        let why = if start > now_s + AHEAD_S {
            Some("rows that begin in the future: the host's clock is wrong")
        } else if start < BEFORE_S {
            Some("rows that begin before 2020: the host's clock is wrong")
        } else if row[N::WindowMs] == 0 {
            Some("rows of no time at all")
        } else if last_s == Some(start) {
            Some("rows of a moment that the host has a row of already")
        } else if start + SLACK_S < end_s {
            Some("rows of a time that the host has a row of already, in part")
        } else if cohort.is_none() {
            Some("rows of hosts that no cohort has")
        } else {
            None
        };
        let Some(cohort) = cohort.filter(|_| why.is_none()) else {
            *wrong.entry(why.unwrap_or_default()).or_default() += 1;
            continue;
        };
        last_s = Some(start);
        end_s = start + row[N::WindowMs] / 1000;
        read.rows += 1;
        read.span = Some(read.span.map_or((start, start), |(from, _)| (from, start)));
        host.by.entry(cohort).or_default().add(&row);
    }
    read.left_out.extend(wrong.into_iter().map(|(what, count)| (what, count, format!("those of {name}"))));
    read.host = (!host.by.is_empty()).then_some(host);
    read
}
