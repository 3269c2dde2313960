//! `pageyard watch`: the last seconds before a failure.

mod folder;

use crate::output::{Failure, print, print_json, say};
use crate::record::signals::Signals;
use crate::{record, size};
use clap::{Args, ValueEnum};
use folder::Folder;
use pageyard_record::record::watch::{
    Kept, Level, Metrics, SnapshotDocument, Triggers, WatchDocument, Watcher,
};
use pageyard_trace::shown;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How often the kernel's buffers are looked at.
const LOOK: Duration = Duration::from_millis(250);

/// How often metrics are written, beside after a snapshot.
const METRICS_EVERY: Duration = Duration::from_secs(5);

/// Keeps the last seconds in memory, and writes them as a trace when a request fails, compaction fails, or SIGUSR1
/// comes.
#[derive(Args)]
#[command(
    after_help = "Examples:\n  sudo pageyard watch -o /var/lib/pageyard --metrics /run/pageyard.prom\n  sudo pageyard watch --once --on failure\n  sudo pkill -USR1 -f '^pageyard watch'\n\ndocs/design/watch.md says what is kept and what it costs; packaging/pageyard-watch.service runs it under systemd."
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

    /// The most that snapshots may take on the disk; older ones are removed, the newest stays
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
        let folder = Folder::make(&self.output, usize::from(self.keep), self.room)?;
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
        let mut metrics = Metrics::default();
        let mut page = MetricsFile::new(self.metrics.as_deref(), &watcher, &metrics)?;
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
        folder.salvage();
        metrics.kept = folder.kept().len() as u64;
        let mut snapshots = Vec::new();
        let began = Instant::now();
        let mut last: Option<Instant> = None;
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
                self.snapshot(&mut watcher, &folder, reason, at, &mut metrics, &mut snapshots);
                page.write(&watcher, &metrics);
            }
            page.write_if_due(&watcher, &metrics);
            let over = self.time.is_some_and(|time| began.elapsed() >= time);
            if over || signals.stopped().is_some() || self.once && !snapshots.is_empty() {
                break;
            }
        }
        page.write(&watcher, &metrics);
        let document = WatchDocument::new(&watcher, &metrics, &snapshots);
        if json { print_json(&document) } else { print(&document.text()) }
    }

    /// Writes a snapshot down. A disk that is full is no reason to stop watching.
    fn snapshot(
        &self,
        watcher: &mut Watcher,
        folder: &Folder,
        reason: String,
        at: Option<u64>,
        metrics: &mut Metrics,
        snapshots: &mut Vec<SnapshotDocument>,
    ) {
        let path = folder.next(metrics.snapshots + metrics.failed);
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
        // Only now: one that could not be written replaces none.
        folder.make_room();
        metrics.kept = folder.kept().len() as u64;
    }
}

/// The file for Prometheus.
struct MetricsFile<'a> {
    path: Option<&'a Path>,
    written: Instant,
    /// Whether it could not be written the last time: that is said once.
    has_failed: bool,
}

impl<'a> MetricsFile<'a> {
    /// Writes it for the first time.
    ///
    /// # Errors
    /// When it cannot be written: later on, that is no reason to stop watching.
    fn new(path: Option<&'a Path>, watcher: &Watcher, metrics: &Metrics) -> Result<Self, Failure> {
        let this = MetricsFile { path, written: Instant::now(), has_failed: false };
        this.try_write(watcher, metrics)?;
        Ok(this)
    }

    fn write_if_due(&mut self, watcher: &Watcher, metrics: &Metrics) {
        if self.written.elapsed() >= METRICS_EVERY {
            self.write(watcher, metrics);
        }
    }

    fn write(&mut self, watcher: &Watcher, metrics: &Metrics) {
        self.written = Instant::now();
        match self.try_write(watcher, metrics) {
            Ok(()) => self.has_failed = false,
            Err(Failure(why)) => {
                if !std::mem::replace(&mut self.has_failed, true) {
                    say(&format!("pageyard: {why}; the watch goes on\n"));
                }
            }
        }
    }

    fn try_write(&self, watcher: &Watcher, metrics: &Metrics) -> Result<(), Failure> {
        let Some(path) = self.path else { return Ok(()) };
        metrics.write(watcher, path).map_err(|e| {
            Failure(format!(
                "the metrics cannot be written to {}: {}",
                shown(&path.to_string_lossy()),
                pageyard_trace::source::reason(&e)
            ))
        })
    }
}
