//! `pageyard replay`: a trace re-executed on engines, side by side.

use crate::made::CommandLine;
use crate::output::{Failure, print_made};
use crate::progress::Progress;
use crate::setting::knob;
use crate::{carried, size};
use clap::Args;
use pageyard_replay::engine::EngineSpec;
use pageyard_replay::replay::{
    Follow, MOST_SAMPLES, Progress as Doing, ReplayOptions, SAMPLES, SlowPath, faults, replay,
};
use pageyard_trace::Trace;
use pageyard_trace::series::{SeriesFolder, SeriesFormat};
use std::path::PathBuf;

/// Re-executes a trace: allocations by their recorded request, frees by identity.
#[derive(Args, Default)]
#[command(
    after_help = "Examples:\n  pageyard replay\n  pageyard replay data/traces/net-order0.trace --engine linux-4.10,linux-6.18\n  pageyard replay --engine linux-6.18,linux-6.18:fallback=alike:pcp_policy=classic\n  pageyard replay data/traces/build.trace --memory 4G --set pcp_policy=classic\n  pageyard replay busy.trace --slow-path reclaim,compaction --pinned 0.1\n  pageyard replay first.trace --repeat second.trace\n  pageyard replay --fail-page-alloc 1,10,0,-1 --fail-min-order 3\n  pageyard replay --samples 200 --out series --format csv\n  pageyard replay data/traces/build.trace --engine kernel:6.12,linux-6.12\n  pageyard replay busy.trace --slow-path compaction --engine linux-4.6,posted:1459414236-9219-5-git-send-email-vbabka@suse.cz"
)]
pub struct Replay {
    /// The trace, a folder NAME.trace [default: the trace built into the command]
    trace: Option<PathBuf>,

    /// The engines, separated by commas, each with its own settings if needed [default: pageyard-exclusive,linux-6.18;
    /// with --threads pageyard,linux-6.18]
    #[arg(long, value_delimiter = ',', value_name = "NAME[:KNOB=VALUE]..")]
    engine: Vec<String>,

    /// Replay each engine kernel:DIR once more with this patch applied to a copy of its sources: before and after
    #[arg(long, value_name = "FILE")]
    patch: Option<PathBuf>,

    /// For engines kernel:..: the folder bench/linux/judge of Pageyard, with the module that replays in a kernel
    /// [default: PAGEYARD_JUDGE, or looked for above the current folder and above the command]
    #[arg(long, value_name = "DIR")]
    judge: Option<PathBuf>,

    /// Set a knob of every engine that has it, or of one engine alone; may be given several times. `pageyard knobs`
    /// lists them
    #[arg(long, value_name = "[ENGINE:]KNOB=VALUE", value_parser = knob)]
    set: Vec<(String, String)>,

    /// Make the machine smaller, by frames that nothing in the trace touches: 4G, 512M
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    memory: Option<u64>,

    /// Replay each CPU on its own thread; a free waits for its allocation
    #[arg(long)]
    threads: bool,

    /// What requests can use when memory is short: reclaim, compaction, both separated by a comma, or none; a block
    /// that the host refused and the engine grants then replaces whatever its thread fell back to [default: no slow
    /// path, and such a block is freed at once]
    #[arg(long, value_name = "PARTS", value_parser = slow_path)]
    slow_path: Option<SlowPath>,

    /// Free what the host's reclaim freed when it did, and never earlier. Otherwise some of it is freed up to 100 ms
    /// earlier where a request would be refused, if the recording says who reclaimed
    #[arg(long)]
    as_recorded: bool,

    /// With --slow-path: the percentage of movable frames that are pinned, which no trace records [default: 0]
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    pinned: Option<f64>,

    /// Make requests fail on purpose, as Linux's fail_page_alloc does: every how many, how many in a hundred of those,
    /// after how many frames, and how often (-1 without end). 1,10,0,-1 fails one in ten
    #[arg(long, value_name = "INTERVAL,PROBABILITY,SPACE,TIMES")]
    fail_page_alloc: Option<String>,

    /// With --fail-page-alloc: the smallest order that fails [default: 0]
    #[arg(long, value_name = "ORDER", requires = "fail_page_alloc", value_parser = clap::value_parser!(u8).range(0..=10))]
    fail_min_order: Option<u8>,

    /// In which order free blocks lay on their lists: 0 is the recorded order, or ascending where the trace does not
    /// tell it, each other number another order
    #[arg(long, value_name = "SEED", default_value_t = 0)]
    opening: u64,

    /// How many samples the timeline has between its first and its last [default: 20]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=MOST_SAMPLES))]
    samples: Option<u64>,

    /// Another recording of the same job on the same host: how far the host is from itself, beside each distance
    #[arg(long, value_name = "TRACE")]
    repeat: Option<PathBuf>,

    /// Follow only the moves of which the recording names both frames; others are inferred from what compaction reports
    /// of itself otherwise
    #[arg(long)]
    seen_moves_only: bool,

    /// Hide those moves, and say how many of them are inferred: how good the inference is
    #[arg(long, conflicts_with = "seen_moves_only")]
    hide_seen_moves: bool,

    /// Write the timeline, by zone, order and migratetype too, and the refused requests as tables to a folder that does
    /// not exist yet or is empty
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,

    /// With --out: the form of the tables, parquet or csv [default: parquet]
    #[arg(long, value_name = "FORMAT", requires = "out", value_parser = format)]
    format: Option<SeriesFormat>,
}

fn format(text: &str) -> Result<SeriesFormat, String> {
    text.parse()
}

fn slow_path(text: &str) -> Result<SlowPath, String> {
    text.parse()
}

fn percent(text: &str) -> Result<f64, String> {
    let wrong = || format!("`{text}` is not a percentage; write a number from 0 to 100");
    text.parse().ok().filter(|p| (0.0..=100.0).contains(p)).ok_or_else(wrong)
}

impl Replay {
    fn slow_path(&self) -> Result<Option<SlowPath>, Failure> {
        match (self.slow_path, self.pinned) {
            (None, Some(_)) => {
                Err(Failure("--pinned limits what reclaim and compaction can take; add --slow-path".into()))
            }
            (slow_path, pinned) => {
                Ok(slow_path.map(|s| SlowPath { pinned: pinned.unwrap_or(0.0) / 100.0, ..s }))
            }
        }
    }

    /// Runs the verb.
    pub fn run(&self, mut line: CommandLine, json: bool) -> Result<(), Failure> {
        let default = if self.threads { EngineSpec::DEFAULT_THREADS } else { EngineSpec::DEFAULT };
        let named = self.engine.iter().map(String::as_str);
        let names: Vec<&str> = if self.engine.is_empty() { default.to_vec() } else { named.collect() };
        let engines = EngineSpec::parse_all(&names, &self.set)?;
        let engines = match &self.patch {
            Some(patch) => EngineSpec::with_patch(engines, patch)?,
            None => engines,
        };
        for part in EngineSpec::partly_set(&names, &self.set) {
            eprintln!("pageyard: {part}");
        }
        // A replay may take long: what is wrong with the folder is said before.
        self.out.as_deref().map(SeriesFolder::check).transpose()?;
        let trace = carried::open(self.trace.as_deref())?;
        let mut progress = Progress::new();
        let options = ReplayOptions {
            memory: self.memory,
            threads: self.threads,
            slow_path: self.slow_path()?,
            as_recorded: self.as_recorded,
            faults: self
                .fail_page_alloc
                .as_deref()
                .map(|text| faults(text, self.fail_min_order.unwrap_or(0)))
                .transpose()
                .map_err(Failure)?,
            samples: self.samples,
            opening_seed: self.opening,
            series: self.out.is_some(),
            follow: match (self.seen_moves_only, self.hide_seen_moves) {
                (true, _) => Follow::SeenOnly,
                (_, true) => Follow::InferredOnly,
                _ => Follow::SeenAndInferred,
            },
            judge: self.judge.clone().or_else(|| std::env::var_os("PAGEYARD_JUDGE").map(PathBuf::from)),
            repeat: self.repeat.as_deref().map(Trace::open).transpose()?,
        };
        let report = replay(&trace, &engines, &options, &mut |doing, done, all| match doing {
            Doing::Opening => progress.at("finding the opening state", done, all),
            Doing::Recorded => progress.at("following the recording", done, all),
            Doing::Preparing(engine) => progress.wait(&format!("preparing {engine}, {done} s")),
            Doing::Replaying(engine) => progress.at(&format!("replaying on {engine}"), done, all),
        })?;
        drop(progress);
        line.had("--engine", names.join(","));
        line.had("--opening", options.opening_seed);
        line.had("--samples", options.samples.unwrap_or(SAMPLES));
        print_made(json, &line.made(), &report, &report)?;
        if let Some(out) = &self.out {
            report.write_series(out, self.format.unwrap_or_default())?;
        }
        match report.engines.iter().find(|e| !e.is_sound()) {
            None => Ok(()),
            Some(e) => Err(Failure(format!(
                "{} broke its promises: {}, audit {}",
                e.name,
                e.broken_promises(),
                e.audit.map_or_else(|why| why.to_string(), |_| "clean".to_owned())
            ))),
        }
    }
}
