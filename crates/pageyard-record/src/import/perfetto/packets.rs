//! The packets of a file, one after the other.

use bytes::Bytes;

use prost::encoding::{WireType, decode_key, decode_varint};

use pageyard_trace::TraceError;
use pageyard_trace::source::Input;

use super::super::unpack::Compression;
use super::fields::{Fields, Malformed};

/// Bytes read at a time.
const CHUNK: usize = 1 << 20;

/// The largest packet, and the most that compressed packets may become. Perfetto compresses half a megabyte at a time.
const MAX_PACKET: u64 = 64 << 20;

/// The most bytes that a packet's number and length have.
const HEADER: usize = 20;

/// The number of a packet in a file, and of compressed packets in a packet.
const PACKET: u32 = 1;
const COMPRESSED: u32 = 50;

/// Reads packets.
pub(super) struct Packets<'a> {
    input: &'a Input,
    chunk: Bytes,
    /// Where the chunk begins in the file, and how much of it was used.
    chunk_at: u64,
    used: usize,
    /// Packets that were compressed, and how much of them was used.
    inner: Bytes,
    inner_used: usize,
}

impl<'a> Packets<'a> {
    pub(super) fn new(input: &'a Input) -> Packets<'a> {
        let (chunk, inner) = (Bytes::new(), Bytes::new());
        Packets { input, chunk, chunk_at: 0, used: 0, inner, inner_used: 0 }
    }

    /// Returns how many bytes of the file were read.
    pub(super) fn done(&self) -> u64 {
        self.chunk_at + self.used as u64
    }

    /// Returns the next packet; those that were compressed together come one by one.
    pub(super) fn next(&mut self) -> Result<Option<Bytes>, TraceError> {
        loop {
            while self.inner_used < self.inner.len() {
                if let Some(packet) = self.inner_packet().map_err(|e| self.damaged(e))? {
                    return Ok(Some(packet));
                }
            }
            let at = self.done();
            if at == self.input.size() {
                return Ok(None);
            }
            let mut header = self.peek(HEADER)?;
            let before = header.len();
            let read = |header: &mut &[u8]| -> Option<(u32, WireType, u64)> {
                let (number, wire) = decode_key(header).ok()?;
                Some((number, wire, decode_varint(header).ok()?))
            };
            let Some((number, wire, value)) = read(&mut header) else { return Err(self.damaged(Malformed)) };
            let used = before - header.len();
            self.used += used;
            match wire {
                WireType::Varint => continue,
                WireType::LengthDelimited if value <= MAX_PACKET => {}
                _ => return Err(self.damaged(Malformed)),
            }
            let len = value as usize;
            if self.peek(len)?.len() < len {
                return Err(self.cut_short(at));
            }
            let packet = self.chunk.slice(self.used..self.used + len);
            self.used += len;
            if number != PACKET {
                continue;
            }
            match compressed(&packet).map_err(|e| self.damaged(e))? {
                None => return Ok(Some(packet)),
                Some(packed) => {
                    let unpacked = Compression::Zlib.unpack(packed, MAX_PACKET as usize);
                    let Some(unpacked) = unpacked else { return Err(self.damaged(Malformed)) };
                    (self.inner, self.inner_used) = (Bytes::from(unpacked), 0);
                }
            }
        }
    }

    /// Takes a packet off those that were compressed; `None` for a field that is no packet.
    fn inner_packet(&mut self) -> Result<Option<Bytes>, Malformed> {
        let mut fields = Fields::new(&self.inner[self.inner_used..]);
        let Some((number, value)) = fields.next()? else { return Ok(None) };
        self.inner_used = self.inner.len() - fields.left();
        Ok(value.bytes().filter(|_| number == PACKET).map(|bytes| self.inner.slice_ref(bytes)))
    }

    /// Returns the next `bytes` of the file, or as many as there are.
    fn peek(&mut self, bytes: usize) -> Result<&[u8], TraceError> {
        if self.chunk.len() - self.used < bytes {
            let at = self.done();
            let left = self.input.size() - at;
            let want = left.min(bytes.max(CHUNK) as u64);
            self.chunk = self.input.read(at, want as usize)?;
            (self.chunk_at, self.used) = (at, 0);
        }
        let end = (self.used + bytes).min(self.chunk.len());
        Ok(&self.chunk[self.used..end])
    }

    /// Says that a message before the current place is damaged.
    pub(super) fn damaged(&self, Malformed: Malformed) -> TraceError {
        let what = format!("before byte {}, a packet is damaged", self.done());
        TraceError::Damaged { file: self.input.label().to_owned(), row: None, what }
    }

    fn cut_short(&self, at: u64) -> TraceError {
        let what = format!("the packet at byte {at} reaches beyond the file's end: it is cut short");
        TraceError::Damaged { file: self.input.label().to_owned(), row: None, what }
    }
}

/// Returns what a packet holds compressed, if it does.
fn compressed(packet: &[u8]) -> Result<Option<&[u8]>, Malformed> {
    let mut fields = Fields::new(packet);
    while let Some((number, value)) = fields.next()? {
        if number == COMPRESSED {
            return Ok(value.bytes());
        }
    }
    Ok(None)
}
