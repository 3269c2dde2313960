//! Helpers that the parsers share: words of a line, and errors that name it.

use std::str::SplitWhitespace;

use crate::error::TraceError;
use crate::snapshot::MAX_FRAMES;
use crate::text::quoted;

/// More zones than any machine has; a text with more is not Linux's.
pub(super) const MAX_ZONES: usize = 4096;

/// The longest name of a zone or a migratetype. Linux's own have up to 11 characters.
const MAX_NAME: usize = 32;

/// One line of a text.
#[derive(Clone, Copy)]
pub(super) struct Line<'a> {
    file: &'static str,
    number: usize,
    pub(super) text: &'a str,
}

/// Iterates over the lines that are not empty.
pub(super) fn lines<'a>(file: &'static str, text: &'a str) -> impl Iterator<Item = Line<'a>> {
    text.lines()
        .enumerate()
        .map(move |(i, text)| Line { file, number: i + 1, text })
        .filter(|l| !l.text.trim().is_empty())
}

impl<'a> Line<'a> {
    /// Makes an error about this line.
    pub(super) fn error(&self, what: impl Into<String>) -> TraceError {
        TraceError::Text { file: self.file, line: self.number, what: what.into() }
    }

    /// Reads a number.
    pub(super) fn number(&self, word: Option<&str>) -> Result<u64, TraceError> {
        let word = word.ok_or_else(|| self.error("a number is missing: the text is cut short"))?;
        word.parse().map_err(|_| self.error(format!("`{}` is not a number", quoted(word.as_bytes()))))
    }

    /// Reads a number of frames.
    pub(super) fn frames(&self, word: Option<&str>) -> Result<u64, TraceError> {
        let frames = self.number(word)?;
        if frames > MAX_FRAMES {
            return Err(self.error(format!("{frames} frames are more than any machine has")));
        }
        Ok(frames)
    }

    /// Reads numbers of free blocks by order, order 0 first.
    pub(super) fn blocks(&self, words: SplitWhitespace<'a>) -> Result<Vec<u64>, TraceError> {
        let mut counts = Vec::new();
        for (order, word) in words.enumerate() {
            if order >= pageyard::NR_ORDERS {
                return Err(self.error(format!("it has more than {} orders", pageyard::NR_ORDERS)));
            }
            let n = self.number(Some(word))?;
            if n > MAX_FRAMES >> order {
                return Err(
                    self.error(format!("{n} free blocks of order {order} are more than any machine has"))
                );
            }
            counts.push(n);
        }
        if counts.is_empty() {
            return Err(self.error("it has no counts: the text is cut short"));
        }
        Ok(counts)
    }

    /// Reads `Node 0, zone   Normal` and returns the node, the zone's name, and the words after it.
    pub(super) fn zone(&self) -> Result<(u8, &'a str, SplitWhitespace<'a>), TraceError> {
        let mut words = self.text.split_whitespace();
        let node = match (words.next(), words.next().and_then(|w| w.strip_suffix(','))) {
            (Some("Node"), Some(node)) => node.parse().ok(),
            _ => None,
        };
        match (node, words.next(), words.next()) {
            (Some(node), Some("zone"), Some(name)) => {
                Ok((node, self.name(name.strip_suffix(',').unwrap_or(name))?, words))
            }
            _ => Err(self.error("it does not start like `Node 0, zone Normal`")),
        }
    }

    /// Checks the name of a zone or a migratetype: it is printed in tables, beside this crate's own text.
    pub(super) fn name(&self, name: &'a str) -> Result<&'a str, TraceError> {
        if name.len() <= MAX_NAME && name.bytes().all(|b| b.is_ascii_graphic()) {
            Ok(name)
        } else {
            Err(self.error(format!("`{}` is not a name that Linux gives", quoted(name.as_bytes()))))
        }
    }
}
