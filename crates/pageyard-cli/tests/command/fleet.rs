//! `pageyard fleet` and the rows that it reads, as a user meets them.

use crate::PAGEYARD;
use pageyard_documents::schemas::document;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn pageyard(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_pageyard")).args(arguments).output().unwrap()
}

fn said(out: &Output) -> String {
    String::from_utf8_lossy(&out.stderr).into_owned()
}

fn trace(name: &str) -> String {
    format!("{}/../../data/traces/{name}.trace", env!("CARGO_MANIFEST_DIR"))
}

fn folder(name: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    drop(fs::remove_dir_all(&folder));
    folder
}

fn write(fleet: &Path, host: &str, name: &str) -> Output {
    let (trace, fleet) = (trace(name), fleet.to_str().unwrap());
    pageyard(&["summary", &trace, "--rows", fleet, "--as", host, "--began", "1795824000", "--window", "2"])
}

#[test]
fn rows_of_recordings_become_a_fleet() {
    let fleet = folder("fleet");
    for (host, name) in [("web-1", "build"), ("web-2", "guest-6.12-huge")] {
        let out = write(&fleet, host, name);
        assert!(out.status.success() && said(&out).contains("date=2026-11-28"), "{}", said(&out));
    }
    fs::write(fleet.join("date=2026-11-28/host=web-2/other.parquet"), "nothing").unwrap();
    let of = PAGEYARD.json(&["fleet", fleet.to_str().unwrap(), "--by", "kernel", "--json"]);
    assert_eq!((of["hosts"].as_u64(), of["cohorts"].as_array().map(Vec::len)), (Some(2), Some(2)));
    let failed = &of["figures"][0];
    assert_eq!(
        (&failed["figure"], &failed["worst"][0]["host"]),
        (&"requests that failed".into(), &"web-2".into())
    );
    // As many as the summary counts, an hour.
    let summary = PAGEYARD.json(&["summary", &trace("guest-6.12-huge"), "--json"]);
    let hourly =
        3600.0 * summary["failed"].as_f64().unwrap() / (summary["duration_ns"].as_f64().unwrap() / 1e9);
    let value = failed["worst"][0]["value"].as_f64().unwrap();
    assert!((value / hourly - 1.0).abs() < 1e-3, "{value} an hour, not {hourly}");
    assert_eq!(of["left_out"][0]["count"], 1, "{}", of["left_out"]);
    let days = ["fleet", fleet.to_str().unwrap(), "--since", "2026-11-29", "--json"];
    assert_eq!(document(&pageyard(&days).stdout)["hosts"], 0);
}

#[test]
fn what_cannot_be_a_row_is_refused_in_a_sentence() {
    let fleet = folder("fleet-refused");
    let (trace, to) = (trace("build"), fleet.to_str().unwrap());
    let rows = ["summary", &trace, "--rows", to];
    for (more, why) in [
        (&["--as", "web-1"][..], "does not say when it began: say so with --began"),
        (&["--as", "a/b", "--began", "1"], "cannot name a host"),
        (&["--as", "web-1", "--began", "1", "--window", "0.5"], "a window has a second or more"),
        (&[], "--as <HOST>"),
    ] {
        let out = pageyard(&[&rows[..], more].concat());
        assert!(!out.status.success() && said(&out).contains(why), "{}", said(&out));
    }
    let cohorts = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("cohorts.csv");
    fs::write(&cohorts, "web-1\n").unwrap();
    fs::create_dir_all(&fleet).unwrap();
    for (more, why) in [
        (&["--since", "yesterday"][..], "a day is written as in 2026-11-28"),
        (&["--by", "nowhere.csv"], "nowhere.csv cannot be read"),
        (&["--by", cohorts.to_str().unwrap()], "line 1 is `web-1`"),
    ] {
        let out = pageyard(&[&["fleet", to][..], more].concat());
        assert!(!out.status.success() && said(&out).contains(why), "{}", said(&out));
    }
    assert!(!pageyard(&["fleet", "no-such-folder"]).status.success());
    let none = pageyard(&["fleet", to]);
    assert!(String::from_utf8_lossy(&none.stdout).contains("There are no rows of any host."));
}
