//! `pageyard export` as a user meets it.

use pageyard_documents::schemas::document;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

fn export(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_pageyard")).arg("export").args(arguments).output().unwrap()
}

#[test]
fn the_file_is_there_whole_and_imports_again() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("export");
    drop(fs::remove_dir_all(&folder));
    fs::create_dir_all(&folder).unwrap();
    let trace = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../data/traces/guest-6.12-atomic.trace")
        .display()
        .to_string();
    let (file, back) = (folder.join("a.pftrace"), folder.join("back.trace"));
    let out = export(&[&trace, "-o", file.to_str().unwrap(), "--json"]);
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let exported = document(&out.stdout);
    assert_eq!(exported["bytes"].as_u64().unwrap(), fs::metadata(&file).unwrap().len());
    let names: Vec<_> = fs::read_dir(&folder).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(names, ["a.pftrace"], "nothing is left beside it");
    let import = Command::new(env!("CARGO_BIN_EXE_pageyard"))
        .arg("import")
        .arg(&file)
        .arg("-o")
        .arg(&back)
        .arg("--json")
        .output()
        .unwrap();
    assert_eq!(document(&import.stdout)["events"], exported["events"]);
}

#[test]
fn a_file_for_llfree_imports_again_and_replays() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("export-llfree");
    drop(fs::remove_dir_all(&folder));
    fs::create_dir_all(&folder).unwrap();
    let (file, back) = (folder.join("a.llfree"), folder.join("back.trace"));
    let pageyard = |arguments: &[&str]| {
        let out =
            Command::new(env!("CARGO_BIN_EXE_pageyard")).args(arguments).arg("--json").output().unwrap();
        assert!(out.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&out.stderr));
        document(&out.stdout)
    };
    let trace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data/traces/guest-6.12-atomic.trace");
    let [trace, file, back] = [&trace, &file, &back].map(|path| path.to_str().unwrap());
    let exported = pageyard(&["export", trace, "--format", "llfree", "-o", file]);
    assert_eq!((&exported["format"], &exported["snapshot_left_out"]), (&"llfree".into(), &true.into()));
    let records = exported["records"].as_u64().unwrap();
    let imported = pageyard(&["import", file, "-o", back]);
    assert_eq!((&imported["recorder"], imported["events"].as_u64()), (&"llfree".into(), Some(records)));
    let original = pageyard(&["replay", trace, "--engine", "pageyard-exclusive"]);
    let replayed = pageyard(&["replay", back, "--engine", "pageyard-exclusive"]);
    assert_eq!(replayed["trace"]["opening"]["snapshot"], false);
    // Memory is as large as in the recording, up to its last frame, holes included.
    let bytes = |report: &serde_json::Value| report["trace"]["memory_bytes"].as_u64().unwrap();
    assert!(bytes(&replayed) >= bytes(&original), "{} {}", bytes(&replayed), bytes(&original));
    assert_eq!(
        replayed["trace"]["frees"].as_u64().zip(replayed["trace"]["allocs"].as_u64()).map(|(f, a)| f + a),
        Some(records)
    );
    assert_eq!(replayed["engines"][0]["audit"], "clean");
    // LLFree's score is the mean of the shares at the start and at the end: there are fewer than 100,000 records.
    assert!(records < 100_000);
    let engine = &replayed["engines"][0];
    let samples = engine["timeline"].as_array().unwrap();
    let share = |n: usize| samples[n]["free_huge_frames_pct_of_optimum"].as_f64().unwrap();
    let score = engine["llfree_score"].as_f64().unwrap();
    assert!((score - (share(0) + share(samples.len() - 1)) / 2.0).abs() < 1e-9, "{score}");
}

#[test]
fn what_cannot_be_written_or_read_is_one_sentence() {
    for arguments in [
        &["-o", "/no-such-folder/a.pftrace"][..],
        &["-o", "/proc/a.pftrace"],
        &["no-such.trace", "-o", "a.pftrace"],
        &["-o", "/tmp"],
    ] {
        let out = export(arguments);
        let text = String::from_utf8(out.stderr).unwrap();
        assert!(!out.status.success() && out.stdout.is_empty(), "{arguments:?}: {text}");
        assert_eq!(text.lines().count(), 1, "{arguments:?}: {text}");
    }
}
