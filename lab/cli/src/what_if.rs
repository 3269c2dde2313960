//! The parts of this program that `pageyard-lab what-if` runs as processes of their own: loads, trials, the process
//! that restores settings, and a guest's only one.

use clap::Args;
use pageyard_bench::experiment::what_if::{self, State, Work, guard, trial};
use pageyard_cli::output::{Failure, print};
use pageyard_cli::setting::knob;
use std::path::PathBuf;

/// A load.
#[derive(Args)]
pub struct Load {
    load: String,
    #[arg(long)]
    size: u64,
    #[arg(long)]
    seed: u64,
    #[arg(long)]
    cache: PathBuf,
}

/// A load under settings, counted.
#[derive(Args)]
pub struct TrialArguments {
    #[command(flatten)]
    load: Load,
    #[arg(long, value_parser = knob)]
    set: Vec<(String, String)>,
    #[arg(long, default_value = trial::SETTINGS)]
    root: PathBuf,
    #[arg(long)]
    aged_mib: Option<u64>,
    #[arg(long, requires = "aged_mib")]
    pieces_only: bool,
}

impl Load {
    fn work(&self) -> Work {
        Work { load: self.load.clone(), size: self.size, seed: self.seed, cache: self.cache.clone() }
    }

    /// Runs the verb.
    pub fn run(&self) -> Result<(), Failure> {
        self.work().run().map_err(Failure)
    }
}

impl TrialArguments {
    /// Runs the verb.
    pub fn run(&self) -> Result<(), Failure> {
        let trial = trial::Trial {
            work: self.load.work(),
            settings: self.set.clone(),
            root: self.root.clone(),
            state: self.aged_mib.map(|aged_mib| State { aged_mib, pieces_only: self.pieces_only }),
        };
        let figures = trial.run(&std::env::current_exe()?).map_err(Failure)?;
        let lines = figures.0.iter().map(|(figure, n)| format!("{} {n}\n", figure.name()));
        print(&lines.collect::<String>())
    }
}

/// Waits for the end of the process that started this, and puts back what it changed.
pub fn guard() -> Result<(), Failure> {
    match guard::wait(std::io::stdin().lock()).first() {
        None => Ok(()),
        Some(why) => Err(Failure(why.clone())),
    }
}

/// Serves one task in a guest.
pub fn guest() -> Result<(), Failure> {
    what_if::serve().map_err(Failure)
}
