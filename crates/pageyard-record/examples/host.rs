//! Prints what this host's memory is like now.

use std::process::ExitCode;
use std::time::Instant;

use pageyard_record::HostSummary;
use pageyard_record::host::AskedFor;

fn main() -> ExitCode {
    let start = Instant::now();
    match HostSummary::collect(AskedFor::Kernel) {
        Ok(summary) => {
            print!("{summary}");
            eprintln!("in {:.2} s", start.elapsed().as_secs_f64());
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
