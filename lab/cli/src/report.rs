//! Reports: pages beside what is printed.

use pageyard_cli::output::Failure;
use std::path::Path;

/// Says early that a report cannot be written: an experiment may take minutes.
pub fn writable(path: &Path) -> Result<(), Failure> {
    if path.extension().is_none_or(|e| e != "html") {
        return Err(Failure(format!(
            "{}: a report is a page: give it a name that ends in .html",
            path.display()
        )));
    }
    match std::fs::OpenOptions::new().append(true).create(true).open(path) {
        Ok(_) => Ok(()),
        Err(e) => Err(Failure(format!("{} cannot be written: {e}", path.display()))),
    }
}
