//! The zones' answer to a request, and their answer under other conditions.

use pageyard::Gfp;

use super::facts::{Asked, Facts, Zone};

/// A zone's answer to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It has a block for it.
    Served,
    /// Enough is free, in blocks that are too small.
    NoBlock,
    /// Too little is free above the watermark.
    Below,
}

/// The conditions assumed to be different.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Otherwise {
    /// Frames in per-CPU lists are on the free lists.
    pub lists_empty: bool,
    /// A zone protects nothing from requests that could use higher zones.
    pub no_protection: bool,
    /// Frames that are set aside for urgent requests are for everybody.
    pub no_highatomic: bool,
    /// Contiguous areas are for everybody.
    pub any_cma: bool,
    /// Every node is allowed.
    pub any_node: bool,
}

/// Returns the frames that a request finds above its watermark.
///
/// # Linux
/// `__zone_watermark_ok` with the `min` watermark. `__GFP_HIGH` halves it; a request that cannot wait besides may use a
/// quarter of that half, and the frames set aside for such requests if it asks for several.
fn above_the_watermark(zone: &Zone, asked: &Asked, otherwise: Otherwise) -> u64 {
    let urgent = asked.gfp.contains(Gfp::HIGH) && !asked.waits();
    let mut mark = zone.min;
    if asked.gfp.contains(Gfp::HIGH) {
        mark -= mark / 2;
        if urgent {
            mark -= mark / 4;
        }
    }
    if !otherwise.no_protection {
        mark += zone.protection.get(asked.highest().index()).copied().unwrap_or(0);
    }
    let mut free = zone.free;
    if otherwise.lists_empty {
        free += zone.pcp;
    }
    let reserve_is_its_own = urgent && asked.order > 0;
    if !otherwise.no_highatomic && !reserve_is_its_own {
        free = free.saturating_sub(zone.highatomic.min(zone.free));
    }
    if !otherwise.any_cma && !asked.gfp.contains(Gfp::MOVABLE) {
        free = free.saturating_sub(zone.cma);
    }
    free.saturating_sub(mark)
}

/// Finds out what a zone says.
#[must_use]
pub fn of_zone(zone: &Zone, asked: &Asked, otherwise: Otherwise) -> Answer {
    if above_the_watermark(zone, asked, otherwise) < asked.frames() {
        Answer::Below
    } else if asked.order > 0 && zone.suitable(asked.order) == 0 && !zone.blocks.is_empty() {
        Answer::NoBlock
    } else {
        Answer::Served
    }
}

/// Returns how many such requests a zone would serve one after the other, with nothing reclaimed, compacted or taken
/// from per-CPU lists in between.
#[must_use]
pub fn in_a_row(zone: &Zone, asked: &Asked) -> u64 {
    let by_watermark = above_the_watermark(zone, asked, Otherwise::default()) / asked.frames();
    let by_shape = if asked.order == 0 { u64::MAX } else { zone.suitable(asked.order) };
    by_watermark.min(by_shape)
}

/// Returns the zones that a request may use.
pub fn usable<'a>(
    facts: &'a Facts,
    asked: &'a Asked,
    otherwise: Otherwise,
) -> impl Iterator<Item = &'a Zone> {
    let highest = asked.highest();
    facts.zones.iter().filter(move |z| {
        let node = otherwise.any_node || asked.nodes.as_ref().is_none_or(|nodes| nodes.contains(&z.node));
        z.kind <= highest && z.managed > 0 && node
    })
}

/// Returns whether some zone would serve a request.
#[must_use]
pub fn served(facts: &Facts, asked: &Asked, otherwise: Otherwise) -> bool {
    usable(facts, asked, otherwise).any(|z| of_zone(z, asked, otherwise) == Answer::Served)
}
