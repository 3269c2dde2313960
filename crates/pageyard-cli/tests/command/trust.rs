//! Every answer that stands on a recording begins with how far it can be trusted, and says what made it.

use crate::PAGEYARD;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn shipped(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data/traces").join(format!("{name}.trace"))
}

/// A copy of a shipped recording that says it lost a share of its events.
fn lossy(name: &str, share: f64) -> String {
    let to = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("lost-{:.0}-{name}.trace", share * 100.0));
    drop(fs::remove_dir_all(&to));
    fs::create_dir_all(&to).unwrap();
    for file in fs::read_dir(shipped(name)).unwrap() {
        let file = file.unwrap();
        fs::copy(file.path(), to.join(file.file_name())).unwrap();
    }
    let meta = to.join("meta.json");
    let mut json: Value = serde_json::from_str(&fs::read_to_string(&meta).unwrap()).unwrap();
    let events = json["events"].as_f64().unwrap();
    json["lost"] = ((events * share / (1.0 - share)).ceil() as u64).into();
    fs::write(&meta, json.to_string()).unwrap();
    to.to_str().unwrap().to_owned()
}

fn text(arguments: &[&str]) -> String {
    String::from_utf8(PAGEYARD.stdout(arguments)).unwrap()
}

fn page(name: &str) -> String {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(name).to_str().unwrap().to_owned()
}

/// The page that `answers` makes of a recording: tests run at once, each on recordings of its own.
fn page_of(trace: &str) -> String {
    let name = Path::new(trace).file_stem().unwrap().to_str().unwrap();
    page(&format!("trust-{name}.html"))
}

/// Runs each verb on a recording and returns its name, text and document.
fn answers(trace: &str) -> Vec<(&'static str, String, Value)> {
    let map = page_of(trace);
    let all: [(&str, Vec<&str>); 6] = [
        ("summary", vec!["summary", trace]),
        ("blame", vec!["summary", trace, "--blame"]),
        ("replay", vec!["replay", trace, "--engine", "linux-6.12"]),
        ("compare", vec!["compare", trace, "--engine", "linux-6.12,linux-6.18", "--seeds", "1"]),
        ("map", vec!["map", trace, "-o", &map, "--engine", "none"]),
        ("doctor", vec!["doctor", "--trace", trace]),
    ];
    all.map(|(name, arguments)| {
        let mut json = arguments.clone();
        json.push("--json");
        (name, text(&arguments), PAGEYARD.json(&json))
    })
    .into()
}

/// Sentences that are true only of a recording that lost nothing.
const FACTS: [&str; 8] = [
    "every request got",
    "no request took",
    "compaction and migration did nothing",
    "No request failed",
    "No difference",
    "are lost to huge frames",
    "none lost",
    "Try vm.",
];

#[test]
fn of_a_recording_that_lost_much_no_verb_states_a_count_as_a_fact() {
    // The second has requests that failed, the first has none.
    for (name, share) in [("guest-6.12-atomic", 0.1), ("guest-6.12-huge", 0.7)] {
        let trace = lossy(name, share);
        for (verb, text, document) in answers(&trace) {
            assert!(text.starts_with("Trust: low"), "{verb} of {name}:\n{text}");
            assert!(text.contains("events were lost"), "{verb} of {name}:\n{text}");
            for fact in FACTS {
                assert!(!text.contains(fact), "{verb} of {name} says \"{fact}\":\n{text}");
            }
            assert_eq!(document["trust"]["level"], "low", "{verb} of {name}: {document}");
            if verb == "doctor" {
                assert_eq!(document["causes"], Value::Array(Vec::new()), "{document}");
                assert!(text.contains("no cause is named and no setting advised"), "{text}");
            }
            if verb == "summary" {
                assert!(text.contains("(of the events seen)"), "{text}");
            }
        }
        let map = fs::read_to_string(page_of(&trace)).unwrap();
        assert!(map.contains("\"level\":\"low\""));
    }
}

#[test]
fn of_a_recording_that_lost_nothing_each_answer_says_so_first() {
    let trace = shipped("guest-6.12-atomic");
    for (verb, text, document) in answers(trace.to_str().unwrap()) {
        assert!(text.starts_with("Trust: high") || text.starts_with("Trust: limited"), "{verb}:\n{text}");
        assert_eq!(document["trust"]["lost"], 0, "{verb}: {document}");
        assert_eq!(document["trust"]["recording"], "high", "{verb}: {document}");
    }
}

#[test]
fn what_made_a_page_or_a_document_can_be_pasted_and_does_the_same() {
    let trace = shipped("guest-6.1-net");
    let trace = trace.to_str().unwrap();
    let out = page("made of this.html");
    let arguments = [
        "compare",
        trace,
        "--engine",
        "linux-6.1,linux-6.18",
        "--seeds",
        "2",
        "--slow-path",
        "reclaim,compaction",
        "--set",
        "pcp_policy=classic",
        "--report",
        &out,
        "--json",
    ];
    let first = PAGEYARD.json(&arguments);
    let command = first["made"]["command"].as_str().unwrap();
    assert_eq!(first["made"]["version"], env!("CARGO_PKG_VERSION"));
    assert!(fs::read_to_string(&out).unwrap().contains("--slow-path reclaim,compaction"));
    // The shell finds the command where the test has it.
    let folder = Path::new(env!("CARGO_BIN_EXE_pageyard")).parent().unwrap();
    let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap());
    let again = Command::new("sh").args(["-c", command]).env("PATH", path).output().unwrap();
    assert!(again.status.success(), "{command}\n{}", String::from_utf8_lossy(&again.stderr));
    let again: Value = serde_json::from_slice(&again.stdout).unwrap();
    let rows = |of: &Value| {
        let rows = of["rows"].as_array().unwrap().iter();
        // Latencies are of this host, and differ.
        rows.filter(|row| !row["metric"].as_str().unwrap().ends_with("_ns")).cloned().collect::<Vec<_>>()
    };
    assert_eq!(rows(&again), rows(&first), "{command}");
    assert_eq!(again["made"], first["made"]);
}

#[test]
fn what_was_not_given_stands_in_the_command_too() {
    let trace = shipped("guest-6.1-net");
    let document = PAGEYARD.json(&["compare", trace.to_str().unwrap(), "--seeds", "1", "--json"]);
    let command = document["made"]["command"].as_str().unwrap();
    assert!(command.contains("--engine linux-6.1,pageyard-exclusive"), "{command}");
    let text = text(&["replay", trace.to_str().unwrap()]);
    let last = text.lines().last().unwrap();
    assert!(last.starts_with("Made by version") && last.ends_with("--opening 0 --samples 20"), "{text}");
}
