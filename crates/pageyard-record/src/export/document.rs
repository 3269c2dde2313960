//! An export as a document.

use super::Exported;
use pageyard_trace::Document;
use serde::Serialize;

/// The file that was made of a trace.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ExportDocument<'a> {
    /// Where the file is.
    pub file: &'a str,
    /// The program that reads it: `perfetto`.
    pub format: &'static str,
    /// Its contents.
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
        ExportDocument { file, format: "perfetto", contents: *self }
    }
}
