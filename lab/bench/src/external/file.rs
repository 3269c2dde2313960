//! A file of rows: read within bounds, and refused with what to do.

use super::compare::differences;
use super::row::{ExternalRow, check_name, read};
use crate::contestants::is_measured_here;
use crate::harness::machine::Machine;
use pageyard_trace::{Document, shown};
use serde_json::Value;
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// The largest file that is read, in bytes: a full sweep has less than a megabyte.
const LARGEST: u64 = 16 << 20;

/// The most rows: more than any benchmark has settings, for a few allocators.
const MOST_ROWS: usize = 10_000;

/// Rows that were measured elsewhere.
#[derive(Clone, Debug)]
pub struct External<R> {
    /// Where.
    pub machine: Machine,
    /// The rows, marked.
    pub rows: Vec<R>,
}

impl<R> External<R> {
    /// Says in what the machine is not like this one, a sentence each. Where it is not, ratios between the two mean
    /// nothing.
    #[must_use]
    pub fn differences(&self, here: &Machine) -> Vec<String> {
        differences(&self.machine, here)
    }
}

#[expect(private_bounds, reason = "the benchmarks are all that have rows")]
impl<R: ExternalRow> External<R> {
    /// Reads a file.
    ///
    /// # Errors
    /// The fault and the remedy, in one sentence.
    pub fn read(path: &Path) -> Result<External<R>, String> {
        let name = shown(&path.display().to_string());
        let mut text = Vec::new();
        let opened = File::open(path).and_then(|file| file.take(LARGEST + 1).read_to_end(&mut text));
        opened.map_err(|e| format!("{name} cannot be read ({e}); --external takes a file of rows"))?;
        if text.len() as u64 > LARGEST {
            return Err(format!("{name} is larger than 16 MiB; leave only the rows to be shown in it"));
        }
        parse(&text).map_err(|why| format!("{name}: {why}"))
    }
}

fn parse<R: ExternalRow>(text: &[u8]) -> Result<External<R>, String> {
    let file: Value = serde_json::from_slice(text)
        .map_err(|e| format!("it is not JSON ({e}); write it as the benchmark's --json does"))?;
    let known = R::Report::SCHEMA;
    match file.get("schema").and_then(Value::as_str) {
        Some(schema) if schema == known => {}
        Some(other) => {
            return Err(format!("its schema is {}, and this benchmark reads {known}", shown(other)));
        }
        None => return Err(format!("it has no schema; add \"schema\": \"{known}\"")),
    }
    let machine = machine(file.get("machine"))?;
    let rows = file.get("rows").and_then(Value::as_array);
    let rows = rows.filter(|rows| (1..=MOST_ROWS).contains(&rows.len()));
    let rows = rows.ok_or_else(|| format!("it has no list `rows` of 1 to {MOST_ROWS} rows; add it"))?;
    let mut all: Vec<R> = Vec::new();
    for (i, row) in rows.iter().enumerate() {
        let wrong = |why: String| format!("row {} of `rows`: {why}", i + 1);
        let row: R = read(row).map_err(wrong)?;
        let name = row.allocator();
        if is_measured_here(name) {
            return Err(wrong(format!(
                "{name} is measured here; give the row another name, or leave it out"
            )));
        }
        if all.iter().any(|other| other.allocator() == name && other.is_of_the_setting_of(&row)) {
            return Err(wrong(format!("{name} has a row of this setting already; leave one of them out")));
        }
        all.push(row);
    }
    Ok(External { machine, rows: all.into_iter().map(R::marked).collect() })
}

fn machine(value: Option<&Value>) -> Result<Machine, String> {
    let value = value.ok_or("it has no `machine`; add the one that the benchmark's --json prints there")?;
    let wrong = |why: String| format!("its `machine` {why}");
    let machine: Machine = serde_json::from_value(value.clone())
        .map_err(|e| wrong(format!("cannot be read: {}", shown(&e.to_string()))))?;
    check_name(&machine.cpu).map_err(|why| wrong(format!("is of a `cpu` that {why}")))?;
    check_name(&machine.kernel).map_err(|why| wrong(format!("has a `kernel` that {why}")))?;
    let costs = machine.costs.into_iter().flat_map(|c| {
        let barriers = [c.membarrier_ns, c.membarrier_running_ns];
        [Some(c.locked_ns), Some(c.store_to_load_ns), c.handover_ns].into_iter().chain(barriers).flatten()
    });
    if costs.into_iter().any(|ns| !(0.0..1e9).contains(&ns)) {
        return Err(wrong("has times that are not nanoseconds from 0 to 1e9; correct them".to_owned()));
    }
    Ok(machine)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cross::CrossRow;
    use crate::mixed::MixedRow;
    use crate::sweep::SweepRow;

    const MIXED: &str = r#"{"schema": "pageyard.bench-mixed/1",
        "machine": {"cpu": "EPYC", "cpus": 2, "kernel": "6.1", "locked_ns": 2.3, "store_to_load_ns": 0.8},
        "rows": [{"allocator": "mine", "threads": 1, "pattern": "local", "touched": false, "ns_median": 30.5,
            "harness_ns": 4.5, "requests": 1000, "failed": 1, "samples": 15}]}"#;

    fn refused(text: &str) -> String {
        let why = parse::<MixedRow>(text.as_bytes()).unwrap_err();
        assert!(why.lines().count() == 1 && !why.chars().any(char::is_control), "{why}");
        why
    }

    #[test]
    fn a_file_is_read_as_it_was_written() {
        let external = parse::<MixedRow>(MIXED.as_bytes()).unwrap();
        let row = &external.rows[0];
        assert_eq!((&*row.allocator, row.ns_median, row.harness_ns, row.failed), ("mine", 30.5, 4.5, 1));
        assert_eq!((&*external.machine.cpu, external.machine.costs.unwrap().locked_ns), ("EPYC", 2.3));
        assert_eq!((row.biased_share, row.disturbed, row.external), (None, false, true));
    }

    #[test]
    fn what_is_wrong_is_said_with_what_to_do() {
        for (from, to, says) in [
            ("{\"schema\"", "\"schema\"", "it is not JSON"),
            ("bench-mixed", "bench-sweep", "this benchmark reads pageyard.bench-mixed/1"),
            ("\"schema\"", "\"scheme\"", "add \"schema\": \"pageyard.bench-mixed/1\""),
            ("\"machine\"", "\"host\"", "it has no `machine`"),
            ("\"kernel\"", "\"release\"", "missing field `kernel`"),
            ("2.3", "-1", "its `machine` has times"),
            ("2.3", "1e10", "its `machine` has times"),
            ("EPYC", "\\u001b[2J", "its `machine` is of a `cpu` that has characters that a terminal acts on"),
            ("\"rows\"", "\"row\"", "it has no list `rows`"),
            ("[{", "[7, {", "row 1 of `rows`: it is not an object"),
            ("mine", "pageyard", "pageyard is measured here"),
            ("mine", "linux-uml", "linux-uml is measured here"),
            ("mine", "a\\u001bb", "characters that a terminal acts on"),
            ("mine", "a\\nb", "characters that a terminal acts on"),
            ("\"mine\"", "\"\"", "has 0 bytes"),
            ("\"ns_median\"", "\"ns\"", "it has no `ns_median`"),
            ("30.5", "-3", "its `ns_median` is not a number of nanoseconds"),
            ("30.5", "NaN", "it is not JSON"),
            ("30.5", "1e999", "it is not JSON"),
            ("30.5", "1e10", "its `ns_median` is not a number of nanoseconds"),
            ("30.5", "\"30\"", "its `ns_median` is not a number of nanoseconds"),
            ("30.5", "null", "its `ns_median` is not a number of nanoseconds"),
            ("30.5", "0", "its `ns_median` is 0"),
            ("1000", "1.5", "its `requests` is not a whole number"),
            ("1000", "0", "its `failed` is 1, of 0"),
            ("local", "global", "write local or handed-over"),
            ("false", "0", "its `touched` is neither true nor false"),
        ] {
            assert!(MIXED.contains(from), "{from}");
            let why = refused(&MIXED.replacen(from, to, 1));
            assert!(why.contains(says), "{from}, {to}: {why}");
        }
        let row = MIXED.split_once("[{").unwrap().1.split_once("}]").unwrap().0;
        let twice = MIXED.replace("}]}", &format!("}}, {{{row}}}]}}"));
        assert!(refused(&twice).contains("row 2 of `rows`: mine has a row of this setting already"));
        let long = refused(&MIXED.replace("mine", &"x".repeat(65)));
        assert!(long.contains("has 65 bytes"), "{long}");
        assert!(refused(&"[".repeat(100_000)).contains("it is not JSON"));
    }

    #[test]
    fn a_file_that_is_not_there_or_too_large_is_named() {
        let why = External::<SweepRow>::read(Path::new("/nowhere/at-all.json")).unwrap_err();
        assert!(why.contains("/nowhere/at-all.json cannot be read"), "{why}");
        let why = External::<CrossRow>::read(Path::new("/dev/zero")).unwrap_err();
        assert!(why.contains("/dev/zero is larger than 16 MiB"), "{why}");
    }
}
