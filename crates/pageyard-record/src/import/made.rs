//! Files as `perf record` writes them, made up: for tests, and as seeds for fuzzing.

use pageyard_trace::Event;

/// The numbers that the made-up kernel has for its tracepoints.
const ALLOC: u16 = 653;
const FREE: u16 = 655;
const SET_PTE: u16 = 710;
const REMOVE_PTE: u16 = 711;

/// Fields that every tracepoint has.
const COMMON: &str = "format:\n\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
    \tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;\n\
    \tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;\n\
    \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n";

/// The composition of a file.
#[derive(Clone, Debug, Default)]
pub(crate) struct Made {
    records: Vec<u8>,
    /// The records are compressed, this many bytes of them in a record.
    compressed: Option<usize>,
    /// Bytes that are missing at the end of what is compressed.
    missing: usize,
    /// The file has an event that is not a tracepoint, so samples must be told apart by number.
    mixed: bool,
    /// The kernel names blocks by address.
    old: bool,
}

/// A sample's type: IDENTIFIER, IP, TID, TIME, CPU, PERIOD and RAW, as perf's own.
const SAMPLE_TYPE: u64 = 0x1_0587;

impl Made {
    /// Starts a file.
    pub(crate) fn new() -> Made {
        Made::default()
    }

    /// Makes the compressed data end inside its last record.
    #[cfg(test)]
    pub(crate) fn cut_inside(mut self) -> Made {
        self.missing = 5;
        self
    }

    /// Has the records compressed, `bytes` of them at a time, into records of type 81.
    pub(crate) fn compressed(mut self, bytes: usize) -> Made {
        self.compressed = Some(bytes);
        self
    }

    /// Adds an event of another kind.
    pub(crate) fn mixed(mut self) -> Made {
        self.mixed = true;
        self
    }

    /// Makes the kernel one that names blocks by address.
    #[cfg(test)]
    pub(crate) fn old(mut self) -> Made {
        self.old = true;
        self
    }

    /// Adds an allocation, or a free, at `event.time_ns`.
    pub(crate) fn event(&mut self, event: &Event) {
        let alloc = event.kind == pageyard_trace::EventKind::Alloc;
        self.sample(1 + u64::from(!alloc), event.time_ns, event.cpu, &raw(event));
    }

    /// Adds the two events of a frame's move.
    pub(crate) fn moved(&mut self, event: &Event, to: u64) {
        for (id, entry) in [(SET_PTE, (!event.pfn << 14 >> 5) | 30 << 59), (REMOVE_PTE, to << 12 | 0x867)] {
            let mut raw = common(id, event);
            raw.extend(0x7f00_0000_1000u64.to_le_bytes());
            raw.extend(entry.to_le_bytes());
            raw.extend(0u32.to_le_bytes());
            self.sample(1, event.time_ns, event.cpu, &raw);
        }
    }

    /// Adds a sample of the event with the number `id`.
    pub(crate) fn sample(&mut self, id: u64, time: u64, cpu: u32, raw: &[u8]) {
        let mut body = Vec::new();
        for word in [id, 0xffff_ffff_8100_0000, 7 | 7 << 32, time, cpu.into(), 1] {
            body.extend(word.to_le_bytes());
        }
        // The size is such that what follows is aligned.
        let size = (raw.len() + 4).next_multiple_of(8) - 4;
        body.extend((size as u32).to_le_bytes());
        body.extend(raw);
        body.resize(body.len() + size - raw.len(), 0);
        self.record(9, &body);
    }

    /// Adds a record.
    pub(crate) fn record(&mut self, kind: u32, body: &[u8]) {
        self.records.extend(kind.to_le_bytes());
        self.records.extend([0, 0]);
        self.records.extend((body.len() as u16 + 8).to_le_bytes());
        self.records.extend(body);
    }

    /// Says that all buffers have been looked at.
    pub(crate) fn end_round(&mut self) {
        self.record(68, &[]);
    }

    /// Returns the file.
    pub(crate) fn finish(self) -> Vec<u8> {
        let records = match self.compressed {
            None => self.records,
            Some(bytes) => compress(&self.records[..self.records.len() - self.missing], bytes),
        };
        let mut attrs = vec![attr(2, ALLOC.into(), SAMPLE_TYPE), attr(2, FREE.into(), SAMPLE_TYPE)];
        if self.mixed {
            attrs.push(attr(1, 9, SAMPLE_TYPE & !0x400));
        }
        let entry = attrs[0].len() as u64 + 16;
        let ids_at = 104 + entry * attrs.len() as u64;
        let data_at = ids_at + 8 * attrs.len() as u64;
        let parts = [
            (1, tracing(self.old)),
            (4, text("6.18.44-somewhere")),
            (6, text("x86_64")),
            (7, [2u32.to_le_bytes(), 2u32.to_le_bytes()].concat()),
        ];
        let mut out = b"PERFILE2".to_vec();
        let section = |at: u64, len: u64| [at.to_le_bytes(), len.to_le_bytes()].concat();
        out.extend(104u64.to_le_bytes());
        out.extend(entry.to_le_bytes());
        out.extend(section(104, entry * attrs.len() as u64));
        out.extend(section(data_at, records.len() as u64));
        out.extend(section(0, 0));
        let bits: u64 = parts.iter().map(|(bit, _)| 1 << bit).sum();
        out.extend(bits.to_le_bytes());
        out.extend([0; 24]);
        for (i, attr) in attrs.iter().enumerate() {
            out.extend(attr);
            out.extend(section(ids_at + 8 * i as u64, 8));
        }
        for i in 0..attrs.len() as u64 {
            out.extend((i + 1).to_le_bytes());
        }
        out.extend(records);
        let mut at = out.len() as u64 + 16 * parts.len() as u64;
        for (_, part) in &parts {
            out.extend(section(at, part.len() as u64));
            at += part.len() as u64;
        }
        for (_, part) in &parts {
            out.extend(part);
        }
        out
    }
}

/// Returns the bytes of an allocation or a free, as the kernel writes them.
pub(super) fn raw(event: &Event) -> Vec<u8> {
    let alloc = event.kind == pageyard_trace::EventKind::Alloc;
    let mut raw = common(if alloc { ALLOC } else { FREE }, event);
    raw.extend(event.pfn.to_le_bytes());
    raw.extend(u32::from(event.order).to_le_bytes());
    if alloc {
        raw.extend([0; 4]);
        raw.extend(u64::from(event.gfp).to_le_bytes());
        raw.extend(i32::from(event.migratetype).to_le_bytes());
    }
    raw
}

fn common(id: u16, event: &Event) -> Vec<u8> {
    let context = [0, 0x10, 0x08, 0x40][event.context as usize];
    let mut raw = id.to_le_bytes().to_vec();
    raw.push(context | u8::from(event.irqs_off));
    raw.push(0);
    raw.extend((1000 + event.tid).to_le_bytes());
    raw
}

fn attr(kind: u32, config: u64, sample_type: u64) -> Vec<u8> {
    let mut attr = kind.to_le_bytes().to_vec();
    attr.extend(128u32.to_le_bytes());
    for word in [config, 1, sample_type, 4, 0] {
        attr.extend(word.to_le_bytes());
    }
    attr.resize(128, 0);
    attr
}

fn text(text: &str) -> Vec<u8> {
    let mut out = 64u32.to_le_bytes().to_vec();
    out.extend(text.as_bytes());
    out.resize(68, 0);
    out
}

fn tracing(old: bool) -> Vec<u8> {
    let mut out = b"\x17\x08\x44tracing0.6\0\0\x08".to_vec();
    out.extend(4096u32.to_le_bytes());
    out.extend(described(old));
    out
}

/// Returns what follows the machine in a description, up to where events or options can follow.
pub(super) fn described(old: bool) -> Vec<u8> {
    let mut out = Vec::new();
    for name in ["header_page", "header_event"] {
        out.extend(name.as_bytes());
        out.push(0);
        out.extend(sized("x"));
    }
    out.extend(0u32.to_le_bytes());
    out.extend(systems(old));
    // No symbols, no texts, no names of processes.
    out.extend([0; 16]);
    out
}

fn sized(text: &str) -> Vec<u8> {
    [&(text.len() as u64).to_le_bytes()[..], text.as_bytes()].concat()
}

/// Returns the descriptions of the made-up kernel's tracepoints.
pub(super) fn systems(old: bool) -> Vec<u8> {
    let pfn = if old { "struct page * page" } else { "unsigned long pfn" };
    let alloc = format!(
        "name: mm_page_alloc\nID: {ALLOC}\n{COMMON}\tfield:{pfn};\toffset:8;\tsize:8;\tsigned:0;\n\
         \tfield:unsigned int order;\toffset:16;\tsize:4;\tsigned:0;\n\
         \tfield:unsigned long gfp_flags;\toffset:24;\tsize:8;\tsigned:0;\n\
         \tfield:int migratetype;\toffset:32;\tsize:4;\tsigned:1;\n\nprint fmt: \"\", \
         {{(unsigned long)((gfp_t)0x40u), \"__GFP_IO\"}}, {{(unsigned long)((1UL) << (7)), \"__GFP_FS\"}}\n"
    );
    let free = format!(
        "name: mm_page_free\nID: {FREE}\n{COMMON}\tfield:{pfn};\toffset:8;\tsize:8;\tsigned:0;\n\
         \tfield:unsigned int order;\toffset:16;\tsize:4;\tsigned:0;\n\nprint fmt: \"\"\n"
    );
    let pte = |name: &str, id: u16| {
        format!(
            "name: {name}\nID: {id}\n{COMMON}\tfield:unsigned long addr;\toffset:8;\tsize:8;\tsigned:0;\n\
             \tfield:unsigned long pte;\toffset:16;\tsize:8;\tsigned:0;\n\
             \tfield:int order;\toffset:24;\tsize:4;\tsigned:1;\n\nprint fmt: \"\"\n"
        )
    };
    let mut out = 2u32.to_le_bytes().to_vec();
    out.extend(b"kmem\0");
    out.extend(2u32.to_le_bytes());
    out.extend(sized(&alloc));
    out.extend(sized(&free));
    out.extend(b"migrate\0");
    out.extend(2u32.to_le_bytes());
    out.extend(sized(&pte("set_migration_pte", SET_PTE)));
    out.extend(sized(&pte("remove_migration_pte", REMOVE_PTE)));
    out
}

/// Compresses records as one stream, whose pieces are cut anywhere.
fn compress(records: &[u8], bytes: usize) -> Vec<u8> {
    let mut out = Made::new();
    let mut encoder = zstd::stream::Encoder::new(Vec::new(), 1).expect("memory for compressing");
    for piece in records.chunks(bytes) {
        use std::io::Write;
        encoder.write_all(piece).and_then(|()| encoder.flush()).expect("memory to write to");
        let done = std::mem::take(encoder.get_mut());
        for part in done.chunks(60_000) {
            out.record(81, part);
        }
    }
    out.records
}
