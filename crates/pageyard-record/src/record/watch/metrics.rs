//! Metrics in the text format of Prometheus.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

use super::Watcher;

/// Kinds of metrics.
pub(in crate::record) const COUNTER: &str = "counter";
pub(in crate::record) const GAUGE: &str = "gauge";

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
    /// Returns the text for a watch on events.
    #[must_use]
    pub fn text(&self, watcher: &Watcher) -> String {
        let counts = watcher.counts();
        let (in_kernel, kept, _) = watcher.memory();
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
        let rows = [
            ("fallbacks_total", COUNTER, "Blocks taken from a pageblock of another type.", counts.fallbacks),
            ("compaction_stalls_total", COUNTER, "Requests that compacted.", counts.compact_stalls),
            (
                "compaction_failures_total",
                COUNTER,
                "Requests for which compaction failed.",
                counts.compact_fails,
            ),
            ("events_total", COUNTER, "Events that were read.", counts.events),
            (
                "events_overwritten_total",
                COUNTER,
                "Events that were replaced before they were read.",
                counts.overwritten,
            ),
            ("ring_bytes", GAUGE, "Bytes of events that are kept.", kept),
            ("kernel_buffer_bytes", GAUGE, "Bytes of the kernel's buffers.", in_kernel),
        ];
        for (name, kind, help, value) in rows {
            one(&mut text, name, kind, help, value as f64);
        }
        self.of_any(&mut text, watcher.own_seconds());
        if let Some((_, seconds)) = watcher.kernel_seconds() {
            let help = "Processor time of the kernel for this watch, at most: frames allocated, times what one takes longer.";
            one(&mut text, "kernel_cpu_seconds_total", COUNTER, help, seconds);
        }
        if let Some(blocks) = watcher.pageblocks() {
            let help = "Pageblocks by what keeps them from being huge frames; of a large host, of the parts looked at.";
            head(&mut text, "pageblocks", GAUGE, help);
            for (cause, n) in blocks.by_name() {
                _ = writeln!(text, "pageyard_watch_pageblocks{{holds=\"{cause}\"}} {n}");
            }
        }
        text
    }

    /// Writes what every watch has: its snapshots, and the processor time that it took in so many seconds.
    pub(in crate::record) fn of_any(&self, text: &mut String, (own, seconds): (f64, f64)) {
        let rows = [
            ("snapshots_total", COUNTER, "Snapshots that were taken.", self.snapshots as f64),
            ("snapshots_failed_total", COUNTER, "Snapshots that could not be written.", self.failed as f64),
            (
                "triggers_passed_over_total",
                COUNTER,
                "Triggers too soon after a snapshot.",
                self.passed_over as f64,
            ),
            ("snapshots_kept", GAUGE, "Snapshots in the folder.", self.kept as f64),
            ("cpu_seconds_total", COUNTER, "Processor time of the watch itself.", own),
            ("uptime_seconds", GAUGE, "Seconds since the watch began.", seconds),
        ];
        for (name, kind, help, value) in rows {
            one(text, name, kind, help, value);
        }
    }
}

/// Writes the metrics to a file, whole or not at all.
///
/// # Errors
/// Those of the file system; the file is then as it was.
pub fn write(text: &str, path: &Path) -> io::Result<()> {
    let mut aside = path.as_os_str().to_owned();
    aside.push(".partial");
    let aside = Path::new(&aside);
    let mut file = File::create(aside)?;
    let done = file.write_all(text.as_bytes()).and_then(|()| fs::rename(aside, path));
    if done.is_err() {
        // What could not be written is not left behind.
        let _ = fs::remove_file(aside);
    }
    done
}

pub(in crate::record) fn one(text: &mut String, name: &str, kind: &str, help: &str, value: f64) {
    head(text, name, kind, help);
    let _ = writeln!(text, "pageyard_watch_{name} {value}");
}

pub(in crate::record) fn head(text: &mut String, name: &str, kind: &str, help: &str) {
    let _ = writeln!(text, "# HELP pageyard_watch_{name} {help}\n# TYPE pageyard_watch_{name} {kind}");
}
