//! Rulings as text: a program in C reads them, and finds a frame that is given twice.

use pageyard_judge::recording::Recording;
use pageyard_judge::vectors;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

fn root(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}

fn exported(name: &str, most: usize) -> (Recording, String) {
    let recording = Recording::read(&root("data/judge").join(name)).unwrap();
    let mut text = Vec::new();
    vectors::write(&recording, most, &mut text).unwrap();
    (recording, String::from_utf8(text).unwrap())
}

/// Compiles the reader.
fn reader(folder: &Path) -> PathBuf {
    let program = folder.join("vectors");
    let source = root("lab/judge/examples/vectors.c");
    let mut cc = Command::new("cc");
    cc.args(["-O1", "-Wall", "-Wextra", "-Werror", "-o"]).arg(&program).arg(source);
    assert!(cc.status().unwrap().success());
    program
}

/// Returns what the reader says, and whether it found nothing.
fn read(program: &Path, text: &str) -> (String, bool) {
    let mut child = Command::new(program).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    // It does not read on where something is wrong.
    let _ = child.stdin.take().unwrap().write_all(text.as_bytes());
    let output = child.wait_with_output().unwrap();
    (String::from_utf8(output.stdout).unwrap(), output.status.success())
}

#[test]
fn a_program_in_c_reads_them_and_finds_a_frame_given_twice() {
    let folder = tempfile::tempdir().unwrap();
    let program = reader(folder.path());
    for name in ["linux-6.12-set9.ruling", "linux-7.2-set7-compact.ruling"] {
        let (recording, text) = exported(name, usize::MAX);
        let (said, is_well) = read(&program, &text);
        let moves = recording.ruling.moves.len();
        assert!(
            is_well && said.starts_with(&format!("{} operations, ", recording.operations.len())),
            "{said}"
        );
        // Those that were reclaimed in the same operation are gone.
        let moved = said.split(", ").nth(2).and_then(|part| part.split(' ').next()?.parse::<usize>().ok());
        assert!(moved.is_some_and(|moved| moved <= moves && moved + 10 > moves), "{said}");
        // The first block that is given, twice.
        let block = text.lines().find(|line| line.starts_with("a ")).unwrap();
        let planted = text.replacen(&format!("{block}\n"), &format!("{block}\n{block}\n"), 1);
        let (said, is_well) = read(&program, &planted);
        assert!(!is_well && said.contains("has owner"), "{said}");
    }
}

#[test]
fn the_lines_are_the_ruling() {
    let (recording, text) = exported("linux-7.3-set5-cma-compact.ruling", usize::MAX);
    let (before, after) = text.split_once("\ne\n").unwrap();
    let lines = |text: &str, kind: &str| -> Vec<Vec<u64>> {
        let of_kind = text.lines().filter_map(|line| line.strip_prefix(kind)?.strip_prefix(' '));
        of_kind.map(|line| line.split(' ').map(|n| n.parse().unwrap()).collect()).collect()
    };
    assert_eq!(lines(before, "o").len(), recording.operations.len());
    assert_eq!(lines(before, "p").len(), recording.ruling.moves.len());
    for (text, state) in [(before, &recording.ruling.opening), (after, &recording.ruling.closing)] {
        let zones = lines(text, "z");
        assert_eq!(zones.len(), state.zones.len());
        for (zone, line) in state.zones.iter().zip(&zones) {
            assert_eq!(
                line[1..5],
                [u64::from(zone.node.0), zone.kind.index() as u64, zone.start.0, zone.spanned.0]
            );
            let free =
                lines(text, "f").into_iter().filter(|block| block[0] == line[0]).map(|block| 1 << block[1]);
            assert_eq!(free.sum::<u64>(), zone.free, "zone {}", line[0]);
            let pageblocks = lines(text, "t").into_iter().filter(|run| run[0] == line[0]).map(|run| run[2]);
            assert_eq!(pageblocks.sum::<u64>(), zone.state.types.len() as u64);
        }
    }
    let (_, cut) = exported("linux-7.3-set5-cma-compact.ruling", 100);
    assert!(before.starts_with(cut.trim_end()) && lines(&cut, "o").len() == 100);
}
