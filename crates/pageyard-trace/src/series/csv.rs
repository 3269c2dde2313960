//! A table of comma-separated values, as RFC 4180 has them, with plain line ends.

use std::fmt::Write as _;
use std::fs;
use std::io::{BufWriter, Write};
use std::path::Path;

use super::column::{Cell, Column};
use crate::error::TraceError;
use crate::writer::refused;

/// A file that is being written.
pub(super) struct File {
    file: BufWriter<fs::File>,
    label: String,
    line: String,
}

impl File {
    pub(super) fn create(path: &Path, label: &str, columns: &[Column]) -> Result<File, TraceError> {
        let file = fs::File::create_new(path).map_err(|e| refused(label, &e))?;
        let mut file = File { file: BufWriter::new(file), label: label.to_owned(), line: String::new() };
        let names: Vec<Cell<'_>> = columns.iter().map(|(name, _)| Cell::Name(name)).collect();
        file.row(&names)?;
        Ok(file)
    }

    pub(super) fn row(&mut self, cells: &[Cell<'_>]) -> Result<(), TraceError> {
        self.line.clear();
        for (i, cell) in cells.iter().enumerate() {
            if i > 0 {
                self.line.push(',');
            }
            match cell {
                Cell::Count(n) => _ = write!(self.line, "{n}"),
                Cell::Number(x) | Cell::NumberIfKnown(Some(x)) => _ = write!(self.line, "{x}"),
                Cell::NumberIfKnown(None) => {}
                Cell::Flag(is) => _ = write!(self.line, "{is}"),
                Cell::Name(text) if text.contains(['"', ',', '\n', '\r']) => {
                    _ = write!(self.line, "\"{}\"", text.replace('"', "\"\""));
                }
                Cell::Name(text) => self.line.push_str(text),
            }
        }
        self.line.push('\n');
        self.file.write_all(self.line.as_bytes()).map_err(|e| refused(&self.label, &e))
    }

    pub(super) fn finish(self) -> Result<(), TraceError> {
        let File { file, label, .. } = self;
        let file = file.into_inner().map_err(|e| refused(&label, e.error()))?;
        file.sync_all().map_err(|e| refused(&label, &e))
    }
}
