//! A comparison for people.

use super::{Comparison, Interval, Metric, Objective};
use crate::text::shown;
use pageyard_trace::grouped;
use pageyard_trace::text::Grid;
use std::fmt;

/// Writes a figure with as many digits as it has use for.
pub(crate) fn figure(value: f64) -> String {
    match value.abs() {
        v if v.round() >= 1000.0 => {
            let sign = if value < 0.0 { "-" } else { "" };
            format!("{sign}{}", grouped(v.round() as u64))
        }
        v if v >= 100.0 || value.fract() == 0.0 => format!("{value:.0}"),
        v if v >= 1.0 => format!("{value:.1}"),
        _ => format!("{value:.3}"),
    }
}

/// Writes a mean and, where seeds differ, its interval; a dash where it is not known.
pub(crate) fn interval(of: Option<Interval>) -> String {
    let Some(of) = of else { return "-".to_owned() };
    if of.low == of.high {
        return figure(of.mean);
    }
    format!("{} ({} to {})", figure(of.mean), figure(of.low), figure(of.high))
}

impl Comparison {
    /// Returns what figures are called that differ by no more than seeds do.
    pub(super) fn alike(&self) -> &'static str {
        if self.trust.is_low() { "Alike in these replays" } else { "No difference beyond that between seeds" }
    }

    /// Returns the metrics of an objective: those that differ between settings, or that a setting does not know, apart
    /// from the others.
    pub(super) fn split(&self, objective: Objective) -> (Vec<&Metric>, Vec<&Metric>) {
        let alike = |metric: &Metric, n| metric.change(n).is_some_and(|change| !change.leaves_out_zero());
        let all = self.metrics.iter().filter(|metric| metric.objective == objective);
        all.partition(|metric| !(1..self.settings.len()).all(|n| alike(metric, n)))
    }
}

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seeds = if self.seeds == 1 {
            "one opening state".to_owned()
        } else {
            format!("{} opening states", self.seeds)
        };
        write!(f, "{}", self.trust)?;
        writeln!(
            f,
            "{} ({}), replayed from {seeds} on each setting.",
            shown(&self.trace),
            shown(&self.kernel)
        )?;
        for objective in Objective::ALL {
            let (differ, same) = self.split(objective);
            if differ.is_empty() && same.is_empty() {
                continue;
            }
            writeln!(f, "\n{}:", objective.title())?;
            if !differ.is_empty() {
                let mut grid =
                    Grid::new(std::iter::once(String::new()).chain(self.settings.iter().map(|s| shown(s))));
                for metric in &differ {
                    let cells = (0..self.settings.len()).map(|n| interval(metric.of(n)));
                    grid.row(std::iter::once(metric.name.clone()).chain(cells));
                }
                write!(f, "{grid}")?;
            }
            if !same.is_empty() {
                let names: Vec<&str> = same.iter().map(|metric| metric.name.as_str()).collect();
                writeln!(f, "  {}: {}.", self.alike(), names.join(", "))?;
            }
        }
        if self.trust.is_low() {
            writeln!(f, "\nNo conclusion is drawn from figures that so much speaks against.")?;
        }
        if self.seeds > 1 {
            writeln!(
                f,
                "\nMeans of all seeds, in brackets the interval in which the mean of very many lies, 95 times of 100."
            )?;
        }
        Ok(())
    }
}
