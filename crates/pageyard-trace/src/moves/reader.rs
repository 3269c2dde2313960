//! Reading `moves.parquet`, a batch at a time, and refusing impossible rows.

use crate::error::TraceError;
use crate::event::MAX_ORDER;
use crate::pq::{ChunkReader, Kind, Names, Table};
use crate::snapshot::MAX_FRAMES;
use crate::source::Input;

use super::{Move, MoveKind, columns};

/// Rows decoded at a time.
const BATCH: u64 = 16 << 10;

/// Reads what compaction and migration did, in order.
pub struct MoveReader {
    table: Table,
    names: Names,
    cpus: u32,
    chunks: Vec<ChunkReader>,
    next_group: usize,
    row: u64,
    group_end: u64,
    time: u64,
    fault: Option<TraceError>,
}

impl MoveReader {
    pub(crate) fn open(input: Input, cpus: u32) -> Result<MoveReader, TraceError> {
        let table = Table::open(input, columns())?;
        let Kind::Names(names) = table.kind(3).clone() else {
            unreachable!("the fourth column is the event")
        };
        Ok(MoveReader {
            table,
            names,
            cpus,
            chunks: Vec::new(),
            next_group: 0,
            row: 0,
            group_end: 0,
            time: 0,
            fault: None,
        })
    }

    /// Returns how many rows there are.
    #[must_use]
    pub fn rows(&self) -> u64 {
        self.table.rows()
    }

    /// Replaces `out` by the next rows; `false` when there are none left.
    ///
    /// # Errors
    /// At the first row that is damaged or cannot be true; asking again gives the same error.
    pub fn next_batch(&mut self, out: &mut Vec<Move>) -> Result<bool, TraceError> {
        out.clear();
        if let Some(fault) = &self.fault {
            return Err(fault.clone());
        }
        match self.read_batch(out) {
            Ok(()) => Ok(!out.is_empty()),
            Err(fault) => {
                out.clear();
                self.fault = Some(fault.clone());
                Err(fault)
            }
        }
    }

    fn read_batch(&mut self, out: &mut Vec<Move>) -> Result<(), TraceError> {
        while self.row == self.group_end {
            let Some(group) = self.table.group(self.next_group) else { return Ok(()) };
            self.next_group += 1;
            self.group_end += group.rows;
            self.chunks = (0..10).map(|i| self.table.chunk(group, i)).collect();
        }
        let n = (self.group_end - self.row).min(BATCH) as usize;
        for (i, chunk) in self.chunks.iter_mut().enumerate() {
            chunk.read(n, self.table.label(), self.row, self.table.column_name(i))?;
        }
        let long = |column: usize| self.chunks[column].as_i64();
        let word = |column: usize| self.chunks[column].as_i32();
        for i in 0..n {
            let inconsistent = |what| TraceError::Inconsistent {
                file: self.table.label().to_owned(),
                row: Some(self.row + i as u64),
                what,
            };
            let Some(&kind) = usize::try_from(word(3)[i]).ok().and_then(|k| MoveKind::ALL.get(k)) else {
                return Err(inconsistent(format!(
                    "there is no event called `{}`",
                    self.names.unknown(word(3)[i])
                )));
            };
            let Ok(order) = u8::try_from(word(6)[i]) else {
                return Err(inconsistent(format!("order {} is above {MAX_ORDER}", word(6)[i])));
            };
            let row = Move {
                time_ns: long(0)[i] as u64,
                cpu: word(1)[i] as u32,
                tid: word(2)[i] as u32,
                kind,
                pfn: long(4)[i] as u64,
                to: long(5)[i] as u64,
                order,
                scanned: word(7)[i] as u32,
                done: word(8)[i] as u32,
                failed: word(9)[i] as u32,
            };
            row.check(self.time, self.cpus).map_err(inconsistent)?;
            self.time = row.time_ns;
            out.push(row);
        }
        self.row += n as u64;
        Ok(())
    }
}

impl Move {
    /// Says what is wrong with a row that follows one at `time`.
    pub(crate) fn check(&self, time: u64, cpus: u32) -> Result<(), String> {
        let Move { time_ns, cpu, pfn, to, order, .. } = *self;
        if time_ns < time {
            return Err(format!("time goes backwards, from {time} ns to {time_ns} ns"));
        }
        if cpu >= cpus {
            return Err(format!("CPU {cpu} is not one of the {cpus} that meta.json says the host had"));
        }
        if order > MAX_ORDER {
            return Err(format!("order {order} is above {MAX_ORDER}, the largest that Linux serves"));
        }
        if pfn > MAX_FRAMES || to > MAX_FRAMES {
            return Err(format!("frame {} lies beyond 256 TiB of memory", pfn.max(to)));
        }
        if self.kind == MoveKind::Move && (pfn | to) & ((1 << order) - 1) != 0 {
            return Err(format!("a block of order {order} cannot move from frame {pfn} to frame {to}"));
        }
        Ok(())
    }
}
