//! One column of one row group, decoded a batch at a time.

use std::sync::Arc;

use parquet::basic::{Repetition, Type as Physical};
use parquet::column::reader::ColumnReaderImpl;
use parquet::data_type::{BoolType, DataType, Int32Type, Int64Type};
use parquet::errors::ParquetError;
use parquet::schema::types::{ColumnDescriptor, ColumnPath, Type};

use crate::error::TraceError;

use super::pages::Pages;
use super::quiet;

/// Reads the values of one chunk in order.
pub(crate) enum ChunkReader {
    /// 64-bit numbers.
    I64(Values<Int64Type>),
    /// Numbers of up to 32 bits, and names as their numbers.
    I32(Values<Int32Type>),
    /// Booleans.
    Bool(Values<BoolType>),
}

/// A decoder and the batch that it decoded last.
pub(crate) struct Values<T: DataType> {
    reader: ColumnReaderImpl<T>,
    batch: Vec<T::T>,
}

impl<T: DataType> Values<T> {
    fn new(pages: Pages, name: &str, physical: Physical) -> Values<T> {
        // Whatever the file says of the column, its pages come without levels.
        let leaf = Type::primitive_type_builder(name, physical)
            .with_repetition(Repetition::REQUIRED)
            .build()
            .expect("a plain type is always valid");
        let descriptor = ColumnDescriptor::new(Arc::new(leaf), 0, 0, ColumnPath::from(name));
        Values { reader: ColumnReaderImpl::new(Arc::new(descriptor), Box::new(pages)), batch: Vec::new() }
    }

    fn read(&mut self, n: usize) -> Result<usize, ParquetError> {
        self.batch.clear();
        while self.batch.len() < n {
            let (rows, _, _) = self.reader.read_records(n - self.batch.len(), None, None, &mut self.batch)?;
            if rows == 0 {
                break;
            }
        }
        Ok(self.batch.len())
    }
}

impl ChunkReader {
    pub(crate) fn i64(pages: Pages, name: &str) -> ChunkReader {
        ChunkReader::I64(Values::new(pages, name, Physical::INT64))
    }

    pub(crate) fn i32(pages: Pages, name: &str) -> ChunkReader {
        ChunkReader::I32(Values::new(pages, name, Physical::INT32))
    }

    pub(crate) fn bool(pages: Pages, name: &str) -> ChunkReader {
        ChunkReader::Bool(Values::new(pages, name, Physical::BOOLEAN))
    }

    /// Decodes exactly the next `n` values. `file`, `row` and `name` are for error messages.
    pub(crate) fn read(&mut self, n: usize, file: &str, row: u64, name: &str) -> Result<(), TraceError> {
        let damaged = |what: String| TraceError::Damaged { file: file.to_owned(), row: Some(row), what };
        let result = quiet::catch(|| match self {
            ChunkReader::I64(v) => v.read(n),
            ChunkReader::I32(v) => v.read(n),
            ChunkReader::Bool(v) => v.read(n),
        });
        match result {
            Ok(Ok(read)) if read == n => Ok(()),
            Ok(Ok(read)) => Err(damaged(format!("column `{name}` ends {} rows too early", n - read))),
            Ok(Err(ParquetError::External(inner))) if inner.is::<TraceError>() => {
                Err(*inner.downcast::<TraceError>().expect("just looked at"))
            }
            Ok(Err(e)) => {
                Err(damaged(format!("column `{name}` cannot be decoded ({})", one_line(&e.to_string()))))
            }
            Err(panic) => Err(damaged(format!("column `{name}` cannot be decoded ({})", one_line(&panic)))),
        }
    }

    /// Returns the batch decoded last, of a column of 64-bit numbers.
    pub(crate) fn as_i64(&self) -> &[i64] {
        match self {
            ChunkReader::I64(v) => &v.batch,
            _ => &[],
        }
    }

    /// Returns the batch decoded last, of a column of smaller numbers or names.
    pub(crate) fn as_i32(&self) -> &[i32] {
        match self {
            ChunkReader::I32(v) => &v.batch,
            _ => &[],
        }
    }

    /// Returns the batch decoded last, of a column of booleans.
    pub(crate) fn as_bool(&self) -> &[bool] {
        match self {
            ChunkReader::Bool(v) => &v.batch,
            _ => &[],
        }
    }
}

fn one_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().chars().take(120).collect()
}
