//! An outcome as text, as JSON and as a page.

use super::plot::{png, svg};
use super::{ExperimentReport, Row, Rows};
use crate::error::LabError;
use serde_json::{Value, json};
use std::fmt::Write;
use std::path::Path;

impl ExperimentReport {
    /// Returns the JSON document.
    #[must_use]
    pub fn json(&self) -> Value {
        let row = |r: &Row| json!({"metric": r.metric, "column": r.column, "value": r.value, "unit": r.unit});
        json!({
            "name": self.name,
            "machine": self.machine,
            "rows": self.rows.iter().map(row).collect::<Vec<_>>(),
            "notes": self.notes,
            "verdict": self.verdict,
        })
    }

    /// Returns the tables, the remarks and the verdict as text.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = format!("{}: {}\nOn {}.\n", self.name, self.about, self.machine);
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
    /// [`LabError::Report`].
    pub fn write(&self, path: &Path) -> Result<(), LabError> {
        let failed = |why: String| LabError::Report { path: path.display().to_string(), why };
        match path.extension().and_then(|e| e.to_str()) {
            Some("png") => png(&self.plots, path),
            Some("html") => std::fs::write(path, self.html()?).map_err(|e| failed(e.to_string())),
            _ => Err(failed("give it a name that ends in .html or .png".into())),
        }
    }

    fn html(&self) -> Result<String, LabError> {
        let mut page = format!(
            "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>{0}</title><style>{STYLE}</style>\
             <h1>{0}</h1><p>{1}. Measured on {2}.</p><h2>Verdict</h2><p>{3}</p>",
            escape(self.name),
            escape(self.about),
            escape(&self.machine),
            escape(&self.verdict).replace('\n', "<br>")
        );
        for plot in &self.plots {
            let _ = write!(page, "<figure>{}</figure>", svg(plot)?);
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
        page.push_str("</html>\n");
        Ok(page)
    }
}

const STYLE: &str = "body{font:15px/1.5 system-ui,sans-serif;max-width:72rem;margin:2rem auto;padding:0 1rem;color:#222}\
                     div{overflow-x:auto}table{border-collapse:collapse;font-size:13px;font-variant-numeric:tabular-nums}\
                     td,th{padding:2px 10px;border-bottom:1px solid #ddd;text-align:right;white-space:nowrap}\
                     tr>th:first-child{text-align:left;font-weight:normal}figure{margin:1rem 0}";

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
    lines
}

/// Writes a value with as many digits as it is worth, and its unit.
fn value(row: &Row) -> String {
    let digits = match row.value.abs() {
        v if v >= 1000.0 || v == 0.0 => 0,
        v if v >= 100.0 => 1,
        _ => 2,
    };
    format!("{:.digits$} {}", row.value, row.unit).trim_end().to_owned()
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
        assert!(text.contains("99.00 cycles") && text.contains("1234 ns"), "{text}");
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
        assert!(html.contains("seen &amp; done") && html.contains("99.00 cycles"));
        assert_eq!(&std::fs::read(&picture).unwrap()[1..4], b"PNG");
        assert!(outcome().write(&folder.join("r.txt")).unwrap_err().to_string().contains(".html"));
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
