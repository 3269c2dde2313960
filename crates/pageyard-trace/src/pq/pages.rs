//! The pages of one column chunk, decompressed and stripped to their values.

use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use parquet::basic::Encoding;
use parquet::column::page::{Page, PageMetadata, PageReader};
use parquet::errors::{ParquetError, Result};

use crate::error::TraceError;
use crate::source::Input;

use super::footer::{Chunk, Codec};
use super::thrift::{self, ThriftError, Value};
use super::{FREE_PAGE_BYTES, MAX_BYTES_PER_VALUE, MAX_PAGE_BYTES, Names};

/// The most that a page's header may take: minima and maxima of a column are part of it.
const MAX_HEADER_BYTES: u64 = 64 << 10;

/// The properties of a column that a page reader needs.
#[derive(Clone, Debug)]
pub(crate) struct Shape {
    /// The column's name.
    pub(crate) name: &'static str,
    /// Whether pages carry definition levels.
    pub(crate) nullable: bool,
    /// Bytes of a value in plain encoding; 0 for booleans.
    pub(crate) width: u64,
    /// How to turn names into numbers, for a column of names.
    pub(crate) names: Option<Names>,
}

/// Reads the pages of one chunk, one after another.
///
/// The decoder gets no levels and no text: a missing value is an error here, and a name a number.
pub(crate) struct Pages {
    input: Input,
    shape: Shape,
    codec: Codec,
    at: u64,
    end: u64,
    /// Rows of the chunk that no page has brought yet.
    rows_left: u64,
    /// The file's row that the next page starts with.
    row: u64,
    rows: u64,
    dictionary: bool,
    zstd: Zstd,
}

/// A decompressor that the columns of a table share, made when it is first needed.
pub(crate) type Zstd = Arc<Mutex<Option<zstd::bulk::Decompressor<'static>>>>;

impl Pages {
    pub(crate) fn new(
        input: Input,
        shape: Shape,
        chunk: Chunk,
        first_row: u64,
        rows: u64,
        zstd: Zstd,
    ) -> Pages {
        Pages {
            input,
            shape,
            codec: chunk.codec,
            at: chunk.start,
            end: chunk.start + chunk.len,
            rows_left: rows,
            row: first_row,
            rows,
            dictionary: false,
            zstd,
        }
    }

    fn damaged(&self, what: impl Into<String>) -> ParquetError {
        self.fault(TraceError::Damaged {
            file: self.input.label().to_owned(),
            row: Some(self.row),
            what: format!("column `{}` {}", self.shape.name, what.into()),
        })
    }

    fn fault(&self, error: TraceError) -> ParquetError {
        ParquetError::External(Box::new(error))
    }

    /// Reads the header at the cursor and moves past it.
    fn header(&mut self) -> Result<Header> {
        let mut window = 256u64;
        loop {
            let have = window.min(self.end - self.at);
            let bytes = self.input.read(self.at, have as usize).map_err(|e| self.fault(e))?;
            match thrift::read_struct(&bytes) {
                Ok((tree, used)) => {
                    self.at += used as u64;
                    return Header::from_tree(&tree)
                        .ok_or_else(|| self.damaged("has a page that cannot be decoded"));
                }
                Err(ThriftError::End) if have < self.end - self.at && window < MAX_HEADER_BYTES => {
                    window *= 8
                }
                Err(_) => return Err(self.damaged("has a page that cannot be decoded")),
            }
        }
    }

    fn page(&mut self) -> Result<Option<Page>> {
        while self.rows_left > 0 {
            if self.at >= self.end {
                return Err(self.damaged(format!("ends {} rows too early", self.rows_left)));
            }
            let header = self.header()?;
            if header.compressed > self.end - self.at {
                return Err(self.damaged(format!(
                    "has a page that claims {} bytes, more than the column has",
                    header.compressed
                )));
            }
            // A dictionary has no use for more entries than there are rows.
            let allowed = match header.kind {
                PageKind::Dictionary => self.rows,
                _ => self.rows_left,
            };
            if header.values > allowed {
                return Err(self.damaged(format!(
                    "has a page that claims {} values where at most {allowed} can be",
                    header.values
                )));
            }
            let limit = MAX_PAGE_BYTES.min(FREE_PAGE_BYTES + MAX_BYTES_PER_VALUE * header.values);
            if header.uncompressed > limit || header.compressed > MAX_PAGE_BYTES {
                return Err(self.damaged(format!(
                    "has a page that claims {} bytes for {} values: more than any trace needs",
                    header.uncompressed, header.values
                )));
            }
            let body = self.input.read(self.at, header.compressed as usize).map_err(|e| self.fault(e))?;
            self.at += header.compressed;
            match header.kind {
                PageKind::Index => {}
                PageKind::Dictionary => return self.dictionary_page(&header, &body).map(Some),
                PageKind::Data => {
                    let body = self.decompress(&body, header.uncompressed)?;
                    let values = if self.shape.nullable { self.strip_levels(&header, &body)? } else { body };
                    return self.data_page(&header, values).map(Some);
                }
                PageKind::DataV2 { definition, compressed } => {
                    if definition > body.len() as u64 || definition > header.uncompressed {
                        return Err(self.damaged("has a page whose levels do not fit it"));
                    }
                    let levels = body.slice(..definition as usize);
                    if self.shape.nullable {
                        self.check_present(&levels, header.values)?;
                    }
                    let values = body.slice(definition as usize..);
                    let values = if compressed {
                        self.decompress(&values, header.uncompressed - definition)?
                    } else {
                        values
                    };
                    return self.data_page(&header, values).map(Some);
                }
            }
        }
        Ok(None)
    }

    fn dictionary_page(&mut self, header: &Header, body: &Bytes) -> Result<Page> {
        if std::mem::replace(&mut self.dictionary, true) {
            return Err(self.damaged("has two dictionaries in one row group"));
        }
        let values = self.decompress(body, header.uncompressed)?;
        let buf = match &self.shape.names {
            Some(names) => match names.translate(&values, header.values) {
                Some(numbers) => Bytes::from(numbers),
                None => return Err(self.damaged("has a dictionary that cannot be decoded")),
            },
            None if self.shape.width == 0 => return Err(self.damaged("has a dictionary of booleans")),
            None if header.values * self.shape.width > values.len() as u64 => {
                return Err(self.damaged("has a dictionary that is shorter than it claims"));
            }
            None => values,
        };
        Ok(Page::DictionaryPage {
            buf,
            num_values: header.values as u32,
            encoding: Encoding::PLAIN,
            is_sorted: false,
        })
    }

    fn data_page(&mut self, header: &Header, values: Bytes) -> Result<Page> {
        let (encoding, buf) = match header.encoding {
            // PLAIN
            0 => match &self.shape.names {
                Some(names) => match names.translate(&values, header.values) {
                    Some(numbers) => (Encoding::PLAIN, Bytes::from(numbers)),
                    None => return Err(self.damaged("has a page of names that cannot be decoded")),
                },
                None => (Encoding::PLAIN, values),
            },
            // PLAIN_DICTIONARY, RLE_DICTIONARY
            2 | 8 if self.dictionary => (Encoding::RLE_DICTIONARY, values),
            2 | 8 => return Err(self.damaged("refers to a dictionary that is not there")),
            // RLE
            3 if self.shape.width == 0 => (Encoding::RLE, values),
            other => {
                return Err(self.damaged(format!(
                    "uses Parquet encoding {other}, which is not read here: write it plain or with a dictionary"
                )));
            }
        };
        self.rows_left -= header.values;
        self.row += header.values;
        Ok(Page::DataPage {
            buf,
            num_values: header.values as u32,
            encoding,
            def_level_encoding: Encoding::RLE,
            rep_level_encoding: Encoding::RLE,
            statistics: None,
        })
    }

    /// Takes the definition levels off an older data page, once they say that no value is missing.
    fn strip_levels(&self, header: &Header, body: &Bytes) -> Result<Bytes> {
        // A page of no values may have no levels either.
        if header.values == 0 {
            return Ok(Bytes::new());
        }
        let unusable = || self.damaged("has a page whose levels do not fit it");
        let (len, _) = body.split_first_chunk::<4>().ok_or_else(unusable)?;
        let end = 4usize
            .checked_add(u32::from_le_bytes(*len) as usize)
            .filter(|&e| e <= body.len())
            .ok_or_else(unusable)?;
        self.check_present(&body[4..end], header.values)?;
        Ok(body.slice(end..))
    }

    fn check_present(&self, levels: &[u8], values: u64) -> Result<()> {
        match first_missing(levels, values) {
            Some(None) => Ok(()),
            Some(Some(missing)) => Err(self.fault(TraceError::Inconsistent {
                file: self.input.label().to_owned(),
                row: Some(self.row + missing),
                what: format!("column `{}` has no value", self.shape.name),
            })),
            None => Err(self.damaged("has a page whose levels do not fit it")),
        }
    }

    fn decompress(&self, body: &Bytes, size: u64) -> Result<Bytes> {
        let size = size as usize;
        let done = match self.codec {
            Codec::None => Some(body.clone()),
            // An empty page may be stored as zero bytes, which no decompressor accepts.
            _ if size == 0 => Some(Bytes::new()),
            Codec::Snappy => {
                let mut out = vec![0; size];
                let n = snap::raw::Decoder::new().decompress(body, &mut out).ok();
                n.map(|n| Bytes::from(out).slice(..n))
            }
            Codec::Zstd => {
                let mut out = Vec::with_capacity(size);
                // Each use begins anew, so one that panicked leaves nothing behind.
                let mut shared = self.zstd.lock().unwrap_or_else(PoisonError::into_inner);
                let decompressor = match &mut *shared {
                    Some(decompressor) => decompressor,
                    none => {
                        none.insert(zstd::bulk::Decompressor::new().map_err(|e| self.damaged(e.to_string()))?)
                    }
                };
                // Output that does not fit `out` is an error, so a page cannot grow beyond its header's claim.
                decompressor.decompress_to_buffer(body, &mut out).ok().map(|_| Bytes::from(out))
            }
        };
        done.filter(|d| d.len() == size).ok_or_else(|| self.damaged("has a page that cannot be decompressed"))
    }
}

/// Finds the first of `values` definition levels that is zero; `None` when the levels end too early.
fn first_missing(mut levels: &[u8], values: u64) -> Option<Option<u64>> {
    let mut at = 0u64;
    while at < values {
        let mut head = 0u64;
        let mut shift = 0u32;
        loop {
            let (&byte, rest) = levels.split_first()?;
            levels = rest;
            head |= u64::from(byte & 0x7f).checked_shl(shift).unwrap_or(0);
            if byte & 0x80 == 0 {
                break;
            }
            shift += 7;
            if shift > 35 {
                return None;
            }
        }
        if head & 1 == 0 {
            // A run of one level.
            let (&level, rest) = levels.split_first()?;
            levels = rest;
            if level & 1 == 0 && head > 1 {
                return Some(Some(at));
            }
            at += head >> 1;
        } else {
            // Groups of eight levels, a bit each.
            for _ in 0..head >> 1 {
                if at >= values {
                    break;
                }
                let (&bits, rest) = levels.split_first()?;
                levels = rest;
                let missing = u64::from(bits.trailing_ones());
                if missing < 8 && at + missing < values {
                    return Some(Some(at + missing));
                }
                at += 8;
            }
        }
    }
    Some(None)
}

impl Iterator for Pages {
    type Item = Result<Page>;

    fn next(&mut self) -> Option<Self::Item> {
        self.page().transpose()
    }
}

impl PageReader for Pages {
    fn get_next_page(&mut self) -> Result<Option<Page>> {
        self.page()
    }

    fn peek_next_page(&mut self) -> Result<Option<PageMetadata>> {
        Err(ParquetError::General("pages are read in order".to_owned()))
    }

    fn skip_next_page(&mut self) -> Result<()> {
        Err(ParquetError::General("pages are read in order".to_owned()))
    }

    fn at_record_boundary(&mut self) -> Result<bool> {
        Ok(true)
    }
}

#[derive(Clone, Copy, Debug)]
enum PageKind {
    Data,
    DataV2 { definition: u64, compressed: bool },
    Dictionary,
    Index,
}

#[derive(Clone, Copy, Debug)]
struct Header {
    kind: PageKind,
    uncompressed: u64,
    compressed: u64,
    values: u64,
    encoding: i64,
}

impl Header {
    fn from_tree(tree: &Value<'_>) -> Option<Header> {
        let (kind, detail) = match tree.int(1)? {
            0 => (PageKind::Data, tree.field(5)?),
            1 => (PageKind::Index, tree),
            2 => (PageKind::Dictionary, tree.field(7)?),
            3 => {
                let detail = tree.field(8)?;
                // Only lists have repetition levels.
                if detail.count(6)? != 0 {
                    return None;
                }
                (
                    PageKind::DataV2 {
                        definition: detail.count(5)?,
                        compressed: detail.bool(7).unwrap_or(true),
                    },
                    detail,
                )
            }
            _ => return None,
        };
        let encoding = match kind {
            PageKind::DataV2 { .. } => detail.int(4)?,
            PageKind::Index => 0,
            _ => detail.int(2)?,
        };
        // Levels of older pages come in two encodings; nothing has written the other since 2013.
        if matches!(kind, PageKind::Data) && detail.int(3)? != 3 {
            return None;
        }
        Some(Header {
            kind,
            uncompressed: tree.count(2)?,
            compressed: tree.count(3)?,
            values: if matches!(kind, PageKind::Index) { 0 } else { detail.count(1)? },
            encoding,
        })
    }
}

// The decoders hold their readers behind `dyn`; this keeps a mistake there from reaching callers on other threads.
const _: fn() = || {
    fn is_send<T: Send>() {}
    is_send::<Pages>();
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_values_are_found_in_both_kinds_of_runs() {
        assert_eq!(first_missing(&[20, 1], 10), Some(None));
        assert_eq!(first_missing(&[10, 1, 10, 0], 10), Some(Some(5)));
        assert_eq!(first_missing(&[3, 0xff, 3, 0x03], 10), Some(None));
        assert_eq!(first_missing(&[5, 0xff, 0x01], 10), Some(Some(9)));
    }

    #[test]
    fn levels_that_end_early_or_never_progress_are_refused() {
        assert_eq!(first_missing(&[], 1), None);
        assert_eq!(first_missing(&[0, 1, 0, 1], 1), None);
        assert_eq!(first_missing(&[0xff; 64], 1), None);
        assert_eq!(first_missing(&[5, 0xff], 16), None);
    }
}
