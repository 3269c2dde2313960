//! An outcome as text and as a page.

use super::plot::{Colours, svg, write_png};
use super::{ExperimentReport, Row, Rows};
use crate::error::BenchError;
use pageyard_replay::text::{count, shown};
use std::fmt::Write;
use std::path::Path;

impl ExperimentReport {
    /// Returns the tables, the remarks and the verdict as text.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = format!("{}: {}\nOn {}.\n", self.name, self.about, self.machine);
        if !self.cannot_show.is_empty() {
            let _ = writeln!(text, "{}.", self.cannot_show);
        }
        for section in self.rows.sections() {
            let _ = write!(text, "\n{}", table(&self.rows, section));
        }
        for note in &self.notes {
            let _ = write!(text, "\nNote: {note}.\n");
        }
        let _ = write!(text, "\nVerdict: {}\n", self.verdict);
        text
    }

    /// Writes tables and pictures as a page (`.html`), or the pictures alone (`.png`).
    ///
    /// # Errors
    /// [`BenchError::Report`].
    pub fn write(&self, path: &Path) -> Result<(), BenchError> {
        let failed = |why: String| BenchError::Report { path: path.display().to_string(), why };
        match path.extension().and_then(|e| e.to_str()) {
            Some("png") => write_png(&self.plots, path),
            Some("html") => std::fs::write(path, self.html()?).map_err(|e| failed(e.to_string())),
            _ => Err(failed("give it a name that ends in .html or .png".into())),
        }
    }

    fn html(&self) -> Result<String, BenchError> {
        let mut page = format!(
            "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>{0}</title><style>{STYLE}</style>\
             <h1>{0}</h1><p>{1}. Measured on {2}.</p>",
            escape(self.name),
            escape(self.about),
            escape(&self.machine),
        );
        if !self.cannot_show.is_empty() {
            let _ = write!(page, "<p class=\"missed\">{}.</p>", escape(self.cannot_show));
        }
        page.push_str("<h2>Verdict</h2><ul>");
        for claim in claims(&self.verdict) {
            let class = match (claim.contains("missed"), claim.contains("reached")) {
                (true, _) => " class=\"missed\"",
                (false, true) => " class=\"reached\"",
                _ => "",
            };
            let _ = write!(page, "<li{class}>{}</li>", escape(claim));
        }
        page.push_str("</ul>");
        if !self.columns.is_empty() {
            page.push_str("<h2>Columns</h2><dl>");
            for (name, meaning) in self.columns {
                let _ = write!(page, "<dt>{}</dt><dd>{}</dd>", escape(name), escape(meaning));
            }
            page.push_str("</dl>");
        }
        let colours = Colours::of(&self.plots);
        for plot in &self.plots {
            let _ = write!(page, "<figure>{}</figure>", svg(plot, &colours)?);
        }
        for section in self.rows.sections() {
            let columns = self.rows.columns(section);
            let _ = write!(page, "<h2>{}</h2><div><table><tr><th></th>", escape(section));
            for column in &columns {
                let _ = write!(page, "<th>{}</th>", escape(column));
            }
            page.push_str("</tr>");
            for line in lines(&self.rows, section) {
                let _ = write!(page, "<tr><th>{}</th>", escape(line.metric));
                for cell in line.cells {
                    let _ = write!(page, "<td>{}</td>", cell.map_or(String::new(), |r| escape(&value(r))));
                }
                page.push_str("</tr>");
            }
            page.push_str("</table></div>");
        }
        for note in &self.notes {
            let _ = write!(page, "<p>Note: {}.</p>", escape(note));
        }
        let command = std::env::args().collect::<Vec<_>>().join(" ");
        let _ = writeln!(
            page,
            "<footer>Made by <code>{}</code>, pageyard {}, on {}.</footer></html>",
            escape(&shown(&command)),
            env!("CARGO_PKG_VERSION"),
            today()
        );
        Ok(page)
    }
}

const STYLE: &str = "body{font:15px/1.5 system-ui,sans-serif;max-width:72rem;margin:2rem auto;padding:0 1rem;color:#222}\
                     div{overflow-x:scroll;border:1px solid #ddd}figure svg{max-width:100%;height:auto}\
                     table{border-collapse:separate;border-spacing:0;font-size:13px;font-variant-numeric:tabular-nums}\
                     td,th{padding:2px 10px;border-bottom:1px solid #ddd;text-align:right;white-space:nowrap}\
                     tr>th:first-child{text-align:left;font-weight:normal;position:sticky;left:0;background:#fff;border-right:1px solid #ddd}\
                     figure{margin:1rem 0}li{margin:.4rem 0}.missed::marker,p.missed{color:#b33}.reached::marker{color:#283}\
                     dt{font-weight:600}footer{margin-top:3rem;color:#666;font-size:13px}";

/// Splits a verdict into its claims, a sentence each.
fn claims(verdict: &str) -> Vec<&str> {
    let mut claims = Vec::new();
    let (mut start, bytes) = (0, verdict.as_bytes());
    for at in verdict.match_indices(['.', ';']).map(|(at, _)| at) {
        let ends = bytes.get(at + 1).is_none_or(|b| b.is_ascii_whitespace());
        let next = verdict[at + 1..].trim_start().chars().next();
        if ends && bytes[at] == b'.' && next.is_none_or(|c| !c.is_lowercase()) {
            claims.push(verdict[start..=at].trim());
            start = at + 1;
        }
    }
    claims.push(verdict[start..].trim());
    claims.retain(|claim| !claim.is_empty());
    claims
}

/// Returns the date, in UTC.
fn today() -> String {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    date(now.map_or(0, |d| d.as_secs() / 86_400))
}

/// Returns the date this many days after 1 January 1970. Years begin in March here, so that leap days come last.
fn date(days: u64) -> String {
    let z = days + 719_468;
    let (era, day) = (z / 146_097, z % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let of_year = day - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    format!("{:04}-{month:02}-{day:02}", era * 400 + year + u64::from(month <= 2))
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// A line of a table: a metric, and a cell for each column.
struct Line<'a> {
    metric: &'a str,
    cells: Vec<Option<&'a Row>>,
}

fn lines<'a>(rows: &'a Rows, section: &str) -> Vec<Line<'a>> {
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

/// Sorts lines that differ only in their numbers by those numbers, within their places.
fn by_number(lines: &mut [Line<'_>]) {
    let shape = |metric: &str| metric.replace(|c: char| c.is_ascii_digit(), "");
    let numbers = |metric: &str| -> Vec<u64> {
        metric.split(|c: char| !c.is_ascii_digit()).filter_map(|n| n.parse().ok()).collect()
    };
    for i in 0..lines.len() {
        let same = |l: &Line<'_>| shape(l.metric) == shape(lines[i].metric);
        let least =
            (i..lines.len()).filter(|j| same(&lines[*j])).min_by_key(|j| (numbers(lines[*j].metric), *j));
        if let Some(least) = least {
            lines.swap(i, least);
        }
    }
}

/// Writes a value with its significant digits, and its unit.
fn value(row: &Row) -> String {
    format!("{} {}", number(row.value), row.unit).trim_end().to_owned()
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
    let sign = if value < 0.0 { "-" } else { "" };
    format!("{sign}{}", count(value.abs().round_ties_even() as u64))
}

fn table(rows: &Rows, section: &str) -> String {
    let columns = rows.columns(section);
    let lines = lines(rows, section);
    let first = lines.iter().map(|l| l.metric.len()).max().unwrap_or(0).max(section.len());
    let width = |i: usize| {
        let cells = lines.iter().filter_map(|l| l.cells[i]).map(|r| value(r).chars().count());
        cells.max().unwrap_or(0).max(columns[i].len())
    };
    let widths: Vec<usize> = (0..columns.len()).map(width).collect();
    let mut text = format!("{section:<first$}");
    for (column, width) in columns.iter().zip(&widths) {
        let _ = write!(text, "  {column:>width$}");
    }
    text.push('\n');
    for line in &lines {
        let mut row = format!("{:<first$}", line.metric);
        for (cell, width) in line.cells.iter().zip(&widths) {
            let _ = write!(row, "  {:>width$}", cell.map_or(String::new(), value));
        }
        text.push_str(row.trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::{Plot, Series};
    use super::*;

    fn outcome() -> ExperimentReport {
        let mut rows = Rows::default();
        rows.section("A table");
        rows.add("one", "reference:a", 1.5, "ns");
        rows.add("one", "pageyard", f64::NAN, "ns");
        rows.add("two", "pageyard", 1234.5, "ns");
        let mut published = Rows::default();
        published.section("A table");
        published.add("one", "published:a", 99.0, "cycles");
        rows.merge(published);
        let line = Series { name: "a <b>".into(), points: vec![(1.0, 2.0), (4.0, 3.0)] };
        let bar = Series { name: "c".into(), points: vec![(0.0, -2.0)] };
        ExperimentReport {
            name: "none",
            about: "nothing",
            machine: "a machine".into(),
            rows,
            notes: vec!["a remark".into()],
            quick: true,
            cannot_show: "it is another machine",
            columns: &[("a", "what a is")],
            verdict: "seen & done".into(),
            plots: vec![
                Plot { title: "lines".into(), x: "x", y: "y", series: vec![line] },
                Plot { title: "bars".into(), x: "", y: "y", series: vec![bar] },
            ],
        }
    }

    #[test]
    fn what_is_not_a_number_is_no_row_and_published_columns_stand_first() {
        let json = outcome().json();
        let rows = json["rows"].as_array().unwrap();
        assert_eq!(rows.len(), 3);
        assert!(rows.iter().all(|r| r["value"].is_f64()));
        let text = outcome().text();
        let (published, measured) = (text.find("published:a").unwrap(), text.find("reference:a").unwrap());
        assert!(published < measured);
        assert!(text.contains("99.00 cycles") && text.contains("1,234 ns"), "{text}");
    }

    #[test]
    fn rows_stand_in_the_order_of_their_numbers() {
        let mut rows = Rows::default();
        rows.section("t");
        for metric in ["batch 1", "batch 64", "Min 7", "batch 1024", "batch 2", "batch 4"] {
            rows.add(metric, "c", 1.0, "");
        }
        let order: Vec<&str> = lines(&rows, "t").iter().map(|l| l.metric).collect();
        assert_eq!(order, ["batch 1", "batch 2", "Min 7", "batch 4", "batch 64", "batch 1024"]);
    }

    #[test]
    fn numbers_have_commas_and_no_false_digits() {
        assert_eq!(
            [180_000_000.0, -1234.4, 0.0, 123.45, 1.5].map(number),
            ["180,000,000", "-1,234", "0", "123.5", "1.50"]
        );
    }

    #[test]
    fn a_verdict_is_one_claim_a_line() {
        let verdict =
            "It is 1.5 times (at least 1.3: reached, published 1.6). From x, it makes 2. 3 of 4 hold";
        let expected =
            ["It is 1.5 times (at least 1.3: reached, published 1.6).", "From x, it makes 2.", "3 of 4 hold"];
        assert_eq!(claims(verdict), expected);
    }

    #[test]
    fn dates_are_those_of_the_calendar() {
        for (days, expected) in
            [(0, "1970-01-01"), (59, "1970-03-01"), (11_016, "2000-02-29"), (20_778, "2026-11-21")]
        {
            assert_eq!(date(days), expected);
        }
    }

    #[test]
    fn a_quick_run_says_what_it_cannot_show_and_a_row_its_setting() {
        let json = outcome().json();
        assert_eq!((&json["quick"], &json["cannot_show"]), (&true.into(), &"it is another machine".into()));
        assert!(outcome().text().contains("it is another machine"));
        assert!(json["rows"].as_array().unwrap().iter().all(|r| r["setting"] == "A table"));
    }

    #[test]
    fn reports_are_written_by_their_name() {
        let folder = std::env::temp_dir().join(format!("pageyard-report-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let (page, picture) = (folder.join("r.html"), folder.join("r.png"));
        outcome().write(&page).unwrap();
        outcome().write(&picture).unwrap();
        let html = std::fs::read_to_string(&page).unwrap();
        assert_eq!(html.matches("<svg").count(), 2);
        assert!(
            html.contains("what a is")
                && html.contains("<footer>")
                && html.contains(env!("CARGO_PKG_VERSION"))
        );
        assert!(html.contains("seen &amp; done") && html.contains("99.00 cycles"));
        assert_eq!(&std::fs::read(&picture).unwrap()[1..4], b"PNG");
        assert!(outcome().write(&folder.join("r.txt")).unwrap_err().to_string().contains(".html"));
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
