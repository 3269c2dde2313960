//! Writing a trace.

use std::fs::{self, File};
use std::io::{BufWriter, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parquet::basic::{Compression, LogicalType, Repetition, Type as Physical, ZstdLevel};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DataType, Int32Type, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::types::{Type, TypePtr};

use crate::checksum;
use crate::error::TraceError;
use crate::event::{Columns, Event, EventKind};
use crate::meta::Meta;
use crate::moves::MOVES;
use crate::pq::{ColumnSpec, Kind};
use crate::reader::{event_columns, impossible};
use crate::snapshot::{FrameKind, MAX_FRAMES, Snapshot};
use crate::source::{Source, reason};
use crate::trace::{AFTER, BEFORE, EVENTS, META, Trace};

/// Events in a row group: they wait in memory until it is full, about 10 MiB.
const GROUP_ROWS: usize = 256 << 10;

/// Zstandard's own default, the balance of size and speed that the shipped traces were written with.
const ZSTD_LEVEL: i32 = 3;

/// Writes a trace, event by event.
///
/// Everything goes to a temporary folder beside the final one, which takes its name only when the trace is complete: a
/// folder that looks like a trace is one. A writer dropped before [`TraceWriter::finish`] leaves nothing behind.
pub struct TraceWriter {
    path: PathBuf,
    temporary: Temporary,
    file: SerializedFileWriter<BufWriter<File>>,
    waiting: Vec<Event>,
    rows: u64,
    last_time: u64,
    /// The largest CPU number and the highest frame that events named, checked at the end.
    last_cpu: u32,
    frames_end: u64,
}

/// A folder that is removed when it is dropped.
struct Temporary(PathBuf);

impl Drop for Temporary {
    fn drop(&mut self) {
        // Nobody can be told here, and after a successful rename there is nothing to remove.
        let _ = fs::remove_dir_all(&self.0);
    }
}

impl TraceWriter {
    /// Starts a trace that will be the folder `path`.
    ///
    /// # Errors
    /// [`TraceError::Exists`] when something is there already; [`TraceError::Unwritable`].
    pub fn create(path: &Path) -> Result<TraceWriter, TraceError> {
        let exists = || TraceError::Exists { path: path.display().to_string() };
        if path.symlink_metadata().is_ok() {
            return Err(exists());
        }
        let (Some(name), Some(parent)) = (path.file_name(), path.parent()) else { return Err(exists()) };
        let hidden = format!(".{}.{}.partial", name.to_string_lossy(), std::process::id());
        let folder = parent.join(hidden);
        match fs::create_dir(&folder) {
            Ok(()) => {}
            Err(e) if e.kind() == ErrorKind::AlreadyExists => {
                return Err(TraceError::Exists { path: folder.display().to_string() });
            }
            Err(e) => {
                return Err(TraceError::Unwritable { file: path.display().to_string(), why: reason(&e) });
            }
        }
        let temporary = Temporary(folder);
        let file = open(&temporary.0.join(EVENTS), &event_columns(Columns::All))?;
        Ok(TraceWriter {
            path: path.to_owned(),
            temporary,
            file,
            waiting: Vec::new(),
            rows: 0,
            last_time: 0,
            last_cpu: 0,
            frames_end: 0,
        })
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
        if self.waiting.len() == GROUP_ROWS {
            self.flush()?;
        }
        Ok(())
    }

    /// Completes the trace and opens it. `meta.events` is set to the number of events pushed, and `meta.checksums` to those
    /// of the files.
    ///
    /// # Errors
    /// [`TraceError::Inconsistent`] when events name CPUs or frames that `meta` or `before` do not have, or a picture's
    /// runs overlap; [`TraceError::Unwritable`]; [`TraceError::Exists`] when the name was taken meanwhile.
    pub fn finish(
        mut self,
        mut meta: Meta,
        before: Option<&Snapshot>,
        after: Option<&Snapshot>,
    ) -> Result<Trace, TraceError> {
        let inconsistent =
            |file: String, what: String| Err(TraceError::Inconsistent { file, row: None, what });
        meta.events = Some(self.rows);
        meta.check(&self.label(META))?;
        if self.rows > 0 && self.last_cpu >= meta.cpus {
            let what =
                format!("events name CPU {}, and the description has {} CPUs", self.last_cpu, meta.cpus);
            return inconsistent(self.label(META), what);
        }
        let end = before.map_or(MAX_FRAMES, Snapshot::end);
        if self.frames_end > end {
            let what =
                format!("events name frames up to {}, and memory ends at frame {end}", self.frames_end);
            return inconsistent(self.label(BEFORE), what);
        }
        if !self.waiting.is_empty() {
            self.flush()?;
        }
        let label = self.label(EVENTS);
        let events = self.file.into_inner().map_err(|e| unwritable(&label, &e))?;
        sync(events, &label)?;
        for (name, snapshot) in [(BEFORE, before), (AFTER, after)] {
            if let Some(snapshot) = snapshot {
                write_snapshot(&self.temporary.0.join(name), &join(&self.path, name), snapshot)?;
            }
        }
        let source = Source::Folder(self.temporary.0.clone());
        for name in [EVENTS, MOVES, BEFORE, AFTER] {
            if let Some(input) = source.open(name)? {
                meta.checksums.insert(name.to_owned(), checksum::of(&input)?);
            }
        }
        let label = join(&self.path, META);
        let text = serde_json::to_vec_pretty(&meta)
            .map_err(|e| TraceError::Unwritable { file: label.clone(), why: e.to_string() })?;
        fs::write(self.temporary.0.join(META), text)
            .map_err(|e| TraceError::Unwritable { file: label, why: reason(&e) })?;
        // A rename would replace an empty folder.
        if self.path.symlink_metadata().is_ok() {
            return Err(TraceError::Exists { path: self.path.display().to_string() });
        }
        fs::rename(&self.temporary.0, &self.path)
            .map_err(|e| TraceError::Unwritable { file: self.path.display().to_string(), why: reason(&e) })?;
        Trace::open(&self.path)
    }

    /// Returns what messages call the file `name`.
    pub(crate) fn label(&self, name: &str) -> String {
        join(&self.path, name)
    }

    /// Returns the folder in which the trace is made.
    pub(crate) fn folder(&self) -> &Path {
        &self.temporary.0
    }

    fn flush(&mut self) -> Result<(), TraceError> {
        let label = self.label(EVENTS);
        write_events(&mut self.file, &self.waiting).map_err(|e| unwritable(&label, &e))?;
        self.waiting.clear();
        Ok(())
    }
}

fn join(folder: &Path, name: &str) -> String {
    folder.join(name).display().to_string()
}

pub(crate) fn unwritable(file: &str, error: &ParquetError) -> TraceError {
    TraceError::Unwritable { file: file.to_owned(), why: error.to_string() }
}

pub(crate) fn sync(file: BufWriter<File>, label: &str) -> Result<(), TraceError> {
    let unwritable = |e: std::io::Error| TraceError::Unwritable { file: label.to_owned(), why: reason(&e) };
    file.into_inner().map_err(|e| unwritable(e.into_error()))?.sync_all().map_err(unwritable)
}

/// Starts a Parquet file with the columns that the reader expects.
pub(crate) fn open(
    path: &Path,
    columns: &[ColumnSpec],
) -> Result<SerializedFileWriter<BufWriter<File>>, TraceError> {
    let label = path.display().to_string();
    let file = File::create_new(path)
        .map_err(|e| TraceError::Unwritable { file: label.clone(), why: reason(&e) })?;
    let start = || {
        let level = ZstdLevel::try_new(ZSTD_LEVEL)?;
        let properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(level))
            // Nearly every value of these is another: a dictionary of them costs time and is given up in the end.
            .set_column_dictionary_enabled("time_ns".into(), false)
            .set_column_dictionary_enabled("pfn".into(), false)
            .set_created_by(concat!("pageyard ", env!("CARGO_PKG_VERSION")).to_owned())
            .build();
        SerializedFileWriter::new(BufWriter::new(file), schema(columns)?, Arc::new(properties))
    };
    start().map_err(|e| unwritable(&label, &e))
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

pub(crate) type Group<'a> = SerializedRowGroupWriter<'a, BufWriter<File>>;

pub(crate) fn column<T: DataType>(group: &mut Group<'_>, values: &[T::T]) -> Result<(), ParquetError> {
    let missing = || ParquetError::General("the schema has fewer columns than the data".to_owned());
    let mut writer = group.next_column()?.ok_or_else(missing)?;
    writer.typed::<T>().write_batch(values, None, None)?;
    writer.close()
}

/// Writes one row group. The columns are in the order of [`event_columns`].
pub(crate) fn write_events(
    file: &mut SerializedFileWriter<BufWriter<File>>,
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

fn write_snapshot(path: &Path, label: &str, snapshot: &Snapshot) -> Result<(), TraceError> {
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
    let mut file = open(path, &Snapshot::columns())?;
    let mut write = || {
        let kinds = FrameKind::ALL.map(|k| ByteArray::from(k.name()));
        for runs in snapshot.runs.chunks(GROUP_ROWS) {
            let mut group = file.next_row_group()?;
            column::<Int64Type>(&mut group, &runs.iter().map(|r| r.pfn as i64).collect::<Vec<_>>())?;
            column::<Int64Type>(&mut group, &runs.iter().map(|r| r.frames as i64).collect::<Vec<_>>())?;
            let names: Vec<_> = runs.iter().map(|r| kinds[r.kind.index()].clone()).collect();
            column::<ByteArrayType>(&mut group, &names)?;
            column::<BoolType>(&mut group, &runs.iter().map(|r| r.thp).collect::<Vec<_>>())?;
            column::<BoolType>(&mut group, &runs.iter().map(|r| r.unevictable).collect::<Vec<_>>())?;
            group.close()?;
        }
        Ok(())
    };
    write().map_err(|e: ParquetError| unwritable(label, &e))?;
    sync(file.into_inner().map_err(|e| unwritable(label, &e))?, label)
}
