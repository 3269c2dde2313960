//! `pageyard watch --level reports`: the kernel's own reports, with the host's state at that moment.

use super::metrics_file::MetricsFile;
use super::{Folder, HOST, Watch};
use crate::output::{Failure, print, print_json, say};
use crate::record::signals::Signals;
use pageyard_record::record::reports::{Report, Reports, ReportsDocument, SavedDocument};
use pageyard_record::record::watch::Metrics;
use pageyard_trace::shown;
use pageyard_trace::source::reason;
use std::time::{Duration, Instant};

/// How long to wait for the log when there is nothing to do: metrics are written that often.
const WAIT: Duration = Duration::from_secs(5);

/// Folders that are remembered for the document: a service can run for years.
const MOST_SAVED: usize = 1000;

impl Watch {
    /// Runs the verb at that level.
    pub(super) fn run_reports(&self, json: bool) -> Result<(), Failure> {
        if !self.on.is_empty()
            || self.ring.is_some()
            || self.seconds.is_some()
            || self.no_picture
            || self.rows.is_some()
        {
            let why = "--on, --ring, --seconds, --no-picture and --rows are of the levels light and full: the level reports reads the kernel's log and keeps no events";
            return Err(Failure(why.to_owned()));
        }
        let signals = Signals::catch_with_usr1()?;
        let folder = Folder::make(&self.output, HOST, usize::from(self.keep), self.room)?;
        let mut reports = Reports::open()?;
        let mut metrics = Metrics::default();
        folder.salvage();
        metrics.kept = folder.kept().len() as u64;
        let mut page = MetricsFile::new(self.metrics.as_deref(), &reports.metrics(&metrics))?;
        say("pageyard: watching the kernel's log; an allocation costs what it does without a watch\n");
        let mut saved = Vec::new();
        let began = Instant::now();
        let mut last: Option<Instant> = None;
        loop {
            let left = self.time.map_or(WAIT, |time| WAIT.min(time.saturating_sub(began.elapsed())));
            let mut report = reports.look(signals.wake(), left)?;
            signals.drain();
            if signals.asked() {
                report = Some(reports.now("SIGUSR1"));
            } else if report.is_some() && last.is_some_and(|last| last.elapsed() < self.gap) {
                metrics.passed_over += 1;
                report = None;
            }
            if let Some(report) = report {
                last = Some(Instant::now());
                self.save(&report, &folder, &mut metrics, &mut saved);
                page.write(&reports.metrics(&metrics));
            }
            if page.is_due() {
                page.write(&reports.metrics(&metrics));
            }
            let over = self.time.is_some_and(|time| began.elapsed() >= time);
            if over || signals.stopped().is_some() || self.once && !saved.is_empty() {
                break;
            }
        }
        page.write(&reports.metrics(&metrics));
        let document = ReportsDocument::new(&reports, &metrics, &saved);
        if json { print_json(&document) } else { print(&document.text()) }
    }

    /// Saves a report. A disk that is full is no reason to stop watching.
    fn save(&self, report: &Report, folder: &Folder, metrics: &mut Metrics, saved: &mut Vec<SavedDocument>) {
        let path = folder.next(metrics.snapshots + metrics.failed);
        let why = shown(&report.reason);
        let mut written = report.save(&path);
        while written.is_err() && folder.give_way() {
            written = report.save(&path);
        }
        match written {
            Ok(bytes) => {
                metrics.snapshots += 1;
                let name = shown(&path.to_string_lossy());
                say(&format!(
                    "pageyard: {why}; kept in {name}: `pageyard doctor --log {name}/dmesg` explains it\n"
                ));
                saved.push(SavedDocument { folder: name, reason: why, bytes });
                if saved.len() > MOST_SAVED {
                    saved.remove(0);
                }
            }
            Err(e) => {
                metrics.failed += 1;
                say(&format!("pageyard: {why}, but it could not be kept: {}\n", reason(&e)));
            }
        }
        // Only now: one that could not be written replaces none.
        folder.make_room();
        metrics.kept = folder.kept().len() as u64;
    }
}
