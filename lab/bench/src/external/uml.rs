//! Rows of Linux itself, measured under User Mode Linux: see `bench/linux`.

use super::row::{ExternalRow, read as read_row};
use crate::peers::LINUX_UML;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};

/// Where `bench/linux/run` leaves its rows, from the root of the repository.
pub const DEFAULT: &str = "target/linux-uml.json";

/// Samples of each row that `bench/linux/run` takes, and does not write.
const SAMPLES: u64 = 15;

/// The results that User Mode Linux left.
#[derive(Clone, Debug, PartialEq)]
pub struct Uml<R> {
    /// The kernel's release.
    pub kernel: String,
    /// The processor it ran on.
    pub cpu: String,
    /// The parts of a kernel that User Mode Linux leaves out.
    pub left_out: String,
    /// The rows.
    pub rows: Vec<R>,
}

/// Reads the rows, or says why there are none.
///
/// # Errors
/// One sentence.
pub(crate) fn read<R: ExternalRow>(file: Option<&Path>) -> Result<Uml<R>, String> {
    let path = file.map_or_else(|| PathBuf::from(DEFAULT), Path::to_owned);
    let text = fs::read_to_string(&path).map_err(|e| {
        format!("{} cannot be read ({e}): bench/linux/run makes it, with a kernel of its own", path.display())
    })?;
    parse(&text).ok_or_else(|| format!("{} was not written by bench/linux/run", path.display()))
}

fn parse<R: ExternalRow>(text: &str) -> Option<Uml<R>> {
    let all: Value = serde_json::from_str(text).ok()?;
    let word = |v: &Value, key: &str| v.get(key)?.as_str().map(str::to_owned);
    let rows = all.get("rows")?.as_array()?.iter().map(|row| {
        let mut row = row.clone();
        row.as_object_mut()?
            .extend([("allocator".to_owned(), LINUX_UML.into()), ("samples".to_owned(), SAMPLES.into())]);
        read_row(&row).ok()
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
    use crate::sweep::SweepRow;

    #[test]
    fn a_row_with_a_part_missing_spoils_the_file() {
        let row = r#"{"threads":1,"order":0,"batch":64,"pattern":"fifo","alloc_ns":13.5,"free_ns":14.0,"total_ns_min":27.0,
            "total_ns_median":27.5,"refills":0,"spills":2}"#;
        let file = |rows: &str| format!(r#"{{"kernel":"6.1","cpu":"c","left_out":"much","rows":[{rows}]}}"#);
        let uml: Uml<SweepRow> = parse(&file(row)).unwrap();
        assert_eq!(
            (uml.rows[0].batch, uml.rows[0].total_ns_median, uml.rows[0].moves),
            (64, 27.5, Some(Moves { refills: 0, spills: 2 }))
        );
        assert_eq!(parse::<SweepRow>(&file(&row.replace("27.5", "null"))), None);
        assert_eq!(parse::<SweepRow>("{}"), None);
        assert!(
            read::<SweepRow>(Some(Path::new("/nowhere/at-all.json")))
                .unwrap_err()
                .contains("bench/linux/run")
        );
    }
}
