//! Which requests a replay says were refused, here and on the host.

use crate::made::{KERNEL, alloc, run, trace, try_replay};
use pageyard_replay::engine::EngineSpec;
use pageyard_replay::replay::{RefusalCounts, ReplayOptions, ReplayReport, SlowPath, faults, replay};
use pageyard_trace::{Document, Event, FAILED, FailureReason, FrameKind, Trace};
use std::path::Path;

/// 2 MiB are free, half of them above the watermark. On CPU 0 a thread takes all of them, frame by frame; on CPU 1 the
/// host refuses two requests, the second of which no engine can serve.
fn short_of_memory(name: &str) -> Trace {
    let before = Some(vec![run(0, 512, FrameKind::Free), run(512, 15 * 1024, FrameKind::Slab)]);
    let refused =
        |order, tid| Event { pfn: FAILED, order, tid, cpu: 1, gfp: KERNEL, migratetype: 0, ..alloc(0, 0) };
    let events: Vec<Event> =
        [refused(1, 8), refused(10, 9)].into_iter().chain((0..512).map(|i| alloc(i, 0))).collect();
    trace(name, &events, before, None)
}

/// The counts of each kind: order, gfp and thread.
fn kinds(report: &ReplayReport) -> Vec<Vec<(u8, u32, u32, RefusalCounts)>> {
    let of = |e: &pageyard_replay::replay::EngineReport| {
        e.refusals.kinds.iter().map(|(kind, counts)| (kind.order, kind.gfp, kind.tid, *counts)).collect()
    };
    report.engines.iter().map(of).collect()
}

#[test]
fn requests_are_told_apart_by_who_refused_them() {
    let report = try_replay(&short_of_memory("refusals-told-apart"), &ReplayOptions::default()).unwrap();
    for (e, kinds) in report.engines.iter().zip(kinds(&report)) {
        let f = &e.failures;
        let on_host = |order, tid, here, host| {
            let counts = RefusalCounts {
                count: here,
                refused_on_host_too: here,
                refused_on_host_only: host,
                ..RefusalCounts::default()
            };
            (order, KERNEL, tid, counts)
        };
        assert_eq!(kinds.len(), 3, "{}", e.name);
        let RefusalCounts { count, refused_here_only, .. } = kinds[0].3;
        assert!(count == refused_here_only && (100..512).contains(&count), "{}: {count}", e.name);
        assert_eq!(kinds[1], on_host(1, 8, 0, 1), "{}", e.name);
        assert_eq!(kinds[2], on_host(10, 9, 1, 0), "{}", e.name);
        assert_eq!(
            (f.allocs, f.refused_where_host_served, f.served_where_host_failed),
            (count + 1, count, 1)
        );
    }
}

#[test]
fn the_first_refusals_say_what_was_free_and_why() {
    let report = try_replay(&short_of_memory("refusals-first"), &ReplayOptions::default()).unwrap();
    let json = report.json();
    for (e, value) in report.engines.iter().zip(json["engines"].as_array().unwrap()) {
        let [first, second, ..] = &e.refusals.first[..] else { panic!("{e}") };
        assert!(first.on_host_too && !second.on_host_too);
        assert_eq!((first.request.kind.order, first.request.kind.tid, first.request.cpu), (10, 9, 1));
        assert_eq!(first.request.time_ns, 2000);
        let free = first.request.free_frames().unwrap();
        assert!((256..=512).contains(&free), "{}: {free}, a batch may be in a list", e.name);
        assert_eq!(first.request.reason, Some(FailureReason::OutOfMemory), "{}", e.name);
        assert_eq!(first.request.suitable_blocks(), Some(0));
        assert!(second.request.free_frames().unwrap() < free, "{}", e.name);
        let failures = &value["failures"];
        assert_eq!(failures["count"], value["failed_allocs"]);
        let counts = |key: &str| failures[key].as_u64().unwrap();
        assert_eq!(counts("count"), counts("refused_here_only") + counts("refused_on_host_too"));
        assert_eq!((counts("refused_on_host_only"), counts("kinds"), counts("kinds_left_out")), (1, 3, 0));
        assert_eq!(counts("left_out"), counts("count") - 20);
        let row = &failures["first"][0];
        assert_eq!((&row["refused_on_host"], &row["reason"]), (&true.into(), &"out_of_memory".into()));
        assert_eq!(
            (&row["gfp"], &row["thread"], &row["migratetype"]),
            (&"GFP_KERNEL".into(), &9.into(), &"Unmovable".into())
        );
        assert_eq!(failures["by_kind"][0]["order"], 0, "the most frequent first");
    }
    let text = report.to_string();
    assert!(text.contains("by kind: how often refused here alone") && text.contains("GFP_KERNEL"), "{text}");
    assert!(text.contains("the first 10, one by one"), "{text}");
}

#[test]
fn threads_and_a_slow_path_refuse_the_same_requests() {
    let trace = short_of_memory("refusals-threads");
    let plain = kinds(&try_replay(&trace, &ReplayOptions::default()).unwrap());
    let on_threads =
        try_replay(&trace, &ReplayOptions { threads: true, ..ReplayOptions::default() }).unwrap();
    for (threads, plain) in kinds(&on_threads).iter().zip(&plain) {
        let names = |kinds: &[(u8, u32, u32, RefusalCounts)]| -> Vec<_> {
            kinds.iter().map(|(order, gfp, tid, _)| (*order, *gfp, *tid)).collect()
        };
        assert_eq!(names(threads), names(plain), "flags and thread are those of the row");
        assert_eq!(threads[2], plain[2]);
        // Whether memory is short by then depends on how the threads run.
        let RefusalCounts { refused_on_host_too, refused_on_host_only, .. } = threads[1].3;
        assert_eq!(refused_on_host_too + refused_on_host_only, 1);
    }
    let engines = EngineSpec::parse_all(&["linux-6.18", "pageyard-exclusive"], &[]).unwrap();
    let options = ReplayOptions { slow_path: Some(SlowPath::default()), ..ReplayOptions::default() };
    let report = replay(&trace, &engines, &options, &mut |_, _, _| ()).unwrap();
    for (e, kinds) in report.engines.iter().zip(kinds(&report)) {
        assert_eq!((kinds[1].2, kinds[1].3.refused_on_host_only), (8, 1), "{e}");
        assert_eq!((kinds[2].2, kinds[2].3.refused_on_host_too), (9, 1), "{e}");
        let here: u64 = kinds.iter().map(|k| k.3.count).sum();
        assert_eq!(here, e.failures.allocs, "{e}");
    }
}

#[test]
fn requests_fail_on_purpose_on_every_engine_alike_and_nowhere_else() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data/traces/net-order0.trace");
    let trace = Trace::open(&path).unwrap();
    let names = ["linux-6.18", "pageyard-exclusive"];
    let engines = EngineSpec::parse_all(&names, &[]).unwrap();
    let run = |options: &ReplayOptions| replay(&trace, &engines, options, &mut |_, _, _| ());
    let faults = Some(faults("1,10,0,-1", 0).unwrap());
    let options = ReplayOptions { faults, ..ReplayOptions::default() };
    let report = run(&options).unwrap();
    let plain = run(&ReplayOptions::default()).unwrap();
    let failed: Vec<u64> = report.engines.iter().map(|e| e.failed_on_purpose.unwrap()).collect();
    assert_eq!(failed[0], failed[1], "the same requests");
    let share = failed[0] as f64 / plain.trace.counts.allocs as f64;
    assert!((0.09..0.11).contains(&share), "{share}");
    for (e, plain) in report.engines.iter().zip(&plain.engines) {
        assert!(e.is_sound(), "{e}");
        assert_eq!(e.failures.allocs, plain.failures.allocs + failed[0], "{e}");
        assert_eq!(e.failures.by_reason.out_of_memory, plain.failures.by_reason.out_of_memory + failed[0]);
        assert_eq!(plain.failed_on_purpose, None);
    }
    assert!(report.trust.to_string().contains("on purpose"), "{}", report.trust);
    let threads = ReplayOptions { threads: true, ..options };
    let why = run(&threads).err().unwrap().to_string();
    assert!(why.contains("leave out --threads"), "{why}");
}

#[test]
fn large_blocks_alone_fail_and_as_often_as_asked() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data/traces/net-order0.trace");
    let engines = EngineSpec::parse_all(&["linux-6.18"], &[]).unwrap();
    let options = ReplayOptions { faults: Some(faults("1,100,0,5", 1).unwrap()), ..ReplayOptions::default() };
    let report = replay(&Trace::open(&path).unwrap(), &engines, &options, &mut |_, _, _| ()).unwrap();
    let e = &report.engines[0];
    assert_eq!(e.failed_on_purpose, Some(5));
    assert_eq!((e.failures.by_order[0], e.failures.allocs), (0, 5));
    for wrong in [faults("1,100,0", 0), faults("1,100,0,-1", 40)] {
        assert!(wrong.is_err());
    }
}
