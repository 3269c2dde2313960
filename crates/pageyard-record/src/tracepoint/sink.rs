//! Writing a trace on a separate thread.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};

use pageyard_trace::{
    HostSample, Meta, MovesWriter, SamplesWriter, Snapshot, Trace, TraceError, TraceWriter,
};

use super::entry::Entry;
use super::follow::Follower;

/// Entries handed over at a time.
const BATCH: usize = 8 << 10;

/// The totals that a sink has written.
pub(crate) struct Written {
    pub(crate) writer: TraceWriter,
    pub(crate) moves: MovesWriter,
    pub(crate) samples: SamplesWriter,
    /// The time of the last entry, from the start.
    pub(crate) last_ns: u64,
    /// The error, if any: what was complete by then can be kept.
    failure: Option<TraceError>,
}

impl Written {
    fn take(&mut self, entry: &Entry, start: u64, follower: &mut Follower) -> Result<(), TraceError> {
        self.last_ns = entry.time.saturating_sub(start);
        if let Some(event) = entry.event(start) {
            self.writer.push(&event)
        } else if let Some(row) = follower.take(entry) {
            self.moves.push(&self.writer, row)
        } else {
            Ok(())
        }
    }
}

impl Written {
    /// Writes the waiting rows, so that only the ends of the files are left.
    ///
    /// # Errors
    /// [`TraceError::Unwritable`].
    pub(crate) fn flush(&mut self) -> Result<(), TraceError> {
        self.moves.flush(&self.writer)?;
        self.samples.flush(&self.writer)?;
        self.writer.flush()
    }

    /// Completes the trace. Where `meta` says that it is partial, what waits is left out.
    ///
    /// # Errors
    /// As [`TraceWriter::finish`].
    pub(crate) fn complete(
        self,
        meta: Meta,
        tells_moves: bool,
        before: Option<&Snapshot>,
        after: Option<&Snapshot>,
    ) -> Result<Trace, TraceError> {
        self.writer.give_up_reserve();
        if meta.partial.is_some() {
            self.moves.finish_partial()?;
            self.samples.finish_partial()?;
            return self.writer.finish_partial(meta, before, after);
        }
        self.moves.finish(&self.writer, tells_moves)?;
        self.samples.finish(&self.writer)?;
        self.writer.finish(meta, before, after)
    }
}

/// A piece of work for a sink.
enum Work {
    Entries(Vec<Entry>),
    Sample(HostSample),
}

/// A thread that turns entries into rows. Its queue is bounded; a sender waits when it is full.
pub(crate) struct Sink {
    send: Option<SyncSender<Work>>,
    used: Receiver<Vec<Entry>>,
    thread: Option<JoinHandle<Written>>,
}

impl Sink {
    /// Starts the thread. `start` is the time at which the trace begins, or nothing for that of the first entry; up to
    /// `ahead` batches of 8,192 entries may wait. `begin` is called on the thread first.
    ///
    /// # Errors
    /// When the operating system refuses a thread.
    pub(crate) fn start(
        writer: TraceWriter,
        moves: MovesWriter,
        start: Option<u64>,
        memory_end: u64,
        ahead: usize,
        begin: impl FnOnce() + Send + 'static,
    ) -> Result<Sink, TraceError> {
        let (send, receive) = sync_channel::<Work>(ahead);
        let (give_back, used) = sync_channel(ahead + 2);
        let run = move || {
            begin();
            let samples = SamplesWriter::default();
            let mut written = Written { writer, moves, samples, last_ns: 0, failure: None };
            let mut follower: Option<(u64, Follower)> = None;
            while let Ok(work) = receive.recv() {
                let batch = match work {
                    Work::Entries(batch) => batch,
                    Work::Sample(sample) => match written.samples.push(&written.writer, &sample) {
                        Ok(()) => continue,
                        Err(failure) => {
                            written.failure = Some(failure);
                            return written;
                        }
                    },
                };
                for entry in &batch {
                    let (start, follower) = follower.get_or_insert_with(|| {
                        let start = start.unwrap_or(entry.time);
                        (start, Follower::new(start, memory_end))
                    });
                    if let Err(failure) = written.take(entry, *start, follower) {
                        written.failure = Some(failure);
                        return written;
                    }
                }
                // A full channel means that the sender has buffers enough.
                let _ = give_back.try_send(batch);
            }
            written
        };
        let thread = thread::Builder::new().name("trace-writer".to_owned()).spawn(run).map_err(|e| {
            let why = format!("no thread to write it with ({})", pageyard_trace::source::reason(&e));
            TraceError::Unwritable { file: "the trace".to_owned(), why }
        })?;
        Ok(Sink { send: Some(send), used, thread: Some(thread) })
    }

    /// Hands over entries, in order. What went wrong in writing is said by [`Sink::finish`].
    pub(crate) fn send(&mut self, entries: &[Entry]) {
        for piece in entries.chunks(BATCH) {
            let mut batch = self.used.try_recv().unwrap_or_default();
            batch.clear();
            batch.extend_from_slice(piece);
            self.hand(Work::Entries(batch));
        }
    }

    /// Hands over a sample of the host. Samples come in the order of their times, whatever entries come between them.
    pub(crate) fn sample(&mut self, sample: HostSample) {
        self.hand(Work::Sample(sample));
    }

    fn hand(&mut self, work: Work) {
        // The thread has gone only if it failed.
        if let Some(send) = &self.send
            && send.send(work).is_err()
        {
            self.send = None;
        }
    }

    /// Returns whether writing has failed: nothing more needs to be sent.
    pub(crate) fn has_failed(&self) -> bool {
        self.send.is_none()
    }

    /// Waits until everything is written.
    ///
    /// # Errors
    /// The failure in writing.
    pub(crate) fn finish(self) -> Result<Written, TraceError> {
        match self.finish_whatever()? {
            (written, None) => Ok(written),
            (_, Some(failure)) => Err(failure),
        }
    }

    /// Waits until everything is written, or what could be, and returns what went wrong.
    ///
    /// # Errors
    /// When the thread has panicked: nothing is left then.
    pub(crate) fn finish_whatever(mut self) -> Result<(Written, Option<TraceError>), TraceError> {
        let mut written = self.end()?;
        let failure = written.failure.take();
        Ok((written, failure))
    }

    fn end(&mut self) -> Result<Written, TraceError> {
        self.send = None;
        self.thread.take().ok_or_else(stopped)?.join().map_err(|_| stopped())
    }
}

fn stopped() -> TraceError {
    TraceError::Unwritable { file: "the trace".to_owned(), why: "its writer has stopped".to_owned() }
}

impl Drop for Sink {
    /// Waits for the thread, so that the unfinished trace is gone when the sink is.
    fn drop(&mut self) {
        if self.thread.is_some() {
            drop(self.end());
        }
    }
}
