//! The records of a trace of LLFree.

use bytes::Bytes;

use pageyard::PAGEBLOCK_ORDER;
use pageyard_trace::TraceError;
use pageyard_trace::source::Input;

use crate::llfree::{
    FIRST_RECORD, FLAGS, FRAMES_END, Header, PAGE_BYTES, RECORD_BYTES, RECORDS, Record as Row,
};
use crate::tracepoint::{Format, REQUIRED};

use super::super::kernel::{Formats, Kernel, MAX_CPUS, Recorder};
use super::super::records::{Record, Records, Sample};
use super::super::section::word;

// Where a made-up sample has what the decoder asks for, and how long it is.
const PID_AT: usize = 4;
const PFN_AT: usize = 8;
const ORDER_AT: usize = 16;
const GFP_AT: usize = 20;
const MIGRATETYPE_AT: usize = 24;
const BYTES: usize = 28;

/// The migratetypes that two bits of the flags ask for, from `__GFP_MOVABLE` on. # Linux: `gfp_migratetype`.
const MIGRATETYPES: [i32; 4] = [0, 1, 2, -1];

/// Returns whether a file that begins like this is a trace of LLFree. Its format has no magic number: it has a number
/// of CPUs, a last frame, and then zeros, where other recorders' files have text or numbers.
pub(in super::super) fn looks_like(start: &[u8; Header::START]) -> bool {
    let header = Header::from_start(start);
    (1..=MAX_CPUS).contains(&header.cores) && header.max_pfn > 0 && start.ends_with(&[0; 4])
}

/// Reads records, page by page. A page has those of one CPU, in order; pages come as they were filled, so the file has
/// no rounds.
pub(in super::super) struct LlfreeRecords<'a> {
    input: &'a Input,
    kernel: Kernel,
    header: Header,
    /// The page that is read, how many pages there are up to its end, its CPU, and its next record.
    page: Bytes,
    pages: u64,
    cpu: u32,
    next: usize,
    raw: [u8; BYTES],
}

impl<'a> LlfreeRecords<'a> {
    /// Opens a file that [`looks_like`] one.
    ///
    /// # Errors
    /// When it is cut short, or its memory has frames that no record can name.
    pub(in super::super) fn new(
        input: &'a Input,
        start: &[u8; Header::START],
    ) -> Result<LlfreeRecords<'a>, TraceError> {
        let header = Header::from_start(start);
        let (pages, rest) = (input.size() / PAGE_BYTES as u64, input.size() % PAGE_BYTES as u64);
        // Whether the header counts itself is known of no file.
        if rest > 0 || pages < u64::from(header.pages) {
            return Err(damaged(
                input,
                format!(
                    "a trace of LLFree has pages of 4096 bytes, {} of them by this one's header, and here are {pages} and \
                     {rest} bytes: it is cut short",
                    header.pages
                ),
            ));
        }
        if u64::from(header.max_pfn) >= FRAMES_END {
            let what = format!(
                "memory ends at frame {}, and records of LLFree's traces have 24 bits for a frame: which of several \
                 frames they name cannot be told",
                header.max_pfn
            );
            return Err(TraceError::Unsupported { file: input.label().to_owned(), what });
        }
        let mut kernel =
            Kernel::new(input.label(), Recorder::Llfree, formats())?.on(None, None, header.cores);
        // LLFree rounds up as well.
        let frames = u64::from(header.max_pfn) + 1;
        kernel.memory_end = Some(frames.next_multiple_of(PAGEBLOCK_ORDER.frames().0));
        Ok(LlfreeRecords {
            input,
            kernel,
            header,
            page: Bytes::new(),
            pages: 1,
            cpu: 0,
            next: 0,
            raw: [0; BYTES],
        })
    }

    /// Returns the next record of the page; `None` after its last.
    fn record(&mut self) -> Option<Row> {
        let at = FIRST_RECORD + self.next * RECORD_BYTES;
        let row = Row::from_bytes(self.page.get(at..)?.first_chunk()?);
        self.next = if row.is_some() { self.next + 1 } else { RECORDS };
        row
    }

    /// Begins the next page; says whether there is one.
    fn turn(&mut self) -> Result<bool, TraceError> {
        let at = self.pages * PAGE_BYTES as u64;
        if at >= self.input.size() {
            return Ok(false);
        }
        self.page = self.input.read(at, PAGE_BYTES)?;
        self.cpu = word(&self.page, 0).unwrap_or(u32::MAX);
        (self.pages, self.next) = (self.pages + 1, 0);
        if self.cpu >= self.header.cores {
            let what = format!(
                "the page at byte {at} is of CPU {}, and the header has {} CPUs",
                self.cpu, self.header.cores
            );
            return Err(damaged(self.input, what));
        }
        Ok(true)
    }
}

impl Records for LlfreeRecords<'_> {
    fn next(&mut self) -> Result<Option<Record<'_>>, TraceError> {
        loop {
            if let Some(row) = self.record() {
                self.raw = sample(&row);
                let time = row.time_us * 1000;
                return Ok(Some(Record::Sample(Sample { raw: &self.raw, time, cpu: self.cpu })));
            }
            if !self.turn()? {
                return Ok(None);
            }
        }
    }

    fn done(&self) -> u64 {
        self.pages * PAGE_BYTES as u64
    }

    fn all(&self) -> u64 {
        self.input.size()
    }

    fn kernel(&self) -> &Kernel {
        &self.kernel
    }
}

fn damaged(input: &Input, what: String) -> TraceError {
    TraceError::Damaged { file: input.label().to_owned(), row: None, what }
}

/// Describes the bytes that [`sample`] makes.
fn formats() -> Formats {
    let flags: Vec<_> =
        FLAGS.iter().map(|(name, bit)| format!("{{{:#x}, \"{name}\"}}", 1u32 << bit)).collect();
    let fields = [
        ("common_pid", PID_AT, 4),
        ("pfn", PFN_AT, 8),
        ("order", ORDER_AT, 4),
        ("gfp_flags", GFP_AT, 4),
        ("migratetype", MIGRATETYPE_AT, 4),
    ];
    let field = |(name, at, size): (&str, usize, usize)| {
        format!("field:int {name}; offset:{at}; size:{size}; signed:{};\n", u8::from(name == "migratetype"))
    };
    let fields: String = fields.into_iter().map(field).collect();
    let format = |(id, name): (usize, &str)| {
        Format::parse(&format!("name: {name}\nID: {id}\nformat:\n{fields}print fmt: {}\n", flags.join(", ")))
    };
    REQUIRED.iter().enumerate().map(|(id, tracepoint)| (tracepoint, format((id, tracepoint.name)))).collect()
}

/// Puts the sample of a record together.
fn sample(row: &Row) -> [u8; BYTES] {
    let mut raw = [0; BYTES];
    let mut put = |at: usize, bytes: &[u8]| raw[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, &u16::from(!row.is_alloc).to_le_bytes());
    put(PID_AT, &row.pid.to_le_bytes());
    put(PFN_AT, &row.pfn.to_le_bytes());
    put(ORDER_AT, &u32::from(row.order).to_le_bytes());
    put(GFP_AT, &row.gfp.to_le_bytes());
    put(MIGRATETYPE_AT, &MIGRATETYPES[(row.gfp >> 3 & 3) as usize].to_le_bytes());
    raw
}
