//! A Parquet file as a table with the columns that the caller expects.

use crate::error::TraceError;
use crate::source::Input;

use super::chunk::ChunkReader;
use super::footer::{Column, Footer, Group, Physical};
use super::names::Names;
use super::pages::{Pages, Shape, Zstd};

/// The type that a column must have.
#[derive(Clone, Debug)]
pub(crate) enum Kind {
    /// Integers of this many bits, signed or not.
    Int(u8, bool),
    /// Booleans.
    Bool,
    /// Names.
    Names(Names),
}

impl Kind {
    fn describe(&self) -> String {
        match self {
            Kind::Int(bits, signed) => integer(*bits, *signed),
            Kind::Bool => "booleans".to_owned(),
            Kind::Names(_) => "strings".to_owned(),
        }
    }

    fn fits(&self, column: &Column) -> bool {
        match self {
            Kind::Int(bits, signed) => {
                let (physical, plain) = match bits {
                    64 => (Physical::I64, (64, true)),
                    _ => (Physical::I32, (32, true)),
                };
                // Writers may leave out what says the same as the physical type.
                column.physical == physical && column.integer.unwrap_or(plain) == (*bits, *signed)
            }
            Kind::Bool => column.physical == Physical::Bool,
            Kind::Names(_) => column.physical == Physical::Bytes,
        }
    }
}

fn integer(bits: u8, signed: bool) -> String {
    format!("{} integers of {bits} bits", if signed { "signed" } else { "unsigned" })
}

fn describe(column: &Column) -> String {
    match (column.physical, column.integer) {
        (Physical::I32 | Physical::I64, Some((bits, signed))) => integer(bits, signed),
        (Physical::I32, None) => integer(32, true),
        (Physical::I64, None) => integer(64, true),
        (Physical::Bool, _) => "booleans".to_owned(),
        (Physical::Bytes, _) => "strings".to_owned(),
        (Physical::Other(n), _) => format!("values of Parquet type {n}"),
    }
}

/// A column that the caller expects.
#[derive(Clone, Debug)]
pub(crate) struct ColumnSpec {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
}

/// A file whose footer was read and found to have the expected columns.
pub(crate) struct Table {
    input: Input,
    specs: Vec<ColumnSpec>,
    /// For each expected column, its index in the file.
    indexes: Vec<usize>,
    footer: Footer,
    zstd: Zstd,
}

impl Table {
    /// Opens a table. Unexpected columns are ignored.
    pub(crate) fn open(input: Input, specs: Vec<ColumnSpec>) -> Result<Table, TraceError> {
        let footer = Footer::read(&input)?;
        let inconsistent =
            |what| TraceError::Inconsistent { file: input.label().to_owned(), row: None, what };
        let mut indexes = Vec::with_capacity(specs.len());
        for spec in &specs {
            let index = footer
                .columns
                .iter()
                .position(|c| c.name == spec.name)
                .ok_or_else(|| inconsistent(format!("column `{}` is missing", spec.name)))?;
            let column = &footer.columns[index];
            if !spec.kind.fits(column) {
                return Err(inconsistent(format!(
                    "column `{}` holds {} and must hold {}",
                    spec.name,
                    describe(column),
                    spec.kind.describe()
                )));
            }
            indexes.push(index);
        }
        Ok(Table { input, specs, indexes, footer, zstd: Zstd::default() })
    }

    /// Returns what messages call the file.
    pub(crate) fn label(&self) -> &str {
        self.input.label()
    }

    /// Returns the number of rows.
    pub(crate) fn rows(&self) -> u64 {
        self.footer.rows
    }

    /// Returns row group `index`, if it exists.
    pub(crate) fn group(&self, index: usize) -> Option<&Group> {
        self.footer.groups.get(index)
    }

    /// Opens expected column `column` of row group `group`.
    pub(crate) fn chunk(&self, group: &Group, column: usize) -> ChunkReader {
        let spec = &self.specs[column];
        let index = self.indexes[column];
        let (width, names) = match &spec.kind {
            Kind::Int(64, _) => (8, None),
            Kind::Int(..) => (4, None),
            Kind::Bool => (0, None),
            Kind::Names(names) => (4, Some(names.clone())),
        };
        let shape = Shape { name: spec.name, nullable: self.footer.columns[index].nullable, width, names };
        let pages = Pages::new(
            self.input.clone(),
            shape,
            group.chunks[index],
            group.first_row,
            group.rows,
            self.zstd.clone(),
        );
        match spec.kind {
            Kind::Int(64, _) => ChunkReader::i64(pages, spec.name),
            Kind::Int(..) | Kind::Names(_) => ChunkReader::i32(pages, spec.name),
            Kind::Bool => ChunkReader::bool(pages, spec.name),
        }
    }

    /// Returns what expected column `column` holds.
    pub(crate) fn kind(&self, column: usize) -> &Kind {
        &self.specs[column].kind
    }

    /// Returns the name of expected column `column`.
    pub(crate) fn column_name(&self, column: usize) -> &'static str {
        self.specs[column].name
    }
}
