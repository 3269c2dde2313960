//! `pageyard compare` as a user meets it.

use pageyard_documents::schemas::document;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn compare(arguments: &[&str]) -> Output {
    let trace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data/traces/guest-6.1-net.trace");
    let mut command = Command::new(env!("CARGO_BIN_EXE_pageyard"));
    command.arg("compare").arg(trace).args(arguments).output().unwrap()
}

#[test]
fn settings_stand_side_by_side_in_text_document_and_page() {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("compare");
    drop(fs::remove_dir_all(&folder));
    fs::create_dir_all(&folder).unwrap();
    let page = folder.join("compared.html");
    let engines = ["--engine", "linux-6.1,linux-6.1:pcp_policy=classic,linux-6.1", "--seeds", "3"];
    let out = compare(&[&engines[..], &["--json", "--report", page.to_str().unwrap()]].concat());
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let compared = document(&out.stdout);
    let rows = compared["rows"].as_array().unwrap();
    let row = |setting: usize, metric: &str| {
        rows.iter().filter(|r| r["metric"] == metric).nth(setting).unwrap_or_else(|| panic!("no {metric}"))
    };
    for r in rows {
        let number = |key: &str| r[key].as_f64().unwrap();
        assert!(number("low") <= number("value") && number("value") <= number("high"), "{r}");
        assert!(number("change_low") <= number("change") && number("change") <= number("change_high"), "{r}");
    }
    // The first setting differs from itself in nothing, and neither does the third but for how long calls take.
    for r in rows.chunks(3) {
        assert!(r[0]["change"] == 0.0 && r[0]["differs"] == false, "{}", r[0]);
        assert!(r[2]["metric"].as_str().unwrap().ends_with("_ns") || r[2]["change"] == 0.0, "{}", r[2]);
    }
    assert_eq!(row(1, "pcp_refill")["differs"], true, "a list of another size is filled more or less often");
    let text = String::from_utf8(compare(&engines).stdout).unwrap();
    assert!(text.contains("3 opening states") && text.contains("pcp_refill"), "{text}");
    let page = fs::read_to_string(page).unwrap();
    assert!(
        page.contains("<th scope=\"col\">linux-6.1:pcp_policy=classic</th>") && page.contains("pcp_refill")
    );
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
    // A chart has the numbers of its settings' rows, and what differs has a chart.
    let attribute = |text: &str, name: &str| {
        let start = text.find(&format!(" {name}=\"")).unwrap() + name.len() + 3;
        text[start..].split('"').next().unwrap().to_owned()
    };
    let drawn: Vec<[String; 5]> = (page.split("<g class=\"setting\"").skip(1))
        .map(|text| {
            ["data-setting", "data-metric", "data-value", "data-low", "data-high"]
                .map(|name| attribute(text, name))
        })
        .collect();
    assert!(!drawn.is_empty() && drawn.len().is_multiple_of(3));
    for (n, [setting, metric, numbers @ ..]) in drawn.iter().enumerate() {
        let row = row(n % 3, metric);
        assert_eq!(row["setting"], **setting);
        for (number, key) in numbers.iter().zip(["value", "low", "high"]) {
            // The test's reader of JSON may be off by the last bit.
            let (drawn, said) = (number.parse::<f64>().unwrap(), row[key].as_f64().unwrap());
            assert!(
                (drawn - said).abs() <= 1e-12 * said.abs(),
                "{key} of {metric}, {setting}: {drawn}, {said}"
            );
        }
    }
    for r in rows.iter().filter(|r| r["differs"] == true) {
        assert!(drawn.iter().any(|[_, metric, ..]| r["metric"] == **metric), "{r}");
    }
    assert!(!page.contains("<script"));
}

#[test]
fn two_recordings_stand_side_by_side() {
    let traces = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data/traces");
    let other = |name: &str| traces.join(name).to_str().unwrap().to_owned();
    let run = |arguments: &[&str]| {
        let out = compare(arguments);
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
        out.stdout
    };
    let same = other("guest-6.1-net.trace");
    let text = String::from_utf8(run(&[&same])).unwrap();
    assert!(text.contains("Nothing differs: no figure of 21"), "{text}");
    let files = other("guest-6.1-files.trace");
    let found = document(&run(&[&files, "--json"]));
    let figures = found["figures"].as_array().unwrap();
    let of = |name: &str| figures.iter().find(|f| f["figure"] == name).unwrap();
    let reclaimed = of("frames reclaimed in the background");
    assert!(
        reclaimed["differs"] == true && reclaimed["before"].as_f64() < reclaimed["after"].as_f64(),
        "{reclaimed}"
    );
    for figure in figures {
        let number = |key: &str| figure[key].as_f64().unwrap();
        assert!(number("change_low") <= number("change_high"), "{figure}");
        let leaves_out_0 = number("change_low") > 0.0 || number("change_high") < 0.0;
        assert!(leaves_out_0 || figure["differs"] == false, "{figure}");
    }
    // It is longer, and has no samples.
    let build = other("build.trace");
    let text = String::from_utf8(run(&[&build])).unwrap();
    for left_out in
        ["Not compared: pageblocks at the end: 3.3 s", "Not compared: free memory: build does not"]
    {
        assert!(text.contains(left_out), "{text}");
    }
    let out = compare(&[&same, "--seeds", "2"]);
    assert!(String::from_utf8_lossy(&out.stderr).contains("cannot be used with"), "a replay's options");
}

#[test]
fn what_cannot_be_compared_is_said_in_a_sentence() {
    for (arguments, says) in [
        (&["--engine", "linux-6.1"][..], "needs two settings"),
        (&["--engine", "linux-6.1,linux-6.8"], "did you mean"),
        (&["--engine", "linux-6.1,linux-6.18", "--report", "/no/such/folder/x.html"], "cannot be written"),
    ] {
        let out = compare(arguments);
        let text = String::from_utf8(out.stderr).unwrap();
        assert!(!out.status.success() && out.stdout.is_empty() && text.lines().count() == 1, "{text}");
        assert!(text.contains(says), "{text}");
    }
    assert!(!compare(&["--seeds", "0"]).status.success());
}

#[test]
fn two_recordings_stand_side_by_side_on_a_page() {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("compare-two");
    drop(fs::remove_dir_all(&folder));
    fs::create_dir_all(&folder).unwrap();
    let page = folder.join("compared.html");
    let after = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data/traces/guest-6.1-files.trace");
    let out = compare(&[after.to_str().unwrap(), "--json", "--report", page.to_str().unwrap()]);
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let compared = document(&out.stdout);
    let page = fs::read_to_string(page).unwrap();
    assert!(page.contains("guest-6.1-net and guest-6.1-files compared"));
    let figures = compared["figures"].as_array().unwrap();
    let differ: Vec<&str> =
        figures.iter().filter(|f| f["differs"] == true).map(|f| f["figure"].as_str().unwrap()).collect();
    assert!(!differ.is_empty());
    for name in differ {
        // A chart of both on one scale, with a point for each window.
        let chart = page.split("<figure").find(|chart| chart.contains(&format!(">{name}</h3>"))).unwrap();
        let lines: Vec<usize> = (chart.split(" points=\"").skip(1))
            .map(|points| points.split('"').next().unwrap().split(' ').count())
            .collect();
        assert_eq!(lines.len(), 2, "{name}");
        assert!(lines.iter().all(|points| (1..=20).contains(points)), "{lines:?}");
    }
}
