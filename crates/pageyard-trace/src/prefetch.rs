//! Reading ahead on another thread.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use crate::error::TraceError;
use crate::event::Event;
use crate::reader::EventReader;

/// Batches that can wait to be used: enough to cover a slow page.
const AHEAD: usize = 8;

type Batch = Result<Vec<Event>, TraceError>;

/// An [`EventReader`] that runs on its own thread and hands over full batches.
///
/// Buffers go back and forth between the threads, so a long trace is read without allocating. Dropping it stops the
/// thread at its next batch.
pub struct Prefetch {
    batches: Receiver<Batch>,
    used: SyncSender<Vec<Event>>,
    rows: u64,
    /// The result that ended the stream.
    end: Option<Result<(), TraceError>>,
}

impl Prefetch {
    /// Starts reading ahead.
    ///
    /// # Errors
    /// When the operating system refuses a thread.
    pub fn new(mut reader: EventReader) -> Result<Prefetch, TraceError> {
        let (send, batches) = sync_channel(AHEAD);
        let (used, reuse) = sync_channel::<Vec<Event>>(AHEAD + 2);
        let rows = reader.rows();
        thread::Builder::new()
            .name("trace-reader".to_owned())
            .spawn(move || {
                loop {
                    let mut batch = reuse.try_recv().unwrap_or_default();
                    let message = match reader.next_batch(&mut batch) {
                        Ok(true) => Ok(batch),
                        Ok(false) => return,
                        Err(e) => Err(e),
                    };
                    let last = message.is_err();
                    // The other end is gone when the rest is not wanted.
                    if send.send(message).is_err() || last {
                        return;
                    }
                }
            })
            .map_err(|e| TraceError::Unreadable {
                file: "the trace".to_owned(),
                why: format!("no thread to read it with ({})", crate::source::reason(&e)),
            })?;
        Ok(Prefetch { batches, used, rows, end: None })
    }

    /// Returns how many events there are.
    #[must_use]
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Replaces `out` by the next events; `false` when there are none left.
    ///
    /// # Errors
    /// As [`EventReader::next_batch`].
    pub fn next_batch(&mut self, out: &mut Vec<Event>) -> Result<bool, TraceError> {
        if self.end.is_none() {
            match self.batches.recv() {
                Ok(Ok(batch)) => {
                    let old = std::mem::replace(out, batch);
                    // A full channel means that the reader has buffers enough.
                    let _ = self.used.try_send(old);
                    return Ok(true);
                }
                Ok(Err(fault)) => self.end = Some(Err(fault)),
                Err(_) => self.end = Some(Ok(())),
            }
        }
        out.clear();
        self.end.clone().unwrap_or(Ok(())).map(|()| false)
    }
}
