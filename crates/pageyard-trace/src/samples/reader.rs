//! Reading `samples.parquet`, a sample at a time, and refusing impossible rows.

use crate::error::TraceError;
use crate::pq::{ChunkReader, Kind, Names, Table};
use crate::source::Input;

use super::check::{Check, zone_of};
use super::{
    COUNTER, COUNTERS, CpuLists, FREE_BLOCKS, HostSample, KINDS, LIST, Row, ZONES, ZoneBlocks, columns,
    counters,
};

/// Rows decoded at a time.
const BATCH: u64 = 4 << 10;

// The columns' places in `columns`.
const KIND: usize = 1;
const ZONE: usize = 3;
const NAME: usize = 6;

/// Reads the samples of a trace in order.
pub struct SampleReader {
    table: Table,
    names: [Names; 3],
    chunks: Vec<ChunkReader>,
    next_group: usize,
    /// The next row to decode, and the first row past the open row group.
    row: u64,
    group_end: u64,
    batch: Vec<Row>,
    /// How much of the batch was used.
    used: usize,
    check: Check,
    /// The zones of the first sample and their numbers of orders: those of all others.
    shape: Option<Vec<(u8, usize, usize)>>,
    fault: Option<TraceError>,
}

impl SampleReader {
    /// Opens the file of a host with these CPUs and, where its `buddyinfo` says so, these zones by node and name.
    pub(crate) fn open(
        input: Input,
        cpus: u32,
        zones: Option<Vec<(u8, String)>>,
    ) -> Result<SampleReader, TraceError> {
        let table = Table::open(input, columns())?;
        let [Kind::Names(kinds), Kind::Names(zone_names), Kind::Names(counter_names)] =
            [table.kind(KIND), table.kind(ZONE), table.kind(NAME)]
        else {
            unreachable!("three columns hold names")
        };
        let names = [kinds.clone(), zone_names.clone(), counter_names.clone()];
        Ok(SampleReader {
            table,
            names,
            chunks: Vec::new(),
            next_group: 0,
            row: 0,
            group_end: 0,
            batch: Vec::new(),
            used: 0,
            check: Check::new(zones, cpus),
            shape: None,
            fault: None,
        })
    }

    /// Returns how many rows there are, of all samples together.
    #[must_use]
    pub fn rows(&self) -> u64 {
        self.table.rows()
    }

    /// Counts the samples that are left.
    ///
    /// # Errors
    /// As [`SampleReader::next_sample`].
    pub fn count(mut self) -> Result<u64, TraceError> {
        let mut samples = 0;
        while self.next_sample()?.is_some() {
            samples += 1;
        }
        Ok(samples)
    }

    /// Returns the next sample, or `None` when there are none left.
    ///
    /// # Errors
    /// At the first row that is damaged or cannot be true; asking again gives the same error.
    pub fn next_sample(&mut self) -> Result<Option<HostSample>, TraceError> {
        if let Some(fault) = &self.fault {
            return Err(fault.clone());
        }
        let sample = self.read();
        if let Err(fault) = &sample {
            self.fault = Some(fault.clone());
        }
        sample
    }

    fn read(&mut self) -> Result<Option<HostSample>, TraceError> {
        let Some(first) = self.peek()? else { return Ok(None) };
        let begins = self.at();
        let mut sample = HostSample { time_ns: first.time_ns, ..HostSample::default() };
        while let Some(row) = self.peek()?.filter(|row| row.time_ns == first.time_ns) {
            add(&mut sample, &row);
            self.used += 1;
        }
        let shape = sample.shape();
        if *self.shape.get_or_insert_with(|| shape.clone()) != shape {
            let what =
                "the sample that begins here has free blocks of other zones or orders than the first sample";
            return Err(self.inconsistent(begins, what.to_owned()));
        }
        Ok(Some(sample))
    }

    /// Returns the number of the next row to use.
    fn at(&self) -> u64 {
        self.row - (self.batch.len() - self.used) as u64
    }

    /// Returns the next row, checked; `None` at the end.
    fn peek(&mut self) -> Result<Option<Row>, TraceError> {
        if self.used == self.batch.len() && !self.decode()? {
            return Ok(None);
        }
        Ok(Some(self.batch[self.used]))
    }

    /// Replaces the batch by the next rows; `false` when there are none left.
    fn decode(&mut self) -> Result<bool, TraceError> {
        self.batch.clear();
        self.used = 0;
        while self.row == self.group_end {
            let Some(group) = self.table.group(self.next_group) else { return Ok(false) };
            self.next_group += 1;
            self.group_end += group.rows;
            self.chunks = (0..columns().len()).map(|i| self.table.chunk(group, i)).collect();
        }
        let n = (self.group_end - self.row).min(BATCH) as usize;
        for (i, chunk) in self.chunks.iter_mut().enumerate() {
            chunk.read(n, self.table.label(), self.row, self.table.column_name(i))?;
        }
        for i in 0..n {
            let row = self.assemble(i).and_then(|row| self.check.next(&row).map(|()| row));
            let row = row.map_err(|what| self.inconsistent(self.row + i as u64, what))?;
            self.batch.push(row);
        }
        self.row += n as u64;
        Ok(true)
    }

    /// Makes a row of the values that every column has decoded.
    fn assemble(&self, i: usize) -> Result<Row, String> {
        let long = |column: usize| self.chunks[column].as_i64()[i] as u64;
        let word = |column: usize| self.chunks[column].as_i32()[i];
        let known =
            |column: usize, names: &Names, known: usize, what: &str| match usize::try_from(word(column)) {
                Ok(index) if index < known => Ok(index),
                _ => Err(format!("there is no {what} called `{}`", names.unknown(word(column)))),
            };
        let small = |column: usize| {
            let name = self.table.column_name(column);
            u8::try_from(word(column))
                .map_err(|_| format!("{} is too large for column `{name}`", word(column)))
        };
        Ok(Row {
            time_ns: long(0),
            kind: known(KIND, &self.names[0], KINDS.len(), "kind of sample")? as u8,
            node: small(2)?,
            zone: known(ZONE, &self.names[1], ZONES.len(), "zone")? as u8,
            cpu: word(4) as u32,
            order: small(5)?,
            counter: known(NAME, &self.names[2], counters::NAMES.len(), "counter")? as u16,
            value: long(7),
            high: long(8),
        })
    }

    fn inconsistent(&self, row: u64, what: String) -> TraceError {
        TraceError::Inconsistent { file: self.table.label().to_owned(), row: Some(row), what }
    }
}

/// Adds a row that was checked to its sample.
fn add(sample: &mut HostSample, row: &Row) {
    let Row { node, cpu, value, high, .. } = *row;
    match (row.kind, zone_of(row.zone)) {
        (FREE_BLOCKS, Some(zone)) => match sample.free_blocks.last_mut() {
            Some(last) if (last.node, last.zone) == (node, zone) => last.counts.push(value),
            _ => sample.free_blocks.push(ZoneBlocks { node, zone, counts: vec![value] }),
        },
        (LIST, Some(zone)) => sample.lists.push(CpuLists { node, zone, cpu, frames: value, high }),
        (COUNTER, _) => {
            let name = usize::from(row.counter).checked_sub(1).and_then(|i| COUNTERS.get(i));
            sample.counters.extend(name.map(|name| (*name, value)));
        }
        _ => {}
    }
}
