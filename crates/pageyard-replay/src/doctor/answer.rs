//! The zones' answer to a request, and their answer under other conditions.

use pageyard::Gfp;

use super::facts::{Asked, Facts, Zone};

/// A zone's answer to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It has a block for it.
    Served,
    /// Enough is free, in blocks that are too small, or that lie on lists of types that it may not take.
    NoBlock,
    /// Too little is free above the watermark.
    Below,
    /// Its watermarks or its blocks are not known, and nothing else stands in the way.
    Unknown,
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

/// Returns the watermark that a request has to leave free, without what the zone protects.
///
/// # Linux
/// `__zone_watermark_ok` with the `min` watermark. `__GFP_HIGH` halves it; a request that cannot wait besides may use a
/// quarter of that half, and a single frame of it ignores the boost (`zone_watermark_fast`). The last attempt before a
/// process is killed is made with the `high` watermark (`__alloc_pages_may_oom`).
#[must_use]
pub fn mark(zone: &Zone, asked: &Asked) -> u64 {
    if asked.killed {
        return zone.high;
    }
    let mut mark = zone.min;
    if asked.is_urgent() && asked.order == 0 {
        mark = mark.saturating_sub(zone.boost);
    }
    if asked.gfp.contains(Gfp::HIGH) {
        mark -= mark / 2;
        if asked.is_urgent() {
            mark -= mark / 4;
        }
    }
    mark
}

/// Returns the frames that a request finds above its watermark.
///
/// # Linux
/// `__zone_watermark_ok`
fn above_the_watermark(facts: &Facts, zone: &Zone, asked: &Asked, otherwise: Otherwise) -> u64 {
    let mut mark = mark(zone, asked);
    if !otherwise.no_protection {
        mark = mark.saturating_add(facts.kept_from(zone, asked.highest()));
    }
    usable_frames(zone, asked, otherwise).saturating_sub(mark)
}

/// Returns a zone's free frames that are not set aside for others.
#[must_use]
pub fn usable_frames(zone: &Zone, asked: &Asked, otherwise: Otherwise) -> u64 {
    let mut free = zone.free;
    if otherwise.lists_empty {
        free = free.saturating_add(zone.pcp);
    }
    if !otherwise.no_highatomic && !asked.has_reserves() {
        free = free.saturating_sub(zone.highatomic.min(zone.free));
    }
    if !otherwise.any_cma && !asked.gfp.contains(Gfp::MOVABLE) {
        free = free.saturating_sub(zone.cma);
    }
    free
}

/// Returns the letters of the types whose lists a request may not take from.
fn closed(asked: &Asked, otherwise: Otherwise) -> Vec<char> {
    let mut closed = vec!['I'];
    let reserve_is_its_own = asked.is_urgent() && asked.order > 0;
    if !otherwise.any_cma && !asked.gfp.contains(Gfp::MOVABLE) {
        closed.push('C');
    }
    if !otherwise.no_highatomic && !reserve_is_its_own {
        closed.push('H');
    }
    closed
}

/// Returns how many blocks for a request a zone's lists make.
#[must_use]
pub fn blocks(zone: &Zone, asked: &Asked, otherwise: Otherwise) -> u64 {
    zone.suitable(asked.order, &closed(asked, otherwise))
}

/// Finds out what a zone says.
#[must_use]
pub fn of_zone(facts: &Facts, zone: &Zone, asked: &Asked, otherwise: Otherwise) -> Answer {
    let is_unknown = zone.blocks.is_empty() && asked.order > 0;
    let has_block = zone.blocks.is_empty() || blocks(zone, asked, otherwise) > 0;
    // Frames in lists make blocks that are not known.
    let has_block = has_block || otherwise.lists_empty && asked.order == 0 && zone.pcp > 0;
    let has_block = has_block && (zone.blocks.is_empty() || !fails_by_order(facts, zone, asked));
    match () {
        () if !zone.has_marks && has_block => Answer::Unknown,
        () if !zone.has_marks => Answer::NoBlock,
        () if above_the_watermark(facts, zone, asked, otherwise) < asked.frames() => Answer::Below,
        () if !has_block => Answer::NoBlock,
        () if is_unknown => Answer::Unknown,
        () => Answer::Served,
    }
}

/// Returns whether the older check refuses a request: of the free frames those of each smaller order do not count, and
/// half of the mark is enough for the rest.
///
/// # Linux
/// `__zone_watermark_ok` before 4.4
fn fails_by_order(facts: &Facts, zone: &Zone, asked: &Asked) -> bool {
    if !zone.has_marks || !facts.checks_each_order {
        return false;
    }
    let mut mark = mark(zone, asked);
    let mut free = usable_frames(zone, asked, Otherwise::default()).saturating_sub(asked.frames() - 1);
    let smaller = zone.blocks.iter().enumerate().take(usize::from(asked.order));
    smaller.into_iter().any(|(order, n)| {
        free = free.saturating_sub(n << order);
        mark /= 2;
        free <= mark
    })
}

/// Returns how many such requests a zone would serve one after the other, with nothing reclaimed, compacted or taken
/// from per-CPU lists in between.
#[must_use]
pub fn in_a_row(facts: &Facts, zone: &Zone, asked: &Asked) -> u64 {
    let plain = Otherwise::default();
    let by_watermark = above_the_watermark(facts, zone, asked, plain) / asked.frames();
    let by_shape = if asked.order == 0 { u64::MAX } else { blocks(zone, asked, plain) };
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
        // Of a line that was cut, what the zone has is not known.
        z.kind <= highest && (z.managed > 0 || z.free > 0) && node
    })
}

/// Returns whether some zone would serve a request.
#[must_use]
pub fn served(facts: &Facts, asked: &Asked, otherwise: Otherwise) -> bool {
    usable(facts, asked, otherwise).any(|z| of_zone(facts, z, asked, otherwise) == Answer::Served)
}

/// Returns whether a zone that refuses a request would not, as far as is known, if something were otherwise.
#[must_use]
pub fn opened_by(facts: &Facts, asked: &Asked, otherwise: Otherwise) -> bool {
    let refuses = |answer| matches!(answer, Answer::Below | Answer::NoBlock);
    usable(facts, asked, otherwise).any(|z| {
        refuses(of_zone(facts, z, asked, Otherwise::default()))
            && !refuses(of_zone(facts, z, asked, otherwise))
    })
}
