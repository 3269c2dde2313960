//! Reports: pages and pictures beside what is printed.

use pageyard_cli::output::Failure;
use std::path::Path;

/// Says early that a report cannot be written: an experiment may take minutes.
pub fn writable(path: &Path) -> Result<(), Failure> {
    if !matches!(path.extension().and_then(|e| e.to_str()), Some("html" | "png")) {
        return Err(Failure(format!("{}: a report's name ends in .html or .png", path.display())));
    }
    match std::fs::OpenOptions::new().append(true).create(true).open(path) {
        Ok(_) => Ok(()),
        Err(e) => Err(Failure(format!("{} cannot be written: {e}", path.display()))),
    }
}
