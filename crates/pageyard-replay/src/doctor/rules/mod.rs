//! The rules: from what is known of a failure to what may have caused it.
//!
//! A rule asks where it can what the zones would have answered if something had been otherwise. Its weight is then near 1; a rule
//! that can only say who holds the memory takes the share that is held.

mod limits;
mod memory;
mod reserve;
mod shape;

use super::answer::{self, Answer, Otherwise, of_zone, usable};
use super::cause::Finding;
use super::facts::{Asked, Facts, Zone};

/// A failure, or a request that might be made, and what all rules need of it.
pub(super) struct Case<'a> {
    /// Whether it was refused: then something stood in its way, whatever the numbers say.
    pub(super) has_failed: bool,
    pub(super) asked: &'a Asked,
    pub(super) facts: &'a Facts,
    /// The zones that it may use, each with its answer.
    pub(super) zones: Vec<(&'a Zone, Answer)>,
}

impl<'a> Case<'a> {
    /// A request that was refused.
    pub(super) fn failed(asked: &'a Asked, facts: &'a Facts) -> Case<'a> {
        Case { has_failed: true, ..Case::tried(asked, facts) }
    }

    /// A request that might be made.
    pub(super) fn tried(asked: &'a Asked, facts: &'a Facts) -> Case<'a> {
        let plain = Otherwise::default();
        let zones = usable(facts, asked, plain).map(|z| (z, of_zone(z, asked, plain))).collect();
        Case { has_failed: false, asked, facts, zones }
    }

    /// Returns a sum over the zones that the request may use.
    fn sum(&self, of: fn(&Zone) -> u64) -> u64 {
        self.zones.iter().map(|(z, _)| of(z)).sum()
    }

    /// Says whether some zone has a block for it as it is.
    pub(super) fn is_served(&self) -> bool {
        self.zones.iter().any(|(_, answer)| *answer == Answer::Served)
    }

    /// Says whether some zone has enough, in blocks that are too small.
    fn is_fragmented(&self) -> bool {
        self.zones.iter().any(|(_, answer)| *answer == Answer::NoBlock)
    }

    /// Returns how many such requests would be served one after the other.
    pub(super) fn in_a_row(&self) -> u64 {
        self.zones.iter().map(|(z, _)| answer::in_a_row(z, self.asked)).fold(0, u64::saturating_add)
    }

    /// Returns the free frames of the zones that it may use as a share of all their frames.
    fn free_share(&self) -> f64 {
        share(self.sum(|z| z.free), self.sum(|z| z.managed))
    }
}

fn share(part: u64, of: u64) -> f64 {
    (part as f64 / of.max(1) as f64).clamp(0.0, 1.0)
}

/// The free memory, as a share, below which a request of several frames fails for lack of it, whatever its shape: the larger part
/// of it is watermarks.
const SCARCE: f64 = 0.03;

/// A rule.
type Rule = fn(&Case<'_>) -> Option<Finding>;

/// Every rule.
const RULES: [Rule; 12] = [
    limits::node,
    limits::low_zone,
    limits::protection,
    reserve::highatomic,
    reserve::contiguous,
    reserve::low,
    memory::lists,
    memory::used_up,
    shape::defrag_mode,
    shape::huge_pages,
    shape::unmovable,
    shape::movable,
];

/// The weight below which a cause is not worth a paragraph.
const LEAST: f64 = 0.05;

/// Finds why a request that is served now will be refused before long.
pub(super) fn at_risk(case: &Case<'_>) -> Option<Finding> {
    reserve::at_risk(case)
}

/// Finds what may have caused a failure, the likeliest first.
pub(super) fn findings(case: &Case<'_>) -> Vec<Finding> {
    let mut all: Vec<_> = RULES.iter().filter_map(|rule| rule(case)).filter(|f| f.weight >= LEAST).collect();
    all.sort_by(|a, b| b.weight.total_cmp(&a.weight).then(a.cause.cmp(&b.cause)));
    all
}
