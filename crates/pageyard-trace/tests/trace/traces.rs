//! Real recordings: what their README says of them must come out.

use std::path::{Path, PathBuf};

use pageyard_trace::proctext::{Buddyinfo, Pagetypeinfo, Vmstat, Zoneinfo};
use pageyard_trace::{Columns, FAILED, FrameKind, Prefetch, Summary, Trace};

/// Returns the five recordings, or the two that ship with the source where the others are not there.
fn traces() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let all = root.join("../shared/data/traces");
    let (folder, names) = if all.is_dir() {
        (all, &["build", "fork", "net", "net-order0", "pressure"][..])
    } else {
        println!("skipped for fork, net and pressure: {} is not there", all.display());
        (root.join("data/traces"), &["build", "net-order0"][..])
    };
    names.iter().map(|n| folder.join(format!("{n}.trace/"))).collect()
}

/// allocs, frees, failed, frees without allocation, reallocations.
fn published(name: &str) -> [u64; 5] {
    match name {
        "build" => [310_967, 178_950, 0, 1_050, 597],
        "fork" => [870_687, 850_185, 0, 3_086, 21_442],
        "net" => [496_450, 501_212, 0, 5_721, 42],
        "net-order0" => [1_000_826, 997_061, 0, 105, 61],
        "pressure" => [491_625, 765_413, 1_891, 283_989, 22],
        other => panic!("{other} has no published counts"),
    }
}

#[test]
fn the_published_counts_come_out() {
    for path in traces() {
        let trace = Trace::open(&path).unwrap();
        let mut last = 0;
        let summary = Summary::of(&trace, |done| last = done).unwrap();
        assert_eq!(last, trace.rows().unwrap());
        assert_eq!(summary.events(), trace.meta().events.unwrap());
        let found = [
            summary.allocs.count,
            summary.frees.count,
            summary.failed.count,
            summary.frees_without_allocation.count,
            summary.reallocations,
        ];
        assert_eq!(found, published(trace.name()), "{}", trace.name());
        assert_eq!(summary.allocs_by_order.iter().sum::<u64>(), summary.allocs.count);
        assert_eq!(
            summary.granted.iter().flatten().sum::<u64>(),
            summary.allocs.count - summary.failed.count
        );
        // Whatever was granted was freed, granted again, or is still held.
        let freed = summary.allocated_and_freed().count;
        assert_eq!(
            summary.allocs.count - summary.failed.count,
            freed + summary.reallocations + summary.held_at_end
        );
    }
}

#[test]
fn reading_ahead_and_fewer_columns_change_nothing() {
    for path in traces() {
        let trace = Trace::open(&path).unwrap();
        let mut all = trace.events(Columns::All).unwrap();
        let mut ahead = Prefetch::new(trace.events(Columns::Replay).unwrap()).unwrap();
        assert_eq!(ahead.rows(), all.rows());
        let (mut expected, mut found) = (Vec::new(), Vec::new());
        let mut tids = 0;
        while all.next_batch(&mut expected).unwrap() {
            assert!(ahead.next_batch(&mut found).unwrap());
            tids = tids.max(expected.iter().map(|e| e.tid).max().unwrap());
            for event in &mut expected {
                (event.tid, event.irqs_off) = (0, false);
            }
            assert_eq!(expected, found);
        }
        assert!(!ahead.next_batch(&mut found).unwrap() && found.is_empty());
        assert!(!ahead.next_batch(&mut found).unwrap(), "the end stays the end");
        assert!(tids > 0, "threads were recorded");
    }
}

#[test]
fn a_reader_that_is_dropped_early_stops_its_thread() {
    let trace = Trace::open(&traces()[0]).unwrap();
    for batches in 0..8 {
        let mut ahead = Prefetch::new(trace.events(Columns::Replay).unwrap()).unwrap();
        let mut batch = Vec::new();
        for _ in 0..batches {
            assert!(ahead.next_batch(&mut batch).unwrap());
        }
    }
}

#[test]
fn the_pictures_agree_with_buddyinfo() {
    for path in traces() {
        let trace = Trace::open(&path).unwrap();
        let meta = trace.meta();
        let pictures = [(trace.before(), &meta.before), (trace.after(), &meta.after)];
        for (picture, texts) in pictures {
            let picture = picture.unwrap().unwrap();
            let free = picture.frames(FrameKind::Free);
            let listed = Buddyinfo::parse(&texts.as_ref().unwrap().buddyinfo).unwrap().free_frames();
            // They were read a moment apart, which shows most in `pressure`, where little is free.
            let thousandths = if trace.name() == "pressure" { 100 } else { 5 };
            assert!(
                free.abs_diff(listed) * 1000 < listed * thousandths,
                "{}: {free} and {listed}",
                trace.name()
            );
            assert_eq!(picture.end(), 6_553_600);
        }
    }
}

#[test]
fn the_recorded_texts_are_read() {
    for path in traces() {
        let trace = Trace::open(&path).unwrap();
        let meta = trace.meta();
        for texts in [meta.before.as_ref().unwrap(), meta.after.as_ref().unwrap()] {
            let buddy = Buddyinfo::parse(&texts.buddyinfo).unwrap();
            let types = Pagetypeinfo::parse(&texts.pagetypeinfo).unwrap();
            let zones = Zoneinfo::parse(&texts.zoneinfo).unwrap();
            let vmstat = Vmstat::parse(&texts.vmstat).unwrap();
            assert_eq!(types.pageblock_order, Some(9));
            assert_eq!(zones.zones.len(), 5);
            for (line, zone) in buddy.zones.iter().zip(&zones.zones) {
                assert_eq!(line.name, zone.name);
                assert_eq!((line.counts.len(), zone.pagesets.len()), (11, 2));
                assert!(zone.managed <= zone.present && zone.present <= zone.spanned);
                assert!(zone.min < zone.low && zone.low < zone.high && zone.start_pfn.is_some());
                let of_types: Vec<u64> = (0..11)
                    .map(|o| {
                        let zone = types.zones.iter().find(|z| z.name == line.name).unwrap();
                        zone.free.values().map(|f| f.counts[o]).sum()
                    })
                    .collect();
                let apart: u64 = of_types.iter().zip(&line.counts).map(|(a, b)| a.abs_diff(*b)).sum();
                assert!(apart * 10 <= 10 + line.counts.iter().sum::<u64>(), "{}: {of_types:?}", trace.name());
            }
            assert!(vmstat.get("compact_stall").is_some() && vmstat.counters.len() > 100);
        }
    }
}

#[test]
fn failed_allocations_have_no_frame() {
    for path in traces() {
        let trace = Trace::open(&path).unwrap();
        let mut reader = trace.events(Columns::Replay).unwrap();
        let (mut batch, mut failed) = (Vec::new(), 0);
        while reader.next_batch(&mut batch).unwrap() {
            failed += batch.iter().filter(|e| e.pfn == FAILED).count() as u64;
        }
        assert_eq!(failed, published(trace.name())[2]);
        assert_eq!(reader.rows_read(), reader.rows());
    }
}

#[test]
fn the_running_hosts_texts_are_read() {
    let text = |name: &str| std::fs::read_to_string(format!("/proc/{name}")).unwrap();
    assert!(!Buddyinfo::parse(&text("buddyinfo")).unwrap().zones.is_empty());
    assert!(Zoneinfo::parse(&text("zoneinfo")).unwrap().zones.iter().any(|z| z.managed > 0));
    assert!(Vmstat::parse(&text("vmstat")).unwrap().get("nr_free_pages").is_some());
    match std::fs::read_to_string("/proc/pagetypeinfo") {
        Ok(text) => assert!(!Pagetypeinfo::parse(&text).unwrap().zones.is_empty()),
        Err(e) => println!("skipped for pagetypeinfo: {e}"),
    }
}
