//! Made-up traces of LLFree, imported.

use pageyard_trace::source::Input;
use pageyard_trace::{Event, EventKind};

use super::super::read_only;
use super::super::tests::{Folder, event, rows, same};
use super::made::Made;

/// A thousand events on three CPUs, in order, each in its own microsecond.
fn events() -> Vec<Event> {
    (0..1000_u64)
        .map(|i| {
            let kind = if i % 2 == 0 { EventKind::Alloc } else { EventKind::Free };
            let cpu = (i % 3) as u32;
            let gfp = if i % 4 == 0 { 0xcc0 | 1 << 3 } else { 0xcc0 };
            let migratetype = if kind == EventKind::Free { -1 } else { i8::from(i % 4 == 0) };
            Event { gfp, migratetype, tid: cpu, ..event(i, cpu, 64 + i / 2, kind) }
        })
        .collect()
}

fn made(events: &[Event]) -> Made {
    let mut made = Made::new(3, 0xfff0);
    for event in events {
        made.event(&Event { tid: 500 + event.tid, time_ns: 7000 + event.time_ns, ..*event });
    }
    made
}

#[test]
fn what_goes_in_comes_out_in_order() {
    let events = events();
    let folder = Folder::new();
    let (trace, imported) = folder.import(&made(&events).finish()).unwrap();
    assert_eq!(imported.recorder.name(), "llfree");
    assert_eq!((imported.late, imported.impossible, imported.other_events, imported.lost), (0, 0, 0, 0));
    // Times count from the first, in nanoseconds.
    let expected: Vec<Event> = events.iter().map(|e| Event { time_ns: e.time_ns * 1000, ..*e }).collect();
    same(&trace, &expected);
    let meta = trace.meta();
    // LLFree rounds memory up to whole huge frames, too.
    assert_eq!(
        (meta.cpus, meta.memory_end, trace.memory_end().unwrap()),
        (3, Some(0x1_0000), Some(0x1_0000))
    );
    assert_eq!((meta.gfp_bits["__GFP_MOVABLE"], meta.gfp_bits["__GFP_PAGE_CACHE"]), (3, 28));
    assert!(trace.before().unwrap().is_none());
}

#[test]
fn cpus_are_merged_by_time_and_then_by_number() {
    let mut made = Made::new(2, 5000);
    for (time, cpu, pfn) in [(5, 1, 1), (5, 0, 2), (6, 1, 3), (4, 0, 4)] {
        made.event(&event(time, cpu, pfn, EventKind::Alloc));
    }
    let folder = Folder::new();
    let (trace, imported) = folder.import(&made.finish()).unwrap();
    let order: Vec<u64> = rows(&trace).iter().map(|e| e.pfn).collect();
    assert_eq!((order, imported.late), (vec![4, 2, 1, 3], 0));
}

#[test]
fn records_that_cannot_be_are_counted_and_left_out() {
    let mut made = made(&events());
    for (pfn, order) in [(0x1_0000, 0), (65, 1), (0xfffe, 2)] {
        made.event(&Event { order, ..event(9000, 0, pfn, EventKind::Alloc) });
    }
    // Order 11 does not fit a sound record's type: bits 63 to 66.
    let mut page = 1_u32.to_le_bytes().to_vec();
    page.resize(16, 0);
    page.extend((9000_u128 | 4096 << 38 | 1 << 62 | 11 << 63).to_le_bytes());
    // After a record without a frame nothing is read.
    page.extend([0; 16]);
    page.extend((9000_u128 | 4096 << 38 | 1 << 62).to_le_bytes());
    made.page(page);
    let folder = Folder::new();
    let (trace, imported) = folder.import(&made.finish()).unwrap();
    assert_eq!((imported.events(), imported.impossible), (1000, 4));
    assert_eq!(rows(&trace).len(), 1000);
}

#[test]
fn each_fault_has_its_sentence() {
    let folder = Folder::new();
    let good = made(&events()).finish();
    assert!(folder.refused(&good[..good.len() - 1]).contains("cut short"));
    let text = folder.refused(&good[..good.len() - 4096]);
    assert!(text.contains("cut short"), "{text}");
    assert!(folder.refused(&good[..16]).contains("cut short"));
    let patched = |at: usize, word: u32| {
        let mut file = good.clone();
        file[at..at + 4].copy_from_slice(&word.to_le_bytes());
        file
    };
    assert!(
        folder.refused(&patched(4096, 3)).contains("the page at byte 4096 is of CPU 3, and the header has 3")
    );
    assert!(folder.refused(&patched(8, 1 << 24)).contains("24 bits"));
    // Without CPUs it is a trace of nothing.
    assert!(folder.refused(&patched(4, 0)).contains("not a file of"));
    assert!(
        folder.refused(&Made::new(3, 100).finish()).contains("it has no event of an allocation or a free")
    );
}

/// A header of 10 pages begins as a packet of Perfetto does.
#[test]
fn a_file_of_ten_pages_is_not_taken_for_one_of_perfetto() {
    let mut made = Made::new(1, 1 << 20);
    for i in 0..9 * 255 {
        made.event(&event(i, 0, 1 + i, EventKind::Alloc));
    }
    let bytes = made.finish();
    assert_eq!(bytes[0], 0x0a);
    assert_eq!(Folder::new().import(&bytes).unwrap().1.events(), 9 * 255);
}

#[test]
fn memory_that_fills_up_is_no_sign_of_a_single_command() {
    let mut made = Made::new(1, 1 << 20);
    for i in 0..2000 {
        made.event(&event(i, 0, 1 + i, EventKind::Alloc));
    }
    assert_eq!(Folder::new().import(&made.finish()).unwrap().1.warning(), None);
}

#[test]
fn a_file_cut_anywhere_or_with_a_spoilt_byte_is_read_to_an_end() {
    let file = made(&events()).finish();
    for end in (0..file.len()).step_by(97) {
        let _ = read_only(&Input::memory("cut", file[..end].to_vec()));
    }
    for at in (0..file.len()).step_by(5) {
        let mut spoilt = file.clone();
        spoilt[at] ^= 1 << (at % 8);
        let _ = read_only(&Input::memory("spoilt", spoilt));
    }
}
