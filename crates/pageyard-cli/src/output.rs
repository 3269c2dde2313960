//! Results go to standard output, everything else to standard error.

use std::io::{ErrorKind, Write};
use std::process::ExitCode;

/// Why a verb could not do its work: one plain sentence.
pub struct Failure(pub String);

impl<E: std::error::Error> From<E> for Failure {
    fn from(error: E) -> Self {
        Failure(error.to_string())
    }
}

/// Prints a result. A reader that has gone away is no failure.
pub fn print(text: &str) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(e) if e.kind() != ErrorKind::BrokenPipe => {
            Err(Failure(format!("the result cannot be written: {e}")))
        }
        _ => Ok(()),
    }
}

/// Prints one JSON document.
pub fn print_json(value: &serde_json::Value) -> Result<(), Failure> {
    print(&format!("{value}\n"))
}

/// Turns what a verb did into an exit status, and says what went wrong.
pub fn exit(done: Result<(), Failure>) -> ExitCode {
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure(why)) => {
            let lines: Vec<&str> = why.lines().take(5).collect();
            eprintln!("pageyard: {}", lines.join("\n"));
            ExitCode::FAILURE
        }
    }
}
