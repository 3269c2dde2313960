//! Tables as lines and cells, and numbers with the digits that they deserve: what text and pages share.

use super::{Row, Rows};
use pageyard_replay::text::count;

/// A line of a table: a metric, and a cell for each column.
pub(super) struct Line<'a> {
    pub metric: &'a str,
    pub cells: Vec<Option<&'a Row>>,
}

/// Returns the lines of a table, in the order of the numbers in their names.
pub(super) fn lines<'a>(rows: &'a Rows, section: &str) -> Vec<Line<'a>> {
    let columns = rows.columns(section);
    let mut lines: Vec<Line<'a>> = Vec::new();
    for row in rows.iter().filter(|r| r.section == section) {
        let at = lines.iter().position(|l| l.metric == row.metric).unwrap_or_else(|| {
            lines.push(Line { metric: &row.metric, cells: vec![None; columns.len()] });
            lines.len() - 1
        });
        if let Some(i) = columns.iter().position(|c| *c == row.column) {
            lines[at].cells[i] = Some(row);
        }
    }
    by_number(&mut lines);
    lines
}

/// Lines that differ only in their numbers stand together from so many on; fewer stay where the document has them.
const MANY: usize = 4;

/// Sorts lines that differ only in their numbers by those numbers: within their places, or together where they are
/// many.
fn by_number(lines: &mut Vec<Line<'_>>) {
    let shape = |metric: &str| metric.replace(|c: char| c.is_ascii_digit(), "");
    let numbers = |metric: &str| -> Vec<u64> {
        metric.split(|c: char| !c.is_ascii_digit()).filter_map(|n| n.parse().ok()).collect()
    };
    let mut shapes: Vec<(String, Vec<Line<'_>>)> = Vec::new();
    let mut places = Vec::new();
    for line in lines.drain(..) {
        let shape = shape(line.metric);
        let at = shapes.iter().position(|(s, _)| *s == shape).unwrap_or_else(|| {
            shapes.push((shape, Vec::new()));
            shapes.len() - 1
        });
        shapes[at].1.push(line);
        places.push(at);
    }
    for (_, alike) in &mut shapes {
        alike.sort_by_key(|line| numbers(line.metric));
    }
    for at in places {
        let alike = &mut shapes[at].1;
        let taken = if alike.len() >= MANY { alike.len() } else { alike.len().min(1) };
        lines.extend(alike.drain(..taken));
    }
}

/// Writes a value with its significant digits, and its unit.
pub(super) fn value(row: &Row) -> String {
    match row.unit {
        "" if row.value.fract() == 0.0 => whole(row.value),
        unit => format!("{} {unit}", number(row.value)).trim_end().to_owned(),
    }
}

/// Writes a count, with commas between thousands.
pub(super) fn whole(value: f64) -> String {
    let sign = if value < 0.0 { "-" } else { "" };
    format!("{sign}{}", count(value.abs().round_ties_even() as u64))
}

/// Writes a number with its significant digits, and commas between thousands.
pub(super) fn number(value: f64) -> String {
    let digits = match value.abs() {
        v if v >= 1000.0 || v == 0.0 => 0,
        v if v >= 100.0 => 1,
        _ => 2,
    };
    if digits > 0 || value.abs() >= 1e15 {
        return format!("{value:.digits$}");
    }
    whole(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_stand_in_the_order_of_their_numbers() {
        let mut rows = Rows::default();
        rows.section("t");
        for metric in ["batch 1", "batch 64", "Min 7", "batch 1024", "batch 2", "batch 4"] {
            rows.add(metric, "c", 1.0, "");
        }
        let order: Vec<&str> = lines(&rows, "t").iter().map(|l| l.metric).collect();
        assert_eq!(order, ["batch 1", "batch 2", "batch 4", "batch 64", "batch 1024", "Min 7"]);
    }

    #[test]
    fn a_few_rows_that_differ_in_a_number_stay_where_the_document_has_them() {
        let mut rows = Rows::default();
        rows.section("t");
        let as_there = ["Success 1 Min", "Success 1 Max", "Success 2 Min", "Success 2 Max", "User"];
        as_there.iter().for_each(|metric| rows.add(*metric, "c", 1.0, "%"));
        let order: Vec<&str> = lines(&rows, "t").iter().map(|l| l.metric).collect();
        assert_eq!(order, as_there);
    }

    #[test]
    fn numbers_have_commas_and_no_false_digits() {
        assert_eq!(
            [180_000_000.0, -1234.4, 0.0, 123.45, 1.5].map(number),
            ["180,000,000", "-1,234", "0", "123.5", "1.50"]
        );
        let mut rows = Rows::default();
        rows.add("counted", "c", 874.0, "");
        rows.add("a ratio", "c", 1.01, "");
        rows.add("timed", "c", 874.0, "ns");
        assert_eq!(rows.iter().map(value).collect::<Vec<_>>(), ["874", "1.01", "874.0 ns"]);
    }
}
