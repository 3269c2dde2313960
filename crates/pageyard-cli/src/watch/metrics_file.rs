//! The file of a watch's metrics.

use crate::output::{Failure, say};
use pageyard_record::record::watch::write_metrics;
use pageyard_trace::shown;
use std::path::Path;
use std::time::{Duration, Instant};

/// How often metrics are written, beside after a snapshot.
const METRICS_EVERY: Duration = Duration::from_secs(5);

/// The file for Prometheus.
pub struct MetricsFile<'a> {
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
    pub fn new(path: Option<&'a Path>, text: &str) -> Result<Self, Failure> {
        let this = MetricsFile { path, written: Instant::now(), has_failed: false };
        this.try_write(text)?;
        Ok(this)
    }

    /// Returns whether it is time to write it again.
    pub fn is_due(&self) -> bool {
        self.path.is_some() && self.written.elapsed() >= METRICS_EVERY
    }

    /// Writes it again.
    pub fn write(&mut self, text: &str) {
        self.written = Instant::now();
        match self.try_write(text) {
            Ok(()) => self.has_failed = false,
            Err(Failure(why)) => {
                if !std::mem::replace(&mut self.has_failed, true) {
                    say(&format!("pageyard: {why}; the watch goes on\n"));
                }
            }
        }
    }

    fn try_write(&self, text: &str) -> Result<(), Failure> {
        let Some(path) = self.path else { return Ok(()) };
        write_metrics(text, path).map_err(|e| {
            Failure(format!(
                "the metrics cannot be written to {}: {}",
                shown(&path.to_string_lossy()),
                pageyard_trace::source::reason(&e)
            ))
        })
    }
}
