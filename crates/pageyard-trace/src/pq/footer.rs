//! The end of a Parquet file: its schema, and where each column's bytes are.

use crate::error::TraceError;
use crate::source::Input;
use crate::text::quoted;

use super::thrift::{self, Value};
use super::{FREE_ROWS, MAX_FOOTER_BYTES, MAX_ROWS_PER_BYTE};

/// The four bytes at either end of a Parquet file.
const MAGIC: &[u8; 4] = b"PAR1";

/// How values are stored, by Parquet's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Physical {
    Bool,
    I32,
    I64,
    Bytes,
    Other(i64),
}

impl Physical {
    fn from_number(n: i64) -> Physical {
        match n {
            0 => Physical::Bool,
            1 => Physical::I32,
            2 => Physical::I64,
            6 => Physical::Bytes,
            n => Physical::Other(n),
        }
    }
}

/// How a chunk is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Codec {
    None,
    Snappy,
    Zstd,
}

/// One column of the schema.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Column {
    pub(crate) name: String,
    pub(crate) physical: Physical,
    /// Bits and sign, where the schema says that the column holds such integers.
    pub(crate) integer: Option<(u8, bool)>,
    pub(crate) nullable: bool,
}

/// Where one column of one row group is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Chunk {
    pub(crate) start: u64,
    pub(crate) len: u64,
    pub(crate) codec: Codec,
}

/// One row group that has rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Group {
    pub(crate) first_row: u64,
    pub(crate) rows: u64,
    /// One chunk for each column of the schema.
    pub(crate) chunks: Vec<Chunk>,
}

/// The footer of a file, checked against the file's size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Footer {
    pub(crate) columns: Vec<Column>,
    pub(crate) groups: Vec<Group>,
    pub(crate) rows: u64,
}

impl Footer {
    /// Reads the footer of `input`.
    pub(crate) fn read(input: &Input) -> Result<Footer, TraceError> {
        let damaged = |what: String| TraceError::Damaged { file: input.label().to_owned(), row: None, what };
        let len = input.size();
        if len < 12 {
            return Err(damaged(format!("{len} bytes are too few for a Parquet file: it is cut short")));
        }
        if input.read(0, 4)?[..] != MAGIC[..] {
            return Err(damaged("this is not a Parquet file".to_owned()));
        }
        let tail = input.read(len - 8, 8)?;
        if tail[4..] != MAGIC[..] {
            return Err(damaged("the end of the Parquet file is missing: it is cut short".to_owned()));
        }
        let size = u64::from(u32::from_le_bytes([tail[0], tail[1], tail[2], tail[3]]));
        if size > MAX_FOOTER_BYTES || size > len - 12 {
            return Err(damaged(format!(
                "the footer claims {size} bytes, which do not fit the file of {len} bytes"
            )));
        }
        let start = len - 8 - size;
        let bytes = input.read(start, size as usize)?;
        let (root, _) =
            thrift::read_struct(&bytes).map_err(|_| damaged("the footer cannot be decoded".to_owned()))?;
        decode(&root, start, len).map_err(damaged)
    }
}

fn decode(root: &Value<'_>, data_end: u64, file_len: u64) -> Result<Footer, String> {
    let columns = schema(root.list(2).ok_or("the footer has no schema")?)?;
    let rows = root.count(3).ok_or("the footer does not say how many rows there are")?;
    if rows > MAX_ROWS_PER_BYTE * file_len + FREE_ROWS {
        return Err(format!("the footer claims {rows} rows, which a file of {file_len} bytes cannot hold"));
    }
    let mut groups = Vec::new();
    let mut first_row = 0u64;
    let mut spans = Vec::new();
    for (index, group) in root.list(4).ok_or("the footer has no row groups")?.iter().enumerate() {
        let group_rows =
            group.count(3).ok_or_else(|| format!("row group {index} does not say how many rows it has"))?;
        // Some writers end a group before its first row; its column positions then mean nothing.
        if group_rows == 0 {
            continue;
        }
        let chunks = group.list(1).ok_or_else(|| format!("row group {index} has no columns"))?;
        if chunks.len() != columns.len() {
            return Err(format!(
                "row group {index} has {} columns and the schema {}",
                chunks.len(),
                columns.len()
            ));
        }
        let mut found = Vec::with_capacity(chunks.len());
        for (column, chunk) in columns.iter().zip(chunks) {
            let (chunk, values) = self::chunk(chunk, data_end)
                .map_err(|e| format!("column `{}` of row group {index} {e}", column.name))?;
            if values != group_rows {
                return Err(format!(
                    "column `{}` of row group {index} has {values} values and the row group {group_rows} rows",
                    column.name
                ));
            }
            spans.push((chunk.start, chunk.start + chunk.len));
            found.push(chunk);
        }
        groups.push(Group { first_row, rows: group_rows, chunks: found });
        first_row = first_row.saturating_add(group_rows);
    }
    if first_row != rows {
        return Err(format!("the row groups have {first_row} rows and the footer claims {rows}"));
    }
    // Chunks that share bytes could make a small file take any amount of work.
    spans.sort_unstable();
    if spans.windows(2).any(|w| w[0].1 > w[1].0) {
        return Err("two columns claim the same bytes".to_owned());
    }
    Ok(Footer { columns, groups, rows })
}

fn schema(elements: &[Value<'_>]) -> Result<Vec<Column>, String> {
    let (root, leaves) = elements.split_first().ok_or("the schema is empty")?;
    if root.count(5) != Some(leaves.len() as u64) {
        return Err("the schema is not a flat table".to_owned());
    }
    leaves
        .iter()
        .map(|leaf| {
            let name = quoted(leaf.bytes(4).ok_or("a column has no name")?);
            if leaf.int(5).unwrap_or(0) != 0 {
                return Err(format!("column `{name}` is nested, and a trace's columns are not"));
            }
            let nullable = match leaf.int(3) {
                Some(0) => false,
                Some(1) => true,
                _ => return Err(format!("column `{name}` holds lists, and a trace's columns do not")),
            };
            let physical =
                Physical::from_number(leaf.int(1).ok_or_else(|| format!("column `{name}` has no type"))?);
            Ok(Column { name, physical, integer: integer(leaf), nullable })
        })
        .collect()
}

/// Reads what a schema element says of integers, in the newer way or the older one.
fn integer(leaf: &Value<'_>) -> Option<(u8, bool)> {
    if let Some(int) = leaf.field(10).and_then(|logical| logical.field(10)) {
        return Some((u8::try_from(int.int(1)?).ok()?, int.bool(2)?));
    }
    match leaf.int(6)? {
        n @ 11..=14 => Some((8 << (n - 11), false)),
        n @ 15..=18 => Some((8 << (n - 15), true)),
        _ => None,
    }
}

fn chunk(chunk: &Value<'_>, data_end: u64) -> Result<(Chunk, u64), String> {
    if chunk.field(1).is_some() {
        return Err("lies in another file".to_owned());
    }
    let meta = chunk.field(3).ok_or("has no description")?;
    let codec = match meta.int(4) {
        Some(0) => Codec::None,
        Some(1) => Codec::Snappy,
        Some(6) => Codec::Zstd,
        _ => return Err("is compressed in a way that is not read here: write it with zstd".to_owned()),
    };
    let values = meta.count(5).ok_or("does not say how many values it has")?;
    let len = meta.count(7).ok_or("does not say how long it is")?;
    let data = meta.count(9).ok_or("does not say where it starts")?;
    // Some writers say 0 where there is no dictionary.
    let start = meta.count(11).filter(|&d| d != 0).map_or(data, |d| d.min(data));
    if start < MAGIC.len() as u64 || start.checked_add(len).is_none_or(|end| end > data_end) {
        return Err(format!("claims {len} bytes at offset {start}, which do not fit the file"));
    }
    Ok((Chunk { start, len, codec }, values))
}
