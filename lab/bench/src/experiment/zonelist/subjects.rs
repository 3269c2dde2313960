//! The measured subjects, by name, and the machines that they run on.

use crate::error::BenchError;
use crate::experiment::machines::{Reference, reference, reference_subject, regions};
use crate::experiment::settings::Settings;

/// The reference, and the knob that the document is about.
pub(super) const PRESET: &str = "linux-4.6";
pub(super) const POINT: &str = "zonelist_iterator";

pub(super) const CALLED: &str = "reference:called";
pub(super) const INLINED: &str = "reference:inlined";
pub(super) const ENGINE: &str = "pageyard";
pub(super) const ONE_ZONE: &str = "pageyard:one-zone";
pub(super) const STATINLINE: &str = "published:statinline";
pub(super) const OPTITER: &str = "published:optiter";

/// The nodes simulated, of three zones each.
pub(super) const NODES: [u8; 4] = [1, 2, 4, 8];

/// Makes a reference with the iterator in one form.
pub(super) fn machine(iterator: &str, nodes: u8, settings: &Settings) -> Result<Reference, BenchError> {
    let config = settings.linux(PRESET, &[(POINT, iterator)])?;
    Ok(reference_subject(CALLED, reference(&regions(nodes), &config)?))
}
