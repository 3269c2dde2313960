//! Writing `moves.parquet`.

use std::io::Write;

use parquet::data_type::{ByteArray, ByteArrayType, Int32Type, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::writer::SerializedFileWriter;

use crate::error::TraceError;
use crate::moves::{MOVES, Move, MoveKind, columns};

use super::TraceWriter;
use super::beside::Beside;
use super::table::column;

/// Writes the second file of a trace, which is created with its first row.
pub struct MovesWriter {
    table: Beside<Move>,
    rows: u64,
    moved: u64,
    refused: u64,
    time: u64,
}

impl Default for MovesWriter {
    fn default() -> MovesWriter {
        let table = Beside::new(MOVES, columns, write);
        MovesWriter { table, rows: 0, moved: 0, refused: 0, time: 0 }
    }
}

impl MovesWriter {
    /// Returns how many rows were written.
    #[must_use]
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Returns how many of them name both frames of a move.
    #[must_use]
    pub fn moved(&self) -> u64 {
        self.moved
    }

    /// Returns how many rows were left out because every reader would refuse them.
    #[must_use]
    pub fn refused(&self) -> u64 {
        self.refused
    }

    /// Adds a row of the trace that `trace` writes.
    ///
    /// # Errors
    /// [`TraceError::Unwritable`].
    pub fn push(&mut self, trace: &TraceWriter, row: Move) -> Result<(), TraceError> {
        if row.check(self.time, u32::MAX).is_err() {
            self.refused += 1;
            return Ok(());
        }
        self.time = row.time_ns;
        self.rows += 1;
        self.moved += u64::from(row.kind == MoveKind::Move);
        self.table.push(trace, row.time_ns, [row])
    }

    /// Completes the file. `expected` says that it is written even if it has no row: it is known that nothing happened.
    /// Call it before `trace` is finished.
    ///
    /// # Errors
    /// [`TraceError::Unwritable`].
    pub fn finish(self, trace: &TraceWriter, expected: bool) -> Result<(), TraceError> {
        self.table.finish(trace, expected)
    }

    /// Completes the file with the rows that were written, after a write failed. Waiting rows are lost.
    ///
    /// # Errors
    /// [`TraceError::Unwritable`].
    pub fn finish_partial(self) -> Result<(), TraceError> {
        self.table.finish_partial()
    }

    /// Writes what waits.
    ///
    /// # Errors
    /// [`TraceError::Unwritable`].
    pub fn flush(&mut self, trace: &TraceWriter) -> Result<(), TraceError> {
        self.table.flush(trace)
    }
}

/// Writes one row group. The columns are in the order of [`columns`].
fn write(file: &mut SerializedFileWriter<impl Write + Send>, rows: &[Move]) -> Result<(), ParquetError> {
    let i64s = |get: fn(&Move) -> u64| rows.iter().map(|r| get(r) as i64).collect::<Vec<_>>();
    let i32s = |get: fn(&Move) -> u32| rows.iter().map(|r| get(r) as i32).collect::<Vec<_>>();
    let kinds = MoveKind::ALL.map(|k| ByteArray::from(k.name()));
    let names: Vec<_> = rows.iter().map(|r| kinds[r.kind as usize].clone()).collect();
    let mut group = file.next_row_group()?;
    column::<Int64Type>(&mut group, &i64s(|r| r.time_ns))?;
    column::<Int32Type>(&mut group, &i32s(|r| r.cpu))?;
    column::<Int32Type>(&mut group, &i32s(|r| r.tid))?;
    column::<ByteArrayType>(&mut group, &names)?;
    column::<Int64Type>(&mut group, &i64s(|r| r.pfn))?;
    column::<Int64Type>(&mut group, &i64s(|r| r.to))?;
    column::<Int32Type>(&mut group, &i32s(|r| r.order.into()))?;
    column::<Int32Type>(&mut group, &i32s(|r| r.scanned))?;
    column::<Int32Type>(&mut group, &i32s(|r| r.done))?;
    column::<Int32Type>(&mut group, &i32s(|r| r.failed))?;
    group.close()?;
    Ok(())
}
