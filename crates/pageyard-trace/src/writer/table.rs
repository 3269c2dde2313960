//! A Parquet file whose row groups can be kept even if the rest is never completed.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parquet::basic::{Compression, LogicalType, Repetition, Type as Physical, ZstdLevel};
use parquet::data_type::DataType;
use parquet::errors::ParquetError;
use parquet::file::metadata::{FileMetaData, ParquetMetaData, ParquetMetaDataWriter};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::types::{Type, TypePtr};

use crate::error::TraceError;
use crate::pq::{ColumnSpec, Kind};
use crate::source::reason;

/// Zstandard's own default, the balance of size and speed that the shipped traces were written with.
const ZSTD_LEVEL: i32 = 3;

/// The suffix of a checkpoint, after its table's name.
const CHECKPOINT: &str = ".footer";

/// A table that is being written. Parquet's index is at the end of a file, so a file without its end is lost. Here the
/// end of the complete part is known after each row group, and the file can be cut back to it: when the disk is full,
/// and, from a checkpoint beside the file, when the writer was killed.
pub(crate) struct TableFile {
    path: PathBuf,
    label: String,
    writer: SerializedFileWriter<Output>,
    /// Bytes and row groups that are complete and were handed to the operating system.
    end: u64,
    groups: usize,
}

impl TableFile {
    /// Starts a table in `path`, which messages call `label`.
    pub(crate) fn create(path: &Path, label: &str, columns: &[ColumnSpec]) -> Result<TableFile, TraceError> {
        TableFile::with_schema(path, label, schema(columns).map_err(|e| unwritable(label, &e))?)
    }

    /// Starts a table of columns that the readers of this crate need not know.
    pub(crate) fn with_schema(path: &Path, label: &str, schema: TypePtr) -> Result<TableFile, TraceError> {
        let file = File::create_new(path).map_err(|e| refused(label, &e))?;
        let start = || {
            let properties = WriterProperties::builder()
                .set_compression(Compression::ZSTD(ZstdLevel::try_new(ZSTD_LEVEL)?))
                // Nearly all values of these columns differ: a dictionary costs time and is given up in the end.
                .set_column_dictionary_enabled("time_ns".into(), false)
                .set_column_dictionary_enabled("pfn".into(), false)
                .set_created_by(concat!("pageyard ", env!("CARGO_PKG_VERSION")).to_owned())
                .build();
            let output = Output { file, failed: false };
            let mut writer = SerializedFileWriter::new(output, schema, Arc::new(properties))?;
            writer.flush()?;
            Ok(writer)
        };
        let writer = start().map_err(|e| unwritable(label, &e))?;
        let end = writer.bytes_written() as u64;
        Ok(TableFile { path: path.to_owned(), label: label.to_owned(), writer, end, groups: 0 })
    }

    /// Writes one row group.
    ///
    /// # Errors
    /// [`TraceError::Unwritable`]; what was complete before stays so.
    pub(crate) fn write(
        &mut self,
        group: impl FnOnce(&mut SerializedFileWriter<Output>) -> Result<(), ParquetError>,
    ) -> Result<(), TraceError> {
        group(&mut self.writer)
            .and_then(|()| Ok(self.writer.flush()?))
            .map_err(|e| unwritable(&self.label, &e))?;
        self.end = self.writer.bytes_written() as u64;
        self.groups = self.writer.flushed_row_groups().len();
        Ok(())
    }

    /// Notes beside the file where its complete row groups end, and `lost`, for [`restore`].
    pub(crate) fn checkpoint(&self, lost: u64) -> Result<(), TraceError> {
        let mut bytes = [self.end, lost].map(u64::to_le_bytes).concat();
        bytes.extend(self.tail()?);
        let path = checkpoint_of(&self.path);
        let fresh = path.with_extension("fresh");
        // Renamed, so that a writer killed here leaves either the old one or the new one.
        fs::write(&fresh, bytes)
            .and_then(|()| fs::rename(&fresh, &path))
            .map_err(|e| refused(&self.label, &e))
    }

    /// Ends the file after its last complete row group.
    ///
    /// # Errors
    /// [`TraceError::Unwritable`].
    pub(crate) fn finish(self) -> Result<(), TraceError> {
        let tail = self.tail()?;
        let TableFile { path, label, writer, end, .. } = self;
        // Its buffer belongs to a row group that was not completed, and is cut off.
        drop(writer);
        end_file(&path, end, &tail).map_err(|e| refused(&label, &e))
    }

    /// Returns the end that makes a Parquet file of the complete row groups.
    fn tail(&self) -> Result<Vec<u8>, TraceError> {
        let groups = self.writer.flushed_row_groups()[..self.groups].to_vec();
        let properties = self.writer.properties();
        let about = FileMetaData::new(
            properties.writer_version().as_num(),
            groups.iter().map(|g| g.num_rows()).sum(),
            Some(properties.created_by().to_owned()),
            None,
            Arc::new(self.writer.schema_descr().clone()),
            None,
        );
        let mut bytes = Vec::new();
        ParquetMetaDataWriter::new(&mut bytes, &ParquetMetaData::new(about, groups))
            .finish()
            .map_err(|e| unwritable(&self.label, &e))?;
        Ok(bytes)
    }
}

/// Ends the table `path`, whose writer was killed, after its last checkpoint, and returns how many events were lost
/// until then. `None` where there is no checkpoint: no row group was complete.
pub(crate) fn restore(path: &Path, label: &str) -> Result<Option<u64>, TraceError> {
    let bytes = match fs::read(checkpoint_of(path)) {
        Ok(bytes) => bytes,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(TraceError::Unreadable { file: label.to_owned(), why: reason(&e) }),
    };
    let damaged =
        |what: &str| TraceError::Damaged { file: label.to_owned(), row: None, what: what.to_owned() };
    let (Some(end), Some(lost), Some(tail)) =
        (bytes.first_chunk(), bytes.get(8..).and_then(|b| b.first_chunk()), bytes.get(16..))
    else {
        return Err(damaged("its checkpoint is cut short"));
    };
    let (end, lost) = (u64::from_le_bytes(*end), u64::from_le_bytes(*lost));
    let len = path
        .metadata()
        .map_err(|e| TraceError::Unreadable { file: label.to_owned(), why: reason(&e) })?
        .len();
    if len < end {
        return Err(damaged("it is shorter than its checkpoint says"));
    }
    end_file(path, end, tail).map_err(|e| refused(label, &e))?;
    Ok(Some(lost))
}

/// Returns where the checkpoint of the table `path` is.
pub(crate) fn checkpoint_of(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(CHECKPOINT);
    name.into()
}

fn end_file(path: &Path, end: u64, tail: &[u8]) -> io::Result<()> {
    let file = File::options().write(true).open(path)?;
    file.set_len(end)?;
    file.write_all_at(tail, end)?;
    file.sync_all()
}

/// A file that accepts nothing more once a write has failed: later data would be in the wrong place.
pub(crate) struct Output {
    file: File,
    failed: bool,
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.failed {
            return Err(io::Error::other("an earlier part could not be written"));
        }
        let result = self.file.write(bytes);
        self.failed = matches!(&result, Err(e) if e.kind() != io::ErrorKind::Interrupted);
        result
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// Makes a reason of what the Parquet library said.
pub(crate) fn unwritable(file: &str, error: &ParquetError) -> TraceError {
    let why = match error {
        ParquetError::External(inner) => match inner.downcast_ref::<io::Error>() {
            Some(e) => reason(e),
            None => error.to_string(),
        },
        _ => error.to_string(),
    };
    TraceError::Unwritable { file: file.to_owned(), why }
}

/// Makes a reason of what the operating system said.
pub(crate) fn refused(file: &str, error: &io::Error) -> TraceError {
    TraceError::Unwritable { file: file.to_owned(), why: reason(error) }
}

pub(crate) fn schema(columns: &[ColumnSpec]) -> Result<TypePtr, ParquetError> {
    let mut fields = Vec::with_capacity(columns.len());
    for column in columns {
        let (physical, logical) = match column.kind {
            Kind::Int(bits, signed) => {
                let physical = if bits == 64 { Physical::INT64 } else { Physical::INT32 };
                (physical, Some(LogicalType::integer(bits as i8, signed)))
            }
            Kind::Bool => (Physical::BOOLEAN, None),
            Kind::Names(_) => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
        };
        let leaf = Type::primitive_type_builder(column.name, physical)
            .with_repetition(Repetition::REQUIRED)
            .with_logical_type(logical)
            .build()?;
        fields.push(Arc::new(leaf));
    }
    Ok(Arc::new(Type::group_type_builder("schema").with_fields(fields).build()?))
}

/// Writes the next column of a row group.
pub(crate) fn column<T: DataType>(
    group: &mut SerializedRowGroupWriter<'_, impl Write + Send>,
    values: &[T::T],
) -> Result<(), ParquetError> {
    next_column::<T>(group, values, None)
}

/// Writes the next column of a row group, an optional one: `known` has a 1 for each row with a value and a 0 for each
/// other row.
pub(crate) fn column_where_known<T: DataType>(
    group: &mut SerializedRowGroupWriter<'_, impl Write + Send>,
    values: &[T::T],
    known: &[i16],
) -> Result<(), ParquetError> {
    next_column::<T>(group, values, Some(known))
}

fn next_column<T: DataType>(
    group: &mut SerializedRowGroupWriter<'_, impl Write + Send>,
    values: &[T::T],
    known: Option<&[i16]>,
) -> Result<(), ParquetError> {
    let missing = || ParquetError::General("the schema has fewer columns than the data".to_owned());
    let mut writer = group.next_column()?.ok_or_else(missing)?;
    writer.typed::<T>().write_batch(values, known, None)?;
    writer.close()
}
