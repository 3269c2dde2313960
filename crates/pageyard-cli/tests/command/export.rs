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
