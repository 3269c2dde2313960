//! Chunks: columns of numbers, one after the other, compressed.

use super::class::NONE;
use crate::error::ReplayError;
use flate2::Compression;
use flate2::write::GzEncoder;
use serde::Serialize;
use std::io::Write;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;
use zlib_rs::{DeflateConfig, ReturnCode, Strategy};

/// How hard to compress. Level 6 takes twice the time for 7 % of the bytes, and packing is the larger part of what a
/// map costs beyond a replay.
const LEVEL: u32 = 3;

/// The contents of a chunk, as the page lists them.
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

/// Chunks of a story. They are compressed on a thread of their own, where there is one.
#[derive(Debug)]
pub struct Chunks {
    /// Their contents.
    entries: Vec<ChunkEntry>,
    packer: Option<Packer>,
    /// Those that were compressed here.
    packed: Vec<(u32, Vec<u8>)>,
    /// The owners that the chunks name.
    owners: Shown,
}

#[derive(Debug)]
struct Packer {
    work: SyncSender<Unpacked>,
    /// Memory of chunks that were compressed.
    used: Receiver<Vec<u8>>,
    worker: JoinHandle<Vec<(u32, Vec<u8>)>>,
}

/// A chunk that is to be compressed.
#[derive(Debug)]
struct Unpacked {
    id: u32,
    bytes: Vec<u8>,
    are_runs: bool,
}

/// Chunks that wait to be compressed: what they hold is in memory twice until then.
const WAITING: usize = 2;

impl Chunks {
    /// Makes an empty set.
    pub fn new() -> Chunks {
        let (work, queue) = sync_channel::<Unpacked>(WAITING);
        let (done, used) = sync_channel(WAITING);
        let pack_all = move || {
            let mut packed = Vec::new();
            for chunk in queue {
                packed.push((chunk.id, pack(&chunk)));
                // A full channel means that there is memory enough.
                let _ = done.try_send(chunk.bytes);
            }
            packed
        };
        let worker = std::thread::Builder::new().name("packer".to_owned()).spawn(pack_all);
        let packer = worker.ok().map(|worker| Packer { work, used, worker });
        Chunks { entries: Vec::new(), packer, packed: Vec::new(), owners: Shown::default() }
    }

    /// Returns empty columns of so many rows.
    pub fn columns(&self, rows: usize) -> Columns {
        let used = self.packer.as_ref().and_then(|packer| packer.used.try_recv().ok());
        let mut bytes = used.unwrap_or_default();
        bytes.clear();
        Columns { bytes, ..Columns::new(rows) }
    }

    /// Adds a chunk.
    pub fn add(&mut self, columns: Columns) -> ChunkEntry {
        let (entry, chunk) = self.enter(columns);
        let left = match &self.packer {
            // Where the packer has enough to do, this thread packs, too.
            Some(packer) => match packer.work.try_send(chunk) {
                Ok(()) => None,
                Err(TrySendError::Full(chunk) | TrySendError::Disconnected(chunk)) => Some(chunk),
            },
            None => Some(chunk),
        };
        self.packed.extend(left.map(|chunk| (chunk.id, pack(&chunk))));
        entry
    }

    /// Adds a chunk, and returns how many bytes it came to.
    pub fn add_now(&mut self, columns: Columns) -> (ChunkEntry, u64) {
        let (entry, chunk) = self.enter(columns);
        let packed = pack(&chunk);
        let len = packed.len() as u64;
        self.packed.push((entry.id, packed));
        (entry, len)
    }

    fn enter(&mut self, columns: Columns) -> (ChunkEntry, Unpacked) {
        let Columns { rows, names, bytes, are_runs } = columns;
        let id = self.entries.len() as u32;
        let entry = ChunkEntry { id, rows, columns: names, bytes: bytes.len() as u64 };
        self.entries.push(entry.clone());
        (entry, Unpacked { id, bytes, are_runs })
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
    ///
    /// # Errors
    /// [`ReplayError::Packing`].
    pub fn finish(mut self) -> Result<Vec<Vec<u8>>, ReplayError> {
        if let Some(Packer { work, worker, .. }) = self.packer.take() {
            drop(work);
            self.packed.extend(worker.join().map_err(|_| ReplayError::Packing)?);
        }
        let mut all = vec![Vec::new(); self.entries.len()];
        for (id, packed) in self.packed {
            all[id as usize] = packed;
        }
        Ok(all)
    }
}

/// Compresses a chunk.
fn pack(chunk: &Unpacked) -> Vec<u8> {
    let runs = if chunk.are_runs { pack_runs(&chunk.bytes) } else { None };
    runs.unwrap_or_else(|| {
        let mut gzip = GzEncoder::new(Vec::new(), Compression::new(LEVEL));
        // A vector takes every byte.
        gzip.write_all(&chunk.bytes).and_then(|()| gzip.finish()).unwrap_or_default()
    })
}

/// Compresses bytes that come in runs, looking for nothing else.
fn pack_runs(bytes: &[u8]) -> Option<Vec<u8>> {
    // The window's bits, and 16 for the frame of a gzip file.
    let config = DeflateConfig { window_bits: 15 + 16, strategy: Strategy::Rle, ..DeflateConfig::default() };
    // More than runs come to; what does not fit is compressed in the other way.
    let mut packed = vec![0; bytes.len() / 8 + 1024];
    let (packed_bytes, code) = zlib_rs::compress_slice(&mut packed, bytes, config);
    let len = packed_bytes.len();
    packed.truncate(len);
    packed.shrink_to_fit();
    (code == ReturnCode::Ok).then_some(packed)
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
        if owner == NONE {
            return NONE;
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
    are_runs: bool,
}

macro_rules! column {
    ($(#[$doc:meta])* $type:ident) => {
        $(#[$doc])*
        pub fn $type(mut self, name: &'static str, values: impl Iterator<Item = $type>) -> Columns {
            self.names.push((name, stringify!($type)));
            let start = self.bytes.len();
            self.bytes.resize(start + size_of::<$type>() * self.rows as usize, 0);
            let (rows, _) = self.bytes[start..].as_chunks_mut();
            let mut values = values;
            for row in rows {
                // There are as many as rows.
                let Some(value) = values.next() else { break };
                *row = value.to_le_bytes();
            }
            self
        }
    };
}

impl Columns {
    /// Begins a chunk of so many rows.
    pub fn new(rows: usize) -> Columns {
        Columns { rows: rows as u64, names: Vec::new(), bytes: Vec::new(), are_runs: false }
    }

    /// Adds a column of bytes that come in runs; `fill` writes them.
    pub fn runs(mut self, name: &'static str, fill: impl FnOnce(&mut Vec<u8>)) -> Columns {
        self.names.push((name, "u8"));
        self.bytes.reserve(self.rows as usize);
        fill(&mut self.bytes);
        self.are_runs = true;
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
    fn runs_and_what_only_says_so_unpack_to_what_they_were() {
        let mut rng = fastrand::Rng::with_seed(9);
        let runs: Vec<u8> = (0..500).flat_map(|_| vec![rng.u8(0..6); rng.usize(1..2000)]).collect();
        let noise: Vec<u8> = (0..100_000).map(|_| rng.u8(..)).collect();
        let mut chunks = Chunks::new();
        let all = [runs.clone(), noise, Vec::new(), vec![7]];
        for bytes in &all {
            chunks.add(chunks.columns(bytes.len()).runs("class", |into| into.extend_from_slice(bytes)));
        }
        for (packed, bytes) in chunks.finish().unwrap().iter().zip(&all) {
            let mut unpacked = Vec::new();
            GzDecoder::new(&packed[..]).read_to_end(&mut unpacked).unwrap();
            assert!(unpacked == *bytes);
        }
        assert!(pack_runs(&runs).unwrap().len() * 50 < runs.len());
        assert_eq!(pack_runs(&all[1]), None, "it would need more room than runs do");
    }

    #[test]
    fn a_packer_that_ends_early_is_an_error_and_no_page() {
        let (work, _) = sync_channel(1);
        let (_, used) = sync_channel(1);
        let worker = std::thread::spawn(|| std::panic::resume_unwind(Box::new("a test")));
        let mut chunks = Chunks { packer: Some(Packer { work, used, worker }), ..Chunks::new() };
        chunks.add(Columns::new(1).u8("a", [1].into_iter()));
        let why = chunks.finish().unwrap_err().to_string();
        assert!(why.contains("cannot be packed") && why.lines().count() == 1, "{why}");
    }

    #[test]
    fn a_chunk_is_its_columns_one_after_the_other() {
        let mut chunks = Chunks::new();
        let columns = || Columns::new(2).u16("a", [1u16, 2].into_iter()).f64("b", [0.5, 1.0].into_iter());
        let (now, packed) = chunks.add_now(columns());
        let later = chunks.add(columns());
        assert_eq!([4, NONE, 2, 4].map(|owner| chunks.shown(owner)), [0, NONE, 1, 0]);
        assert_eq!(chunks.shown_owners(), [4, 2]);
        let all = chunks.finish().unwrap();
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
