//! Metrics in the text format of Prometheus.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

use super::Watcher;

/// The counts that a watch cannot make itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Metrics {
    /// Snapshots that were taken.
    pub snapshots: u64,
    /// Those that could not be written.
    pub failed: u64,
    /// Those that are kept now.
    pub kept: u64,
    /// Triggers that came too soon after a snapshot.
    pub passed_over: u64,
}

impl Metrics {
    /// Returns the text.
    #[must_use]
    pub fn text(&self, watcher: &Watcher) -> String {
        let counts = watcher.counts();
        let (in_kernel, kept, _) = watcher.memory();
        let (own, seconds) = watcher.own_seconds();
        let mut text = String::new();
        head(&mut text, "failures_total", "counter", "Requests for memory that got nothing, by order.");
        for (order, (all, quiet)) in counts.failures.iter().zip(counts.quiet_failures).enumerate() {
            for (warned, n) in [("true", all - quiet), ("false", quiet)] {
                let _ = writeln!(
                    text,
                    "pageyard_watch_failures_total{{order=\"{order}\",warned=\"{warned}\"}} {n}"
                );
            }
        }
        let one = |text: &mut String, name: &str, kind: &str, help: &str, value: f64| {
            head(text, name, kind, help);
            let _ = writeln!(text, "pageyard_watch_{name} {value}");
        };
        let rows: [(&str, &str, &str, f64); 13] = [
            (
                "fallbacks_total",
                "counter",
                "Blocks taken from a pageblock of another type.",
                counts.fallbacks as f64,
            ),
            ("compaction_stalls_total", "counter", "Requests that compacted.", counts.compact_stalls as f64),
            (
                "compaction_failures_total",
                "counter",
                "Requests for which compaction failed.",
                counts.compact_fails as f64,
            ),
            ("events_total", "counter", "Events that were read.", counts.events as f64),
            (
                "events_overwritten_total",
                "counter",
                "Events that were replaced before they were read.",
                counts.overwritten as f64,
            ),
            ("snapshots_total", "counter", "Snapshots that were taken.", self.snapshots as f64),
            ("snapshots_failed_total", "counter", "Snapshots that could not be written.", self.failed as f64),
            (
                "triggers_passed_over_total",
                "counter",
                "Triggers too soon after a snapshot.",
                self.passed_over as f64,
            ),
            ("snapshots_kept", "gauge", "Snapshots in the folder.", self.kept as f64),
            ("ring_bytes", "gauge", "Bytes of events that are kept.", kept as f64),
            ("kernel_buffer_bytes", "gauge", "Bytes of the kernel's buffers.", in_kernel as f64),
            ("cpu_seconds_total", "counter", "Processor time of the watch itself.", own),
            ("uptime_seconds", "gauge", "Seconds since the watch began.", seconds),
        ];
        for (name, kind, help, value) in rows {
            one(&mut text, name, kind, help, value);
        }
        if let Some((_, seconds)) = watcher.kernel_seconds() {
            let help = "Processor time of the kernel for this watch, at most: frames allocated, times what one takes longer.";
            one(&mut text, "kernel_cpu_seconds_total", "counter", help, seconds);
        }
        text
    }

    /// Writes the text to a file, whole or not at all.
    ///
    /// # Errors
    /// Those of the file system; the file is then as it was.
    pub fn write(&self, watcher: &Watcher, path: &Path) -> io::Result<()> {
        let mut aside = path.as_os_str().to_owned();
        aside.push(".partial");
        let aside = Path::new(&aside);
        let mut file = File::create(aside)?;
        let done = file.write_all(self.text(watcher).as_bytes()).and_then(|()| fs::rename(aside, path));
        if done.is_err() {
            // What could not be written is not left behind.
            let _ = fs::remove_file(aside);
        }
        done
    }
}

fn head(text: &mut String, name: &str, kind: &str, help: &str) {
    let _ = writeln!(text, "# HELP pageyard_watch_{name} {help}\n# TYPE pageyard_watch_{name} {kind}");
}
