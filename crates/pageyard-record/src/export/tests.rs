//! Traces written for LLFree, and read again.

use std::path::PathBuf;

use pageyard::Context;
use pageyard_trace::{
    Columns, Event, EventKind, FAILED, Meta, Run, Snapshot, Trace, TraceError, TraceWriter, WholeFile,
};

use super::{ForLlfree, llfree};
use crate::import::import;
use pageyard_trace::FrameKind;

struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Folder {
        Folder(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn trace(&self, meta: Meta, events: &[Event], before: Option<&Snapshot>) -> Trace {
        let mut writer = TraceWriter::create(&self.path("a.trace")).unwrap();
        events.iter().for_each(|event| writer.push(event).unwrap());
        writer.finish(meta, before, None).unwrap()
    }

    fn export(&self, trace: &Trace) -> Result<ForLlfree, TraceError> {
        llfree(trace, WholeFile::create(&self.path("a.llfree"))?, &mut |_, _| {})
    }

    /// Exports a trace, imports the file, and returns what was left out and the new trace.
    fn there_and_back(&self, trace: &Trace) -> (ForLlfree, Trace) {
        let done = self.export(trace).unwrap();
        assert_eq!(done.bytes, self.path("a.llfree").metadata().unwrap().len());
        let (back, imported) = import(&self.path("a.llfree"), &self.path("b.trace"), &mut |_, _| {}).unwrap();
        assert_eq!((imported.events(), imported.impossible, imported.late), (done.records, 0, 0));
        (done, back)
    }
}

fn event(time_ns: u64, cpu: u32, pfn: u64, kind: EventKind) -> Event {
    let is_alloc = kind == EventKind::Alloc;
    Event {
        time_ns,
        pfn,
        gfp: if is_alloc { 0xcc0 } else { 0 },
        tid: cpu,
        cpu,
        kind,
        order: 0,
        migratetype: if is_alloc { 0 } else { -1 },
        context: Context::Task,
        irqs_off: false,
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

#[test]
fn what_was_written_is_read_again() {
    // More than a page of each of three CPUs, whose events are microseconds apart.
    let events: Vec<Event> = (0..2000_u64)
        .map(|i| {
            let kind = if i % 4 < 2 { EventKind::Alloc } else { EventKind::Free };
            // Every second block is allocated, then freed; the others are larger and stay.
            let pfn = if i % 4 == 0 { (1 + i) << 4 } else { 8 + (i & !3) };
            let order = if i % 4 == 0 { 4 } else { 0 };
            let pfn = if i % 4 == 3 { (1 + (i & !3)) << 4 } else { pfn };
            let order = if i % 4 == 3 { 4 } else { order };
            let cpu = (i % 3) as u32;
            let event = event(i * 1000 + i % 1000, cpu, pfn, kind);
            let movable = kind == EventKind::Alloc && i % 8 == 0;
            Event {
                order,
                gfp: event.gfp | u32::from(movable) << 3,
                migratetype: event.migratetype + i8::from(movable),
                ..event
            }
        })
        .collect();
    let folder = Folder::new();
    let trace = folder.trace(Meta { memory_end: Some(1 << 20), ..Meta::new(3) }, &events, None);
    let (done, back) = folder.there_and_back(&trace);
    assert_eq!((done.records, done.unknown_frees, done.delayed, done.flags_left_out), (2000, 0, 0, 0));
    assert_eq!(
        done,
        ForLlfree { records: 2000, bytes: done.bytes, ..ForLlfree::default() },
        "nothing was left out"
    );
    let expected = events.iter().map(|e| Event { time_ns: e.time_ns / 1000 * 1000, ..*e });
    for (row, expected) in rows(&back).iter().zip(expected) {
        assert_eq!(*row, expected);
    }
    assert_eq!((back.rows().unwrap(), back.meta().cpus), (2000, 3));
    assert_eq!(back.meta().memory_end, Some(1 << 20));
}

/// Both readers sort by time, and a time has no nanoseconds there.
#[test]
fn events_of_one_microsecond_keep_their_order() {
    let events = [
        event(5100, 1, 7, EventKind::Alloc),
        event(5200, 0, 7, EventKind::Free),
        event(5300, 1, 7, EventKind::Alloc),
        event(5400, 0, 7, EventKind::Free),
        event(9000, 1, 7, EventKind::Alloc),
    ];
    let folder = Folder::new();
    let (done, back) = folder.there_and_back(&folder.trace(Meta::new(2), &events, None));
    assert_eq!((done.records, done.unknown_frees, done.delayed), (5, 0, 3));
    let back: Vec<_> = rows(&back).iter().map(|e| (e.time_ns / 1000, e.cpu, e.kind)).collect();
    use EventKind::{Alloc, Free};
    assert_eq!(back, [(0, 1, Alloc), (1, 0, Free), (1, 1, Alloc), (2, 0, Free), (4, 1, Alloc)]);
}

#[test]
fn what_has_no_place_is_counted() {
    let events = [
        Event { pfn: FAILED, order: 9, ..event(0, 0, 0, EventKind::Alloc) },
        event(1000, 0, 0, EventKind::Alloc),
        event(2000, 0, 512, EventKind::PcpuDrain),
        // Held when the recording began.
        event(3000, 0, 513, EventKind::Free),
        Event { order: 3, gfp: 1 << 30, ..event(4000, 0, 520, EventKind::Alloc) },
        // A part of it, and a block of which only the second half was allocated.
        event(5000, 0, 521, EventKind::Free),
        Event { order: 1, ..event(6000, 0, 520, EventKind::Free) },
        Event { order: 4, ..event(7000, 0, 512, EventKind::Free) },
    ];
    let before = Snapshot {
        runs: vec![Run { pfn: 0, frames: 4096, kind: FrameKind::Anon, thp: false, unevictable: false }],
    };
    let folder = Folder::new();
    let (done, back) = folder.there_and_back(&folder.trace(Meta::new(1), &events, Some(&before)));
    let expected = ForLlfree {
        records: 5,
        unknown_frees: 2,
        flags_left_out: 1,
        refused_left_out: 1,
        frame_0_left_out: 1,
        other_events_left_out: 1,
        snapshot_left_out: true,
        bytes: 2 * 4096,
        ..ForLlfree::default()
    };
    assert_eq!(done, expected);
    assert_eq!(back.meta().memory_end, Some(4096), "the snapshot's");
}

#[test]
fn flags_go_to_the_bits_that_llfree_has_them_at() {
    // Linux 4.9 had __GFP_COLD at bit 8, and __GFP_ZERO at bit 15.
    let bits =
        [("__GFP_COLD", 8), ("__GFP_ZERO", 15), ("__GFP_FS", 7), ("__GFP_NEW", 26), ("__GFP_NEWER", 9)];
    let meta = Meta { gfp_bits: bits.map(|(name, bit)| (name.to_owned(), bit)).into(), ..Meta::new(1) };
    let events = [
        Event { gfp: 1 << 15 | 1 << 7, ..event(0, 0, 1, EventKind::Alloc) },
        Event { gfp: 1 << 8 | 1 << 3, migratetype: 1, ..event(1000, 0, 2, EventKind::Alloc) },
        Event { gfp: 1 << 26, ..event(2000, 0, 3, EventKind::Alloc) },
        Event { gfp: 1 << 9, ..event(3000, 0, 4, EventKind::Alloc) },
    ];
    let folder = Folder::new();
    let (done, back) = folder.there_and_back(&folder.trace(meta, &events, None));
    let flags: Vec<u32> = rows(&back).iter().map(|e| e.gfp).collect();
    assert_eq!((flags, done.flags_left_out), (vec![1 << 8 | 1 << 7, 1 << 3, 1 << 26, 0], 2));
}

#[test]
fn what_is_too_far_away_is_refused() {
    for far in [event(0, 0, 1 << 24, EventKind::Alloc), event(1000 << 38, 0, 5, EventKind::Free)] {
        let folder = Folder::new();
        let trace = folder.trace(Meta::new(1), &[far], None);
        let text = folder.export(&trace).unwrap_err().to_string();
        assert!(text.contains("76 hours") && text.contains("64 GiB") && text.lines().count() == 1, "{text}");
        assert!(!folder.path("a.llfree").exists());
    }
}
