//! The records of a file, one after the other.

use bytes::Bytes;
use linux_perf_event_reader::RecordType;
use zstd::stream::raw::{DParameter, Decoder as Zstd, Operation};

use pageyard_trace::TraceError;
use pageyard_trace::source::Input;

use super::super::kernel::Kernel;
use super::super::records::{Record, Records};
use super::super::section::{long, word};
use super::attributes::TooShort;
use super::container::Container;

/// Bytes read at a time.
const CHUNK: u64 = 1 << 20;

/// The header of a record: its type, flags and length.
const HEADER: usize = 8;

/// The largest window that compressed records may look back into: perf's own is 8 MiB.
const WINDOW_LOG: u32 = 24;

/// Bytes that a compressed record may become. perf compresses less than 64 MiB at a time, as repetitive as events are.
const MAX_DECOMPRESSED: usize = 64 << 20;

/// Bytes that Zstandard wants once one of its blocks has ended: the header of the next.
const BLOCK_HEADER: usize = 3;

// Records that perf itself makes, by its numbers.
const TRACING_DATA: u32 = 66;
const FINISHED_ROUND: u32 = 68;
const AUXTRACE: u32 = 71;
const COMPRESSED: u32 = 81;
const COMPRESSED2: u32 = 83;

/// Reads records.
pub(in super::super) struct PerfRecords<'a> {
    input: &'a Input,
    container: &'a Container,
    chunk: Bytes,
    /// Where the chunk begins in the file, and how much of it was used.
    chunk_at: u64,
    used: usize,
    /// Decompressed records, and how much of them was used.
    inner: Vec<u8>,
    inner_used: usize,
    /// Whether any record was decompressed.
    inner_found: bool,
    zstd: Option<Zstd<'static>>,
    /// Bytes that the decompressor would like to have next.
    wanted: usize,
}

/// A record's place in the buffer that holds it.
struct RecordSpan {
    kind: u32,
    inner: bool,
    from: usize,
    to: usize,
}

impl Records for PerfRecords<'_> {
    #[inline]
    fn next(&mut self) -> Result<Option<Record<'_>>, TraceError> {
        loop {
            let Some(place) = self.place()? else { return self.rest() };
            match place.kind {
                kind if kind == RecordType::SAMPLE.0 => {
                    return match self.container.attributes.sample(self.bytes(&place)) {
                        Ok(Some(sample)) => Ok(Some(Record::Sample(sample))),
                        Ok(None) => Ok(Some(Record::Skipped)),
                        Err(TooShort) => {
                            Err(self.damaged(&place, "a sample is too short for what it should hold"))
                        }
                    };
                }
                kind if kind == RecordType::LOST.0 => {
                    let lost = long(self.bytes(&place), 8).unwrap_or(0);
                    return Ok(Some(Record::Lost(lost.min(u64::from(u32::MAX)))));
                }
                kind if kind == RecordType::LOST_SAMPLES.0 => {
                    let lost = long(self.bytes(&place), 0).unwrap_or(0);
                    return Ok(Some(Record::LostSamples(lost.min(u64::from(u32::MAX)))));
                }
                FINISHED_ROUND => return Ok(Some(Record::EndOfRound)),
                AUXTRACE if !place.inner => {
                    let size = long(self.bytes(&place), 0).unwrap_or(0);
                    self.skip(&place, size)?;
                }
                TRACING_DATA if !place.inner => {
                    let size = word(self.bytes(&place), 0).unwrap_or(0);
                    self.skip(&place, size.into())?;
                }
                COMPRESSED if !place.inner => self.decompress(&place, 0, None)?,
                COMPRESSED2 if !place.inner => {
                    let size = long(self.bytes(&place), 0).unwrap_or(u64::MAX);
                    self.decompress(&place, 8, Some(size))?;
                }
                _ => {}
            }
        }
    }

    fn done(&self) -> u64 {
        self.chunk_at + self.used as u64 - self.container.data.0
    }

    fn all(&self) -> u64 {
        self.container.data.1 - self.container.data.0
    }

    fn kernel(&self) -> &Kernel {
        &self.container.kernel
    }
}

impl<'a> PerfRecords<'a> {
    pub(in super::super) fn new(input: &'a Input, container: &'a Container) -> PerfRecords<'a> {
        PerfRecords {
            input,
            container,
            chunk: Bytes::new(),
            chunk_at: container.data.0,
            used: 0,
            inner: Vec::new(),
            inner_used: 0,
            inner_found: false,
            zstd: None,
            wanted: 0,
        }
    }

    fn bytes(&self, place: &RecordSpan) -> &[u8] {
        let buffer = if place.inner { &self.inner[..] } else { &self.chunk[..] };
        &buffer[place.from..place.to]
    }

    /// Finds the next record, of the decompressed ones first.
    #[inline]
    fn place(&mut self) -> Result<Option<RecordSpan>, TraceError> {
        if self.inner_used < self.inner.len() {
            match record_at(&self.inner[self.inner_used..]) {
                Found::Record { kind, len } => {
                    let from = self.inner_used + HEADER;
                    self.inner_found = true;
                    self.inner_used += len;
                    return Ok(Some(RecordSpan { kind, inner: true, from, to: self.inner_used }));
                }
                Found::Damaged => {
                    return Err(self.damaged_at(self.position(), "a compressed record has no length"));
                }
                Found::More => {}
            }
        }
        loop {
            match record_at(&self.chunk[self.used..]) {
                Found::Record { kind, len } => {
                    let from = self.used + HEADER;
                    self.used += len;
                    return Ok(Some(RecordSpan { kind, inner: false, from, to: self.used }));
                }
                Found::Damaged => return Err(self.damaged_at(self.position(), "a record has no length")),
                Found::More => {
                    let at = self.position();
                    let left = self.container.data.1 - at;
                    let have = (self.chunk.len() - self.used) as u64;
                    if left == 0 {
                        return Ok(None);
                    }
                    if have == left {
                        return Err(self.damaged_at(at, "the records end inside one: the file is cut short"));
                    }
                    self.chunk = self.input.read(at, left.min(CHUNK) as usize)?;
                    self.chunk_at = at;
                    self.used = 0;
                }
            }
        }
    }

    /// Returns, once, that a sample is lost where what is compressed ends inside one. `perf record -z` sometimes ends
    /// files this way, and its own readers silently skip the rest. Where nothing could be decompressed at all, the file
    /// is damaged.
    fn rest(&mut self) -> Result<Option<Record<'_>>, TraceError> {
        let left = self.wanted > BLOCK_HEADER || self.inner_used < self.inner.len();
        if left && !self.inner_found {
            return Err(self.damaged_at(self.position(), "the compressed records end inside one"));
        }
        (self.wanted, self.inner_used) = (0, self.inner.len());
        Ok(left.then_some(Record::LostSamples(1)))
    }

    fn position(&self) -> u64 {
        self.chunk_at + self.used as u64
    }

    /// Passes over bytes that follow a record without being one.
    fn skip(&mut self, place: &RecordSpan, size: u64) -> Result<(), TraceError> {
        let at = self.position();
        let to = at.checked_add(size).filter(|&to| to <= self.container.data.1);
        let to =
            to.ok_or_else(|| self.damaged(place, "what belongs to a record reaches beyond the last one"))?;
        if to - self.chunk_at <= self.chunk.len() as u64 {
            self.used = (to - self.chunk_at) as usize;
        } else {
            self.chunk = Bytes::new();
            self.chunk_at = to;
            self.used = 0;
        }
        Ok(())
    }

    /// Adds what a compressed record holds to the decompressed ones.
    fn decompress(&mut self, place: &RecordSpan, skip: usize, size: Option<u64>) -> Result<(), TraceError> {
        let body = self.chunk.slice(place.from..place.to);
        let body = body.get(skip..).unwrap_or_default();
        let body = match size {
            None => body,
            Some(size) => usize::try_from(size)
                .ok()
                .and_then(|n| body.get(..n))
                .ok_or_else(|| self.damaged(place, "a compressed record is longer than it is"))?,
        };
        self.inner.drain(..self.inner_used);
        self.inner_used = 0;
        if self.zstd.is_none() {
            let mut zstd =
                Zstd::new().map_err(|_| self.damaged(place, "there is no memory to decompress it"))?;
            zstd.set_parameter(DParameter::WindowLogMax(WINDOW_LOG))
                .map_err(|_| self.damaged(place, "there is no memory to decompress it"))?;
            self.zstd = Some(zstd);
        }
        let wrong = "a compressed record cannot be decompressed";
        let Some(zstd) = &mut self.zstd else { return Ok(()) };
        let mut read = 0;
        loop {
            let start = self.inner.len();
            if start > MAX_DECOMPRESSED {
                return Err(self.damaged(place, "a compressed record becomes too large"));
            }
            self.inner.resize(start + (128 << 10), 0);
            let Ok(status) = zstd.run_on_buffers(&body[read..], &mut self.inner[start..]) else {
                return Err(self.damaged(place, wrong));
            };
            read += status.bytes_read;
            self.wanted = status.remaining;
            self.inner.truncate(start + status.bytes_written);
            // Nothing was held back for lack of room, and there is nothing more to read.
            if read == body.len() && status.bytes_written < 128 << 10 {
                return Ok(());
            }
            if status.bytes_read == 0 && status.bytes_written == 0 {
                return Err(self.damaged(place, wrong));
            }
        }
    }

    fn damaged(&self, place: &RecordSpan, what: &str) -> TraceError {
        let at = if place.inner { self.position() } else { self.chunk_at + (place.from - HEADER) as u64 };
        self.damaged_at(at, what)
    }

    fn damaged_at(&self, at: u64, what: &str) -> TraceError {
        let file = self.container.label.clone();
        TraceError::Damaged { file, row: None, what: format!("at byte {at}, {what}") }
    }
}

enum Found {
    Record {
        kind: u32,
        len: usize,
    },
    /// The bytes end before the record does.
    More,
    Damaged,
}

#[inline]
fn record_at(bytes: &[u8]) -> Found {
    let Some(header) = bytes.first_chunk::<HEADER>() else { return Found::More };
    let kind = u32::from_le_bytes([header[0], header[1], header[2], header[3]]);
    let len = usize::from(u16::from_le_bytes([header[6], header[7]]));
    if len < HEADER {
        Found::Damaged
    } else if len > bytes.len() {
        Found::More
    } else {
        Found::Record { kind, len }
    }
}
