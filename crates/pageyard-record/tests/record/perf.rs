//! The real `perf`: what it counts in its own file is what we count in the imported one.

use std::fs;
use std::path::Path;
use std::process::Command;

use pageyard_record::import::import;
use pageyard_trace::{Requests, Summary};

/// Allocates and frees some memory, in many processes.
const WORK: &str = "for i in 1 2 3 4 5 6 7 8; do head -c 8000000 /dev/zero | tail -c 1 > /dev/null; done; ls -lR /usr/share/doc > /dev/null";

/// Records with `perf`; `Err` says why that is not possible here.
fn perf_record(file: &Path, more: &[&str]) -> Result<(), String> {
    let out = Command::new("perf")
        .args(["record", "-q", "-a", "-m", "4M", "-e", "kmem:mm_page_alloc,kmem:mm_page_free"])
        .args(more)
        .arg("-o")
        .arg(file)
        .args(["--", "sh", "-c", WORK])
        .output()
        .map_err(|e| format!("perf cannot be run: {e}"))?;
    let complaint = String::from_utf8_lossy(&out.stderr);
    if file.exists() {
        Ok(())
    } else {
        Err(format!("perf does not record here: {}", complaint.lines().next().unwrap_or("")))
    }
}

/// The output of `perf kmem --page stat`: the six totals, and the table by order and migratetype.
#[derive(Debug)]
struct Kmem {
    totals: Vec<Requests>,
    table: Vec<Vec<u64>>,
}

/// Reads what `perf kmem` says; `None` where this `perf` was built without it.
fn kmem(file: &Path) -> Option<Kmem> {
    let mut perf = Command::new("perf");
    let out = perf.arg("kmem").args(["--page", "-f", "-i"]).arg(file).arg("stat").output().unwrap();
    // It prints to standard error, through a pager's place.
    let text = format!("{}{}", String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
    if text.contains("not a perf-command") {
        return None;
    }
    let mut kmem = Kmem { totals: Vec::new(), table: Vec::new() };
    for line in text.lines() {
        if let Some((_, numbers)) = line.split_once(':').filter(|(name, _)| name.starts_with("Total")) {
            let words: Vec<u64> =
                numbers.split(|c: char| !c.is_ascii_digit()).filter_map(|w| w.parse().ok()).collect();
            kmem.totals.push(Requests { count: words[0], bytes: words[1] * 1024 });
        } else if line.trim_start().starts_with(|c: char| c.is_ascii_digit()) {
            let cells = line.split_whitespace().skip(1).map(|w| if w == "." { Ok(0) } else { w.parse() });
            kmem.table.extend(cells.collect::<Result<Vec<u64>, _>>());
        }
    }
    assert!(kmem.totals.len() == 6 && !kmem.table.is_empty(), "{kmem:?} was read from {text}");
    Some(kmem)
}

fn compare(more: &[&str]) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("perf.data");
    if let Err(why) = perf_record(&file, more) {
        println!("skipped: {why}");
        return;
    }
    let Some(kmem) = kmem(&file) else {
        println!("skipped: this perf was built without `perf kmem`");
        return;
    };
    let (trace, imported) = import(&file, &folder.path().join("out.trace"), &mut |_, _| {}).unwrap();
    let summary = Summary::of(&trace, |_| {}).unwrap();
    // How much happens while perf records depends on the machine; an empty recording would compare as equal.
    assert!(summary.allocs.count > 200, "{imported:?}");
    assert_eq!((imported.late, imported.impossible), (0, 0));
    let ours = [
        summary.allocs,
        summary.frees,
        summary.allocated_and_freed(),
        summary.allocated_only(),
        summary.frees_without_allocation,
        summary.failed,
    ];
    assert_eq!(ours.to_vec(), kmem.totals);
    for (order, row) in kmem.table.iter().enumerate() {
        // perf has other names for the columns, and the same order of them.
        assert_eq!(&summary.granted[order][..row.len()], &row[..], "order {order}");
    }
    println!("{} events agree", summary.events());
    drop(fs::remove_file(file));
}

#[test]
fn the_summary_of_an_imported_file_is_that_of_perf_kmem() {
    compare(&[]);
}

#[test]
fn call_chains_and_other_events_are_passed_over() {
    compare(&["-g"]);
    compare(&["-e", "sched:sched_switch"]);
    compare(&["-e", "task-clock"]);
}

#[test]
fn compressed_files_are_read() {
    compare(&["-z"]);
}
