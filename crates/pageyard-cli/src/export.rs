//! `pageyard export`: a trace as a file for another program.

use crate::output::{Failure, print, print_json};
use crate::progress::Progress;
use clap::{Args, ValueEnum};
use pageyard_record::export::{Exported, llfree, perfetto};
use pageyard_trace::{WholeFile, shown};
use std::path::PathBuf;

/// What a file can be made for.
#[derive(Clone, Copy, ValueEnum)]
enum Format {
    /// Perfetto's viewer and its trace_processor: events as ftrace events, free memory as counters, refusals as
    /// instants
    Perfetto,
    /// LLFree's replay (`eval/src/bin/replay.rs` of llfree-rs): allocations and frees, 16 bytes each
    Llfree,
}

/// Makes a file of a trace that another program reads.
#[derive(Args)]
#[command(
    after_help = "Examples:\n  pageyard export data/traces/build.trace -o build.pftrace\n  pageyard export busy.trace -o busy.pftrace && trace_processor busy.pftrace\n  pageyard export busy.trace --format llfree -o busy.llfree"
)]
pub struct Export {
    /// The trace, a folder NAME.trace [default: the trace built into the command]
    trace: Option<PathBuf>,

    /// Where the file goes; one that is there is replaced
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,

    /// What the file is for
    #[arg(long, value_enum, default_value = "perfetto")]
    format: Format,
}

impl Export {
    /// Runs the verb.
    pub fn run(&self, json: bool) -> Result<(), Failure> {
        let trace = crate::carried::open(self.trace.as_deref())?;
        let file = WholeFile::create(&self.output)?;
        let mut progress = Progress::new();
        let mut at = |done, all| progress.at("exporting", done, all);
        let exported = match self.format {
            Format::Perfetto => Exported::Perfetto(perfetto(&trace, file, &mut at)?),
            Format::Llfree => Exported::Llfree(llfree(&trace, file, &mut at)?),
        };
        drop(progress);
        let place = shown(&self.output.to_string_lossy());
        let document = exported.document(&place);
        if json { print_json(&document) } else { print(&document.text()) }
    }
}
