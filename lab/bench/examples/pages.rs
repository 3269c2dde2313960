//! Writes the page of an experiment from the JSON document of a run, so that a page can be looked at without a
//! measurement: `pages FILE.json FILE.html`.

use pageyard_bench::experiment::{self, Made, Rows};
use serde_json::Value;
use std::error::Error;
use std::path::Path;

/// Names of tables and units live as long as the program, in rows that were measured and in those that were read.
fn kept(value: &Value) -> &'static str {
    value.as_str().unwrap_or_default().to_owned().leak()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [document, page] = arguments.as_slice() else {
        return Err(
            "give it the JSON document of a run and the page to write: pages FILE.json FILE.html".into()
        );
    };
    let document: Value = serde_json::from_str(&std::fs::read_to_string(document)?)?;
    let mut rows = Rows::default();
    for row in document["rows"].as_array().into_iter().flatten() {
        let table = kept(&row["table"]);
        rows.section(table);
        let setting = row["setting"].as_str().and_then(|s| s.strip_prefix(table)?.strip_prefix(": "));
        rows.setting(setting.unwrap_or_default());
        rows.add(
            text(&row["metric"]),
            text(&row["column"]),
            row["value"].as_f64().unwrap_or(f64::NAN),
            kept(&row["unit"]),
        );
    }
    let notes = document["notes"].as_array().into_iter().flatten().map(text).collect();
    let experiment = experiment::find(document["name"].as_str().unwrap_or_default())?;
    let mut report = experiment::judged(experiment, rows, notes, document["quick"] == true);
    report.machine = text(&document["machine"]);
    let made = &document["made"];
    report.made = Made {
        command: text(&made["command"]),
        version: text(&made["version"]),
        kernel: text(&made["kernel"]),
        date: text(&made["date"]),
        checked_build: made["checked_build"] == true,
    };
    report.write(Path::new(page))?;
    Ok(())
}
