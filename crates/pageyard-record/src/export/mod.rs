//! A trace as a file for other programs' viewers.

mod document;
mod perfetto;

pub use document::ExportDocument;
pub use perfetto::{Exported, perfetto};
