//! `pageyard watch`: the last seconds before a failure.

mod folder;
mod metrics_file;
mod reports;
mod rows;

use crate::output::{Failure, print, print_json, say};
use crate::record::signals::Signals;
use crate::{record, size};
use clap::{Args, ValueEnum};
use folder::{Folder, HOST, TRACE};
use metrics_file::MetricsFile;
use pageyard_record::record::watch::{
    Kept, Level, Metrics, SnapshotDocument, Triggers, WatchDocument, Watcher,
};
use pageyard_trace::shown;
use rows::Rows;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// How often the kernel's buffers are looked at.
const LOOK: Duration = Duration::from_millis(250);

/// The length of a window of a fleet's rows.
const WINDOW: Duration = Duration::from_secs(300);

/// Keeps the last seconds in memory, and writes them as a trace when a request fails, compaction fails, or SIGUSR1
/// comes.
#[derive(Args)]
#[command(
    after_help = "Examples:\n  sudo pageyard watch -o /var/lib/pageyard --metrics /run/pageyard.prom\n  sudo pageyard watch --once --on failure\n  sudo pageyard watch --level reports -o /var/lib/pageyard\n  sudo pkill -USR1 -f '^pageyard watch'\n\ndocs/design/watch.md says what is kept and what it costs; packaging/pageyard-watch.service runs it under systemd."
)]
pub struct Watch {
    /// The folder of the snapshots; it is made
    #[arg(short, long, value_name = "FOLDER", default_value = "watch")]
    output: PathBuf,

    /// How much is watched
    #[arg(long, value_enum, default_value = "light")]
    level: LevelName,

    /// The events that make a snapshot, beside SIGUSR1; at level reports, every report [default: failure,compaction]
    #[arg(long, value_enum, value_delimiter = ',')]
    on: Vec<On>,

    /// Memory for events, the kernel's buffers included [default: 64M]
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    ring: Option<u64>,

    /// How many seconds are kept at most [default: 60]
    #[arg(long, value_name = "N", value_parser = record::seconds)]
    seconds: Option<Duration>,

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

    /// Write a row of this host for each window of time into a fleet's folder, which `pageyard fleet` reads
    #[arg(long, value_name = "FOLDER")]
    rows: Option<PathBuf>,

    /// The length of a window, in seconds [default: 300]
    #[arg(long, value_name = "SECONDS", value_parser = record::window, requires = "rows")]
    window: Option<Duration>,

    /// The host's name in its rows [default: the one it gives itself]
    #[arg(long = "as", value_name = "HOST", requires = "rows")]
    host: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum LevelName {
    /// The reports that the kernel logs itself; allocations cost what they do without a watch
    Reports,
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
        let level = match self.level {
            LevelName::Reports => return self.run_reports(json),
            LevelName::Light => Level::Light,
            LevelName::Full => Level::Full,
        };
        let signals = Signals::catch_with_usr1()?;
        let folder = Folder::make(&self.output, TRACE, usize::from(self.keep), self.room)?;
        let kept = Kept {
            bytes: self.ring.unwrap_or(64 << 20),
            time: self.seconds.unwrap_or(Duration::from_secs(60)),
            sample_every: Duration::from_secs(1),
        };
        let on = if self.on.is_empty() { &[On::Failure, On::Compaction][..] } else { &self.on };
        let triggers = Triggers {
            failure: on.contains(&On::Failure),
            any_failure: on.contains(&On::AnyFailure),
            compaction: on.contains(&On::Compaction),
        };
        let mut watcher = Watcher::arm(level, kept, triggers)?;
        let mut metrics = Metrics::default();
        let mut page = MetricsFile::new(self.metrics.as_deref(), &metrics.text(&watcher))?;
        let every = self.window.unwrap_or(WINDOW);
        let rows = self.rows.as_deref().map(|folder| Rows::new(folder, self.host.as_deref(), every));
        let mut rows = rows.transpose()?;
        if rows.is_some() {
            watcher.count_windows();
        }
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
                page.write(&metrics.text(&watcher));
            }
            if page.is_due() {
                page.write(&metrics.text(&watcher));
            }
            if let Some(rows) = rows.as_mut().filter(|rows| rows.is_due()) {
                watcher.end_window().into_iter().for_each(|row| rows.add(row));
            }
            let over = self.time.is_some_and(|time| began.elapsed() >= time);
            if over || signals.stopped().is_some() || self.once && !snapshots.is_empty() {
                break;
            }
        }
        page.write(&metrics.text(&watcher));
        if let Some(rows) = &mut rows {
            watcher.end_window().into_iter().for_each(|row| rows.add(row));
        }
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
        let mut written = watcher.snapshot(&path, !self.no_picture);
        while written.is_err() && folder.give_way() {
            written = watcher.snapshot(&path, !self.no_picture);
        }
        match written {
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
