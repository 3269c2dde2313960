//! A line being told: what it is now, and what is kept of it.

use super::blame::Blame;
use super::chunk::Chunks;
use super::keyframes::Keyframes;
use super::line::{Counters, Line};
use super::owners::RecordingIndex;
use super::pack::Told;
use super::segments::Gathered;
use crate::text::count;
use std::cell::RefCell;

/// A line being told.
pub struct Telling<'a> {
    /// The line.
    pub line: Line<'a>,
    gathered: Gathered,
    keyframes: Keyframes<'a>,
}

impl<'a> Telling<'a> {
    /// Begins with the opening. Another line's keyframes, which has the same opening, say when to take these.
    pub fn begin(
        line: Line<'a>,
        chunks: &'a RefCell<Chunks>,
        another: Option<&Keyframes<'a>>,
    ) -> Telling<'a> {
        let keyframes = another.map_or_else(|| Keyframes::begin(chunks, &line), Keyframes::of_another);
        Telling { gathered: Gathered::begin(&line.states), keyframes, line }
    }

    /// Returns its keyframes.
    pub fn keyframes(&self) -> &Keyframes<'a> {
        &self.keyframes
    }

    /// Ends a moment.
    pub fn end(&mut self, counters: Counters) {
        self.line.end(counters, &mut self.gathered);
        self.keyframes.see(&self.line);
    }

    /// Returns whether it has more changes than `most`, and can be halved now.
    pub fn is_crowded(&self, most: usize) -> bool {
        self.gathered.len() > most && self.line.moment() % 2 == 1 && self.line.moment() > 2
    }

    /// Drops every other moment.
    pub fn halve(&mut self) {
        self.line.halve();
        self.keyframes.halve();
        self.gathered.halve();
    }

    /// Packs what was gathered, and says what the line does not have.
    pub fn finish(
        self,
        id: String,
        kind: &'static str,
        of: RecordingIndex,
        chunks: &RefCell<Chunks>,
        left_out: &mut Vec<String>,
    ) -> Told {
        let Telling { line, gathered, keyframes } = self;
        if line.unmarked > 0 {
            left_out.push(format!(
                "{} markers of {id}: of each kind the first two of a moment are kept; the figures count all.",
                count(line.unmarked)
            ));
        }
        Told {
            id,
            kind,
            of,
            duration_ns: None,
            segments: gathered.pack(chunks, line.moments.count - 1),
            keyframes: keyframes.taken,
            blame: Blame::of(&line),
            figures: line.figures,
            markers: line.markers,
        }
    }
}
