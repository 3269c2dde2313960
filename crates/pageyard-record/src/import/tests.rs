//! Made-up files, imported.

use std::path::PathBuf;

use pageyard::Context;

use super::made::Made;
use super::*;
use pageyard_trace::{Columns, Event, EventKind, MoveKind, Summary};

pub(super) fn event(time_ns: u64, cpu: u32, pfn: u64, kind: EventKind) -> Event {
    Event {
        time_ns,
        pfn,
        gfp: 0xcc0,
        tid: cpu,
        cpu,
        kind,
        order: 0,
        migratetype: if kind == EventKind::Alloc { 1 } else { -1 },
        context: Context::Task,
        irqs_off: false,
    }
}

pub(super) struct Folder(tempfile::TempDir);

impl Folder {
    pub(super) fn new() -> Folder {
        Folder(tempfile::tempdir().unwrap())
    }

    pub(super) fn import(&self, bytes: &[u8]) -> Result<(Trace, Imported), TraceError> {
        let file = self.file();
        std::fs::write(&file, bytes).unwrap();
        import(&file, &self.0.path().join("out.trace"), &mut |_, _| {})
    }

    fn file(&self) -> PathBuf {
        self.0.path().join("perf.data")
    }

    pub(super) fn refused(&self, bytes: &[u8]) -> String {
        let text = self.import(bytes).unwrap_err().to_string();
        assert!(text.contains("perf.data") && !text.contains('\n'), "{text}");
        let left = std::fs::read_dir(self.0.path()).unwrap().count();
        assert_eq!(left, 1, "something was left behind: {text}");
        text
    }
}

/// Checks rows one by one: all of them at once would fill the screen.
pub(super) fn same(trace: &Trace, expected: &[Event]) {
    let rows = rows(trace);
    assert_eq!(rows.len(), expected.len());
    for (row, expected) in rows.iter().zip(expected) {
        let gfp = if expected.kind == EventKind::Alloc { expected.gfp } else { 0 };
        assert_eq!(*row, Event { gfp, ..*expected });
    }
}

pub(super) fn rows(trace: &Trace) -> Vec<Event> {
    let mut reader = trace.events(Columns::All).unwrap();
    let (mut all, mut batch) = (Vec::new(), Vec::new());
    while reader.next_batch(&mut batch).unwrap() {
        all.extend_from_slice(&batch);
    }
    all
}

/// Two CPUs' buffers, emptied in turn, in rounds of `n` events each.
fn two_cpus(mut made: Made, rounds: u64, n: u64) -> Made {
    for round in 0..rounds {
        for cpu in 0..2 {
            for i in 0..n {
                let time = 1000 + (round * n + i) * 10 + u64::from(cpu);
                let kind = if i % 2 == 0 { EventKind::Alloc } else { EventKind::Free };
                made.event(&event(time, cpu, 100 + u64::from(cpu) * 1000 + i / 2, kind));
            }
        }
        made.end_round();
    }
    made
}

#[test]
fn a_compressed_sample_that_perf_did_not_finish_is_counted_as_lost() {
    let folder = Folder::new();
    let whole = folder.import(&two_cpus(Made::new().compressed(300), 20, 100).finish()).unwrap().1;
    let folder = Folder::new();
    let (_, cut) =
        folder.import(&two_cpus(Made::new().compressed(300).cut_inside(), 20, 100).finish()).unwrap();
    // The last record is the end of a round, not a sample; the importer cannot know that.
    assert_eq!((whole.lost, cut.lost, cut.events()), (0, 1, whole.events()));
}

#[test]
fn what_goes_in_comes_out_in_order() {
    let folder = Folder::new();
    let (trace, imported) = folder.import(&two_cpus(Made::new(), 20, 100).finish()).unwrap();
    assert_eq!(
        (imported.events(), imported.late, imported.impossible, imported.other_events),
        (4000, 0, 0, 0)
    );
    let rows = rows(&trace);
    assert_eq!(rows.len(), 4000);
    assert!(rows.is_sorted_by_key(|e| e.time_ns));
    let first = Event { time_ns: 0, tid: 0, ..event(0, 0, 100, EventKind::Alloc) };
    assert_eq!(rows[0], first);
    assert_eq!((rows[1].time_ns, rows[1].cpu, rows[1].tid), (1, 1, 1));
    let meta = trace.meta();
    assert_eq!((meta.kernel.as_str(), meta.cpus, meta.lost), ("Linux 6.18.44", 2, 0));
    assert_eq!(meta.duration_ns, rows.last().unwrap().time_ns);
    assert_eq!(meta.gfp_bits, [("__GFP_FS".to_owned(), 7), ("__GFP_IO".to_owned(), 6)].into());
    let summary = Summary::of(&trace, |_| {}).unwrap();
    assert_eq!((summary.allocs.count, summary.frees.count, summary.reallocations), (2000, 2000, 0));
}

#[test]
fn a_file_without_rounds_is_sorted_all_the_same() {
    let folder = Folder::new();
    let mut made = Made::new();
    for cpu in 0..2 {
        for i in 0..5000 {
            made.event(&event(10 * i + u64::from(cpu), cpu, 7, EventKind::Free));
        }
    }
    let (trace, imported) = folder.import(&made.finish()).unwrap();
    assert_eq!((imported.events(), imported.late), (10_000, 0));
    assert!(rows(&trace).is_sorted_by_key(|e| e.time_ns));
}

#[test]
fn compressed_records_are_read_wherever_they_are_cut() {
    for bytes in [1, 7, 100, 100_000] {
        let folder = Folder::new();
        let made = two_cpus(Made::new(), 3, 20).compressed(bytes);
        let (trace, _) = folder.import(&made.finish()).unwrap();
        let plain = Folder::new();
        let (other, _) = plain.import(&two_cpus(Made::new(), 3, 20).finish()).unwrap();
        assert_eq!(rows(&trace), rows(&other), "{bytes}");
    }
}

#[test]
fn other_events_are_skipped_and_counted() {
    let folder = Folder::new();
    let mut made = two_cpus(Made::new().mixed(), 2, 10);
    // A sample of an event that is not a tracepoint, one of an unknown tracepoint, and an impossible one.
    made.sample(3, 5000, 0, &[]);
    made.sample(1, 5000, 0, &[9, 9, 0, 0, 0, 0, 0, 0]);
    made.event(&Event { order: 11, ..event(5000, 0, 0, EventKind::Alloc) });
    made.record(3, &[0; 24]);
    let (_, imported) = folder.import(&made.finish()).unwrap();
    assert_eq!((imported.events(), imported.other_events, imported.impossible), (40, 2, 1));
}

#[test]
fn lost_events_are_counted_once() {
    let folder = Folder::new();
    let mut made = two_cpus(Made::new(), 1, 10);
    made.record(2, &[[1u64, 30], [0, 0]].concat().iter().flat_map(|w| w.to_le_bytes()).collect::<Vec<u8>>());
    // perf says the same again at the end, from the kernel's counters.
    made.record(13, &31u64.to_le_bytes());
    let (trace, imported) = folder.import(&made.finish()).unwrap();
    assert_eq!((imported.lost, trace.meta().lost), (31, 31));
}

#[test]
fn moved_frames_are_followed() {
    let folder = Folder::new();
    let mut made = two_cpus(Made::new(), 1, 10);
    made.moved(&event(5000, 1, 100, EventKind::Free), 4000);
    let (trace, imported) = folder.import(&made.finish()).unwrap();
    assert_eq!((imported.moves, imported.moved), (1, 1));
    let mut reader = trace.moves().unwrap().unwrap();
    let mut batch = Vec::new();
    assert!(reader.next_batch(&mut batch).unwrap());
    assert_eq!((batch[0].kind, batch[0].pfn, batch[0].to, batch[0].cpu), (MoveKind::Move, 100, 4000, 1));
    assert_eq!(batch[0].time_ns, 4000);
    assert!(!reader.next_batch(&mut batch).unwrap());
}

#[test]
fn failed_allocations_and_contexts_survive() {
    let folder = Folder::new();
    let mut made = Made::new();
    let failed = Event { pfn: pageyard_trace::FAILED, order: 9, ..event(1, 0, 0, EventKind::Alloc) };
    made.event(&failed);
    for (i, context) in Context::ALL.into_iter().enumerate() {
        made.event(&Event { context, irqs_off: true, ..event(2 + i as u64, 0, 8, EventKind::Free) });
    }
    let (trace, _) = folder.import(&made.finish()).unwrap();
    let rows = rows(&trace);
    assert!(rows[0].failed() && rows[0].order == 9);
    assert_eq!(rows[1..].iter().map(|e| e.context).collect::<Vec<_>>(), Context::ALL);
    assert!(rows[1..].iter().all(|e| e.irqs_off));
}

#[test]
fn each_fault_has_its_sentence() {
    let folder = Folder::new();
    let good = two_cpus(Made::new(), 2, 10).finish();
    let patched = |at: usize, bytes: &[u8]| {
        let mut file = good.clone();
        file[at..at + bytes.len()].copy_from_slice(bytes);
        file
    };
    assert!(folder.refused(b"").contains("too few"));
    assert!(folder.refused(&[0; 200]).contains("not a file of `perf record`"));
    assert!(folder.refused(&patched(0, b"2ELIFREP")).contains("big-endian"));
    assert!(folder.refused(&patched(8, &16u64.to_le_bytes())).contains("pipe"));
    assert!(folder.refused(&good[..good.len() - 100]).contains("cut short"));
    assert!(folder.refused(&good[..90]).contains("cut short"));
    assert!(folder.refused(&patched(48, &0u64.to_le_bytes())).contains("killed"));
    assert!(folder.refused(&patched(16, &7u64.to_le_bytes())).contains("7 bytes"));
    assert!(
        folder.refused(&patched(72, &0u64.to_le_bytes())).contains("perf record -a -e kmem:mm_page_alloc")
    );
    let records = u64::from_le_bytes(good[40..48].try_into().unwrap()) as usize;
    let text = folder.refused(&patched(records + 6, &[0, 0]));
    assert!(text.contains(&format!("at byte {records}, a record has no length")), "{text}");
    let text = folder.refused(&patched(records + 6, &20u16.to_le_bytes()));
    assert!(text.contains("a sample is too short"), "{text}");
    let old = two_cpus(Made::new().old(), 1, 2).finish();
    assert!(folder.refused(&old).contains("`page=`"));
    let mut broken = two_cpus(Made::new(), 1, 10).compressed(100).finish();
    broken[records + 20..records + 40].fill(0xff);
    let text = folder.refused(&broken);
    assert!(text.contains("compressed record"), "{text}");
}

#[test]
fn what_is_there_already_is_left_alone() {
    let folder = Folder::new();
    let out = folder.0.path().join("out.trace");
    std::fs::create_dir(&out).unwrap();
    let text = folder.import(&two_cpus(Made::new(), 1, 2).finish()).unwrap_err().to_string();
    assert!(text.contains("already exists"), "{text}");
    assert_eq!(std::fs::read_dir(folder.0.path()).unwrap().count(), 2);
}

#[test]
fn a_file_that_is_none_is_named() {
    let text = import("/nowhere/perf.data".as_ref(), "/tmp/x.trace".as_ref(), &mut |_, _| {})
        .unwrap_err()
        .to_string();
    assert_eq!(text, "/nowhere/perf.data cannot be read: there is no such file");
    let text = import("/".as_ref(), "/tmp/x.trace".as_ref(), &mut |_, _| {}).unwrap_err().to_string();
    assert!(text.starts_with("/ cannot be read"), "{text}");
}

#[test]
fn few_frees_are_said_to_come_from_one_command() {
    let imported = |allocs: u64, frees: u64| {
        let mut made = Made::new();
        for i in 0..allocs {
            made.event(&event(i, 0, i, EventKind::Alloc));
        }
        for i in 0..frees {
            made.event(&event(allocs + i, 0, i, EventKind::Free));
        }
        Folder::new().import(&made.finish()).unwrap().1
    };
    let warning = imported(24_442, 346).warning().unwrap();
    assert!(warning.starts_with("24,442 allocations and only 346 frees"), "{warning}");
    assert!(warning.contains("perf record -a") && warning.lines().count() == 1, "{warning}");
    assert_eq!(imported(3000, 1000).warning(), None);
    assert_eq!(imported(100, 0).warning(), None, "too few to say");
}
