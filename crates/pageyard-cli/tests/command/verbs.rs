//! The command as a user meets it: what it prints where, and how it fails.

use crate::schemas::document;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

pub fn pageyard(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_pageyard")).args(arguments).output().unwrap()
}

fn shipped(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data/traces").join(format!("{name}.trace"))
}

/// Checks that a run succeeded and printed one JSON document that its schema describes, and nothing else on standard
/// output.
pub fn json(arguments: &[&str]) -> Value {
    let out = pageyard(arguments);
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    document(&out.stdout)
}

/// Checks that a run failed in time, printed nothing on standard output, and one plain message; returns the message.
pub fn failure(arguments: &[&str]) -> String {
    let start = Instant::now();
    let out = pageyard(arguments);
    assert!(!out.status.success(), "{arguments:?}");
    assert!(out.stdout.is_empty(), "{arguments:?}");
    let text = String::from_utf8(out.stderr).unwrap();
    assert!(!text.contains("panicked") && !text.contains("RUST_BACKTRACE"), "{text}");
    assert!((1..=5).contains(&text.lines().count()), "{text}");
    assert!(start.elapsed() < Duration::from_secs(30), "{arguments:?} took {:?}", start.elapsed());
    text
}

/// Copies a shipped trace to a separate folder, to be corrupted.
fn copy(name: &str) -> PathBuf {
    let to = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("command-{name}.trace"));
    drop(fs::remove_dir_all(&to));
    fs::create_dir_all(&to).unwrap();
    for file in fs::read_dir(shipped("build")).unwrap() {
        let file = file.unwrap();
        fs::copy(file.path(), to.join(file.file_name())).unwrap();
    }
    to
}

fn refused(trace: &Path) -> String {
    let path = trace.to_str().unwrap();
    let summary = failure(&["summary", path, "--json"]);
    let replay = failure(&["replay", path, "--json"]);
    assert!(
        summary.contains(path) || summary.contains(".parquet") || summary.contains("meta.json"),
        "{summary}"
    );
    replay
}

#[test]
fn without_arguments_the_carried_trace_is_replayed() {
    let out = pageyard(&[]);
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let text = String::from_utf8(out.stdout).unwrap();
    for part in ["build", "linux-6.18", "rate", "prediction", "Trace quality"] {
        assert!(text.contains(part), "{part} is missing in\n{text}");
    }
    let carried = json(&["replay", "--json"]);
    assert_eq!(carried["trace"]["events"], 804_514);
}

#[test]
fn replay_prints_one_json_document_with_the_promised_keys() {
    let path = shipped("net-order0");
    let v = json(&["replay", path.to_str().unwrap(), "--engine", "linux-6.1,linux-6.18", "--json"]);
    assert_eq!(v["trace"]["allocs"], 1_000_826);
    assert_eq!(v["trace"]["frees"], 997_061);
    assert_eq!(v["trace"]["unknown_frees"], 105);
    assert_eq!(v["trace"]["reallocations"], 61);
    assert_eq!(v["trace"]["lost"], 0);
    let engines = v["engines"].as_array().unwrap();
    assert_eq!(engines.len(), 2);
    for e in engines {
        assert_eq!(e["double_allocations"], 0);
        assert_eq!(e["leaked_frames"], 0);
        assert!(e["fallbacks"].is_u64() && e["failed_allocs"].is_u64());
        for time in ["alloc_ns", "free_ns"] {
            for key in ["mean", "p50", "p99", "max"] {
                assert!(e[time][key].as_f64().unwrap() > 0.0, "{time} {key}");
            }
        }
        for key in ["read", "open", "replay"] {
            assert!(e["seconds"][key].is_f64(), "{key}");
        }
        for zone in ["DMA", "DMA32", "Normal"] {
            assert_eq!(e["buddyinfo"][zone].as_array().unwrap().len(), 11);
            assert_eq!(e["after"]["recorded"][zone].as_array().unwrap().len(), 11);
        }
    }
}

#[test]
fn replay_says_what_the_slow_path_did_and_nothing_where_there_was_none() {
    let path = shipped("build");
    let keys = [
        "compact_stall",
        "compact_success",
        "compact_fail",
        "compact_migrate_scanned",
        "compact_free_scanned",
        "allocstall",
        "pgsteal",
    ];
    // The least memory that the recording fits into: the host's large blocks are hard to find there.
    let arguments = ["replay", path.to_str().unwrap(), "--memory", "763M", "--json"];
    let plain = json(&arguments);
    let helped =
        json(&[&arguments[..], &["--slow-path", "reclaim,compaction", "--pinned", "0.135"]].concat());
    let engines = |v: &Value| v["engines"].as_array().unwrap().clone();
    for (without, with) in engines(&plain).iter().zip(engines(&helped)) {
        assert!(keys.iter().all(|key| without[key] == 0), "{without}");
        assert!(without.get("slow_path").is_none());
        let n = |key: &str| with[key].as_u64().unwrap();
        assert_eq!(n("compact_stall"), n("compact_success") + n("compact_fail"), "{with}");
        assert_eq!((n("leaked_frames"), n("double_allocations"), n("refused_frees")), (0, 0, 0), "{with}");
        assert_eq!(
            (&with["audit"], &with["slow_path"]["allowed"]),
            (&"clean".into(), &"reclaim,compaction".into())
        );
        assert!(with["slow_path"]["pinned_frames"].as_u64().unwrap() > 0, "{with}");
        if with["name"] == "linux-6.18" {
            assert!(keys.iter().all(|key| n(key) > 0), "{with}");
            // Requests that wait find that the zone has what compaction needs, and leave it alone; for each block that
            // is not there, the background reclaimer frees twice its frames.
            let counters = &with["counters"];
            assert_eq!(
                (counters["pgsteal_direct"].as_u64(), &counters["pgsteal_kswapd"]),
                (Some(0), &with["pgsteal"])
            );
            assert!(n("failed_allocs") < without["failed_allocs"].as_u64().unwrap(), "{with}");
        }
    }
}

#[test]
fn another_opening_puts_free_blocks_in_another_order_the_same_each_time() {
    let path = shipped("build");
    let at = |opening: &[&str]| {
        let of = ["replay", path.to_str().unwrap(), "--engine", "linux-6.18", "--json"];
        let replayed = json(&[&of[..], opening].concat());
        let engine = &replayed["engines"][0];
        assert_eq!((&engine["leaked_frames"], &engine["audit"]), (&0.into(), &"clean".into()));
        (engine["buddyinfo"].clone(), engine["counters"].clone())
    };
    let ascending = at(&[]);
    assert_eq!(at(&["--opening", "0"]), ascending);
    let other = at(&["--opening", "3"]);
    assert_ne!(other, ascending);
    assert_eq!(at(&["--opening", "3"]), other);
}

#[test]
fn a_slow_path_that_is_none_is_refused_in_one_sentence() {
    for (arguments, says) in [
        (
            &["--slow-path", "swap"][..],
            "`swap` is not part of the slow path; use reclaim, compaction or both",
        ),
        (&["--slow-path", "none,reclaim"], "`none` stands alone"),
        (&["--slow-path", "reclaim", "--pinned", "101"], "`101` is not a percentage"),
        (&["--pinned", "1"], "add --slow-path"),
        (&["--slow-path", "reclaim", "--threads"], "leave out --threads"),
        (
            &["--set", "compaction.extfrag_threshold=1001"],
            "`compaction.extfrag_threshold` takes 0 to 1000, not `1001`",
        ),
        (&["--engine", "pageyard", "--set", "compaction.speed=1"], "there is no knob `compaction.speed`"),
    ] {
        let text = failure(&[&["replay"], arguments].concat());
        assert!(text.contains(says), "{text}");
    }
}

#[test]
fn summary_prints_one_json_document_with_the_promised_keys() {
    let path = shipped("build");
    let v = json(&["summary", path.to_str().unwrap(), "--json"]);
    assert_eq!((v["allocs"].as_u64(), v["frees"].as_u64()), (Some(310_967), Some(178_950)));
    assert_eq!(v["failed"], 0);
    let orders: Vec<u64> = v["by_order"].as_array().unwrap().iter().map(|n| n.as_u64().unwrap()).collect();
    assert_eq!((orders[0], orders[2], orders.iter().sum::<u64>()), (308_130, 2_650, 310_967));
    assert_eq!(v["by_migratetype"]["Movable"], 303_291);
    assert!(v["by_context"]["task"].as_u64().unwrap() > 300_000);
    let bytes: u64 = orders.iter().enumerate().map(|(o, n)| n * (4096 << o)).sum();
    assert_eq!(v["alloc_bytes"].as_u64(), Some(bytes));
}

#[test]
fn the_host_is_summed_up_and_says_what_it_could_not_read() {
    let out = pageyard(&["summary", "--host"]);
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    assert!(!out.stdout.is_empty());
    assert!(json(&["summary", "--host", "--json"]).is_object());
}

#[test]
fn the_host_is_judged_for_the_request_that_is_named() {
    let asked = |gfp| json(&["summary", "--host", "--for", gfp, "--json"])["orders_are_for"].clone();
    assert!(asked("GFP_ATOMIC").as_str().unwrap().starts_with("GFP_ATOMIC:"));
    assert!(asked("highuser_movable").as_str().unwrap().starts_with("GFP_HIGHUSER_MOVABLE:"));
    for (gfp, says) in [
        ("GFP_ATOMC", "did you mean `GFP_ATOMIC`?"),
        ("\u{1b}[2J", "`--for` takes GFP_KERNEL, GFP_ATOMIC, GFP_HIGHUSER_MOVABLE, not `\\u{1b}[2J`"),
    ] {
        let out = pageyard(&["summary", "--host", "--for", gfp]);
        let error = String::from_utf8_lossy(&out.stderr).into_owned();
        assert!(!out.status.success() && error.contains(says), "{error}");
    }
    assert!(!pageyard(&["summary", "--for", "GFP_KERNEL"]).status.success(), "it needs --host");
}

#[test]
fn a_benchmark_prints_rows_with_the_promised_keys() {
    let v = json(&["bench", "scale", "--quick", "--json"]);
    let rows = v["rows"].as_array().unwrap();
    assert!(rows.len() >= 8);
    for row in rows {
        assert!(row["steps_max"].as_u64().unwrap() < 100, "{row}");
        for key in ["allocator", "frames", "full_pct", "order", "total_ns_median"] {
            assert!(row.get(key).is_some(), "{key}");
        }
    }
}

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
    let v = json(&one);
    assert_eq!(v["samples"], 5);
    assert!(v["machine"]["cpu"].is_string() && v["disturbance"]["settings"] == 4, "{v}");
    let rows = v["rows"].as_array().unwrap();
    for row in rows {
        for key in ["alloc_ns", "free_ns", "total_ns_min", "total_ns_median", "refills", "spills"] {
            assert!(row[key].is_number(), "{key} {row}");
        }
        assert!(row["x_floor"].as_f64().unwrap() > 0.0 && row["floor"].is_string(), "{row}");
        assert_eq!((&row["pattern"], &row["threads"]), (&"lifo".into(), &1.into()));
        assert!(row["samples"] == 5 || row["measured_apart"] == true, "{row}");
    }
    // An allocator without a row at some order is reported as left out.
    let names =
        |of: &Value| of.as_array().unwrap().iter().map(|r| r["allocator"].clone()).collect::<Vec<_>>();
    let skipped = names(&v["skipped"]);
    for peer in ["mimalloc", "jemalloc", "tcmalloc", "rte_mempool-512"] {
        assert!(skipped.contains(&peer.into()), "{peer}: {skipped:?}");
    }
    for name in ["floor-array", "pageyard-trylock", "linux-6.18", "buddy_system_allocator-locked"] {
        let batches = rows.iter().filter(|r| r["allocator"] == name).count();
        assert_eq!(batches, 4, "{name}");
    }
    assert!(failure(&["bench", "sweep", "--order", "5"]).contains("0, 3, 6 or 9"));
    for few in ["2", "0", "-1", "many", "1001"] {
        let why = failure(&["bench", "sweep", &format!("--samples={few}")]);
        assert!(why.contains("from 3 to 1000"), "{few}: {why}");
    }
    assert!(
        failure(&["bench", "sweep", "--linux-uml", "/nowhere/at-all.json"]).contains("/nowhere/at-all.json")
    );
}

#[test]
fn a_mixed_load_has_a_row_of_every_allocator_or_says_why_not() {
    let v = json(&["bench", "mixed", "--quick", "--samples", "3", "--json"]);
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
        "jemalloc",
        "tcmalloc",
    ] {
        for (threads, touched) in [(1, false), (1, true), (2, false), (2, true)] {
            assert!(is_there(name, threads, touched), "{name}, {threads}, {touched}: {skipped:?}");
        }
    }
    assert!(rows.iter().all(|r| r["allocator"] != "harness" && r["allocator"] != "rte_mempool-512"));
    let why = failure(&["bench", "mixed", "--threads", "65"]);
    assert!(why.contains("1..=64"), "{why}");
}

#[test]
fn a_stream_has_the_four_operations_for_each_number_of_threads_and_is_valid() {
    let v = json(&["bench", "stream", "--elements", "200000", "--samples", "4", "--json"]);
    assert_eq!((&v["elements"], &v["samples"], &v["repetitions"]), (&200_000.into(), &4.into(), &5.into()));
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
    let validated = v["validated"].as_array().unwrap();
    assert_eq!(validated.len(), counts.len());
    for array in validated.iter().flat_map(|v| v["arrays"].as_array().unwrap()) {
        assert!(array["average_relative_error"].as_f64() < v["tolerance"].as_f64(), "{array}");
        assert_eq!(array["wrong_elements"], 0, "{array}");
    }
    assert_eq!(v["published"].as_array().unwrap().len(), 8);
    assert!(v["clock_step_ns"].as_u64().unwrap() > 0);
}

#[test]
fn a_quick_stream_says_what_it_cannot_show() {
    let text = |arguments: &[&str]| {
        let out = pageyard(&[&["bench", "stream", "--elements", "1000", "--quick"], arguments].concat());
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
        String::from_utf8(out.stdout).unwrap()
    };
    let quick = text(&[]);
    assert!(quick.starts_with("A quick run: ") && quick.contains("It cannot show"), "{quick}");
    assert!(quick.contains("WARNING: ") && quick.contains("Valid: "), "{quick}");
    assert!(!text(&["--samples", "9"]).contains("quick"), "as many samples as the whole benchmark has");
}

#[test]
fn a_stream_that_cannot_be_is_refused_in_a_sentence() {
    let refusal = |arguments: &[&str]| failure(&[&["bench", "stream"], arguments].concat());
    for (elements, says) in [
        ("0", "at least 1"),
        ("-1", "whole number"),
        ("many", "whole number"),
        ("99999999999999999999999", "whole number"),
        ("18446744073709551615", "more than a process can address"),
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
    let limited =
        format!("ulimit -v 600000; exec {} bench stream --elements 30000000", env!("CARGO_BIN_EXE_pageyard"));
    let out = Command::new("sh").args(["-c", &limited]).output().unwrap();
    let why = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.code() == Some(1) && why.contains("ulimit -v") && why.lines().count() == 1, "{why}");
}

#[test]
fn primitives_begin_with_the_thirteen_of_the_document() {
    let v = json(&["bench", "primitives", "--json"]);
    let rows = v["rows"].as_array().unwrap();
    let thirteen: Vec<&str> = rows[..13].iter().map(|r| r["primitive"].as_str().unwrap()).collect();
    assert_eq!((thirteen[0], thirteen[1], thirteen[12]), ("for_loop", "spin_lock_unlock", "page_alloc_put"));
    assert!(rows.iter().all(|r| r["ns_median"].as_f64().unwrap() > 0.0));
    assert!(rows[..13].iter().all(|r| r["published_ns"].is_number()));
}

#[test]
fn help_has_an_example_for_every_verb() {
    for verb in [
        &["--help"][..],
        &["replay", "--help"],
        &["summary", "--help"],
        &["map", "--help"],
        &["compare", "--help"],
        &["bench", "--help"],
        &["bench", "stream", "--help"],
        &["experiment", "--help"],
    ] {
        let out = pageyard(verb);
        assert!(out.status.success());
        assert!(String::from_utf8(out.stdout).unwrap().contains("Example"), "{verb:?}");
    }
}

#[test]
fn what_is_not_there_is_named() {
    assert!(failure(&["replay", "/nowhere/at-all.trace"]).contains("/nowhere/at-all.trace"));
    assert!(failure(&["summary", "/dev/null"]).contains("/dev/null"));
    assert!(failure(&["replay", "--engine", "linux-2.4"]).contains("linux-6.18"));
    assert!(failure(&["replay", "--set", "swappiness=1"]).contains("swappiness"));
    assert!(failure(&["replay", "--set", "fallback=maybe"]).contains("claim_or_steal"));
    assert!(failure(&["replay", "--memory", "1T"]).contains("MiB"));
    assert!(failure(&["replay", "--memory", "64K"]).contains("MiB"));
}

#[test]
fn an_empty_folder_and_missing_files_are_named() {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("command-empty.trace");
    fs::create_dir_all(&dir).unwrap();
    assert!(refused(&dir).contains("meta.json"));
    for file in ["meta.json", "events.parquet"] {
        let trace = copy(&format!("without-{file}"));
        fs::remove_file(trace.join(file)).unwrap();
        assert!(refused(&trace).contains(file));
    }
}

#[test]
fn truncated_and_random_files_are_named() {
    for file in ["meta.json", "events.parquet"] {
        let bytes = fs::read(shipped("build").join(file)).unwrap();
        for (what, spoilt) in [
            ("empty", Vec::new()),
            ("half", bytes[..bytes.len() / 2].to_vec()),
            ("short", bytes[..bytes.len() - 1].to_vec()),
            ("noise", (0..40_000u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect()),
        ] {
            let trace = copy(&format!("{what}-{file}"));
            fs::write(trace.join(file), spoilt).unwrap();
            assert!(refused(&trace).contains(file), "{what} {file}");
        }
    }
    let trace = copy("noise-before");
    fs::write(trace.join("before.parquet"), b"PAR1 this is not a table PAR1").unwrap();
    assert!(failure(&["replay", trace.to_str().unwrap()]).contains("before.parquet"));
}

#[test]
fn a_newer_format_says_to_update() {
    let trace = copy("newer");
    let meta = fs::read_to_string(trace.join("meta.json")).unwrap();
    let newer =
        meta.replacen("\"format\": 1", "\"format\": 2", 1).replacen("\"format\":1", "\"format\":2", 1);
    assert_ne!(meta, newer);
    fs::write(trace.join("meta.json"), newer).unwrap();
    let why = refused(&trace);
    assert!(why.contains("format 2") && why.contains("pdate"), "{why}");
}

#[test]
fn a_count_that_lies_is_refused() {
    let trace = copy("lies");
    let meta = fs::read_to_string(trace.join("meta.json")).unwrap();
    let lie = meta.replace("804514", "804515");
    assert_ne!(meta, lie);
    fs::write(trace.join("meta.json"), lie).unwrap();
    assert!(refused(&trace).contains("804515"));
}

#[test]
fn a_reader_that_goes_away_is_no_failure() {
    let command =
        format!("{} summary {} | head -1", env!("CARGO_BIN_EXE_pageyard"), shipped("build").display());
    let out = Command::new("sh").args(["-c", &command]).output().unwrap();
    assert!(out.status.success() && out.stderr.is_empty(), "{}", String::from_utf8_lossy(&out.stderr));
}

/// Checks that a run printed nothing that a terminal would act on, and no line beyond reason.
fn harmless(arguments: &[&str]) -> String {
    let out = pageyard(arguments);
    let text = String::from_utf8([out.stdout, out.stderr].concat()).unwrap();
    assert!(text.chars().all(|c| c == '\n' || !c.is_control()), "{arguments:?}: {text:?}");
    assert!(text.lines().count() > 0, "{arguments:?}");
    text
}

#[test]
fn names_cannot_command_a_terminal() {
    const EVIL: &str = "a\u{1b}[2J\u{1b}]0;b\u{7}\u{9b}31mc";
    let trace = copy(EVIL);
    let path = trace.to_str().unwrap();
    let meta = fs::read_to_string(trace.join("meta.json")).unwrap();
    let kernel = format!("\"{}Linux", r"\u001b[31m\u009b2J");
    let evil = meta.replace("\"Linux", &kernel);
    assert_ne!(meta, evil);
    fs::write(trace.join("meta.json"), &evil).unwrap();
    for arguments in [&["summary", path][..], &["replay", path]] {
        let text = harmless(arguments);
        assert!(text.contains(r"\u{1b}[2J") && text.contains(r"\u{9b}31mc"), "{text}");
        harmless(&[arguments, &["--json"]].concat());
    }
    // A zone of the recorded texts.
    fs::write(trace.join("meta.json"), evil.replace("DMA32", r"\u001b[31mDMA")).unwrap();
    harmless(&["summary", path]);
    harmless(&["replay", path]);
    fs::remove_file(trace.join("events.parquet")).unwrap();
    harmless(&["summary", path]);
    for arguments in [
        &[EVIL][..],
        &["summary", EVIL],
        &["summary", "--no\u{1b}[2J"],
        &["replay", "--engine", EVIL],
        &["replay", "--set", EVIL],
        &["replay", "--memory", EVIL],
        &["record", "--seconds", EVIL],
        &["record", "-o", &format!("/nowhere/{EVIL}.trace")],
        &["import", EVIL],
        &["import", "Cargo.toml", "-o", &format!("/nowhere/{EVIL}.trace")],
        &["experiment", EVIL],
        &["experiment", "zonelist", "--set", EVIL],
        &["experiment", "zonelist", "--set", &format!("{EVIL}=1")],
        &["experiment", "zonelist", "--samples", EVIL],
        &["experiment", "zonelist", "--report", EVIL],
        &["bench", EVIL],
        &["bench", "stream", "--elements", EVIL],
        &["bench", "cross", "--external", EVIL],
    ] {
        harmless(arguments);
    }
}

#[test]
fn long_names_are_shortened() {
    let long = "x".repeat(100_000);
    for arguments in [&["summary", &long][..], &["import", &long], &["replay", &long], &[&long]] {
        assert!(harmless(arguments).lines().all(|l| l.len() < 1200), "{:?}", arguments[0]);
    }
}

#[test]
fn experiments_are_listed_by_name_and_refused_with_what_there_is() {
    let all = json(&["experiment", "--json"]);
    let names: Vec<_> =
        all["experiments"].as_array().unwrap().iter().map(|e| e["name"].as_str().unwrap()).collect();
    assert!(
        names.contains(&"irq-safe") && names.contains(&"zonelist") && names.contains(&"page-frag"),
        "{names:?}"
    );
    let why = failure(&["experiment", "irqsafe"]);
    assert!(names.iter().all(|n| why.contains(n)), "{why}");
    let why = failure(&["experiment", "zonelist", "--checked", "--report", "zonelist.txt"]);
    assert!(why.contains(".html") && why.contains(".png"), "{why}");
    assert!(
        failure(&["experiment", "zonelist", "--checked", "--report", "/nowhere/at/all.html"])
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
        let why = failure(&["experiment", experiment, "--quick", "--set", set]);
        assert!(why.contains(part), "{set}: {why}");
    }
    assert!(failure(&["experiment", "--set", "pcp_policy=auto"]).contains("name one"));
    assert!(failure(&["experiment", "page-frag", "--samples", "2"]).contains("from 3"));
    let why = failure(&["experiment", "direct-compaction", "--quick", "--samples", "9"]);
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
        let why = failure(&arguments);
        assert!(why.contains("no report is written") && why.contains("cargo build --release"), "{why}");
    }
    let arguments = [&["experiment", "--checked"], &arguments[1..]].concat();
    let result = json(&[&arguments[..], &set].concat());
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
    let command = "<code>pageyard experiment --checked page-frag --quick --json --samples 3 --report ";
    assert!(html.contains(command) && html.contains(env!("CARGO_PKG_VERSION")), "{html}");
}
