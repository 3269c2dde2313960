//! `pageyard experiment`: one document, reproduced.

use crate::output::{Failure, print, print_json, writable};
use crate::progress::Progress;
use crate::samples::Samples;
use crate::setting::knob;
use clap::Args;
use pageyard_bench::experiment::{self, ExperimentsDocument, Published, Run, Settings};
use pageyard_bench::machine::{CHECKED_BUILD, CHECKED_BUILD_WARNING};
use pageyard_replay::engine::EngineSpec;
use std::path::PathBuf;

/// Reproduces a published result on this machine, and says what came out the same and what did not.
///
/// Without a name, lists the experiments.
#[derive(Args)]
#[command(
    after_help = "Examples:\n  pageyard experiment zonelist --quick\n  pageyard experiment irq-safe --report irq.html\n  pageyard experiment page-frag --set pcp_policy=free_factor --samples 45\n  pageyard experiment irq-safe --set linux-4.10:percpu_pagelist_high_fraction=8\n  sudo pageyard experiment what-if --guest linux-image-6.12 --seed 7"
)]
pub struct Experiment {
    /// The experiment to run
    name: Option<String>,

    /// Fewer settings, as many samples: minutes at most, and no verdict that needs the document's setting
    #[arg(long)]
    quick: bool,

    /// Set a knob of every engine of the experiment that has it, or of one alone; may be given several times. `pageyard
    /// knobs` lists them. A knob that the experiment varies itself is refused
    #[arg(long, value_name = "[ENGINE:]KNOB=VALUE", value_parser = knob)]
    set: Vec<(String, String)>,

    #[command(flatten)]
    samples: Samples,

    /// Also write a page of claims, bars and tables to FILE.html, or pictures to FILE.png
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,

    /// Write the page although this is a checked build
    #[arg(long, hide = true)]
    checked: bool,

    #[command(flatten)]
    what_if: WhatIf,
}

/// Where `what-if` tries settings.
#[derive(Args)]
struct WhatIf {
    /// what-if: try settings in a guest with the kernel of a package that is unpacked in this folder
    #[arg(long, value_name = "FOLDER")]
    guest: Option<PathBuf>,

    /// what-if: leave this host as it is; settings are tried in the guest alone
    #[arg(long, requires = "guest")]
    no_host: bool,

    /// what-if: run this load only; may be given several times
    #[arg(long, value_name = "NAME")]
    load: Vec<String>,

    /// what-if: also set nearly all memory of this host aside, for half a minute at a time; only where nothing else
    /// runs
    #[arg(long, conflicts_with = "no_host")]
    pieces: bool,

    /// what-if: the seed of the loads, and of the order of the runs [default: 1]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,

    /// what-if: where recordings and predictions go [default: what-if]
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

    /// Returns the first option that was given.
    fn given(&self) -> Option<&'static str> {
        let given = [
            (self.guest.is_some(), "--guest"),
            (self.pieces, "--pieces"),
            (!self.load.is_empty(), "--load"),
            (self.seed.is_some(), "--seed"),
            (self.keep.is_some(), "--keep"),
        ];
        given.iter().find(|(given, _)| *given).map(|(_, name)| *name)
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
        let Some(name) = &self.name else {
            return match self.set.is_empty() && self.samples.samples.is_none() {
                true => list(json),
                false => Err(Failure(
                    "--set and --samples belong to an experiment; name one, as in pageyard experiment page-frag".into(),
                )),
            };
        };
        let chosen = experiment::find(name)?;
        let settings = Settings::read(chosen, &self.set)?;
        if let Some(option) = self.what_if.given().filter(|_| name != "what-if") {
            return Err(Failure(format!(
                "{option} belongs to what-if; {name} does not take it, so leave it out"
            )));
        }
        for part in EngineSpec::partly_set(chosen.engines(), &self.set) {
            eprintln!("pageyard: {part}");
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
        run.trace = Some(crate::carried::open(None)?);
        run.what_if = self.what_if.options();
        let outcome = experiment::run(chosen, run, &Published::carried())?;
        drop(progress);
        if let Some(path) = &self.report {
            outcome.write(path)?;
            eprintln!("pageyard: wrote {}", path.display());
        }
        if json { print_json(&outcome.document()) } else { print(&outcome.text()) }
    }
}

fn list(json: bool) -> Result<(), Failure> {
    let all = ExperimentsDocument::all();
    if json {
        return print_json(&all);
    }
    let mut text = String::from("pageyard experiment NAME runs one of these:\n\n");
    for e in all.experiments {
        text.push_str(&format!("  {:<18} {}\n", e.name, e.about));
    }
    print(&text)
}
