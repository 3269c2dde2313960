//! Prints the summary of traces: `summary TRACE..`

use std::path::Path;
use std::process::ExitCode;

use pageyard_trace::{Summary, Trace};

fn main() -> ExitCode {
    for path in std::env::args_os().skip(1) {
        match Trace::open(Path::new(&path)).and_then(|trace| Summary::of(&trace, |_| ())) {
            Ok(summary) => println!("{summary}"),
            Err(error) => {
                eprintln!("{error}");
                return ExitCode::FAILURE;
            }
        }
    }
    ExitCode::SUCCESS
}
