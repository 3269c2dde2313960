//! A trace as LLFree's replay reads one: its allocations and frees, in pages of each CPU. [`crate::llfree`] has the
//! bytes.

use std::io::Write;

use pageyard_trace::{Columns, Event, EventKind, Meta, Trace, TraceError, WholeFile};
use serde::Serialize;

use crate::llfree::{FIRST_RECORD, FLAGS, FRAMES_END, Header, PAGE_BYTES, RECORD_BYTES, RECORDS, Record};

/// Threads have numbers in a trace; LLFree's 0 is a CPU that is idle.
const FIRST_PID: u32 = 1;

/// The contents of the file, and what had no place in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ForLlfree {
    /// Allocations and frees.
    pub records: u64,
    /// Frees of what no record before allocated, because it was held when the recording began or its allocation was not
    /// seen. A replay that opens with all memory free passes over them.
    pub unknown_frees: u64,
    /// Records whose time is a microsecond or more too late, so that the order of the events remains.
    pub delayed: u64,
    /// Allocations with a gfp flag that has no place in a record.
    pub flags_left_out: u64,
    /// Requests that got nothing, left out.
    pub refused_left_out: u64,
    /// Blocks at frame 0, which means the end of a page there, left out.
    pub frame_0_left_out: u64,
    /// Events that are neither an allocation nor a free, left out.
    pub other_events_left_out: u64,
    /// Rows about moves, compaction and reclaim, left out.
    pub moves_left_out: u64,
    /// Whether a snapshot of memory before the recording was left out.
    pub snapshot_left_out: bool,
    /// Bytes of the file.
    pub bytes: u64,
}

/// Writes a trace for LLFree's replay. `progress` is told how many events were looked at, of how many.
///
/// Times are rounded down to microseconds. Where readers, which sort by time, would then see the events of two CPUs in
/// another order, the later one's time is raised. gfp flags are moved to the bits that LLFree gives them, by their
/// names. Threads have the recording's numbers plus one.
///
/// # Errors
/// The errors of the trace's readers; [`TraceError::Unsupported`] where an allocation or a free names a frame from
/// 64 GiB on or a time after 76 hours; [`TraceError::Unwritable`].
pub fn llfree(
    trace: &Trace,
    mut file: WholeFile,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<ForLlfree, TraceError> {
    let meta = trace.meta();
    let snapshot_left_out = trace.before()?.is_some();
    let moves_left_out = trace.moves()?.map_or(0, |moves| moves.rows());
    let mut done = ForLlfree { snapshot_left_out, moves_left_out, ..ForLlfree::default() };
    let unsupported = |event: &Event| TraceError::Unsupported {
        file: trace.name().to_owned(),
        what: format!(
            "an event after {:.0} s is of frame {}, and a trace of LLFree has room for 76 hours and for frames below {} \
             (64 GiB)",
            event.time_ns as f64 / 1e9,
            event.pfn,
            FRAMES_END
        ),
    };
    let rows = trace.rows()?;
    let flags = Flags::of(meta);
    let mut held = Held::new();
    let mut order = Order::default();
    let mut frames_end = trace.memory_end()?.unwrap_or(0);
    let mut pages = Pages::start(&mut file, meta.cpus)?;
    let mut events = trace.events(Columns::All)?;
    let (mut seen, mut batch) = (0, Vec::new());
    while events.next_batch(&mut batch)? {
        for event in &batch {
            match event.kind {
                EventKind::Alloc if event.failed() => done.refused_left_out += 1,
                EventKind::Alloc | EventKind::Free if event.pfn == 0 => done.frame_0_left_out += 1,
                EventKind::Alloc | EventKind::Free => {
                    frames_end = frames_end.max(event.pfn + (1 << event.order));
                    if event.kind == EventKind::Alloc {
                        held.take(event);
                    } else if !held.give_back(event) {
                        done.unknown_frees += 1;
                    }
                    let (gfp, all) = flags.moved(event.gfp);
                    done.flags_left_out += u64::from(!all);
                    let time_us = order.time_us(event);
                    done.delayed += u64::from(time_us > event.time_ns / 1000);
                    let record = Record {
                        time_us,
                        pfn: event.pfn,
                        is_alloc: event.kind == EventKind::Alloc,
                        order: event.order,
                        gfp,
                        pid: event.tid.saturating_add(FIRST_PID),
                    };
                    pages.add(event.cpu, record.to_bytes().ok_or_else(|| unsupported(event))?)?;
                    done.records += 1;
                }
                _ => done.other_events_left_out += 1,
            }
        }
        seen += batch.len() as u64;
        progress(seen, rows);
    }
    let written = pages.finish()?;
    let last_frame = frames_end.clamp(1, FRAMES_END) - 1;
    // The header counts itself, so that a reader notices where the last page is missing.
    let header = Header { pages: written, cores: meta.cpus, max_pfn: last_frame as u32 };
    file.overwrite_start(&header.to_start())?;
    done.bytes = file.finish()?;
    Ok(done)
}

/// The order of the records, which readers sort by time, and those of one time by CPU.
#[derive(Default)]
struct Order {
    last: (u64, u32),
}

impl Order {
    /// Returns the microsecond of an event: its own, or the first after it at which no earlier event comes after it.
    fn time_us(&mut self, event: &Event) -> u64 {
        let (last_us, last_cpu) = self.last;
        let earliest = if event.cpu < last_cpu { last_us + 1 } else { last_us };
        let time_us = (event.time_ns / 1000).max(earliest);
        self.last = (time_us, event.cpu);
        time_us
    }
}

/// Where each gfp flag of the recorded kernel goes.
struct Flags([Option<u8>; 32]);

impl Flags {
    /// A bit goes where LLFree has the flag that the recorded kernel calls it by. One without such a name stays where
    /// it is, unless LLFree has another flag there.
    fn of(meta: &Meta) -> Flags {
        let mut to: [Option<u8>; 32] = std::array::from_fn(|bit| (bit < 28).then_some(bit as u8));
        for (name, bit) in &meta.gfp_bits {
            let named = FLAGS.iter().find(|(known, _)| known == name).map(|(_, at)| *at);
            let is_taken = *bit >= 28 || FLAGS.iter().any(|(_, at)| at == bit);
            if let Some(to) = to.get_mut(usize::from(*bit)) {
                *to = named.or((!is_taken).then_some(*bit));
            }
        }
        Flags(to)
    }

    /// Returns flags at LLFree's bits, and whether all of them have a place.
    fn moved(&self, gfp: u32) -> (u32, bool) {
        let set = self.0.iter().enumerate().filter(|(bit, _)| gfp >> bit & 1 == 1);
        set.fold((0, true), |(moved, all), (_, to)| match to {
            Some(to) => (moved | 1 << to, all),
            None => (moved, false),
        })
    }
}

/// The frames that records have allocated and not freed, one bit each: 2 MiB.
struct Held(Vec<u64>);

impl Held {
    fn new() -> Held {
        Held(vec![0; FRAMES_END as usize / 64])
    }

    fn take(&mut self, event: &Event) {
        self.change(event, |word, block| word | block);
    }

    /// Frees a block; says whether its first frame was held.
    fn give_back(&mut self, event: &Event) -> bool {
        let was_held =
            self.0.get((event.pfn / 64) as usize).is_some_and(|word| word >> (event.pfn % 64) & 1 == 1);
        self.change(event, |word, block| word & !block);
        was_held
    }

    /// Changes the words of an aligned block: a part of one, or several whole ones.
    fn change(&mut self, event: &Event, change: impl Fn(u64, u64) -> u64) {
        let frames = 1_u64 << event.order;
        let block = if frames < 64 { ((1 << frames) - 1) << (event.pfn % 64) } else { u64::MAX };
        let first = (event.pfn / 64) as usize;
        for word in self.0.iter_mut().skip(first).take(frames.div_ceil(64) as usize) {
            *word = change(*word, block);
        }
    }
}

/// Writes pages as they are filled.
struct Pages<'a> {
    file: &'a mut WholeFile,
    /// The page of each CPU that is being filled; empty where there is none.
    filling: Vec<Vec<u8>>,
    /// Pages written, that of the header included.
    written: u32,
}

impl Pages<'_> {
    /// Leaves room for the header.
    fn start(file: &mut WholeFile, cpus: u32) -> Result<Pages<'_>, TraceError> {
        let mut pages = Pages { file, filling: vec![Vec::new(); cpus as usize], written: 0 };
        pages.write(Vec::new())?;
        Ok(pages)
    }

    fn add(&mut self, cpu: u32, record: [u8; RECORD_BYTES]) -> Result<(), TraceError> {
        // A row of another CPU than the host has is refused by the reader.
        let Some(page) = self.filling.get_mut(cpu as usize) else { return Ok(()) };
        if page.is_empty() {
            page.extend(cpu.to_le_bytes());
            page.resize(FIRST_RECORD, 0);
        }
        page.extend(record);
        if page.len() == FIRST_RECORD + RECORDS * RECORD_BYTES {
            let full = std::mem::take(page);
            self.write(full)?;
        }
        Ok(())
    }

    /// Writes the pages that are not full; returns how many there are.
    fn finish(mut self) -> Result<u32, TraceError> {
        for page in std::mem::take(&mut self.filling) {
            if !page.is_empty() {
                self.write(page)?;
            }
        }
        Ok(self.written)
    }

    fn write(&mut self, mut page: Vec<u8>) -> Result<(), TraceError> {
        page.resize(PAGE_BYTES, 0);
        self.written = self.written.saturating_add(1);
        self.file.write_all(&page).map_err(|why| self.file.refused(&why))
    }
}
