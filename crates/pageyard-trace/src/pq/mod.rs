//! Parquet, read defensively.
//!
//! Footer, page headers and decompression are read here, because an untrusted file must not decide how much memory or
//! time it takes: the bounds are checked before anything is allocated. Only the decoding of values is left to the
//! `parquet` crate, inside [`quiet::catch`].
//!
//! It reads only what format 1 needs: flat tables of numbers, booleans and names; plain and dictionary
//! encoding; Zstandard, Snappy or no compression.

mod chunk;
mod footer;
#[cfg(test)]
mod hostile;
mod names;
mod pages;
pub(crate) mod quiet;
mod table;
mod thrift;

pub(crate) use chunk::ChunkReader;
pub(crate) use names::{MAX_UNKNOWN, Names};
pub(crate) use table::{ColumnSpec, Kind, Table};

/// The largest page that is read, before and after decompression. Writers make pages of about 1 MiB.
const MAX_PAGE_BYTES: u64 = 16 << 20;

/// The largest footer that is read. A row group takes about 1.2 KiB of it.
const MAX_FOOTER_BYTES: u64 = 2 << 20;

/// Rows that one byte of a file may stand for. Real traces take about 4 bytes a row; a file of a few bytes that claims
/// billions of rows would otherwise keep a reader busy for hours.
const MAX_ROWS_PER_BYTE: u64 = 16;

/// Rows that any file may have, however small.
const FREE_ROWS: u64 = 1 << 20;

/// Uncompressed bytes that a value may take in a page: the longest known name, its length, and room to spare.
const MAX_BYTES_PER_VALUE: u64 = 32;

/// Uncompressed bytes that a page may take whatever it holds.
const FREE_PAGE_BYTES: u64 = 1 << 10;
