//! Which events a file has, and how their samples are laid out.

use std::collections::HashMap;
use std::hash::BuildHasherDefault;

use linux_perf_event_reader::{PerfEventAttr, PerfEventType, SampleFormat};

use crate::tracepoint::NumberHasher;
use pageyard_trace::TraceError;
use pageyard_trace::source::Input;

use super::super::records::Sample;
use super::super::section::{Section, long, word};

/// More events than any `perf record` can have.
const MAX_EVENTS: u64 = 4096;

/// More numbers than the events of any host have: one an event and CPU.
const MAX_IDS: u64 = 1 << 20;

/// The bytes of the first version of `perf_event_attr`.
const FIRST_ATTR_BYTES: u64 = 64;

// The bits of `read_format`.
const TIME_ENABLED: u64 = 1 << 0;
const TIME_RUNNING: u64 = 1 << 1;
const ID: u64 = 1 << 2;
const GROUP: u64 = 1 << 3;
const LOST: u64 = 1 << 4;

/// The events of a file.
#[derive(Debug)]
pub(super) struct Attributes {
    layouts: Vec<SampleLayout>,
    /// The event of each number, where the layouts differ.
    by_id: Option<HashMap<u64, usize, BuildHasherDefault<NumberHasher>>>,
}

/// Where a sample keeps the needed fields; offsets from the end of its header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SampleLayout {
    tracepoint: bool,
    time: usize,
    cpu: Option<usize>,
    /// The length of what has a fixed place.
    fixed: usize,
    read_format: Option<u64>,
    callchain: bool,
}

/// A sample does not hold what it should.
pub(super) struct TooShort;

impl Attributes {
    pub(super) fn read(input: &Input, entry_bytes: u64, section: Section) -> Result<Attributes, TraceError> {
        let damaged = |what: String| TraceError::Damaged { file: input.label().to_owned(), row: None, what };
        if !(FIRST_ATTR_BYTES + 16..=1 << 12).contains(&entry_bytes) {
            return Err(damaged(format!(
                "descriptions of events of {entry_bytes} bytes are not of any perf"
            )));
        }
        let count = section.len / entry_bytes;
        if count == 0 || count > MAX_EVENTS {
            return Err(damaged(format!("it claims {count} events")));
        }
        let bytes = input.read(section.at, (count * entry_bytes) as usize)?;
        let mut layouts = Vec::new();
        let mut ids = Vec::new();
        for entry in bytes.chunks_exact(entry_bytes as usize) {
            let (attr, place) = entry.split_at(entry.len() - 16);
            layouts.push(SampleLayout::of(attr).map_err(|what| damaged(what.to_owned()))?);
            ids.push(
                Section::read(place, input.size()).ok_or_else(|| {
                    damaged("the events' numbers would lie beyond the file's end".to_owned())
                })?,
            );
        }
        if !layouts.iter().flatten().any(|l| l.tracepoint) {
            let what =
                "it has no tracepoints: record with `perf record -a -e kmem:mm_page_alloc,kmem:mm_page_free`";
            return Err(TraceError::Unsupported { file: input.label().to_owned(), what: what.to_owned() });
        }
        // What cannot be laid out is skipped, which takes knowing which samples are of it.
        let other = SampleLayout {
            tracepoint: false,
            time: 0,
            cpu: None,
            fixed: 0,
            read_format: None,
            callchain: false,
        };
        let alike = layouts.iter().all(|l| *l == layouts[0]);
        let identified =
            layouts.iter().flatten().count() == layouts.len() && identifier_first(&bytes, entry_bytes);
        let layouts: Vec<SampleLayout> = layouts.into_iter().map(|l| l.unwrap_or(other)).collect();
        if alike {
            return Ok(Attributes { layouts, by_id: None });
        }
        if !identified {
            let what = "its events have samples of different forms and no numbers to tell them apart: record the kmem \
                        events alone";
            return Err(TraceError::Unsupported { file: input.label().to_owned(), what: what.to_owned() });
        }
        let mut by_id = HashMap::default();
        let mut total = 0;
        for (event, section) in ids.into_iter().enumerate() {
            total += section.len / 8;
            if total > MAX_IDS {
                return Err(damaged(format!("its events have {total} numbers, more than any host's")));
            }
            let numbers = input.read(section.at, section.len as usize / 8 * 8)?;
            by_id.extend(numbers.chunks_exact(8).filter_map(|n| Some((long(n, 0)?, event))));
        }
        Ok(Attributes { layouts, by_id: Some(by_id) })
    }

    /// Takes a sample apart; `None` where it is of another kind of event.
    #[inline]
    pub(super) fn sample<'a>(&self, body: &'a [u8]) -> Result<Option<Sample<'a>>, TooShort> {
        let layout = match &self.by_id {
            None => &self.layouts[0],
            Some(by_id) => match by_id.get(&long(body, 0).ok_or(TooShort)?) {
                Some(&event) => &self.layouts[event],
                None => return Ok(None),
            },
        };
        if !layout.tracepoint {
            return Ok(None);
        }
        layout.find(body).map(Some).ok_or(TooShort)
    }
}

/// Returns whether every event's samples begin with the event's number.
fn identifier_first(bytes: &[u8], entry_bytes: u64) -> bool {
    bytes
        .chunks_exact(entry_bytes as usize)
        .all(|entry| long(entry, 24).is_some_and(|format| format & SampleFormat::IDENTIFIER.bits() != 0))
}

impl SampleLayout {
    /// Works out where things are; `None` for an event of a kind that is not known here.
    fn of(attr: &[u8]) -> Result<Option<SampleLayout>, &'static str> {
        // `size` may claim more than there is; missing bytes read as 0.
        let Ok((parsed, _)) = PerfEventAttr::parse::<_, byteorder::LittleEndian>(attr) else {
            return Ok(None);
        };
        let format = parsed.sample_format;
        let read_format = long(attr, 32).unwrap_or(0);
        let tracepoint = matches!(parsed.type_, PerfEventType::Tracepoint(_));
        let mut at = 0;
        let mut place = |flag| {
            let here = format.contains(flag).then_some(at);
            at += if here.is_some() { 8 } else { 0 };
            here
        };
        place(SampleFormat::IDENTIFIER);
        place(SampleFormat::IP);
        place(SampleFormat::TID);
        let time = place(SampleFormat::TIME);
        place(SampleFormat::ADDR);
        place(SampleFormat::ID);
        place(SampleFormat::STREAM_ID);
        let cpu = place(SampleFormat::CPU);
        place(SampleFormat::PERIOD);
        let (Some(time), true) = (time, format.contains(SampleFormat::RAW)) else {
            return if tracepoint {
                Err(
                    "its tracepoints were recorded without times or without their fields: use `perf record -a -e ..`",
                )
            } else {
                Ok(Some(SampleLayout {
                    tracepoint,
                    time: 0,
                    cpu,
                    fixed: at,
                    read_format: None,
                    callchain: false,
                }))
            };
        };
        let read_format = format.contains(SampleFormat::READ).then_some(read_format);
        let callchain = format.contains(SampleFormat::CALLCHAIN);
        Ok(Some(SampleLayout { tracepoint, time, cpu, fixed: at, read_format, callchain }))
    }

    #[inline]
    fn find<'a>(&self, body: &'a [u8]) -> Option<Sample<'a>> {
        let time = long(body, self.time)?;
        let cpu = match self.cpu {
            Some(at) => word(body, at)?,
            None => 0,
        };
        let mut rest = body.get(self.fixed..)?;
        if let Some(format) = self.read_format {
            rest = rest.get(read_bytes(format, rest)?..)?;
        }
        if self.callchain {
            let bytes = usize::try_from(long(rest, 0)?).ok()?.checked_mul(8)?.checked_add(8)?;
            rest = rest.get(bytes..)?;
        }
        let size = word(rest, 0)? as usize;
        Some(Sample { raw: rest.get(4..)?.get(..size)?, time, cpu })
    }
}

/// Returns the length of the counters' values in a sample.
fn read_bytes(format: u64, rest: &[u8]) -> Option<usize> {
    let each = 1 + (format & (ID | LOST)).count_ones() as usize;
    let times = (format & (TIME_ENABLED | TIME_RUNNING)).count_ones() as usize;
    let words = if format & GROUP == 0 {
        times.checked_add(each)?
    } else {
        usize::try_from(long(rest, 0)?).ok()?.checked_mul(each)?.checked_add(times + 1)?
    };
    words.checked_mul(8)
}
