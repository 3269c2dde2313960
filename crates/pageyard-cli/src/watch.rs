//! `pageyard watch`: the last seconds before a failure.

use crate::output::{Failure, print, print_json, say};
use crate::record::signals::Signals;
use crate::{record, size};
use clap::{Args, ValueEnum};
use pageyard_record::record::watch::{
    Kept, Level, Metrics, SnapshotDocument, Triggers, WatchDocument, Watcher,
};
use pageyard_trace::shown;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// How often the kernel's buffers are looked at.
const LOOK: Duration = Duration::from_millis(250);

/// How often metrics are written.
const METRICS_EVERY: Duration = Duration::from_secs(5);

/// What names of snapshots begin with.
const NAME: &str = "watch-";

/// Keeps the last seconds in memory, and writes them as a trace when a request fails, compaction fails, or SIGUSR1 comes.
#[derive(Args)]
#[command(
    after_help = "Examples:\n  sudo pageyard watch -o /var/lib/pageyard --metrics /run/pageyard.prom\n  sudo pageyard watch --once --on failure\n  sudo pkill -USR1 -x pageyard\n\ndocs/design/watch.md says what is kept and what it costs; packaging/pageyard-watch.service runs it under systemd."
)]
pub struct Watch {
    /// The folder of the snapshots; it is made
    #[arg(short, long, value_name = "FOLDER", default_value = "watch")]
    output: PathBuf,

    /// How much is watched
    #[arg(long, value_enum, default_value = "light")]
    level: LevelName,

    /// What makes a snapshot, beside SIGUSR1
    #[arg(long, value_enum, value_delimiter = ',', default_value = "failure,compaction")]
    on: Vec<On>,

    /// Memory for events, the kernel's buffers included
    #[arg(long, value_name = "SIZE", value_parser = size::parse, default_value = "64M")]
    ring: u64,

    /// How many seconds are kept at most
    #[arg(long, value_name = "N", value_parser = record::seconds, default_value = "60")]
    seconds: Duration,

    /// The least time from one snapshot to the next
    #[arg(long, value_name = "SECONDS", value_parser = record::seconds, default_value = "60")]
    gap: Duration,

    /// How many snapshots stay; older ones are removed
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..), default_value_t = 10)]
    keep: u16,

    /// The most that snapshots may take on the disk; older ones are removed
    #[arg(long, value_name = "SIZE", value_parser = size::parse, default_value = "1G")]
    room: u64,

    /// End after the first snapshot
    #[arg(long)]
    once: bool,

    /// End after this many seconds
    #[arg(long = "for", value_name = "SECONDS", value_parser = record::seconds)]
    time: Option<Duration>,

    /// Leave out the picture of what each frame holds at the end, which takes longest on large hosts
    #[arg(long)]
    no_picture: bool,

    /// Write counters for Prometheus here, each 5 s
    #[arg(long, value_name = "FILE")]
    metrics: Option<PathBuf>,
}

#[derive(Clone, Copy, ValueEnum)]
enum LevelName {
    /// Failures, fallbacks, compaction and blocks above order 3
    Light,
    /// All that `record` has
    Full,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum On {
    /// A refused request that the kernel would log
    Failure,
    /// Any refused request
    AnyFailure,
    /// A request for which compaction failed
    Compaction,
}

impl Watch {
    /// Runs the verb.
    pub fn run(&self, json: bool) -> Result<(), Failure> {
        let signals = Signals::catch_with_usr1()?;
        fs::create_dir_all(&self.output).map_err(|e| self.refused(&e))?;
        let kept = Kept { bytes: self.ring, time: self.seconds, sample_every: Duration::from_secs(1) };
        let triggers = Triggers {
            failure: self.on.contains(&On::Failure),
            any_failure: self.on.contains(&On::AnyFailure),
            compaction: self.on.contains(&On::Compaction),
        };
        let level = match self.level {
            LevelName::Light => Level::Light,
            LevelName::Full => Level::Full,
        };
        let mut watcher = Watcher::arm(level, kept, triggers)?;
        let (in_kernel, _, most) = watcher.memory();
        let price = watcher.kernel_seconds().map_or_else(String::new, |(ns, _)| {
            format!("; allocating and freeing a frame takes the kernel {ns:.0} ns longer")
        });
        say(&format!(
            "pageyard: watching, level {}: {} KiB in the kernel, at most {} KiB here{price}\n",
            level.name(),
            in_kernel >> 10,
            most >> 10
        ));
        let mut snapshots = Vec::new();
        let mut metrics = Metrics { kept: kept_snapshots(&self.output).len() as u64, ..Metrics::default() };
        let began = Instant::now();
        let mut last: Option<Instant> = None;
        let mut written: Option<Instant> = None;
        loop {
            let found = watcher.look(signals.wake(), LOOK)?;
            signals.drain();
            let asked = signals.asked();
            let too_soon = last.is_some_and(|last| last.elapsed() < self.gap);
            let reason = match (asked, found.reason) {
                (true, _) => Some(("SIGUSR1".to_owned(), None)),
                (_, Some(_)) if too_soon => {
                    metrics.passed_over += 1;
                    None
                }
                (_, reason) => reason.map(|reason| (reason, Some(found.at_ns))),
            };
            if let Some((reason, at)) = reason {
                last = Some(Instant::now());
                self.snapshot(&mut watcher, reason, at, &mut metrics, &mut snapshots);
            }
            if written.is_none_or(|at| at.elapsed() >= METRICS_EVERY) {
                written = Some(Instant::now());
                self.write_metrics(&watcher, &metrics)?;
            }
            let over = self.time.is_some_and(|time| began.elapsed() >= time);
            if over || signals.stopped().is_some() || self.once && !snapshots.is_empty() {
                break;
            }
        }
        self.write_metrics(&watcher, &metrics)?;
        let document = WatchDocument::new(&watcher, &metrics, &snapshots);
        if json { print_json(&document) } else { print(&document.text()) }
    }

    /// Writes a snapshot down. A disk that is full is no reason to stop watching.
    fn snapshot(
        &self,
        watcher: &mut Watcher,
        reason: String,
        at: Option<u64>,
        metrics: &mut Metrics,
        snapshots: &mut Vec<SnapshotDocument>,
    ) {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs());
        let path = self.output.join(format!("{NAME}{since}-{}.trace", metrics.snapshots + metrics.failed));
        // Room is made first: for it, and for one as large as the last.
        self.make_room(usize::from(self.keep) - 1);
        match watcher.snapshot(&path, !self.no_picture) {
            Ok(snapshot) => {
                metrics.snapshots += 1;
                let name = shown(&path.to_string_lossy());
                say(&format!("pageyard: {reason}; kept in {name}\n"));
                let at = at.unwrap_or(snapshot.start_ns + (snapshot.seconds * 1e9) as u64);
                snapshots.push(SnapshotDocument::new(name, reason, at, &snapshot));
                // A service can run for years.
                if snapshots.len() > 1000 {
                    snapshots.remove(0);
                }
            }
            Err(why) => {
                metrics.failed += 1;
                say(&format!("pageyard: {reason}, but it could not be kept: {why}\n"));
            }
        }
        self.make_room(usize::from(self.keep));
        metrics.kept = kept_snapshots(&self.output).len() as u64;
    }

    /// Removes the oldest snapshots until so many are left, and no more than there is room for.
    fn make_room(&self, keep: usize) {
        let mut all = kept_snapshots(&self.output);
        let mut bytes: u64 = all.iter().map(|path| bytes_of(path)).sum();
        while !all.is_empty() && (all.len() > keep || bytes > self.room) {
            let oldest = all.remove(0);
            bytes -= bytes_of(&oldest).min(bytes);
            if let Err(e) = fs::remove_dir_all(&oldest) {
                say(&format!("pageyard: {} cannot be removed: {e}\n", shown(&oldest.to_string_lossy())));
            }
        }
    }

    fn write_metrics(&self, watcher: &Watcher, metrics: &Metrics) -> Result<(), Failure> {
        let Some(path) = &self.metrics else { return Ok(()) };
        metrics.write(watcher, path).map_err(|e| {
            Failure(format!("the metrics cannot be written to {}: {e}", shown(&path.to_string_lossy())))
        })
    }

    fn refused(&self, error: &std::io::Error) -> Failure {
        Failure(format!("{} cannot be made: {error}", shown(&self.output.to_string_lossy())))
    }
}

/// Returns the snapshots in a folder, the oldest first: nothing else there is touched.
fn kept_snapshots(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let mut all: Vec<((u64, u64), PathBuf)> =
        entries.flatten().filter_map(|e| Some((number(e.file_name().to_str()?)?, e.path()))).collect();
    all.sort();
    all.into_iter().map(|(_, path)| path).collect()
}

/// Reads `watch-1795437600-3.trace`.
fn number(name: &str) -> Option<(u64, u64)> {
    let (seconds, n) = name.strip_prefix(NAME)?.strip_suffix(".trace")?.split_once('-')?;
    Some((seconds.parse().ok()?, n.parse().ok()?))
}

fn bytes_of(folder: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(folder) else { return 0 };
    entries.flatten().filter_map(|e| e.metadata().ok()).map(|m| m.len()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_snapshots_are_counted_the_oldest_first() {
        assert_eq!(number("watch-1795437600-3.trace"), Some((1_795_437_600, 3)));
        for other in
            ["busy.trace", "watch-1-2.trace.partial", "watch-x-2.trace", "watch-1.trace", "watch--.trace"]
        {
            assert_eq!(number(other), None, "{other}");
        }
    }
}
