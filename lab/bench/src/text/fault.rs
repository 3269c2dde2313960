//! `bench fault` as text.

use super::{disturbance_text, machine_text, quick_text, samples_text, skipped_text};
use crate::document::{FaultDocument, FaultRowDocument};
use pageyard_replay::text::bytes;
use std::fmt::Write;

impl FaultDocument<'_> {
    /// Writes a table: ratios to the kernel's path first.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = quick_text(self.quick, "reserved huge pages, two threads and 1 GiB for each")
            + &machine_text(self.machine);
        text += &disturbance_text(&self.disturbance);
        text += &samples_text(self.samples);
        text += "Gigabytes (10^9 bytes) a second until a byte of each page has been written, all threads together.\n\
                 populate is also what arena-known-zero and arena-recycled took before, once.\n";
        let mut setting = None;
        for FaultRowDocument { row: r, x_kernel } in &self.rows {
            let this = (r.backing, r.threads);
            if setting != Some(this) {
                setting = Some(this);
                let threads = if r.threads == 1 { String::new() } else { format!(", {} threads", r.threads) };
                let _ = writeln!(
                    text,
                    "\n  {:<40} {:>9} {:>9} {:>9}",
                    format!("{}, {} in pages of {}{threads}", r.backing, bytes(r.bytes), bytes(r.page_bytes)),
                    "x kernel",
                    "GB/s",
                    "+-"
                );
            }
            let _ = writeln!(
                text,
                "  {:<40} {x_kernel:>9.2} {:>9.2} {:>9.2}",
                r.path.name(),
                r.gbps_median,
                r.gbps_stdev
            );
        }
        if let Some(start) = self.start {
            let _ = writeln!(
                text,
                "\nAn arena of {} that is not faulted in: {:.3} ms to map it, {:.2} ms to build the arena over it, {:.2} at most.",
                bytes(start.bytes),
                start.mapping_ms,
                start.arena_ms,
                start.arena_ms_max
            );
        }
        skipped_text(&mut text, self.skipped);
        text
    }
}
