//! A replay that cannot get the memory it needs says so, and is not killed or aborted.

use pageyard_documents::schemas;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Output};

fn shipped(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data/traces").join(format!("{name}.trace"));
    path.display().to_string()
}

/// Replays `build` with an address space of so many KiB.
fn within(kib: u64, arguments: &str) -> Output {
    let command = format!(
        "ulimit -v {kib}; exec {} replay {} {arguments}",
        env!("CARGO_BIN_EXE_pageyard"),
        shipped("build")
    );
    Command::new("sh").args(["-c", &command]).output().unwrap()
}

#[test]
fn a_limit_on_address_space_ends_in_a_sentence_or_in_a_result() {
    let (mut refused, mut served) = (0, 0);
    for arguments in ["--engine linux-6.18", "--engine pageyard-exclusive", "--engine linux-6.1 --threads"] {
        for kib in [100_000, 200_000, 300_000, 400_000, 800_000, 4_000_000] {
            let out = within(kib, arguments);
            let why = String::from_utf8_lossy(&out.stderr);
            assert_eq!(out.status.signal(), None, "{arguments} in {kib} KiB: {why}");
            assert!(
                !why.contains("panicked") && !why.contains("memory allocation"),
                "{arguments} in {kib} KiB: {why}"
            );
            if out.status.success() {
                served += 1;
            } else {
                refused += 1;
                assert!(
                    why.contains("ulimit -v") && why.lines().count() == 1,
                    "{arguments} in {kib} KiB: {why}"
                );
            }
        }
    }
    assert!(refused >= 3 && served >= 3, "{refused} refused, {served} served");
}

#[test]
fn knobs_are_listed_with_their_engines_and_values() {
    let run =
        |arguments: &[&str]| Command::new(env!("CARGO_BIN_EXE_pageyard")).args(arguments).output().unwrap();
    let out = run(&["knobs", "--json"]);
    let json = schemas::document(&out.stdout);
    let knobs = json["knobs"].as_array().unwrap();
    let fallback = knobs.iter().find(|k| k["name"] == "fallback").unwrap();
    assert_eq!(fallback["defaults"]["linux-6.18"], "claim_or_steal");
    assert!(fallback["values"].as_str().unwrap().contains("half_free"));
    assert!(!fallback["engines"].as_array().unwrap().contains(&"pageyard".into()));
    let text = String::from_utf8(run(&["knobs", "direct_free"]).stdout).unwrap();
    assert!(text.contains("compaction.direct_free") && text.contains("off on linux-4.6"), "{text}");
    assert!(!run(&["knobs", "swappiness"]).status.success());
}

#[test]
fn a_setting_for_some_engines_is_said_and_samples_can_be_chosen() {
    let trace = shipped("build");
    let arguments = [
        "replay",
        &trace,
        "--engine",
        "linux-6.18,pageyard-exclusive",
        "--set",
        "fallback=alike",
        "--samples",
        "5",
        "--json",
    ];
    let out = Command::new(env!("CARGO_BIN_EXE_pageyard")).args(arguments).output().unwrap();
    let note = String::from_utf8(out.stderr).unwrap();
    assert!(note.contains("fallback=alike is set on linux-6.18 alone"), "{note}");
    let json = schemas::document(&out.stdout);
    let (linux, yard) = (&json["engines"][0], &json["engines"][1]);
    assert_eq!(linux["settings"]["fallback"], "alike");
    assert!(yard["settings"].as_object().unwrap().is_empty());
    let samples = linux["timeline"].as_array().unwrap().len();
    assert!((5..=7).contains(&samples), "{samples}");
    assert!(json["engines"][0]["after"]["unchanged"]["distance_pct"].is_f64());
}
