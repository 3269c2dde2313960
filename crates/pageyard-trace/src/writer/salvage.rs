//! Making a trace of what a killed recording left.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use crate::error::TraceError;
use crate::event::Columns;
use crate::meta::Meta;
use crate::moves::MOVES;
use crate::samples::{SAMPLES, SampleReader};
use crate::source::{Source, reason};
use crate::trace::{EVENTS, META, PARTIAL, Trace};

use super::folder::{RESERVE, lock};
use super::{complete, table};

/// The parts of a killed recording that were salvaged.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Salvaged {
    /// Where the trace is.
    pub path: PathBuf,
    /// Why the recording ended early.
    pub partial: String,
    /// Events of the trace.
    pub events: u64,
    /// Rows about compaction and migration, where the recording had any.
    pub moves: Option<u64>,
    /// Samples of the host, where the recording had any.
    pub samples: Option<u64>,
}

/// Makes a trace from `folder`, the `NAME.trace.partial` that a killed recording left, with all events that were
/// written by then. The trace goes to `output`, or to `NAME.trace` beside the folder.
///
/// # Errors
/// When the folder is something else, is still being written, or holds no event; when the trace cannot be written. The
/// folder is then left as it is.
pub fn salvage(folder: &Path, output: Option<&Path>) -> Result<(Trace, Salvaged), TraceError> {
    let path = folder.display().to_string();
    let not_one = |why: &str| TraceError::NotATrace { path: path.clone(), why: why.to_owned() };
    let output = match output {
        Some(output) => output.to_owned(),
        None => finished_name(folder).ok_or_else(|| {
            not_one("it is a folder, and an import takes a file of `perf record` or the NAME.trace.partial of a killed recording")
        })?,
    };
    if output.symlink_metadata().is_ok() {
        return Err(TraceError::Exists { path: output.display().to_string() });
    }
    let unreadable = |e: &std::io::Error| TraceError::Unreadable { file: path.clone(), why: reason(e) };
    let Some(_lock) = lock(folder).map_err(|e| unreadable(&e))? else {
        return Err(TraceError::Unfinished { path, busy: true });
    };
    let source = Source::Folder(folder.to_owned());
    let nothing = || not_one("nothing was recorded yet when its writer was killed: remove it");
    let meta = source.open(META)?.ok_or_else(nothing)?;
    let meta = Meta::read(&meta)?;
    let Some(partial) = meta.partial.clone() else {
        return Err(not_one("it is not an unfinished recording"));
    };
    let lost = table::restore(&folder.join(EVENTS), &source.label(EVENTS))?.ok_or_else(nothing)?;
    for table in [MOVES, SAMPLES] {
        if table::restore(&folder.join(table), &source.label(table))?.is_none() {
            remove(&folder.join(table))?;
        }
    }
    remove(&folder.join(RESERVE))?;
    // Read to its end before it is called a trace: it says how long the recording was, and that all of it can be read.
    let trace = Trace::unfinished(folder)?;
    let mut events = trace.events(Columns::All)?;
    let (mut batch, mut last) = (Vec::new(), 0);
    while events.next_batch(&mut batch)? {
        last = batch.last().map_or(last, |event| event.time_ns);
    }
    let moves = trace.moves()?.map(|moves| moves.rows());
    let samples = trace.samples()?.map(SampleReader::count).transpose()?;
    let events = events.rows();
    complete(folder, &output, Meta { lost, duration_ns: last, events: Some(events), ..meta })?;
    Ok((Trace::open(&output)?, Salvaged { path: output, partial, events, moves, samples }))
}

/// Returns `NAME.trace` for `NAME.trace.partial`.
fn finished_name(folder: &Path) -> Option<PathBuf> {
    let name = folder.file_name()?.to_str()?.strip_suffix(PARTIAL)?;
    (!name.is_empty()).then(|| folder.with_file_name(name))
}

fn remove(path: &Path) -> Result<(), TraceError> {
    match fs::remove_file(path) {
        Err(e) if e.kind() != ErrorKind::NotFound => {
            Err(TraceError::Unwritable { file: path.display().to_string(), why: reason(&e) })
        }
        _ => Ok(()),
    }
}
