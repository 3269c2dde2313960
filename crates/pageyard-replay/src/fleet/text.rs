//! A fleet, for people.

use super::cohorts::LEAST_HOSTS;
use super::figures::FIGURES;
use super::{Difference, Fleet};
use crate::compare::{Interval, figure, interval};
use crate::text::shown;
use pageyard_trace::fleet::date;
use pageyard_trace::grouped;
use pageyard_trace::text::{Grid, count};
use std::fmt;

impl Fleet {
    /// Returns the first sentence: on how many hosts requests failed, and where most.
    #[must_use]
    pub fn sentence(&self) -> String {
        let spreads = self.spreads();
        let Some(failed) = spreads.iter().find(|spread| spread.figure.name == FIGURES[0].name) else {
            return "There are no rows of any host.".to_owned();
        };
        let hosts = failed.hosts.iter().filter(|(_, value)| *value > 0.0).count() as u64;
        let all = count(failed.hosts.len() as u64, "host");
        match failed.hosts.first() {
            Some((worst, value)) if hosts > 0 => format!(
                "Requests failed on {} of {all}, most on {}: {} an hour.",
                grouped(hosts),
                shown(worst),
                figure(*value)
            ),
            _ => format!("No request failed on {all}."),
        }
    }

    /// Writes how two cohorts differ.
    fn beside(
        &self,
        f: &mut fmt::Formatter<'_>,
        before: &(String, u64),
        after: &(String, u64),
    ) -> fmt::Result {
        let differences = self.differences(&before.0, &after.0);
        let (names, hosts) =
            ([shown(&before.0), shown(&after.0)], [before.1, after.1].map(|n| count(n, "host")));
        if differences.is_empty() {
            return writeln!(
                f,
                "\n{} ({}) and {} ({}): not compared, each needs {LEAST_HOSTS} hosts.",
                names[0], hosts[0], names[1], hosts[1]
            );
        }
        let (differ, same): (Vec<Difference>, Vec<Difference>) =
            differences.into_iter().partition(Difference::differs);
        let all = differ.len() + same.len();
        let verdict = match differ.len() {
            0 => format!("no figure of {all} differs by more than their hosts do."),
            n => format!("{n} of {all} figures differ:"),
        };
        writeln!(f, "\n{} ({}) and {} ({}): {verdict}", names[0], hosts[0], names[1], hosts[1])?;
        if !differ.is_empty() {
            let mut grid = Grid::new(["", &names[0], &names[1], "change"]);
            for d in differ {
                let value = |v: f64| format!("{}{}", figure(v), d.figure.unit.suffix());
                let change = Interval { mean: d.after - d.before, low: d.low, high: d.high };
                grid.row([d.figure.name.to_owned(), value(d.before), value(d.after), interval(Some(change))]);
            }
            write!(f, "{grid}")?;
            if !same.is_empty() {
                let names: Vec<&str> = same.iter().map(|d| d.figure.name).collect();
                writeln!(f, "  No difference: {}.", names.join(", "))?;
            }
        }
        Ok(())
    }
}

impl fmt::Display for Fleet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hosts = count(self.hosts.len() as u64, "host");
        write!(f, "{hosts}, {}", count(self.rows, "row"))?;
        if self.rows > 0 {
            write!(f, " of {} to {}", date(self.from_s), date(self.to_s))?;
        }
        writeln!(f, "\n\n{}", self.sentence())?;
        let spreads = self.spreads();
        if !spreads.is_empty() {
            let mut grid = Grid::new(["", "hosts", "half worse than", "a tenth worse than", "worst", "on"]);
            for spread in &spreads {
                let value = |v: f64| format!("{}{}", figure(v), spread.figure.unit.suffix());
                let (worst, most) = spread.hosts[0];
                grid.row([
                    spread.figure.name.to_owned(),
                    grouped(spread.hosts.len() as u64),
                    value(spread.quantile(0.5)),
                    value(spread.quantile(0.1)),
                    value(most),
                    shown(worst),
                ]);
            }
            write!(f, "\n{grid}")?;
        }
        if let Some((first, others)) = self.cohorts.split_first() {
            for other in others {
                self.beside(f, first, other)?;
            }
            if others.is_empty() {
                writeln!(
                    f,
                    "\nAll hosts are in one cohort, {}: there is nothing to compare.",
                    shown(&first.0)
                )?;
            } else {
                writeln!(
                    f,
                    "\nMeans over hosts. In brackets the interval that holds the change 999 times of 1000 if other hosts are like these."
                )?;
            }
        }
        if self.losing > 0 {
            let hosts = count(self.losing, "host");
            writeln!(f, "\n{hosts} lost events: failures and fallbacks are counted too low there.")?;
        }
        for left in &self.left_out {
            writeln!(
                f,
                "\nLeft out: {} {}, such as {}",
                grouped(left.count),
                left.what,
                shown(&left.example)
            )?;
        }
        Ok(())
    }
}
