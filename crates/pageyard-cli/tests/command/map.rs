//! `pageyard map` and `pageyard summary --blame` as a user meets them.

use crate::PAGEYARD;
use crate::series::{empty, names, sentence};
use pageyard_documents::schemas::document;
use std::fs;
use std::path::Path;
use std::process::Command;

fn shipped(name: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join(format!("../../data/traces/{name}.trace"))
        .display()
        .to_string()
}

#[test]
fn a_map_is_one_file_with_the_figures_of_its_document() {
    let folder = empty("map");
    let path = folder.join("map.html").display().to_string();
    let trace = shipped("guest-6.12-atomic");
    let out = PAGEYARD.run(&["map", &trace, "-o", &path, "--json"]);
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let map = document(&out.stdout);
    let page = fs::read_to_string(&path).unwrap();
    assert_eq!(map["bytes"].as_u64().unwrap(), page.len() as u64);
    assert!(!page.contains("<!--pageyard:story-->") && page.contains("id=\"pageyard-story\""));
    let lines = map["lines"].as_array().unwrap();
    let ids: Vec<&str> = lines.iter().map(|line| line["line"].as_str().unwrap()).collect();
    assert_eq!(ids, ["recorded", "linux-6.12"], "the reference nearest to the recorded kernel");
    for line in lines {
        for figures in ["free_frames", "huge_free", "lost"] {
            assert_eq!(line[figures].as_array().unwrap().len() as u64, map["moments"].as_u64().unwrap());
        }
    }
    // A file that is there is replaced; the text has the document's numbers.
    let out = PAGEYARD.run(&["map", &trace, "-o", &path, "--engine", "none"]);
    let text = String::from_utf8(out.stdout).unwrap();
    assert!(
        out.status.success() && text.contains("map.html") && text.contains("recorded. Open it"),
        "{text}"
    );
    assert!(fs::read_to_string(&path).unwrap().len() < page.len());
    assert_eq!(names(&folder), ["map.html"]);
}

#[test]
fn two_recordings_are_two_lines_of_one_map() {
    let folder = empty("map-beside");
    let path = folder.join("both.html").display().to_string();
    let (before, after) = (shipped("guest-6.1-net"), shipped("guest-6.1-files"));
    let map = PAGEYARD.json(&["map", &before, "--beside", &after, "-o", &path, "--json"]);
    let ids: Vec<&str> =
        map["lines"].as_array().unwrap().iter().map(|l| l["line"].as_str().unwrap()).collect();
    assert_eq!(ids, ["guest-6.1-net", "guest-6.1-files"]);
    assert_eq!(map["name"], "guest-6.1-net beside guest-6.1-files");
    let refused = PAGEYARD.run(&["map", &before, "--beside", &after, "--engine", "linux-6.1", "-o", &path]);
    assert!(String::from_utf8_lossy(&refused.stderr).contains("cannot be used with"));
}

#[test]
fn what_cannot_be_is_said_in_a_sentence_and_nothing_half_written_stays() {
    let folder = empty("map-refused");
    let path = |name: &str| folder.join(name).display().to_string();
    let damaged = folder.join("damaged.trace");
    fs::create_dir(&damaged).unwrap();
    for file in names(Path::new(&shipped("guest-6.1-net"))) {
        let mut bytes = fs::read(Path::new(&shipped("guest-6.1-net")).join(&file)).unwrap();
        if file == "events.parquet" {
            let middle = bytes.len() / 2;
            bytes[middle..middle + 2000].fill(0x5a);
        }
        fs::write(damaged.join(file), bytes).unwrap();
    }
    let net = shipped("guest-6.1-net");
    for (arguments, says) in [
        (&[&net, "-o", &path("no/such/map.html")][..], "cannot be written: No such file or directory"),
        (&[&net, "-o", &path("")], "it is a folder"),
        (&[&net, "-o", "/dev/null"], "it is no file"),
        (&[&net, "-o", &path("a.html"), "--engine", "linux-6.8"], "did you mean `linux-6.1"),
        (&[&net, "-o", &path("b.html"), "--engine", "kernel:6.12"], "kernel"),
        (&[&net, "-o", &path("c.html"), "--set", "no_such_knob=1"], "no_such_knob"),
        (&["/no/such.trace", "-o", &path("d.html")], "there is no such folder"),
        (&[&path("damaged.trace"), "-o", &path("e.html")], "events.parquet"),
    ] {
        let text = sentence(&PAGEYARD.run(&[&["map"], arguments].concat()));
        assert!(text.contains(says), "{says}: {text}");
    }
    assert_eq!(names(&folder), ["damaged.trace"]);
    assert!(!PAGEYARD.run(&["map", &net]).status.success(), "it needs -o");
}

#[test]
fn a_full_disk_is_said_and_the_old_page_stays() {
    let disk = empty("map-full");
    let mount = ["-t", "tmpfs", "-o", "size=64k", "tmpfs", disk.to_str().unwrap()];
    if !Command::new("mount").args(mount).output().is_ok_and(|out| out.status.success()) {
        println!("skipped: a small disk cannot be made here");
        return;
    }
    let page = disk.join("map.html");
    fs::write(&page, "old").unwrap();
    let out = PAGEYARD.run(&["map", &shipped("guest-6.1-net"), "-o", page.to_str().unwrap()]);
    let (left, old) = (names(&disk), fs::read_to_string(&page));
    assert!(Command::new("umount").arg(&disk).status().unwrap().success());
    let text = sentence(&out);
    assert!(text.contains("No space left on device") && text.contains("map.html"), "{text}");
    assert_eq!((left, old.unwrap()), (vec!["map.html".to_owned()], "old".to_owned()));
}

#[test]
fn blame_accounts_for_every_lost_pageblock() {
    for name in ["guest-6.12-huge", "guest-6.1-files", "build"] {
        let out = PAGEYARD.run(&["summary", &shipped(name), "--blame", "--json"]);
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
        let blame = document(&out.stdout);
        let lost = blame["lost"].as_array().unwrap();
        assert_eq!(lost.len() as u64, blame["lost_pageblocks"].as_u64().unwrap());
        assert!(!lost.is_empty());
        for pageblock in lost {
            let holders = pageblock["holders"].as_array().unwrap();
            assert!(
                !holders.is_empty() && holders.iter().all(|h| h["frames"].as_u64().unwrap() > 0),
                "{pageblock}"
            );
            let before = pageblock["reason"] == "before_the_recording";
            assert_eq!(before, pageblock.get("since_ns").is_none(), "{pageblock}");
        }
        let by_reason = blame["by"]["reason"].as_array().unwrap();
        let reasons: u64 = by_reason.iter().map(|s| s["pageblocks"].as_u64().unwrap()).sum();
        assert_eq!(reasons, lost.len() as u64, "{name}");
        let text = String::from_utf8(PAGEYARD.run(&["summary", &shipped(name), "--blame"]).stdout).unwrap();
        assert!(text.contains("are lost to huge frames") && text.contains("How they were lost"), "{text}");
    }
    assert!(!PAGEYARD.run(&["summary", "--host", "--blame"]).status.success());
    // Of several traces there is no blame, and it is not left out in silence.
    let folder = shipped("build").replace("/build.trace", "");
    let several = format!("is a folder of {}", names(Path::new(&folder)).len());
    let text = sentence(&PAGEYARD.run(&["summary", &folder, "--blame"]));
    assert!(text.contains("`--blame` takes one trace") && text.contains(&several), "{text}");
}
