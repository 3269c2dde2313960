//! A trace as a file for other programs' viewers.

mod document;
pub(crate) mod message;
mod perfetto;

pub use document::ExportDocument;
pub use perfetto::{Exported, perfetto};
