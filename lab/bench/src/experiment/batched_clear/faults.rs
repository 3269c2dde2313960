//! Memory until it can be used: the kernel's demand faults and the arena's blocks; and `perf`'s own benchmark, where it
//! has it.

use super::extent::Extent;
use crate::experiment::{Rows, Run};
use crate::fault::{FaultOptions, fault};
use crate::harness::sampler::SAMPLES;
use pageyard_replay::text::bytes;
use std::process::Command;

const SECTION: &str = "Memory until a byte of each page is written";

/// The metric of a kind of memory.
pub(super) fn metric(page_bytes: u64, threads: usize) -> String {
    let threads = if threads == 1 { String::new() } else { format!(", {threads} threads") };
    format!("pages of {}{threads}", bytes(page_bytes))
}

/// The column of `perf bench mem mmap -f demand`.
pub(super) const PERF: &str = "perf:mmap-demand";

pub(super) fn measure(extent: &Extent, run: &mut Run<'_>, rows: &mut Rows) {
    let full = if run.quick { FaultOptions::quick() } else { FaultOptions::full() };
    let memory = full.memory.min(extent.memory);
    let options = FaultOptions { samples: run.samples.unwrap_or(SAMPLES), memory, ..full };
    let result = fault(&options, &mut |done, all| run.at("faults", done as usize, all as usize));
    rows.section(SECTION);
    for row in &result.rows {
        let metric = format!("{}, {}", row.backing, metric(row.page_bytes, row.threads));
        rows.add(&metric, row.path.name(), row.gbps_median, "GB/s");
        rows.add(format!("+- {metric}"), row.path.name(), 100.0 * row.gbps_stdev / row.gbps_median, "%");
    }
    for skipped in &result.skipped {
        run.note(format!("faults of {} were not measured: {}", skipped.allocator, skipped.why));
    }
    for page in ["4KB", "2MB", "1GB"] {
        match perf(page, memory) {
            Ok(gbps) => rows.add(format!("perf bench, pages of {page}"), PERF, gbps, "GB/s"),
            Err(why) => {
                run.note(format!("perf bench mem mmap -f demand was not run: {why}"));
                break;
            }
        }
    }
}

/// Runs `perf bench mem mmap -f demand` itself; returns gigabytes a second.
fn perf(page: &str, memory: usize) -> Result<f64, String> {
    let size = format!("{}MB", memory >> 20);
    let out = Command::new("perf")
        .args(["bench", "mem", "mmap", "-f", "demand", "-p", page, "-s", &size, "-l", "5"])
        .output()
        .map_err(|why| format!("perf cannot be started ({why}); install it (linux-perf)"))?;
    rate(&String::from_utf8_lossy(&out.stdout))
        .ok_or_else(|| "this perf has no benchmark `mem mmap`; a newer one has".to_owned())
}

/// Reads the rate from what `perf` prints: `26.085910 GB/sec`, in units of 2^30 bytes.
fn rate(printed: &str) -> Option<f64> {
    let words: Vec<&str> = printed.split_whitespace().collect();
    let at = words.iter().position(|word| *word == "GB/sec")?;
    let gib: f64 = words.get(at.checked_sub(1)?)?.parse().ok()?;
    Some(gib * (1u64 << 30) as f64 / 1e9)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_perf_prints_is_read_and_what_it_does_not_print_is_not() {
        let printed = "# Running 'mem/mmap' benchmark:\n# function 'demand' (Demand loaded mmap())\n# Copying 1GB bytes ...\n\n      \
                       10.000000 GB/sec  ( +- 0.62% )\n";
        assert!((rate(printed).unwrap() - 10.73741824).abs() < 1e-9);
        assert_eq!(rate("Unknown benchmark: 'mmap' for collection 'mem'"), None);
        assert_eq!(rate("GB/sec"), None);
    }
}
