//! States as a JSON document.

use super::bank::{BANK, Level, State};
use super::degree::{Degree, Measured};
use super::make::make;
use super::memory::Memory;
use super::trace::StateTrace;
use crate::error::BenchError;
use pageyard_trace::text::{Grid, percent};
use serde::Serialize;

/// States, as they were asked for and as they came out.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StatesDocument {
    /// The states, each in the degrees that were asked for.
    pub states: Vec<StateRow>,
}

/// A state in one degree.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StateRow {
    /// Its name; `recorded` for the state of a recorded host.
    pub state: &'static str,
    /// The use of memory that it imitates.
    pub imitates: &'static str,
    /// Its degree: `low`, `middle` or `high`; left out where it comes from a recording.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub degree: Option<&'static str>,
    /// The figures asked for; left out where it comes from a recording.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub asked: Option<Degree>,
    /// Bytes of memory, where it was made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
    /// The figures that it has, where it was made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub measured: Option<Measured>,
    /// How far the figure that is furthest from what was asked for is off, where both are known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub off_pct: Option<f64>,
}

impl pageyard_trace::Document for StatesDocument {
    const SCHEMA: &'static str = "pageyard.states/1";
}

impl StateRow {
    /// Describes a state of the bank that was not made.
    #[must_use]
    pub fn listed(state: &State, level: Level) -> StateRow {
        StateRow {
            state: state.name,
            imitates: state.imitates,
            degree: Some(level.name()),
            asked: Some(state.asked(level)),
            memory_bytes: None,
            measured: None,
            off_pct: None,
        }
    }

    /// Describes the state of a recorded host, not measured yet.
    #[must_use]
    pub fn recorded() -> StateRow {
        StateRow {
            state: "recorded",
            imitates: "the whole pageblocks of a recorded host",
            degree: None,
            asked: None,
            memory_bytes: None,
            measured: None,
            off_pct: None,
        }
    }

    /// Adds what memory in that state measures.
    pub fn add(&mut self, memory: &Memory, measured: Measured) {
        self.memory_bytes = Some(memory.frames().as_bytes());
        self.off_pct = self.asked.map(|asked| asked.off(&measured.degree) * 100.0);
        self.measured = Some(measured);
    }
}

impl StatesDocument {
    /// Lists all states; with a size in bytes and a seed, makes and measures each.
    ///
    /// # Errors
    /// As [`make`].
    pub fn all(made: Option<(u64, u64)>) -> Result<StatesDocument, BenchError> {
        let mut states = Vec::new();
        for (state, level) in BANK.iter().flat_map(|state| Level::ALL.map(|level| (state, level))) {
            let mut row = StateRow::listed(state, level);
            if let Some((bytes, seed)) = made {
                let memory = make(state, level, bytes, seed)?;
                row.add(&memory, StateTrace::of(&memory, seed)?.measure()?);
            }
            states.push(row);
        }
        Ok(StatesDocument { states })
    }

    /// Writes the states as text: a table, and what each imitates.
    #[must_use]
    pub fn text(&self) -> String {
        let mut grid =
            Grid::new(["state", "degree", "free", "unusable index", "with unmovable frames", "off"]);
        for row in &self.states {
            let got = row.measured.as_ref().map(|measured| measured.degree);
            let cell = |figure: fn(&Degree) -> String| {
                let both = [row.asked.as_ref(), got.as_ref()].into_iter().flatten();
                both.map(figure).collect::<Vec<_>>().join(" -> ")
            };
            let off = row.off_pct.map_or("-".to_owned(), |pct| percent(pct / 100.0));
            grid.row([
                row.state.to_owned(),
                row.degree.unwrap_or("-").to_owned(),
                cell(|d| percent(d.free_share)),
                cell(|d| format!("{:.3}", d.unusable_index)),
                cell(|d| percent(d.unmovable_pageblock_share)),
                off,
            ]);
        }
        let mut text =
            format!("{grid}\n  unusable index: of order 9; with unmovable frames: of the pageblocks; ");
        text.push_str("asked -> measured\n\n");
        for rows in self.states.chunk_by(|a, b| a.state == b.state) {
            text.push_str(&format!("  {:<20}{}\n", rows[0].state, rows[0].imitates));
        }
        text
    }
}
