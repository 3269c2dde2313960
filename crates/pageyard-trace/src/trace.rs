//! A trace: its files, and what `meta.json` says of them.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use crate::checksum;
use crate::error::TraceError;
use crate::event::Columns;
use crate::free_lists::{FREE_LISTS, FreeBlock};
use crate::meta::Meta;
use crate::moves::{MOVES, MoveReader};
use crate::pq::Table;
use crate::proctext::Buddyinfo;
use crate::reader::{EventReader, event_columns};
use crate::samples::{SAMPLES, SampleReader};
use crate::snapshot::Snapshot;
use crate::source::{Input, Source, reason};
use crate::text::shown;
use crate::thread_names::{THREAD_NAMES, ThreadNames};

/// The file that holds the events.
pub(crate) const EVENTS: &str = "events.parquet";
/// The file that holds the memory map when the recording started.
pub(crate) const BEFORE: &str = "before.parquet";
/// The file that holds the memory map when it ended.
pub(crate) const AFTER: &str = "after.parquet";
/// The suffix of an unfinished trace's name.
pub(crate) const PARTIAL: &str = ".partial";
/// The file that describes the trace.
pub(crate) const META: &str = "meta.json";

/// A trace, opened for reading. Clones are cheap and share what was read.
#[derive(Clone, Debug)]
pub struct Trace {
    inner: Arc<Inner>,
    /// Whether a replay leaves out what the recorder asked for.
    without_recorder: bool,
}

#[derive(Debug)]
struct Inner {
    name: String,
    source: Source,
    meta: Meta,
    /// The end of the memory map, read once.
    memory_end: OnceLock<Option<u64>>,
    /// The files whose checksums were correct, so that each is read for that only once.
    sound: Mutex<BTreeSet<&'static str>>,
}

impl Trace {
    /// Opens the trace in the folder `path`, conventionally called `NAME.trace`.
    ///
    /// # Errors
    /// Any [`TraceError`] about the folder or its `meta.json`. The other files are looked at when they are read.
    pub fn open(path: &Path) -> Result<Trace, TraceError> {
        let not_a_trace =
            |why: &str| TraceError::NotATrace { path: path.display().to_string(), why: why.to_owned() };
        match path.metadata() {
            Ok(found) if found.is_dir() => {}
            Ok(_) => {
                return Err(not_a_trace(
                    "it is a file, and a trace is a folder with events.parquet and meta.json in it",
                ));
            }
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                return Err(not_a_trace("there is no such folder"));
            }
            Err(e) => return Err(not_a_trace(&reason(&e))),
        }
        if path.as_os_str().as_encoded_bytes().ends_with(PARTIAL.as_bytes()) {
            let path = path.display().to_string();
            return Err(not_a_trace(&format!(
                "it is not finished; if its recording was killed, `pageyard import {}` makes a trace of it",
                shown(&path)
            )));
        }
        // By the real path, so that `.` and a trailing slash have a name too.
        let full = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let name = full.file_name().map_or_else(|| "trace".to_owned(), |n| n.to_string_lossy().into_owned());
        let name = shown(name.strip_suffix(".trace").unwrap_or(&name));
        Trace::from_source(name, Source::Folder(path.to_owned()), &path.display().to_string())
    }

    /// Opens the folder of an unfinished trace once its tables are finished.
    pub(crate) fn unfinished(path: &Path) -> Result<Trace, TraceError> {
        Trace::from_source(
            "unfinished".to_owned(),
            Source::Folder(path.to_owned()),
            &path.display().to_string(),
        )
    }

    /// Opens a trace whose files, by their names, are part of the program.
    ///
    /// # Errors
    /// As [`Trace::open`].
    pub fn embedded(
        name: &'static str,
        files: &'static [(&'static str, &'static [u8])],
    ) -> Result<Trace, TraceError> {
        Trace::from_source(name.to_owned(), Source::Embedded(name, files), name)
    }

    fn from_source(name: String, source: Source, path: &str) -> Result<Trace, TraceError> {
        let not_a_trace = |why: &str| TraceError::NotATrace { path: path.to_owned(), why: why.to_owned() };
        let meta = source.open(META)?;
        let events = source.open(EVENTS)?;
        match (meta, events) {
            (Some(meta), Some(_)) => {
                let meta = Meta::read(&meta)?;
                Ok(Trace {
                    inner: Arc::new(Inner {
                        name,
                        source,
                        meta,
                        memory_end: OnceLock::new(),
                        sound: Mutex::default(),
                    }),
                    without_recorder: false,
                })
            }
            (Some(_), None) => Err(not_a_trace("events.parquet is missing")),
            (None, Some(_)) => Err(not_a_trace("meta.json is missing")),
            (None, None) => Err(not_a_trace("it holds neither events.parquet nor meta.json")),
        }
    }

    /// Returns the trace's name: its folder's, without `.trace`, made safe to display.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.inner.name
    }

    /// Returns this trace with what the recorder itself asked for left out of replays. The readers of its files still
    /// return every row.
    #[must_use]
    pub fn without_recorder(&self) -> Trace {
        Trace { without_recorder: true, ..self.clone() }
    }

    /// Returns the threads whose requests a replay leaves out, by their numbers in the events: the recorder's after
    /// [`Trace::without_recorder`], and otherwise none.
    #[must_use]
    pub fn left_out_threads(&self) -> &[u32] {
        if self.without_recorder { &self.inner.meta.recorder_threads } else { &[] }
    }

    /// Returns what `meta.json` says.
    #[must_use]
    pub fn meta(&self) -> &Meta {
        &self.inner.meta
    }

    /// Reads the memory map when the recording started, if the trace has one.
    ///
    /// # Errors
    /// When the file is there but damaged or inconsistent.
    pub fn before(&self) -> Result<Option<Snapshot>, TraceError> {
        let before = self.snapshot(BEFORE)?;
        // Kept for the events, so that they do not read it again.
        _ = self.inner.memory_end.set(self.end_with(before.as_ref()));
        Ok(before)
    }

    /// Reads the memory map when the recording ended, if the trace has one.
    ///
    /// # Errors
    /// When the file is there but damaged or inconsistent.
    pub fn after(&self) -> Result<Option<Snapshot>, TraceError> {
        self.snapshot(AFTER)
    }

    /// Starts reading what compaction and migration did, if the trace records it.
    ///
    /// # Errors
    /// When the file is there and its footer or its columns are not those of a trace.
    pub fn moves(&self) -> Result<Option<MoveReader>, TraceError> {
        let input = self.open_checked(MOVES)?;
        input.map(|input| MoveReader::open(input, self.inner.meta.cpus)).transpose()
    }

    /// Starts reading the samples of the host, if the trace has them.
    ///
    /// # Errors
    /// When the file is there and its footer or its columns are not those of a trace, or when the `buddyinfo` from
    /// before the recording, whose zones are those of the samples, cannot be read.
    pub fn samples(&self) -> Result<Option<SampleReader>, TraceError> {
        let Some(input) = self.open_checked(SAMPLES)? else { return Ok(None) };
        let meta = &self.inner.meta;
        let text = meta.before.as_ref().map(|texts| texts.buddyinfo.as_str()).filter(|text| !text.is_empty());
        let host = text.map(Buddyinfo::parse).transpose()?;
        let zones = host.map(|host| host.zones.into_iter().map(|z| (z.node, z.name)).collect());
        SampleReader::open(input, meta.cpus, zones).map(Some)
    }

    /// Reads the free lists and per-CPU lists in their order when the recording started, if the trace has them.
    ///
    /// # Errors
    /// When the file is there but damaged or inconsistent.
    pub fn free_lists(&self) -> Result<Option<Vec<FreeBlock>>, TraceError> {
        self.open_checked(FREE_LISTS)?.map(FreeBlock::read).transpose()
    }

    /// Reads the names of threads; none where the recording was not asked to keep them.
    ///
    /// # Errors
    /// When the file is there but damaged.
    pub fn thread_names(&self) -> Result<ThreadNames, TraceError> {
        let names =
            self.inner.source.open(THREAD_NAMES)?.map(|input| ThreadNames::read(&input)).transpose()?;
        Ok(names.unwrap_or_default())
    }

    fn snapshot(&self, file: &'static str) -> Result<Option<Snapshot>, TraceError> {
        self.open_checked(file)?.map(Snapshot::read).transpose()
    }

    /// Returns the number of events, from the end of `events.parquet`.
    ///
    /// # Errors
    /// When the file's footer or its columns are not those of a trace.
    pub fn rows(&self) -> Result<u64, TraceError> {
        let input = self.inner.source.open(EVENTS)?.ok_or_else(|| self.gone(EVENTS))?;
        Ok(Table::open(input, event_columns(Columns::All))?.rows())
    }

    /// Starts reading the events. Where `meta.json` has a checksum of them, the whole file is read for it first, once.
    ///
    /// # Errors
    /// When the file's footer or its columns are not those of a trace, or `before.parquet` is damaged: its end is the
    /// bound of the events' frame numbers.
    pub fn events(&self, columns: Columns) -> Result<EventReader, TraceError> {
        let input = self.open_checked(EVENTS)?.ok_or_else(|| self.gone(EVENTS))?;
        let table = Table::open(input, event_columns(columns))?;
        EventReader::new(table, columns, &self.inner.meta, self.memory_end()?)
    }

    /// Returns the first frame number past memory, if the trace says: by its snapshot, or else by its description.
    ///
    /// # Errors
    /// When `before.parquet` is there but damaged or inconsistent.
    pub fn memory_end(&self) -> Result<Option<u64>, TraceError> {
        if let Some(end) = self.inner.memory_end.get() {
            return Ok(*end);
        }
        Ok(self.end_with(self.before()?.as_ref()))
    }

    fn end_with(&self, before: Option<&Snapshot>) -> Option<u64> {
        before.map(Snapshot::end).or(self.inner.meta.memory_end)
    }

    /// Returns what messages call the file that describes the trace.
    pub(crate) fn meta_label(&self) -> String {
        self.inner.source.label(META)
    }

    /// Opens a file and, the first time, checks it against its checksum, where the trace has one.
    fn open_checked(&self, file: &'static str) -> Result<Option<Input>, TraceError> {
        let input = self.inner.source.open(file)?;
        let Some(expected) = self.inner.meta.checksums.get(file) else { return Ok(input) };
        let input = input.ok_or_else(|| TraceError::Inconsistent {
            file: self.meta_label(),
            row: None,
            what: format!("it has a checksum of {file}, which is missing: copy the trace again"),
        })?;
        let sound = || self.inner.sound.lock().unwrap_or_else(PoisonError::into_inner);
        if !sound().contains(file) {
            checksum::check(&input, expected)?;
            sound().insert(file);
        }
        Ok(Some(input))
    }

    fn gone(&self, file: &str) -> TraceError {
        TraceError::Unreadable {
            file: self.inner.source.label(file),
            why: "it existed a moment ago and is gone now".to_owned(),
        }
    }
}
