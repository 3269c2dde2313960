//! `pageyard-lab experiment`: one document, reproduced; `pageyard-lab what-if`: predictions, tried.

use crate::report::writable;
use crate::samples::Samples;
use clap::Args;
use pageyard_bench::experiment::{self, ExperimentsDocument, Published, Run, Settings};
use pageyard_bench::machine::{CHECKED_BUILD, CHECKED_BUILD_WARNING};
use pageyard_cli::carried;
use pageyard_cli::output::{Failure, print, print_json};
use pageyard_cli::progress::Progress;
use pageyard_cli::setting::knob;
use pageyard_replay::engine::EngineSpec;
use std::path::PathBuf;

/// The experiment that is a verb of its own.
const WHAT_IF: &str = "what-if";

/// Reproduces a published result on this machine, and says what came out the same and what did not.
///
/// Without a name, lists the experiments.
#[derive(Args)]
#[command(
    after_help = "Examples:\n  pageyard-lab experiment zonelist --quick\n  pageyard-lab experiment irq-safe --report irq.html\n  pageyard-lab experiment page-frag --set pcp_policy=free_factor --samples 45\n  pageyard-lab experiment irq-safe --set linux-4.10:percpu_pagelist_high_fraction=8"
)]
pub struct Experiment {
    /// The experiment to run
    name: Option<String>,

    #[command(flatten)]
    how: How,
}

/// How an experiment is run, and what becomes of its result.
#[derive(Args)]
struct How {
    /// Fewer settings, as many samples: minutes at most, and no verdict that needs the document's setting
    #[arg(long)]
    quick: bool,

    /// Set a knob of every engine of the experiment that has it, or of one alone; may be given several times. `pageyard
    /// knobs` lists them. A knob that the experiment varies itself is refused
    #[arg(long, value_name = "[ENGINE:]KNOB=VALUE", value_parser = knob)]
    set: Vec<(String, String)>,

    #[command(flatten)]
    samples: Samples,

    /// Also write a page of claims, bars, lines and tables to FILE.html
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,

    /// Write the page although this is a checked build
    #[arg(long, hide = true)]
    checked: bool,
}

/// Predicts from recordings of loads what settings of the kernel do, then tries them on this host or in a guest.
#[derive(Args)]
#[command(
    after_help = "Examples:\n  sudo pageyard-lab what-if --quick\n  sudo pageyard-lab what-if --guest linux-image-6.12 --seed 7 --report what-if.html"
)]
pub struct WhatIf {
    #[command(flatten)]
    how: How,

    /// Try settings in a guest with the kernel of a package that is unpacked in this folder
    #[arg(long, value_name = "FOLDER")]
    guest: Option<PathBuf>,

    /// Leave this host as it is; settings are tried in the guest alone
    #[arg(long, requires = "guest")]
    no_host: bool,

    /// Run this load only; may be given several times
    #[arg(long, value_name = "NAME")]
    load: Vec<String>,

    /// Also set nearly all memory of this host aside, for half a minute at a time; only where nothing else
    /// runs
    #[arg(long, conflicts_with = "no_host")]
    pieces: bool,

    /// The seed of the loads, and of the order of the runs [default: 1]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,

    /// Where recordings and predictions go [default: what-if]
    #[arg(long, value_name = "FOLDER")]
    keep: Option<PathBuf>,
}

impl WhatIf {
    /// Returns what was asked for.
    fn options(&self) -> experiment::WhatIfOptions {
        let default = experiment::WhatIfOptions::default();
        experiment::WhatIfOptions {
            host: !self.no_host,
            guest: self.guest.clone(),
            pieces: self.pieces,
            loads: self.load.clone(),
            seed: self.seed.unwrap_or(default.seed),
            folder: self.keep.clone().unwrap_or(default.folder),
        }
    }

    /// Runs the verb.
    pub fn run(&self, json: bool) -> Result<(), Failure> {
        self.how.run(WHAT_IF, self.options(), json)
    }
}

/// What `experiment zonelist` runs of this program under callgrind.
#[derive(Args)]
pub struct CountZonelist {
    what: String,
    rounds: u64,
    #[arg(long, value_parser = knob)]
    set: Vec<(String, String)>,
}

impl CountZonelist {
    /// Runs the verb.
    pub fn run(&self) -> Result<(), Failure> {
        let settings = Settings::read(experiment::find("zonelist")?, &self.set)?;
        match experiment::zonelist::count::rounds(&self.what, self.rounds, &settings) {
            true => Ok(()),
            false => Err(Failure(format!("there is nothing to count under the name {}", self.what))),
        }
    }
}

impl Experiment {
    /// Runs the verb.
    pub fn run(&self, json: bool) -> Result<(), Failure> {
        match self.name.as_deref() {
            Some(WHAT_IF) => Err(Failure(
                "`what-if` is a verb of its own, with options of its own: run `pageyard-lab what-if`".into(),
            )),
            Some(name) => self.how.run(name, experiment::WhatIfOptions::default(), json),
            None if self.how.set.is_empty() && self.how.samples.samples.is_none() => list(json),
            None => Err(Failure(
                "--set and --samples belong to an experiment; name one, as in pageyard-lab experiment page-frag"
                    .into(),
            )),
        }
    }
}

impl How {
    fn run(&self, name: &str, what_if: experiment::WhatIfOptions, json: bool) -> Result<(), Failure> {
        let chosen = experiment::find(name)?;
        let settings = Settings::read(chosen, &self.set)?;
        for part in EngineSpec::partly_set(chosen.engines(), &self.set) {
            eprintln!("pageyard-lab: {part}");
        }
        if let Some(path) = &self.report {
            if CHECKED_BUILD && !self.checked {
                return Err(Failure(format!("no report is written. {CHECKED_BUILD_WARNING}")));
            }
            writable(path)?;
        }
        let mut progress = Progress::new();
        let mut show = |part: &'static str, done, all| progress.at(part, done, all);
        let mut run = Run::new(self.quick, &mut show);
        run.program = std::env::current_exe().ok();
        run.settings = settings;
        run.samples = self.samples.samples;
        run.trace = Some(carried::open(None)?);
        run.what_if = what_if;
        let outcome = experiment::run(chosen, run, &Published::carried())?;
        drop(progress);
        if let Some(path) = &self.report {
            outcome.write(path)?;
            eprintln!("pageyard-lab: wrote {}", path.display());
        }
        if json { print_json(&outcome.document()) } else { print(&outcome.text()) }
    }
}

fn list(json: bool) -> Result<(), Failure> {
    let mut all = ExperimentsDocument::all();
    all.experiments.retain(|e| e.name != WHAT_IF);
    if json {
        return print_json(&all);
    }
    let mut text = String::from("pageyard-lab experiment NAME runs one of these:\n\n");
    for e in all.experiments {
        text.push_str(&format!("  {:<18} {}\n", e.name, e.about));
    }
    print(&text)
}
