//! `bench cross` as text.

use super::{
    disturbance_text, external_text, figure, machine_text, quick_text, samples_text, shown_name, skipped_text,
};
use crate::cross::{Cross, GROUP};
use pageyard_trace::text::Grid;
use std::fmt::Write;

impl Cross {
    /// Writes a table: ratios to the floor first.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text =
            quick_text(self.quick, "four times as many frames a sample") + &machine_text(&self.machine);
        text += &disturbance_text(&self.disturbance);
        text += &samples_text(self.samples);
        let _ = writeln!(
            text,
            "Frames taken on one CPU, handed over {GROUP} at a time and given back on the other; nanoseconds a frame.\n\
             Taking and giving back are timed by themselves; the queue takes {} ns of the time that passes.\n",
            figure(self.queue_ns_median, 2)
        );
        let floor = self.rows.iter().find_map(|r| r.floor.as_deref()).unwrap_or("floor");
        let ratio = format!("x {}", floor.trim_start_matches("floor-"));
        let mut grid = Grid::new(["", &ratio, "pair", "taking", "giving", "elapsed", "less queue"]);
        for r in &self.rows {
            let ns = [r.total_ns_median, r.alloc_ns, r.free_ns, r.elapsed_ns_median, r.elapsed_less_queue_ns];
            let ns = ns.map(|ns| figure(ns, 2));
            grid.row([shown_name(&r.allocator, r.external), figure(r.x_floor, 2)].into_iter().chain(ns));
        }
        let _ = write!(text, "{grid}");
        for r in &self.rows {
            if let (Some(share), Some(revoked), Some(each)) =
                (r.biased_share, r.revocations, r.revocations_per_100_000)
            {
                let _ = writeln!(
                    text,
                    "  {}: {share:.2} of its frees without a lock; bias taken back {revoked} times, {each:.2} in 100,000 frees",
                    r.allocator
                );
            }
        }
        external_text(&mut text, self.external.as_ref());
        skipped_text(&mut text, &self.skipped);
        text
    }
}
