//! Writing a trace.

mod beside;
mod document;
mod folder;
mod moves;
mod rows;
mod salvage;
mod samples;
mod table;
#[cfg(test)]
mod tests;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::checksum;
use crate::error::TraceError;
use crate::event::{Columns, Event};
use crate::free_lists::{FREE_LISTS, FreeBlock};
use crate::meta::Meta;
use crate::moves::MOVES;
use crate::reader::{event_columns, impossible};
use crate::samples::SAMPLES;
use crate::snapshot::{MAX_FRAMES, Snapshot};
use crate::source::Source;
use crate::thread_names::{THREAD_NAMES, ThreadNames};
use crate::trace::{AFTER, BEFORE, EVENTS, META, Trace};

use rows::{write_free_lists, write_snapshot};

pub use document::{SalvageDocument, SalvagedMoves, SalvagedSamples};
pub(crate) use folder::Temporary;
pub use moves::MovesWriter;
#[cfg(any(test, feature = "hostile"))]
pub(crate) use rows::write_events;
#[cfg(not(any(test, feature = "hostile")))]
use rows::write_events;
pub use salvage::{Salvaged, salvage};
pub use samples::SamplesWriter;
#[cfg(any(test, feature = "hostile"))]
pub(crate) use table::schema;
pub(crate) use table::{Output, TableFile, column, column_where_known, refused};

/// Events in a row group: they wait in memory until it is full, about 10 MiB.
const GROUP_ROWS: usize = 256 << 10;

/// The longest that events of a recording wait for their row group to fill, in nanoseconds: a killed recorder loses
/// that much.
const WAIT_NS: u64 = 1_000_000_000;

/// The share of a recording's time that they can wait beyond that, so that long recordings of quiet hosts do not
/// consist of thousands of small row groups.
const WAIT_SHARE: u64 = 64;

/// Disk space kept for the end of a trace, in addition to twice that of its beginning: the ends of three tables.
const RESERVE_BYTES: u64 = 4 << 20;

/// Why a trace is partial whose recorder could not say so.
const KILLED: &str = "the recorder was killed";

/// Writes a trace, event by event.
///
/// Everything goes to a folder beside the final one, `NAME.trace.partial`, which takes its name only when the trace is
/// complete: a folder that looks like a trace is one. A writer dropped before [`TraceWriter::finish`] leaves nothing
/// behind.
pub struct TraceWriter {
    path: PathBuf,
    temporary: Temporary,
    file: TableFile,
    waiting: Vec<Event>,
    rows: u64,
    last_time: u64,
    /// Rows in complete row groups, and the time of the last of them.
    written: u64,
    written_time: u64,
    /// Whether what is complete can be kept, whatever happens.
    keeps: bool,
    lost: Arc<AtomicU64>,
    /// The largest CPU number and the highest frame that events named, checked at the end.
    last_cpu: u32,
    frames_end: u64,
}

impl TraceWriter {
    /// Starts a trace that will be the folder `path`.
    ///
    /// # Errors
    /// [`TraceError::Exists`] when something is there already; [`TraceError::Unfinished`] when an unfinished trace of
    /// that name is; [`TraceError::Unwritable`].
    pub fn create(path: &Path) -> Result<TraceWriter, TraceError> {
        let temporary = Temporary::create(path)?;
        let label = join(path, EVENTS);
        let file = TableFile::create(&temporary.path().join(EVENTS), &label, &event_columns(Columns::All))?;
        Ok(TraceWriter {
            path: path.to_owned(),
            temporary,
            file,
            waiting: Vec::new(),
            rows: 0,
            last_time: 0,
            written: 0,
            written_time: 0,
            keeps: false,
            lost: Arc::default(),
            last_cpu: 0,
            frames_end: 0,
        })
    }

    /// Writes the beginning of a trace, and from then on what is needed to make a trace from what was written so far.
    ///
    /// # Errors
    /// As [`TraceWriter::finish`].
    pub fn keep(&mut self, meta: &Meta, before: Option<&Snapshot>) -> Result<(), TraceError> {
        let meta = Meta { partial: Some(KILLED.to_owned()), events: None, ..meta.clone() };
        let mut bytes = self.write_meta(&meta)?;
        if let Some(before) = before {
            let path = self.temporary.path().join(BEFORE);
            write_snapshot(&path, &self.label(BEFORE), before)?;
            bytes += path.metadata().map_err(|e| refused(&self.label(BEFORE), &e))?.len();
        }
        folder::reserve(self.temporary.path(), RESERVE_BYTES + 2 * bytes)
            .map_err(|e| refused(&self.label(EVENTS), &e))?;
        self.keeps = true;
        Ok(())
    }

    /// Writes the free lists and per-CPU lists in their order when the recording started.
    ///
    /// # Errors
    /// [`TraceError::Inconsistent`] for a block that a reader would refuse; [`TraceError::Unwritable`].
    pub fn free_lists(&self, blocks: &[FreeBlock]) -> Result<(), TraceError> {
        write_free_lists(&self.temporary.path().join(FREE_LISTS), &self.label(FREE_LISTS), blocks)
    }

    /// Writes the names of threads, where the recording is to keep them.
    ///
    /// # Errors
    /// [`TraceError::Unwritable`].
    pub fn thread_names(&self, names: &ThreadNames) -> Result<(), TraceError> {
        let label = self.label(THREAD_NAMES);
        let text = serde_json::to_vec_pretty(names)
            .map_err(|e| TraceError::Unwritable { file: label.clone(), why: e.to_string() })?;
        fs::write(self.temporary.path().join(THREAD_NAMES), text).map_err(|e| refused(&label, &e))
    }

    /// Returns how many events were pushed.
    #[must_use]
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Adds an event. Events come in the order of their times.
    ///
    /// # Errors
    /// [`TraceError::Inconsistent`] for an event that a reader would refuse; [`TraceError::Unwritable`].
    pub fn push(&mut self, event: &Event) -> Result<(), TraceError> {
        if let Some(what) = impossible(event, self.last_time) {
            return Err(TraceError::Inconsistent { file: self.label(EVENTS), row: Some(self.rows), what });
        }
        self.last_time = event.time_ns;
        self.last_cpu = self.last_cpu.max(event.cpu);
        if !event.failed() {
            self.frames_end = self.frames_end.max(event.pfn + (1 << event.order));
        }
        self.waiting.push(*event);
        self.rows += 1;
        if self.waiting.len() == GROUP_ROWS || self.has_waited(self.waiting[0].time_ns, event.time_ns) {
            self.flush()?;
        }
        Ok(())
    }

    /// Completes the trace and opens it. `meta.events` is set to the number of events pushed, and `meta.checksums` to
    /// those of the files.
    ///
    /// # Errors
    /// [`TraceError::Inconsistent`] when events name CPUs or frames that `meta` or `before` do not have, or a
    /// snapshot's runs overlap; [`TraceError::Unwritable`]; [`TraceError::Exists`] when the name was taken meanwhile.
    pub fn finish(
        mut self,
        meta: Meta,
        before: Option<&Snapshot>,
        after: Option<&Snapshot>,
    ) -> Result<Trace, TraceError> {
        self.flush()?;
        self.end(meta, before, after)
    }

    /// Completes the trace with the row groups that are complete, after a write failed. Waiting events are lost.
    ///
    /// # Errors
    /// As [`TraceWriter::finish`].
    pub fn finish_partial(
        self,
        mut meta: Meta,
        before: Option<&Snapshot>,
        after: Option<&Snapshot>,
    ) -> Result<Trace, TraceError> {
        meta.duration_ns = self.written_time;
        self.end(meta, before, after)
    }

    fn end(
        self,
        mut meta: Meta,
        before: Option<&Snapshot>,
        after: Option<&Snapshot>,
    ) -> Result<Trace, TraceError> {
        let inconsistent =
            |file: String, what: String| Err(TraceError::Inconsistent { file, row: None, what });
        meta.events = Some(self.written);
        meta.check(&self.label(META))?;
        if self.rows > 0 && self.last_cpu >= meta.cpus {
            let what =
                format!("events name CPU {}, and the description has {} CPUs", self.last_cpu, meta.cpus);
            return inconsistent(self.label(META), what);
        }
        let end = before.map(Snapshot::end).or(meta.memory_end).unwrap_or(MAX_FRAMES);
        if self.frames_end > end {
            let what =
                format!("events name frames up to {}, and memory ends at frame {end}", self.frames_end);
            return inconsistent(self.label(if before.is_some() { BEFORE } else { META }), what);
        }
        self.give_up_reserve();
        let folder = self.temporary.path().to_owned();
        let after_path = folder.join(AFTER);
        let (before_label, after_label) = (self.label(BEFORE), self.label(AFTER));
        let (path, keeps, temporary) = (self.path, self.keeps, self.temporary);
        self.file.finish()?;
        if let Some(before) = before.filter(|_| !keeps) {
            write_snapshot(&folder.join(BEFORE), &before_label, before)?;
        }
        if let Some(after) = after {
            match write_snapshot(&after_path, &after_label, after) {
                // The last snapshot of an already partial trace is not worth losing the rest.
                Err(TraceError::Unwritable { .. }) if meta.partial.is_some() => {
                    let _ = fs::remove_file(&after_path);
                }
                done => done?,
            }
        }
        complete(&folder, &path, meta)?;
        let trace = Trace::open(&path);
        drop(temporary);
        trace
    }

    /// Returns what messages call the file `name`.
    pub fn label(&self, name: &str) -> String {
        join(&self.path, name)
    }

    /// Returns the folder in which the trace is made.
    pub fn folder(&self) -> &Path {
        self.temporary.path()
    }

    /// Returns whether what is complete can be kept, whatever happens.
    pub(crate) fn keeps(&self) -> bool {
        self.keeps
    }

    /// Returns whether rows, the first from the time `first`, have waited long enough at the time `now` to be written
    /// although their row group is not full.
    pub fn has_waited(&self, first: u64, now: u64) -> bool {
        self.keeps && now.saturating_sub(first) >= WAIT_NS.max(now / WAIT_SHARE)
    }

    /// Returns where to count the events that were lost, for a trace that is kept without its writer.
    pub fn lost(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.lost)
    }

    /// Gives back the disk space that was kept for the end of the trace.
    pub fn give_up_reserve(&self) {
        // There is none unless the trace is kept.
        let _ = fs::remove_file(self.temporary.path().join(folder::RESERVE));
    }

    /// Writes what waits.
    ///
    /// # Errors
    /// [`TraceError::Unwritable`].
    pub fn flush(&mut self) -> Result<(), TraceError> {
        if self.waiting.is_empty() {
            return Ok(());
        }
        let waiting = std::mem::take(&mut self.waiting);
        self.file.write(|file| write_events(file, &waiting))?;
        self.written += waiting.len() as u64;
        self.written_time = self.last_time;
        if self.keeps {
            self.file.checkpoint(self.lost.load(Ordering::Relaxed))?;
        }
        self.waiting = waiting;
        self.waiting.clear();
        Ok(())
    }

    /// Writes the description and returns its size in bytes.
    fn write_meta(&self, meta: &Meta) -> Result<u64, TraceError> {
        write_meta(self.temporary.path(), &self.label(META), meta)
    }
}

fn write_meta(folder: &Path, label: &str, meta: &Meta) -> Result<u64, TraceError> {
    let text = serde_json::to_vec_pretty(meta)
        .map_err(|e| TraceError::Unwritable { file: label.to_owned(), why: e.to_string() })?;
    let (path, fresh) = (folder.join(META), folder.join("meta.fresh"));
    fs::write(&fresh, &text).and_then(|()| fs::rename(&fresh, &path)).map_err(|e| refused(label, &e))?;
    Ok(text.len() as u64)
}

/// Completes a trace in `folder` whose tables are complete, and gives it its name.
fn complete(folder: &Path, path: &Path, mut meta: Meta) -> Result<(), TraceError> {
    let source = Source::Folder(folder.to_owned());
    for name in [EVENTS, MOVES, SAMPLES, BEFORE, FREE_LISTS, AFTER] {
        if let Some(input) = source.open(name)? {
            meta.checksums.insert(name.to_owned(), checksum::of(&input)?);
        }
    }
    write_meta(folder, &join(path, META), &meta)?;
    for table in [EVENTS, MOVES, SAMPLES] {
        // There is none unless the trace is kept.
        let _ = fs::remove_file(table::checkpoint_of(&folder.join(table)));
    }
    // A rename would replace an empty folder.
    if path.symlink_metadata().is_ok() {
        return Err(TraceError::Exists { path: path.display().to_string() });
    }
    fs::rename(folder, path).map_err(|e| refused(&path.display().to_string(), &e))
}

fn join(folder: &Path, name: &str) -> String {
    folder.join(name).display().to_string()
}
