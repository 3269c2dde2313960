//! `pageyard experiment`: one document, reproduced.

use crate::output::{Failure, print, print_json};
use crate::progress::Progress;
use clap::Args;
use pageyard_bench::experiment::{self, ExperimentsDocument, Published, Run};
use std::path::PathBuf;

/// Reproduces a published result on this machine, and says what came out the same and what did not.
///
/// Without a name, lists the experiments.
#[derive(Args)]
#[command(
    after_help = "Examples:\n  pageyard experiment zonelist --quick\n  pageyard experiment irq-safe --report irq.html"
)]
pub struct Experiment {
    /// The experiment to run
    name: Option<String>,

    /// End within a minute: fewer settings, as many samples
    #[arg(long)]
    quick: bool,

    /// Also write the tables and pictures to FILE.html, or the pictures to FILE.png
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
}

/// What `experiment zonelist` runs of this program under callgrind.
#[derive(Args)]
pub struct CountZonelist {
    what: String,
    rounds: u64,
}

impl CountZonelist {
    /// Runs the verb.
    pub fn run(&self) -> Result<(), Failure> {
        match experiment::zonelist::count::rounds(&self.what, self.rounds) {
            true => Ok(()),
            false => Err(Failure(format!("there is nothing to count under the name {}", self.what))),
        }
    }
}

impl Experiment {
    /// Runs the verb.
    pub fn run(&self, json: bool) -> Result<(), Failure> {
        let Some(name) = &self.name else { return list(json) };
        let chosen = experiment::find(name)?;
        if let Some(path) = &self.report {
            writable(path)?;
        }
        let mut progress = Progress::new();
        let mut show = |part: &'static str, done, all| progress.at(part, done, all);
        let mut run = Run::new(self.quick, &mut show);
        run.program = std::env::current_exe().ok();
        run.trace = Some(crate::carried::open(None)?);
        let outcome = experiment::run(chosen, run, &Published::carried())?;
        drop(progress);
        if let Some(path) = &self.report {
            outcome.write(path)?;
            eprintln!("pageyard: wrote {}", path.display());
        }
        if json { print_json(&outcome.document()) } else { print(&outcome.text()) }
    }
}

/// Says early that a report cannot be written: an experiment may take minutes.
fn writable(path: &std::path::Path) -> Result<(), Failure> {
    if !matches!(path.extension().and_then(|e| e.to_str()), Some("html" | "png")) {
        return Err(Failure(format!("{}: a report's name ends in .html or .png", path.display())));
    }
    match std::fs::OpenOptions::new().append(true).create(true).open(path) {
        Ok(_) => Ok(()),
        Err(e) => Err(Failure(format!("{} cannot be written: {e}", path.display()))),
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
