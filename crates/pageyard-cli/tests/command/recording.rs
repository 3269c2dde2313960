//! `record` and `import` as a user meets them. What needs root and tracefs says so where it lacks them.

use crate::series::names;
use pageyard_documents::schemas;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::{Mutex, OnceLock};
use std::time::{Duration, Instant};

/// One recording at a time: their events would be each other's.
pub static ONE: Mutex<()> = Mutex::new(());

/// The command, with no signal ignored: what started the tests may ignore some, and a recording leaves them ignored.
pub fn command() -> Command {
    let mut command = Command::new("env");
    command.args(["--default-signal=INT,TERM,HUP", env!("CARGO_BIN_EXE_pageyard")]);
    command
}

/// A separate, empty folder for a test.
pub fn folder(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("recording-{name}"));
    drop(fs::remove_dir_all(&path));
    fs::create_dir_all(&path).unwrap();
    path
}

fn pageyard(folder: &Path, arguments: &[&str]) -> Output {
    command().args(arguments).current_dir(folder).output().unwrap()
}

fn stderr(out: &Output) -> String {
    String::from_utf8_lossy(&out.stderr).into_owned()
}

/// Returns whether this host can be recorded, and prints why not.
pub fn possible(folder: &Path) -> bool {
    /// Why this host cannot be recorded; asked once.
    static WHY_NOT: OnceLock<Option<String>> = OnceLock::new();
    let why = WHY_NOT.get_or_init(|| {
        let out = pageyard(folder, &["record", "-o", "probe.trace", "--", "true"]);
        drop(fs::remove_dir_all(folder.join("probe.trace")));
        (!out.status.success()).then(|| stderr(&out).trim().to_owned())
    });
    if let Some(why) = why {
        println!("skipped: {why}");
    }
    why.is_none()
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
    let document = schemas::document(&out.stdout);
    assert_eq!(document["trace"], "recording.trace");
    assert_eq!(document["exit_status"], 0);
    assert_eq!(document["lost"], 0);
    assert!(document["events"].as_u64().unwrap() > 0);
    assert!(!document.to_string().contains("null"));
    assert!(stderr(&out).contains("noise"));
}

/// Returns whether a recording has written its first events, which it does after a second.
fn is_recording(folder: &Path) -> bool {
    let unfinished = names(folder).into_iter().filter(|name| name.ends_with(".partial"));
    unfinished.map(|name| folder.join(name)).any(|partial| partial.join("events.parquet.footer").exists())
}

/// Starts a command, sends it a signal once it is `ready`, and returns how it ended.
fn signalled(folder: &Path, arguments: &[&str], signal: &str, ready: impl Fn(&Path) -> bool) -> Output {
    let child = command()
        .args(arguments)
        .current_dir(folder)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let begun = Instant::now();
    while !ready(folder) {
        assert!(begun.elapsed() < Duration::from_secs(60), "it was never ready");
    }
    let pid = child.id().to_string();
    assert!(Command::new("kill").args([signal, &pid]).status().unwrap().success());
    let out = child.wait_with_output().unwrap();
    assert!(begun.elapsed() < Duration::from_secs(60));
    out
}

/// Starts a recording, sends it a signal once it has events, and returns how it ended.
fn interrupted(folder: &Path, arguments: &[&str], signal: &str) -> Output {
    signalled(folder, arguments, signal, |folder| {
        // On a quiet host there would be too little to write: a process allocates a few hundred pages.
        assert!(Command::new("true").status().unwrap().success());
        is_recording(folder)
    })
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

/// Starts a command and sends it a signal as soon as it prepares a recording: its unfinished folder exists.
fn interrupted_while_preparing(folder: &Path, arguments: &[&str], signal: &str) -> Output {
    signalled(folder, arguments, signal, |folder| {
        std::thread::sleep(Duration::from_millis(1));
        names(folder).iter().any(|name| name.ends_with(".partial"))
    })
}

#[test]
fn ctrl_c_while_preparing_does_not_start_the_command() {
    let _one = ONE.lock().unwrap_or_else(|e| e.into_inner());
    let folder = folder("preparing");
    if !possible(&folder) {
        return;
    }
    for (signal, status) in [("-INT", 130), ("-TERM", 143)] {
        let out = interrupted_while_preparing(&folder, &["record", "--", "touch", "started"], signal);
        assert_eq!(out.status.code(), Some(status), "{}", stderr(&out));
        assert!(stderr(&out).contains("the command was not started"), "{}", stderr(&out));
        assert!(out.stdout.is_empty());
        assert_eq!(names(&folder), [""; 0]);
    }
    let out = interrupted_while_preparing(&folder, &["record", "--seconds", "1"], "-INT");
    assert_eq!(out.status.code(), Some(130), "{}", stderr(&out));
    assert!(stderr(&out).contains("nothing was recorded"), "{}", stderr(&out));
    assert_eq!(names(&folder), [""; 0]);
}

#[test]
fn nohup_protects_a_recording() {
    let _one = ONE.lock().unwrap_or_else(|e| e.into_inner());
    let folder = folder("nohup");
    if !possible(&folder) {
        return;
    }
    // `exec`, so that the signal goes to the recorder and not to the shell.
    let command = format!("trap '' HUP; exec {} record --seconds 4 --json", env!("CARGO_BIN_EXE_pageyard"));
    let child = Command::new("sh")
        .args(["-c", &command])
        .current_dir(&folder)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(2) {
        std::thread::sleep(Duration::from_millis(100));
        let pid = child.id().to_string();
        assert!(Command::new("kill").args(["-HUP", &pid]).status().unwrap().success());
    }
    let out = child.wait_with_output().unwrap();
    assert!(out.status.success(), "{}", stderr(&out));
    let document = schemas::document(&out.stdout);
    assert!(document["seconds"].as_f64().unwrap() >= 4.0, "{document}");
}

/// Returns whether a process runs; one that has ended and was not waited for does not.
fn runs(pid: &str) -> bool {
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
    stat.rsplit(')').next().is_some_and(|rest| !rest.trim().is_empty() && !rest.trim_start().starts_with('Z'))
}

#[test]
fn what_a_killed_command_started_does_not_live_on() {
    let _one = ONE.lock().unwrap_or_else(|e| e.into_inner());
    let folder = folder("grandchildren");
    if !possible(&folder) {
        return;
    }
    // One child, one grandchild in a session of its own whose parent has gone, and one that ignores SIGTERM.
    let script = "sleep 100 & echo $! > a; \
        sh -c 'setsid sleep 100 & echo $! > b'; \
        sh -c 'trap \"\" TERM; echo $$ > c; sleep 100; sleep 100' & wait";
    let out = interrupted(&folder, &["record", "--", "sh", "-c", script], "-TERM");
    assert_eq!(out.status.code(), Some(143), "{}", stderr(&out));
    for file in ["a", "b", "c"] {
        let pid = fs::read_to_string(folder.join(file)).unwrap();
        assert!(!pid.trim().is_empty() && !runs(&pid), "{file}: process {pid} lives on");
    }
    // Processes that a command leaves running when it ends by itself are not touched.
    let out = pageyard(
        &folder,
        &["record", "-o", "b.trace", "--", "sh", "-c", "sleep 100 > /dev/null 2>&1 & echo $! > d"],
    );
    assert!(out.status.success(), "{}", stderr(&out));
    let pid = fs::read_to_string(folder.join("d")).unwrap();
    assert!(runs(&pid));
    assert!(Command::new("kill").arg(pid.trim()).status().unwrap().success());
}

#[test]
fn a_killed_recording_can_be_saved() {
    let _one = ONE.lock().unwrap_or_else(|e| e.into_inner());
    let folder = folder("killed");
    if !possible(&folder) {
        return;
    }
    let mut child = command()
        .args(["record", "-o", "a.trace", "--seconds", "100"])
        .current_dir(&folder)
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let begun = Instant::now();
    while !is_recording(&folder) {
        assert!(begun.elapsed() < Duration::from_secs(60), "no event was written");
        // Something to record.
        assert!(Command::new("true").status().unwrap().success());
    }
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(names(&folder), ["a.trace.partial"]);
    let again = pageyard(&folder, &["record", "-o", "a.trace", "--", "true"]);
    assert!(!again.status.success() && stderr(&again).contains("`pageyard import a.trace.partial`"));
    let summary = pageyard(&folder, &["summary", "a.trace.partial"]);
    assert!(stderr(&summary).contains("`pageyard import a.trace.partial`"), "{}", stderr(&summary));
    let out = pageyard(&folder, &["import", "a.trace.partial/", "--json"]);
    assert!(out.status.success(), "{}", stderr(&out));
    let document = schemas::document(&out.stdout);
    assert!(document["events"].as_u64().unwrap() > 0 && document["partial"] == "the recorder was killed");
    assert_eq!(names(&folder), ["a.trace"]);
    let out = pageyard(&folder, &["summary", "a.trace"]);
    assert!(
        String::from_utf8_lossy(&out.stdout)
            .contains("the recording ended early, because the recorder was killed")
    );
    assert!(pageyard(&folder, &["replay", "a.trace", "--json"]).status.success());
}

#[test]
fn a_full_disk_keeps_what_was_recorded_and_the_commands_status() {
    let _one = ONE.lock().unwrap_or_else(|e| e.into_inner());
    let folder = folder("full");
    let disk = folder.join("disk");
    fs::create_dir(&disk).unwrap();
    let mount = ["-t", "tmpfs", "-o", "size=48M", "tmpfs", disk.to_str().unwrap()];
    if !possible(&folder) || !Command::new("mount").args(mount).status().is_ok_and(|s| s.success()) {
        println!("skipped: a small disk cannot be made here");
        return;
    }
    // Fills the disk once some events are on it, and goes on.
    let script = "busy() { i=0; while [ $i -lt $1 ]; do /bin/true; i=$((i + 1)); done; }; \
        written() { [ $(stat -c %s a.trace.partial/events.parquet 2> /dev/null || echo 0) -gt 4096 ]; }; \
        busy 1500; for n in $(seq 100); do written && break; sleep 1; busy 100; done; cat /dev/zero > fill 2> /dev/null; \
        for n in 1 2 3 4 5; do sleep 1; busy 500; done; rm fill; exit 7";
    let out = pageyard(&disk, &["record", "-o", "a.trace", "--json", "--", "sh", "-c", script]);
    let summary = pageyard(&disk, &["summary", "a.trace", "--json"]);
    let left = names(&disk);
    assert!(Command::new("umount").arg(&disk).status().unwrap().success());
    assert_eq!(out.status.code(), Some(7), "{}", stderr(&out));
    assert!(stderr(&out).contains("the recording ends here, and the command goes on"), "{}", stderr(&out));
    let document = schemas::document(&out.stdout);
    assert!(document["partial"].as_str().unwrap().contains("No space left on device"), "{document}");
    assert_eq!(document["exit_status"], 7);
    assert_eq!(left, ["a.trace"]);
    let summary = schemas::document(&summary.stdout);
    assert!(summary["partial"].as_str().unwrap().contains("No space left on device"), "{summary}");
    assert_eq!(summary["events"], document["events"]);
    assert!(summary["events"].as_u64().unwrap() > 100, "{summary}");
}

#[test]
fn the_recorder_is_served_first_and_the_command_is_not() {
    let _one = ONE.lock().unwrap_or_else(|e| e.into_inner());
    let folder = folder("priority");
    if !possible(&folder) {
        return;
    }
    // Fields 4 and 19 of `stat`: the parent, and the niceness.
    let script = "sleep 1; awk '{ print $19 }' /proc/self/stat; awk '{ print $19 }' /proc/$PPID/stat";
    let out = pageyard(&folder, &["record", "-o", "a.trace", "--", "nice", "-n", "3", "sh", "-c", script]);
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    let nice: Vec<i32> = text.lines().map(|l| l.parse().unwrap()).collect();
    let raised = !stderr(&out).contains("the recorder's priority could not be raised");
    assert!(nice[0] >= 3 && (!raised || nice[1] == -20), "{text} {}", stderr(&out));
    // A command that asks for nothing keeps the niceness and the scheduler that its user has.
    let script = "awk '{ print $19, $41 }' /proc/self/stat";
    let own = Command::new("sh").args(["-c", script]).output().unwrap();
    let recorded = pageyard(&folder, &["record", "-o", "b.trace", "--", "sh", "-c", script]);
    assert_eq!(String::from_utf8_lossy(&recorded.stdout), String::from_utf8_lossy(&own.stdout));
}

#[test]
fn the_host_is_sampled_as_often_as_asked_for() {
    let _one = ONE.lock().unwrap_or_else(|e| e.into_inner());
    let folder = folder("samples");
    if !possible(&folder) {
        return;
    }
    let record = |name: &str, options: &[&str]| {
        let arguments = [&["record", "--json", "-o", name], options, &["--", "sleep", "1"]].concat();
        schemas::document(&pageyard(&folder, &arguments).stdout)["samples"].clone()
    };
    let (default, often, never) = (
        record("a.trace", &[]),
        record("b.trace", &["--sample-ms", "20"]),
        record("c.trace", &["--sample-ms=0"]),
    );
    assert_eq!((&default["every_ms"], &often["every_ms"]), (&250.0.into(), &20.0.into()));
    assert!(default["taken"].as_u64() < often["taken"].as_u64(), "{default} {often}");
    assert!(never.is_null(), "{never}");
    for (trace, sampled) in [("a.trace", true), ("c.trace", false)] {
        assert_eq!(folder.join(trace).join("samples.parquet").exists(), sampled);
        let summary = schemas::document(&pageyard(&folder, &["summary", trace, "--json"]).stdout);
        assert_eq!(
            summary["samples"]["count"].as_u64(),
            sampled.then(|| default["taken"].as_u64()).flatten()
        );
        let replay = pageyard(&folder, &["replay", trace, "--engine", "linux-6.18", "--json"]);
        let replay = schemas::document(&replay.stdout);
        let over_time = replay["engines"][0]["distance"]["over_time"].as_array().unwrap().len() as u64;
        assert_eq!(over_time, if sampled { default["taken"].as_u64().unwrap() } else { 0 });
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
    let document = schemas::document(&out.stdout);
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
