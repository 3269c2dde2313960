//! A trace as a file for other programs.

mod document;
mod llfree;
mod perfetto;
#[cfg(test)]
mod tests;
mod text;

pub use document::{ExportDocument, Exported};
pub use llfree::{ForLlfree, llfree};
pub use perfetto::{ForPerfetto, perfetto};
