//! The summaries of the shipped traces, compared with files that a person has checked.
//!
//! After a deliberate change: `PAGEYARD_BLESS=1 cargo test -p pageyard-trace --test trace golden::`, then read the
//! difference.

use std::fs;
use std::path::Path;

use pageyard_trace::{Summary, Trace};

fn check(name: &str) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let trace = Trace::open(&root.join("../../data/traces").join(format!("{name}.trace"))).unwrap();
    let summary = Summary::of(&trace, |_| ()).unwrap();
    let json = format!("{:#}\n", summary.json());
    assert!(!json.contains("null") && !json.contains("NaN"));
    for (kind, found) in [("txt", summary.to_string()), ("json", json)] {
        let path = root.join("tests/trace/golden").join(format!("{name}.{kind}"));
        if std::env::var_os("PAGEYARD_BLESS").is_some() {
            fs::write(&path, found).unwrap();
            continue;
        }
        let expected = fs::read_to_string(&path).unwrap();
        let differs = expected.lines().zip(found.lines()).find(|(e, f)| e != f);
        assert!(
            expected == found,
            "{} differs, first where expected and found are {differs:?}",
            path.display()
        );
    }
}

#[test]
fn build() {
    check("build");
}

#[test]
fn net_order0() {
    check("net-order0");
}
