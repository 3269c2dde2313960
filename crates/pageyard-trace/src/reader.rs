//! Reading `events.parquet`, a batch at a time, and refusing impossible rows.

use pageyard::Context;

use crate::error::TraceError;
use crate::event::{Columns, Event, EventKind, FAILED, MAX_ORDER};
use crate::meta::Meta;
use crate::pq::{ChunkReader, ColumnSpec, Kind, Names, Table};

/// Rows handed over at a time: few enough that a batch and its columns, 85 bytes a row, stay in a core's own cache.
pub const BATCH_ROWS: usize = 4 << 10;

const KINDS: [&str; 5] = ["alloc", "free", "alloc_extfrag", "pcpu_drain", "alloc_zone_locked"];
const CONTEXTS: [&str; 4] = ["task", "softirq", "hardirq", "nmi"];

// The columns' places in `event_columns`.
const TIME: usize = 0;
const CPU: usize = 1;
const EVENT: usize = 2;
const PFN: usize = 3;
const ORDER: usize = 4;
const GFP: usize = 5;
const MIGRATETYPE: usize = 6;
const CONTEXT: usize = 7;
const TID: usize = 8;
const IRQS_OFF: usize = 9;

/// An event to be overwritten.
const BLANK: Event = Event {
    time_ns: 0,
    pfn: 0,
    gfp: 0,
    tid: 0,
    cpu: 0,
    kind: EventKind::Alloc,
    order: 0,
    migratetype: 0,
    context: Context::Task,
    irqs_off: false,
};

/// Returns the columns that format 1 has, the two that a replay does not need last.
pub(crate) fn event_columns(columns: Columns) -> Vec<ColumnSpec> {
    let column = |name, kind| ColumnSpec { name, kind };
    let mut specs = vec![
        column("time_ns", Kind::Int(64, false)),
        column("cpu", Kind::Int(32, false)),
        column("event", Kind::Names(Names::new(&KINDS))),
        column("pfn", Kind::Int(64, false)),
        column("order", Kind::Int(8, false)),
        column("gfp", Kind::Int(32, false)),
        column("migratetype", Kind::Int(8, true)),
        column("context", Kind::Names(Names::new(&CONTEXTS))),
    ];
    if columns == Columns::All {
        specs.push(column("tid", Kind::Int(32, false)));
        specs.push(column("irqs_off", Kind::Bool));
    }
    specs
}

/// Reads the events of a trace in order, checking that each is possible.
pub struct EventReader {
    table: Table,
    names: [Names; 2],
    columns: Columns,
    chunks: Vec<ChunkReader>,
    /// The row group to open next.
    next_group: usize,
    /// The next row to read, and the first row past the open row group.
    row: u64,
    group_end: u64,
    bounds: Bounds,
    expected: Option<u64>,
    /// The error that stopped the reader, so that asking again gives the same answer.
    fault: Option<TraceError>,
}

/// The bounds that events are checked against.
#[derive(Clone, Copy, Debug)]
struct Bounds {
    cpus: u32,
    /// The first frame number past memory.
    memory_end: u64,
    /// The time of the event before.
    time: u64,
}

impl EventReader {
    pub(crate) fn new(
        table: Table,
        columns: Columns,
        meta: &Meta,
        memory_end: Option<u64>,
    ) -> Result<EventReader, TraceError> {
        let [Kind::Names(events), Kind::Names(contexts)] = [table.kind(EVENT), table.kind(CONTEXT)] else {
            unreachable!("both columns hold names")
        };
        let names = [events.clone(), contexts.clone()];
        Ok(EventReader {
            table,
            names,
            columns,
            chunks: Vec::new(),
            next_group: 0,
            row: 0,
            group_end: 0,
            bounds: Bounds {
                cpus: meta.cpus,
                memory_end: memory_end.unwrap_or(crate::snapshot::MAX_FRAMES),
                time: 0,
            },
            expected: meta.events,
            fault: None,
        })
    }

    /// Returns how many events there are.
    #[must_use]
    pub fn rows(&self) -> u64 {
        self.table.rows()
    }

    /// Returns how many events have been read.
    #[must_use]
    pub fn rows_read(&self) -> u64 {
        self.row
    }

    /// Replaces `out` by the next events, at most [`BATCH_ROWS`]; `false` when there are none left.
    ///
    /// # Errors
    /// At the first row that is damaged or cannot be true; `out` is then empty, and asking again gives the same error.
    /// A trace with more or fewer rows than its `meta.json` says fails when the rows have been read.
    pub fn next_batch(&mut self, out: &mut Vec<Event>) -> Result<bool, TraceError> {
        let read = match &self.fault {
            Some(fault) => Err(fault.clone()),
            None => self.read_batch(out),
        };
        if !matches!(read, Ok(true)) {
            out.clear();
        }
        if let Err(fault) = &read {
            self.fault = Some(fault.clone());
        }
        read
    }

    /// Replaces `out` by the next events, or leaves it as it is if there are none left.
    fn read_batch(&mut self, out: &mut Vec<Event>) -> Result<bool, TraceError> {
        while self.row == self.group_end {
            let Some(group) = self.table.group(self.next_group) else { return self.finish().map(|()| false) };
            self.next_group += 1;
            self.group_end += group.rows;
            let columns = if self.columns == Columns::All { IRQS_OFF + 1 } else { CONTEXT + 1 };
            self.chunks.clear();
            self.chunks.extend((0..columns).map(|i| self.table.chunk(group, i)));
        }
        let n = (self.group_end - self.row).min(BATCH_ROWS as u64) as usize;
        for (i, chunk) in self.chunks.iter_mut().enumerate() {
            chunk.read(n, self.table.label(), self.row, self.table.column_name(i))?;
        }
        self.assemble(n, out)?;
        self.row += n as u64;
        Ok(true)
    }

    fn finish(&self) -> Result<(), TraceError> {
        match self.expected {
            Some(expected) if expected != self.row => Err(TraceError::Inconsistent {
                file: self.table.label().to_owned(),
                row: None,
                what: format!("it has {} rows, and meta.json says {expected}", self.row),
            }),
            _ => Ok(()),
        }
    }

    /// Makes events of the `n` values that every column has decoded.
    fn assemble(&mut self, n: usize, out: &mut Vec<Event>) -> Result<(), TraceError> {
        let c = &self.chunks;
        let (time, pfn) = (&c[TIME].as_i64()[..n], &c[PFN].as_i64()[..n]);
        let (cpu, event, order) = (&c[CPU].as_i32()[..n], &c[EVENT].as_i32()[..n], &c[ORDER].as_i32()[..n]);
        let (gfp, migratetype) = (&c[GFP].as_i32()[..n], &c[MIGRATETYPE].as_i32()[..n]);
        let context = &c[CONTEXT].as_i32()[..n];
        let (tid, irqs_off) = match self.columns {
            Columns::All => (&c[TID].as_i32()[..n], &c[IRQS_OFF].as_bool()[..n]),
            Columns::Replay => (&[][..], &[][..]),
        };
        // Columns of small numbers are checked one after another, many rows at a time. Only a batch with a fault in it
        // is looked at row by row.
        let mut bounds = self.bounds;
        let mut possible = below(event, KINDS.len() as u32)
            & below(order, u32::from(MAX_ORDER) + 1)
            & migratetype.iter().fold(true, |fit, m| fit & ((*m).wrapping_add(1) as u32 <= 6))
            & below(context, CONTEXTS.len() as u32)
            & below(cpu, bounds.cpus);
        out.resize(n, BLANK);
        for (i, row) in out.iter_mut().enumerate() {
            let (time, pfn) = (time[i] as u64, pfn[i] as u64);
            possible &= (time >= bounds.time) & bounds.has_room(pfn, order[i], event[i]);
            bounds.time = time;
            *row = Event {
                time_ns: time,
                pfn,
                gfp: gfp[i] as u32,
                tid: tid.get(i).map_or(0, |&t| t as u32),
                cpu: cpu[i] as u32,
                kind: EventKind::ALL.get(event[i] as usize).copied().unwrap_or(BLANK.kind),
                order: order[i] as u8,
                migratetype: migratetype[i] as i8,
                context: Context::ALL.get(context[i] as usize).copied().unwrap_or(BLANK.context),
                irqs_off: irqs_off.get(i).copied().unwrap_or(false),
            };
        }
        if !possible {
            self.refuse(n)?;
        }
        self.bounds = bounds;
        Ok(())
    }

    /// Refuses the first of `n` rows that is damaged or cannot be true.
    #[cold]
    fn refuse(&self, n: usize) -> Result<(), TraceError> {
        let c = &self.chunks;
        let (time, pfn) = (c[TIME].as_i64(), c[PFN].as_i64());
        let mut bounds = self.bounds;
        for i in 0..n {
            let raw = Raw {
                time: time[i] as u64,
                pfn: pfn[i] as u64,
                cpu: c[CPU].as_i32()[i] as u32,
                event: c[EVENT].as_i32()[i],
                order: c[ORDER].as_i32()[i],
                migratetype: c[MIGRATETYPE].as_i32()[i],
                context: c[CONTEXT].as_i32()[i],
            };
            if !raw.is_possible(&bounds) {
                return Err(TraceError::Inconsistent {
                    file: self.table.label().to_owned(),
                    row: Some(self.row + i as u64),
                    what: raw.fault(&bounds, &self.names),
                });
            }
            bounds.time = raw.time;
        }
        Ok(())
    }
}

/// Returns whether every value is one of `0..end`.
fn below(values: &[i32], end: u32) -> bool {
    values.iter().fold(true, |fit, value| fit & ((*value as u32) < end))
}

/// Says why a reader would refuse `event` after one at `last_time`, as far as that does not depend on the host.
pub(crate) fn impossible(event: &Event, last_time: u64) -> Option<String> {
    let raw = Raw {
        time: event.time_ns,
        pfn: event.pfn,
        cpu: event.cpu,
        event: event.kind as i32,
        order: event.order.into(),
        migratetype: event.migratetype.into(),
        context: event.context as i32,
    };
    let bounds = Bounds { cpus: u32::MAX, memory_end: crate::snapshot::MAX_FRAMES, time: last_time };
    // Every event has a kind and a context with a name, so the tables of names stay unused.
    (!raw.is_possible(&bounds)).then(|| raw.fault(&bounds, &[Names::new(&KINDS), Names::new(&CONTEXTS)]))
}

impl Bounds {
    /// Returns whether a block can be where a row has it: within memory and aligned, or nowhere if the request failed.
    #[inline]
    fn has_room(&self, pfn: u64, order: i32, event: i32) -> bool {
        let frames = 1u64 << (order & 31);
        let placed = (pfn & (frames - 1) == 0) & (pfn.saturating_add(frames) <= self.memory_end);
        let failed = (pfn == FAILED) & (event == EventKind::Alloc as i32);
        placed | failed
    }
}

/// A row as the file has it.
#[derive(Clone, Copy, Debug)]
struct Raw {
    time: u64,
    pfn: u64,
    cpu: u32,
    event: i32,
    order: i32,
    migratetype: i32,
    context: i32,
}

impl Raw {
    /// Returns whether the row is valid, without branches that depend on it.
    fn is_possible(&self, bounds: &Bounds) -> bool {
        let order_fits = (0..=i32::from(MAX_ORDER)).contains(&self.order);
        (self.time >= bounds.time)
            & bounds.has_room(self.pfn, self.order, self.event)
            & (self.cpu < bounds.cpus)
            & (0..KINDS.len() as i32).contains(&self.event)
            & order_fits
            & (-1..=5).contains(&self.migratetype)
            & (0..CONTEXTS.len() as i32).contains(&self.context)
    }

    /// Says what is wrong, once something is.
    fn fault(&self, bounds: &Bounds, names: &[Names; 2]) -> String {
        let Raw { time, pfn, cpu, event, order, migratetype, context } = *self;
        if time < bounds.time {
            return format!("time goes backwards, from {} ns to {time} ns", bounds.time);
        }
        if cpu >= bounds.cpus {
            return format!("CPU {cpu} is not one of the {} that meta.json says the host had", bounds.cpus);
        }
        if !(0..KINDS.len() as i32).contains(&event) {
            return format!("there is no event called `{}`", names[0].unknown(event));
        }
        if !(0..=i32::from(MAX_ORDER)).contains(&order) {
            return format!("order {order} is above {MAX_ORDER}, the largest that Linux serves");
        }
        if !(-1..=5).contains(&migratetype) {
            return format!("there is no migratetype {migratetype}");
        }
        if !(0..CONTEXTS.len() as i32).contains(&context) {
            return format!("there is no context called `{}`", names[1].unknown(context));
        }
        if pfn == FAILED {
            return format!(
                "a `{}` event has no frame, and only an allocation can fail",
                KINDS[event as usize]
            );
        }
        if pfn & ((1u64 << order) - 1) != 0 {
            return format!("frame {pfn} cannot start a block of order {order}");
        }
        format!(
            "the block of order {order} at frame {pfn} lies beyond memory, which ends at frame {}",
            bounds.memory_end
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_names_are_those_of_the_types() {
        assert_eq!(KINDS, EventKind::ALL.map(EventKind::name));
        assert_eq!(CONTEXTS, Context::ALL.map(Context::name));
    }

    #[test]
    fn what_is_impossible_has_a_fault_and_the_rest_has_none() {
        let bounds = Bounds { cpus: 2, memory_end: 1024, time: 10 };
        let names = [Names::new(&KINDS), Names::new(&CONTEXTS)];
        let good = Raw { time: 10, pfn: 1016, cpu: 1, event: 1, order: 3, migratetype: -1, context: 3 };
        assert!(good.is_possible(&bounds));
        assert!(Raw { event: 0, pfn: FAILED, ..good }.is_possible(&bounds));
        for (bad, says) in [
            (Raw { time: 9, ..good }, "backwards"),
            (Raw { cpu: 2, ..good }, "CPU 2"),
            (Raw { event: 5, ..good }, "no event"),
            (Raw { event: -1, ..good }, "no event"),
            (Raw { order: 11, ..good }, "order 11"),
            (Raw { order: -1, ..good }, "order -1"),
            (Raw { order: i32::MIN, ..good }, "above 10"),
            (Raw { migratetype: 6, ..good }, "migratetype 6"),
            (Raw { context: 4, ..good }, "no context"),
            (Raw { pfn: FAILED, ..good }, "only an allocation"),
            (Raw { pfn: 1012, ..good }, "cannot start"),
            (Raw { pfn: 1024, ..good }, "beyond memory"),
            (Raw { pfn: FAILED - 7, ..good }, "beyond memory"),
        ] {
            assert!(!bad.is_possible(&bounds), "{bad:?}");
            let fault = bad.fault(&bounds, &names);
            assert!(fault.contains(says), "{bad:?}: {fault}");
        }
    }
}
