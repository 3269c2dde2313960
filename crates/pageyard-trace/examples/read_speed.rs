//! Reads traces as fast as it can and says how fast that was: `read_speed TRACE..`

use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

use pageyard_trace::{Columns, Prefetch, Trace, TraceError};

fn main() -> ExitCode {
    let mut failed = false;
    for path in std::env::args_os().skip(1) {
        if let Err(error) = read(Path::new(&path)) {
            eprintln!("{error}");
            failed = true;
        }
    }
    if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

fn read(path: &Path) -> Result<(), TraceError> {
    let trace = Trace::open(path)?;
    let mut batch = Vec::new();
    for columns in [Columns::Replay, Columns::All] {
        let start = Instant::now();
        let mut reader = trace.events(columns)?;
        let mut rows = 0;
        while reader.next_batch(&mut batch)? {
            rows += batch.len();
        }
        report(&trace, &format!("{columns:?}"), rows, start);
    }
    let start = Instant::now();
    let mut reader = Prefetch::new(trace.events(Columns::Replay)?)?;
    let mut rows = 0;
    while reader.next_batch(&mut batch)? {
        rows += batch.len();
    }
    report(&trace, "Replay, ahead", rows, start);
    Ok(())
}

fn report(trace: &Trace, what: &str, rows: usize, start: Instant) {
    let seconds = start.elapsed().as_secs_f64();
    println!(
        "{:12} {what:14} {rows:9} rows {:7.3} s {:6.1} million a second",
        trace.name(),
        seconds,
        rows as f64 / seconds / 1e6
    );
}
