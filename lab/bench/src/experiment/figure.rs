//! The picture of a claim: bars in groups, a group for each source.

use super::{Row, Rows};

/// How bars of different groups compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// Each group in multiples of its own first bar: the sources measured on different machines, or in different units.
    Own,
    /// All in one unit.
    Shared,
}

/// A picture of a claim.
#[derive(Clone, Debug)]
pub struct Figure {
    /// The caption of the bars.
    pub caption: String,
    /// How groups compare.
    pub scale: Scale,
    /// The groups, published first.
    pub groups: Vec<Group>,
    /// The value to reach, on the scale of the bars: a multiple of the first bar, or a value.
    pub asked: Option<f64>,
}

/// Bars of one source.
#[derive(Clone, Debug)]
pub struct Group {
    /// The source.
    pub name: String,
    /// Its bars.
    pub bars: Vec<Bar>,
}

/// A bar.
#[derive(Clone, Debug)]
pub struct Bar {
    /// A short label.
    pub label: String,
    /// The row that it shows.
    pub row: Row,
}

/// A bar to be: its label, and the metric and column of its row.
pub type Asked<'a> = (&'a str, &'a str, &'a str);

impl Figure {
    /// Begins a picture in which each group has its own scale.
    #[must_use]
    pub fn own(caption: impl Into<String>) -> Figure {
        Figure { caption: caption.into(), scale: Scale::Own, groups: Vec::new(), asked: None }
    }

    /// Begins a picture in which all groups have one scale.
    #[must_use]
    pub fn shared(caption: impl Into<String>) -> Figure {
        Figure { scale: Scale::Shared, ..Figure::own(caption) }
    }

    /// Adds a group of the rows that are there. On scales of their own, a group without its first bar is left out.
    #[must_use]
    pub fn group(mut self, rows: &Rows, name: impl Into<String>, bars: &[Asked<'_>]) -> Figure {
        let bar = |&(label, metric, column): &Asked<'_>| {
            Some(Bar { label: label.to_owned(), row: rows.row(metric, column)?.clone() })
        };
        let first = bars.first().and_then(bar).is_some_and(|b| b.row.value > 0.0);
        let bars: Vec<Bar> = bars.iter().filter_map(bar).collect();
        if !bars.is_empty() && (first || self.scale == Scale::Shared) {
            self.groups.push(Group { name: name.into(), bars });
        }
        self
    }

    /// Adds a group from a growth in percent, where that is all that was published: 100 % and what it grew to.
    #[must_use]
    pub fn grown(mut self, rows: &Rows, name: &str, labels: [&str; 2], metric: &str, column: &str) -> Figure {
        if let Some(growth) = rows.row(metric, column) {
            let [before, after] = labels;
            let bar =
                |label: &str, value| Bar { label: label.to_owned(), row: Row { value, ..growth.clone() } };
            let bars = vec![bar(before, 100.0), bar(after, 100.0 + growth.value)];
            self.groups.push(Group { name: name.to_owned(), bars });
        }
        self
    }

    /// Marks what has to be reached.
    #[must_use]
    pub fn asked(mut self, asked: f64) -> Figure {
        self.asked = Some(asked);
        self
    }

    /// Returns the rows that it shows.
    pub fn rows(&self) -> impl Iterator<Item = &Row> {
        self.groups.iter().flat_map(|g| &g.bars).map(|b| &b.row)
    }

    /// Returns the picture without what was measured, if anything is left.
    pub(super) fn published_only(mut self) -> Option<Figure> {
        for group in &mut self.groups {
            group.bars.retain(|b| b.row.column.starts_with("published"));
        }
        self.groups.retain(|g| !g.bars.is_empty());
        (!self.groups.is_empty()).then_some(self)
    }

    /// Returns how long a bar is drawn on this figure's scale.
    pub(super) fn length(&self, group: &Group, bar: &Bar) -> f64 {
        match self.scale {
            Scale::Shared => bar.row.value,
            Scale::Own => bar.row.value / group.bars[0].row.value,
        }
    }
}
