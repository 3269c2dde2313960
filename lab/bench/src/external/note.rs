//! The note in a result about rows that were measured elsewhere.

use super::file::External;
use crate::harness::machine::Machine;
use serde::Serialize;

/// Where rows come from that were measured elsewhere.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ExternalNote {
    /// Where they were measured.
    pub machine: Machine,
    /// In what that machine is not like this one, a sentence each. Where there is one, rows have no ratios to those
    /// measured here.
    pub differences: Vec<String>,
    /// Rows of settings that were not measured here.
    pub rows_left_out: usize,
}

impl ExternalNote {
    /// Compares the machine of a file with this one. No row of it is shown yet.
    pub(crate) fn of<R>(external: &External<R>, here: &Machine) -> ExternalNote {
        ExternalNote {
            machine: external.machine.clone(),
            differences: external.differences(here),
            rows_left_out: external.rows.len(),
        }
    }

    /// Counts a row that is shown.
    pub(crate) fn show(&mut self) {
        // A setting that was asked for twice is shown twice.
        self.rows_left_out = self.rows_left_out.saturating_sub(1);
    }

    /// Returns whether ratios of its rows to those of this machine mean anything.
    pub(crate) fn compares(&self) -> bool {
        self.differences.is_empty()
    }
}
