//! An export as a document.

use super::llfree::ForLlfree;
use super::perfetto::ForPerfetto;
use pageyard_trace::Document;
use serde::Serialize;

/// The contents of a file, by the program that it is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "format", rename_all = "lowercase")]
#[non_exhaustive]
pub enum Exported {
    /// Perfetto.
    Perfetto(ForPerfetto),
    /// LLFree's replay.
    Llfree(ForLlfree),
}

/// The file that was made of a trace.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ExportDocument<'a> {
    /// Where the file is.
    pub file: &'a str,
    /// The program that reads it, and what the file holds.
    #[serde(flatten)]
    pub contents: Exported,
}

impl Document for ExportDocument<'_> {
    const SCHEMA: &'static str = "pageyard.export/1";
}

impl Exported {
    /// Returns the export as a document: `file` is where it went.
    #[must_use]
    pub fn document<'a>(&self, file: &'a str) -> ExportDocument<'a> {
        ExportDocument { file, contents: *self }
    }
}
