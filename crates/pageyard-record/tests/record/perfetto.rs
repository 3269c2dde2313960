//! A file that Google's protobuf wrote (`files/write_perfetto.py`), half of its packets compressed: what the writer counted
//! is what we count.

use std::path::Path;

use pageyard_record::import::import;
use pageyard_trace::{Columns, EventKind};

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
    let (mut rows, mut batch) = (Vec::new(), Vec::new());
    let mut reader = trace.events(Columns::All).unwrap();
    while reader.next_batch(&mut batch).unwrap() {
        rows.extend_from_slice(&batch);
    }
    assert!(rows.is_sorted_by_key(|row| row.time_ns));
    assert_eq!(rows.iter().filter(|row| row.failed()).count(), 24);
    let freed: u64 = rows.iter().filter(|row| row.kind == EventKind::Free).map(|row| row.pfn).sum();
    assert_eq!(freed, 123_430_912);
    assert!(rows.iter().filter(|row| row.kind == EventKind::AllocExtfrag).all(|row| row.gfp == 9 << 8 | 1));
}
