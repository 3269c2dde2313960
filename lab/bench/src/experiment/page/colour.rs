//! One colour for a column, wherever it is shown.

use super::super::Rows;

/// References that have a colour of their own; the style has as many classes.
const REFERENCES: usize = 7;

/// The classes of columns.
pub(super) struct Colours {
    references: Vec<String>,
    published: Vec<String>,
}

impl Colours {
    /// Gives columns their colours, in the order in which rows name them: shades of grey for what was published,
    /// colours that colour-blind readers tell apart for references, and one colour for the engine.
    pub fn of(rows: &Rows) -> Colours {
        let (mut references, mut published) = (Vec::new(), Vec::new());
        for row in rows.iter() {
            let all = if row.column.starts_with("published") { &mut published } else { &mut references };
            let name = plain(&row.column);
            if !is_engine(name) && !all.iter().any(|c| c == name) {
                all.push(name.to_owned());
            }
        }
        Colours { references, published }
    }

    /// Returns the class of a column.
    pub fn class(&self, column: &str) -> String {
        let name = plain(column);
        if is_engine(name) {
            return "engine".into();
        }
        if name == "published" {
            return "p1".into();
        }
        if let Some(at) = self.published.iter().position(|c| c == name) {
            return format!("p{}", at.min(2));
        }
        match self.references.iter().position(|c| c == name) {
            Some(at) if at < REFERENCES => format!("r{at}"),
            _ => "other".into(),
        }
    }
}

/// Returns a column without the knobs that a variant adds to its name.
fn plain(column: &str) -> &str {
    column.split([' ', ',']).next().unwrap_or(column)
}

fn is_engine(column: &str) -> bool {
    column == "pageyard" || column.starts_with("pageyard:")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_column_has_one_colour_and_a_variant_has_its_reference_s() {
        let mut rows = Rows::default();
        for column in ["reference:a", "pageyard", "published:x", "reference:b leases=true", "published:y"] {
            rows.add("m", column, 1.0, "");
        }
        let colours = Colours::of(&rows);
        let of = |c| colours.class(c);
        assert_eq!([of("reference:a"), of("reference:b"), of("reference:a k=1")], ["r0", "r1", "r0"]);
        assert_eq!([of("published:x"), of("published:y"), of("pageyard:one-zone")], ["p0", "p1", "engine"]);
        assert_eq!(of("published"), "p1", "a line of what was published is grey, whatever its column");
        assert_eq!(of("what was never a column"), "other");
    }
}
