//! A table as a Parquet file.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use parquet::basic::{LogicalType, Repetition, Type as Physical};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::{Type, TypePtr};

use super::column::{Cell, Column, Kind};
use crate::error::TraceError;
use crate::writer::{Output, TableFile, column, column_where_known};

/// Rows in a row group: they wait in memory until it is full.
pub(super) const GROUP_ROWS: usize = 64 << 10;

/// A file that is being written.
pub(crate) struct File {
    file: TableFile,
    columns: Vec<Values>,
    rows: usize,
}

/// The rows that wait, column by column.
enum Values {
    Counts(Vec<i64>),
    Numbers(Vec<f64>),
    /// The known numbers, and for each row whether its number is known.
    KnownNumbers(Vec<f64>, Vec<i16>),
    Flags(Vec<bool>),
    /// The few texts of a column share their bytes.
    Names(Vec<ByteArray>, HashMap<String, ByteArray>),
}

impl File {
    pub(crate) fn create(path: &Path, label: &str, columns: &[Column]) -> Result<File, TraceError> {
        let unwritable =
            |e: ParquetError| TraceError::Unwritable { file: label.to_owned(), why: e.to_string() };
        let file = TableFile::with_schema(path, label, schema(columns).map_err(unwritable)?)?;
        let columns = columns.iter().map(|(_, kind)| match kind {
            Kind::Count => Values::Counts(Vec::new()),
            Kind::Number => Values::Numbers(Vec::new()),
            Kind::NumberIfKnown => Values::KnownNumbers(Vec::new(), Vec::new()),
            Kind::Flag => Values::Flags(Vec::new()),
            Kind::Name => Values::Names(Vec::new(), HashMap::new()),
        });
        Ok(File { file, columns: columns.collect(), rows: 0 })
    }

    pub(crate) fn row(&mut self, cells: &[Cell<'_>]) -> Result<(), TraceError> {
        for (values, cell) in self.columns.iter_mut().zip(cells) {
            values.push(cell);
        }
        self.rows += 1;
        if self.rows == GROUP_ROWS { self.flush() } else { Ok(()) }
    }

    pub(crate) fn finish(mut self) -> Result<(), TraceError> {
        if self.rows > 0 {
            self.flush()?;
        }
        self.file.finish()
    }

    fn flush(&mut self) -> Result<(), TraceError> {
        let columns = &self.columns;
        self.file.write(|file| write(file, columns))?;
        self.columns.iter_mut().for_each(Values::clear);
        self.rows = 0;
        Ok(())
    }
}

impl Values {
    fn push(&mut self, cell: &Cell<'_>) {
        match (self, cell) {
            (Values::Counts(values), Cell::Count(n)) => values.push(*n as i64),
            (Values::Numbers(values), Cell::Number(x)) => values.push(*x),
            (Values::KnownNumbers(values, known), Cell::NumberIfKnown(x)) => {
                values.extend(x);
                known.push(x.is_some().into());
            }
            (Values::Flags(values), Cell::Flag(is)) => values.push(*is),
            (Values::Names(values, known), Cell::Name(text)) => {
                let bytes = match known.get(*text) {
                    Some(bytes) => bytes.clone(),
                    None => known.entry((*text).to_owned()).or_insert(ByteArray::from(*text)).clone(),
                };
                values.push(bytes);
            }
            _ => unreachable!("a row has the cells of its columns"),
        }
    }

    fn clear(&mut self) {
        match self {
            Values::Counts(values) => values.clear(),
            Values::Numbers(values) => values.clear(),
            Values::KnownNumbers(values, known) => {
                values.clear();
                known.clear();
            }
            Values::Flags(values) => values.clear(),
            Values::Names(values, _) => values.clear(),
        }
    }
}

/// Writes one row group.
fn write(file: &mut SerializedFileWriter<Output>, columns: &[Values]) -> Result<(), ParquetError> {
    let mut group = file.next_row_group()?;
    for values in columns {
        match values {
            Values::Counts(values) => column::<Int64Type>(&mut group, values)?,
            Values::Numbers(values) => column::<DoubleType>(&mut group, values)?,
            Values::KnownNumbers(values, known) => {
                column_where_known::<DoubleType>(&mut group, values, known)?
            }
            Values::Flags(values) => column::<BoolType>(&mut group, values)?,
            Values::Names(values, _) => column::<ByteArrayType>(&mut group, values)?,
        }
    }
    group.close()?;
    Ok(())
}

fn schema(columns: &[Column]) -> Result<TypePtr, ParquetError> {
    let fields = columns.iter().map(|(name, kind)| {
        let (physical, logical) = match kind {
            Kind::Count => (Physical::INT64, Some(LogicalType::integer(64, false))),
            Kind::Number | Kind::NumberIfKnown => (Physical::DOUBLE, None),
            Kind::Flag => (Physical::BOOLEAN, None),
            Kind::Name => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
        };
        let repetition = match kind {
            Kind::NumberIfKnown => Repetition::OPTIONAL,
            _ => Repetition::REQUIRED,
        };
        let leaf = Type::primitive_type_builder(name, physical)
            .with_repetition(repetition)
            .with_logical_type(logical)
            .build()?;
        Ok(Arc::new(leaf))
    });
    let fields = fields.collect::<Result<Vec<_>, ParquetError>>()?;
    Ok(Arc::new(Type::group_type_builder("schema").with_fields(fields).build()?))
}
