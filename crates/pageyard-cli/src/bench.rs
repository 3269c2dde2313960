//! `pageyard bench`: what a frame costs, beside floors and peers.

use crate::output::{Failure, print, print_json};
use crate::progress::Progress;
use clap::{Args, Subcommand};
use pageyard_lab::bench::scale::{ScaleOptions, ScaleRow, scale};
use pageyard_lab::bench::sweep::{Sweep, SweepOptions, SweepRow, sweep};
use pageyard_lab::text::bytes;
use serde_json::{Value, json};
use std::fmt::Write;

/// Measures what a frame costs here, in the engine and in what one would use instead.
#[derive(Args)]
#[command(after_help = "Examples:\n  pageyard bench sweep --quick\n  pageyard bench scale --json")]
pub struct Bench {
    #[command(subcommand)]
    what: Option<What>,

    /// Measure what says most, within a minute
    #[arg(long, global = true)]
    quick: bool,
}

#[derive(Subcommand, Clone, Copy)]
enum What {
    /// Batches of 1 to 16,384 blocks, allocated and freed
    Sweep,
    /// From 1 GiB to 1 TiB, per-CPU lists bypassed
    Scale,
}

impl Bench {
    /// Runs the verb.
    pub fn run(&self, json: bool) -> Result<(), Failure> {
        let mut progress = Progress::new();
        match self.what.unwrap_or(What::Sweep) {
            What::Sweep => {
                let options = if self.quick { SweepOptions::quick() } else { SweepOptions::full() };
                let result = sweep(&options, &mut |done, all| progress.at("sweep", done, all));
                drop(progress);
                if json { print_json(&sweep_json(&result)) } else { print(&sweep_text(&result)) }
            }
            What::Scale => {
                let options = if self.quick { ScaleOptions::quick() } else { ScaleOptions::full() };
                let rows = scale(&options, &mut |done, all| progress.at("scale", done, all));
                drop(progress);
                if json { print_json(&scale_json(&rows)) } else { print(&scale_text(&rows)) }
            }
        }
    }
}

fn sweep_json(sweep: &Sweep) -> Value {
    let rows = sweep.rows.iter().map(|r| {
        json!({
            "allocator": r.allocator, "threads": r.threads, "order": r.order, "batch": r.batch,
            "pattern": r.pattern.name(), "alloc_ns": r.alloc_ns, "free_ns": r.free_ns,
            "total_ns_min": r.total_ns_min, "total_ns_median": r.total_ns_median,
            "refills": r.refills, "spills": r.spills,
        })
    });
    let skipped = sweep.skipped.iter().map(|s| json!({"allocator": s.allocator, "why": s.why}));
    json!({"rows": rows.collect::<Vec<_>>(), "skipped": skipped.collect::<Vec<_>>()})
}

fn scale_json(rows: &[ScaleRow]) -> Value {
    let rows = rows.iter().map(|r| {
        json!({
            "allocator": r.allocator, "frames": r.frames, "full_pct": r.full_pct, "order": r.order,
            "steps_max": r.steps_max, "total_ns_median": r.total_ns_median,
        })
    });
    json!({"rows": rows.collect::<Vec<_>>()})
}

/// One block for each setting: the ratio to the floor first, then nanoseconds.
fn sweep_text(sweep: &Sweep) -> String {
    let mut text = String::from(
        "Nanoseconds for taking a block and giving it back, each thread; ratios to the floor of the same setting.\n\
         A row without refills and spills never left the per-CPU list.\n",
    );
    let setting = |r: &SweepRow| (r.order, r.threads, r.pattern.name(), r.batch);
    let mut last = None;
    for row in &sweep.rows {
        if last != Some(setting(row)) {
            last = Some(setting(row));
            let threads = if row.threads == 1 { "one thread" } else { "two threads" };
            let _ = writeln!(
                text,
                "\norder {}, batch {}, {}, {threads}",
                row.order,
                row.batch,
                row.pattern.name()
            );
            let _ = writeln!(
                text,
                "  {:<30} {:>8} {:>9} {:>9} {:>8} {:>8} {:>9} {:>9}",
                "", "x floor", "median", "fastest", "alloc", "free", "refills", "spills"
            );
        }
        let floor = if row.threads == 1 { "floor-array" } else { "floor-trylock" };
        let base = sweep.rows.iter().find(|r| setting(r) == setting(row) && r.allocator == floor);
        let ratio = base.map_or(0.0, |b| row.total_ns_median / b.total_ns_median.max(0.01));
        let _ = writeln!(
            text,
            "  {:<30} {ratio:>8.2} {:>9.2} {:>9.2} {:>8.2} {:>8.2} {:>9} {:>9}",
            row.allocator,
            row.total_ns_median,
            row.total_ns_min,
            row.alloc_ns,
            row.free_ns,
            row.refills,
            row.spills
        );
    }
    for s in &sweep.skipped {
        let _ = writeln!(text, "\nskipped: {}: {}", s.allocator, s.why);
    }
    text
}

fn scale_text(rows: &[ScaleRow]) -> String {
    let mut text = String::from(
        "Nanoseconds for taking a block and giving it back, per-CPU lists bypassed, and the most steps a search took.\n\
         Ratios are to 16 GiB at the same order and filling.\n\n",
    );
    let _ = writeln!(
        text,
        "  {:<18} {:>10} {:>7} {:>6} {:>9} {:>9} {:>7}",
        "allocator", "memory", "full", "order", "x 16 GiB", "median", "steps"
    );
    for r in rows {
        let base =
            rows.iter().find(|b| b.frames == 1 << 22 && b.order == r.order && b.full_pct == r.full_pct);
        let ratio = base.map_or("-".to_owned(), |b| format!("{:.2}", r.total_ns_median / b.total_ns_median));
        let _ = writeln!(
            text,
            "  {:<18} {:>10} {:>5} % {:>6} {ratio:>9} {:>9.1} {:>7}",
            r.allocator,
            bytes(r.frames * 4096),
            r.full_pct,
            r.order,
            r.total_ns_median,
            r.steps_max
        );
    }
    text
}
