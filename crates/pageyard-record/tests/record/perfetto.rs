//! A file that Google's protobuf wrote (`files/write_perfetto.py`), half of its packets compressed: what the writer
//! counted is what we count.

use std::collections::HashSet;
use std::path::Path;

use pageyard_record::export::perfetto;
use pageyard_record::import::import;
use pageyard_trace::{Columns, Event, EventKind, Trace, WholeFile};

#[test]
fn a_file_of_another_writer_has_its_rows() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/record/files/perfetto.pftrace");
    let folder = tempfile::tempdir().unwrap();
    let (trace, imported) = import(&file, &folder.path().join("out.trace"), &mut |_, _| {}).unwrap();
    // As the writer printed: allocations, frees, fallbacks, drains; and events of a kind that is not kept.
    assert_eq!(imported.by_kind, [361, 234, 122, 124, 0]);
    assert_eq!((imported.other_events, imported.impossible, imported.late), (119, 0, 0));
    assert_eq!(imported.lost, 19 - 7, "from the start to the end");
    let meta = trace.meta();
    assert_eq!((meta.kernel.as_str(), meta.cpus), ("Linux 6.12.117", 4));
    assert_eq!(meta.duration_ns, 5_596_611 - 5_000_237);
    let rows = rows(&trace);
    assert!(rows.is_sorted_by_key(|row| row.time_ns));
    assert_eq!(rows.iter().filter(|row| row.failed()).count(), 24);
    let freed: u64 = rows.iter().filter(|row| row.kind == EventKind::Free).map(|row| row.pfn).sum();
    assert_eq!(freed, 123_430_912);
    assert!(rows.iter().filter(|row| row.kind == EventKind::AllocExtfrag).all(|row| row.gfp == 9 << 8 | 1));
}

/// Reads exports back: every event of a recording with refusals and fallbacks, and of one with samples.
#[test]
fn an_export_read_back_has_every_event() {
    for (name, refused) in [("guest-6.12-huge", true), ("containers", false)] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../data/traces/{name}.trace"));
        let trace = Trace::open(&path).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("exported.pftrace");
        let exported = perfetto(&trace, WholeFile::create(&file).unwrap(), &mut |_, _| {}).unwrap();
        assert_eq!((exported.events, exported.refused > 0), (trace.rows().unwrap(), refused), "{name}");
        assert!(exported.samples > 0, "{name}");
        assert_eq!(exported.bytes, std::fs::metadata(&file).unwrap().len());

        let (back, imported) = import(&file, &folder.path().join("back.trace"), &mut |_, _| {}).unwrap();
        assert_eq!((imported.impossible, imported.other_events, imported.lost), (0, 0, 0), "{name}");
        assert_eq!(back.meta().cpus, trace.meta().cpus);
        let (first, again) = (rows(&trace), rows(&back));
        assert_eq!(first.len(), again.len(), "{name}");
        let begin = first.first().unwrap().time_ns;
        // Events of one moment on two CPUs may change places, and threads are numbered as they come.
        let sorted = |rows: Vec<Event>, begin: u64| {
            let mut rows: Vec<Event> =
                rows.into_iter().map(|e| Event { time_ns: e.time_ns - begin, tid: 0, ..e }).collect();
            rows.sort_by_key(|e| (e.time_ns, e.cpu, e.kind.index(), e.pfn));
            rows
        };
        let threads = |rows: &[Event]| rows.iter().map(|e| e.tid).collect::<HashSet<_>>().len();
        assert_eq!(threads(&first), threads(&again), "{name}");
        assert!(sorted(first, begin) == sorted(again, 0), "{name}: an event differs");
    }
}

fn rows(trace: &Trace) -> Vec<Event> {
    let mut reader = trace.events(Columns::All).unwrap();
    let (mut all, mut batch) = (Vec::new(), Vec::new());
    while reader.next_batch(&mut batch).unwrap() {
        all.extend_from_slice(&batch);
    }
    all
}
