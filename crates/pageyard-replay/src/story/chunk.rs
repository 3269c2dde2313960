//! Chunks: columns of numbers, one after the other, compressed.

use super::class::NOBODY;
use flate2::Compression;
use flate2::write::GzEncoder;
use serde::Serialize;
use std::io::Write;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::JoinHandle;

/// How hard to compress: a story is written once, and read over and over, but nobody waits for the last percent.
const LEVEL: u32 = 6;

/// What a chunk holds, as the page says it.
#[derive(Clone, Debug, Serialize)]
pub struct ChunkEntry {
    /// Its number.
    pub id: u32,
    /// Rows.
    pub rows: u64,
    /// Its columns: their names and types, in order.
    pub columns: Vec<(&'static str, &'static str)>,
    /// Bytes when unpacked.
    pub bytes: u64,
}

/// Chunks of a story. They are compressed on a thread of their own, as far as there is one to be had.
#[derive(Debug)]
pub struct Chunks {
    /// What they hold.
    entries: Vec<ChunkEntry>,
    packer: Option<Packer>,
    /// Those that were compressed here.
    packed: Vec<(u32, Vec<u8>)>,
    /// The owners that the chunks name.
    owners: Shown,
}

#[derive(Debug)]
struct Packer {
    work: SyncSender<(u32, Vec<u8>)>,
    worker: JoinHandle<Vec<(u32, Vec<u8>)>>,
}

/// Chunks that wait to be compressed: what they hold is in memory twice until then.
const WAITING: usize = 2;

impl Chunks {
    /// Makes an empty set.
    pub fn new() -> Chunks {
        let (work, queue) = sync_channel::<(u32, Vec<u8>)>(WAITING);
        let pack_all = move || queue.into_iter().map(|(id, bytes)| (id, pack(&bytes))).collect();
        let worker = std::thread::Builder::new().name("packer".to_owned()).spawn(pack_all);
        let packer = worker.ok().map(|worker| Packer { work, worker });
        Chunks { entries: Vec::new(), packer, packed: Vec::new(), owners: Shown::default() }
    }

    /// Adds a chunk.
    pub fn add(&mut self, columns: Columns) -> ChunkEntry {
        let (entry, bytes) = self.enter(columns);
        let left = match &self.packer {
            Some(packer) => packer.work.send((entry.id, bytes)).err().map(|unsent| unsent.0),
            None => Some((entry.id, bytes)),
        };
        self.packed.extend(left.map(|(id, bytes)| (id, pack(&bytes))));
        entry
    }

    /// Adds a chunk, and returns how many bytes it came to.
    pub fn add_now(&mut self, columns: Columns) -> (ChunkEntry, u64) {
        let (entry, bytes) = self.enter(columns);
        let packed = pack(&bytes);
        let len = packed.len() as u64;
        self.packed.push((entry.id, packed));
        (entry, len)
    }

    fn enter(&mut self, columns: Columns) -> (ChunkEntry, Vec<u8>) {
        let Columns { rows, names, bytes } = columns;
        let id = self.entries.len() as u32;
        let entry = ChunkEntry { id, rows, columns: names, bytes: bytes.len() as u64 };
        self.entries.push(entry.clone());
        (entry, bytes)
    }

    /// Returns the number under which chunks name an owner.
    pub fn shown(&mut self, owner: u32) -> u32 {
        self.owners.number(owner)
    }

    /// Returns the owners that chunks name, in the order of those numbers.
    #[must_use]
    pub fn shown_owners(&self) -> &[u32] {
        &self.owners.owners
    }

    /// Waits until all are compressed; returns them by number.
    pub fn finish(mut self) -> Vec<Vec<u8>> {
        if let Some(Packer { work, worker }) = self.packer.take() {
            drop(work);
            // A worker that could not end has said so; its chunks are empty then, and the page says that they are damaged.
            self.packed.extend(worker.join().unwrap_or_default());
        }
        let mut all = vec![Vec::new(); self.entries.len()];
        for (id, packed) in self.packed {
            all[id as usize] = packed;
        }
        all
    }
}

/// Compresses bytes.
fn pack(bytes: &[u8]) -> Vec<u8> {
    let mut gzip = GzEncoder::new(Vec::new(), Compression::new(LEVEL));
    // A vector takes every byte.
    gzip.write_all(bytes).and_then(|()| gzip.finish()).unwrap_or_default()
}

/// Owners that chunks name, numbered in the order in which they first do.
#[derive(Debug, Default)]
struct Shown {
    /// By owner: one more than its number, or 0.
    numbers: Vec<u32>,
    owners: Vec<u32>,
}

impl Shown {
    fn number(&mut self, owner: u32) -> u32 {
        if owner == NOBODY {
            return NOBODY;
        }
        let at = owner as usize;
        if at >= self.numbers.len() {
            self.numbers.resize(at + 1, 0);
        }
        if self.numbers[at] == 0 {
            self.owners.push(owner);
            self.numbers[at] = self.owners.len() as u32;
        }
        self.numbers[at] - 1
    }
}

/// Columns that become a chunk.
#[derive(Debug)]
pub struct Columns {
    rows: u64,
    names: Vec<(&'static str, &'static str)>,
    bytes: Vec<u8>,
}

macro_rules! column {
    ($(#[$doc:meta])* $type:ident) => {
        $(#[$doc])*
        pub fn $type(mut self, name: &'static str, values: impl Iterator<Item = $type>) -> Columns {
            self.names.push((name, stringify!($type)));
            self.bytes.reserve(size_of::<$type>() * self.rows as usize);
            values.for_each(|v| self.bytes.extend_from_slice(&v.to_le_bytes()));
            self
        }
    };
}

impl Columns {
    /// Begins a chunk of so many rows.
    pub fn new(rows: usize) -> Columns {
        Columns { rows: rows as u64, names: Vec::new(), bytes: Vec::new() }
    }

    /// Adds a column of bytes that are there already.
    pub fn bytes(mut self, name: &'static str, values: &[u8]) -> Columns {
        self.names.push((name, "u8"));
        self.bytes.extend_from_slice(values);
        self
    }

    column! {
        /// Adds a column of bytes.
        u8
    }
    column! {
        /// Adds a column of 16 bits.
        u16
    }
    column! {
        /// Adds a column of 32 bits.
        u32
    }
    column! {
        /// Adds a column of numbers with a point.
        f64
    }
}

/// Writes bytes as base64.
pub fn base64(bytes: &[u8], out: &mut impl Write) -> std::io::Result<()> {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = Vec::with_capacity(4 * 1024);
    for piece in bytes.chunks(3 * 1024) {
        text.clear();
        for three in piece.chunks(3) {
            let word =
                three.iter().fold(0u32, |word, b| word << 8 | u32::from(*b)) << (8 * (3 - three.len()));
            let digit = |i: usize| DIGITS[(word >> (18 - 6 * i) & 63) as usize];
            let quad: [u8; 4] = std::array::from_fn(|i| if i <= three.len() { digit(i) } else { b'=' });
            text.extend_from_slice(&quad);
        }
        out.write_all(&text)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::read::GzDecoder;
    use std::io::Read;

    #[test]
    fn base64_is_that_of_rfc_4648() {
        for (bytes, text) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("fooba", "Zm9vYmE="),
        ] {
            let mut out = Vec::new();
            base64(bytes.as_bytes(), &mut out).unwrap();
            assert_eq!(String::from_utf8(out).unwrap(), text);
        }
        let mut out = Vec::new();
        base64(&[0xff; 10_000], &mut out).unwrap();
        assert_eq!(out.len(), 10_000usize.div_ceil(3) * 4);
    }

    #[test]
    fn a_chunk_is_its_columns_one_after_the_other() {
        let mut chunks = Chunks::new();
        let columns = || Columns::new(2).u16("a", [1u16, 2].into_iter()).f64("b", [0.5, 1.0].into_iter());
        let (now, packed) = chunks.add_now(columns());
        let later = chunks.add(columns());
        assert_eq!([4, NOBODY, 2, 4].map(|owner| chunks.shown(owner)), [0, NOBODY, 1, 0]);
        assert_eq!(chunks.shown_owners(), [4, 2]);
        let all = chunks.finish();
        assert_eq!((now.id, later.id, all.len(), all[0].len() as u64), (0, 1, 2, packed));
        assert_eq!(all[0], all[1]);
        let mut bytes = Vec::new();
        GzDecoder::new(&all[1][..]).read_to_end(&mut bytes).unwrap();
        assert_eq!(bytes[..4], [1, 0, 2, 0]);
        assert_eq!(bytes[4..12], 0.5f64.to_le_bytes());
        assert_eq!((bytes.len() as u64, later.bytes, later.rows), (20, 20, 2));
        assert_eq!(later.columns, [("a", "u16"), ("b", "f64")]);
    }
}
