//! The audit: every frame accounted for, every list checked against the frames and vice versa. Layer: top; it changes
//! nothing.

use crate::tag::{MAX_PAGE_ORDER, Tag};
use crate::zone::{Locked, Zone};
use pageyard_core::{AuditError, Census, Frames, Migratetype, Order, PAGEBLOCK_ORDER, Pfn, block};
use std::collections::HashSet;

/// Recounts all frames.
pub fn audit(zones: &[Zone]) -> Result<Census, AuditError> {
    let mut sum = Census::default();
    for zone in zones {
        let c = audit_zone(zone)?;
        sum.managed += c.managed;
        sum.free += c.free;
        sum.cached += c.cached;
        sum.allocated += c.allocated;
        sum.isolated += c.isolated;
    }
    Ok(sum)
}

struct Auditor<'a> {
    zone: &'a Zone,
}

impl Auditor<'_> {
    fn equal(&self, what: &'static str, pfn: Pfn, expected: u64, found: u64) -> Result<(), AuditError> {
        if expected == found {
            Ok(())
        } else {
            Err(AuditError { what, zone: self.zone.id, pfn, expected, found })
        }
    }

    fn holds(&self, what: &'static str, pfn: Pfn, holds: bool) -> Result<(), AuditError> {
        self.equal(what, pfn, 1, u64::from(holds))
    }
}

fn audit_zone(zone: &Zone) -> Result<Census, AuditError> {
    let a = Auditor { zone };
    let pcps: Vec<_> = zone.pcps.iter().map(|p| p.lock()).collect();
    let locked = zone.lock();
    let mut listed = HashSet::new();
    for (cpu, pages) in pcps.iter().enumerate() {
        let mut frames = 0;
        for pfn in pages.lists.blocks() {
            let Tag::Cached(order, _) = zone.tag(pfn) else {
                return Err(AuditError {
                    what: "a block in a per-CPU list is tagged otherwise",
                    zone: zone.id,
                    pfn,
                    expected: cpu as u64,
                    found: 0,
                });
            };
            a.holds("a block is in two per-CPU lists", pfn, listed.insert(pfn))?;
            frames += order.frames().0;
        }
        a.equal("a CPU's count of cached frames", zone.span.start, pages.lists.held(), frames)?;
    }
    audit_owners(&a, pcps.len())?;
    let on_lists = audit_lists(&a, &locked)?;

    let start = zone.span.start;
    let mut census = Census::default();
    let (mut buddies, mut cached, mut highatomic, mut lent) = (0u64, 0usize, 0u64, 0u64);
    let mut at = start;
    while at < zone.span.end() {
        let tag = zone.tag(at);
        let frames = tag.frames();
        a.holds("a block reaches past its zone", at, at + frames <= zone.span.end())?;
        if frames.0 > 1 {
            a.holds("a block is misaligned", at, at.0.is_multiple_of(frames.0))?;
            for inside in at.0 + 1..at.0 + frames.0 {
                a.holds(
                    "a frame inside a block is tagged otherwise",
                    Pfn(inside),
                    zone.tag(Pfn(inside)) == Tag::Inside,
                )?;
            }
        }
        match tag {
            Tag::Hole => {}
            Tag::Inside => a.holds("a frame belongs to no block", at, false)?,
            Tag::Buddy(order, m) => {
                buddies += 1;
                if m == Migratetype::Isolate {
                    census.isolated += frames;
                } else {
                    census.free += frames;
                }
                match m {
                    Migratetype::HighAtomic => highatomic += frames.0,
                    Migratetype::Cma => lent += frames.0,
                    _ => {}
                }
                audit_merged(&a, at, order, m)?;
            }
            Tag::Cached(..) => {
                cached += 1;
                census.cached += frames;
            }
            Tag::Late(_) => census.cached += frames,
            Tag::Allocated(..) => census.allocated += frames,
        }
        if tag != Tag::Hole {
            census.managed += frames;
        }
        at = at + frames;
    }
    a.equal("blocks on the free lists", start, on_lists, buddies)?;
    a.equal("blocks in per-CPU lists", start, listed.len() as u64, cached as u64)?;
    a.equal("free frames", start, zone.free.get(), census.free.0)?;
    a.equal("free frames of the high-atomic reserve", start, zone.free_highatomic.get(), highatomic)?;
    a.equal("free frames of lent areas", start, zone.free_lent.get(), lent)?;
    a.equal("managed frames", start, zone.span.managed.0, census.managed.0)?;
    Ok(census)
}

/// An owner is a CPU, and its pageblock is whole and not yet back in the zone.
fn audit_owners(a: &Auditor<'_>, cpus: usize) -> Result<(), AuditError> {
    let zone = a.zone;
    for pageblock in zone.pageblocks.managed() {
        let pfn = pageblock.start().max(zone.span.start);
        let Some(cpu) = zone.owners.of(pfn) else { continue };
        a.holds("a pageblock's owner is no CPU", pfn, cpu < cpus)?;
        let whole = pfn.is_aligned(PAGEBLOCK_ORDER) && pfn + PAGEBLOCK_ORDER.frames() <= zone.span.end();
        a.holds("a part of a pageblock has an owner", pfn, whole)?;
        let free = block::holders(pfn, MAX_PAGE_ORDER)
            .any(|b| matches!(zone.tag(b.pfn), Tag::Buddy(order, _) if order == b.order && order >= PAGEBLOCK_ORDER));
        a.holds("a pageblock that is free in its zone has an owner", pfn, !free)?;
    }
    Ok(())
}

/// Walks every free list; returns how many blocks there are.
fn audit_lists(a: &Auditor<'_>, locked: &Locked<'_>) -> Result<u64, AuditError> {
    let zone = a.zone;
    let mut total = 0;
    for order in Order::ZERO.up_to(MAX_PAGE_ORDER) {
        for m in Migratetype::ALL {
            let lists = &locked.inner.lists;
            let mut blocks = 0;
            for frame in lists.iter(order, m) {
                let pfn = zone.span.start + Frames(frame);
                a.holds(
                    "a block on a free list is tagged otherwise",
                    pfn,
                    zone.tag(pfn) == Tag::Buddy(order, m),
                )?;
                blocks += 1;
            }
            a.equal("the length of a free list", zone.span.start, lists.len(order, m), blocks)?;
            let gauge = zone.blocks[order.index()][m.index()].get();
            a.equal("the gauge of a free list", zone.span.start, gauge, blocks)?;
            total += blocks;
        }
    }
    Ok(total)
}

/// A free block whose buddy is free as well should have merged with it.
fn audit_merged(a: &Auditor<'_>, pfn: Pfn, order: Order, m: Migratetype) -> Result<(), AuditError> {
    if order >= PAGEBLOCK_ORDER {
        // Blocks of different types stay apart, and changing a pageblock's type does not merge its blocks.
        return Ok(());
    }
    let buddy = block::buddy(pfn, order);
    let unmerged = matches!(a.zone.tag(buddy), Tag::Buddy(o, other) if o == order && (other == m || order < PAGEBLOCK_ORDER));
    a.holds("two free buddies have not merged", pfn, !unmerged)
}
