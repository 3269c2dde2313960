//! Made-up traces: one oddity each, with an outcome that can be worked out by hand.

use crate::made::{
    KERNEL, USER, alloc, event, free, memory, run, sound, trace, trace_with_moves, try_replay,
};
use pageyard::Counter;
use pageyard_replay::engine::EngineSpec;
use pageyard_replay::replay::{ReplayOptions, ReplayReport, SlowPath, replay};
use pageyard_trace::{Document, Event, EventKind, FAILED, FrameKind, ProcTexts, Run, Trace};

#[test]
fn without_a_snapshot_all_memory_is_free_up_to_the_highest_frame() {
    let report = sound(&trace("no-snapshot", &[alloc(1000, 0), free(1000, 0), alloc(2000, 0)], None, None));
    assert!(!report.trace.opening.snapshot);
    assert_eq!(report.trace.managed.0, 2048, "whole pageblocks");
    assert!(report.engines[0].prediction.is_none() && report.json()["engines"][0].get("after").is_none());
}

#[test]
fn a_frame_older_than_the_trace_is_freed_once() {
    let events = [free(5, 0), free(5, 0), alloc(2000, 0)];
    let report = sound(&trace("ghost", &events, memory(FrameKind::Anon), None));
    let c = report.trace.counts;
    assert_eq!((c.unknown_frees, c.unresolved_frees), (2, 1));
    assert!(report.engines[0].splits >= 8, "the old block was freed in part");
}

#[test]
fn a_block_that_the_host_moved_is_freed_where_it_went() {
    // 5 was there before and goes to 3000; the block at 2048 goes to 4096 in two parts; 9000 is not held.
    let events = [alloc(2048, 1), free(5, 0), free(2049, 0), free(3000, 0), free(4097, 0), free(9000, 0)];
    let moves = [(1, 5, 3000, 0), (1, 2049, 4097, 0), (1, 2048, 4096, 0), (6, 7, 9000, 0)];
    let report = sound(&trace_with_moves("moves", &events, &moves, memory(FrameKind::Anon), None));
    let c = report.trace.counts;
    assert_eq!((c.moves, c.freed_after_moves), (4, 2));
    assert_eq!((c.unknown_frees, c.unresolved_frees), (3, 1), "3000 and 4097 as parts, 9000 as nobody's");
    for e in &report.engines {
        assert_eq!(e.audit.unwrap().allocated.0, 1024 - 1 + 1, "{}: 7 is at 9000, 2048 at 4096", e.name);
    }
    // The same without the moves: the frees of what moved away free it, and those of where it went find nothing.
    let report = sound(&trace("no-moves", &events, memory(FrameKind::Anon), None));
    assert_eq!((report.trace.counts.moves, report.trace.counts.unresolved_frees), (0, 3));
}

#[test]
fn a_large_block_may_be_freed_in_parts_and_small_ones_as_one() {
    let events = [
        alloc(2048, 9),
        free(2048 + 17, 0),
        free(2048 + 64, 6),
        free(2048, 4),
        alloc(4096, 0),
        alloc(4097, 0),
        alloc(4098, 1),
        free(4096, 2),
    ];
    let report = sound(&trace("parts", &events, memory(FrameKind::Slab), None));
    let held = 512 - 1 - 64 - 16;
    for e in &report.engines {
        assert_eq!(e.audit.unwrap().allocated.0, 1024 + held, "{}", e.name);
    }
}

#[test]
fn a_frame_that_is_allocated_twice_was_given_up_unseen() {
    let events = [alloc(3000, 0), alloc(3000, 0), alloc(2560, 9), alloc(2561, 0)];
    let report = sound(&trace("twice", &events, memory(FrameKind::Slab), None));
    assert_eq!(report.trace.counts.reallocations, 1);
    // The first 3000 was freed by the second; 2560..3072 took 3000 with it; 2561 cut one frame out of that.
    assert_eq!(report.engines[0].audit.unwrap().allocated.0, 1024 + 512);
}

#[test]
fn a_request_that_failed_on_the_host_is_made_and_given_back() {
    let failed = Event { pfn: FAILED, ..alloc(0, 9) };
    let report = sound(&trace("failed", &[failed, failed, alloc(4000, 0)], memory(FrameKind::Slab), None));
    assert_eq!(report.trace.counts.failed, 2);
    let e = &report.engines[0];
    assert_eq!((e.failures.served_where_host_failed, e.audit.unwrap().allocated.0), (2, 1024 + 1));
}

/// Bits of gfp that say huge page of a process: as [`USER`], and no warning, a compound page, no reserves; and no
/// retry.
const HUGE_PAGE: u32 = USER | 1 << 13 | 1 << 18 | 1 << 19;
const NORETRY: u32 = 1 << 16;

/// 64 MiB, half of it used so that every pageblock has some: only what moves frames together can make a huge one.
fn checkered() -> Option<Vec<Run>> {
    let kinds = [(FrameKind::Anon, 64), (FrameKind::Free, 128), (FrameKind::File, 64)];
    let mut runs = vec![run(0, 512, FrameKind::Slab)];
    for at in (512..16 * 1024).step_by(256) {
        let starts = [at, at + 64, at + 192];
        runs.extend(kinds.iter().zip(starts).map(|((kind, frames), start)| run(start, *frames, *kind)));
    }
    Some(runs)
}

/// The host refuses a huge page; its thread takes 512 frames instead, and frees them in the end but for `keeps`.
fn huge_page_replaced(keeps: usize) -> Vec<Event> {
    let failed = |gfp| Event { pfn: FAILED, gfp, ..alloc(0, 9) };
    let free_frames = (512..16 * 1024).step_by(256).flat_map(|at| at + 64..at + 192);
    let frames: Vec<u64> = free_frames.take(512).collect();
    // Another thread asks for one as well meanwhile, and kernel memory is no stand-in.
    let others = [Event { tid: 7, ..alloc(16_000, 0) }, event(EventKind::Alloc, 16_001, 0, KERNEL)];
    let takes = frames.iter().map(|pfn| alloc(*pfn, 0));
    let frees = frames.iter().skip(keeps).map(|pfn| free(*pfn, 0));
    // The first refusal is tried again at once, as the kernel does on other nodes.
    [failed(HUGE_PAGE | NORETRY), failed(HUGE_PAGE)]
        .into_iter()
        .chain(others)
        .chain(takes)
        .chain(frees)
        .collect()
}

fn replay_with(trace: &Trace, slow_path: SlowPath) -> ReplayReport {
    let engines = ["linux-6.18", "linux-4.6", "pageyard-exclusive", "pageyard", "pageyard-trylock"];
    let engines: Vec<_> = engines.iter().map(|e| EngineSpec::parse(e, &[]).unwrap()).collect();
    let options = ReplayOptions { slow_path: Some(slow_path), ..ReplayOptions::default() };
    let report = replay(trace, &engines, &options, &mut |_, _, _| ()).unwrap();
    for e in &report.engines {
        assert!(e.is_sound(), "{slow_path}: {e}");
    }
    assert!(!report.json().to_string().contains("null"));
    report
}

#[test]
fn what_the_host_refused_is_kept_as_long_as_what_was_taken_in_its_stead() {
    let held = |keeps| {
        let trace = trace(&format!("kept-{keeps}"), &huge_page_replaced(keeps), checkered(), None);
        let slow_path = SlowPath { compaction: true, reclaim: true, pinned: 0.0 };
        let report = replay_with(&trace, slow_path);
        report
            .engines
            .iter()
            .map(|e| {
                let h = e.slow_path.unwrap();
                assert_eq!((h.replaced, h.kept, h.not_taken), (1, 1, 512), "{e}");
                assert_eq!((e.failures.served_where_host_failed, e.failures.allocs), (2, 0), "{e}");
                assert!(
                    e.stats[Counter::CompactSuccess] > 0 && e.stats[Counter::PgmigrateSuccess] > 0,
                    "{e}"
                );
                e.audit.unwrap().allocated.0
            })
            .collect::<Vec<_>>()
    };
    // All freed: the huge page is gone. One kept: all of it stays.
    let (none, one) = (held(0), held(1));
    assert!(none.iter().zip(&one).all(|(none, one)| none + 512 == *one), "{none:?} {one:?}");
}

#[test]
fn each_part_of_the_slow_path_works_alone() {
    let trace = trace("parts-of-slow-path", &huge_page_replaced(512), checkered(), None);
    for (reclaim, compaction) in [(false, false), (true, false), (false, true)] {
        let report = replay_with(&trace, SlowPath { reclaim, compaction, pinned: 0.0 });
        for e in &report.engines {
            let value = &report.json()["engines"][0];
            assert!(value["slow_path"].is_object(), "{value}");
            let stats = &e.stats;
            assert_eq!(stats[Counter::CompactStall] > 0, compaction, "{e}");
            assert_eq!(stats[Counter::PgstealDirect] + stats[Counter::PgstealKswapd] > 0, reclaim, "{e}");
            assert_eq!(
                (e.slow_path.unwrap().replaced, e.slow_path.unwrap().kept),
                (1, u64::from(compaction)),
                "{e}"
            );
            if !compaction {
                assert_eq!(e.stats[Counter::PgmigrateSuccess] + e.slow_path.unwrap().not_taken, 0, "{e}");
            }
        }
    }
    // With every frame pinned nothing moves and nothing is given up.
    let report = replay_with(&trace, SlowPath { reclaim: true, compaction: true, pinned: 1.0 });
    for e in &report.engines {
        assert_eq!((e.stats[Counter::PgmigrateSuccess], e.slow_path.unwrap().kept), (0, 0), "{e}");
    }
}

#[test]
fn frees_find_what_was_moved_and_know_what_was_reclaimed() {
    // After the slow path has done its work, the host frees all that was there before, frame by frame and in blocks.
    let mut events = huge_page_replaced(0);
    for at in (512..16 * 1024).step_by(256) {
        events.extend((at..at + 32).map(|pfn| free(pfn, 0)));
        events.extend([free(at + 32, 5), free(at + 192, 6)]);
    }
    let trace = trace("moved-and-freed", &events, checkered(), None);
    for (reclaim, compaction) in [(true, false), (true, true)] {
        for e in replay_with(&trace, SlowPath { reclaim, compaction, pinned: 0.0 }).engines {
            assert_eq!(e.audit.unwrap().allocated.0, 512 + 2, "the kernel's frames and two of others: {e}");
            let stolen = e.stats[Counter::PgstealDirect] + e.stats[Counter::PgstealKswapd];
            assert_eq!(e.slow_path.unwrap().reclaimed_before, stolen, "{e}");
        }
    }
}

#[test]
fn a_slow_path_wants_one_thread() {
    let trace = trace("slow-path-threads", &[alloc(100, 0)], memory(FrameKind::Slab), None);
    let options =
        ReplayOptions { threads: true, slow_path: Some(SlowPath::default()), ..ReplayOptions::default() };
    let why = try_replay(&trace, &options).unwrap_err().to_string();
    assert!(why.contains("--threads") && why.lines().count() == 1, "{why}");
}

#[test]
fn requests_beyond_memory_are_refused_and_their_frees_forgotten() {
    // 2 MiB in all; the host (of the made-up trace) handed out more frames than there are.
    let before = Some(vec![run(0, 512, FrameKind::Free), run(512, 15 * 1024, FrameKind::Slab)]);
    let events: Vec<Event> =
        (0..600).map(|i| alloc(512 + i * 8, 3)).chain((0..600).map(|i| free(512 + i * 8, 3))).collect();
    let report = sound(&trace("beyond", &events, before, None));
    for e in &report.engines {
        assert!(e.failures.refused_where_host_served > 0, "{e}");
    }
}

#[test]
fn a_frame_whose_first_event_is_an_allocation_lay_in_that_cpus_list() {
    let before = Some(vec![run(0, 64, FrameKind::Other), run(64, 16 * 1024 - 64, FrameKind::Free)]);
    let report = sound(&trace("cached", &[alloc(7, 0), alloc(9, 0), free(9, 0)], before, None));
    assert_eq!(report.trace.opening.counts.cached_by_event, 2);
    // The 62 other unknown frames stay held; 7 is allocated, 9 is free again.
    assert_eq!(report.engines[0].audit.unwrap().allocated.0, 62 + 1);
}

#[test]
fn zones_come_from_zoneinfo_and_the_rest_from_linuxs_borders() {
    let zoneinfo = "Node 0, zone   Normal\n  pages free 10\n        boost    0\n        min      2\n        low      3\n        high     4\n        spanned  16384\n        present  16384\n        managed  16000\n        protection: (0, 0, 0)\n  start_pfn: 0\n";
    let texts = ProcTexts { zoneinfo: zoneinfo.into(), ..ProcTexts::default() };
    let before = || Some(vec![run(0, 16_000, FrameKind::Free), run(16_000, 384, FrameKind::Other)]);
    let report = sound(&trace("zoneinfo", &[alloc(100, 0)], before(), Some(texts)));
    assert_eq!(report.engines[0].buddyinfo.len(), 1);
    assert_eq!(report.trace.managed.0, 16_000, "what the zone does not manage was taken away");
    let report = sound(&trace("no-zoneinfo", &[alloc(100, 0)], before(), None));
    let names: Vec<&str> = report.engines[0].buddyinfo.iter().map(|(n, _)| n.as_str()).collect();
    assert_eq!(names, ["DMA", "DMA32"]);
}

/// A host whose memory was plugged in up to frame 32,768, with kernel memory right below that.
#[test]
fn memory_that_was_never_plugged_in_is_told_from_the_kernels_beside_it() {
    let zoneinfo = "Node 0, zone   Normal\n  pages free 10\n        boost    0\n        min      2\n        low      3\n        high     4\n        spanned  98304\n        present  98304\n        managed  32768\n        protection: (0, 0, 0)\n  start_pfn: 0\n";
    let texts = ProcTexts { zoneinfo: zoneinfo.into(), ..ProcTexts::default() };
    let before = vec![
        run(0, 100, FrameKind::Free),
        run(100, 200, FrameKind::Other),
        run(300, 29_700, FrameKind::Free),
        run(30_000, 98_304 - 30_000, FrameKind::Other),
    ];
    let report = sound(&trace("plugged", &[alloc(50, 0)], Some(before), Some(texts)));
    assert_eq!((report.trace.managed.0, report.trace.opening.managed_mismatch_frames), (32_768, Some(0)));
    assert_eq!(report.engines[0].audit.unwrap().allocated.0, 200 + 2768 + 1, "the kernel's frames stay held");
}

#[test]
fn machines_that_cannot_be_are_refused_in_one_sentence() {
    let reserved = Some(vec![run(0, 4096, FrameKind::Reserved)]);
    let huge = Some(vec![run(0, 1 << 35, FrameKind::Free)]);
    let none = Some(vec![run(0, 4096, FrameKind::None)]);
    for (name, before) in [("reserved", reserved), ("huge", huge), ("none", none)] {
        let trace = trace(name, &[alloc(1, 0)], before, None);
        let why = try_replay(&trace, &ReplayOptions::default()).unwrap_err().to_string();
        assert!(why.contains(name) && why.lines().count() == 1, "{why}");
    }
    let empty = trace("empty", &[], None, None);
    assert!(try_replay(&empty, &ReplayOptions::default()).unwrap_err().to_string().contains("no frame"));
}

#[test]
fn texts_that_are_no_texts_are_refused_or_ignored_but_never_a_panic() {
    let texts = |zoneinfo: &str, pagetypeinfo: &str| {
        Some(ProcTexts {
            zoneinfo: zoneinfo.into(),
            pagetypeinfo: pagetypeinfo.into(),
            ..ProcTexts::default()
        })
    };
    let huge = "Node 0, zone Normal\n pages free 1\n min 99999999999\n spanned 18446744073709551615\n present 9\n managed 9\n start_pfn: 18446744073709551615\n";
    let overlap = "Node 0, zone DMA\n pages free 1\n spanned 9999\n present 1\n managed 1\n start_pfn: 0\nNode 0, zone Normal\n pages free 1\n spanned 9999\n present 1\n managed 1\n start_pfn: 5\n";
    for (i, t) in [
        texts("garbage", ""),
        texts(huge, ""),
        texts(overlap, "Number of blocks type\n"),
        texts("", "Node x\n"),
    ]
    .into_iter()
    .enumerate()
    {
        let events = [alloc(2000, 0), event(EventKind::Alloc, 3000, 0, KERNEL), free(3000, 0)];
        let trace = trace(&format!("texts-{i}"), &events, memory(FrameKind::Slab), t);
        match try_replay(&trace, &ReplayOptions::default()) {
            Ok(report) => assert!(report.engines.iter().all(|e| e.is_sound())),
            Err(why) => assert!(why.to_string().lines().count() <= 5, "{why}"),
        }
    }
}

#[test]
fn a_machine_can_be_shrunk_to_what_is_in_use_and_no_further() {
    let events: Vec<Event> = (0..64).map(|i| alloc(2048 + i, 0)).chain([free(3, 0)]).collect();
    let t = trace("shrink", &events, memory(FrameKind::Anon), None);
    let with =
        |mib: u64| try_replay(&t, &ReplayOptions { memory: Some(mib << 20), ..ReplayOptions::default() });
    for mib in [64, 16, 4, 1] {
        let report = with(mib).unwrap();
        assert_eq!(report.trace.managed.as_bytes(), mib << 20);
        assert!(report.engines.iter().all(|e| e.is_sound()), "{report}");
    }
    assert!(with(65).is_err());
}
