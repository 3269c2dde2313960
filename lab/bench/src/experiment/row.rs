//! Rows: what an experiment measured, and what its document printed, each with a unit.

use crate::harness::samples::Samples;

/// One value of an experiment.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// The table that it belongs to.
    pub section: &'static str,
    /// The machine and the load that it was measured on, where a table's name does not say it all.
    pub setting: String,
    /// The quantity measured, labelled as the document labels it.
    pub metric: String,
    /// The source: `published:..`, `reference:..` or `pageyard`.
    pub column: String,
    /// How much.
    pub value: f64,
    /// Of what.
    pub unit: &'static str,
}

impl Row {
    /// Says where it was measured: its table, and the machine and load. No metric appears twice for a column and this
    /// setting.
    #[must_use]
    pub fn whole_setting(&self) -> String {
        match self.setting.is_empty() {
            true => self.section.to_owned(),
            false => format!("{}: {}", self.section, self.setting),
        }
    }
}

/// The rows of an experiment, in the order of their tables.
#[derive(Clone, Debug, Default)]
pub struct Rows {
    section: &'static str,
    setting: String,
    rows: Vec<Row>,
}

impl Rows {
    /// Begins a table; rows that follow belong to it.
    pub fn section(&mut self, section: &'static str) {
        self.section = section;
    }

    /// Sets the machine and load of the rows that follow, in any table.
    pub fn setting(&mut self, setting: impl Into<String>) {
        self.setting = setting.into();
    }

    /// Adds a value. A NaN is left out: it was not measured.
    pub fn add(
        &mut self,
        metric: impl Into<String>,
        column: impl Into<String>,
        value: f64,
        unit: &'static str,
    ) {
        if value.is_finite() {
            let (metric, column) = (metric.into(), column.into());
            let setting = self.setting.clone();
            self.rows.push(Row { section: self.section, setting, metric, column, value, unit });
        }
    }

    /// Adds the mean of samples under the metric's own name, and its least and median under `Min` and `Median`.
    pub fn add_samples(&mut self, metric: &str, column: &str, samples: &Samples, unit: &'static str) {
        self.add(metric, column, samples.mean(), unit);
        self.add(format!("Min {metric}"), column, samples.min(), unit);
        self.add(format!("Median {metric}"), column, samples.median(), unit);
    }

    /// Returns a value.
    #[must_use]
    pub fn get(&self, metric: &str, column: &str) -> Option<f64> {
        self.row(metric, column).map(|r| r.value)
    }

    /// Returns the first row of a metric and a column.
    #[must_use]
    pub fn row(&self, metric: &str, column: &str) -> Option<&Row> {
        self.rows.iter().find(|r| r.metric == metric && r.column == column)
    }

    /// Returns by how many percent a column is below another, for a metric where less is better.
    #[must_use]
    pub fn gain(&self, metric: &str, before: &str, after: &str) -> Option<f64> {
        Some(super::gain(self.get(metric, before)?, self.get(metric, after)?))
    }

    /// Appends rows in separate tables.
    pub fn append(&mut self, others: Rows) {
        self.rows.extend(others.rows);
    }

    /// Iterates over all rows.
    pub fn iter(&self) -> impl Iterator<Item = &Row> {
        self.rows.iter()
    }

    /// Appends rows of another source; each goes to the end of its table, and its table stays where it was.
    pub(super) fn merge(&mut self, others: Rows) {
        for row in others.rows {
            let end =
                self.rows.iter().rposition(|r| r.section == row.section).map_or(self.rows.len(), |i| i + 1);
            self.rows.insert(end, row);
        }
    }

    /// Returns the names of the tables, in order.
    #[must_use]
    pub fn sections(&self) -> Vec<&'static str> {
        let mut sections = Vec::new();
        for row in &self.rows {
            if !sections.contains(&row.section) {
                sections.push(row.section);
            }
        }
        sections
    }

    /// Returns the columns of a table: published first, then in order of appearance.
    #[must_use]
    pub fn columns(&self, section: &str) -> Vec<&str> {
        let mut columns: Vec<&str> = Vec::new();
        for row in self.rows.iter().filter(|r| r.section == section) {
            if !columns.contains(&row.column.as_str()) {
                columns.push(&row.column);
            }
        }
        columns.sort_by_key(|c| !c.starts_with("published"));
        columns
    }

    /// Returns the metrics of a table, in order of appearance.
    #[must_use]
    pub fn metrics(&self, section: &str) -> Vec<&str> {
        let mut metrics: Vec<&str> = Vec::new();
        let mut seen = std::collections::HashSet::new();
        for row in self.rows.iter().filter(|r| r.section == section) {
            if seen.insert(row.metric.as_str()) {
                metrics.push(&row.metric);
            }
        }
        metrics
    }
}
