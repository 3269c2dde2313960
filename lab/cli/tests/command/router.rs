//! `pageyard-lab router` as a user meets it.

use crate::LAB;
use std::fs;
use std::path::{Path, PathBuf};

#[test]
fn a_router_prints_its_figures_and_the_same_ones_for_a_seed() {
    let small = ["router", "--quick", "--set", "cpus=2", "--set", "offered-gbit=5", "--json"];
    let run = |seed: &str| LAB.json(&[&small[..], &["--seed", seed]].concat());
    let v = run("7");
    assert_eq!(
        (&v["settings"]["cpus"], &v["settings"]["seed"], &v["quick"]),
        (&"2".into(), &"7".into(), &true.into())
    );
    assert!(v["changed"].as_array().unwrap().contains(&"offered-gbit".into()), "{v}");
    let figures = &v["figures"];
    for key in [
        "in_pps",
        "out_gbit",
        "interrupts_per_s",
        "packets_per_doorbell",
        "cpu_pct_mean",
        "in_flight_max_bytes",
        "held_max_x_llc",
        "recycled_pct",
        "memory_pct",
        "zone_lock_wait_pct",
    ] {
        assert!(figures[key].is_number(), "{key} {v}");
    }
    for place in ["card", "rx_ring", "no_frame", "vlan", "qdisc", "tx_ring"] {
        assert!(figures["drops_per_s"][place].is_number(), "{place} {v}");
    }
    assert_eq!(figures["cpu_pct"].as_array().unwrap().len(), 2);
    assert_eq!(figures, &run("7")["figures"]);
    assert_ne!(figures, &run("8")["figures"]);
}

#[test]
fn a_router_searches_its_highest_rate_without_loss() {
    let host = [
        "router",
        "--quick",
        "--throughput",
        "--set",
        "cpus=1",
        "--set",
        "ports=1",
        "--set",
        "pcie-slots=1",
        "--set",
        "wire-gbit=10",
        "--set",
        "stack-ns=4000",
        "--set",
        "arrivals=paced",
    ];
    let v = LAB.json(&[&host[..], &["--json"]].concat());
    let found = &v["throughput"];
    let limit = found["lossless_gbit"].as_f64().unwrap();
    // 4.5 us a packet of 700 bytes, and 1 % for other work.
    assert!((1.0..1.3).contains(&limit), "{found}");
    assert!(
        found["after_surge_gbit"].as_f64().unwrap() <= limit * 1.1
            && found["around"].as_array().unwrap().len() == 5
    );
    let text = String::from_utf8(LAB.stdout(&host)).unwrap();
    for part in ["Highest rate without loss", "from an idle host", "after a surge", "110 %"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let why = LAB.failure(&["router", "--throughput", "--sweep"]);
    assert!(why.contains("--sweep"), "{why}");
}

#[test]
fn a_router_takes_a_file_and_writes_a_table_and_a_picture() {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("router");
    drop(fs::remove_dir_all(&folder));
    fs::create_dir_all(&folder).unwrap();
    let (config, out, page) = (folder.join("lab.conf"), folder.join("series"), folder.join("rings.html"));
    fs::write(
        &config,
        "cpus = 2\noffered-gbit = 5 # each way\nrun-us = 300\nwarm-up-us = 100\nrx-ring = 128\n",
    )
    .unwrap();
    let path = |path: &Path| path.to_str().unwrap().to_owned();
    let (config, out, page) = (path(&config), path(&out), path(&page));
    let v = LAB.json(&[
        "router", "--quick", "--sweep", "--config", &config, "--set", "cpus=1", "--out", &out, "--plot",
        &page, "--json",
    ]);
    assert_eq!(
        (&v["settings"]["rx-ring"], &v["settings"]["cpus"]),
        (&"128".into(), &"1".into()),
        "--set comes last"
    );
    let sweep = &v["sweep"];
    assert_eq!(sweep["rows"].as_array().unwrap().len(), 24);
    assert_eq!(sweep["rule"].as_array().unwrap().len(), 3);
    assert!(!sweep["smallest"].as_array().unwrap().is_empty() && v.get("figures").is_none(), "{sweep}");
    assert_eq!(&fs::read(Path::new(&out).join("router.parquet")).unwrap()[..4], b"PAR1");
    assert!(fs::read_to_string(&page).unwrap().contains("<svg"));
    assert!(LAB.failure(&["router", "--out", &out]).contains("already exists"));
}

#[test]
fn what_a_router_cannot_be_is_refused_by_name_with_what_is_allowed() {
    for (set, parts) in [
        ("rx-rings=64", &["no parameter `rx-rings`", "did you mean `rx-ring`?"][..]),
        ("rx-ring=0", &["`rx-ring` takes a power of two from 64 to 8192, not `0`"]),
        ("rx-ring=3000", &["cards round up, so for 3000 set 4096"]),
        ("tx-ring=100", &["`tx-ring` takes a power of two"]),
        ("mix=", &["`mix` is empty"]),
        ("mix=64:0", &["`mix` is empty"]),
        ("offered-gbit=0", &["`offered-gbit` takes a number above 0"]),
        ("wire-gbit=0", &["`wire-gbit` takes a number above 0"]),
        ("stall-us=60000", &["`stall-us` is no less than `stall-every-us`"]),
        ("frames=100", &["`frames` is too small"]),
        ("rx-ring", &["KNOB=VALUE"]),
    ] {
        let why = LAB.failure(&["router", "--quick", "--set", set]);
        assert!(parts.iter().all(|part| why.contains(part)), "{set}: {why}");
    }
    assert!(LAB.failure(&["router", "--config", "/nowhere/at/all"]).contains("/nowhere/at/all"));
    assert!(LAB.failure(&["router", "--plot", "rings.html"]).contains("--sweep"));
    assert!(LAB.failure(&["router", "--sweep", "--plot", "rings.txt"]).contains(".html"));
}
