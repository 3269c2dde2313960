//! Decoding an event's bytes.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use pageyard::Context;
use pageyard_trace::MAX_FRAMES;
use pageyard_trace::{FAILED, MAX_ORDER};

use super::entry::Entry;
use super::format::{Format, Slot};
use super::known::{Known, Tracepoint};

// The bits of `common_flags`. # Linux: `enum trace_flag_type`; the bits used here have kept their places since 4.1.
const IRQS_OFF: u64 = 0x01;
const HARDIRQ: u64 = 0x08;
const SOFTIRQ: u64 = 0x10;
const NMI: u64 = 0x40;

/// Threads that are distinguished; Linux cannot have more.
const MAX_TIDS: usize = 1 << 22;

/// More CPUs than any Linux can have.
const MAX_CPUS: u32 = 8192;

/// The most fields that one tracepoint is read for.
const FIELDS: usize = 5;

/// Why an event is not in the trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Skipped {
    /// It is of a kind that a trace does not hold.
    Other,
    /// It is impossible: an order above 10, a frame beyond memory, fewer bytes than its kind has.
    Impossible,
}

/// Where one kind of event keeps what is needed of it.
#[derive(Clone, Copy, Debug)]
struct Layout {
    known: Known,
    fields: [Slot; FIELDS],
    flags: Slot,
    pid: Slot,
}

/// Makes entries of the bytes of events.
#[derive(Debug, Default)]
pub(crate) struct Decoder {
    /// Layouts by the kernel's number for them, minus the lowest of those numbers.
    layouts: Vec<Option<Layout>>,
    lowest: u16,
    tids: HashMap<u32, u32, BuildHasherDefault<NumberHasher>>,
    /// The thread looked up last: neighbours in a buffer are mostly of one thread.
    last_tid: Option<(u32, u32)>,
    /// The host's threads, by number.
    threads: Vec<u32>,
    /// The first frame number past memory.
    memory_end: u64,
}

/// Spreads the kernel's numbers, which are small and dense. A file crafted to make them collide only slows its own
/// import, and there are never many numbers.
#[derive(Debug, Default)]
pub(crate) struct NumberHasher(u64);

impl Hasher for NumberHasher {
    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u32(byte.into());
        }
    }

    fn write_u32(&mut self, n: u32) {
        self.write_u64(n.into());
    }

    fn write_u64(&mut self, n: u64) {
        self.0 = (self.0.rotate_left(5) ^ n).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    fn finish(&self) -> u64 {
        // Tables look at the lowest bits, and a product has its best ones above.
        self.0.rotate_left(26)
    }
}

impl Decoder {
    /// Makes a decoder that knows no event yet.
    pub(crate) fn new() -> Decoder {
        Decoder { memory_end: MAX_FRAMES, ..Decoder::default() }
    }

    /// Sets the first frame number past memory: events beyond it are impossible.
    pub(crate) fn set_memory_end(&mut self, end: u64) {
        self.memory_end = end.min(MAX_FRAMES);
    }

    /// Learns the layout of a tracepoint.
    ///
    /// # Errors
    /// The name of a field that it should have and does not.
    pub(crate) fn learn(&mut self, tracepoint: &Tracepoint, format: &Format) -> Result<(), &'static str> {
        let mut fields = [Slot::default(); FIELDS];
        for (slot, name) in fields.iter_mut().zip(tracepoint.fields) {
            *slot = format.slot(name);
            if !slot.exists() {
                return Err(name);
            }
        }
        let layout = Layout {
            known: tracepoint.known,
            fields,
            flags: format.slot("common_flags"),
            pid: format.slot("common_pid"),
        };
        if self.layouts.is_empty() {
            self.lowest = format.id;
        }
        if format.id < self.lowest {
            let more = usize::from(self.lowest - format.id);
            self.layouts.splice(0..0, std::iter::repeat_n(None, more));
            self.lowest = format.id;
        }
        let index = usize::from(format.id - self.lowest);
        if self.layouts.len() <= index {
            self.layouts.resize(index + 1, None);
        }
        self.layouts[index] = Some(layout);
        Ok(())
    }

    /// Makes an entry of the bytes that a tracepoint wrote.
    #[inline]
    pub(crate) fn decode(&mut self, raw: &[u8], time: u64, cpu: u32) -> Result<Entry, Skipped> {
        let id = raw.get(..2).map(|b| u16::from_le_bytes([b[0], b[1]])).ok_or(Skipped::Impossible)?;
        let index = usize::from(id.wrapping_sub(self.lowest));
        let Some(Some(layout)) = self.layouts.get(index).copied() else { return Err(Skipped::Other) };
        self.entry(&layout, raw, time, cpu).ok_or(Skipped::Impossible)
    }

    fn entry(&mut self, layout: &Layout, raw: &[u8], time: u64, cpu: u32) -> Option<Entry> {
        if cpu >= MAX_CPUS {
            return None;
        }
        let mut field = [0; FIELDS];
        for (value, slot) in field.iter_mut().zip(&layout.fields) {
            *value = slot.get(raw)?;
        }
        let tid = layout.pid.get(raw)? as u32;
        let mut entry = Entry {
            time,
            pfn: field[0],
            to: 0,
            a: 0,
            b: 0,
            cpu,
            tid: self.renumber(tid)?,
            known: layout.known,
            order: 0,
            migratetype: -1,
            flags: flags(layout.flags.get(raw)?),
        };
        match layout.known {
            Known::Alloc => {
                entry.order = order(field[1])?;
                entry.a = field[2] as u32;
                entry.migratetype = migratetype(field[3]);
                // A 32-bit kernel has its own all-ones value.
                if field[0] == FAILED {
                    return Some(entry);
                }
                self.placed(&entry).then_some(entry)
            }
            Known::Free => {
                entry.order = order(field[1])?;
                self.placed(&entry).then_some(entry)
            }
            Known::PcpuDrain | Known::AllocZoneLocked => {
                entry.order = order(field[1])?;
                entry.migratetype = migratetype(field[2]);
                self.placed(&entry).then_some(entry)
            }
            Known::AllocExtfrag => {
                entry.order = order(field[1])?;
                entry.migratetype = migratetype(field[2]);
                entry.a = u32::from(order(field[3])?) << 8 | u32::from(u8::try_from(field[4]).ok()?);
                self.placed(&entry).then_some(entry)
            }
            Known::IsolateMigrate | Known::IsolateFree => {
                entry.to = field[1];
                entry.a = u32::try_from(field[2]).ok()?;
                entry.b = u32::try_from(field[3]).ok()?;
                (entry.pfn <= entry.to && entry.to <= MAX_FRAMES).then_some(entry)
            }
            Known::Migrated => {
                entry.pfn = 0;
                entry.a = u32::try_from(field[0]).ok()?;
                entry.b = u32::try_from(field[1]).ok()?;
                Some(entry)
            }
            Known::CompactBegin | Known::CompactEnd => {
                entry.to = field[1];
                (entry.pfn <= MAX_FRAMES && entry.to <= MAX_FRAMES).then_some(entry)
            }
            Known::ReclaimBegin => {
                entry.pfn = 0;
                // The background reclaimer may be asked for nothing in particular.
                entry.order = order(field[0]).unwrap_or(0);
                Some(entry)
            }
            Known::ReclaimEnd => {
                entry.pfn = 0;
                entry.a = u32::try_from(field[0]).unwrap_or(u32::MAX);
                Some(entry)
            }
            // What the mapping names is examined once the events are sorted.
            Known::SetMigrationPte
            | Known::RemoveMigrationPte
            | Known::SetMigrationPmd
            | Known::RemoveMigrationPmd => {
                entry.to = field[1];
                Some(entry)
            }
            Known::Moved => None,
        }
    }

    /// Makes an entry of a move that a program in the kernel saw; `None` where it is impossible.
    pub(crate) fn moved(
        &mut self,
        time: u64,
        cpu: u32,
        tid: u32,
        pfn: u64,
        to: u64,
        order: u64,
    ) -> Option<Entry> {
        let order = self::order(order)?;
        let known = Known::Moved;
        let tid = self.renumber(tid)?;
        let entry = Entry { time, pfn, to, a: 0, b: 0, cpu, tid, known, order, migratetype: -1, flags: 0 };
        let is_possible = cpu < MAX_CPUS && self.placed(&entry) && self.placed(&Entry { pfn: to, ..entry });
        is_possible.then_some(entry)
    }

    /// Returns whether a block of the entry's order can start at its frame.
    fn placed(&self, entry: &Entry) -> bool {
        let frames = 1u64 << entry.order;
        entry.pfn & (frames - 1) == 0
            && entry.pfn.checked_add(frames).is_some_and(|end| end <= self.memory_end)
    }

    /// Returns which thread of the host has a number in the trace.
    pub(crate) fn host_thread(&self, number: u32) -> Option<u32> {
        self.threads.get(number as usize).copied()
    }

    /// Returns the numbers of those threads of the host that events named so far, lowest first.
    pub(crate) fn numbers_of(&self, host_threads: &[u32]) -> Vec<u32> {
        let mut numbers: Vec<u32> =
            host_threads.iter().filter_map(|tid| self.tids.get(tid)).copied().collect();
        numbers.sort_unstable();
        numbers
    }

    /// Returns the number that a thread has in the trace.
    #[inline]
    fn renumber(&mut self, tid: u32) -> Option<u32> {
        if let Some((of, number)) = self.last_tid
            && of == tid
        {
            return Some(number);
        }
        let next = self.tids.len();
        let number = match self.tids.get(&tid) {
            Some(&number) => number,
            None if next < MAX_TIDS => {
                self.threads.push(tid);
                *self.tids.entry(tid).or_insert(next as u32)
            }
            None => return None,
        };
        self.last_tid = Some((tid, number));
        Some(number)
    }
}

fn order(value: u64) -> Option<u8> {
    u8::try_from(value).ok().filter(|&o| o <= MAX_ORDER)
}

fn migratetype(value: u64) -> i8 {
    if value <= 5 { value as i8 } else { -1 }
}

/// Returns the kernel's flags of an event in a context.
pub(crate) fn common_flags(context: Context, irqs_off: bool) -> u64 {
    let context = match context {
        Context::Task => 0,
        Context::Softirq => SOFTIRQ,
        Context::Hardirq => HARDIRQ,
        Context::Nmi => NMI,
    };
    context | if irqs_off { IRQS_OFF } else { 0 }
}

/// Turns the kernel's flags into the entry's.
fn flags(common: u64) -> u8 {
    // The innermost counts: an NMI may interrupt a hard interrupt, which may interrupt a soft one.
    let context = if common & NMI != 0 {
        3
    } else if common & HARDIRQ != 0 {
        2
    } else if common & SOFTIRQ != 0 {
        1
    } else {
        0
    };
    context | if common & IRQS_OFF != 0 { Entry::IRQS_OFF } else { 0 }
}

#[cfg(test)]
mod tests {
    use pageyard::Context;

    use super::super::known::{REQUIRED, WANTED};
    use super::*;

    const ALLOC: &str = "name: mm_page_alloc\nID: 653\nformat:\n\
        field:unsigned short common_type; offset:0; size:2; signed:0;\n\
        field:unsigned char common_flags; offset:2; size:1; signed:0;\n\
        field:unsigned char common_preempt_count; offset:3; size:1; signed:0;\n\
        field:int common_pid; offset:4; size:4; signed:1;\n\
        field:unsigned long pfn; offset:8; size:8; signed:0;\n\
        field:unsigned int order; offset:16; size:4; signed:0;\n\
        field:unsigned long gfp_flags; offset:24; size:8; signed:0;\n\
        field:int migratetype; offset:32; size:4; signed:1;\n\nprint fmt: \"\"\n";

    fn decoder() -> Decoder {
        let mut decoder = Decoder::new();
        decoder.learn(&REQUIRED[0], &Format::parse(ALLOC).unwrap()).unwrap();
        decoder
    }

    fn raw(flags: u8, tid: u32, pfn: u64, order: u32, gfp: u64, migratetype: i32) -> Vec<u8> {
        let mut raw = vec![0; 36];
        raw[..2].copy_from_slice(&653u16.to_le_bytes());
        raw[2] = flags;
        raw[4..8].copy_from_slice(&tid.to_le_bytes());
        raw[8..16].copy_from_slice(&pfn.to_le_bytes());
        raw[16..20].copy_from_slice(&order.to_le_bytes());
        raw[24..32].copy_from_slice(&gfp.to_le_bytes());
        raw[32..36].copy_from_slice(&migratetype.to_le_bytes());
        raw
    }

    #[test]
    fn an_allocation_is_read_whole() {
        let mut decoder = decoder();
        let event = decoder.decode(&raw(0x11, 77, 512, 9, 0x140cca, 1), 5, 3).unwrap().event(2).unwrap();
        assert_eq!((event.time_ns, event.pfn, event.order, event.gfp), (3, 512, 9, 0x140cca));
        assert_eq!((event.cpu, event.tid, event.migratetype), (3, 0, 1));
        assert_eq!((event.context, event.irqs_off), (Context::Softirq, true));
        let other = decoder.decode(&raw(0, 78, 512, 9, 0, 1), 5, 3).unwrap();
        let again = decoder.decode(&raw(0, 77, 512, 9, 0, 1), 5, 3).unwrap();
        assert_eq!((other.tid, again.tid), (1, 0));
    }

    #[test]
    fn the_innermost_context_counts() {
        let mut decoder = decoder();
        let mut context =
            |flags| decoder.decode(&raw(flags, 1, 0, 0, 0, 0), 0, 0).unwrap().event(0).unwrap().context;
        assert_eq!(context(0x20), Context::Task);
        assert_eq!(context(0x10), Context::Softirq);
        assert_eq!(context(0x18), Context::Hardirq);
        assert_eq!(context(0x58), Context::Nmi);
    }

    #[test]
    fn a_failed_allocation_has_no_frame() {
        let event = decoder().decode(&raw(0, 1, u64::MAX, 9, 0, 1), 0, 0).unwrap().event(0).unwrap();
        assert!(event.failed());
    }

    #[test]
    fn what_cannot_be_is_told_from_what_is_unknown() {
        let mut decoder = decoder();
        decoder.set_memory_end(1024);
        for bad in [
            raw(0, 1, 0, 11, 0, 0),
            raw(0, 1, 1, 1, 0, 0),
            raw(0, 1, 1024, 0, 0, 0),
            raw(0, 1, u64::MAX - 1, 1, 0, 0),
            raw(0, 1, 0, 0, 0, 0)[..35].to_vec(),
            vec![],
        ] {
            assert_eq!(decoder.decode(&bad, 0, 0), Err(Skipped::Impossible), "{bad:?}");
        }
        assert_eq!(decoder.decode(&raw(0, 1, 0, 0, 0, 0), 0, 9000), Err(Skipped::Impossible));
        assert_eq!(decoder.decode(&[0, 0], 0, 0), Err(Skipped::Other));
        assert_eq!(decoder.decode(&[0xff, 0xff, 0], 0, 0), Err(Skipped::Other));
        assert_eq!(decoder.decode(&raw(0, 1, 0, 0, 0, 77), 0, 0).unwrap().migratetype, -1);
    }

    #[test]
    fn tracepoints_are_learnt_in_any_order_and_each_field_is_needed() {
        let mut decoder = Decoder::new();
        assert_eq!(decoder.learn(&WANTED[0], &Format::parse(ALLOC).unwrap()), Err("alloc_order"));
        for id in [653u16, 2, 9000] {
            let text = ALLOC.replace("ID: 653", &format!("ID: {id}"));
            decoder.learn(&REQUIRED[0], &Format::parse(&text).unwrap()).unwrap();
        }
        for (id, known) in
            [(2u16, true), (653, true), (9000, true), (0, false), (3, false), (654, false), (9001, false)]
        {
            let mut raw = raw(0, 1, 0, 0, 0, 0);
            raw[..2].copy_from_slice(&id.to_le_bytes());
            assert_eq!(decoder.decode(&raw, 0, 0).is_ok(), known, "{id}");
        }
    }
}
