//! The texts of `/proc/buddyinfo`, `/proc/pagetypeinfo`, `/proc/zoneinfo` and `/proc/vmstat`, in Linux's format.
//!
//! Each is a wrapper around an allocator that prints itself. What an engine has no notion of (the page cache's
//! counters, say) is left out; every line that is printed is printed as Linux prints it.

use crate::allocator::PageAllocator;
use crate::metrics::suitable_blocks;
use crate::migratetype::Migratetype;
use crate::stats::ZoneStats;
use crate::units::{CpuId, PAGEBLOCK_ORDER, ZoneId};
use core::fmt;

/// Orders that Linux's texts have columns for: 0 to 10. Larger free blocks are counted as blocks of order 10.
pub const LINUX_ORDERS: usize = 11;

/// The types that the texts have columns for: those of a kernel without `CONFIG_CMA`, as the recorded hosts are.
const COLUMNS: [Migratetype; 5] = [
    Migratetype::Unmovable,
    Migratetype::Movable,
    Migratetype::Reclaimable,
    Migratetype::HighAtomic,
    Migratetype::Isolate,
];

/// Above this `/proc/pagetypeinfo` stops counting, because it holds the zone lock meanwhile.
const PAGETYPEINFO_LIMIT: u64 = 100_000;

/// Returns the row of `/proc/buddyinfo` for a row of free blocks.
#[must_use]
pub fn linux_orders(free_blocks: &[u64]) -> [u64; LINUX_ORDERS] {
    let last = LINUX_ORDERS - 1;
    core::array::from_fn(
        |order| {
            if order < last { free_blocks[order] } else { suitable_blocks(free_blocks, last) }
        },
    )
}

fn zones<A: PageAllocator + ?Sized>(a: &A) -> impl Iterator<Item = (ZoneId, ZoneStats)> {
    (0..).map(ZoneId).map_while(|id| Some((id, a.zone_stats(id)?)))
}

/// Prints `/proc/buddyinfo`: free blocks by zone and order.
pub struct Buddyinfo<'a, A: ?Sized>(pub &'a A);

impl<A: PageAllocator + ?Sized> fmt::Display for Buddyinfo<'_, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (_, z) in zones(self.0) {
            write!(f, "Node {}, zone {:>8} ", z.span.node, z.span.kind)?;
            for n in linux_orders(&z.blocks_by_order()) {
                write!(f, "{n:6} ")?;
            }
            writeln!(f)?;
        }
        Ok(())
    }
}

/// Prints `/proc/pagetypeinfo`: free blocks by zone, migratetype and order, and pageblocks by migratetype.
pub struct Pagetypeinfo<'a, A: ?Sized>(pub &'a A);

impl<A: PageAllocator + ?Sized> fmt::Display for Pagetypeinfo<'_, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "Page block order: {PAGEBLOCK_ORDER}")?;
        writeln!(f, "Pages per block:  {}\n", PAGEBLOCK_ORDER.frames())?;
        write!(f, "{:<43} ", "Free pages count per migrate type at order")?;
        for order in 0..LINUX_ORDERS {
            write!(f, "{order:6} ")?;
        }
        writeln!(f)?;
        for (_, z) in zones(self.0) {
            for m in COLUMNS {
                write!(f, "Node {:4}, zone {:>8}, type {m:>12} ", z.span.node, z.span.kind)?;
                for n in linux_orders(&z.free_blocks.map(|by_type| by_type[m.index()])) {
                    let more = if n > PAGETYPEINFO_LIMIT { ">" } else { "" };
                    write!(f, "{more}{:6} ", n.min(PAGETYPEINFO_LIMIT))?;
                }
                writeln!(f)?;
            }
        }
        write!(f, "\n{:<23}", "Number of blocks type ")?;
        for m in COLUMNS {
            write!(f, "{m:>12} ")?;
        }
        writeln!(f)?;
        for (_, z) in zones(self.0) {
            write!(f, "Node {}, zone {:>8} ", z.span.node, z.span.kind)?;
            for m in COLUMNS {
                write!(f, "{:12} ", z.pageblocks[m.index()])?;
            }
            writeln!(f)?;
        }
        Ok(())
    }
}

/// Prints `/proc/zoneinfo`: sizes, watermarks, reserves and per-CPU lists of each zone.
///
/// The node's page-cache counters and the zones that do not exist are left out.
pub struct Zoneinfo<'a, A: ?Sized>(pub &'a A);

impl<A: PageAllocator + ?Sized> fmt::Display for Zoneinfo<'_, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (id, z) in zones(self.0) {
            let (span, marks) = (z.span, z.watermarks);
            writeln!(f, "Node {}, zone {:>8}", span.node, span.kind)?;
            writeln!(f, "  pages free     {}", z.free)?;
            for (name, frames) in [
                ("boost", z.boost),
                ("min", marks.min),
                ("low", marks.low),
                ("high", marks.high),
                ("promo", marks.promo),
                ("spanned", span.spanned),
                ("present", span.present),
                ("managed", span.managed),
            ] {
                // The kernel prints the marks with the boost in them.
                let boost = if matches!(name, "min" | "low" | "high" | "promo") { z.boost.0 } else { 0 };
                writeln!(f, "        {name:<8} {}", frames.0 + boost)?;
            }
            writeln!(f, "        cma      0")?;
            write!(f, "        protection: (")?;
            for (i, row) in z.protection.iter().enumerate() {
                write!(f, "{}{row}", if i == 0 { "" } else { ", " })?;
            }
            writeln!(f, ")\n      {:<12} {}", "nr_free_pages", z.free)?;
            writeln!(f, "  pagesets")?;
            for cpu in 0.. {
                let Some(p) = self.0.pcp_stats(id, CpuId(cpu)) else { break };
                writeln!(f, "    cpu: {cpu}")?;
                for (name, value) in [
                    ("count:", p.count),
                    ("high:", p.high),
                    ("batch:", p.batch),
                    ("high_min:", p.high_min),
                    ("high_max:", p.high_max),
                ] {
                    writeln!(f, "              {name:<9} {value}")?;
                }
            }
            writeln!(f, "  start_pfn:           {}", span.start)?;
        }
        Ok(())
    }
}

/// Prints `/proc/vmstat`: the counters, one a line.
pub struct Vmstat<'a, A: ?Sized>(pub &'a A);

impl<A: PageAllocator + ?Sized> fmt::Display for Vmstat<'_, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let free: u64 = zones(self.0).map(|(_, z)| z.free.0).sum();
        writeln!(f, "nr_free_pages {free}")?;
        for (counter, value) in self.0.stats().iter() {
            writeln!(f, "{} {value}", counter.name())?;
        }
        Ok(())
    }
}
