//! `watch` as a user meets it. What needs root and tracefs says so where it lacks them.

use crate::PAGEYARD;
use crate::recording::{ONE, command, folder, possible};
use pageyard_documents::schemas::document;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

fn traces(folder: &Path) -> Vec<String> {
    let names = fs::read_dir(folder).unwrap().map(|f| f.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.ends_with(".trace")).collect()
}

fn until(what: &dyn Fn() -> bool) {
    let start = Instant::now();
    while !what() {
        assert!(start.elapsed() < Duration::from_secs(60), "nothing happened");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn rows_of_this_host_are_written_while_it_is_watched() {
    let _one = ONE.lock().unwrap_or_else(|e| e.into_inner());
    let here = folder("watch-rows");
    if !possible(&here) {
        return;
    }
    let out = command()
        .args([
            "watch",
            "-o",
            "kept",
            "--rows",
            "fleet",
            "--as",
            "here",
            "--window",
            "1",
            "--for",
            "3.5",
            "--no-picture",
        ])
        .current_dir(&here)
        .output()
        .unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let fleet = here.join("fleet");
    let of = PAGEYARD.json(&["fleet", fleet.to_str().unwrap(), "--json"]);
    assert!(
        (3..=5).contains(&of["rows"].as_u64().unwrap()) && of["left_out"] == serde_json::json!([]),
        "{of}"
    );
    let free = of["figures"]
        .as_array()
        .unwrap()
        .iter()
        .find(|f| f["figure"] == "free memory")
        .expect("it is sampled");
    let pct = free["worst"][0]["value"].as_f64().unwrap();
    assert!(0.0 < pct && pct < 100.0, "{pct}");
}

#[test]
fn a_signal_keeps_the_seconds_before_it_and_the_oldest_go() {
    let _one = ONE.lock().unwrap_or_else(|e| e.into_inner());
    let here = folder("watch");
    if !possible(&here) {
        return;
    }
    let child = command()
        .args(["watch", "-o", "kept", "--keep", "2", "--metrics", "metrics.prom", "--level", "full"])
        .args(["--on", "any-failure", "--no-picture", "--json"])
        .current_dir(&here)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let pid = child.id().to_string();
    let signal = |name: &str| assert!(Command::new("kill").args([name, &pid]).status().unwrap().success());
    // It writes its metrics once it is armed.
    until(&|| here.join("metrics.prom").exists());
    let kept = here.join("kept");
    let mut seen = std::collections::BTreeSet::new();
    for n in 1..=3 {
        signal("-USR1");
        until(&|| traces(&kept).iter().any(|name| !seen.contains(name)));
        seen.extend(traces(&kept));
        assert_eq!(seen.len(), n);
    }
    signal("-TERM");
    let out = child.wait_with_output().unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let document = document(&out.stdout);
    assert_eq!(document["snapshots"].as_array().unwrap().len(), 3, "{document}");
    assert_eq!(document["snapshots"][0]["reason"], "SIGUSR1");
    assert_eq!(traces(&kept).len(), 2, "the oldest went");
    // What is kept is a trace like any other.
    let last = kept.join(seen.last().unwrap());
    let summary = PAGEYARD.json(&["summary", last.to_str().unwrap(), "--json"]);
    assert!(summary["samples"].is_object(), "{summary}");
    PAGEYARD.json(&["doctor", "--trace", last.to_str().unwrap(), "--json"]);
    let table = PAGEYARD.run(&["summary", kept.to_str().unwrap()]);
    let table = String::from_utf8(table.stdout).unwrap();
    assert!(seen.iter().skip(1).all(|name| table.contains(name.trim_end_matches(".trace"))), "{table}");
    // The metrics are what Prometheus reads, and whole.
    let metrics = fs::read_to_string(here.join("metrics.prom")).unwrap();
    assert!(metrics.contains("pageyard_watch_snapshots_total 3\n"), "{metrics}");
    assert!(metrics.contains("pageyard_watch_snapshots_kept 2\n"), "{metrics}");
    for line in metrics.lines().filter(|line| !line.starts_with('#')) {
        let (name, value) = line.rsplit_once(' ').unwrap();
        assert!(name.starts_with("pageyard_watch_") && value.parse::<f64>().is_ok(), "{line}");
    }
    assert!(!here.join("metrics.prom.partial").exists());
}

#[test]
fn metrics_that_cannot_be_written_for_a_while_and_what_a_killed_watch_left_do_not_stop_one() {
    let _one = ONE.lock().unwrap_or_else(|e| e.into_inner());
    let here = folder("watch-goes-on");
    if !possible(&here) {
        return;
    }
    let (run, left) = (here.join("run"), here.join("kept/watch-1-0.trace.partial"));
    let metrics = run.join("metrics.prom");
    let why = PAGEYARD.failure(&[
        "watch",
        "-o",
        here.join("kept").to_str().unwrap(),
        "--metrics",
        metrics.to_str().unwrap(),
    ]);
    assert!(why.contains("the metrics cannot be written to"), "{why}");
    fs::create_dir(&run).unwrap();
    fs::create_dir_all(&left).unwrap();
    let child = command()
        .args(["watch", "-o", "kept", "--metrics", "run/metrics.prom"])
        .current_dir(&here)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    until(&|| metrics.exists());
    // Nothing can be saved of it.
    until(&|| !left.exists());
    fs::remove_dir_all(&run).unwrap();
    // Metrics are written after each snapshot: when the third is kept, two writes have failed.
    let signal = |name: &str| {
        assert!(Command::new("kill").args([name, &child.id().to_string()]).status().unwrap().success());
    };
    for n in 1..=3 {
        signal("-USR1");
        until(&|| traces(&here.join("kept")).len() == n);
    }
    fs::create_dir(&run).unwrap();
    signal("-USR1");
    until(&|| metrics.exists());
    signal("-TERM");
    let out = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "{said}");
    assert_eq!(said.matches("the metrics cannot be written").count(), 1, "{said}");
    assert!(said.contains("watch-1-0.trace.partial was left by a watch that was killed"), "{said}");
}

#[test]
fn what_cannot_be_watched_is_said_in_a_sentence() {
    let here = folder("watch-refused");
    fs::write(here.join("file"), "x").unwrap();
    let path = here.join("file/below");
    let why = PAGEYARD.failure(&["watch", "-o", path.to_str().unwrap()]);
    assert!(why.contains("cannot be made"), "{why}");
    // /proc/sys exists, but no file can be created in it.
    let why = PAGEYARD.failure(&["watch", "-o", "/proc/sys"]);
    assert!(why.contains("/proc/sys cannot be written"), "{why}");
    let why = PAGEYARD.failure(&["watch", "--on", "sunshine"]);
    assert!(why.contains("possible values"), "{why}");
    let why = PAGEYARD.failure(&["watch", "--ring", "much"]);
    assert!(why.contains("is not a size"), "{why}");
}

#[test]
fn a_folder_with_a_damaged_trace_names_it_and_shows_the_others() {
    let here = folder("several");
    let shipped = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data/traces/fork.trace");
    let good = here.join("good.trace");
    fs::create_dir(&good).unwrap();
    for file in fs::read_dir(shipped).unwrap() {
        let file = file.unwrap();
        fs::copy(file.path(), good.join(file.file_name())).unwrap();
    }
    fs::create_dir(here.join("bad.trace")).unwrap();
    fs::create_dir(here.join("killed.trace.partial")).unwrap();
    let out = PAGEYARD.run(&["summary", here.to_str().unwrap()]);
    assert!(!out.status.success());
    let (table, why) = (String::from_utf8(out.stdout).unwrap(), String::from_utf8(out.stderr).unwrap());
    assert!(table.contains("good") && table.contains("bad.trace cannot be read"), "{table}");
    assert!(why.contains("1 of 2 traces cannot be read"), "{why}");
    assert!(
        table.contains("killed.trace.partial is unfinished") && table.contains("`pageyard import "),
        "{table}"
    );
    let alone = folder("unfinished");
    fs::create_dir(alone.join("killed.trace.partial")).unwrap();
    let document = PAGEYARD.json(&["summary", alone.to_str().unwrap(), "--json"]);
    assert_eq!(document["unfinished"].as_array().unwrap().len(), 1, "{document}");
}

fn hosts(folder: &Path) -> Vec<String> {
    let names = fs::read_dir(folder).unwrap().map(|f| f.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.ends_with(".host")).collect()
}

/// Starts a watch on the kernel's reports; `None` where this user may not read the kernel's log.
fn watch_reports(here: &Path, more: &[&str]) -> Option<std::process::Child> {
    if fs::File::open("/dev/kmsg").is_err() {
        let why = PAGEYARD.failure(&["watch", "--level", "reports", "-o", here.to_str().unwrap()]);
        assert!(why.contains("/dev/kmsg cannot be read"), "{why}");
        println!("skipped: {why}");
        return None;
    }
    let child = command()
        .args(["watch", "--level", "reports", "-o", "kept", "--metrics", "metrics.prom", "--json"])
        .args(more)
        .current_dir(here)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    until(&|| here.join("metrics.prom").exists());
    Some(child)
}

/// Has the kernel kill a process that goes beyond the limit of a memory control group; `false` where there is none.
fn killed_by_its_group() -> bool {
    let group = Path::new("/sys/fs/cgroup/memory").join(format!("pageyard-test-{}", std::process::id()));
    if fs::create_dir(&group).is_err() || fs::write(group.join("memory.limit_in_bytes"), "8M").is_err() {
        drop(fs::remove_dir(&group));
        return false;
    }
    let hog = "echo 0 > \"$0/tasks\"; head -c 64M /dev/zero | tail >/dev/null";
    let killed = Command::new("sh").args(["-c", hog]).arg(&group).stderr(Stdio::null()).status();
    until(&|| fs::remove_dir(&group).is_ok());
    killed.is_ok()
}

#[test]
fn the_kernels_own_report_is_kept_with_the_hosts_state() {
    let here = folder("watch-reports");
    let Some(child) = watch_reports(&here, &["--once"]) else { return };
    let signal = || assert!(Command::new("kill").args(["-USR1", &child.id().to_string()]).status().is_ok());
    let killed = killed_by_its_group();
    if !killed {
        println!("skipped: no process can be limited here; a signal stands for the report");
        signal();
    }
    let out = child.wait_with_output().unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let document = document(&out.stdout);
    let saved = document["snapshots"][0]["folder"].as_str().unwrap();
    assert_eq!(hosts(&here.join("kept")), [saved.trim_start_matches("kept/")]);
    let saved = here.join(saved);
    let now = PAGEYARD.json(&["doctor", "--from", saved.to_str().unwrap(), "--json"]);
    assert_eq!(now["source"], "saved", "{now}");
    if killed {
        assert_eq!(document["reports"]["memory_control_group"], 1, "{document}");
        let log = saved.join("dmesg");
        let why = PAGEYARD.json(&["doctor", "--log", log.to_str().unwrap(), "--json"]);
        assert!(why.to_string().contains("pageyard-test-"), "{why}");
        let metrics = fs::read_to_string(here.join("metrics.prom")).unwrap();
        assert!(metrics.contains("reports_total{kind=\"memory_control_group\"} 1\n"), "{metrics}");
    }
}

/// A small disk, for as long as this is kept.
struct Disk(std::path::PathBuf);

impl Drop for Disk {
    fn drop(&mut self) {
        drop(Command::new("umount").arg(&self.0).status());
    }
}

#[test]
fn a_watch_goes_on_where_its_disk_is_full() {
    let here = folder("watch-full");
    let disk = here.join("kept");
    fs::create_dir(&disk).unwrap();
    let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", "size=256k", "tmpfs"]).arg(&disk).status();
    if !mounted.is_ok_and(|status| status.success()) {
        println!("skipped: no disk can be mounted here");
        return;
    }
    let disk = Disk(disk);
    if let Some(child) = watch_reports(&here, &["--keep", "100"]) {
        let pid = child.id().to_string();
        let taken = |n: usize| {
            let metrics = fs::read_to_string(here.join("metrics.prom")).unwrap_or_default();
            metrics.contains(&format!("pageyard_watch_snapshots_total {n}\n"))
        };
        // Each takes 40 KiB or more.
        for n in 1..=12 {
            assert!(Command::new("kill").args(["-USR1", &pid]).status().unwrap().success());
            until(&|| taken(n));
        }
        assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
        let out = child.wait_with_output().unwrap();
        let document = document(&out.stdout);
        let kept = hosts(&disk.0).len();
        assert_eq!(document["failed"], 0, "{document}");
        assert!((1..12).contains(&kept), "{kept} are kept");
    }
}

#[test]
fn options_of_other_levels_are_refused() {
    let why = PAGEYARD.failure(&["watch", "--level", "reports", "--ring", "1M"]);
    assert!(why.contains("--ring") && why.contains("levels light and full"), "{why}");
}
