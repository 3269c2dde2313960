//! Cohorts of hosts, and in what they differ.

use super::Fleet;
use super::figures::{FIGURES, Figure};
use crate::drawn::change_interval;
use pageyard_trace::fleet::FleetRow;
use pageyard_trace::shown;
use std::collections::BTreeMap;

/// A cohort of fewer hosts is not compared.
pub const LEAST_HOSTS: usize = 5;

/// Fleets that are drawn for an interval.
const DRAWN: usize = 4000;

/// The least change of a mean, as a share of the larger one, that is worth a word.
const WORTH: f64 = 0.25;

/// How a fleet is divided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cohorts {
    /// Nothing.
    None,
    /// The kernel that ran: a host that was updated is in two.
    Kernel,
    /// A list: the cohort of each host.
    Listed(BTreeMap<String, String>),
}

impl Cohorts {
    /// Reads a list, `host,cohort` in each line; a first line that says so, and empty ones, are passed over.
    ///
    /// # Errors
    /// A line that is none, or names a host for the second time, in a sentence.
    pub fn listed(text: &str) -> Result<Cohorts, String> {
        let mut of = BTreeMap::new();
        let lines = text.lines().enumerate().map(|(n, line)| (n + 1, line.trim()));
        for (n, line) in lines.filter(|(n, line)| !(line.is_empty() || *n == 1 && *line == "host,cohort")) {
            let (host, cohort) = line.split_once(',').ok_or_else(|| {
                format!(
                    "line {n} is `{}`: each line names a host and its cohort, as in web-17,new",
                    shown(line)
                )
            })?;
            if of.insert(host.trim().to_owned(), cohort.trim().to_owned()).is_some() {
                return Err(format!("line {n} names {} for the second time", shown(host)));
            }
        }
        Ok(Cohorts::Listed(of))
    }

    /// Returns the cohort of a host's row.
    pub(super) fn of(&self, host: &str, row: &FleetRow) -> Option<String> {
        match self {
            Cohorts::None => Some(String::new()),
            Cohorts::Kernel => Some(row.kernel.clone()),
            Cohorts::Listed(of) => of.get(host).cloned(),
        }
    }
}

/// A figure of two cohorts.
pub struct Difference {
    /// The figure.
    pub figure: &'static Figure,
    /// The mean over the hosts of the first.
    pub before: f64,
    /// The mean over the hosts of the second.
    pub after: f64,
    /// The interval of the change, 999 times of 1000.
    pub low: f64,
    /// Its upper end.
    pub high: f64,
}

impl Difference {
    /// Returns whether the cohorts differ in it, by more than their hosts do and by enough to be worth a word.
    #[must_use]
    pub fn differs(&self) -> bool {
        let worth = self.figure.floor.max(WORTH * self.before.max(self.after));
        (self.low > 0.0 || self.high < 0.0) && (self.after - self.before).abs() >= worth
    }
}

impl Fleet {
    /// Compares two cohorts by the figures that enough hosts of both tell.
    #[must_use]
    pub fn differences(&self, before: &str, after: &str) -> Vec<Difference> {
        let [before, after] = [before, after].map(|cohort| self.of_cohort(cohort));
        let compared = |figure: &'static Figure| {
            let [before, after] = [&before, &after]
                .map(|totals| totals.iter().filter_map(|totals| figure.of(totals)).collect::<Vec<f64>>());
            if before.len().min(after.len()) < LEAST_HOSTS {
                return None;
            }
            let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
            let (low, high) = change_interval(&before, &after, 1, DRAWN);
            Some(Difference { figure, before: mean(&before), after: mean(&after), low, high })
        };
        FIGURES.iter().filter_map(compared).collect()
    }
}
