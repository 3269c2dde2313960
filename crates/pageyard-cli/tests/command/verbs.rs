//! The command as a user meets it: what it prints where, and how it fails.

use crate::PAGEYARD;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn shipped(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data/traces").join(format!("{name}.trace"))
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
    let summary = PAGEYARD.failure(&["summary", path, "--json"]);
    let replay = PAGEYARD.failure(&["replay", path, "--json"]);
    assert!(
        summary.contains(path) || summary.contains(".parquet") || summary.contains("meta.json"),
        "{summary}"
    );
    replay
}

#[test]
fn without_arguments_the_carried_trace_is_replayed() {
    let out = PAGEYARD.run(&[]);
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let text = String::from_utf8(out.stdout).unwrap();
    for part in ["build", "linux-6.18", "rate", "prediction", "Trace quality"] {
        assert!(text.contains(part), "{part} is missing in\n{text}");
    }
    let carried = PAGEYARD.json(&["replay", "--json"]);
    assert_eq!(carried["trace"]["events"], 804_514);
}

#[test]
fn replay_prints_one_json_document_with_the_promised_keys() {
    let path = shipped("net-order0");
    let v = PAGEYARD.json(&["replay", path.to_str().unwrap(), "--engine", "linux-6.1,linux-6.18", "--json"]);
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
    let plain = PAGEYARD.json(&arguments);
    let helped = PAGEYARD
        .json(&[&arguments[..], &["--slow-path", "reclaim,compaction", "--pinned", "0.135"]].concat());
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
        let replayed = PAGEYARD.json(&[&of[..], opening].concat());
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
        let text = PAGEYARD.failure(&[&["replay"], arguments].concat());
        assert!(text.contains(says), "{text}");
    }
}

#[test]
fn summary_prints_one_json_document_with_the_promised_keys() {
    let path = shipped("build");
    let v = PAGEYARD.json(&["summary", path.to_str().unwrap(), "--json"]);
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
    let out = PAGEYARD.run(&["summary", "--host"]);
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    assert!(!out.stdout.is_empty());
    assert!(PAGEYARD.json(&["summary", "--host", "--json"]).is_object());
}

#[test]
fn the_host_is_judged_for_the_request_that_is_named() {
    let asked = |gfp| PAGEYARD.json(&["summary", "--host", "--for", gfp, "--json"])["orders_are_for"].clone();
    assert!(asked("GFP_ATOMIC").as_str().unwrap().starts_with("GFP_ATOMIC:"));
    assert!(asked("highuser_movable").as_str().unwrap().starts_with("GFP_HIGHUSER_MOVABLE:"));
    for (gfp, says) in [
        ("GFP_ATOMC", "did you mean `GFP_ATOMIC`?"),
        ("\u{1b}[2J", "`--for` takes GFP_KERNEL, GFP_ATOMIC, GFP_HIGHUSER_MOVABLE, not `\\u{1b}[2J`"),
    ] {
        let out = PAGEYARD.run(&["summary", "--host", "--for", gfp]);
        let error = String::from_utf8_lossy(&out.stderr).into_owned();
        assert!(!out.status.success() && error.contains(says), "{error}");
    }
    assert!(!PAGEYARD.run(&["summary", "--for", "GFP_KERNEL"]).status.success(), "it needs --host");
}

#[test]
fn help_has_an_example_for_every_verb() {
    for verb in [
        &["--help"][..],
        &["replay", "--help"],
        &["summary", "--help"],
        &["map", "--help"],
        &["compare", "--help"],
    ] {
        let out = PAGEYARD.run(verb);
        assert!(out.status.success());
        assert!(String::from_utf8(out.stdout).unwrap().contains("Example"), "{verb:?}");
    }
}

#[test]
fn what_is_not_there_is_named() {
    assert!(PAGEYARD.failure(&["replay", "/nowhere/at-all.trace"]).contains("/nowhere/at-all.trace"));
    assert!(PAGEYARD.failure(&["summary", "/dev/null"]).contains("/dev/null"));
    assert!(PAGEYARD.failure(&["replay", "--engine", "linux-2.4"]).contains("linux-6.18"));
    assert!(PAGEYARD.failure(&["replay", "--set", "swappiness=1"]).contains("swappiness"));
    assert!(PAGEYARD.failure(&["replay", "--set", "fallback=maybe"]).contains("claim_or_steal"));
    assert!(PAGEYARD.failure(&["replay", "--memory", "1T"]).contains("MiB"));
    assert!(PAGEYARD.failure(&["replay", "--memory", "64K"]).contains("MiB"));
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
    assert!(PAGEYARD.failure(&["replay", trace.to_str().unwrap()]).contains("before.parquet"));
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
        let text = PAGEYARD.harmless(arguments);
        assert!(text.contains(r"\u{1b}[2J") && text.contains(r"\u{9b}31mc"), "{text}");
        PAGEYARD.harmless(&[arguments, &["--json"]].concat());
    }
    // A zone of the recorded texts.
    fs::write(trace.join("meta.json"), evil.replace("DMA32", r"\u001b[31mDMA")).unwrap();
    PAGEYARD.harmless(&["summary", path]);
    PAGEYARD.harmless(&["replay", path]);
    fs::remove_file(trace.join("events.parquet")).unwrap();
    PAGEYARD.harmless(&["summary", path]);
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
        &["bench", EVIL],
    ] {
        PAGEYARD.harmless(arguments);
    }
}

#[test]
fn long_names_are_shortened() {
    let long = "x".repeat(100_000);
    for arguments in [&["summary", &long][..], &["import", &long], &["replay", &long], &[&long]] {
        assert!(PAGEYARD.harmless(arguments).lines().all(|l| l.len() < 1200), "{:?}", arguments[0]);
    }
}

#[test]
fn verbs_of_the_laboratory_are_answered_with_its_command() {
    for (arguments, now) in [
        (&["bench"][..], "`pageyard-lab bench`"),
        (&["bench", "sweep", "--quick"], "`pageyard-lab bench`"),
        (&["bench", "sweep", "--json"], "`pageyard-lab bench`"),
        (&["bench", "--help"], "`pageyard-lab bench`"),
        (&["bench", "router", "--sweep"], "`pageyard-lab router`"),
        (&["experiment", "irq-safe", "--report", "irq.html"], "`pageyard-lab experiment`"),
        (&["experiment", "what-if", "--seed", "7"], "`pageyard-lab what-if`"),
        (&["schema", "bench-sweep"], "`pageyard-lab schema`"),
        (&["schema", "experiments"], "`pageyard-lab schema`"),
    ] {
        let why = PAGEYARD.failure(arguments);
        assert!(why.lines().count() == 1 && why.contains(now), "{arguments:?}: {why}");
    }
    let help = String::from_utf8(PAGEYARD.stdout(&["--help"])).unwrap();
    assert!(!help.contains("bench") && !help.contains("experiment"), "{help}");
}
