//! One event: from Perfetto's fields to bytes that a decoder knows.

use pageyard_trace::EventKind;

use crate::tracepoint::{Format, REQUIRED, Tracepoint, WANTED};

use super::super::kernel::Formats;
use super::fields::{Fields, Malformed, Value};

/// An event of Perfetto's `FtraceEvent`: its number there, the tracepoint, and the numbers that the tracepoint's fields
/// have, in the order of [`Tracepoint::fields`].
struct Event {
    number: u32,
    system: &'static str,
    name: &'static str,
    fields: &'static [u32],
}

const fn event(number: u32, system: &'static str, name: &'static str, fields: &'static [u32]) -> Event {
    Event { number, system, name, fields }
}

/// The events that a trace is made of. Perfetto has none for mappings of frames that are being moved.
const EVENTS: [Event; 13] = [
    event(307, "kmem", "mm_page_alloc", &[5, 3, 1, 2]),
    event(310, "kmem", "mm_page_free", &[3, 1]),
    event(308, "kmem", "mm_page_alloc_extfrag", &[7, 2, 1, 4, 3]),
    event(312, "kmem", "mm_page_pcpu_drain", &[4, 2, 1]),
    event(309, "kmem", "mm_page_alloc_zone_locked", &[4, 2, 1]),
    event(106, "compaction", "mm_compaction_isolate_migratepages", &[1, 2, 3, 4]),
    event(105, "compaction", "mm_compaction_isolate_freepages", &[1, 2, 3, 4]),
    event(99, "compaction", "mm_compaction_begin", &[2, 3]),
    event(103, "compaction", "mm_compaction_end", &[2, 3]),
    event(46, "vmscan", "mm_vmscan_direct_reclaim_begin", &[1]),
    event(47, "vmscan", "mm_vmscan_direct_reclaim_end", &[1]),
    event(48, "vmscan", "mm_vmscan_kswapd_wake", &[2]),
    event(49, "vmscan", "mm_vmscan_kswapd_sleep", &[]),
];

/// Returns the number that a kind of event has in Perfetto's `FtraceEvent`, and those of its fields, in the order of
/// the tracepoint's.
pub(crate) fn numbers(kind: EventKind) -> (u32, &'static [u32]) {
    // The first five are the kinds of rows, in their order.
    let event = &EVENTS[kind.index()];
    (event.number, event.fields)
}

// The numbers of `FtraceEvent`'s own fields.
const TIMESTAMP: u32 = 1;
const PID: u32 = 2;
const COMMON_FLAGS: u32 = 5;

/// The number of the first field that can be an event.
const FIRST_EVENT: u32 = 3;

/// The bytes of a made-up event: its number, flags, thread, and up to five fields.
pub(super) const BYTES: usize = 16 + 8 * 5;

const FLAGS_AT: usize = 4;
const PID_AT: usize = 8;
const FIELDS_AT: usize = 16;

/// An event's time and bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Taken {
    pub(super) time: u64,
    pub(super) raw: [u8; BYTES],
}

/// Describes the bytes that [`take`] makes.
pub(super) fn formats() -> Formats {
    let tracepoints = REQUIRED.iter().chain(&WANTED);
    tracepoints
        .filter_map(|tracepoint: &'static Tracepoint| {
            let id =
                EVENTS.iter().position(|e| e.system == tracepoint.system && e.name == tracepoint.name)?;
            let mut text = format!("name: {}\nID: {id}\nformat:\n", tracepoint.name);
            let common = [("common_flags", FLAGS_AT, 4), ("common_pid", PID_AT, 4)];
            let fields = tracepoint.fields.iter().enumerate().map(|(i, name)| (*name, FIELDS_AT + 8 * i, 8));
            for (name, at, size) in common.into_iter().chain(fields) {
                text += &format!("field:unsigned long {name}; offset:{at}; size:{size}; signed:0;\n");
            }
            Some((tracepoint, Format::parse(&text)))
        })
        .collect()
}

/// Takes an event apart; `None` where it is of another kind.
pub(super) fn take(message: &[u8]) -> Result<Option<Taken>, Malformed> {
    let mut taken = Taken { time: 0, raw: [0; BYTES] };
    let mut found = false;
    let mut fields = Fields::new(message);
    while let Some((number, value)) = fields.next()? {
        match (number, value) {
            (TIMESTAMP, Value::Number(time)) => taken.time = time,
            (PID, Value::Number(pid)) => put(&mut taken.raw, PID_AT, &(pid as u32).to_le_bytes()),
            (COMMON_FLAGS, Value::Number(flags)) => {
                put(&mut taken.raw, FLAGS_AT, &(flags as u32).to_le_bytes());
            }
            (FIRST_EVENT.., Value::Bytes(inner)) => {
                let Some(id) = EVENTS.iter().position(|e| e.number == number) else { continue };
                found = true;
                put(&mut taken.raw, 0, &(id as u16).to_le_bytes());
                let mut inner = Fields::new(inner);
                while let Some((number, value)) = inner.next()? {
                    let at = EVENTS[id].fields.iter().position(|&f| f == number);
                    if let (Some(at), Value::Number(n)) = (at, value) {
                        put(&mut taken.raw, FIELDS_AT + 8 * at, &n.to_le_bytes());
                    }
                }
            }
            _ => {}
        }
    }
    Ok(found.then_some(taken))
}

fn put(raw: &mut [u8; BYTES], at: usize, bytes: &[u8]) {
    raw[at..at + bytes.len()].copy_from_slice(bytes);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tracepoint::Decoder;

    #[test]
    fn every_event_is_described_as_the_decoder_wants_it() {
        let formats = formats();
        assert_eq!(formats.len(), EVENTS.len());
        for (tracepoint, format) in formats {
            Decoder::new().learn(tracepoint, &format.unwrap()).unwrap();
            let event = EVENTS.iter().find(|e| e.name == tracepoint.name).unwrap();
            assert_eq!(event.fields.len(), tracepoint.fields.len(), "{}", event.name);
        }
        let of = |kind: EventKind| EVENTS[kind.index()].name.strip_prefix("mm_page_").unwrap();
        assert!(EventKind::ALL.iter().all(|kind| kind.name() == of(*kind)));
    }
}
