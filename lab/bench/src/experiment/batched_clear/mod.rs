//! `batched-clear`, document 001: huge pages cleared in batches, or whole, instead of a page at a time.
//!
//! * `units`: page, batch and whole, by size of the extent, on one thread and two;
//! * `latency`: how long a stretch without a question whether to stop takes; `survival`: what clearing leaves of
//!   another working set in the caches; `faults`: memory until it can be used, by the kernel and by the arena;
//! * `verdict`: what was reproduced of the document, and what clearing was to reach.

mod extent;
mod faults;
mod latency;
mod survival;
mod units;
mod verdict;

use super::{Claim, Experiment, Plot, Published, Rows, Run, Series};
use crate::clear::{Mode, Way};
use crate::error::BenchError;
use extent::{BATCHED, CONTIGUOUS, COUNTERS, DOCUMENTS, Extent, PUBLISHED, column};
use pageyard_arena::clear::Primitive;

/// The experiment.
pub struct BatchedClear;

impl Experiment for BatchedClear {
    fn name(&self) -> &'static str {
        "batched-clear"
    }

    fn about(&self) -> &'static str {
        "huge pages cleared in batches instead of a page at a time (A. Arora, 2026)"
    }

    fn quick_cannot_show(&self) -> &'static str {
        "extents end at 64 MiB instead of 1 GiB, and memory at 256 MiB: it shows that everything runs"
    }

    fn columns(&self) -> &'static [(&'static str, &'static str)] {
        &[
            (
                CONTIGUOUS,
                "the document's kernel before the patch: each page of a huge page is cleared by itself",
            ),
            (
                BATCHED,
                "with the patch: 32 MiB with one call where the kernel cannot be preempted, the whole extent where it can",
            ),
            (
                ":page",
                "4 KiB with each call: before the patch, and what a processor without a fast primitive keeps",
            ),
            (":batch", "32 MiB with each call; of scattered frames, 64 of them with one fence"),
            (":whole", "the whole extent with one call"),
            ("rep-stosb", "what the document's kernel clears with"),
            ("-nt", "stores that bypass the caches, as clzero's do"),
            (
                "pageyard",
                "what the arena chooses on this machine, by size and by what is known of the caches",
            ),
        ]
    }

    fn engines(&self) -> &'static [&'static str] {
        &[]
    }

    fn varies(&self, _: &str) -> bool {
        false
    }

    fn measure(&self, run: &mut Run<'_>) -> Result<Rows, BenchError> {
        let extent = Extent::new(run.quick);
        let mut rows = Rows::default();
        units::measure(&extent, run, &mut rows)?;
        latency::measure(&extent, run, &mut rows)?;
        survival::measure(&extent, run, &mut rows)?;
        faults::measure(&extent, run, &mut rows);
        run.note(
            "the clock of this machine cannot be set, and it has no counters: instructions and cache misses are not measured",
        );
        Ok(rows)
    }

    fn published(&self, tables: &Published) -> Rows {
        let mut rows = Rows::default();
        rows.section(PUBLISHED);
        for line in tables.lines("batched_clear") {
            let clock = line.text("machine").split_whitespace().nth(2).unwrap_or("").to_owned();
            let metric = format!("{}, preempt={}, {clock}", line.text("page_size"), line.text("preempt"));
            for (column, name) in [(CONTIGUOUS, "contiguous"), (BATCHED, "batched")] {
                rows.add(&metric, column, line.number(&format!("{name}_pages_gbps")), "GB/s");
                rows.add(format!("+- {metric}"), column, line.number(&format!("{name}_stdev_pct")), "%");
            }
            rows.add(format!("gain {metric}"), BATCHED, line.number("gain_pct"), "%");
        }
        for line in tables.lines("batched_clear_other_machines") {
            let metric = format!("{}, {}", line.text("page_size"), line.text("machine"));
            rows.add(&metric, CONTIGUOUS, line.number("contiguous_pages_gbps"), "GB/s");
            rows.add(&metric, BATCHED, line.number("batched_pages_gbps"), "GB/s");
        }
        rows.section(COUNTERS);
        for line in tables.lines("batched_clear_counters") {
            let column = if line.text("mode") == "contiguous-pages" { CONTIGUOUS } else { BATCHED };
            let metric = format!("{}, {}", line.text("counter"), line.text("mode"));
            rows.add(&metric, column, line.number("count"), "events");
            rows.add(format!("+- {metric}"), column, line.number("stdev_pct"), "%");
            match line.text("rate_unit") {
                "M/sec" => rows.add(format!("rate of {metric}"), column, line.number("rate"), "M/s"),
                _ => rows.add(format!("share of {metric}"), column, line.number("rate"), "% of all loads"),
            }
        }
        rows
    }

    fn claims(&self, rows: &Rows) -> Vec<Claim> {
        verdict::claims(rows)
    }

    fn plots(&self, rows: &Rows) -> Vec<Plot> {
        let line = |primitive: Option<Primitive>, mode: Mode| {
            let name = column(Way { primitive, mode });
            let sizes = Extent::new(false).sizes.into_iter();
            let points =
                sizes.filter_map(|size| Some((size as f64, rows.get(&units::cold(size, 1), &name)?)));
            Series { points: points.collect(), name }
        };
        let mut plot = Plot {
            title: "Cold memory cleared on one thread".into(),
            x: "bytes of an extent",
            y: "GB/s",
            series: vec![
                line(Some(DOCUMENTS), Mode::Page),
                line(Some(DOCUMENTS), Mode::Batch),
                line(Some(DOCUMENTS), Mode::Extent),
                line(None, Mode::Extent),
            ],
        };
        plot.series.retain(|s| !s.points.is_empty());
        vec![plot].into_iter().filter(|p| !p.series.is_empty()).collect()
    }
}
