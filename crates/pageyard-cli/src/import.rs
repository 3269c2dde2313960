//! `pageyard import`: a file of another recorder, made a trace.

use crate::output::{Failure, print, print_json};
use crate::progress::Progress;
use clap::Args;
use pageyard_record::import::import;
use pageyard_trace::{salvage, shown};
use std::path::PathBuf;

/// Makes a trace of what another recorder wrote, on this host or another.
///
/// Files of `perf record` (perf.data), of trace-cmd (trace.dat, versions 6 and 7, plain or compressed with zstd or
/// zlib), of Perfetto (with ftrace events, plain or compressed) and traces of LLFree are read; the first bytes say
/// which it is. Such a trace has no snapshot of memory: its replay starts with all memory free.
#[derive(Args)]
#[command(
    after_help = "Example:\n  perf record -a -e kmem:mm_page_alloc,kmem:mm_page_free -o perf.data -- sleep 10\n  pageyard import perf.data -o busy.trace\n  pageyard summary busy.trace\n\n  trace-cmd record -e kmem:mm_page_alloc -e kmem:mm_page_free sleep 10\n  pageyard import trace.dat"
)]
pub struct Import {
    /// The file that perf, trace-cmd, Perfetto or LLFree's tracer wrote, or the NAME.trace.partial that a killed
    /// recording left
    file: PathBuf,

    /// Where the trace goes: a folder that does not exist yet [default: the file's name with .trace]
    #[arg(short, long, value_name = "NAME.trace")]
    output: Option<PathBuf>,
}

impl Import {
    /// Runs the verb.
    pub fn run(&self, json: bool) -> Result<(), Failure> {
        if self.file.is_dir() {
            return self.salvage(json);
        }
        let output = match &self.output {
            Some(output) => output.clone(),
            None => PathBuf::from(self.file.file_name().unwrap_or("perf".as_ref())).with_extension("trace"),
        };
        let mut progress = Progress::new();
        let (trace, imported) =
            import(&self.file, &output, &mut |done, all| progress.at("importing", done, all))?;
        drop(progress);
        let duration = trace.meta().duration_ns as f64 / 1e9;
        let place = shown(&output.to_string_lossy());
        let document = imported.document(&place, duration);
        if json { print_json(&document) } else { print(&document.text()) }
    }
}

impl Import {
    /// Makes a trace of what a killed recording left.
    fn salvage(&self, json: bool) -> Result<(), Failure> {
        // A trailing slash is no part of the name.
        let folder: PathBuf = self.file.components().collect();
        let (trace, salvaged) = salvage(&folder, self.output.as_deref())?;
        let (meta, name) = (trace.meta(), shown(&salvaged.path.to_string_lossy()));
        let document = salvaged.document(&name, meta);
        if json { print_json(&document) } else { print(&document.text()) }
    }
}
