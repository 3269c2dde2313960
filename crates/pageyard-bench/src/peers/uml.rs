//! Rows of Linux itself, measured under User Mode Linux: see `bench/linux`.

use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};

/// Where `bench/linux/run` leaves its rows, from the root of the repository.
pub const DEFAULT: &str = "target/linux-uml.json";

/// One row as it was left, in nanoseconds.
#[derive(Clone, Debug, PartialEq)]
pub struct UmlRow {
    /// Order of the blocks.
    pub order: u8,
    /// Blocks in a batch.
    pub batch: usize,
    /// The pattern's name.
    pub pattern: String,
    /// Taking.
    pub alloc_ns: f64,
    /// Giving back.
    pub free_ns: f64,
    /// Both, the fastest sample.
    pub total_ns_min: f64,
    /// Both, the median.
    pub total_ns_median: f64,
    /// Refills in all samples.
    pub refills: u64,
    /// Spills in all samples.
    pub spills: u64,
}

/// What was left.
#[derive(Clone, Debug, PartialEq)]
pub struct Uml {
    /// The kernel's release.
    pub kernel: String,
    /// The processor it ran on.
    pub cpu: String,
    /// What User Mode Linux leaves out.
    pub left_out: String,
    /// The rows.
    pub rows: Vec<UmlRow>,
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
    let rows = all.get("rows")?.as_array()?.iter().map(|r| {
        let ns = |key: &str| r.get(key)?.as_f64().filter(|ns| *ns >= 0.0);
        let n = |key: &str| r.get(key)?.as_u64();
        Some(UmlRow {
            order: u8::try_from(n("order")?).ok()?,
            batch: usize::try_from(n("batch")?).ok()?,
            pattern: word(r, "pattern")?,
            alloc_ns: ns("alloc_ns")?,
            free_ns: ns("free_ns")?,
            total_ns_min: ns("total_ns_min")?,
            total_ns_median: ns("total_ns_median")?,
            refills: n("refills")?,
            spills: n("spills")?,
        })
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

    #[test]
    fn a_row_with_a_part_missing_spoils_the_file() {
        let row = r#"{"order":0,"batch":64,"pattern":"fifo","alloc_ns":13.5,"free_ns":14.0,"total_ns_min":27.0,
            "total_ns_median":27.5,"refills":0,"spills":2}"#;
        let file = |rows: &str| format!(r#"{{"kernel":"6.1","cpu":"c","left_out":"much","rows":[{rows}]}}"#);
        let uml = parse(&file(row)).unwrap();
        assert_eq!((uml.rows[0].batch, uml.rows[0].total_ns_median, uml.rows[0].spills), (64, 27.5, 2));
        assert_eq!(parse(&file(&row.replace("27.5", "null"))), None);
        assert_eq!(parse("{}"), None);
        assert!(read(Some(Path::new("/nowhere/at-all.json"))).unwrap_err().contains("bench/linux/run"));
    }
}
