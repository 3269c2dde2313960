//! An outcome as text, and as a file.

use super::lines::{lines, value};
use super::{Claim, ExperimentReport, Rows, claim, page};
use crate::error::BenchError;
use crate::harness::machine::CHECKED_BUILD_WARNING;
use pageyard_trace::text::Grid;
use std::fmt::Write;
use std::path::Path;

impl ExperimentReport {
    /// Says in one sentence that a run was quick, and in what it differs; `None` for a full run.
    #[must_use]
    pub fn quick_line(&self) -> Option<String> {
        self.quick.then(|| format!("A quick run: not the document's setting ({}).", self.cannot_show))
    }

    /// Returns the claims as text, one on a line.
    #[must_use]
    pub fn verdict(&self) -> String {
        self.claims.iter().map(Claim::line).collect::<Vec<_>>().join("\n")
    }

    /// Returns the tables, the remarks and the verdict as text.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = self.quick_line().map_or(String::new(), |line| line + "\n");
        if self.made.checked_build {
            let _ = writeln!(text, "{CHECKED_BUILD_WARNING}");
        }
        let _ = write!(text, "{}: {}\nOn {}.\n", self.name, self.about, self.machine);
        for section in self.rows.sections() {
            let _ = write!(text, "\n{}", table(&self.rows, section));
        }
        for note in &self.notes {
            let _ = write!(text, "\nNote: {note}.\n");
        }
        let tally: Vec<String> =
            claim::tally(&self.claims).iter().map(|(mark, n)| format!("{n} {mark}")).collect();
        let _ = write!(text, "\nVerdict ({}):\n{}\n", tally.join(", "), self.verdict());
        text
    }

    /// Writes the claims, pictures and tables as a page.
    ///
    /// # Errors
    /// [`BenchError::Report`] where the name does not end in `.html` or the file cannot be written.
    pub fn write(&self, path: &Path) -> Result<(), BenchError> {
        let failed = |why: String| BenchError::Report { path: path.display().to_string(), why };
        if path.extension().is_none_or(|e| e != "html") {
            return Err(failed("give it a name that ends in .html".into()));
        }
        std::fs::write(path, page::page(self)).map_err(|e| failed(e.to_string()))
    }
}

fn table(rows: &Rows, section: &str) -> Grid {
    let mut grid = Grid::new([section].into_iter().chain(rows.columns(section)));
    for line in lines(rows, section) {
        let cells = line.cells.iter().map(|cell| cell.map_or_else(String::new, value));
        grid.row([line.metric.to_owned()].into_iter().chain(cells));
    }
    grid
}

#[cfg(test)]
mod tests {
    use super::super::page::tests::outcome;

    #[test]
    fn what_is_not_a_number_is_no_row_and_published_columns_stand_first() {
        let json = outcome().json();
        let rows = json["rows"].as_array().unwrap();
        assert_eq!(rows.len(), 4);
        assert!(rows.iter().all(|r| r["value"].is_f64()));
        let text = outcome().text();
        let (published, measured) = (text.find("published:a").unwrap(), text.find("reference:a").unwrap());
        assert!(published < measured);
        assert!(text.contains("99.00 cycles") && text.contains("1,234 ns"), "{text}");
    }

    #[test]
    fn a_quick_run_says_so_first_and_a_row_its_setting() {
        let json = outcome().json();
        assert_eq!((&json["quick"], &json["cannot_show"]), (&true.into(), &"it is another machine".into()));
        let text = outcome().text();
        assert_eq!(
            text.lines().next(),
            Some("A quick run: not the document's setting (it is another machine).")
        );
        assert!(json["rows"].as_array().unwrap().iter().all(|r| r["setting"] == "A table"));
        let mut full = outcome();
        full.quick = false;
        assert!(full.text().starts_with("none: nothing\n"));
    }

    #[test]
    fn the_verdict_is_one_claim_a_line_in_text_and_in_json() {
        let (text, json) = (outcome().text(), outcome().json());
        let verdict = json["verdict"].as_str().unwrap();
        assert!(text.ends_with(&format!("Verdict (1 reproduced, 1 not measured):\n{verdict}\n")), "{text}");
        assert_eq!(verdict.lines().count(), 2);
        assert!(
            verdict.starts_with(
                "reproduced: a is less than <b>. Asked: half. Published: 99 cycles. Here: 1.5 ns."
            )
        );
        let claim = &json["claims"][0];
        assert_eq!((&claim["outcome"], &claim["by"]), (&"reproduced".into(), &"document".into()));
        assert_eq!(claim["rows"][0]["setting"], "A table");
        assert_eq!(json["claims"][1]["why"], "a second machine is needed");
        assert!(json["made"]["version"] == env!("CARGO_PKG_VERSION"));
    }

    #[test]
    fn a_report_is_a_page() {
        let folder = std::env::temp_dir().join(format!("pageyard-report-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let page = folder.join("r.html");
        outcome().write(&page).unwrap();
        assert!(std::fs::read_to_string(&page).unwrap().starts_with("<!doctype html>"));
        assert!(outcome().write(&folder.join("r.txt")).unwrap_err().to_string().contains(".html"));
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
