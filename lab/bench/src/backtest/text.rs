//! The table as text of 78 columns, for a mail.

use super::document::{Backtest, ClaimRow, PatchDocument};
use super::machines::Built;
use pageyard_replay::what_if::Sign;
use std::fmt::Write;

/// The widest line of a mail that is quoted once or twice.
const WIDTH: usize = 78;

/// Above the columns: what was predicted and what was measured.
const HEAD: [&str; 2] = [
    "                    claim |    predicted by replays |                measured",
    "                          |  before    after        |  before    after",
];

/// Returns a paragraph, with its end of line. What does not fit, such as a path, sticks out.
fn wrapped(paragraph: &str) -> String {
    let options = textwrap::Options::new(WIDTH).break_words(false).subsequent_indent("  ");
    textwrap::fill(paragraph, options) + "\n"
}

fn mark(sign: Sign) -> &'static str {
    match sign {
        Sign::Down => "less",
        Sign::None => "same",
        Sign::Up => "more",
    }
}

/// Returns a figure in few digits.
fn number(value: f64) -> String {
    if value.abs() < 100.0 { format!("{value:.1}") } else { format!("{value:.0}") }
}

impl Backtest {
    /// Writes the table.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = format!("Backtest of {}: {}\n\n", self.name, self.about);
        let mut line = |line: &str| text.push_str(&wrapped(line));
        line(&match self.kernels.is_empty() {
            true => "Predicted from the recordings below; nothing was measured.".to_owned(),
            false => format!(
                "{} recordings and {} runs of each kernel, each in a guest of its own ({}), on: {}.",
                self.runs, self.runs, self.guest, self.machine
            ),
        });
        line(&format!("Made by version {} of: {}", self.made.version, self.made.command));
        line(&format!(
            "Predictions took {:.0} s, were written down before the first measured run, and have the hash {}.",
            self.prediction_seconds, self.predictions_hash
        ));
        for (name, release) in self.kernels.iter().filter(|(_, release)| !release.is_empty()) {
            let built = self.built.iter().find(|built| built.kernel == name).map(Built::how);
            line(&format!("{name} is {release}{}.", built.unwrap_or_default()));
        }
        for patch in &self.patches {
            patch.write(&mut text);
        }
        if self.patches.iter().flat_map(|patch| &patch.claims).any(|row| row.ran_short) {
            text.push('\n');
            text.push_str(&wrapped(
                "s: replays with the patch are short of memory more or less often than those without, so this is predicted \
                 with reclaim of the engine's own.",
            ));
        }
        let score = self.score;
        text.push('\n');
        let mut line = |line: &str| text.push_str(&wrapped(line));
        line(&format!(
            "Signs predicted: {} of {} of what requests decide, {} of {} of what reclaim decides (r). Claims seen here: {} \
             of {}.",
            score.by_requests_right,
            score.by_requests,
            score.by_reclaim_right,
            score.by_reclaim,
            score.claims_seen,
            score.claims
        ));
        line(
            "A change counts from 5 % and a floor on, where 95 % of redrawn recordings or runs have its sign. A kernel \
             differs from the one before it in more than a patch. No replay shows what a load would have asked for \
             otherwise.",
        );
        for recording in &self.recordings {
            line(&format!("{} {}", recording.rows_hash, recording.trace));
        }
        self.notes.iter().for_each(|note| line(&format!("Note: {note}")));
        text
    }
}

impl Built {
    /// Returns what its sources are and which patch was applied, behind its name.
    fn how(&self) -> String {
        let with = match (&self.patch, &self.patch_hash) {
            (Some(patch), Some(hash)) => format!("with {patch} ({hash})"),
            _ => "without a patch".into(),
        };
        format!(", built from {} {with}", self.sources)
    }
}

impl PatchDocument {
    fn write(&self, text: &mut String) {
        let _ = write!(text, "\n{}\n  {}\n", wrapped(self.subject).trim_end(), self.posted);
        let _ =
            writeln!(text, "  {} -> {}, {}\n{}\n{}", self.before, self.after, self.load, HEAD[0], HEAD[1]);
        self.claims.iter().for_each(|row| row.write(text));
    }
}

impl ClaimRow {
    fn write(&self, text: &mut String) {
        let by = match (self.decided_by_requests, self.ran_short) {
            (true, false) => ' ',
            (true, true) => 's',
            (false, _) => 'r',
        };
        let _ = write!(text, "{:<17}{by} {:>6} |", self.figure.name(), mark(self.claimed));
        let cell = |of: Option<(f64, f64, Sign)>| match of {
            Some((before, after, sign)) => {
                format!("{:>8} {:>8} {:>6}", number(before), number(after), mark(sign))
            }
            None => format!("{:>8} {:>8} {:>6}", "-", "-", "-"),
        };
        let predicted = cell(self.predicted.map(|p| (p.before, p.after, p.sign)));
        let measured = cell(self.measured.map(|m| (m.before, m.after, m.sign)));
        let _ = writeln!(text, "{predicted} |{measured}");
    }
}
