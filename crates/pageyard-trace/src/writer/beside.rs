//! A table beside the events of a trace, created with its first row.

use std::sync::atomic::Ordering;

use parquet::errors::ParquetError;
use parquet::file::writer::SerializedFileWriter;

use crate::error::TraceError;
use crate::pq::ColumnSpec;

use super::{Output, TableFile, TraceWriter};

/// Rows in a row group: they wait in memory until it is full.
const GROUP_ROWS: usize = 64 << 10;

/// Writes one row group.
type WriteGroup<R> = fn(&mut SerializedFileWriter<Output>, &[R]) -> Result<(), ParquetError>;

/// A table beside the events, and the rows that wait for their row group to fill.
pub(crate) struct Beside<R> {
    name: &'static str,
    columns: fn() -> Vec<ColumnSpec>,
    write: WriteGroup<R>,
    file: Option<TableFile>,
    waiting: Vec<R>,
    /// The time of the first row that waits.
    since: u64,
}

impl<R> Beside<R> {
    /// Makes the table of the file `name`, whose row groups `write` writes.
    pub(crate) fn new(name: &'static str, columns: fn() -> Vec<ColumnSpec>, write: WriteGroup<R>) -> Self {
        Beside { name, columns, write, file: None, waiting: Vec::new(), since: 0 }
    }

    /// Adds rows of the time `time_ns`, which stay in one row group, of the trace that `trace` writes.
    ///
    /// # Errors
    /// [`TraceError::Unwritable`].
    pub(crate) fn push(
        &mut self,
        trace: &TraceWriter,
        time_ns: u64,
        rows: impl IntoIterator<Item = R>,
    ) -> Result<(), TraceError> {
        if self.waiting.is_empty() {
            self.since = time_ns;
        }
        self.waiting.extend(rows);
        if self.waiting.len() >= GROUP_ROWS || trace.has_waited(self.since, time_ns) {
            self.flush(trace)?;
        }
        Ok(())
    }

    /// Writes what waits.
    ///
    /// # Errors
    /// [`TraceError::Unwritable`].
    pub(crate) fn flush(&mut self, trace: &TraceWriter) -> Result<(), TraceError> {
        if self.waiting.is_empty() {
            return Ok(());
        }
        let (rows, write) = (std::mem::take(&mut self.waiting), self.write);
        let file = self.table(trace)?;
        file.write(|file| write(file, &rows))?;
        if trace.keeps() {
            // ORDER: Relaxed: a count, which orders nothing.
            file.checkpoint(trace.lost().load(Ordering::Relaxed))?;
        }
        self.waiting = rows;
        self.waiting.clear();
        Ok(())
    }

    /// Completes the file; `expected` says that it is written even if it has no row. Before `trace` is finished.
    ///
    /// # Errors
    /// [`TraceError::Unwritable`].
    pub(crate) fn finish(mut self, trace: &TraceWriter, expected: bool) -> Result<(), TraceError> {
        self.flush(trace)?;
        if expected {
            self.table(trace)?;
        }
        self.finish_partial()
    }

    /// Completes the file with the rows that were written, after a write failed. Waiting rows are lost.
    ///
    /// # Errors
    /// [`TraceError::Unwritable`].
    pub(crate) fn finish_partial(self) -> Result<(), TraceError> {
        self.file.map_or(Ok(()), TableFile::finish)
    }

    fn table(&mut self, trace: &TraceWriter) -> Result<&mut TableFile, TraceError> {
        Ok(match &mut self.file {
            Some(file) => file,
            none => {
                let path = trace.folder().join(self.name);
                none.insert(TableFile::create(&path, &trace.label(self.name), &(self.columns)())?)
            }
        })
    }
}
