//! The traces of a folder, side by side: recordings of a fleet, or what a watch kept.

use crate::output::{Failure, print, print_json};
use crate::progress::Progress;
use pageyard_trace::{OneOfSeveral, SeveralDocument, Summary, Trace, shown};
use std::fs;
use std::path::{Path, PathBuf};

/// The traces in a folder, by their names, and those that are unfinished.
pub struct Several {
    traces: Vec<PathBuf>,
    unfinished: Vec<PathBuf>,
}

impl Several {
    /// Returns how many there are.
    pub fn len(&self) -> usize {
        self.traces.len() + self.unfinished.len()
    }
}

/// Returns the traces in a folder that is none itself; `None` where there are none.
pub fn traces_in(folder: &Path) -> Option<Several> {
    if folder.join("meta.json").exists() {
        return None;
    }
    let entries = fs::read_dir(folder).ok()?;
    let mut several = Several { traces: Vec::new(), unfinished: Vec::new() };
    for path in entries.flatten().map(|e| e.path()).filter(|path| path.is_dir()) {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if name.ends_with(".trace") {
            several.traces.push(path);
        } else if name.ends_with(".trace.partial") {
            several.unfinished.push(path);
        }
    }
    several.traces.sort();
    several.unfinished.sort();
    (!several.traces.is_empty() || !several.unfinished.is_empty()).then_some(several)
}

/// Counts what each holds. One that cannot be read has its reason in its row, and the others follow.
pub fn run(several: &Several, json: bool) -> Result<(), Failure> {
    let traces = &several.traces;
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
    let unfinished = several.unfinished.iter().map(|path| shown(&path.to_string_lossy()));
    let document = SeveralDocument { traces: rows, unfinished: unfinished.collect() };
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
