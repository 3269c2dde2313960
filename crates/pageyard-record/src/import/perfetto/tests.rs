//! Made-up files of Perfetto, imported.

use pageyard::Context;
use pageyard_trace::source::Input;
use pageyard_trace::{Event, EventKind, FAILED};

use super::super::read_only;
use super::super::tests::{Folder, event, same};
use super::made::{Made, number, text};

fn made() -> (Made, Vec<Event>) {
    let mut made = Made::new();
    let mut events = Vec::new();
    for i in 0..1000_u64 {
        let kind = if i % 2 == 0 { EventKind::Alloc } else { EventKind::Free };
        let cpu = u32::from(i % 3 == 0);
        let event = Event { tid: cpu, irqs_off: i % 5 == 0, ..event(1000 + i * 7, cpu, 64 + i / 2, kind) };
        made.event(&event);
        events.push(event);
        if i % 100 == 99 {
            made.end_bundles();
        }
    }
    let failed = Event {
        pfn: FAILED,
        order: 9,
        tid: 1,
        context: Context::Hardirq,
        ..event(9000, 1, 0, EventKind::Alloc)
    };
    made.event(&failed);
    events.push(failed);
    (made, events)
}

#[test]
fn what_goes_in_comes_out_in_order() {
    let (made, mut events) = made();
    // Times count from the first. Threads are numbered as the file has them: the first bundle is that of CPU 0.
    for event in &mut events {
        event.time_ns -= 1000;
    }
    for file in [made.clone().finish(), made.compressed().finish()] {
        let folder = Folder::new();
        let (trace, imported) = folder.import(&file).unwrap();
        assert_eq!((imported.recorder.name(), imported.late, imported.impossible), ("perfetto", 0, 0));
        assert_eq!((imported.other_events, imported.lost), (0, 0));
        same(&trace, &events);
        let meta = trace.meta();
        assert_eq!((meta.kernel.as_str(), meta.cpus), ("Linux 6.18.44", 2));
        assert!(meta.gfp_bits.is_empty(), "Perfetto does not say which flag is which bit");
    }
}

#[test]
fn what_was_lost_is_counted_from_start_to_end() {
    let mut made = made().0;
    for (phase, lost) in [(1, 100), (2, 170)] {
        let cpu = [number(1, 0), number(3, lost), number(8, 5)].concat();
        made.packet(34, &[number(1, phase), text(2, &cpu)].concat());
    }
    let bytes = made.clone().finish();
    assert_eq!(Folder::new().import(&bytes).unwrap().1.lost, 70);
    // A bundle says that something is missing before it, and not how much.
    made.packet(1, &[number(1, 1), number(3, 1)].concat());
    assert_eq!(Folder::new().import(&made.finish()).unwrap().1.lost, 70);
}

#[test]
fn other_events_and_other_packets_are_passed_over() {
    let mut made = made().0;
    let switch =
        [number(1, 5000), number(2, 7), text(4, &[text(1, b"a-secret-name"), number(2, 7)].concat())];
    made.packet(1, &[number(1, 0), text(2, &switch.concat())].concat());
    made.packet(33, b"anything");
    made.packet(900, &[1, 2, 3]);
    let impossible = [number(1, 5000), number(2, 7), text(310, &[number(1, 11), number(3, 0)].concat())];
    made.packet(1, &[number(1, 0), text(2, &impossible.concat())].concat());
    let (_, imported) = Folder::new().import(&made.finish()).unwrap();
    assert_eq!((imported.events(), imported.other_events, imported.impossible), (1001, 1, 1));
}

#[test]
fn each_fault_has_its_sentence() {
    let folder = Folder::new();
    let good = made().0.finish();
    assert!(folder.refused(&good[..good.len() - 1]).contains("cut short"));
    assert!(folder.refused(&Made::new().finish()).contains("kmem/mm_page_alloc"));
    let mut pages = Made::new();
    pages.packet(45, &number(6, 16_384));
    assert!(folder.refused(&pages.finish()).contains("16384 bytes"));
    let mut bad = Made::new();
    bad.packet(1, &[0x12, 0x7f, 0]);
    assert!(folder.refused(&bad.finish()).contains("a packet is damaged"));
    let mut bad = Made::new();
    bad.packet(50, b"not zlib at all");
    assert!(folder.refused(&bad.finish()).contains("a packet is damaged"));
}

#[test]
fn a_file_cut_anywhere_or_with_a_spoilt_byte_is_read_to_an_end() {
    for file in [made().0.finish(), made().0.compressed().finish()] {
        for end in 0..file.len().min(4000) {
            let _ = read_only(&Input::memory("cut", file[..end].to_vec()));
        }
        for at in (0..file.len()).step_by(5) {
            let mut spoilt = file.clone();
            spoilt[at] ^= 1 << (at % 8);
            let _ = read_only(&Input::memory("spoilt", spoilt));
        }
    }
}
