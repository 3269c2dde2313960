//! `pageyard replay --out`: tables that are there whole or not at all.

use pageyard_documents::schemas::document;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn replay(arguments: &[&str]) -> Output {
    let engines = ["replay", "--engine", "linux-6.18", "--samples", "3"];
    Command::new(env!("CARGO_BIN_EXE_pageyard")).args(engines).args(arguments).output().unwrap()
}

pub fn empty(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    drop(fs::remove_dir_all(&folder));
    fs::create_dir_all(&folder).unwrap();
    folder
}

pub fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<_> =
        fs::read_dir(folder).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// Checks that a run printed nothing on standard output, and one line about the error; returns that.
pub fn sentence(out: &Output) -> String {
    let text = String::from_utf8(out.stderr.clone()).unwrap();
    assert!(!out.status.success() && out.stdout.is_empty(), "{text}");
    assert_eq!(text.lines().count(), 1, "{text}");
    text
}

#[test]
fn a_replay_writes_its_series_beside_its_document() {
    let folder = empty("series");
    for (format, name) in [(&["--format", "csv"][..], "csv"), (&[], "parquet")] {
        let to = folder.join(name);
        let out = replay(&[&["--json", "--out", to.to_str().unwrap()], format].concat());
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
        let report = document(&out.stdout);
        let tables = ["blocks", "failures", "pageblocks", "samples", "zones"];
        assert_eq!(names(&to), tables.map(|table| format!("{table}.{name}")));
        if name == "csv" {
            let samples = fs::read_to_string(to.join("samples.csv")).unwrap();
            let timeline = report["engines"][0]["timeline"].as_array().unwrap();
            assert_eq!(samples.lines().count(), 1 + timeline.len());
            // Every figure of the timeline, under its name.
            let columns: Vec<&str> = samples.lines().next().unwrap().split(',').skip(2).collect();
            for (line, sample) in samples.lines().skip(1).zip(timeline) {
                let cells: Vec<&str> = line.split(',').skip(2).collect();
                assert_eq!(cells.len(), columns.len());
                for (column, cell) in columns.iter().zip(&cells) {
                    assert_eq!(cell.parse::<f64>().ok(), sample[column].as_f64(), "{column}: {cell}");
                }
                let known = cells.iter().filter(|cell| !cell.is_empty()).count();
                assert_eq!(known, sample.as_object().unwrap().len(), "{line}");
            }
        }
    }
    assert_eq!(names(&folder), ["csv", "parquet"]);
}

#[test]
fn a_folder_that_cannot_be_is_said_before_the_replay() {
    let folder = empty("series-refused");
    let path = |name: &str| folder.join(name).display().to_string();
    fs::create_dir(path("taken")).unwrap();
    fs::write(path("taken/samples.csv"), "mine").unwrap();
    for (to, says) in [
        ("taken", "already exists: name another folder or remove it"),
        ("taken/samples.csv", "already exists"),
        ("no/such/folder", "cannot be written: No such file or directory"),
        ("taken/samples.csv/x", "cannot be written: Not a directory"),
    ] {
        let text = sentence(&replay(&["--out", &path(to)]));
        assert!(text.contains(says) && text.contains(to), "{text}");
    }
    assert_eq!(fs::read_to_string(path("taken/samples.csv")).unwrap(), "mine");
    assert_eq!(names(&folder), ["taken"]);
    for arguments in [&["--out", &path("x"), "--format", "json"][..], &["--format", "csv"]] {
        let out = replay(arguments);
        let text = String::from_utf8_lossy(&out.stderr);
        assert!(
            !out.status.success() && (text.contains("parquet or csv") || text.contains("--out")),
            "{text}"
        );
    }
}

#[test]
fn series_are_written_although_the_reader_of_the_report_goes_away() {
    let folder = empty("series-pipe");
    let to = folder.join("series");
    let command = format!(
        "{} replay --engine linux-6.18 --out {} | head -1",
        env!("CARGO_BIN_EXE_pageyard"),
        to.display()
    );
    let out = Command::new("sh").args(["-c", &command]).output().unwrap();
    assert!(out.stderr.is_empty(), "{}", String::from_utf8_lossy(&out.stderr));
    assert_eq!(names(&to).len(), 5);
}

#[test]
fn a_full_disk_is_said_and_nothing_half_written_stays() {
    let disk = empty("series-full");
    let mount = ["-t", "tmpfs", "-o", "size=64k", "tmpfs", disk.to_str().unwrap()];
    if !Command::new("mount").args(mount).output().is_ok_and(|out| out.status.success()) {
        println!("skipped: a small disk cannot be made here");
        return;
    }
    let to = disk.join("series");
    let run = |format| {
        let large = ["--json", "--samples", "3000", "--out", to.to_str().unwrap(), "--format", format];
        let command = [&["replay", "--engine", "linux-6.18"][..], &large].concat();
        Command::new(env!("CARGO_BIN_EXE_pageyard")).args(command).output().unwrap()
    };
    let runs = ["csv", "parquet"].map(run);
    let left = names(&disk);
    assert!(Command::new("umount").arg(&disk).status().unwrap().success());
    for out in runs {
        let text = String::from_utf8(out.stderr).unwrap();
        assert!(!out.status.success() && text.lines().count() == 1, "{text}");
        assert!(text.contains("No space left on device") && text.contains("series"), "{text}");
        document(&out.stdout);
    }
    assert!(left.is_empty(), "{left:?}");
}
