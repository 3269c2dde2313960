//! Writing `samples.parquet`.

use std::io::Write;

use parquet::data_type::{ByteArray, ByteArrayType, Int32Type, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::writer::SerializedFileWriter;

use crate::error::TraceError;
use crate::samples::check::Check;
use crate::samples::{
    COUNTER, COUNTERS, FREE_BLOCKS, HostSample, KINDS, LIST, Row, SAMPLES, ZONES, columns, counters,
};

use super::TraceWriter;
use super::beside::Beside;
use super::table::column;

/// Writes a host's samples, into a file that is created with the first of them.
pub struct SamplesWriter {
    table: Beside<Row>,
    samples: u64,
    refused: u64,
    time: Option<u64>,
    shape: Vec<(u8, usize, usize)>,
}

impl Default for SamplesWriter {
    fn default() -> SamplesWriter {
        SamplesWriter {
            table: Beside::new(SAMPLES, columns, write),
            samples: 0,
            refused: 0,
            time: None,
            shape: Vec::new(),
        }
    }
}

impl SamplesWriter {
    /// Returns how many samples were written.
    #[must_use]
    pub fn samples(&self) -> u64 {
        self.samples
    }

    /// Returns how many samples were left out because every reader would refuse them.
    #[must_use]
    pub fn refused(&self) -> u64 {
        self.refused
    }

    /// Adds a sample of the trace that `trace` writes. Samples come in the order of their times.
    ///
    /// # Errors
    /// [`TraceError::Unwritable`].
    pub fn push(&mut self, trace: &TraceWriter, sample: &HostSample) -> Result<(), TraceError> {
        let (rows, shape) = (rows(sample), sample.shape());
        // The host's zones are not known here; Linux names no others.
        let mut check = Check::new(None, u32::MAX);
        let is_possible = self.time.is_none_or(|time| time < sample.time_ns)
            && (self.samples == 0 || shape == self.shape)
            && rows.iter().all(|row| check.next(row).is_ok());
        if !is_possible || rows.is_empty() {
            self.refused += 1;
            return Ok(());
        }
        self.shape = shape;
        self.time = Some(sample.time_ns);
        self.samples += 1;
        self.table.push(trace, sample.time_ns, rows)
    }

    /// Writes what waits.
    ///
    /// # Errors
    /// [`TraceError::Unwritable`].
    pub fn flush(&mut self, trace: &TraceWriter) -> Result<(), TraceError> {
        self.table.flush(trace)
    }

    /// Completes the file, if there is a sample. Call it before `trace` is finished.
    ///
    /// # Errors
    /// [`TraceError::Unwritable`].
    pub fn finish(self, trace: &TraceWriter) -> Result<(), TraceError> {
        self.table.finish(trace, false)
    }

    /// Completes the file with the samples that were written, after a write failed. Waiting ones are lost.
    ///
    /// # Errors
    /// [`TraceError::Unwritable`].
    pub fn finish_partial(self) -> Result<(), TraceError> {
        self.table.finish_partial()
    }
}

/// Returns the rows of a sample, in their order.
fn rows(sample: &HostSample) -> Vec<Row> {
    let at = Row { time_ns: sample.time_ns, ..Row::default() };
    let mut rows = Vec::new();
    for z in &sample.free_blocks {
        let (node, zone) = (z.node, z.zone.index() as u8 + 1);
        let counts = (0..).zip(&z.counts);
        rows.extend(counts.map(|(order, &value)| Row { kind: FREE_BLOCKS, node, zone, order, value, ..at }));
    }
    rows.extend(sample.lists.iter().map(|l| {
        let zone = l.zone.index() as u8 + 1;
        Row { kind: LIST, node: l.node, zone, cpu: l.cpu, value: l.frames, high: l.high, ..at }
    }));
    rows.extend(sample.counters.iter().map(|&(name, value)| {
        // A name that is none of them becomes 0, which the check refuses.
        let counter = COUNTERS.iter().position(|c| *c == name).map_or(0, |i| i as u16 + 1);
        Row { kind: COUNTER, counter, value, ..at }
    }));
    rows
}

/// Writes one row group. The columns are in the order of [`columns`].
fn write(file: &mut SerializedFileWriter<impl Write + Send>, rows: &[Row]) -> Result<(), ParquetError> {
    let i64s = |get: fn(&Row) -> u64| rows.iter().map(|r| get(r) as i64).collect::<Vec<_>>();
    let i32s = |get: fn(&Row) -> i32| rows.iter().map(get).collect::<Vec<_>>();
    let names = |known: &[&'static str], get: fn(&Row) -> usize| {
        let known: Vec<_> = known.iter().map(|name| ByteArray::from(*name)).collect();
        rows.iter().map(|r| known[get(r)].clone()).collect::<Vec<_>>()
    };
    let mut group = file.next_row_group()?;
    column::<Int64Type>(&mut group, &i64s(|r| r.time_ns))?;
    column::<ByteArrayType>(&mut group, &names(&KINDS, |r| r.kind.into()))?;
    column::<Int32Type>(&mut group, &i32s(|r| r.node.into()))?;
    column::<ByteArrayType>(&mut group, &names(&ZONES, |r| r.zone.into()))?;
    column::<Int32Type>(&mut group, &i32s(|r| r.cpu as i32))?;
    column::<Int32Type>(&mut group, &i32s(|r| r.order.into()))?;
    column::<ByteArrayType>(&mut group, &names(&counters::NAMES, |r| r.counter.into()))?;
    column::<Int64Type>(&mut group, &i64s(|r| r.value))?;
    column::<Int64Type>(&mut group, &i64s(|r| r.high))?;
    group.close()?;
    Ok(())
}
