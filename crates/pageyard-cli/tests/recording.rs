//! `record` and `import` as a user meets them. What needs root and tracefs says so where it lacks them.

use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// One recording at a time: their events would be each other's.
static ONE: Mutex<()> = Mutex::new(());

/// A folder of its own for a test, empty.
fn folder(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("recording-{name}"));
    drop(fs::remove_dir_all(&path));
    fs::create_dir_all(&path).unwrap();
    path
}

fn pageyard(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_pageyard")).args(arguments).current_dir(folder).output().unwrap()
}

fn stderr(out: &Output) -> String {
    String::from_utf8_lossy(&out.stderr).into_owned()
}

/// Says whether this host can be recorded, and prints why not.
fn possible(folder: &Path) -> bool {
    let out = pageyard(folder, &["record", "-o", "probe.trace", "--", "true"]);
    drop(fs::remove_dir_all(folder.join("probe.trace")));
    if !out.status.success() {
        println!("skipped: {}", stderr(&out).trim());
    }
    out.status.success()
}

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<_> =
        fs::read_dir(folder).unwrap().map(|f| f.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn the_command_keeps_its_status_and_its_output() {
    let _one = ONE.lock().unwrap_or_else(|e| e.into_inner());
    let folder = folder("status");
    if !possible(&folder) {
        return;
    }
    let out = pageyard(&folder, &["record", "-o", "a.trace", "--", "sh", "-c", "echo hello; exit 7"]);
    assert_eq!(out.status.code(), Some(7), "{}", stderr(&out));
    assert_eq!(String::from_utf8_lossy(&out.stdout), "hello\n");
    assert!(stderr(&out).contains("a.trace: ") && stderr(&out).contains("0 lost"), "{}", stderr(&out));
    let out = pageyard(&folder, &["record", "-o", "b.trace", "--", "sh", "-c", "kill -9 $$"]);
    assert_eq!(out.status.code(), Some(137));
    for trace in ["a.trace", "b.trace"] {
        let summary = pageyard(&folder, &["summary", trace, "--json"]);
        assert!(summary.status.success(), "{}", stderr(&summary));
    }
    let replay = pageyard(&folder, &["replay", "a.trace", "--json"]);
    assert!(replay.status.success(), "{}", stderr(&replay));
}

#[test]
fn json_is_one_document_whatever_the_command_prints() {
    let _one = ONE.lock().unwrap_or_else(|e| e.into_inner());
    let folder = folder("json");
    if !possible(&folder) {
        return;
    }
    let out = pageyard(&folder, &["record", "--json", "--", "echo", "noise"]);
    let document: Value = serde_json::from_slice(&out.stdout).unwrap();
    assert_eq!(document["trace"], "recording.trace");
    assert_eq!(document["exit_status"], 0);
    assert_eq!(document["lost"], 0);
    assert!(document["events"].as_u64().unwrap() > 0);
    assert!(!document.to_string().contains("null"));
    assert!(stderr(&out).contains("noise"));
}

/// Starts a recording, sends it a signal after a moment, and returns how it ended.
fn interrupted(folder: &Path, arguments: &[&str], signal: &str) -> Output {
    let child = Command::new(env!("CARGO_BIN_EXE_pageyard"))
        .args(arguments)
        .current_dir(folder)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(2) {
        std::thread::sleep(Duration::from_millis(100));
    }
    let pid = child.id().to_string();
    assert!(Command::new("kill").args([signal, &pid]).status().unwrap().success());
    let out = child.wait_with_output().unwrap();
    assert!(begun.elapsed() < Duration::from_secs(60));
    out
}

#[test]
fn signals_end_a_recording_with_a_trace() {
    let _one = ONE.lock().unwrap_or_else(|e| e.into_inner());
    let folder = folder("signals");
    if !possible(&folder) {
        return;
    }
    let out = interrupted(&folder, &["record", "-o", "int.trace"], "-INT");
    assert!(out.status.success(), "{}", stderr(&out));
    let out = interrupted(&folder, &["record", "-o", "term.trace", "--seconds", "100"], "-TERM");
    assert!(out.status.success(), "{}", stderr(&out));
    // The command is asked to end too, and its status says so.
    let out = interrupted(&folder, &["record", "-o", "command.trace", "--", "sleep", "100"], "-TERM");
    assert_eq!(out.status.code(), Some(143), "{}", stderr(&out));
    assert_eq!(names(&folder), ["command.trace", "int.trace", "term.trace"]);
    for trace in names(&folder) {
        assert!(pageyard(&folder, &["summary", &trace, "--json"]).status.success(), "{trace}");
    }
}

#[test]
fn seconds_are_kept() {
    let _one = ONE.lock().unwrap_or_else(|e| e.into_inner());
    let folder = folder("seconds");
    if !possible(&folder) {
        return;
    }
    let out = pageyard(&folder, &["record", "--seconds", "0.5", "--json"]);
    let document: Value = serde_json::from_slice(&out.stdout).unwrap();
    let seconds = document["seconds"].as_f64().unwrap();
    assert!((0.5..5.0).contains(&seconds), "{seconds}");
    assert!(document.get("exit_status").is_none());
}

#[test]
fn what_fails_says_so_and_leaves_nothing() {
    let _one = ONE.lock().unwrap_or_else(|e| e.into_inner());
    let folder = folder("failures");
    fs::write(folder.join("perf.data"), "nothing of the kind, and not a file of perf at all").unwrap();
    fs::create_dir(folder.join("taken.trace")).unwrap();
    for arguments in [
        &["record", "-o", "x.trace", "--", "/no/such/command"][..],
        &["record", "-o", "taken.trace", "--", "true"],
        &["record", "-o", "no/such/folder.trace", "--", "true"],
        &["record", "--seconds", "-1"],
        &["import", "perf.data"],
        &["import", "none.data"],
        &["import", "perf.data", "-o", "taken.trace"],
        &["import", "/proc/self/mem", "-o", "y.trace"],
    ] {
        let out = pageyard(&folder, arguments);
        assert!(!out.status.success() && out.stdout.is_empty(), "{arguments:?}");
        let text = stderr(&out);
        assert!(
            (1..=5).contains(&text.lines().count()) && !text.contains("panicked"),
            "{arguments:?}: {text}"
        );
        assert_eq!(names(&folder), ["perf.data", "taken.trace"], "{arguments:?}");
    }
}
