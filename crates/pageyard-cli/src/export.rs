//! `pageyard export`: a trace as a file for another program's viewer.

use crate::output::{Failure, print, print_json};
use crate::progress::Progress;
use clap::{Args, ValueEnum};
use pageyard_record::export::perfetto;
use pageyard_replay::text::{bytes, count};
use pageyard_trace::{WholeFile, shown};
use std::path::PathBuf;

/// What a file can be made for.
#[derive(Clone, Copy, ValueEnum)]
enum Format {
    /// Perfetto's viewer and its trace_processor: events as ftrace events, free memory as counters, refusals as
    /// instants
    Perfetto,
}

/// Makes a file of a trace that another program shows.
#[derive(Args)]
#[command(
    after_help = "Examples:\n  pageyard export data/traces/build.trace -o build.pftrace\n  pageyard export busy.trace -o busy.pftrace && trace_processor busy.pftrace"
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
        let Format::Perfetto = self.format;
        let trace = crate::carried::open(self.trace.as_deref())?;
        let file = WholeFile::create(&self.output)?;
        let mut progress = Progress::new();
        let exported = perfetto(&trace, file, &mut |done, all| progress.at("exporting", done, all))?;
        drop(progress);
        let place = self.output.to_string_lossy();
        if json {
            return print_json(&exported.document(&shown(&place)));
        }
        print(&format!(
            "{}: {} for Perfetto: {} events, {} of them refused requests, {} samples of free memory. Open it at ui.perfetto.dev.\n",
            shown(&place),
            bytes(exported.bytes),
            count(exported.events),
            count(exported.refused),
            count(exported.samples),
        ))
    }
}
