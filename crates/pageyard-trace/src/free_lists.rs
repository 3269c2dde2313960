//! The free lists and per-CPU lists of a host in their order, when a recording started.

use crate::error::TraceError;
use crate::event::MAX_ORDER;
use crate::pq::{ColumnSpec, Kind, Table};
use crate::snapshot::MAX_FRAMES;
use crate::source::Input;
use std::collections::HashSet;

/// The file that holds them.
pub(crate) const FREE_LISTS: &str = "free_lists.parquet";

/// Rows decoded at a time.
const BATCH: u64 = 16 << 10;

/// A free block on a list. Those of one list follow each other in its order, the one to be taken next first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FreeBlock {
    /// Its first frame.
    pub pfn: u64,
    /// Its order.
    pub order: u8,
    /// The list's type, by the kernel's number.
    pub migratetype: i8,
    /// The CPU whose list it is on; `None` for a zone's free list.
    pub cpu: Option<u32>,
}

impl FreeBlock {
    pub(crate) fn columns() -> Vec<ColumnSpec> {
        vec![
            ColumnSpec { name: "pfn", kind: Kind::Int(64, false) },
            ColumnSpec { name: "order", kind: Kind::Int(8, false) },
            ColumnSpec { name: "migratetype", kind: Kind::Int(8, true) },
            ColumnSpec { name: "cpu", kind: Kind::Int(32, true) },
        ]
    }

    /// Reads all blocks.
    pub(crate) fn read(input: Input) -> Result<Vec<FreeBlock>, TraceError> {
        let table = Table::open(input, FreeBlock::columns())?;
        let (mut blocks, mut so_far) = (Vec::new(), HashSet::new());
        let (mut row, mut index) = (0, 0);
        while let Some(group) = table.group(index) {
            index += 1;
            let mut chunks: [_; 4] = std::array::from_fn(|i| table.chunk(group, i));
            let end = row + group.rows;
            while row < end {
                let n = (end - row).min(BATCH) as usize;
                for (i, chunk) in chunks.iter_mut().enumerate() {
                    chunk.read(n, table.label(), row, table.column_name(i))?;
                }
                let [pfn, order, migratetype, cpu] = &chunks;
                for i in 0..n {
                    let block = FreeBlock {
                        pfn: pfn.as_i64()[i] as u64,
                        order: u8::try_from(order.as_i32()[i]).unwrap_or(u8::MAX),
                        migratetype: i8::try_from(migratetype.as_i32()[i]).unwrap_or(-1),
                        cpu: u32::try_from(cpu.as_i32()[i]).ok(),
                    };
                    block.check(&mut so_far).map_err(|what| TraceError::Inconsistent {
                        file: table.label().to_owned(),
                        row: Some(row + i as u64),
                        what,
                    })?;
                    blocks.push(block);
                }
                row += n as u64;
            }
        }
        Ok(blocks)
    }

    /// Says what is wrong with a block that follows others, which begin at the frames `so_far`.
    pub(crate) fn check(&self, so_far: &mut HashSet<u64>) -> Result<(), String> {
        let FreeBlock { pfn, order, .. } = *self;
        if order > MAX_ORDER {
            return Err(format!("order {order} is above {MAX_ORDER}, the largest that Linux serves"));
        }
        if pfn > MAX_FRAMES || pfn & ((1 << order) - 1) != 0 {
            return Err(format!("no block of order {order} begins at frame {pfn}"));
        }
        match so_far.insert(pfn) {
            true => Ok(()),
            false => Err(format!("the block at frame {pfn} is on two lists")),
        }
    }
}
