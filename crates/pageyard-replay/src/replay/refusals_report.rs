//! Refusals as a part of the document, and as text.

use super::refusals::{Refusal, RefusalCounts, Refusals};
use crate::text::count;
use pageyard_trace::failures::{FAILURE_HEADINGS, KIND_HEADINGS, KINDS_SHOWN};
use pageyard_trace::text::Grid;
use pageyard_trace::{FAILURES_SHOWN, FailureDocument, FailureKindDocument};
use serde::{Serialize, Serializer};
use std::fmt;

/// Refusals in the text in full, and kinds of them.
const IN_TEXT: usize = 10;

/// The requests that the engine refused, and those that only the host refused.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RefusalsDocument<'a> {
    /// How often that happened.
    #[serde(flatten)]
    pub counts: RefusalCounts,
    /// Refusals here that are not in `first`.
    pub left_out: u64,
    /// The first refusals here, in order of time.
    pub first: Vec<RefusalDocument<'a>>,
    /// How many kinds there are.
    pub kinds: usize,
    /// Those that are not in `by_kind`.
    pub kinds_left_out: usize,
    /// The kinds, the most frequent refusals here first.
    pub by_kind: Vec<RefusalsOfKindDocument>,
}

/// A request that the engine refused.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RefusalDocument<'a> {
    /// The request. Its free blocks are those on the free lists of the zones that it may use, and the reason is the
    /// engine's.
    #[serde(flatten)]
    pub request: FailureDocument<'a>,
    /// Whether the host refused it too.
    pub refused_on_host: bool,
}

/// A kind of request, and how often it was refused.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RefusalsOfKindDocument {
    /// The kind of request and its caller.
    #[serde(flatten)]
    pub kind: FailureKindDocument,
    /// How often.
    #[serde(flatten)]
    pub counts: RefusalCounts,
}

impl Refusals {
    /// Returns the refusals as a part of a document.
    fn document(&self) -> RefusalsDocument<'_> {
        let (counts, by_kind) = (self.counts, self.kinds.most_frequent(KINDS_SHOWN));
        let first = &self.first[..self.first.len().min(FAILURES_SHOWN)];
        RefusalsDocument {
            counts,
            left_out: counts.count - first.len() as u64,
            first: first.iter().map(|refusal| refusal.document(self)).collect(),
            kinds: self.kinds.len(),
            kinds_left_out: self.kinds.len() - by_kind.len(),
            by_kind: by_kind
                .into_iter()
                .map(|(kind, counts)| RefusalsOfKindDocument { kind: kind.document(&self.gfp), counts })
                .collect(),
        }
    }
}

impl Serialize for Refusals {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.document().serialize(serializer)
    }
}

impl Refusal {
    fn document(&self, of: &Refusals) -> RefusalDocument<'_> {
        RefusalDocument { request: self.request.document(&of.gfp), refused_on_host: self.on_host_too }
    }
}

impl Refusals {
    /// Writes which requests were refused, here or on the host.
    pub(super) fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.kinds.is_empty() {
            return Ok(());
        }
        let kinds = self.kinds.most_frequent(IN_TEXT);
        write!(f, "    by kind: how often refused here alone, here and on the host, on the host alone")?;
        if kinds.len() < self.kinds.len() {
            write!(f, "; the first {} of {} kinds", kinds.len(), count(self.kinds.len() as u64))?;
        }
        writeln!(f)?;
        let mut grid = Grid::new(KIND_HEADINGS.into_iter().chain(["here", "both", "host"]));
        for (kind, counts) in &kinds {
            let times = [counts.refused_here_only, counts.refused_on_host_too, counts.refused_on_host_only]
                .map(count);
            grid.row(kind.cells(&self.gfp).into_iter().chain(times));
        }
        indented(&grid, f)?;
        let first = &self.first[..self.first.len().min(IN_TEXT)];
        if first.is_empty() {
            return Ok(());
        }
        let which = match first.len() as u64 {
            shown if shown < self.counts.count => format!("the first {shown}, one by one"),
            _ => "one by one".to_owned(),
        };
        writeln!(
            f,
            "    {which}: free on the free lists of the zones that the request may use, and blocks of its order that this makes"
        )?;
        let mut grid = Grid::new(FAILURE_HEADINGS.into_iter().chain(["host"]));
        for refusal in first {
            let host = if refusal.on_host_too { "refused" } else { "served" };
            grid.row(refusal.request.cells(&self.gfp).into_iter().chain([host.to_owned()]));
        }
        indented(&grid, f)
    }
}

fn indented(grid: &Grid, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    grid.to_string().lines().try_for_each(|line| writeln!(f, "    {line}"))
}
