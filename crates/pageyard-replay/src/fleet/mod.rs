//! Many hosts, from the rows that each of them wrote: what is usual, which hosts are not, and whether cohorts differ.

mod cohorts;
mod document;
mod figures;
mod hosts;
mod text;

pub use cohorts::{Cohorts, Difference, LEAST_HOSTS};
pub use document::{
    CohortDocument, DifferenceDocument, FleetDocument, FleetFigureDocument, LeftOutDocument, OutlierDocument,
};
pub use figures::{FIGURES, Figure, Totals, Unit, Worse};
pub use hosts::{Days, Host, LeftOut, read};

use std::collections::BTreeMap;

/// A fleet's rows, added up.
#[derive(Debug, Default)]
pub struct Fleet {
    /// The hosts that have rows, by name.
    pub hosts: Vec<Host>,
    /// Rows that count.
    pub rows: u64,
    /// When the first of them began and the last, in seconds since 1970.
    pub from_s: u64,
    /// The last one's beginning.
    pub to_s: u64,
    /// Hosts that lost events: what is counted by events is too low for them.
    pub losing: u64,
    /// Files and rows that are left out, by reason.
    pub left_out: Vec<LeftOut>,
    /// Hosts in each cohort, the largest first; empty where none are asked for.
    pub cohorts: Vec<(String, u64)>,
}

/// How a figure is spread over hosts.
pub struct Spread<'a> {
    /// The figure.
    pub figure: &'static Figure,
    /// The hosts that tell it, the worst first.
    pub hosts: Vec<(&'a str, f64)>,
}

impl Spread<'_> {
    /// Returns the value that this share of the hosts is worse than.
    #[must_use]
    pub fn quantile(&self, share: f64) -> f64 {
        let at = (share * (self.hosts.len() - 1) as f64).round() as usize;
        self.hosts[at].1
    }
}

impl Fleet {
    /// Returns each figure that a host tells.
    #[must_use]
    pub fn spreads(&self) -> Vec<Spread<'_>> {
        let totals: Vec<(&str, Totals)> =
            self.hosts.iter().map(|host| (host.name.as_str(), host.totals())).collect();
        let spread = |figure: &'static Figure| {
            let told = totals.iter().filter_map(|(name, totals)| Some((*name, figure.of(totals)?)));
            let mut hosts: Vec<(&str, f64)> = told.collect();
            hosts.sort_by(|a, b| match figure.worse {
                Worse::More => b.1.total_cmp(&a.1),
                Worse::Less => a.1.total_cmp(&b.1),
            });
            Spread { figure, hosts }
        };
        FIGURES.iter().map(spread).filter(|spread| !spread.hosts.is_empty()).collect()
    }

    /// Returns the totals of the hosts in a cohort.
    fn of_cohort(&self, cohort: &str) -> Vec<&Totals> {
        self.hosts.iter().filter_map(|host| host.by.get(cohort)).collect()
    }
}

/// Counts cohorts by their hosts, the largest first.
fn cohorts_of(hosts: &[Host]) -> Vec<(String, u64)> {
    let mut by: BTreeMap<&str, u64> = BTreeMap::new();
    hosts.iter().flat_map(|host| host.by.keys()).for_each(|name| *by.entry(name).or_default() += 1);
    let mut all: Vec<(String, u64)> = by.into_iter().map(|(name, hosts)| (name.to_owned(), hosts)).collect();
    all.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    all
}

#[cfg(test)]
mod tests;
