//! The real trace-cmd: what its report lists of its own file is what we count in the imported one.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use pageyard_record::import::import;
use pageyard_trace::{EventKind, Summary};

/// Allocates and frees some memory, in several processes.
const WORK: &str = "for i in 1 2 3; do head -c 6000000 /dev/zero | tail -c 1 > /dev/null; done";

const EVENTS: [&str; 5] = [
    "kmem/mm_page_alloc",
    "kmem/mm_page_free",
    "kmem/mm_page_pcpu_drain",
    "kmem/mm_page_alloc_extfrag",
    "kmem/mm_page_alloc_zone_locked",
];

/// A tracer of its own, which other users of the kernel's tracer do not see; removed when it is dropped.
struct Instance(PathBuf);

impl Instance {
    fn new() -> Result<Instance, String> {
        let name = format!("pageyard-test-{}", std::process::id());
        let path = Path::new("/sys/kernel/tracing/instances").join(name);
        fs::create_dir(&path).map_err(|e| format!("no tracer can be made: {e}"))?;
        let this = Instance(path);
        this.set("trace_clock", "mono")?;
        this.set("buffer_size_kb", "16000")?;
        for event in EVENTS {
            this.set(&format!("events/{event}/enable"), "1")?;
        }
        Ok(this)
    }

    fn set(&self, name: &str, value: &str) -> Result<(), String> {
        fs::write(self.0.join(name), value).map_err(|e| format!("{name} cannot be set: {e}"))
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        // trace-cmd may have removed it already.
        let _ = fs::remove_dir(&self.0);
    }
}

/// Records in `file`; `Err` says why that is not possible here.
fn record(file: &Path, more: &[&str]) -> Result<(), String> {
    let help = Command::new("trace-cmd").arg("--version").output();
    help.map_err(|e| format!("trace-cmd cannot be run: {e}"))?;
    let instance = Instance::new()?;
    Command::new("sh").args(["-c", WORK]).status().map_err(|e| e.to_string())?;
    instance.set("tracing_on", "0")?;
    let name = instance.0.file_name().unwrap_or_default();
    let out = Command::new("trace-cmd")
        .args(["extract", "-B"])
        .arg(name)
        .args(more)
        .arg("-o")
        .arg(file)
        .output()
        .map_err(|e| e.to_string())?;
    if file.exists() { Ok(()) } else { Err(String::from_utf8_lossy(&out.stderr).into_owned()) }
}

/// Counts the lines of trace-cmd's own report that name `event`.
fn reported(file: &Path, event: &str) -> u64 {
    let out = Command::new("trace-cmd").arg("report").arg("-i").arg(file).output().unwrap();
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    text.lines().filter(|line| line.contains(&format!(" {event}: "))).count() as u64
}

fn compare(file: &Path) {
    let folder = tempfile::tempdir().unwrap();
    let (trace, imported) = import(file, &folder.path().join("out.trace"), &mut |_, _| {}).unwrap();
    let [allocs, frees, extfrag, drains, locked] =
        [0, 1, 2, 3, 4].map(|kind| imported.by_kind[EventKind::ALL[kind].index()]);
    assert!(allocs > 1000 && frees > 1000, "{imported:?}");
    let named = [
        "mm_page_alloc",
        "mm_page_free",
        "mm_page_alloc_extfrag",
        "mm_page_pcpu_drain",
        "mm_page_alloc_zone_locked",
    ];
    assert_eq!([allocs, frees, extfrag, drains, locked], named.map(|event| reported(file, event)));
    assert_eq!((imported.late, imported.impossible), (0, 0));
    let summary = Summary::of(&trace, |_| {}).unwrap();
    assert_eq!((summary.allocs.count, summary.frees.count), (allocs, frees));
    assert!(trace.meta().kernel.starts_with("Linux ") && !trace.meta().gfp_bits.is_empty());
    println!("{} events agree", summary.events());
}

#[test]
fn the_rows_of_an_imported_file_are_those_of_trace_cmd_s_report() {
    let folder = tempfile::tempdir().unwrap();
    for (name, more) in [("packed.dat", &[][..]), ("plain.dat", &["--compression", "none"])] {
        let file = folder.path().join(name);
        if let Err(why) = record(&file, more) {
            println!("skipped: {why}");
            return;
        }
        compare(&file);
        let old = folder.path().join(format!("6-{name}"));
        let mut convert = Command::new("trace-cmd");
        convert.args(["convert", "--file-version", "6", "-i"]).arg(&file).arg("-o").arg(&old);
        match convert.output() {
            Ok(_) if old.exists() => compare(&old),
            _ => println!("skipped: this trace-cmd cannot convert to version 6"),
        }
    }
}
