//! `--external FILE.json`: another allocator's rows beside those of a benchmark.

use crate::LAB;
use pageyard_documents::schemas::document;
use serde_json::{Value, json};
use std::fs;
use std::path::PathBuf;

fn file(name: &str, text: &str) -> String {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("external");
    fs::create_dir_all(&folder).unwrap();
    let path = folder.join(format!("{name}.json"));
    fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

fn refused(arguments: &[&str]) -> String {
    let out = LAB.run(arguments);
    let text = String::from_utf8(out.stderr).unwrap();
    assert!(!out.status.success() && out.stdout.is_empty(), "{arguments:?}: {text}");
    assert!(text.lines().count() == 1 && !text.contains("panicked"), "{arguments:?}: {text}");
    text
}

fn mixed() -> Value {
    json!({
        "schema": "pageyard.bench-mixed/1",
        "machine": { "cpu": "a CPU elsewhere", "cpus": 7, "kernel": "6.99", "locked_ns": 77.25, "store_to_load_ns": 0.75 },
        "rows": [
            { "allocator": "elsewhere", "threads": 1, "pattern": "local", "touched": false, "ns_median": 31.25,
              "harness_ns": 4.75, "requests": 1000, "failed": 0, "samples": 15 },
            { "allocator": "elsewhere", "threads": 2, "pattern": "local", "touched": false, "ns_median": 41.25,
              "harness_ns": 4.75, "requests": 1000, "failed": 0, "samples": 15 }
        ]
    })
}

/// Checks that exactly the row of this allocator is marked, and returns it.
fn marked<'a>(document: &'a Value, allocator: &str) -> &'a Value {
    let rows = document["rows"].as_array().unwrap();
    let (external, ours): (Vec<&Value>, Vec<&Value>) = rows.iter().partition(|r| r.get("external").is_some());
    assert!(!ours.is_empty() && ours.iter().all(|r| r["allocator"] != allocator), "{document}");
    assert_eq!(external.len(), 1, "{document}");
    assert_eq!((&external[0]["allocator"], &external[0]["external"]), (&allocator.into(), &true.into()));
    external[0]
}

#[test]
fn rows_of_a_mixed_load_stand_marked_beside_ours() {
    let path = file("mixed", &mixed().to_string());
    let arguments = ["bench", "mixed", "--quick", "--samples", "3", "--threads", "1", "--external", &path];
    let out = LAB.run(&[&arguments[..], &["--json"]].concat());
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let document = document(&out.stdout);
    assert_eq!(marked(&document, "elsewhere")["ns_median"], 31.25);
    let note = &document["external"];
    assert_eq!((&note["machine"]["cpu"], &note["rows_left_out"]), (&"a CPU elsewhere".into(), &1.into()));
    let here = document["machine"]["locked_ns"].as_f64().unwrap();
    let locked = format!("a locked instruction takes 77.25 ns there, and {here:.2} here");
    assert_eq!(note["differences"][1], locked.as_str());
    let text = String::from_utf8(LAB.run(&arguments).stdout).unwrap();
    for part in ["elsewhere (external)", "WARNING: (external) rows do not compare", "1 rows of the file"] {
        assert!(text.contains(part), "`{part}` is not in\n{text}");
    }
}

#[test]
fn what_a_benchmark_prints_can_be_shown_beside_it_under_another_name() {
    for (name, arguments) in [
        ("cross", &["bench", "cross", "--quick", "--samples", "3"][..]),
        (
            "sweep",
            &[
                "bench",
                "sweep",
                "--order",
                "0",
                "--batch",
                "64",
                "--threads",
                "1",
                "--pattern",
                "fifo",
                "--samples",
                "3",
            ],
        ),
    ] {
        let out = LAB.run(&[arguments, &["--json"]].concat());
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
        let mut other = document(&out.stdout);
        let rows = other["rows"].as_array_mut().unwrap();
        if rows.is_empty() {
            println!("skipped {name}: nothing can be measured here");
            continue;
        }
        rows.retain(|row| row["allocator"] == "pageyard-trylock");
        rows[0]["allocator"] = "trylock-elsewhere".into();
        let ns = rows[0]["total_ns_median"].clone();
        other["machine"]["cpu"] = "another".into();
        let path = file(name, &other.to_string());
        let out = LAB.run(&[arguments, &["--json", "--external", &path]].concat());
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
        let document = document(&out.stdout);
        let row = marked(&document, "trylock-elsewhere");
        assert_eq!(row["total_ns_median"], ns, "{name}");
        assert!(row.get("x_floor").is_none() && row.get("x_engines").is_none(), "{row}");
        assert!(document["external"]["differences"].to_string().contains("is another"), "{document}");
    }
}

#[test]
fn a_file_that_is_no_good_is_refused_before_anything_is_measured() {
    let good = mixed().to_string();
    let of_sweep = file("of-sweep", &good.replace("bench-mixed", "bench-sweep"));
    for verb in ["sweep", "mixed", "cross"] {
        let why = refused(&["bench", verb, "--external", "/nowhere/at-all.json"]);
        assert!(why.contains("/nowhere/at-all.json cannot be read"), "{why}");
        assert!(refused(&["bench", verb, "--external", "/dev/zero"]).contains("larger than 16 MiB"));
        let why = refused(&["bench", verb, "--external", &file("no-json", "{")]);
        assert!(why.contains("it is not JSON"), "{why}");
        let why = refused(&["bench", verb, "--external", &of_sweep]);
        assert!(verb == "sweep" || why.contains("its schema is pageyard.bench-sweep/1"), "{why}");
    }
    let mut twice = mixed();
    twice["rows"][1]["threads"] = 1.into();
    let ours = good.replacen("elsewhere\"", "pageyard\"", 2);
    for (name, text, says) in [
        ("twice", twice.to_string(), "elsewhere has a row of this setting already"),
        ("ours", ours.replace("a CPU pageyard", "a CPU"), "pageyard is measured here"),
        ("evil", good.replace("\"elsewhere\"", "\"a\\u001b[2J\""), "characters that a terminal acts on"),
        ("negative", good.replace("31.25", "-31.25"), "its `ns_median` is not a number of nanoseconds"),
        ("nan", good.replace("31.25", "NaN"), "it is not JSON"),
        ("absurd", good.replace("31.25", "1e300"), "its `ns_median` is not a number of nanoseconds"),
    ] {
        let why = refused(&["bench", "mixed", "--external", &file(name, &text)]);
        assert!(why.contains(says) && why.contains(name), "{name}: {why}");
    }
}
