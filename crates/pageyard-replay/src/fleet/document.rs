//! A fleet, as a document.

use super::{Difference, Fleet, Spread, Worse};
use pageyard_trace::document::Document;
use serde::Serialize;

/// A fleet's rows, added up.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FleetDocument<'a> {
    /// The first sentence of the text.
    pub sentence: String,
    /// Hosts that have rows.
    pub hosts: u64,
    /// Rows that count.
    pub rows: u64,
    /// When the first of them began, in seconds since 1970.
    pub from_s: u64,
    /// When the last of them began.
    pub to_s: u64,
    /// Hosts that lost events: failures and fallbacks are counted too low there.
    pub hosts_that_lost_events: u64,
    /// Figures that a host tells.
    pub figures: Vec<FleetFigureDocument<'a>>,
    /// Cohorts, the one with most hosts first.
    pub cohorts: Vec<CohortDocument<'a>>,
    /// Each other cohort compared with the first.
    pub differences: Vec<DifferenceDocument<'a>>,
    /// Files and rows that do not count, by why.
    pub left_out: Vec<LeftOutDocument<'a>>,
}

impl Document for FleetDocument<'_> {
    const SCHEMA: &'static str = "pageyard.fleet/1";
}

/// A figure over hosts.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FleetFigureDocument<'a> {
    /// Its name in words.
    pub figure: &'static str,
    /// `per_hour`, `per_second` or `percent`.
    pub unit: &'static str,
    /// `more` or `less`: the direction in which it gets worse.
    pub worse: &'static str,
    /// Hosts that tell it.
    pub hosts: u64,
    /// Half of the hosts are worse.
    pub half_worse_than: f64,
    /// A tenth of them is worse.
    pub tenth_worse_than: f64,
    /// The worst hosts, the worst first.
    pub worst: Vec<OutlierDocument<'a>>,
}

/// A host that stands out.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct OutlierDocument<'a> {
    /// The host.
    pub host: &'a str,
    /// Its value.
    pub value: f64,
}

/// A cohort.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CohortDocument<'a> {
    /// Its name.
    pub cohort: &'a str,
    /// Its hosts.
    pub hosts: u64,
}

/// A figure of two cohorts.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DifferenceDocument<'a> {
    /// The first cohort.
    pub before_cohort: &'a str,
    /// The other one.
    pub after_cohort: &'a str,
    /// The figure.
    pub figure: &'static str,
    /// `per_hour`, `per_second` or `percent`.
    pub unit: &'static str,
    /// The mean over the hosts of the first.
    pub before: f64,
    /// The mean over the hosts of the other one.
    pub after: f64,
    /// The lower end of the change's interval, 999 times of 1000.
    pub change_low: f64,
    /// The upper end.
    pub change_high: f64,
    /// Whether they differ: the interval leaves out 0, and the change is worth a word.
    pub differs: bool,
}

/// Files or rows that are left out for one reason.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LeftOutDocument<'a> {
    /// Their name, and the reason.
    pub what: &'static str,
    /// How many there are.
    pub count: u64,
    /// The first of them.
    pub example: &'a str,
}

impl Fleet {
    /// Returns it as a document, with so many of the worst hosts for each figure.
    #[must_use]
    pub fn document(&self, worst: usize) -> FleetDocument<'_> {
        let others = self.cohorts.iter().skip(1);
        let compared = others.flat_map(|(after, _)| {
            let before = &self.cohorts[0].0;
            self.differences(before, after).into_iter().map(move |d: Difference| DifferenceDocument {
                before_cohort: before,
                after_cohort: after,
                figure: d.figure.name,
                unit: d.figure.unit.name(),
                before: d.before,
                after: d.after,
                change_low: d.low,
                change_high: d.high,
                differs: d.differs(),
            })
        });
        let cohorts = self.cohorts.iter().map(|(cohort, hosts)| CohortDocument { cohort, hosts: *hosts });
        let left_out = self.left_out.iter().map(|left| LeftOutDocument {
            what: left.what,
            count: left.count,
            example: &left.example,
        });
        FleetDocument {
            sentence: self.sentence(),
            hosts: self.hosts.len() as u64,
            rows: self.rows,
            from_s: self.from_s,
            to_s: self.to_s,
            hosts_that_lost_events: self.losing,
            figures: self.spreads().iter().map(|spread| spread.document(worst)).collect(),
            cohorts: cohorts.collect(),
            differences: compared.collect(),
            left_out: left_out.collect(),
        }
    }
}

impl<'a> Spread<'a> {
    fn document(&self, worst: usize) -> FleetFigureDocument<'a> {
        let worst =
            self.hosts.iter().take(worst).map(|(host, value)| OutlierDocument { host, value: *value });
        FleetFigureDocument {
            figure: self.figure.name,
            unit: self.figure.unit.name(),
            worse: if self.figure.worse == Worse::More { "more" } else { "less" },
            hosts: self.hosts.len() as u64,
            half_worse_than: self.quantile(0.5),
            tenth_worse_than: self.quantile(0.1),
            worst: worst.collect(),
        }
    }
}
