//! The doctor as a user meets it.

use crate::PAGEYARD;
use pageyard_documents::figures::check_short;
use pageyard_replay::doctor::Diagnosis;
use pageyard_trace::{Document, KernelLog};
use serde_json::Value;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

fn log(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../pageyard-replay/tests/doctor/logs");
    path.join(format!("{name}.txt")).to_str().unwrap().to_owned()
}

fn trace(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data/traces");
    path.join(format!("{name}.trace")).to_str().unwrap().to_owned()
}

fn written(name: &str, bytes: &[u8]) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("doctor");
    fs::create_dir_all(&folder).unwrap();
    let path = folder.join(name);
    fs::write(&path, bytes).unwrap();
    path
}

#[test]
fn a_log_is_explained_in_sentences_and_as_a_document() {
    let document = PAGEYARD.json(&["doctor", "--json", "--log", &log("huge-pages-6.12")]);
    let first = &document["causes"][0];
    assert_eq!(first["cause"], "huge_pages_reserved", "{document}");
    assert_eq!(
        (&first["setting"]["name"], &first["setting"]["try"]),
        (&"vm.nr_hugepages".into(), &"0".into())
    );
    assert!(first["weight"].as_f64().unwrap() > 0.5 && first["confidence"]["why"].is_string());
    let text = PAGEYARD.run(&["doctor", "--log", &log("huge-pages-6.12")]);
    let text = String::from_utf8(text.stdout).unwrap();
    assert!(text.contains("215 huge pages are set aside") && text.lines().count() < 40, "{text}");
}

#[test]
fn a_log_comes_through_a_pipe() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_pageyard"))
        .args(["doctor", "--json", "--log", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(&fs::read(log("lists-6.1")).unwrap()).unwrap();
    let out = child.wait_with_output().unwrap();
    let document: Value = serde_json::from_slice(&out.stdout).unwrap();
    assert_eq!(document["causes"][0]["cause"], "per_cpu_lists", "{document}");
}

#[test]
fn another_host_is_judged_by_its_saved_files() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("doctor/host");
    drop(fs::remove_dir_all(&folder));
    fs::create_dir_all(&folder).unwrap();
    let path = folder.to_str().unwrap();
    let why = PAGEYARD.failure(&["doctor", "--from", path]);
    assert!(why.contains("cp /proc/{buddyinfo,zoneinfo") && why.contains("tar czf"), "{why}");
    // Not all can be read by everybody.
    for name in ["buddyinfo", "zoneinfo", "pagetypeinfo", "vmstat", "meminfo"] {
        if let Ok(text) = fs::read(format!("/proc/{name}")) {
            fs::write(folder.join(name), text).unwrap();
        }
    }
    fs::write(folder.join("version"), "Linux version 5.10.0-8-amd64 (builder@host) (gcc)\n").unwrap();
    fs::write(folder.join("sysctl"), "vm.min_free_kbytes = 67584\nkernel.ostype = Linux\n").unwrap();
    let document = PAGEYARD.json(&["doctor", "--json", "--from", path]);
    assert_eq!((&document["source"], &document["kernel"]), (&"saved".into(), &"5.10.0-8-amd64".into()));
    let asked = |key: &str| document[key].as_array().unwrap().len();
    assert!(asked("failed") + asked("served") >= 3, "{document}");
    let text = String::from_utf8(PAGEYARD.stdout(&["doctor", "--from", path])).unwrap();
    assert!(text.contains("when its files were saved"), "{text}");
}

#[test]
fn this_host_is_judged_in_two_seconds() {
    let timed = || {
        let start = Instant::now();
        (PAGEYARD.json(&["doctor", "--json"]), start.elapsed())
    };
    // Other tests run beside this one; the fastest of some counts.
    let (document, took) = (0..5).map(|_| timed()).min_by_key(|(_, took)| *took).unwrap();
    assert!(took < Duration::from_secs(2), "{took:?}");
    let asked = |key: &str| document[key].as_array().unwrap().len();
    assert!(asked("failed") + asked("served") >= 3, "{document}");
    let one = PAGEYARD.json(&["doctor", "--json", "--order", "10", "--for", "GFP_ATOMIC"]);
    assert_eq!(one["failed"].as_array().unwrap().len() + one["served"].as_array().unwrap().len(), 1, "{one}");
}

#[test]
fn numbers_of_the_page_are_in_the_document() {
    for name in ["huge-pages-6.1", "low-reserve-6.12", "slab-6.12", "defrag-mode-6.18.by-hand"] {
        let path = log(name);
        let log = KernelLog::read(&path, fs::File::open(&path).unwrap()).unwrap();
        let diagnosis = Diagnosis::of_log(&log);
        // What an order comes to, and the paragraphs' numbers.
        let frames: Vec<f64> = diagnosis.failed.iter().map(|f| f.asked.frames() as f64).collect();
        let numbered: Vec<f64> = (1..=diagnosis.causes.len()).map(|n| n as f64).collect();
        check_short(&diagnosis.to_string(), &diagnosis.document().json(), &[], &[frames, numbered].concat());
    }
}

#[test]
fn settings_are_tried_on_a_recording_of_a_judged_kernel() {
    let document = PAGEYARD.json(&["doctor", "--json", "--trace", &trace("guest-6.12-huge")]);
    // 261 more are first tries on one node.
    assert_eq!((&document["failures"], &document["first_tries"]), (&47.into(), &261.into()), "{document}");
    let causes = document["causes"].as_array().unwrap();
    let tried: Vec<_> = causes.iter().filter(|c| c["predicted"].is_object()).collect();
    assert!(!tried.is_empty(), "{document}");
    for cause in tried {
        assert!(cause["predicted"]["gain"].is_array() && cause["predicted"]["cost"].is_array());
        let why = cause["confidence"]["why"].as_str().unwrap();
        assert!(why.contains("replays on linux-6.12"), "{why}");
        // A record stands beside it, or that there is none.
        assert!(cause["confidence"]["of"].is_u64() || why.contains("not known"), "{cause}");
    }
}

#[test]
fn a_recording_of_refusals_under_defrag_mode_is_explained_by_its_hosts_setting() {
    let document = PAGEYARD.json(&["doctor", "--json", "--trace", &trace("guest-6.18-defrag")]);
    let first = &document["causes"][0];
    assert_eq!(first["cause"], "defrag_mode", "{document}");
    assert_eq!(
        (&first["setting"]["name"], &first["setting"]["now"]),
        (&"vm.defrag_mode".into(), &"1".into())
    );
    assert!(first["evidence"].as_str().unwrap().contains("which is set here"), "{document}");
}

#[test]
fn a_recording_without_a_failure_is_judged_at_its_end_and_one_without_texts_not_at_all() {
    let document = PAGEYARD.json(&["doctor", "--json", "--trace", &trace("build")]);
    assert_eq!(document["source"], "end", "{document}");
    // No text says that the setting is on.
    assert!(document["causes"].as_array().unwrap().iter().all(|c| c["cause"] != "defrag_mode"), "{document}");
    assert!(
        document["served"].as_array().unwrap().iter().all(|s| s["in_a_row"].as_u64() > Some(0)),
        "{document}"
    );
    let path = renamed("6.12.1");
    let meta = fs::read_to_string(format!("{path}/meta.json")).unwrap();
    let mut meta: Value = serde_json::from_str(&meta).unwrap();
    for texts in ["before", "after"] {
        meta.as_object_mut().unwrap().remove(texts);
    }
    fs::write(format!("{path}/meta.json"), meta.to_string()).unwrap();
    let document = PAGEYARD.json(&["doctor", "--json", "--trace", &path]);
    assert_eq!((&document["failures"], &document["unexplained"]), (&47.into(), &47.into()), "{document}");
    assert!(document["causes"].as_array().unwrap().is_empty(), "{document}");
}

/// Copies a shipped trace, with another kernel's name.
fn renamed(kernel: &str) -> String {
    let to = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("doctor-{kernel}.trace"));
    drop(fs::remove_dir_all(&to));
    fs::create_dir_all(&to).unwrap();
    for file in fs::read_dir(trace("guest-6.12-huge")).unwrap() {
        let file = file.unwrap();
        fs::copy(file.path(), to.join(file.file_name())).unwrap();
    }
    let meta = fs::read_to_string(to.join("meta.json")).unwrap();
    let other = meta.replace("Linux 6.12.117", &format!("Linux {kernel}"));
    assert_ne!(meta, other);
    fs::write(to.join("meta.json"), other).unwrap();
    to.to_str().unwrap().to_owned()
}

#[test]
fn a_kernel_without_a_judged_preset_gets_no_prediction() {
    let path = renamed("5.15.0");
    let document = PAGEYARD.json(&["doctor", "--json", "--trace", &path]);
    let causes = document["causes"].as_array().unwrap();
    assert!(!causes.is_empty(), "{document}");
    for cause in causes {
        assert!(cause.get("predicted").is_none() && cause["confidence"].get("of").is_none(), "{cause}");
    }
    let why = |c: &Value| c["confidence"]["why"].as_str().unwrap().contains("has no preset for");
    assert!(causes.iter().any(why), "{document}");
    // Another kernel's preset says what that kernel would do.
    let document = PAGEYARD.json(&["doctor", "--json", "--trace", &path, "--preset", "linux-6.12"]);
    let predicted = |c: &Value| c["predicted"].is_object();
    assert!(document["causes"].as_array().unwrap().iter().any(predicted), "{document}");
}

#[test]
fn what_is_no_log_or_trace_is_refused_in_a_sentence() {
    let no_failure = written("boring.txt", b"[    0.000000] Linux version 6.12\n[    1.0] all is well\n");
    let why = PAGEYARD.failure(&["doctor", "--log", no_failure.to_str().unwrap()]);
    assert!(why.contains("no report of an allocation that failed"), "{why}");
    let binary = written("binary", &[0x1f, 0x8b, 8, 0, 0, 0, 0, 0]);
    let why = PAGEYARD.failure(&["doctor", "--log", binary.to_str().unwrap(), "--json"]);
    assert!(why.contains("it is no text"), "{why}");
    // 300 MiB of nothing, of which the disk has none.
    let huge = written("huge.txt", b"x\n");
    fs::OpenOptions::new().write(true).open(&huge).unwrap().set_len(300 << 20).unwrap();
    let why = PAGEYARD.failure(&["doctor", "--log", huge.to_str().unwrap()]);
    assert!(why.contains("256 MiB"), "{why}");
    let why = PAGEYARD.failure(&["doctor", "--log", "/no/such/file"]);
    assert!(why.contains("/no/such/file cannot be read"), "{why}");
    let why = PAGEYARD.failure(&["doctor", "--trace", "/no/such.trace"]);
    assert!(why.contains("there is no such folder"), "{why}");
    let why = PAGEYARD.failure(&["doctor", "--order", "3", "--for", "GFP_NONSENSE"]);
    assert!(why.contains("gfp flags by name"), "{why}");
    let why = PAGEYARD.failure(&["doctor", "--trace", "a", "--log", "b"]);
    assert!(why.contains("cannot be used with"), "{why}");
}

#[test]
fn a_damaged_trace_is_refused_in_a_sentence() {
    let to = Path::new(env!("CARGO_TARGET_TMPDIR")).join("doctor-damaged.trace");
    drop(fs::remove_dir_all(&to));
    fs::create_dir_all(&to).unwrap();
    for file in fs::read_dir(trace("containers")).unwrap() {
        let file = file.unwrap();
        fs::copy(file.path(), to.join(file.file_name())).unwrap();
    }
    let events = fs::read(to.join("events.parquet")).unwrap();
    fs::write(to.join("events.parquet"), &events[..events.len() / 2]).unwrap();
    let why = PAGEYARD.failure(&["doctor", "--trace", to.to_str().unwrap()]);
    assert!(why.contains("events.parquet"), "{why}");
}

#[test]
fn what_a_log_says_cannot_command_the_terminal() {
    let text = fs::read_to_string(log("lists-6.12")).unwrap().replace("sh: page", "\u{1b}[2J\u{7}: page");
    let path = written("hostile.txt", text.as_bytes());
    let out = PAGEYARD.run(&["doctor", "--log", path.to_str().unwrap()]);
    assert!(out.status.success());
    assert!(!out.stdout.iter().any(|b| *b == 0x1b || *b == 7));
}
