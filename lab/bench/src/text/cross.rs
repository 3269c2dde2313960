//! `bench cross` as text.

use super::{
    disturbance_text, external_text, machine_text, quick_text, samples_text, shown_name, skipped_text,
};
use crate::cross::GROUP;
use crate::document::CrossDocument;
use std::fmt::Write;

impl CrossDocument<'_> {
    /// Writes a table: ratios to the floor first.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text =
            quick_text(self.quick, "four times as many frames a sample") + &machine_text(self.machine);
        text += &disturbance_text(&self.disturbance);
        text += &samples_text(self.samples);
        let _ = writeln!(
            text,
            "Frames taken on one CPU, handed over {GROUP} at a time and given back on the other; nanoseconds a frame.\n\
             Taking and giving back are timed by themselves; the queue takes {:.2} ns of the time that passes.\n",
            self.queue_ns_median
        );
        let floor = self.rows.iter().find_map(|r| r.floor);
        let _ = writeln!(
            text,
            "  {:<30} {:>12} {:>9} {:>9} {:>9} {:>9} {:>12}",
            "",
            floor.map_or("x floor".into(), |f| format!("x {}", f.trim_start_matches("floor-"))),
            "pair",
            "taking",
            "giving",
            "elapsed",
            "less queue"
        );
        for r in &self.rows {
            let ratio = r.x_floor.map_or_else(|| "-".into(), |x| format!("{x:.2}"));
            let _ = writeln!(
                text,
                "  {:<30} {ratio:>12} {:>9.2} {:>9.2} {:>9.2} {:>9.2} {:>12.2}",
                shown_name(r.row.allocator, r.row.external),
                r.row.total_ns_median,
                r.row.alloc_ns,
                r.row.free_ns,
                r.row.elapsed_ns_median,
                r.row.elapsed_less_queue_ns
            );
        }
        for r in &self.rows {
            if let (Some(share), Some(revoked), Some(each)) =
                (r.row.biased_share, r.row.revocations, r.row.revocations_per_100_000)
            {
                let _ = writeln!(
                    text,
                    "  {}: {share:.2} of its frees without a lock; bias taken back {revoked} times, {each:.2} in 100,000 frees",
                    r.row.allocator
                );
            }
        }
        external_text(&mut text, self.external);
        skipped_text(&mut text, self.skipped);
        text
    }
}
