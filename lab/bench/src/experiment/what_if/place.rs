//! Where settings are tried.

use super::load::Load;
use super::setting::Baseline;
use pageyard_replay::what_if::Figures;
use std::path::PathBuf;

/// A machine on which loads are recorded and counted, each time from the same state.
pub trait TestMachine {
    /// Returns what rows call it: `host`, or `guest`.
    fn name(&self) -> &'static str;

    /// Returns its kernel's release.
    fn kernel(&self) -> &str;

    /// Returns what its settings are.
    fn baseline(&self) -> &Baseline;

    /// Records a load, with one setting changed or none, and returns where the trace is.
    ///
    /// # Errors
    /// One sentence.
    fn record(&mut self, load: &Load, setting: Option<(&str, &str)>) -> Result<PathBuf, String>;

    /// Counts a load, with one setting changed or none.
    ///
    /// # Errors
    /// One sentence.
    fn count(&mut self, load: &Load, setting: Option<(&str, &str)>) -> Result<Figures, String>;
}
