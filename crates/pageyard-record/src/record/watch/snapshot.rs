//! A trace of what is kept.

use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Instant;

use pageyard_trace::{MAX_FRAMES, Meta, MovesWriter, TraceWriter};

use super::super::{RecordError, buffer_page, host, picture};
use super::Watcher;
use crate::tracepoint::{Sink, Sorter};

/// Batches of entries that may wait to be written.
const AHEAD: usize = 16;

/// The totals of a snapshot.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Snapshot {
    /// Events in the trace.
    pub events: u64,
    /// Samples in it.
    pub samples: u64,
    /// Seconds from its beginning to its end.
    pub seconds: f64,
    /// When it begins, by the clock of the events.
    pub start_ns: u64,
    /// Seconds that writing it took.
    pub took: f64,
    /// Of those, the seconds that the picture of all frames took; `None` where there is none.
    pub picture: Option<f64>,
}

/// Writes what a watch keeps as a trace.
///
/// The trace begins where the first whole texts were read from which on all events are kept.
pub(super) fn write(watcher: &Watcher, output: &Path, with_picture: bool) -> Result<Snapshot, RecordError> {
    let begun = Instant::now();
    let end = host::now_ns();
    let oldest = watcher.ring.whole_from();
    let state = watcher.states.from(oldest);
    let start = state.map_or(oldest, |(at, _)| *at).min(end);
    let mut writer = TraceWriter::create(output)?;
    let mut meta = Meta::new(watcher.instance.cpus().max().unwrap_or(0) + 1);
    meta.kernel.clone_from(&watcher.kernel);
    meta.started_s = Some(host::unix_s(start));
    meta.gfp_bits.clone_from(&watcher.gfp_bits);
    meta.before = state.map(|(_, texts)| texts.clone());
    meta.settings = crate::host::settings(Path::new("/proc"));
    meta.duration_ns = end - start;
    meta.lost = watcher.ring.lost_since(start);
    writer.keep(&meta, None)?;
    // For a watch that is killed while it writes.
    // ORDER: Relaxed: a count, which orders nothing.
    writer.lost().store(meta.lost, Ordering::Relaxed);
    // Not the folder for temporary files: a service may have none, and others may write there.
    let scratch = writer.folder().to_owned();
    let mut sink = Sink::start(writer, MovesWriter::default(), Some(start), MAX_FRAMES, AHEAD, || ())?;
    let mut events = 0;
    let mut sorter = Sorter::new();
    let mut sorted = Ok(());
    let mut decoder = watcher.tracepoints.decoder();
    for (cpu, page) in watcher.ring.pages() {
        buffer_page::events(page, |time, raw| {
            if time < start || time > end {
                return;
            }
            if let Ok(entry) = decoder.decode(raw, time, cpu) {
                events += 1;
                sorter.push(entry);
            }
        });
        if sorter.is_full() && sorted.is_ok() {
            sorted = sorter.relieve(&scratch, &mut |entries| sink.send(entries));
        }
    }
    sorted?;
    sorter.finish(&mut |entries| sink.send(entries))?;
    let mut samples = 0;
    for sample in watcher.states.samples().filter(|s| (start..=end).contains(&s.time_ns)) {
        let mut sample = sample.clone();
        sample.time_ns -= start;
        sink.sample(sample);
        samples += 1;
    }
    let written = sink.finish()?;
    meta.duration_ns = meta.duration_ns.max(written.last_ns);
    meta.after = Some(host::texts()?);
    let taking = Instant::now();
    let after = if with_picture { Some(picture()?) } else { None };
    let picture = after.is_some().then(|| taking.elapsed().as_secs_f64());
    written.complete(meta, true, None, after.as_ref())?;
    Ok(Snapshot {
        events,
        samples,
        seconds: (end - start) as f64 / 1e9,
        start_ns: start,
        took: begun.elapsed().as_secs_f64(),
        picture,
    })
}
