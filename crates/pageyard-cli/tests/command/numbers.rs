//! Every number that a text prints is in the JSON document of the same run.

use pageyard_documents::figures::{check, check_short};
use pageyard_record::HostSummary;
use pageyard_record::host::AskedFor;
use pageyard_record::import::import;
use pageyard_record::record::{MoveRows, RecordDocument, SamplingDocument};
use pageyard_replay::engine::{EngineSpec, KnobsDocument, all_knobs};
use pageyard_replay::replay::{ReplayOptions, SlowPath, replay};
use pageyard_replay::story::blame;
use pageyard_trace::{
    Context, Document, Event, EventKind, FAILED, FrameKind, Meta, Run, Snapshot, Summary, Trace, TraceWriter,
};
use serde_json::Value;
use std::path::{Path, PathBuf};

fn shipped(name: &str) -> Trace {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data/traces");
    Trace::open(&folder.join(format!("{name}.trace"))).unwrap()
}

/// The orders, which head the columns of tables.
fn orders() -> Vec<f64> {
    (0..=10).map(f64::from).collect()
}

#[test]
fn a_replay() {
    let engines = ["linux-6.18:pcp_policy=classic", "pageyard-exclusive"];
    let engines = EngineSpec::parse_all(&engines, &[]).unwrap();
    let slow_path = Some(SlowPath { reclaim: true, compaction: true, pinned: 0.135 });
    let smaller = ReplayOptions { memory: Some(763 << 20), ..ReplayOptions::default() };
    let helped = ReplayOptions { slow_path, ..smaller.clone() };
    for (options, refuses) in [(ReplayOptions::default(), false), (smaller, true), (helped, true)] {
        let report = replay(&shipped("build"), &engines, &options, &mut |_, _, _| ()).unwrap();
        let (text, document) = (report.to_string(), report.json());
        assert_eq!(text.contains("one by one"), refuses, "{text}");
        let derived: Vec<f64> = document["engines"].as_array().unwrap().iter().flat_map(times).collect();
        check(&text, &document, &["99 % ", "unusable[9]", "extfrag[9]"], &[orders(), derived].concat());
    }
}

/// The times of refused requests in seconds, as tables have them.
fn times(of: &Value) -> Vec<f64> {
    let first = of["failures"]["first"].as_array().unwrap();
    first.iter().map(|failure| failure["time_ns"].as_f64().unwrap() / 1e9).collect()
}

#[test]
fn a_summary() {
    for name in ["build", "net-order0"] {
        let summary = Summary::of(&shipped(name), |_| ()).unwrap();
        let wording = [
            "extfrag_index, where a request would fail: 0 for lack of memory, 1 because of fragmentation)",
            "Free huge frames (2 MiB)",
            "Pageblocks (2 MiB)",
        ];
        check(&summary.to_string(), &summary.json(), &wording, &orders());
    }
}

#[test]
fn a_summary_with_blame() {
    for name in ["build", "guest-6.12-huge"] {
        let report = blame(&shipped(name), &mut |_, _, _| ()).unwrap();
        let document = report.document().json();
        // How many rows the tables leave out.
        let kinds =
            document["by"].as_object().unwrap().values().map(|by| by.as_array().unwrap().len() as f64 - 12.0);
        check(&report.to_string(), &document, &["pageblocks (2 MiB)"], &kinds.collect::<Vec<_>>());
    }
}

#[test]
fn a_summary_of_failures() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("numbers-failures.trace");
    drop(std::fs::remove_dir_all(&folder));
    let mut writer = TraceWriter::create(&folder).unwrap();
    for n in 0..57 {
        let event = Event {
            time_ns: n * 1_234_567,
            pfn: FAILED,
            gfp: 0xcc0,
            tid: n as u32 % 13,
            cpu: 0,
            kind: EventKind::Alloc,
            order: 4,
            migratetype: 1,
            context: Context::Task,
            irqs_off: false,
        };
        writer.push(&event).unwrap();
    }
    let runs = vec![Run { pfn: 0, frames: 3001, kind: FrameKind::Free, thp: false, unevictable: false }];
    let meta = Meta { lost: 7, duration_ns: 98_765_432, ..Meta::new(1) };
    let trace = writer.finish(meta, Some(&Snapshot { runs }), None).unwrap();
    let summary = Summary::of(&trace, |_| ()).unwrap();
    let (text, document) = (summary.to_string(), summary.json());
    assert!(text.contains("37 left out") && text.contains("10.94 % of all"), "{text}");
    // The text has the ten most frequent kinds; the others are what is left of all failures.
    let told: u64 = document["failures"]["by_kind"].as_array().unwrap()[..10]
        .iter()
        .map(|k| k["count"].as_u64().unwrap())
        .sum();
    let derived = [orders(), times(&document), vec![20.0, 57.0 - told as f64]].concat();
    check(&text, &document, &["Pageblocks (2 MiB)"], &derived);
}

#[test]
fn a_summary_of_this_host() {
    let host = HostSummary::collect(AskedFor::Kernel).unwrap();
    let text = host.to_string();
    let wording: Vec<&str> = [
        "extfrag_index, where a request would fail: 0 for lack of memory, 1 because of fragmentation)",
        "Free huge frames (2 MiB)",
        "one huge frame (2 MiB)",
        "Pageblocks (2 MiB)",
        "Huge frames (2 MiB)",
    ]
    .into_iter()
    .filter(|words| text.contains(words))
    .collect();
    check(&text, &host.json(), &wording, &orders());
}

/// A host whose every part has numbers of its own, as files that stand in for `/proc`.
fn write_host(folder: &Path) {
    let file = |name: &str, text: String| std::fs::write(folder.join(name), text).unwrap();
    let zone = |name: &str, start: u64, managed: u64| {
        format!(
            "Node 0, zone {name}\n  pages free {}\n        boost 3\n        min 21\n        low 27\n        high 33\n\
             \x20       spanned 8192\n        present 8192\n        managed {managed}\n        protection: (0, 0)\n\
             \x20 pagesets\n    cpu: 0\n              count: 17\n  start_pfn: {start}\n",
            managed / 2
        )
    };
    file("zoneinfo", zone("DMA32", 0, 8000) + &zone("Normal", 8192, 7001));
    file(
        "buddyinfo",
        "Node 0, zone DMA32 41 20 10 5 4 3 2 1 1 1 2\nNode 0, zone Normal 501 204 108 51 49 31 25 15 12 0 0\n".to_owned(),
    );
    file(
        "vmstat",
        "compact_stall 31\ncompact_fail 22\ncompact_success 9\nallocstall_normal 71\nthp_fault_alloc 1234\n\
         balloon_inflate 300\nballoon_deflate 40\nnr_shmem 811\nnr_mlock 612\nnr_unevictable 613\n"
            .to_owned(),
    );
    file(
        "meminfo",
        "KernelStack: 640 kB\nVmallocUsed: 960 kB\nPercpu: 736 kB\nHugetlb: 4096 kB\n".to_owned(),
    );
    file(
        "pagetypeinfo",
        "Page block order: 9\nPages per block:  512\n\nNumber of blocks type     Unmovable      Movable\n\
         Node 0, zone DMA32 1 15\nNode 0, zone Normal 6 10\n"
            .to_owned(),
    );
    let caches = (1..=13).map(|n| {
        format!(
            "cache-{n} {} {} {} 8 2 : tunables 0 0 0 : slabdata {n} {} 0\n",
            90 + n,
            120 + n,
            8 * n,
            10 * n
        )
    });
    file("slabinfo", caches.collect());
    let areas = (1..=12).map(|n| format!("0x1-0x2 8192 caller_{n}+0x1/0x2 pages={} vmalloc\n", 7 * n));
    file("vmallocinfo", areas.collect());
    // Pageblocks of each kind: processes' memory of different sizes beside free memory, slab, nothing that has a flag.
    let [buddy, anon, slab] = [1u64 << 10, 1 << 12 | 1 << 5, 1 << 7];
    let mut words: Vec<u64> = Vec::new();
    for block in 0..32 {
        let used = if block % 8 == 7 { 0 } else { 13 * block };
        words.extend(vec![[anon, anon, slab, 0, anon][block % 5]; used]);
        words.extend(vec![buddy; 512 - used]);
    }
    std::fs::write(
        folder.join("kpageflags"),
        words.iter().flat_map(|w| w.to_le_bytes()).collect::<Vec<u8>>(),
    )
    .unwrap();
}

#[test]
fn a_host() {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("numbers-host");
    drop(std::fs::remove_dir_all(&folder));
    std::fs::create_dir_all(&folder).unwrap();
    write_host(&folder);
    for asked in AskedFor::ALL {
        let host = HostSummary::collect_from(&folder, asked).unwrap();
        assert!(host.not_read.is_empty(), "{host}");
        let text = host.to_string();
        for part in ["could become free", "cache-13", "caller_12", "others", "shared memory", "ballooned"] {
            assert!(text.contains(part), "{part} is not in\n{text}");
        }
        let wording = [
            "extfrag_index, where a request would fail: 0 for lack of memory, 1 because of fragmentation)",
            "Free huge frames (2 MiB)",
            "Pageblocks (2 MiB)",
            "Huge frames (2 MiB)",
        ];
        check(&text, &host.json(), &wording, &orders());
    }
}

#[test]
fn a_recording() {
    let document = RecordDocument {
        trace: "a.trace",
        events: 41_717,
        by_event: [("alloc", 20_732), ("free", 19_978), ("drain", 1_007)].into(),
        events_per_s: 149_955.0,
        lost: 317,
        lost_pct: 0.75,
        impossible: 3,
        late: 5,
        seconds: 0.2782,
        cpus: 2,
        buffer_bytes: 64 << 20,
        buffers: "perf",
        not_cheapest: Some("the kernel refuses an instance of its tracer"),
        recorder_cpu_seconds: 0.0997,
        recorder_cpu_pct: 17.9,
        missing_tracepoints: &["kmem:mm_page_alloc_extfrag".to_owned()],
        moves: Some(MoveRows { rows: 77, with_both_frames: 71 }),
        moves_by: Some("move_to_new_folio"),
        moves_not_watched: Some("the kernel does not allow it"),
        free_lists_blocks: None,
        free_lists_not_read: Some("/proc/kcore: No such file or directory"),
        percpu_lists_blocks: None,
        percpu_lists_not_read: None,
        samples: Some(SamplingDocument {
            taken: 1203,
            left_out: 2,
            every_ms: 250.0,
            cpu_seconds: 0.0412,
            cpu_pct: 0.0312,
        }),
        event_ns: Some(393.2),
        overhead: Some(0.2134),
        thread_names: Some(812),
        priority_raised: Some(false),
        partial: Some("the disk is full"),
        exit_status: Some(9),
    };
    let text = document.text();
    check_short(&text, &document.json(), &[], &[]);
    for part in [
        "a.trace: 41,717 events",
        "20,732 alloc, 19,978 free",
        "77 rows",
        "1,203 samples",
        "812 threads",
        "priority",
        "disk is full",
    ] {
        assert!(text.contains(part), "`{part}` is not in\n{text}");
    }
}

#[test]
fn an_import() {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("numbers-import");
    drop(std::fs::remove_dir_all(&folder));
    std::fs::create_dir_all(&folder).unwrap();
    let (file, output) = (folder.join("perf.data"), folder.join("a.trace"));
    std::fs::write(&file, &pageyard_record::hostile::seeds("perf_data")[0]).unwrap();
    let (trace, imported) = import(&file, &output, &mut |_, _| ()).unwrap();
    let document = imported.document("a.trace", trace.meta().duration_ns as f64 / 1e9);
    check_short(&document.text(), &document.json(), &[], &[]);
}

#[test]
fn the_knobs() {
    let knobs = all_knobs();
    let document = KnobsDocument::of(&knobs);
    check(&document.to_string(), &document.json(), &[], &[]);
}
