//! Recording this host.
//!
//! The kernel writes its tracepoints into a buffer for each CPU; a [`Recorder`] empties them now and then, sorts the
//! events, and has them written on another thread. It looks up what it needs of the kernel: where each field is, and
//! which gfp flag is which bit.

mod buffer_page;
mod buffers;
mod cost;
mod document;
mod error;
mod fd;
mod fexit;
mod host;
mod instance;
mod names;
mod priority;
mod recorded;
pub mod reports;
mod rings;
mod sampler;
mod text;
mod tracefs;
pub mod watch;

pub use buffers::Through;
pub use document::{MoveRows, RecordDocument, SamplingDocument};
pub use error::RecordError;
pub use recorded::{ListedBlocks, Recorded};
pub use sampler::Sampling;
pub(crate) use text::kinds;

use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::host::{Lists, capture};
use crate::tracepoint::{Decoder, Sink, Skipped, Sorter};
use pageyard_trace::{Columns, EventKind, HostSample, MAX_FRAMES, Meta, MovesWriter, SampleReader, Snapshot};
use pageyard_trace::{Trace, TraceError, TraceWriter};

use buffers::Buffers;
use fexit::MoveProbe;
use names::Names;
use priority::Raised;
use rings::Seen;
use sampler::Sampler;
use tracefs::Tracepoints;

/// Batches of entries that may wait to be written: 100 MB.
const AHEAD: usize = 256;

/// How often the host's own texts are read unless something else is asked for: often enough to see what a job does to
/// free memory, and a few tenths of a millisecond of work.
pub const SAMPLE_EVERY: Duration = Duration::from_millis(250);

/// Memory of hosts whose first snapshot is taken while events are recorded. Of more memory the flags take longer to
/// read than the buffers of a busy host have room for.
pub const INSIDE_BYTES: u64 = 64 << 30;

/// How far a recording has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Live {
    /// How long it has gone on.
    pub elapsed: Duration,
    /// Events so far.
    pub events: u64,
    /// Events that the kernel had no room for.
    pub lost: u64,
    /// Whether something could not be written: nothing more is recorded, and it is time to finish.
    pub has_failed: bool,
}

/// A recording of this host.
pub struct Recorder {
    kernel: String,
    cpus: Vec<u32>,
    tracepoints: Tracepoints,
    decoder: Decoder,
    buffers: Buffers,
    /// The watch on moves, or why there is none.
    watch: Result<MoveProbe, String>,
    event_ns: Option<f64>,
    writer: TraceWriter,
    sampler: Option<Sampler>,
    names: Option<Names>,
}

impl Recorder {
    /// Prepares to record into the folder `output`: everything that can fail does so here, except for the disk running
    /// full.
    ///
    /// # Errors
    /// Any [`RecordError`]; nothing is left behind.
    pub fn prepare(output: &Path) -> Result<Recorder, RecordError> {
        Recorder::prepare_through(output, Through::Cheapest)
    }

    /// Does the same with the buffers that are asked for.
    ///
    /// # Errors
    /// As [`Recorder::prepare`].
    pub fn prepare_through(output: &Path, through: Through) -> Result<Recorder, RecordError> {
        let kernel = host::kernel();
        let tracepoints = Tracepoints::find(&kernel)?;
        let decoder = tracepoints.decoder();
        let cpus = host::online_cpus()?;
        let mut buffers = Buffers::open(&cpus, &tracepoints, host::memory_bytes(), through)?;
        let writer = TraceWriter::create(output)?;
        let watch = MoveProbe::open(&cpus);
        let event_ns = cost::of_an_event(&mut buffers);
        let sampler = Some(Sampler::open(SAMPLE_EVERY)?);
        Ok(Recorder {
            kernel,
            cpus,
            tracepoints,
            decoder,
            buffers,
            watch,
            event_ns,
            writer,
            sampler,
            names: None,
        })
    }

    /// Sets how often the host's free blocks, per-CPU lists and counters are read; `None` for never. The default is
    /// [`SAMPLE_EVERY`].
    ///
    /// # Errors
    /// When the host's texts cannot be opened.
    pub fn sample_every(mut self, every: Option<Duration>) -> Result<Recorder, RecordError> {
        self.sampler = every.map(Sampler::open).transpose()?;
        Ok(self)
    }

    /// Keeps the names of the threads that ask for memory, in a file of their own.
    #[must_use]
    pub fn with_names(mut self) -> Recorder {
        self.names = Some(Names::new(Path::new("/proc"), self.tracepoints.root()));
        self
    }

    /// Starts to record and takes the first snapshot of memory. From here on, a recorder that is killed leaves a folder
    /// from which [`pageyard_trace::salvage`] makes a trace.
    ///
    /// # Errors
    /// When `/proc` cannot be read, or the kernel refuses.
    pub fn start(mut self) -> Result<Running, RecordError> {
        let large = host::memory_bytes() > INSIDE_BYTES;
        let outside = large.then(picture).transpose()?;
        // Just before the first event: what changes the lists from then on has a row.
        let lists = crate::host::lists(&self.cpus);
        let start = host::now_ns();
        // Before the snapshot: what happens between it and the first event is in neither. A row of something that the
        // snapshot shows already does no harm, since who replays frees the frame of such an allocation first.
        self.buffers.enable()?;
        // Without it, the recording has less to say and goes on.
        if let Ok(watch) = &mut self.watch
            && let Err(why) = watch.enable()
        {
            self.watch = Err(why.to_string());
        }
        let mut sampler = self.sampler;
        let first = sampler.as_mut().and_then(|sampler| {
            sampler.begin(start);
            sampler.take_if_due()
        });
        let texts = host::texts()?;
        let before = outside.map_or_else(picture, Ok)?;
        self.decoder.set_memory_end(before.end());
        let mut meta = Meta::new(self.buffers.last_cpu() + 1);
        meta.kernel = self.kernel;
        meta.started_s = Some(host::unix_s(start));
        meta.gfp_bits = self.tracepoints.gfp_bits();
        meta.before = Some(texts);
        meta.settings = crate::host::settings(Path::new("/proc"));
        meta.moves_by = self.watch.as_ref().ok().map(|watch| watch.function().to_owned());
        // A snapshot without frames, as from a kernel without `/proc/kpageflags`, would make every event invalid.
        let before = Some(before).filter(|before| !before.runs.is_empty());
        self.writer.keep(&meta, before.as_ref())?;
        let lists = lists.and_then(|Lists { blocks, percpu_not_read }| {
            // Without them, the recording has less to say and goes on.
            self.writer.free_lists(&blocks).map_err(|why| why.to_string())?;
            let free = blocks.iter().filter(|block| block.cpu.is_none()).count() as u64;
            let cached = percpu_not_read.map_or(Ok(blocks.len() as u64 - free), Err);
            Ok(ListedBlocks { free, cached })
        });
        let own = host::own_ns();
        let moves = MovesWriter::default();
        // Where the memory map is empty, the events are still worth having.
        let end = before.as_ref().map_or(MAX_FRAMES, Snapshot::end);
        let scratch = self.writer.folder().to_owned();
        let lost = self.writer.lost();
        let begin = priority::raise_this_thread;
        let sink = Sink::start(self.writer, moves, Some(start), end, AHEAD, begin)?;
        let seen = Seen::default();
        let mut running = Running {
            tracepoints: self.tracepoints,
            decoder: self.decoder,
            buffers: self.buffers,
            watch: self.watch,
            event_ns: self.event_ns,
            sink,
            sorter: Sorter::new(),
            scratch,
            meta,
            before,
            lost,
            failure: None,
            raised: None,
            start,
            own,
            lists,
            seen,
            sampler,
            names: self.names,
        };
        if let Some(sample) = first {
            running.sink.sample(sample);
        }
        Ok(running)
    }
}

/// A recording that is going on. Dropping it leaves nothing behind.
pub struct Running {
    tracepoints: Tracepoints,
    decoder: Decoder,
    buffers: Buffers,
    /// The watch on moves, or why there is none.
    watch: Result<MoveProbe, String>,
    event_ns: Option<f64>,
    sink: Sink,
    sorter: Sorter,
    /// Where the sorter may put what does not fit.
    scratch: PathBuf,
    meta: Meta,
    before: Option<Snapshot>,
    /// Where the writer looks for the number of lost events.
    lost: Arc<AtomicU64>,
    /// The failure of this thread; the writer has its own.
    failure: Option<TraceError>,
    raised: Option<Raised>,
    start: u64,
    own: u64,
    /// Blocks whose place on a list was read, or why it was not.
    lists: Result<ListedBlocks, String>,
    seen: Seen,
    sampler: Option<Sampler>,
    names: Option<Names>,
}

impl Running {
    /// Raises the priority of the calling thread, which empties the buffers, until the recording ends, if that is
    /// allowed.
    ///
    /// Call it after the recorded command was started, because children inherit the priority.
    pub fn raise_priority(&mut self) {
        self.raised = Some(Raised::new());
    }

    /// Waits until a buffer is partly full, `wake` can be read, a sample is due, or `timeout` is over; then empties the
    /// buffers.
    ///
    /// # Errors
    /// When the kernel's buffers cannot be waited for.
    pub fn wait(&mut self, wake: BorrowedFd<'_>, timeout: Duration) -> Result<Live, RecordError> {
        let timeout = self.sampler.as_ref().map_or(timeout, |sampler| sampler.wait(timeout));
        self.buffers.poll(wake, timeout)?;
        self.sample(Sampler::take_if_due);
        self.pass();
        Ok(Live {
            elapsed: Duration::from_nanos(host::now_ns() - self.start),
            events: self.seen.by_kind.iter().sum(),
            lost: self.seen.lost,
            has_failed: self.has_failed(),
        })
    }

    /// Ends the recording, takes the second snapshot of memory, and completes the trace. When something could not be
    /// written, for example because the disk is full, the trace has what was written until then, and says so.
    ///
    /// # Errors
    /// When `/proc` cannot be read or no trace can be made at all; nothing is left behind then.
    pub fn finish(mut self) -> Result<(Trace, Recorded), RecordError> {
        // What the host is like before the snapshot, whose reading takes memory itself.
        self.sample(Sampler::take);
        let texts = host::texts()?;
        self.buffers.disable()?;
        if let Ok(watch) = &mut self.watch {
            watch.disable();
        }
        let end = host::now_ns();
        let own = host::own_ns();
        let after = picture()?;
        // The second pass lets go what the first one took in.
        self.pass();
        self.pass();
        // While the thread that writes is still there.
        self.meta.recorder_threads = self.decoder.numbers_of(&host::own_threads());
        let counted = self.buffers.lost_for_certain();
        let unseen = self.watch.as_mut().map_or(0, MoveProbe::lost);
        let Running {
            sink: mut out,
            mut sorter,
            seen,
            buffers,
            before,
            mut meta,
            failure,
            raised,
            watch,
            lists,
            names,
            ..
        } = self;
        let (kind, not_cheapest) = buffers.kind();
        let sampler = self.sampler;
        let sorted = match failure {
            None => sorter.finish(&mut |entries| out.send(entries)).err(),
            failed => failed,
        };
        let (mut written, unwritten) = out.finish_whatever()?;
        let mut failure = unwritten.or(sorted);
        if failure.is_none() {
            failure = written.flush().err();
        }
        let names = names.map(Names::known);
        if let Some(names) = &names {
            failure = failure.or(written.writer.thread_names(names).err());
        }
        meta.lost = seen.lost.max(counted + unseen);
        meta.moves_by = watch.as_ref().ok().map(|watch| watch.function().to_owned());
        meta.duration_ns = (end - self.start).max(written.last_ns);
        meta.after = Some(texts);
        meta.partial = failure.map(|e| e.to_string());
        let mut recorded = Recorded {
            by_kind: seen.by_kind,
            moves: self.tracepoints.tell_moves().then_some(written.moves.rows()),
            moved: written.moves.moved(),
            moves_by: meta.moves_by.clone(),
            not_watched: watch.err(),
            lists,
            lost: meta.lost,
            sampling: sampler.map(|s| s.found(written.samples.samples(), written.samples.refused())),
            impossible: seen.impossible + written.moves.refused(),
            late: sorter.late(),
            cpus: buffers.cpus(),
            buffer_bytes: buffers.buffer_bytes(),
            buffers: kind,
            not_cheapest,
            seconds: (end - self.start) as f64 / 1e9,
            own_seconds: (own - self.own) as f64 / 1e9,
            event_ns: self.event_ns,
            missing: self.tracepoints.missing(),
            names: names.map(|names| names.len() as u64),
            raised: raised.map(|raised| raised.is()),
            partial: meta.partial.clone(),
        };
        // Without a first snapshot, the second one says little.
        let after = before.is_some().then_some(after);
        let trace = written.complete(meta, self.tracepoints.tell_moves(), before.as_ref(), after.as_ref())?;
        if recorded.partial.is_some() {
            recorded.by_kind = count(&trace)?;
            recorded.moves = trace.moves()?.map(|moves| moves.rows());
            if let Some(sampling) = &mut recorded.sampling {
                sampling.taken = trace.samples()?.map(SampleReader::count).transpose()?.unwrap_or(0);
            }
        }
        Ok((trace, recorded))
    }

    fn has_failed(&self) -> bool {
        self.failure.is_some() || self.sink.has_failed()
    }

    /// Has a sample taken, and written.
    fn sample(&mut self, take: fn(&mut Sampler) -> Option<HostSample>) {
        if let Some(sample) = self.sampler.as_mut().and_then(take) {
            self.sink.sample(sample);
        }
    }

    /// Empties the buffers once.
    fn pass(&mut self) {
        if self.has_failed() {
            return;
        }
        let Running { buffers, watch, decoder, sorter, sink, seen, names, .. } = self;
        let scratch = &self.scratch;
        let mut result = Ok(());
        buffers.drain(host::now_ns(), seen, &mut |raw, time, cpu, seen| {
            match decoder.decode(raw, time, cpu) {
                Ok(entry) => {
                    if let Some(n) = seen.by_kind.get_mut(entry.known as usize) {
                        *n += 1;
                    }
                    if let Some(names) = names {
                        names.see(entry.tid);
                    }
                    sorter.push(entry);
                }
                Err(Skipped::Impossible) => seen.impossible += 1,
                Err(Skipped::Other) => {}
            }
            if sorter.is_full() && result.is_ok() {
                result = sorter.relieve(scratch, &mut |entries| sink.send(entries));
            }
        });
        if let Ok(watch) = watch {
            watch.drain(host::now_ns(), decoder, seen, &mut |entry| sorter.push(entry));
        }
        if let Some(names) = names {
            names.look(|number| decoder.host_thread(number));
        }
        // ORDER: Relaxed: a count, which orders nothing.
        self.lost.store(seen.lost, Ordering::Relaxed);
        match result {
            Ok(()) => sorter.end_round(&mut |entries| sink.send(entries)),
            Err(failure) => self.failure = Some(failure),
        }
    }
}

/// Counts the events of a trace that has fewer than were seen.
fn count(trace: &Trace) -> Result<[u64; EventKind::ALL.len()], TraceError> {
    let mut by_kind = [0; EventKind::ALL.len()];
    let mut events = trace.events(Columns::Replay)?;
    let mut batch = Vec::new();
    while events.next_batch(&mut batch)? {
        for event in &batch {
            by_kind[event.kind.index()] += 1;
        }
    }
    Ok(by_kind)
}

fn picture() -> Result<Snapshot, TraceError> {
    Ok(capture(Path::new("/proc/kpageflags"))?.snapshot)
}
