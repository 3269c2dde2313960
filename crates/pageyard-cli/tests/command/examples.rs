//! The examples that help and the pages of `docs` show, run as they stand. The README's are compared with what they
//! print ([`crate::pages`]).

use crate::PAGEYARD;
use crate::recording::{ONE, folder, possible};
use pageyard_documents::commands;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Stdio;

/// Parts of an example that stand for what a test has no time or no right for, and what it does instead.
const INSTEAD: [(&str, &str); 17] = [
    ("--seconds 30", "--seconds 0.2"),
    ("--record 60", "--record 0.2"),
    ("/var/lib/pageyard-reports/watch-1795437600-0.host", "host"),
    ("/var/lib/pageyard/watch-1795437600-0.trace", "busy.trace"),
    ("-o /var/lib/pageyard", "--for 0.2 -o kept"),
    ("/var/lib/pageyard", "data/traces"),
    (" TRACE ", " busy.trace "),
    ("KNOB=VALUE", "fallback=alike"),
    ("/tmp/", ""),
    ("/run/pageyard.prom", "watch.prom"),
    ("watch --once", "watch --for 0.2 --once"),
    ("-- make -j8", "-- true"),
    ("-- ./job", "-- true"),
    ("dmesg | ", "cat host/dmesg | "),
    ("/srv/fleet", "fleet"),
    // The recording is from before recordings said it.
    ("--as web-17", "--as web-17 --began 1795824000"),
    (" && trace_processor busy.pftrace", ""),
];

/// Examples that are left out, by what they name: a guest with a stock kernel, another process, other recorders' files,
/// which the tests of imports make, and the policy that a reader adds.
const LEFT_OUT: [&str; 6] =
    ["kernel:", "pkill ", "perf ", "trace-cmd ", "pageyard import", "fallback=smallest"];

/// A recording until Ctrl-C.
const ENDLESS: &str = "pageyard record -o busy.trace";

/// Makes a folder of all that the examples name: small recordings under every name, and another host's files.
fn prepared(name: &str) -> std::path::PathBuf {
    let here = folder(name);
    let traces = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data/traces").canonicalize().unwrap();
    fs::create_dir_all(here.join("data/traces")).unwrap();
    for (name, of) in [
        ("data/traces/build", "database"),
        ("data/traces/net-order0", "guest-6.1-net"),
        ("data/traces/guest-6.12-huge", "guest-6.1-net"),
        ("guest", "guest-6.1-net"),
        ("before", "guest-6.1-net"),
        ("after", "guest-6.1-files"),
        ("first", "guest-6.1-net"),
        ("second", "guest-6.1-net"),
        ("busy", "database"),
        ("again", "database"),
        ("pressure", "database"),
    ] {
        symlink(traces.join(format!("{of}.trace")), here.join(format!("{name}.trace"))).unwrap();
    }
    fs::write(here.join("cohorts.csv"), "web-17,new\n").unwrap();
    let owner =
        "Page allocated via order 0, mask 0x1(GFP_KERNEL), pid 1\nPFN 0x200 type Unmovable\n f+0x1/0x2\n";
    fs::write(here.join("page_owner.txt"), owner).unwrap();
    let host = here.join("host");
    fs::create_dir(&host).unwrap();
    for file in ["buddyinfo", "zoneinfo", "vmstat", "meminfo", "version"] {
        fs::write(host.join(file), fs::read(Path::new("/proc").join(file)).unwrap()).unwrap();
    }
    let logs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../pageyard-replay/tests/doctor/logs");
    let log = fs::read_dir(logs).unwrap().flatten().map(|file| file.path()).min().unwrap();
    fs::copy(log, host.join("dmesg")).unwrap();
    here
}

fn run(here: &Path, example: &str) -> Result<(), String> {
    // A recording refuses a folder that is there; that of the examples stands for others.
    let mut line = example.strip_prefix("sudo ").unwrap_or(example).to_owned();
    if line.contains("pageyard record ") {
        line = format!("mkdir -p recorded && cd recorded && rm -rf *.trace && {line}");
    }
    for (part, other) in INSTEAD {
        line = line.replace(part, other);
    }
    let out = std::process::Command::new("sh")
        .args(["-c", &line])
        .current_dir(here)
        .env(
            "PATH",
            std::env::join_paths([PAGEYARD.folder(), Path::new("/usr/bin"), Path::new("/bin")]).unwrap(),
        )
        .stdin(Stdio::null())
        .output()
        .unwrap();
    match out.status.success() {
        true => Ok(()),
        false => Err(format!("`{example}`: {}", String::from_utf8_lossy(&out.stderr))),
    }
}

fn needs_root(line: &str) -> bool {
    ["sudo ", "pageyard record", "pageyard watch", "--record"].iter().any(|part| line.contains(part))
}

#[test]
fn every_example_runs() {
    let _one = ONE.lock().unwrap_or_else(|e| e.into_inner());
    let here = prepared("examples");
    let may_record = possible(&here);
    let mut examples = commands::lines_of_help(&pageyard_cli::command());
    assert!(examples.len() > 25, "few examples: {examples:?}");
    let of_pages: Vec<String> = commands::shown()
        .iter()
        .filter(|c| c.program() == "pageyard" && c.page().starts_with("docs/") && c.is_whole())
        // A part of a pipe.
        .filter(|c| c.words.last().is_none_or(|word| word != "-"))
        .map(|c| c.words.join(" "))
        .filter(|line| !examples.iter().any(|known| known.trim_start_matches("sudo ") == line))
        .collect();
    assert!(of_pages.len() > 10, "few commands: {of_pages:?}");
    examples.extend(of_pages);
    let mine: Vec<_> = examples
        .into_iter()
        .filter(|line| !LEFT_OUT.iter().any(|part| line.contains(part)))
        .filter(|line| line != ENDLESS && (may_record || !needs_root(line)))
        .collect();
    let faults: Vec<String> = mine.iter().filter_map(|line| run(&here, line).err()).collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}
