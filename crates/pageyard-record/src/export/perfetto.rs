//! A trace as Perfetto writes one: its events as ftrace events, bundle by bundle; the host's samples as counters; what
//! was refused as instants.
//!
//! Numbers of fields are those of Perfetto's published `trace_packet.proto`, `ftrace_event.proto`, `track_event.proto`
//! and `system_info.proto`.

use std::io::Write;

use pageyard::{Order, PAGE_SIZE};
use pageyard_trace::{Columns, Event, EventKind, HostSample, Trace, TraceError, WholeFile};
use serde::Serialize;

use crate::import::perfetto::numbers;
use crate::message::Message;
use crate::tracepoint::common_flags;

// A file has packets; a packet has one of these, a time and the number of a sequence.
const PACKET: u32 = 1;
const FTRACE_EVENTS: u32 = 1;
const TIMESTAMP: u32 = 8;
const SEQUENCE: u32 = 10;
const TRACK_EVENT: u32 = 11;
const SEQUENCE_FLAGS: u32 = 13;
const SYSTEM_INFO: u32 = 45;
const TRACK_DESCRIPTOR: u32 = 60;

/// Nothing was said before on this sequence: `SEQ_INCREMENTAL_STATE_CLEARED`.
const BEGINS: u64 = 1;
const OURS: u64 = 1;

/// Bytes of a bundle after which the next begins.
const BUNDLE_BYTES: usize = 64 << 10;

/// Threads have numbers in a trace; Perfetto takes 0 for a CPU that is idle.
const FIRST_PID: u64 = 1;

/// The track of what was refused. Counters' tracks follow.
const REFUSED: u64 = 1;

/// The contents of the file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ForPerfetto {
    /// Events.
    pub events: u64,
    /// Of these, requests that got nothing: they are instants, too.
    pub refused: u64,
    /// Samples of the host: values of counters, one for each zone.
    pub samples: u64,
    /// Bytes of the file.
    pub bytes: u64,
}

/// Writes a trace for Perfetto's viewer and its `trace_processor`. `progress` is told how many events are written, of
/// how many.
///
/// A frame's number, order, gfp flags and migratetype are those of the recording, and so are times. Threads have the
/// recording's numbers plus one, and no names: a trace has none.
///
/// # Errors
/// The errors of the trace's readers; [`TraceError::Unwritable`].
pub fn perfetto(
    trace: &Trace,
    mut file: WholeFile,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<ForPerfetto, TraceError> {
    let mut done = ForPerfetto::default();
    let rows = trace.rows()?;
    let meta = trace.meta();
    let mut out = Packets { file: &mut file };
    out.system(&meta.kernel, meta.cpus)?;
    out.describe(REFUSED, "requests refused", false)?;
    if let Some(mut samples) = trace.samples()? {
        let mut tracks = 0;
        while let Some(sample) = samples.next_sample()? {
            if done.samples == 0 {
                tracks = sample.free_blocks.len();
                for (n, zone) in sample.free_blocks.iter().enumerate() {
                    let name = format!("free, node {} zone {}", zone.node, zone.zone.name());
                    out.describe(REFUSED + 1 + n as u64, &name, true)?;
                }
            }
            out.counters(&sample, tracks)?;
            done.samples += 1;
        }
    }
    let mut bundles: Vec<Message> = (0..meta.cpus).map(|_| Message::new()).collect();
    let mut events = trace.events(Columns::All)?;
    let mut batch = Vec::new();
    while events.next_batch(&mut batch)? {
        for event in &batch {
            // A row of another CPU than the host has is refused by the reader.
            let Some(bundle) = bundles.get_mut(event.cpu as usize) else { continue };
            bundle.append(&Message::new().message(2, &ftrace(event)));
            done.events += 1;
            if bundle.len() >= BUNDLE_BYTES {
                out.bundle(event.cpu, &std::mem::take(bundle))?;
            }
            if event.failed() {
                done.refused += 1;
                out.refusal(event)?;
            }
        }
        progress(done.events, rows);
    }
    for (cpu, bundle) in bundles.iter().enumerate().filter(|(_, bundle)| bundle.len() > 0) {
        out.bundle(cpu as u32, bundle)?;
    }
    done.bytes = file.finish()?;
    Ok(done)
}

/// Returns an event as Perfetto's `FtraceEvent`.
fn ftrace(event: &Event) -> Message {
    let (number, fields) = numbers(event.kind);
    let (fallback_order, fallback_type) = event.fallback();
    let order = i64::from(event.order);
    let migratetype = i64::from(event.migratetype);
    // In the order of the tracepoint's fields.
    let values: [i64; 5] = match event.kind {
        EventKind::Alloc => [event.pfn as i64, order, event.gfp.into(), migratetype, 0],
        EventKind::AllocExtfrag => {
            [event.pfn as i64, order, migratetype, fallback_order.into(), fallback_type.into()]
        }
        _ => [event.pfn as i64, order, migratetype, 0, 0],
    };
    let inner = fields.iter().zip(values).fold(Message::new(), |m, (field, value)| m.signed(*field, value));
    Message::new()
        .number(1, event.time_ns)
        .number(2, FIRST_PID + u64::from(event.tid))
        .number(5, common_flags(event.context, event.irqs_off))
        .message(number, &inner)
}

/// Writes packets.
struct Packets<'a> {
    file: &'a mut WholeFile,
}

impl Packets<'_> {
    fn packet(&mut self, packet: &Message) -> Result<(), TraceError> {
        let framed = Message::new().message(PACKET, packet);
        self.file.write_all(framed.as_bytes()).map_err(|why| self.file.refused(&why))
    }

    fn system(&mut self, kernel: &str, cpus: u32) -> Result<(), TraceError> {
        let release = kernel.strip_prefix("Linux ").unwrap_or(kernel);
        let names = Message::new().bytes(1, b"Linux").bytes(3, release.as_bytes());
        let info = Message::new().message(1, &names).number(6, PAGE_SIZE).number(8, cpus.into());
        let first = Message::new().number(SEQUENCE, OURS).number(SEQUENCE_FLAGS, BEGINS);
        let mut packet = first;
        packet.append(&Message::new().message(SYSTEM_INFO, &info));
        self.packet(&packet)
    }

    /// Names a track; that of a counter counts bytes.
    fn describe(&mut self, track: u64, name: &str, counts_bytes: bool) -> Result<(), TraceError> {
        let mut descriptor = Message::new().number(1, track).bytes(2, name.as_bytes());
        if counts_bytes {
            const BYTES: u64 = 3;
            descriptor.append(&Message::new().message(8, &Message::new().number(3, BYTES)));
        }
        self.packet(&Message::new().number(SEQUENCE, OURS).message(TRACK_DESCRIPTOR, &descriptor))
    }

    fn counters(&mut self, sample: &HostSample, tracks: usize) -> Result<(), TraceError> {
        const COUNTER: u64 = 4;
        for (n, zone) in sample.free_blocks.iter().take(tracks).enumerate() {
            let frames =
                zone.counts.iter().zip(0_u8..).map(|(blocks, order)| blocks << order.min(Order::MAX.get()));
            let free: u64 = frames.sum::<u64>() * PAGE_SIZE;
            let event = Message::new().number(9, COUNTER).number(11, REFUSED + 1 + n as u64).number(30, free);
            self.track_event(sample.time_ns, &event)?;
        }
        Ok(())
    }

    fn refusal(&mut self, event: &Event) -> Result<(), TraceError> {
        const INSTANT: u64 = 3;
        let name = format!("order {}, gfp {:#x}, thread {}", event.order, event.gfp, event.tid);
        let instant = Message::new().number(9, INSTANT).number(11, REFUSED).bytes(23, name.as_bytes());
        self.track_event(event.time_ns, &instant)
    }

    fn track_event(&mut self, time: u64, event: &Message) -> Result<(), TraceError> {
        self.packet(
            &Message::new().number(TIMESTAMP, time).number(SEQUENCE, OURS).message(TRACK_EVENT, event),
        )
    }

    fn bundle(&mut self, cpu: u32, events: &Message) -> Result<(), TraceError> {
        let mut bundle = Message::new().number(1, cpu.into());
        bundle.append(events);
        self.packet(&Message::new().number(SEQUENCE, OURS).message(FTRACE_EVENTS, &bundle))
    }
}
