//! Live blocks as Linux writes them.

use pageyard_core::migratetype::Migratetype;
use pageyard_core::units::{BlockId, PAGEBLOCK_ORDER};
use std::io::{self, Write};
use std::time::Duration;

/// Writes one block.
pub(super) fn write(
    out: &mut impl Write,
    block: BlockId,
    migratetype: Migratetype,
    at: Duration,
    stack: &[String],
) -> io::Result<()> {
    let (pid, kind) = (std::process::id(), migratetype.name());
    let (order, pfn, nanos) = (block.order, block.pfn.0, at.as_nanos());
    writeln!(out, "Page allocated via order {order}, mask 0x0(), pid {pid}, tgid {pid}, ts {nanos} ns")?;
    let pageblock = pfn / PAGEBLOCK_ORDER.frames().0;
    writeln!(out, "PFN {pfn:#x} type {kind} Block {pageblock} type {kind} Flags 0x0()")?;
    for function in stack {
        // A reader takes the name up to the first plus sign.
        writeln!(out, " {}", function.replace('+', "&"))?;
    }
    writeln!(out)
}
