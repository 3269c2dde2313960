//! The recorder's own requests, left out.

use crate::made::{alloc, free, memory, sound, trace_with_moves};
use pageyard_trace::{Event, FrameKind, Trace};
use std::fs;
use std::path::Path;

/// The recorder's thread; all others have another number.
const RECORDER: u32 = 7;

/// Writes a trace whose recorder gets three blocks: the host moves the first and then frees it, frees the second for
/// another thread, and keeps the third. Beside it a thread gets two blocks and frees one.
fn recorded(name: &str) -> Trace {
    let own = |event: Event| Event { tid: RECORDER, ..event };
    let events = [
        own(alloc(4096, 0)),
        alloc(8192, 0),
        own(alloc(4100, 2)),
        free(4100, 2),
        own(alloc(4200, 3)),
        free(6000, 0),
        alloc(9000, 1),
        own(free(8192, 0)),
    ];
    let written = trace_with_moves(name, &events, &[(5, 4096, 6000, 0)], memory(FrameKind::Anon), None);
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}.trace"));
    let meta = fs::read_to_string(folder.join("meta.json")).unwrap();
    let named = meta.replacen('{', &format!("{{\"recorder_threads\":[{RECORDER}],"), 1);
    fs::write(folder.join("meta.json"), named).unwrap();
    drop(written);
    Trace::open(&folder).unwrap()
}

#[test]
fn what_the_recorder_asked_for_is_left_out_with_its_moves_and_frees() {
    let trace = recorded("recorder");
    let held = |trace: &Trace| {
        let report = sound(trace);
        let rows = [report.trace.counts.allocs, report.trace.counts.frees];
        let held: Vec<u64> = report.engines.iter().map(|e| e.audit.unwrap().allocated.0 - 1024).collect();
        assert!(held.windows(2).all(|pair| pair[0] == pair[1]), "{held:?}");
        (rows, held[0])
    };
    assert_eq!(held(&trace), ([5, 3], 2 + 8));
    assert_eq!(held(&trace.without_recorder()), ([2, 1], 2));
}
