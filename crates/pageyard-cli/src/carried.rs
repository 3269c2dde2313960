//! The trace that the command carries, so that it has something to show anywhere.

use crate::output::Failure;
use pageyard_trace::Trace;

/// A compile job on a two-core host; `data/README.md` says more.
const BUILD: &[(&str, &[u8])] = &[
    ("meta.json", include_bytes!("../carried/meta.json")),
    ("events.parquet", include_bytes!("../carried/events.parquet")),
    ("before.parquet", include_bytes!("../carried/before.parquet")),
    ("after.parquet", include_bytes!("../carried/after.parquet")),
];

/// Opens a trace, or the carried one.
pub fn open(path: Option<&std::path::Path>) -> Result<Trace, Failure> {
    Ok(match path {
        Some(path) => Trace::open(path)?,
        None => Trace::embedded("build", BUILD)?,
    })
}
