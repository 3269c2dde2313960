//! The doctor's findings as a page of sentences.

use std::fmt;

use pageyard_trace::text::{count, size_of_kib};
use pageyard_trace::{Trust, grouped};

use super::diagnosis::{CauseOfAll, Diagnosis, Failed, Served, Source};
use super::facts::Asked;
use super::report::Report;
use super::rules::{Check, ZoneCheck};
use super::trial::Change;

/// Kinds of failures that are listed.
const KINDS: usize = 5;

/// Zones that are listed of each.
const ZONES: usize = 4;

impl fmt::Display for Diagnosis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(trust) = &self.trust {
            write!(f, "{trust}")?;
        }
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
    /// Returns whether the recording lost events, so that counts are of those seen.
    fn has_lost(&self) -> bool {
        self.trust.as_ref().is_some_and(|trust| trust.lost > 0)
    }

    fn write_unexplained(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (all, free) = (self.unexplained, self.unexplained_free);
        if all == 0 || self.trust.as_ref().is_some_and(Trust::is_low) {
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
        let when = match self.source {
            Source::End => "at the end",
            Source::Saved => "when its files were saved",
            _ => "now",
        };
        match (self.source, self.failed.is_empty()) {
            (Source::Host | Source::Saved | Source::End, true) => {
                writeln!(f, "Nothing would fail{kernel} {when}, of what was asked:")?;
            }
            (Source::Host | Source::Saved | Source::End, false) => {
                writeln!(f, "What would fail{kernel} {when}, before anything is reclaimed or compacted:")?;
            }
            (_, true) if self.has_lost() => writeln!(f, "No failed request was seen{kernel}.")?,
            (_, true) => writeln!(f, "No request failed{kernel}.")?,
            (_, false) => {
                let least = if self.has_lost() { "At least " } else { "" };
                writeln!(f, "{least}{}{kernel}:", count(self.count, "failed request"))?;
            }
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
        match source {
            Source::Host | Source::Saved | Source::End => writeln!(f, "  {}", words(&self.asked))?,
            _ => {
                let what = match self.report {
                    Report::Cma | Report::HugetlbPool => "a request".to_owned(),
                    _ => words(&self.asked),
                };
                writeln!(f, "  {} of {what}{comm}{}", grouped(self.count), self.report.words())?;
            }
        }
        for check in self.checks.iter().take(ZONES) {
            writeln!(f, "    {}", check.words(self.asked.order))?;
        }
        if self.checks.len() > ZONES {
            writeln!(f, "    and {}", count((self.checks.len() - ZONES) as u64, "more zone"))?;
        }
        match self.effect {
            Some(effect) => writeln!(f, "    What came of it: {effect}."),
            None => Ok(()),
        }
    }
}

impl ZoneCheck {
    /// Describes the check that decided a zone's answer.
    fn words(&self, order: u8) -> String {
        let free = size_of_kib(self.free_bytes / 1024);
        let Some((mark, min)) = self.mark_bytes.zip(self.min_bytes) else {
            let blocks = match self.check {
                Check::NoBlock => format!("no block of order {order} or larger that it may take"),
                _ => "a block is there".to_owned(),
            };
            return format!("{}: {free} free in its lists, watermarks not known; {blocks}", self.zone);
        };
        // A request that may go below min: whether it missed that by much.
        let near = match self.free_bytes < min && self.free_bytes >= mark && mark < min {
            true => format!(", below its min of {}", size_of_kib(min / 1024)),
            false => String::new(),
        };
        let must = format!(
            "{}: {free} free{near}, {} must stay free for this request",
            self.zone,
            size_of_kib(mark / 1024)
        );
        let kept = size_of_kib(self.kept_bytes / 1024);
        match self.check {
            Check::Passed => format!("{must}: by these numbers it would be served"),
            Check::Unknown => format!("{must}: enough; its blocks are not shown"),
            Check::SmallerOrders => {
                format!(
                    "{must}: enough, but too little in blocks near order {order}, which this kernel checks as well"
                )
            }
            Check::Count => format!("{must}: too little (count)"),
            Check::Reserve => {
                format!("{must} and {kept} are kept for others: too little beside that (kept for others)")
            }
            Check::NoBlock => {
                format!("{must}: enough, but no block of order {order} or larger that it may take")
            }
        }
    }
}

/// Writes what was asked for.
fn words(asked: &Asked) -> String {
    if !asked.is_shown {
        return "a request that the log does not show".to_owned();
    }
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
        if let Some(now) = &self.helps_now {
            writeln!(f, "   Now: {now}.")?;
        }
        if let Some(setting) = &self.setting {
            let now = setting.now.as_deref().map_or_else(String::new, |now| format!(", now {now}"));
            match &setting.to {
                Some(to) => writeln!(f, "   Try {}={to}{now}: {}.", setting.name, setting.note)?,
                None => writeln!(f, "   See {}{now}: {}.", setting.name, setting.note)?,
            }
        } else if self.helps_now.is_none() {
            writeln!(f, "   No setting of this kernel is known to change that.")?;
        }
        if let Some(predicted) = &self.predicted {
            writeln!(f, "   Gain in the replay: {}.", changes(&predicted.gain))?;
            writeln!(f, "   Cost in the replay: {}.", changes(&predicted.cost))?;
        }
        // Without a recording it is the same for every cause, and stands once.
        match &self.confidence {
            Some(confidence) => {
                let rule = if confidence.is_rule { "a rule of thumb; " } else { "" };
                writeln!(f, "   Confidence: {rule}{}.", confidence.why)
            }
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
