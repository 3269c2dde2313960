//! Rows of Linux itself, measured under User Mode Linux: see `bench/linux`.

use crate::external::read_row;
use crate::sweep::SweepRow;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};

/// Where `bench/linux/run` leaves its rows, from the root of the repository.
pub const DEFAULT: &str = "target/linux-uml.json";

/// The name of its rows.
pub const NAME: &str = "linux-uml";

/// Samples of each row that `bench/linux/run` takes, and does not write.
const SAMPLES: u64 = 15;

/// The results that User Mode Linux left.
#[derive(Clone, Debug, PartialEq)]
pub struct Uml {
    /// The kernel's release.
    pub kernel: String,
    /// The processor it ran on.
    pub cpu: String,
    /// The parts of a kernel that User Mode Linux leaves out.
    pub left_out: String,
    /// The rows.
    pub rows: Vec<SweepRow>,
}

/// Reads the rows, or says why there are none.
///
/// # Errors
/// One sentence.
pub fn read(file: Option<&Path>) -> Result<Uml, String> {
    let path = file.map_or_else(|| PathBuf::from(DEFAULT), Path::to_owned);
    let text = fs::read_to_string(&path).map_err(|e| {
        format!("{} cannot be read ({e}): bench/linux/run makes it, with a kernel of its own", path.display())
    })?;
    parse(&text).ok_or_else(|| format!("{} was not written by bench/linux/run", path.display()))
}

fn parse(text: &str) -> Option<Uml> {
    let all: Value = serde_json::from_str(text).ok()?;
    let word = |v: &Value, key: &str| v.get(key)?.as_str().map(str::to_owned);
    let rows = all.get("rows")?.as_array()?.iter().map(|row| {
        let mut row = row.clone();
        row.as_object_mut()?
            .extend([("allocator".to_owned(), NAME.into()), ("samples".to_owned(), SAMPLES.into())]);
        read_row(&row).ok().map(|row| SweepRow { measured_apart: true, ..row })
    });
    Some(Uml {
        kernel: word(&all, "kernel")?,
        cpu: word(&all, "cpu")?,
        left_out: word(&all, "left_out")?,
        rows: rows.collect::<Option<_>>()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::moves::Moves;

    #[test]
    fn a_row_with_a_part_missing_spoils_the_file() {
        let row = r#"{"threads":1,"order":0,"batch":64,"pattern":"fifo","alloc_ns":13.5,"free_ns":14.0,"total_ns_min":27.0,
            "total_ns_median":27.5,"refills":0,"spills":2}"#;
        let file = |rows: &str| format!(r#"{{"kernel":"6.1","cpu":"c","left_out":"much","rows":[{rows}]}}"#);
        let uml = parse(&file(row)).unwrap();
        assert_eq!(
            (uml.rows[0].batch, uml.rows[0].total_ns_median, uml.rows[0].moves),
            (64, 27.5, Some(Moves { refills: 0, spills: 2 }))
        );
        assert_eq!(parse(&file(&row.replace("27.5", "null"))), None);
        assert_eq!(parse("{}"), None);
        assert!(read(Some(Path::new("/nowhere/at-all.json"))).unwrap_err().contains("bench/linux/run"));
    }
}
