//! `bench clear` as text.

use super::{disturbance_text, machine_text, quick_text, samples_text, skipped_text};
use crate::document::{ClearDocument, ClearRowDocument};
use pageyard_replay::text::bytes;
use std::fmt::Write;

impl ClearDocument<'_> {
    /// Writes a table for each setting: ratios first.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = quick_text(self.quick, "all sizes from 4 KiB to 1 GiB") + &machine_text(self.machine);
        text += &disturbance_text(&self.disturbance);
        text += &samples_text(self.samples);
        if let Some(choice) = self.choice {
            let _ = writeln!(
                text,
                "pageyard clears a hot frame with {}, cold memory and extents from {} on with {}.",
                choice.cached,
                bytes(choice.threshold_bytes),
                choice.streaming
            );
        }
        text += "Gigabytes (10^9 bytes) a second, all threads together, and the standard deviation; x memset: a page at a time.\n";
        let mut setting = None;
        for ClearRowDocument { row: r, x_memset, x_best } in &self.rows {
            let this = (r.extent_bytes, r.cold, r.threads);
            if setting != Some(this) {
                setting = Some(this);
                let state = if r.cold { "cold" } else { "hot" };
                let threads = if r.threads == 1 { String::new() } else { format!(", {} threads", r.threads) };
                let _ = writeln!(
                    text,
                    "\n  {:<25} {:>10} {:>10} {:>9} {:>9} {:>9}",
                    format!("{} {state}{threads}", bytes(r.extent_bytes)),
                    "at a time",
                    "x memset",
                    "x best",
                    "GB/s",
                    "+-"
                );
            }
            let _ = writeln!(
                text,
                "  {:<14} {:<10} {:>10} {x_memset:>10.2} {x_best:>9.2} {:>9.2} {:>9.2}",
                r.primitive,
                r.mode.name(),
                bytes(r.batch_bytes),
                r.gbps_median,
                r.gbps_stdev
            );
        }
        skipped_text(&mut text, self.skipped);
        text
    }
}
