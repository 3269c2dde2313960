//! Importing what `perf record`, trace-cmd, Perfetto or LLFree's tracer wrote.
//!
//! Each has a reader of its own for its container; what they have in common are the kernel's events, in order, and the
//! kernel's description of them.

mod cursor;
mod document;
mod kernel;
pub(crate) mod llfree;
#[cfg(any(test, feature = "hostile"))]
pub(crate) mod made;
mod perf;
pub(crate) mod perfetto;
mod records;
mod section;
#[cfg(test)]
mod tests;
mod text;
pub(crate) mod tracecmd;
mod tracing;
mod unpack;

pub use document::ImportDocument;
pub use kernel::Recorder;

use std::path::Path;
use std::time::Instant;

use crate::tracepoint::{Decoder, Entry, Sink, Skipped, Sorter, gfp_bits};
use pageyard_trace::EventKind;
use pageyard_trace::MAX_FRAMES;
use pageyard_trace::Meta;
use pageyard_trace::MovesWriter;
use pageyard_trace::Trace;
use pageyard_trace::TraceError;
use pageyard_trace::TraceWriter;
use pageyard_trace::source::Source;
use pageyard_trace::text::grouped;

use kernel::Kernel;
use llfree::LlfreeRecords;
use pageyard_trace::source::Input;
use perf::{Container, PerfRecords};
use perfetto::PerfettoRecords;
use records::{Record, Records, Sample};
use tracecmd::{TraceCmdRecords, TraceDat};

/// Batches of entries that may wait to be written.
const AHEAD: usize = 8;

/// The totals of an import.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Imported {
    /// Who wrote the file.
    pub recorder: Recorder,
    /// Rows of the trace by [`EventKind`].
    pub by_kind: [u64; EventKind::ALL.len()],
    /// Samples of events that a trace does not hold.
    pub other_events: u64,
    /// Impossible samples, such as an order above 10.
    pub impossible: u64,
    /// Events that the recorder or its kernel lost.
    pub lost: u64,
    /// Events that came too late to be sorted in; they carry their successors' time.
    pub late: u64,
    /// Rows about compaction and migration.
    pub moves: u64,
    /// How many of those name both frames of a move.
    pub moved: u64,
    /// Bytes of the file.
    pub bytes: u64,
    /// How long it took.
    pub seconds: f64,
}

impl Imported {
    /// Returns the number of rows of `events.parquet`.
    #[must_use]
    pub fn events(&self) -> u64 {
        self.by_kind.iter().sum()
    }

    /// Returns the events by second of the import.
    #[must_use]
    pub fn events_per_s(&self) -> f64 {
        self.events() as f64 / self.seconds.max(1e-9)
    }
}

/// Allocations above which the share of frees is meaningful.
const ENOUGH: u64 = 1000;

/// The most allocations for each free. A host that fills its memory has two or three.
const MOST_FOR_A_FREE: u64 = 10;

impl Imported {
    /// Warns where there are too few frees for a recording of a whole host, and says what to do.
    #[must_use]
    pub fn warning(&self) -> Option<String> {
        let [allocs, frees] = [EventKind::Alloc, EventKind::Free].map(|kind| self.by_kind[kind.index()]);
        // A trace of LLFree begins with all memory free, and is of every CPU: memory may just fill up.
        let can_be_of_one = self.recorder != Recorder::Llfree;
        (can_be_of_one && allocs >= ENOUGH && allocs / MOST_FOR_A_FREE > frees).then(|| {
            format!(
                "{} allocations and only {} frees: {} seems to have followed one command, whose frames are freed \
                 elsewhere too, and a replay will run out of memory; record all CPUs{}",
                grouped(allocs),
                grouped(frees),
                self.recorder,
                if self.recorder == Recorder::Perf { ", with `perf record -a`" } else { "" }
            )
        })
    }
}

/// Makes the trace `output` from the file `input`, which `perf record`, trace-cmd, Perfetto or LLFree's tracer wrote;
/// its first bytes say which. `progress` is called now and then with the bytes done and all of them.
///
/// Memory is bounded whatever the file's size; a file whose events are not nearly in order takes 48 bytes an event on
/// the output's disk while it is sorted.
///
/// # Errors
/// When the file is of none of them, is damaged, or lacks what a trace needs; when the trace cannot be written. Nothing
/// is left behind then.
pub fn import(
    input: &Path,
    output: &Path,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<(Trace, Imported), TraceError> {
    let unreadable =
        |why: &str| TraceError::Unreadable { file: input.display().to_string(), why: why.to_owned() };
    let name = input
        .file_name()
        .and_then(|n| n.to_str())
        .ok_or_else(|| unreadable("its name cannot be one of a file"))?;
    let folder = Source::Folder(input.parent().unwrap_or(Path::new("")).to_owned());
    let input = folder.open(name)?.ok_or_else(|| unreadable("there is no such file"))?;
    read(&input, &mut Written { output, progress })
}

/// A use of a file's records, whichever recorder wrote it.
trait Use {
    type Made;

    fn use_up(
        &mut self,
        input: &Input,
        recorder: Recorder,
        records: impl Records,
    ) -> Result<Self::Made, TraceError>;
}

/// Opens a file and has its records used.
fn read<U: Use>(input: &Input, how: &mut U) -> Result<U::Made, TraceError> {
    let start = start(input)?;
    match recorder(input, &start)? {
        Recorder::Perf => {
            let container = Container::open(input)?;
            how.use_up(input, Recorder::Perf, PerfRecords::new(input, &container))
        }
        Recorder::TraceCmd => {
            let file = TraceDat::open(input)?;
            how.use_up(input, Recorder::TraceCmd, TraceCmdRecords::new(input, &file))
        }
        Recorder::Perfetto => how.use_up(input, Recorder::Perfetto, PerfettoRecords::new(input)?),
        Recorder::Llfree => how.use_up(input, Recorder::Llfree, LlfreeRecords::new(input, &start)?),
    }
}

/// Bytes by which a file is recognised.
const START: usize = 16;

/// Reads a file's first bytes.
fn start(input: &Input) -> Result<[u8; START], TraceError> {
    if input.size() < START as u64 {
        let what = format!("{} bytes are too few for a file of {RECORDERS}", input.size());
        return Err(TraceError::Damaged { file: input.label().to_owned(), row: None, what });
    }
    let bytes = input.read(0, START)?;
    Ok(std::array::from_fn(|i| bytes[i]))
}

/// Tells by a file's first bytes who wrote it.
fn recorder(input: &Input, start: &[u8; START]) -> Result<Recorder, TraceError> {
    match &start[..] {
        start if start.starts_with(tracing::MAGIC) => Ok(Recorder::TraceCmd),
        [b'P' | b'2', b'E', b'R' | b'L', b'F' | b'I', ..] => Ok(Recorder::Perf),
        // Before Perfetto: the number that LLFree's begin with may begin as those do.
        _ if llfree::looks_like(start) => Ok(Recorder::Llfree),
        // The first field of a packet's sequence: a packet.
        [0x0a, ..] => Ok(Recorder::Perfetto),
        _ => {
            let what = format!("this is not a file of {RECORDERS}");
            Err(TraceError::Damaged { file: input.label().to_owned(), row: None, what })
        }
    }
}

/// The recorders whose files are read.
const RECORDERS: &str = "`perf record`, trace-cmd, Perfetto or LLFree";

/// Makes a trace.
struct Written<'a> {
    output: &'a Path,
    progress: &'a mut dyn FnMut(u64, u64),
}

impl Use for Written<'_> {
    type Made = (Trace, Imported);

    fn use_up(
        &mut self,
        input: &Input,
        recorder: Recorder,
        mut records: impl Records,
    ) -> Result<(Trace, Imported), TraceError> {
        let started = Instant::now();
        let writer = TraceWriter::create(self.output)?;
        let scratch = writer.folder().to_owned();
        let mut sink = Sink::start(writer, MovesWriter::default(), None, MAX_FRAMES, AHEAD, || ())?;
        let mut import = Import::new(recorder, records.kernel());
        let mut sorter = Sorter::new();
        let mut shown = 0;
        loop {
            if sink.has_failed() {
                break;
            }
            match records.next()? {
                None => break,
                Some(Record::Sample(sample)) => {
                    if let Some(entry) = import.sample(&sample) {
                        sorter.push(entry);
                    }
                }
                Some(Record::EndOfRound) => sorter.end_round(&mut |entries| sink.send(entries)),
                Some(Record::Lost(n)) => import.lost += n,
                Some(Record::LostSamples(n)) => import.lost_samples += n,
                Some(Record::Skipped) => import.counted.other_events += 1,
            }
            if sorter.is_full() {
                sorter.relieve(&scratch, &mut |entries| sink.send(entries))?;
            }
            if records.done() - shown >= 1 << 20 {
                shown = records.done();
                (self.progress)(shown, records.all());
            }
        }
        import.check(input)?;
        if !sink.has_failed() {
            sorter.finish(&mut |entries| sink.send(entries))?;
        }
        let written = sink.finish()?;
        let kernel = records.kernel();
        let cpus = import.cpus(kernel);
        let mut counted = import.counted;
        let mut meta = Meta::new(cpus);
        meta.kernel = kernel.name.clone();
        meta.lost = import.lost.max(import.lost_samples);
        meta.duration_ns = written.last_ns;
        meta.gfp_bits = gfp_bits(&kernel.alloc_print);
        meta.memory_end = kernel.memory_end;
        counted.lost = meta.lost;
        counted.late = sorter.late();
        (counted.moves, counted.moved) = (written.moves.rows(), written.moves.moved());
        counted.impossible += written.moves.refused();
        counted.bytes = input.size();
        written.moves.finish(&written.writer, false)?;
        let trace = written.writer.finish(meta, None, None)?;
        counted.seconds = started.elapsed().as_secs_f64();
        Ok((trace, counted))
    }
}

/// Reads a file to its end without writing anything, so that hostile input can be tried quickly.
#[cfg(any(test, feature = "hostile"))]
pub(crate) fn read_only(input: &Input) -> Result<Imported, TraceError> {
    struct Nothing;

    impl Use for Nothing {
        type Made = Imported;

        fn use_up(
            &mut self,
            input: &Input,
            recorder: Recorder,
            mut records: impl Records,
        ) -> Result<Imported, TraceError> {
            let mut import = Import::new(recorder, records.kernel());
            let mut sorter = Sorter::new();
            while let Some(record) = records.next()? {
                match record {
                    Record::Sample(sample) => {
                        if let Some(entry) = import.sample(&sample) {
                            sorter.push(entry);
                        }
                    }
                    Record::EndOfRound => sorter.end_round(&mut |_| {}),
                    _ => {}
                }
            }
            import.check(input)?;
            sorter.finish(&mut |_| {})?;
            drop(gfp_bits(&records.kernel().alloc_print));
            Ok(import.counted)
        }
    }

    read(input, &mut Nothing)
}

/// The state of an import so far.
struct Import {
    decoder: Decoder,
    counted: Imported,
    lost: u64,
    lost_samples: u64,
    last_cpu: u32,
    x86_64: bool,
}

impl Import {
    fn new(recorder: Recorder, kernel: &Kernel) -> Import {
        let counted = Imported {
            recorder,
            by_kind: [0; EventKind::ALL.len()],
            other_events: 0,
            impossible: 0,
            lost: 0,
            late: 0,
            moves: 0,
            moved: 0,
            bytes: 0,
            seconds: 0.0,
        };
        Import {
            decoder: kernel.decoder(),
            counted,
            lost: 0,
            lost_samples: 0,
            last_cpu: 0,
            x86_64: kernel.x86_64,
        }
    }

    #[inline]
    fn sample(&mut self, sample: &Sample<'_>) -> Option<Entry> {
        match self.decoder.decode(sample.raw, sample.time, sample.cpu) {
            // How a migration entry names its frame is known for one kind of machine.
            Ok(entry) if entry.names_mapping() && !self.x86_64 => {
                self.counted.other_events += 1;
                None
            }
            Ok(entry) => {
                self.last_cpu = self.last_cpu.max(sample.cpu);
                if let Some(n) = self.counted.by_kind.get_mut(entry.known as usize) {
                    *n += 1;
                }
                Some(entry)
            }
            Err(Skipped::Other) => {
                self.counted.other_events += 1;
                None
            }
            Err(Skipped::Impossible) => {
                self.counted.impossible += 1;
                None
            }
        }
    }

    /// Refuses a file that has neither an allocation nor a free.
    fn check(&self, input: &Input) -> Result<(), TraceError> {
        let [allocs, frees] =
            [EventKind::Alloc, EventKind::Free].map(|kind| self.counted.by_kind[kind.index()]);
        if allocs + frees > 0 || self.counted.recorder == Recorder::Perf {
            return Ok(());
        }
        let what = format!("it has no event of an allocation or a free: {}", self.counted.recorder.how_to());
        Err(TraceError::Unsupported { file: input.label().to_owned(), what })
    }

    /// Returns how many CPUs the host had: what the file says, or as many as its events name.
    fn cpus(&self, kernel: &Kernel) -> u32 {
        kernel.cpus.max(self.last_cpu + 1)
    }
}
