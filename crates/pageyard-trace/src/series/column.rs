//! The parts of a series' table: columns, and the values in their rows.

/// The type of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Whole numbers from 0.
    Count,
    /// Numbers with a point.
    Number,
    /// The same where they are known, and nothing elsewhere.
    NumberIfKnown,
    /// Texts.
    Name,
    /// True or false.
    Flag,
}

/// A column of a table: its name, and what it holds.
pub type Column = (&'static str, Kind);

/// A value in a row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Cell<'a> {
    /// For a column of [`Kind::Count`].
    Count(u64),
    /// For a column of [`Kind::Number`].
    Number(f64),
    /// For a column of [`Kind::NumberIfKnown`].
    NumberIfKnown(Option<f64>),
    /// For a column of [`Kind::Name`].
    Name(&'a str),
    /// For a column of [`Kind::Flag`].
    Flag(bool),
}

impl Cell<'_> {
    pub(super) fn kind(&self) -> Kind {
        match self {
            Cell::Count(_) => Kind::Count,
            Cell::Number(_) => Kind::Number,
            Cell::NumberIfKnown(_) => Kind::NumberIfKnown,
            Cell::Name(_) => Kind::Name,
            Cell::Flag(_) => Kind::Flag,
        }
    }
}
