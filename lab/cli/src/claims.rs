//! `pageyard-lab claims`: kept runs, judged again.

use clap::Args;
use pageyard_bench::experiment::kept::{ClaimsDocument, Kept, agreements, page};
use pageyard_cli::output::{Failure, print, print_json};
use std::path::PathBuf;

/// Judges kept runs again by today's rules, and prints every claim of the documents with its verdict, its figure and
/// the study that discusses it.
///
/// Where there are several runs of an experiment, the first one is listed, and standard error says in how many verdicts
/// the others agree with it.
#[derive(Args)]
#[command(
    after_help = "Examples:\n  pageyard-lab claims data/runs/irq-safe.json.gz data/runs/zonelist.json.gz\n  pageyard-lab claims data/runs/zonelist.json.gz second.json"
)]
pub struct Claims {
    /// Output of `pageyard-lab experiment NAME --json`, compressed by gzip or not
    #[arg(required = true)]
    runs: Vec<PathBuf>,
}

impl Claims {
    pub fn run(&self, json: bool) -> Result<(), Failure> {
        let runs = self.runs.iter().map(|path| Kept::read(path)).collect::<Result<Vec<_>, _>>()?;
        if json {
            return print_json(&ClaimsDocument::of(&runs));
        }
        eprint!("{}", agreements(&runs));
        print(&page(&runs))
    }
}
