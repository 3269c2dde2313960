//! Made-up files of trace-cmd, imported.

use pageyard::Context;
use pageyard_trace::{Event, EventKind, FAILED};

use super::super::tests::{Folder, event, same};
use super::made::Made;

/// Events of two CPUs over several pages of each, with pauses longer than 27 bits can say.
fn made() -> (Made, Vec<Event>) {
    let mut made = Made::new();
    let mut events = Vec::new();
    for i in 0..1000_u64 {
        let kind = if i % 2 == 0 { EventKind::Alloc } else { EventKind::Free };
        let time = 1000 + i * 7 + if i > 500 { 3 << 28 } else { 0 };
        events.push(event(time, (i % 3 == 0).into(), 64 + i / 2, kind));
    }
    events.push(Event {
        pfn: FAILED,
        order: 3,
        context: Context::Softirq,
        ..event(4 << 28, 1, 0, EventKind::Alloc)
    });
    for event in &events {
        made.event(event);
    }
    (made, events)
}

#[test]
fn every_version_and_compression_has_the_same_rows() {
    let (made, mut events) = made();
    // Times count from the first, and threads are numbered as they come.
    let mut tids = Vec::new();
    for event in &mut events {
        event.time_ns -= 1000;
        let tid = event.tid;
        event.tid = tids.iter().position(|&t| t == tid).unwrap_or_else(|| {
            tids.push(tid);
            tids.len() - 1
        }) as u32;
    }
    for file in [made.version_6(), made.version_7("none"), made.version_7("zstd"), made.version_7("zlib")] {
        let folder = Folder::new();
        let (trace, imported) = folder.import(&file).unwrap();
        assert_eq!((imported.recorder.name(), imported.late, imported.impossible), ("trace-cmd", 0, 0));
        assert_eq!((imported.other_events, imported.lost), (0, 0));
        same(&trace, &events);
        let meta = trace.meta();
        assert_eq!((meta.kernel.as_str(), meta.cpus), ("Linux 6.18.44", 2));
        assert_eq!(meta.gfp_bits, [("__GFP_FS".to_owned(), 7), ("__GFP_IO".to_owned(), 6)].into());
    }
}

#[test]
fn what_the_kernel_had_no_room_for_is_counted() {
    let (_, imported) = Folder::new().import(&made().0.missed(30).version_6()).unwrap();
    assert_eq!(imported.lost, 60, "before the last page of both CPUs");
}

#[test]
fn each_fault_has_its_sentence() {
    let folder = Folder::new();
    let (six, seven) = (made().0.version_6(), made().0.version_7("zstd"));
    let with = |file: &[u8], at: usize, bytes: &[u8]| {
        let mut file = file.to_vec();
        file[at..at + bytes.len()].copy_from_slice(bytes);
        file
    };
    assert!(folder.refused(&with(&six, 10, b"8")).contains("version 8"));
    assert!(folder.refused(&with(&six, 12, &[1])).contains("little-endian"));
    assert!(folder.refused(&with(&seven, 18, b"zstq")).contains("`zstq`"));
    assert!(folder.refused(&six[..600]).contains("cut short"));
    assert!(folder.refused(&six[..six.len() - 1]).contains("cut short"));
    assert!(folder.refused(&seven[..seven.len() - 1]).contains("cut short"));
    assert!(folder.refused(&made().0.clock("counter").version_6()).contains("`counter`"));
    assert!(folder.refused(&made().0.clock("x86-tsc").version_7("none")).contains("-C mono"));
    let end = six.len();
    assert!(folder.refused(&with(&six, end - 4096 + 8, &[0xff; 4])).contains("damaged"));
    assert!(folder.refused(&Made::new().version_6()).contains("no event of an allocation"));
}

#[test]
fn a_file_cut_anywhere_or_with_a_spoilt_byte_is_read_to_an_end() {
    let (made, _) = made();
    for file in [made.version_6(), made.version_7("none"), made.version_7("zstd")] {
        for end in (0..file.len()).step_by(7) {
            let _ =
                super::super::read_only(&pageyard_trace::source::Input::memory("cut", file[..end].to_vec()));
        }
        for at in (0..file.len()).step_by(3) {
            let mut spoilt = file.clone();
            spoilt[at] ^= 1 << (at % 8);
            let _ = super::super::read_only(&pageyard_trace::source::Input::memory("spoilt", spoilt));
        }
    }
}
