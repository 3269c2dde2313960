//! The doctor's findings as a page of sentences.

use std::fmt;

use pageyard_trace::grouped;

use super::diagnosis::{CauseOfAll, Diagnosis, Failed, Served, Source};
use super::facts::Asked;
use super::trial::Change;

/// Kinds of failures that are listed.
const KINDS: usize = 5;

impl fmt::Display for Diagnosis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write_requests(f)?;
        for (n, cause) in self.causes.iter().enumerate() {
            writeln!(f)?;
            cause.write(f, n + 1, self.source, self.count)?;
        }
        self.write_unexplained(f)?;
        if !self.notes.is_empty() {
            writeln!(f)?;
        }
        for note in &self.notes {
            writeln!(f, "{note}")?;
        }
        Ok(())
    }
}

impl Diagnosis {
    fn write_unexplained(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (all, free) = (self.unexplained, self.unexplained_free);
        if all == 0 {
            return Ok(());
        }
        match self.causes.is_empty() {
            true => write!(f, "\nNo cause is visible")?,
            false => write!(f, "\nFor {} of the failures no cause is visible", grouped(all))?,
        }
        match free {
            0 => write!(f, " in these numbers")?,
            _ if free == all => write!(f, ": by these numbers a block was free above the watermarks")?,
            _ => {
                write!(f, ": for {} a block was free above the watermarks, by these numbers", grouped(free))?
            }
        }
        writeln!(f, ".")?;
        if free > 0 {
            writeln!(
                f,
                "Memory changed before it was described, or a limit that is not shown here (a memory control group) refused it."
            )?;
        }
        Ok(())
    }

    fn write_requests(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kernel = self.kernel.as_deref().map_or_else(String::new, |k| {
            format!(" on {}{k}", if k.starts_with("Linux") { "" } else { "Linux " })
        });
        let when = if self.source == Source::End { "at the end" } else { "now" };
        match (self.source, self.failed.is_empty()) {
            (Source::Host | Source::End, true) => {
                writeln!(f, "Nothing would fail{kernel} {when}, of what was asked:")?;
            }
            (Source::Host | Source::End, false) => {
                writeln!(f, "What would fail{kernel} {when}, before anything is reclaimed or compacted:")?;
            }
            (_, true) => writeln!(f, "No request failed{kernel}.")?,
            (_, false) => writeln!(f, "{}{kernel}:", count(self.count, "failed request"))?,
        }
        for failed in self.failed.iter().take(KINDS) {
            failed.write(f, self.source)?;
        }
        if self.failed.len() > KINDS {
            writeln!(f, "  and {}", count((self.failed.len() - KINDS) as u64, "more kind"))?;
        }
        for Served { asked, in_a_row } in &self.served {
            writeln!(f, "  served {when}, and {} in a row: {}", grouped(*in_a_row), words(asked))?;
        }
        Ok(())
    }
}

impl Failed {
    fn write(&self, f: &mut fmt::Formatter<'_>, source: Source) -> fmt::Result {
        let comm = self.comm.as_deref().map_or_else(String::new, |comm| format!(", while {comm} ran"));
        let killed = if self.asked.killed { ", and a process was killed for it" } else { "" };
        match source {
            Source::Host | Source::End => writeln!(f, "  {}", words(&self.asked)),
            _ => writeln!(f, "  {} of {}{comm}{killed}", grouped(self.count), words(&self.asked)),
        }
    }
}

/// Writes what was asked for.
fn words(asked: &Asked) -> String {
    let waits = if asked.waits() { "can wait" } else { "cannot wait" };
    let frames = match asked.frames() {
        1 => "1 frame".to_owned(),
        n => format!("{} frames in a row", grouped(n)),
    };
    let fallback =
        if asked.gfp.contains(pageyard::Gfp::NOWARN) { ", has something to fall back to" } else { "" };
    format!("order {} ({frames}), {}, {waits}{fallback}", asked.order, asked.names())
}

impl CauseOfAll {
    fn write(&self, f: &mut fmt::Formatter<'_>, number: usize, source: Source, all: u64) -> fmt::Result {
        let seen = if all > 1 && self.failures > 0 {
            format!(", in {} of {} failures", grouped(self.failures), grouped(all))
        } else {
            String::new()
        };
        writeln!(f, "{number}. {} (weight {:.2}{seen})", self.cause.title(), self.weight)?;
        writeln!(f, "   {}", self.evidence)?;
        if let Some(setting) = &self.setting {
            let now = setting.now.as_deref().map_or_else(String::new, |now| format!(", now {now}"));
            match &setting.to {
                Some(to) => writeln!(f, "   Try {}={to}{now}: {}.", setting.name, setting.note)?,
                None => writeln!(f, "   See {}{now}: {}.", setting.name, setting.note)?,
            }
        } else {
            writeln!(f, "   No setting changes that: it takes more memory, or less in use.")?;
        }
        if let Some(predicted) = &self.predicted {
            writeln!(f, "   Gain in the replay: {}.", changes(&predicted.gain))?;
            writeln!(f, "   Cost in the replay: {}.", changes(&predicted.cost))?;
        }
        // Without a recording it is the same for every cause, and stands once.
        match &self.confidence {
            Some(confidence) => writeln!(f, "   Confidence: {}.", confidence.why),
            None if number == 1 => writeln!(f, "   It rests on {}.", source.rests_on()),
            None => Ok(()),
        }
    }
}

fn changes(all: &[Change]) -> String {
    if all.is_empty() {
        return "nothing changes by 5 % or more".to_owned();
    }
    let one = |c: &Change| {
        let sign = if c.change < 0.0 { "-" } else { "+" };
        format!(
            "{} {sign}{} of {}",
            c.figure.words(),
            grouped(c.change.abs() as u64),
            grouped(c.baseline as u64)
        )
    };
    all.iter().map(one).collect::<Vec<_>>().join(", ")
}

fn count(n: u64, noun: &str) -> String {
    format!("{} {noun}{}", grouped(n), if n == 1 { "" } else { "s" })
}
