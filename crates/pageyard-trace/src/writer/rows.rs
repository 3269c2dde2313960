//! Rows of events and of memory maps as Parquet's columns.

use std::collections::HashSet;
use std::io::Write;
use std::path::Path;

use parquet::data_type::{BoolType, ByteArray, ByteArrayType, Int32Type, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::writer::SerializedFileWriter;

use crate::error::TraceError;
use crate::event::{Event, EventKind};
use crate::free_lists::FreeBlock;
use crate::snapshot::{FrameKind, Snapshot};

use super::GROUP_ROWS;
use super::table::{TableFile, column};

/// Writes one row group. The columns are in the order of [`crate::reader::event_columns`].
pub(crate) fn write_events(
    file: &mut SerializedFileWriter<impl Write + Send>,
    events: &[Event],
) -> Result<(), ParquetError> {
    let i64s = |get: fn(&Event) -> u64| events.iter().map(|e| get(e) as i64).collect::<Vec<_>>();
    let i32s = |get: fn(&Event) -> i32| events.iter().map(get).collect::<Vec<_>>();
    let kinds = EventKind::ALL.map(|k| ByteArray::from(k.name()));
    let contexts = pageyard::Context::ALL.map(|c| ByteArray::from(c.name()));
    let mut group = file.next_row_group()?;
    column::<Int64Type>(&mut group, &i64s(|e| e.time_ns))?;
    column::<Int32Type>(&mut group, &i32s(|e| e.cpu as i32))?;
    let names: Vec<_> = events.iter().map(|e| kinds[e.kind.index()].clone()).collect();
    column::<ByteArrayType>(&mut group, &names)?;
    column::<Int64Type>(&mut group, &i64s(|e| e.pfn))?;
    column::<Int32Type>(&mut group, &i32s(|e| e.order.into()))?;
    column::<Int32Type>(&mut group, &i32s(|e| e.gfp as i32))?;
    column::<Int32Type>(&mut group, &i32s(|e| e.migratetype.into()))?;
    let names: Vec<_> = events.iter().map(|e| contexts[e.context as usize].clone()).collect();
    column::<ByteArrayType>(&mut group, &names)?;
    column::<Int32Type>(&mut group, &i32s(|e| e.tid as i32))?;
    column::<BoolType>(&mut group, &events.iter().map(|e| e.irqs_off).collect::<Vec<_>>())?;
    group.close()?;
    Ok(())
}

/// Writes free lists to `path`, which messages call `label`.
pub(super) fn write_free_lists(path: &Path, label: &str, blocks: &[FreeBlock]) -> Result<(), TraceError> {
    let mut so_far = HashSet::new();
    for (row, block) in (0..).zip(blocks) {
        block.check(&mut so_far).map_err(|what| TraceError::Inconsistent {
            file: label.to_owned(),
            row: Some(row),
            what,
        })?;
    }
    let mut file = TableFile::create(path, label, &FreeBlock::columns())?;
    for blocks in blocks.chunks(GROUP_ROWS) {
        let i32s = |get: fn(&FreeBlock) -> i32| blocks.iter().map(get).collect::<Vec<_>>();
        file.write(|file| {
            let mut group = file.next_row_group()?;
            column::<Int64Type>(&mut group, &blocks.iter().map(|b| b.pfn as i64).collect::<Vec<_>>())?;
            column::<Int32Type>(&mut group, &i32s(|b| b.order.into()))?;
            column::<Int32Type>(&mut group, &i32s(|b| b.migratetype.into()))?;
            column::<Int32Type>(&mut group, &i32s(|b| b.cpu.map_or(-1, |cpu| cpu as i32)))?;
            group.close()?;
            Ok(())
        })?;
    }
    file.finish()
}

/// Writes a memory map to `path`, which messages call `label`.
pub(super) fn write_snapshot(path: &Path, label: &str, snapshot: &Snapshot) -> Result<(), TraceError> {
    let mut so_far = Snapshot::default();
    for (row, run) in snapshot.runs.iter().enumerate() {
        so_far.check_next(run).map_err(|what| TraceError::Inconsistent {
            file: label.to_owned(),
            row: Some(row as u64),
            what,
        })?;
        so_far.runs.clear();
        so_far.runs.push(*run);
    }
    let mut file = TableFile::create(path, label, &Snapshot::columns())?;
    let kinds = FrameKind::ALL.map(|k| ByteArray::from(k.name()));
    for runs in snapshot.runs.chunks(GROUP_ROWS) {
        file.write(|file| {
            let mut group = file.next_row_group()?;
            column::<Int64Type>(&mut group, &runs.iter().map(|r| r.pfn as i64).collect::<Vec<_>>())?;
            column::<Int64Type>(&mut group, &runs.iter().map(|r| r.frames as i64).collect::<Vec<_>>())?;
            let names: Vec<_> = runs.iter().map(|r| kinds[r.kind.index()].clone()).collect();
            column::<ByteArrayType>(&mut group, &names)?;
            column::<BoolType>(&mut group, &runs.iter().map(|r| r.thp).collect::<Vec<_>>())?;
            column::<BoolType>(&mut group, &runs.iter().map(|r| r.unevictable).collect::<Vec<_>>())?;
            group.close()?;
            Ok(())
        })?;
    }
    file.finish()
}
