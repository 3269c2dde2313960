//! Files that nobody should trust: each ends in one sentence, soon, and in little memory.

mod support;

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use pageyard_trace::proctext::{Buddyinfo, Pagetypeinfo, Vmstat, Zoneinfo};
use pageyard_trace::{Columns, Prefetch, Summary, Trace, TraceError};
use support::{Random, copy_trace, read_all, small_trace};

/// Far more than a small file takes, far less than anybody waits.
const PATIENCE: Duration = Duration::from_secs(10);

/// Reads a damaged trace; whether that works or not, it must be quick, and the message one sentence about a file.
fn try_reading(path: &Path) -> Result<(), TraceError> {
    let start = Instant::now();
    let result = read_all(path).map(|_| ());
    assert!(start.elapsed() < PATIENCE, "{:?}", start.elapsed());
    if let Err(e) = &result {
        let message = e.to_string();
        assert!(message.lines().count() == 1 && message.len() < 600, "{message}");
        assert!(message.contains("damaged.trace"), "{message}");
    }
    result
}

/// The most memory that this process ever had, in MiB.
fn peak() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|l| l.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() / 1024
}

#[test]
fn bytes_changed_at_random() {
    let folder = tempfile::tempdir().unwrap();
    let (good, _) = small_trace(folder.path(), 1500);
    let bad = folder.path().join("damaged.trace");
    copy_trace(&good, &bad);
    let mut refused = 0;
    for seed in 0..4000 {
        let mut random = Random(seed);
        let name = ["events.parquet", "events.parquet", "before.parquet", "meta.json"][random.below(4)];
        let original = fs::read(good.join(name)).unwrap();
        let mut bytes = original.clone();
        // Half of the time near the end, where the footer is and every byte counts.
        let from = if seed % 2 == 0 { bytes.len().saturating_sub(1500) } else { 0 };
        for _ in 0..=random.below(4) {
            let at = from + random.below(bytes.len() - from);
            bytes[at] = match random.below(4) {
                0 => bytes[at] ^ (1 << random.below(8)),
                1 => 0xff,
                2 => 0,
                _ => random.next() as u8,
            };
        }
        fs::write(bad.join(name), bytes).unwrap();
        refused += u32::from(try_reading(&bad).is_err());
        fs::write(bad.join(name), original).unwrap();
    }
    // Many bytes are statistics, or numbers that may be others.
    assert!(refused > 1000, "only {refused} of 4000 were refused");
    assert!(read_all(&bad).is_ok(), "every file was put back");
    assert!(peak() < 1024, "{} MiB", peak());
}

#[test]
fn files_cut_short_anywhere() {
    let folder = tempfile::tempdir().unwrap();
    let (good, _) = small_trace(folder.path(), 300);
    let bad = folder.path().join("damaged.trace");
    copy_trace(&good, &bad);
    for name in ["events.parquet", "before.parquet", "after.parquet", "meta.json"] {
        let original = fs::read(good.join(name)).unwrap();
        for len in 0..original.len() {
            fs::write(bad.join(name), &original[..len]).unwrap();
            assert!(try_reading(&bad).is_err(), "{name} cut at {len} was accepted");
        }
        fs::write(bad.join(name), original).unwrap();
    }
}

#[test]
fn files_with_a_piece_missing_in_the_middle() {
    let folder = tempfile::tempdir().unwrap();
    let (good, _) = small_trace(folder.path(), 1500);
    let bad = folder.path().join("damaged.trace");
    copy_trace(&good, &bad);
    let original = fs::read(good.join("events.parquet")).unwrap();
    let mut random = Random(9);
    // Of the columns' bytes: after them comes an index that nobody here reads.
    let columns = original.len() * 2 / 3;
    for _ in 0..500 {
        let at = 4 + random.below(columns);
        let end = at + 1 + random.below(200);
        let mut bytes = original[..at].to_vec();
        bytes.extend_from_slice(&original[end..]);
        fs::write(bad.join("events.parquet"), bytes).unwrap();
        assert!(try_reading(&bad).is_err(), "a trace without bytes {at} to {end} was accepted");
    }
}

#[test]
fn random_bytes_are_no_trace() {
    let folder = tempfile::tempdir().unwrap();
    let (good, _) = small_trace(folder.path(), 10);
    let bad = folder.path().join("damaged.trace");
    copy_trace(&good, &bad);
    for seed in 0..500 {
        let mut random = Random(seed);
        let mut bytes: Vec<u8> = (0..random.below(3000)).map(|_| random.next() as u8).collect();
        if seed % 2 == 0 && bytes.len() > 12 {
            // With the marks of a Parquet file and a footer that fits.
            let n = bytes.len();
            bytes[..4].copy_from_slice(b"PAR1");
            bytes[n - 4..].copy_from_slice(b"PAR1");
            let footer = random.below(n - 11) as u32;
            bytes[n - 8..n - 4].copy_from_slice(&footer.to_le_bytes());
        }
        fs::write(bad.join("events.parquet"), bytes).unwrap();
        assert!(try_reading(&bad).is_err());
    }
}

#[test]
fn an_error_comes_again_and_also_from_ahead() {
    let folder = tempfile::tempdir().unwrap();
    let (good, _) = small_trace(folder.path(), 100);
    let bad = folder.path().join("damaged.trace");
    copy_trace(&good, &bad);
    let meta = fs::read_to_string(good.join("meta.json")).unwrap();
    fs::write(bad.join("meta.json"), meta.replace("\"events\": 100", "\"events\": 99")).unwrap();
    let trace = Trace::open(&bad).unwrap();
    let mut reader = trace.events(Columns::All).unwrap();
    let mut ahead = Prefetch::new(trace.events(Columns::All).unwrap()).unwrap();
    let mut batch = Vec::new();
    assert!(reader.next_batch(&mut batch).unwrap() && ahead.next_batch(&mut batch).unwrap());
    let error = reader.next_batch(&mut batch).unwrap_err();
    assert!(
        error.to_string().ends_with("damaged.trace/events.parquet: it has 100 rows, and meta.json says 99")
    );
    assert!(batch.is_empty());
    assert_eq!(reader.next_batch(&mut batch).unwrap_err(), error);
    assert_eq!(ahead.next_batch(&mut batch).unwrap_err(), error);
    assert_eq!(ahead.next_batch(&mut batch).unwrap_err(), error);
    // A trace that does not say how many events it has is read to its end.
    fs::write(bad.join("meta.json"), meta.replace("\"events\": 100,", "")).unwrap();
    assert_eq!(read_all(&bad).unwrap().len(), 100);
}

#[test]
fn what_is_not_a_trace_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let message = |path: &Path| Trace::open(path).unwrap_err().to_string();
    let missing = folder.path().join("missing.trace");
    assert!(message(&missing).ends_with("missing.trace is not a trace: there is no such folder"));
    let file = folder.path().join("file.trace");
    fs::write(&file, "x").unwrap();
    assert!(message(&file).contains("it is a file, and a trace is a folder"));
    let (good, _) = small_trace(folder.path(), 10);
    let bad = folder.path().join("damaged.trace");
    copy_trace(&good, &bad);
    fs::remove_file(bad.join("meta.json")).unwrap();
    assert!(message(&bad).ends_with("is not a trace: meta.json is missing"));
    fs::create_dir(bad.join("meta.json")).unwrap();
    assert!(message(&bad).ends_with("meta.json cannot be read: it is not a regular file"));
    fs::remove_file(bad.join("events.parquet")).unwrap();
    fs::remove_dir(bad.join("meta.json")).unwrap();
    assert!(message(&bad).ends_with("it holds neither events.parquet nor meta.json"));
}

#[test]
fn a_damaged_text_in_the_description_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let (good, _) = small_trace(folder.path(), 10);
    let meta = fs::read_to_string(good.join("meta.json")).unwrap();
    fs::write(good.join("meta.json"), meta.replace("Normal 1 2 3", "Normal 1 x 3")).unwrap();
    let error = Summary::of(&Trace::open(&good).unwrap(), |_| ()).unwrap_err().to_string();
    assert!(
        error.contains("meta.json: among the texts from before the recording, buddyinfo, line 1: `x`"),
        "{error}"
    );
}

#[test]
fn texts_changed_at_random_never_stop_the_parsers() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data/traces/build.trace");
    let trace = Trace::open(&path).unwrap();
    let texts = trace.meta().before.clone().unwrap();
    let texts = [texts.buddyinfo, texts.pagetypeinfo, texts.zoneinfo, texts.vmstat];
    let pieces = [
        "",
        "\n",
        " ",
        "0",
        "99999999999999999999",
        "-1",
        ">",
        "(",
        ")",
        "Node",
        "Node 0, zone",
        "é",
        "cpu:",
        "\0",
    ];
    let (mut read, mut refused) = (0, 0);
    for seed in 0..3000 {
        let mut random = Random(seed);
        let mut text: Vec<char> = texts[random.below(4)].chars().collect();
        for _ in 0..=random.below(5) {
            let at = random.below(text.len());
            let end = (at + random.below(30)).min(text.len());
            text.splice(at..end, pieces[random.below(pieces.len())].chars());
        }
        let text: String = text.into_iter().collect();
        let results = [
            Buddyinfo::parse(&text).map(|i| i.free_frames()),
            Pagetypeinfo::parse(&text).map(|i| i.zones.len() as u64),
            Zoneinfo::parse(&text).map(|i| i.zones.iter().map(|z| z.pcp_frames()).sum()),
            Vmstat::parse(&text).map(|i| i.counters.len() as u64),
        ];
        for result in results {
            match result {
                Ok(_) => read += 1,
                Err(e) => {
                    refused += 1;
                    assert!(e.to_string().lines().count() == 1 && e.to_string().len() < 400, "{e}");
                }
            }
        }
    }
    assert!(read > 100 && refused > 1000, "{read} read, {refused} refused");
}
