//! Importing what `perf record` wrote.
//!
//! The container is read here, piece by piece, with the attributes' meaning from the `linux-perf-event-reader` crate.
//! The existing readers of whole files allocate memory for whatever a file claims, and hold two rounds of records at
//! once; a file from another host can have any size, and can be corrupt.

mod attributes;
mod container;
mod document;
#[cfg(any(test, feature = "hostile"))]
pub(crate) mod made;
mod records;
mod section;
#[cfg(test)]
mod tests;
mod text;
mod tracing;

pub use document::ImportDocument;

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

use attributes::Sample;
use container::Container;
use records::{Record, Records};

/// Batches of entries that may wait to be written.
const AHEAD: usize = 8;

/// What an import did.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Imported {
    /// Rows of the trace by [`EventKind`].
    pub by_kind: [u64; EventKind::ALL.len()],
    /// Samples of events that a trace does not hold.
    pub other_events: u64,
    /// Impossible samples, such as an order above 10.
    pub impossible: u64,
    /// Events that `perf` lost.
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
        (allocs >= ENOUGH && allocs / MOST_FOR_A_FREE > frees).then(|| {
            format!(
                "{} allocations and only {} frees: perf seems to have followed one command, whose frames are freed \
                 elsewhere too, and a replay will run out of memory; record all CPUs, with `perf record -a`",
                grouped(allocs),
                grouped(frees)
            )
        })
    }
}

/// Makes the trace `output` from the file `input`, which `perf record` wrote. `progress` is called now and then with
/// the bytes done and all of them.
///
/// Memory is bounded whatever the file's size; a file whose events are not nearly in order takes 48 bytes an event on the
/// output's disk while it is sorted.
///
/// # Errors
/// When the file is not one of `perf record`, is damaged, or lacks what a trace needs; when the trace cannot be written.
/// Nothing is left behind then.
pub fn import(
    input: &Path,
    output: &Path,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<(Trace, Imported), TraceError> {
    let started = Instant::now();
    let unreadable =
        |why: &str| TraceError::Unreadable { file: input.display().to_string(), why: why.to_owned() };
    let name = input
        .file_name()
        .and_then(|n| n.to_str())
        .ok_or_else(|| unreadable("its name cannot be one of a file"))?;
    let folder = Source::Folder(input.parent().unwrap_or(Path::new("")).to_owned());
    let input = folder.open(name)?.ok_or_else(|| unreadable("there is no such file"))?;
    let container = Container::open(&input)?;
    let writer = TraceWriter::create(output)?;
    let scratch = writer.folder().to_owned();
    let mut sink = Sink::start(writer, MovesWriter::default(), None, MAX_FRAMES, AHEAD, || ())?;
    let mut import = Import::new(&container);
    let mut sorter = Sorter::new();
    let mut records = Records::new(&input, &container);
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
            progress(shown, records.all());
        }
    }
    if !sink.has_failed() {
        sorter.finish(&mut |entries| sink.send(entries))?;
    }
    let written = sink.finish()?;
    let cpus = import.cpus(&container);
    let mut counted = import.counted;
    let mut meta = Meta::new(cpus);
    meta.kernel = container.kernel.clone();
    meta.lost = import.lost.max(import.lost_samples);
    meta.duration_ns = written.last_ns;
    meta.gfp_bits = gfp_bits(&container.alloc_print);
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

/// Reads a file to its end without writing anything, so that hostile input can be tried quickly.
#[cfg(any(test, feature = "hostile"))]
pub(crate) fn read_only(input: &pageyard_trace::source::Input) -> Result<Imported, TraceError> {
    let container = Container::open(input)?;
    let mut import = Import::new(&container);
    let mut sorter = Sorter::new();
    let mut records = Records::new(input, &container);
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
    sorter.finish(&mut |_| {})?;
    drop(gfp_bits(&container.alloc_print));
    Ok(import.counted)
}

/// What is known of a file's events so far.
struct Import {
    decoder: Decoder,
    counted: Imported,
    lost: u64,
    lost_samples: u64,
    last_cpu: u32,
    x86_64: bool,
}

impl Import {
    fn new(container: &Container) -> Import {
        let counted = Imported {
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
            decoder: container.decoder(),
            counted,
            lost: 0,
            lost_samples: 0,
            last_cpu: 0,
            x86_64: container.x86_64,
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

    /// Returns how many CPUs the host had: what the file says, or as many as its events name.
    fn cpus(&self, container: &Container) -> u32 {
        container.cpus.max(self.last_cpu + 1)
    }
}
