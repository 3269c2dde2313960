//! Writing a trace on a thread of its own.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};

use crate::error::TraceError;
use crate::moves::MovesWriter;
use crate::writer::TraceWriter;

use super::entry::Entry;
use super::follow::Follower;

/// Entries handed over at a time.
const BATCH: usize = 8 << 10;

/// What a sink has written.
pub(crate) struct Written {
    pub(crate) writer: TraceWriter,
    pub(crate) moves: MovesWriter,
    /// The time of the last entry, from the start.
    pub(crate) last_ns: u64,
}

/// A thread that turns entries into rows. What waits for it is bounded; whoever sends more, waits.
pub(crate) struct Sink {
    send: Option<SyncSender<Vec<Entry>>>,
    used: Receiver<Vec<Entry>>,
    thread: Option<JoinHandle<Result<Written, TraceError>>>,
}

impl Sink {
    /// Starts the thread. `start` is the time at which the trace begins, or nothing for that of the first entry; up to
    /// `ahead` batches of 8,192 entries may wait.
    ///
    /// # Errors
    /// When the operating system refuses a thread.
    pub(crate) fn start(
        writer: TraceWriter,
        moves: MovesWriter,
        start: Option<u64>,
        memory_end: u64,
        ahead: usize,
    ) -> Result<Sink, TraceError> {
        let (send, receive) = sync_channel::<Vec<Entry>>(ahead);
        let (give_back, used) = sync_channel(ahead + 2);
        let run = move || {
            let mut written = Written { writer, moves, last_ns: 0 };
            let mut follower: Option<(u64, Follower)> = None;
            while let Ok(batch) = receive.recv() {
                for entry in &batch {
                    let (start, follower) = follower.get_or_insert_with(|| {
                        let start = start.unwrap_or(entry.time);
                        (start, Follower::new(start, memory_end))
                    });
                    written.last_ns = entry.time.saturating_sub(*start);
                    if let Some(event) = entry.event(*start) {
                        written.writer.push(&event)?;
                    } else if let Some(row) = follower.take(entry) {
                        written.moves.push(&written.writer, row)?;
                    }
                }
                // A full channel means that the sender has buffers enough.
                let _ = give_back.try_send(batch);
            }
            Ok(written)
        };
        let thread = thread::Builder::new().name("trace-writer".to_owned()).spawn(run).map_err(|e| {
            let why = format!("no thread to write it with ({})", crate::source::reason(&e));
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
            // The thread has gone only if it failed.
            if let Some(send) = &self.send
                && send.send(batch).is_err()
            {
                self.send = None;
            }
        }
    }

    /// Says whether writing has failed: nothing more needs to be sent.
    pub(crate) fn has_failed(&self) -> bool {
        self.send.is_none()
    }

    /// Ends the sink and returns what went wrong in writing.
    pub(crate) fn failure(&mut self) -> TraceError {
        self.end().err().unwrap_or_else(stopped)
    }

    /// Waits until everything is written.
    ///
    /// # Errors
    /// What went wrong in writing.
    pub(crate) fn finish(mut self) -> Result<Written, TraceError> {
        self.end()
    }

    fn end(&mut self) -> Result<Written, TraceError> {
        self.send = None;
        self.thread.take().ok_or_else(stopped)?.join().unwrap_or_else(|_| Err(stopped()))
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
