//! `pageyard-lab what-if` as a user meets it: wrong options, and settings that are put back whatever happens.

use crate::LAB;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

fn folder(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("what-if-{name}"));
    drop(fs::remove_dir_all(&path));
    fs::create_dir_all(path.join("vm")).unwrap();
    path
}

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pageyard-lab"));
    command.args(arguments);
    command
}

/// Runs the command, which refuses its arguments, and returns what it says, in as many lines as that takes.
fn refused(arguments: &[&str]) -> String {
    let out = LAB.run(arguments);
    let said = String::from_utf8(out.stderr).unwrap();
    assert!(!out.status.success() && out.stdout.is_empty(), "{arguments:?}: {said}");
    said
}

/// Waits until a file says something.
fn comes(path: &Path, text: &str) -> bool {
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(20) {
        if fs::read_to_string(path).is_ok_and(|t| t.trim() == text) {
            return true;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    false
}

#[test]
fn options_of_what_if_belong_to_it() {
    for option in [&["--seed", "7"][..], &["--guest", "/"], &["--keep", "x"], &["--pieces"]] {
        let why = refused(&[&["experiment", "zonelist", "--quick"], option].concat());
        assert!(why.starts_with(&format!("error: unexpected argument '{}'", option[0])), "{why}");
    }
    assert!(LAB.failure(&["experiment", "what-if"]).contains("`pageyard-lab what-if`"));
    assert!(refused(&["what-if", "--no-host"]).contains("--guest"));
    assert!(refused(&["what-if", "--seed", "x"]).contains("--seed"));
    let why = LAB.failure(&["what-if", "--set", "pcp_policy=auto"]);
    assert!(why.contains("what-if sets up no engine"), "{why}");
}

#[test]
fn a_folder_without_a_kernel_is_said() {
    let folder = folder("no-kernel");
    let (package, keep) = (folder.display().to_string(), folder.join("keep").display().to_string());
    let why = LAB.failure(&["what-if", "--no-host", "--guest", &package, "--keep", &keep]);
    assert!(why.contains("has no kernel") && why.contains("dpkg-deb -x"), "{why}");
}

#[test]
fn a_setting_is_put_back_after_a_kill() {
    let folder = folder("guard");
    let setting = folder.join("vm/min_free_kbytes");
    fs::write(&setting, "67584\n").unwrap();
    // The process that changes things is a shell here, which is killed; what it wrote is its own.
    let script = format!(
        "(printf 'write\\t{0}\\t67584\\n'; echo 5 > {0}; exec sleep 60) | {1} what-if-guard",
        setting.display(),
        env!("CARGO_BIN_EXE_pageyard-lab")
    );
    let mut shell = Command::new("setsid").args(["sh", "-c", &script]).spawn().unwrap();
    assert!(comes(&setting, "5"));
    // The whole group, as a terminal or a service manager would; the guard is in a session of its own by then, or ends
    // with its input.
    std::thread::sleep(Duration::from_millis(300));
    Command::new("kill").args(["-KILL", "--", &format!("-{}", shell.id())]).status().unwrap();
    shell.wait().unwrap();
    assert!(comes(&setting, "67584"));
}

#[test]
fn a_trial_that_is_killed_puts_its_setting_back() {
    if fs::create_dir("/sys/kernel/tracing/instances/pageyard-probe").is_err() {
        println!("skipped: the kernel's tracer cannot be used: this needs root and tracefs");
        return;
    }
    fs::remove_dir("/sys/kernel/tracing/instances/pageyard-probe").unwrap();
    let folder = folder("trial");
    let setting = folder.join("vm/min_free_kbytes");
    fs::write(&setting, "67584\n").unwrap();
    let path = folder.display().to_string();
    let run =
        ["what-if-trial", "fork", "--size", "1000000", "--seed", "1", "--cache", &path, "--root", &path];
    let mut trial = command(&[&run[..], &["--set", "vm/min_free_kbytes=5"]].concat())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    assert!(comes(&setting, "5"), "it was never set");
    trial.kill().unwrap();
    trial.wait().unwrap();
    assert!(comes(&setting, "67584"), "it was not put back");
    let instances = || fs::read_dir("/sys/kernel/tracing/instances").unwrap().flatten();
    let left = || instances().any(|e| e.file_name().to_string_lossy().starts_with("pageyard-what-if"));
    let begun = Instant::now();
    while left() && begun.elapsed() < Duration::from_secs(20) {
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(!left(), "instances of the tracer are left");
    // A setting that is not there is said, and nothing is changed.
    let why = LAB.failure(&[&run[..], &["--set", "vm/no_such=5"]].concat());
    assert!(why.contains("vm/no_such is not there: this kernel has no such setting"), "{why}");
}

#[test]
fn a_backtest_says_which_kernels_it_needs() {
    let text = String::from_utf8(LAB.stdout(&["backtest"])).unwrap();
    assert!(text.contains("kernels 7.0, 7.1, 7.2, 7.2+none, 7.2+skip, 7.3"));
    let all = LAB.json(&["backtest", "--json"]);
    let series = all["series"].as_array().unwrap();
    assert!(series.iter().any(|s| s["name"] == "defrag-mode" && s["kernels"][0] == "6.18"), "{all}");
    let why = LAB.failure(&["backtest", "none"]);
    assert!(why.contains("there is no series `none`; there are") && why.contains("highatomic"), "{why}");
    let why = LAB.failure(&["backtest", "highatomic"]);
    assert!(why.contains("--kernel 7.2=FOLDER") && why.contains("dpkg-deb -x"), "{why}");
    assert!(refused(&["backtest", "highatomic", "--runs", "1"]).contains("from 2 to 100"));
    assert!(refused(&["backtest", "--mail", "x"]).contains("SERIES"));
}
