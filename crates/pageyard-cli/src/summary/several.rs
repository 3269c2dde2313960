//! The traces of a folder, side by side: recordings of a fleet, or what a watch kept.

use crate::output::{Failure, print, print_json};
use crate::progress::Progress;
use pageyard_trace::{OneOfSeveral, SeveralDocument, Summary, Trace};
use std::fs;
use std::path::{Path, PathBuf};

/// Returns the traces in a folder that is none itself, by their names; `None` where there are none.
pub fn traces_in(folder: &Path) -> Option<Vec<PathBuf>> {
    if folder.join("meta.json").exists() {
        return None;
    }
    let entries = fs::read_dir(folder).ok()?;
    let is_trace = |path: &PathBuf| path.extension().is_some_and(|e| e == "trace") && path.is_dir();
    let mut all: Vec<_> = entries.flatten().map(|e| e.path()).filter(is_trace).collect();
    all.sort();
    (!all.is_empty()).then_some(all)
}

/// Counts what each holds. One that cannot be read has its reason in its row, and the others follow.
pub fn run(traces: &[PathBuf], json: bool) -> Result<(), Failure> {
    let mut rows = Vec::new();
    let mut progress = Progress::new();
    for (n, path) in traces.iter().enumerate() {
        progress.at("counting traces", n as u64, traces.len() as u64);
        let summary = Trace::open(path).and_then(|trace| Summary::of(&trace, |_| ()));
        rows.push(match summary {
            Ok(summary) => OneOfSeveral::of(&summary),
            Err(why) => OneOfSeveral::unreadable(&path.to_string_lossy(), &why),
        });
    }
    drop(progress);
    let document = SeveralDocument { traces: rows };
    if json {
        print_json(&document)?
    } else {
        print(&document.text())?
    }
    match document.unreadable() {
        0 => Ok(()),
        n => Err(Failure(format!("{n} of {} traces cannot be read: the table says why", traces.len()))),
    }
}
