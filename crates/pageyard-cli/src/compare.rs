//! `pageyard compare`: settings beside each other on one recording, or two recordings.

use crate::made::CommandLine;
use crate::output::{Failure, print_made, say};
use crate::progress::Progress;
use crate::setting::knob;
use crate::{carried, size};
use clap::Args;
use pageyard_replay::beside::beside;
use pageyard_replay::compare::{MOST_SEEDS, SEEDS, compare};
use pageyard_replay::engine::EngineSpec;
use pageyard_replay::replay::{Progress as Doing, ReplayOptions, SlowPath};
use pageyard_trace::WholeFile;
use std::io::Write;
use std::path::PathBuf;

/// Compares two recordings, or settings on one of them.
///
/// Two recordings, of a host before and after a change or of two hosts, are compared as they are: what happened a
/// second, what was free, and what keeps pageblocks from becoming huge frames at the end. A figure differs if it does
/// by more than each recording differs within itself.
///
/// One recording is replayed on several settings, each from several opening states, and what differs by more than those
/// do is said.
///
/// Few recordings say in which order free blocks lay on their lists. Each opening state has another order, so a figure
/// that depends on it differs between them, and a difference between settings counts only beyond that. Where the
/// recording says it, the first opening state has the recorded order.
#[derive(Args)]
#[command(
    after_help = "Examples:\n  pageyard compare before.trace after.trace --report compared.html\n  pageyard compare data/traces/build.trace --engine linux-6.12,linux-6.18\n  pageyard compare busy.trace --engine linux-6.18,linux-6.18:defrag_mode=1 --memory 2G --slow-path reclaim,compaction\n  pageyard compare busy.trace --engine linux-6.18,linux-6.18:fallback=alike --seeds 10 --report compared.html"
)]
pub struct Compare {
    /// The trace, a folder NAME.trace [default: the trace built into the command]
    trace: Option<PathBuf>,

    /// Another recording: the two are compared, and nothing is replayed
    #[arg(conflicts_with_all = ["engine", "set", "seeds", "memory", "slow_path"])]
    after: Option<PathBuf>,

    /// The settings, separated by commas: engines, each with its own knobs if needed; the others are compared with the
    /// first [default: the reference nearest to the recorded kernel, and pageyard-exclusive]
    #[arg(long, value_delimiter = ',', value_name = "NAME[:KNOB=VALUE]..")]
    engine: Vec<String>,

    /// Set a knob of every engine that has it, or of one engine alone; may be given several times. `pageyard knobs`
    /// lists them
    #[arg(long, value_name = "[ENGINE:]KNOB=VALUE", value_parser = knob)]
    set: Vec<(String, String)>,

    /// How many opening states each setting is replayed from
    #[arg(long, value_name = "N", default_value_t = SEEDS, value_parser = clap::value_parser!(u64).range(1..=MOST_SEEDS))]
    seeds: u64,

    /// Make the machine smaller, by frames that nothing in the trace touches: 4G, 512M
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    memory: Option<u64>,

    /// What requests can use when memory is short: reclaim, compaction, both separated by a comma, or none
    #[arg(long, value_name = "PARTS", value_parser = slow_path)]
    slow_path: Option<SlowPath>,

    /// Write the comparison as a page, too; a file that is there is replaced
    #[arg(long, value_name = "FILE.html")]
    report: Option<PathBuf>,
}

fn slow_path(text: &str) -> Result<SlowPath, String> {
    text.parse()
}

impl Compare {
    /// Runs the verb.
    pub fn run(&self, mut line: CommandLine, json: bool) -> Result<(), Failure> {
        let trace = carried::open(self.trace.as_deref())?;
        if let Some(after) = &self.after {
            let after = carried::open(Some(after))?;
            let mut file = self.report.as_deref().map(WholeFile::create).transpose()?;
            let mut progress = Progress::new();
            let found = beside(&trace, &after, &mut |doing, done, all| progress.at(doing, done, all))?;
            drop(progress);
            let made = line.made();
            if let Some(file) = &mut file {
                file.write_all(found.page(Some(&made)).as_bytes()).map_err(|why| file.refused(&why))?;
            }
            file.map(WholeFile::finish).transpose()?;
            return print_made(json, &made, &found.document(), &found);
        }
        let names: Vec<&str> = match &self.engine[..] {
            [] => vec![EngineSpec::of_kernel(&trace.meta().kernel), EngineSpec::DEFAULT[0]],
            named => named.iter().map(String::as_str).collect(),
        };
        if names.len() < 2 {
            let why = "a comparison needs two settings or more: name them with --engine, as in --engine linux-6.12,linux-6.18";
            return Err(Failure(why.to_owned()));
        }
        let settings = EngineSpec::parse_all(&names, &self.set)?;
        for part in EngineSpec::partly_set(&names, &self.set) {
            say(&format!("pageyard: {part}\n"));
        }
        // Replays may take long: what is wrong with the file is said before.
        let mut file = self.report.as_deref().map(WholeFile::create).transpose()?;
        let options = ReplayOptions {
            memory: self.memory,
            slow_path: self.slow_path,
            samples: Some(1),
            ..ReplayOptions::default()
        };
        let mut progress = Progress::new();
        let comparison = compare(&trace, &settings, self.seeds, &options, &mut |seed, doing, done, all| {
            let of = format!("{} of {}", seed + 1, self.seeds);
            match doing {
                Doing::Opening | Doing::Recorded => progress.at(&format!("opening state {of}"), done, all),
                Doing::Preparing(engine) => progress.wait(&format!("preparing {engine}, {done} s")),
                Doing::Replaying(engine) => progress.at(&format!("{of}: replaying on {engine}"), done, all),
            }
        })?;
        drop(progress);
        line.had("--engine", names.join(","));
        line.had("--seeds", self.seeds);
        let made = line.made();
        if let Some(file) = &mut file {
            file.write_all(comparison.page(Some(&made)).as_bytes()).map_err(|why| file.refused(&why))?;
        }
        file.map(WholeFile::finish).transpose()?;
        print_made(json, &made, &comparison.document(), &comparison)
    }
}
