//! `pageyard-lab judge` as a user meets it.

use crate::LAB;
use std::path::{Path, PathBuf};

/// The smallest of the recorded rulings.
fn ruling() -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data/judge");
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let rulings = files.filter(|file| file.extension().is_some_and(|end| end == "ruling"));
    rulings.min_by_key(|file| file.metadata().unwrap().len()).unwrap()
}

#[test]
fn a_recorded_ruling_is_compared_and_printed_as_text_or_json() {
    let file = ruling();
    let file = file.to_str().unwrap();
    let text = String::from_utf8(LAB.stdout(&["judge", "check", file])).unwrap();
    assert!(text.contains("left out: "), "{text}");
    let json: serde_json::Value =
        serde_json::from_slice(&LAB.stdout(&["judge", "check", file, "--json"])).unwrap();
    assert_eq!(json["equal"], true, "{json}");
}

#[test]
fn what_cannot_be_judged_is_said_in_a_sentence() {
    let why = LAB.failure(&["judge", "check", "/nowhere/at-all.ruling"]);
    assert!(why.contains("/nowhere/at-all.ruling"), "{why}");
    let guest = ["judge", "guest", "--kernel", "/", "--initrd", "/", "--folder", "/nowhere"];
    let why = LAB.failure(&[&guest[..], &["--preset", "linux-2.4"]].concat());
    assert!(why.contains("there is no preset `linux-2.4`") && why.contains("linux-6.18"), "{why}");
}
