//! The summary of several comparisons, as text and as JSON.

use crate::verdict::{Covered, Explanation, LEFT_OUT, Verdict};
use serde::Serialize;
use std::fmt;

/// One comparison.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// The set of settings, or the file, that was compared.
    pub name: String,
    /// The kernel's release.
    pub release: String,
    /// The outcome.
    #[serde(flatten)]
    pub verdict: Verdict,
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Row { name, release, verdict } = self;
        let said = verdict.first_difference.as_deref().unwrap_or("equal");
        write!(f, "{release}, {name}: {} operations: {said}", verdict.operations)?;
        match &verdict.explanation {
            Some(Explanation { rule, operations }) => {
                write!(f, "\n  {operations} operations are equal with {rule}")
            }
            None => Ok(()),
        }
    }
}

/// All comparisons.
#[derive(Clone, Debug, Serialize)]
pub struct Report<'a> {
    /// The version of this document.
    pub version: u32,
    /// The kernel's release; several are parted by commas.
    pub kernel: String,
    /// Operations that were compared.
    pub operations: u64,
    /// Whether everything was equal.
    pub equal: bool,
    /// The first difference.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_difference: Option<&'a str>,
    /// The paths that the operations took.
    pub covered: Covered,
    /// The state that is not compared.
    pub left_out: [&'static str; LEFT_OUT.len()],
    /// Each comparison.
    pub rows: &'a [Row],
}

impl<'a> Report<'a> {
    /// Sums up.
    #[must_use]
    pub fn new(rows: &'a [Row]) -> Report<'a> {
        let mut releases: Vec<&str> = rows.iter().map(|r| r.release.as_str()).collect();
        releases.sort_unstable();
        releases.dedup();
        let mut covered = Covered::default();
        rows.iter().for_each(|row| covered.add(&row.verdict.covered));
        Report {
            version: 1,
            kernel: releases.join(", "),
            operations: rows.iter().map(|r| r.verdict.operations).sum(),
            equal: rows.iter().all(|r| r.verdict.equal),
            first_difference: rows.iter().find_map(|r| r.verdict.first_difference.as_deref()),
            covered,
            left_out: LEFT_OUT,
            rows,
        }
    }
}

impl fmt::Display for Report<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let equal = self.rows.iter().filter(|r| r.verdict.equal).count();
        writeln!(
            f,
            "{} operations on {}; {equal} of {} runs equal in every frame, list and counter",
            self.operations,
            self.kernel,
            self.rows.len()
        )?;
        write!(f, "met on the way: {}", self.covered)
    }
}
