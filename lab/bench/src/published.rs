//! Published tables: the documents' figures. They are shown beside measurements and never enter one.

/// The files that were present when this crate was built: name without extension, and text.
const FILES: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/published.rs"));

/// A set of published tables.
#[derive(Clone, Copy, Debug)]
pub struct Published(&'static [(&'static str, &'static str)]);

/// A line of a published table.
#[derive(Clone, Debug)]
pub struct Line {
    header: csv::StringRecord,
    fields: csv::StringRecord,
}

impl Published {
    /// The tables in `data/published`, as they were when this was built.
    #[must_use]
    pub fn carried() -> Published {
        Published(FILES)
    }

    /// No table at all.
    #[must_use]
    pub fn none() -> Published {
        Published(&[])
    }

    /// Returns whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Reads a table; a missing table, or a malformed line, is left out.
    #[must_use]
    pub fn lines(&self, name: &str) -> Vec<Line> {
        let Some((_, text)) = self.0.iter().find(|(n, _)| *n == name) else { return Vec::new() };
        let mut reader = csv::Reader::from_reader(text.as_bytes());
        let Ok(header) = reader.headers().cloned() else { return Vec::new() };
        let records = reader.records().filter_map(Result::ok);
        records.map(|fields| Line { header: header.clone(), fields }).collect()
    }
}

impl Line {
    /// Returns a field, by the name of its column.
    #[must_use]
    pub fn text(&self, column: &str) -> &str {
        self.header.iter().position(|h| h == column).and_then(|i| self.fields.get(i)).unwrap_or("")
    }

    /// Returns a field as a number; NaN where it is not one.
    #[must_use]
    pub fn number(&self, column: &str) -> f64 {
        self.text(column).parse().unwrap_or(f64::NAN)
    }
}
