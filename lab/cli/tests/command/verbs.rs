//! Benchmarks and experiments as a user meets them: what they print where, and how they fail.

use crate::LAB;
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::Command;

#[test]
fn a_benchmark_prints_rows_with_the_promised_keys() {
    let v = LAB.json(&["bench", "scale", "--quick", "--json"]);
    let rows = v["rows"].as_array().unwrap();
    assert!(rows.len() >= 8);
    for row in rows {
        assert!(row["steps_max"].as_u64().unwrap() < 100, "{row}");
        for key in ["allocator", "frames", "full_pct", "order", "total_ns_median"] {
            assert!(row.get(key).is_some(), "{key}");
        }
    }
}

/// Allocators that a host may or may not have, none of them at every order.
const PEERS: [&str; 7] =
    ["mimalloc", "mimalloc-3", "jemalloc", "tcmalloc", "snmalloc", "rte_mempool-512", "rte_ring"];

#[test]
fn a_sweep_names_its_floor_its_machine_and_everybody_it_left_out() {
    let one = [
        "bench",
        "sweep",
        "--order",
        "0,9",
        "--batch",
        "1,64",
        "--pattern",
        "lifo",
        "--threads",
        "1",
        "--samples",
        "5",
        "--json",
    ];
    let v = LAB.json(&one);
    assert_eq!(v["samples"], 5);
    assert!(v["machine"]["cpu"].is_string() && v["disturbance"]["settings"] == 4, "{v}");
    let rows = v["rows"].as_array().unwrap();
    for row in rows {
        for key in ["alloc_ns", "free_ns", "total_ns_min", "total_ns_median"] {
            assert!(row[key].is_number(), "{key} {row}");
        }
        // Peers in processes of their own do not count them.
        if !PEERS.iter().any(|peer| row["allocator"] == *peer) {
            assert!(row["refills"].is_number() && row["spills"].is_number(), "{row}");
        }
        assert!(row["x_floor"].as_f64().unwrap() > 0.0 && row["floor"].is_string(), "{row}");
        assert_eq!((&row["pattern"], &row["threads"]), (&"lifo".into(), &1.into()));
        assert!(row["samples"] == 5 || row["measured_apart"] == true, "{row}");
    }
    // An allocator without a row at some order is reported as left out.
    let names =
        |of: &Value| of.as_array().unwrap().iter().map(|r| r["allocator"].clone()).collect::<Vec<_>>();
    let skipped = names(&v["skipped"]);
    for peer in PEERS {
        assert!(skipped.contains(&peer.into()), "{peer}: {skipped:?}");
    }
    for name in ["floor-array", "pageyard-trylock", "linux-6.18", "buddy_system_allocator-locked"] {
        let batches = rows.iter().filter(|r| r["allocator"] == name).count();
        assert_eq!(batches, 4, "{name}");
    }
    assert!(LAB.failure(&["bench", "sweep", "--order", "10"]).contains("0 to 9"));
    assert!(LAB.failure(&["bench", "clear", "--preempt", "rt"]).contains("none, voluntary, full, lazy"));
    for few in ["2", "0", "-1", "many", "1001"] {
        let why = LAB.failure(&["bench", "sweep", &format!("--samples={few}")]);
        assert!(why.contains("from 3 to 1000"), "{few}: {why}");
    }
    assert!(
        LAB.failure(&["bench", "sweep", "--linux-uml", "/nowhere/at-all.json"])
            .contains("/nowhere/at-all.json")
    );
}

#[test]
fn a_mixed_load_has_a_row_of_every_allocator_or_says_why_not() {
    let v = LAB.json(&["bench", "mixed", "--quick", "--samples", "3", "--json"]);
    assert_eq!((&v["samples"], &v["quick"]), (&3.into(), &true.into()));
    assert!(v["machine"]["cpu"].is_string() && v.get("external").is_none(), "{v}");
    let shares: f64 = v["orders"].as_array().unwrap().iter().map(|o| o["share"].as_f64().unwrap()).sum();
    assert!((shares - 1.0).abs() < 1e-9, "{v}");
    let rows = v["rows"].as_array().unwrap();
    for row in rows {
        for key in ["ns_median", "harness_ns", "less_harness_ns"] {
            assert!(row[key].is_number(), "{key} {row}");
        }
        assert!(row["failed"].as_u64().unwrap() <= row["requests"].as_u64().unwrap(), "{row}");
        assert_eq!(row["pattern"], "local", "{row}");
        assert!(row.get("external").is_none(), "{row}");
    }
    let skipped: Vec<&Value> = v["skipped"].as_array().unwrap().iter().map(|s| &s["allocator"]).collect();
    let is_there = |name: &str, threads: u64, touched: bool| {
        let row = |r: &&Value| r["allocator"] == name && r["threads"] == threads && r["touched"] == touched;
        rows.iter().filter(row).count() == 1 || skipped.iter().any(|s| **s == name || **s == "all")
    };
    for name in [
        "pageyard",
        "pageyard-biased",
        "pageyard:pcp=false",
        "pageyard-exclusive",
        "pageyard-alone",
        "pageyard-trylock",
        "linux-6.18",
        "linux-6.1",
        "linux-4.10",
        "buddy_system_allocator",
        "buddy_system_allocator-locked",
        "mimalloc",
        "mimalloc-3",
        "jemalloc",
        "tcmalloc",
        "snmalloc",
    ] {
        for (threads, touched) in [(1, false), (1, true), (2, false), (2, true)] {
            assert!(is_there(name, threads, touched), "{name}, {threads}, {touched}: {skipped:?}");
        }
    }
    assert!(
        rows.iter()
            .all(|r| r["allocator"] != "harness" && !r["allocator"].as_str().unwrap().starts_with("rte_"))
    );
    let why = LAB.failure(&["bench", "mixed", "--threads", "65"]);
    assert!(why.contains("1..=64"), "{why}");
}

#[test]
fn a_stream_has_the_four_operations_for_each_number_of_threads() {
    let v = LAB.json(&["bench", "stream", "--elements", "200000", "--samples", "4", "--json"]);
    assert_eq!((&v["elements"], &v["samples"]), (&200_000.into(), &4.into()));
    assert_eq!((&v["array_bytes"], &v["quick"]), (&1_600_000.into(), &false.into()));
    let cpus = v["machine"]["cpus"].as_u64().unwrap();
    let counts = if cpus == 1 { vec![1] } else { vec![1, cpus] };
    let rows = v["rows"].as_array().unwrap();
    let found: Vec<_> =
        rows.iter().map(|r| (r["threads"].as_u64().unwrap(), r["kernel"].as_str().unwrap())).collect();
    let expected = counts.iter().flat_map(|n| ["Copy", "Scale", "Add", "Triad"].map(|kernel| (*n, kernel)));
    assert_eq!(found, expected.collect::<Vec<_>>());
    for row in rows {
        let [shortest, mean, longest] = ["min_ns", "avg_ns", "max_ns"].map(|key| row[key].as_f64().unwrap());
        assert!(0.0 < shortest && shortest <= mean && mean <= longest, "{row}");
        let mbps = 200_000.0 * row["bytes_per_element"].as_f64().unwrap() / shortest * 1000.0;
        assert!((row["mbps_best"].as_f64().unwrap() / mbps - 1.0).abs() < 1e-9, "{row}");
    }
}

#[test]
fn a_quick_stream_says_what_it_cannot_show() {
    let text = |arguments: &[&str]| {
        let out = LAB.run(&[&["bench", "stream", "--elements", "1000", "--quick"], arguments].concat());
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
        String::from_utf8(out.stdout).unwrap()
    };
    let quick = text(&[]);
    assert!(quick.starts_with("A quick run: ") && quick.contains("It cannot show"), "{quick}");
    assert_eq!(quick.contains("WARNING: "), quick.contains("last-level caches of"), "{quick}");
    assert!(!text(&["--samples", "9"]).contains("quick"), "as many samples as the whole benchmark has");
}

#[test]
fn a_stream_that_cannot_be_is_refused_in_a_sentence() {
    let refusal = |arguments: &[&str]| LAB.failure(&[&["bench", "stream"], arguments].concat());
    for (elements, says) in [
        ("0", "zero"),
        ("-1", "invalid digit"),
        ("many", "invalid digit"),
        ("99999999999999999999999", "too large"),
        ("18446744073709551615", "ask for fewer --elements"),
        ("1000000000000000", "ask for fewer --elements"),
    ] {
        let why = refusal(&[&format!("--elements={elements}")]);
        assert!(why.contains(says), "{elements}: {why}");
    }
    for samples in ["2", "many"] {
        let why = refusal(&["--samples", samples]);
        assert!(why.contains("from 3 to"), "{why}");
    }
    let why = refusal(&["--samples", "250", "--elements", "1000"]);
    assert!(why.contains("249") && why.contains("--samples"), "{why}");
    let limited = format!(
        "ulimit -v 600000; exec {} bench stream --elements 30000000",
        env!("CARGO_BIN_EXE_pageyard-lab")
    );
    let out = Command::new("sh").args(["-c", &limited]).output().unwrap();
    let why = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.code() == Some(1) && why.contains("ulimit -v") && why.lines().count() == 1, "{why}");
}

#[test]
fn primitives_begin_with_the_thirteen_of_the_document() {
    let v = LAB.json(&["bench", "primitives", "--json"]);
    let rows = v["rows"].as_array().unwrap();
    let thirteen: Vec<&str> = rows[..13].iter().map(|r| r["primitive"].as_str().unwrap()).collect();
    assert_eq!((thirteen[0], thirteen[1], thirteen[12]), ("for_loop", "spin_lock_unlock", "page_alloc_put"));
    assert!(rows.iter().all(|r| r["ns_median"].as_f64().unwrap() > 0.0));
    assert!(rows[..13].iter().all(|r| r["published_ns"].is_number()));
}

#[test]
fn experiments_are_listed_by_name_and_refused_with_what_there_is() {
    let all = LAB.json(&["experiment", "--json"]);
    let names: Vec<_> =
        all["experiments"].as_array().unwrap().iter().map(|e| e["name"].as_str().unwrap()).collect();
    assert!(
        names.contains(&"irq-safe") && names.contains(&"zonelist") && names.contains(&"page-frag"),
        "{names:?}"
    );
    let why = LAB.failure(&["experiment", "irqsafe"]);
    assert!(names.iter().all(|n| why.contains(n)), "{why}");
    let why = LAB.failure(&["experiment", "zonelist", "--checked", "--report", "zonelist.txt"]);
    assert!(why.contains("ends in .html"), "{why}");
    assert!(
        LAB.failure(&["experiment", "zonelist", "--checked", "--report", "/nowhere/at/all.html"])
            .contains("/nowhere/at/all.html")
    );
}

#[test]
fn settings_that_an_experiment_cannot_take_are_refused_in_a_sentence() {
    for (experiment, set, part) in [
        ("page-frag", "frag_free=pcp", "page-frag varies `frag_free` itself"),
        ("page-frag", "pcp_polici=auto", "did you mean `pcp_policy`?"),
        ("page-frag", "linux-6.18:pcp_policy=auto", "its engines are linux-4.10 and pageyard"),
        ("page-frag", "pcp_policy", "KNOB=VALUE"),
        ("page-frag", "min_free_kbytes=200000", "min_free_kbytes"),
        ("direct-compaction", "compaction.direct_free=all", "varies `compaction.direct_free` itself"),
    ] {
        let why = LAB.failure(&["experiment", experiment, "--quick", "--set", set]);
        assert!(why.contains(part), "{set}: {why}");
    }
    assert!(LAB.failure(&["experiment", "--set", "pcp_policy=auto"]).contains("name one"));
    assert!(LAB.failure(&["experiment", "page-frag", "--samples", "2"]).contains("from 3"));
    let why = LAB.failure(&["experiment", "direct-compaction", "--quick", "--samples", "9"]);
    assert!(why.contains("takes no samples"), "{why}");
}

#[test]
fn an_experiment_prints_its_rows_and_writes_its_report() {
    let page = Path::new(env!("CARGO_TARGET_TMPDIR")).join("page-frag.html");
    let set = ["--set", "watermark_scale_factor=77", "--set", "linux-4.10:pcp_policy=free_factor"];
    let arguments = [
        "experiment",
        "page-frag",
        "--quick",
        "--json",
        "--samples",
        "3",
        "--report",
        page.to_str().unwrap(),
    ];
    if cfg!(debug_assertions) {
        let why = LAB.failure(&arguments);
        assert!(why.contains("no report is written") && why.contains("cargo build --release"), "{why}");
    }
    let arguments = [&["experiment", "--checked"], &arguments[1..]].concat();
    let result = LAB.json(&[&arguments[..], &set].concat());
    assert_eq!(result["name"], "page-frag");
    assert_eq!(result["samples"], 3);
    assert_eq!(
        result["settings"],
        serde_json::json!({
            "linux-4.10": { "pcp_policy": "free_factor", "watermark_scale_factor": "77" },
            "pageyard": { "watermark_scale_factor": "77" },
        })
    );
    let notes = result["notes"].to_string();
    assert!(notes.contains("not the document's settings: pcp_policy=free_factor"), "{notes}");
    assert!(!result["verdict"].as_str().unwrap().is_empty());
    let rows = result["rows"].as_array().unwrap();
    for row in rows {
        assert!(row["metric"].is_string() && row["column"].is_string() && row["unit"].is_string(), "{row}");
        assert!(row["value"].is_f64(), "{row}");
    }
    for column in ["published:profile", "reference:buddy", "reference:pcp", "pageyard"] {
        assert!(rows.iter().any(|r| r["column"] == column), "{column}");
    }
    let claims = result["claims"].as_array().unwrap();
    assert_eq!(result["verdict"].as_str().unwrap().lines().count(), claims.len());
    let html = fs::read_to_string(page).unwrap();
    assert_eq!(html.matches("<article").count(), claims.len());
    let command = "<code>pageyard-lab experiment --checked page-frag --quick --json --samples 3 --report ";
    assert!(html.contains(command) && html.contains(env!("CARGO_PKG_VERSION")), "{html}");
}

#[test]
fn help_has_an_example_for_every_verb() {
    for verb in [
        &["--help"][..],
        &["bench", "--help"],
        &["bench", "stream", "--help"],
        &["experiment", "--help"],
        &["router", "--help"],
        &["what-if", "--help"],
        &["judge", "--help"],
        &["schema", "--help"],
    ] {
        assert!(String::from_utf8(LAB.stdout(verb)).unwrap().contains("Example"), "{verb:?}");
    }
}

#[test]
fn names_cannot_command_a_terminal() {
    const EVIL: &str = "a\u{1b}[2J\u{1b}]0;b\u{7}\u{9b}31mc";
    for arguments in [
        &[EVIL][..],
        &["experiment", EVIL],
        &["experiment", "zonelist", "--set", EVIL],
        &["experiment", "zonelist", "--set", &format!("{EVIL}=1")],
        &["experiment", "zonelist", "--samples", EVIL],
        &["experiment", "zonelist", "--report", EVIL],
        &["bench", EVIL],
        &["bench", "stream", "--elements", EVIL],
        &["bench", "cross", "--external", EVIL],
        &["judge", "check", EVIL],
        &["judge", "guest", "--kernel", "/", "--initrd", "/", "--folder", "/nowhere", "--preset", EVIL],
        &["schema", EVIL],
    ] {
        LAB.harmless(arguments);
    }
}
